"""Ranks as SQL: distances of vectors, BM25 scores of text, and reciprocal rank fusion of both.

`cast` binds a value and gives the SQL for it, as a type of the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quire.lake.read.ranking.text_statistics import Statistics, tokenized

METRICS = ("l2", "cosine", "dot")
K1, B = 1.2, 0.75
RRF_K = 60.0
"""How far down ranks still count, if it is not said otherwise."""

Cast = Callable[[object, str], str]


def distance(metric: str, column: str, vector: Sequence[float] | None, size: int, cast: Cast) -> str:
    """SQL for a distance, in double precision; null where a vector is null."""
    kind = f"DOUBLE[{size}]"
    left, right = f"CAST({column} AS {kind})", cast(vector, kind)
    if metric == "l2":
        return f"array_distance({left}, {right})"
    if metric == "dot":
        return f"(1.0 - array_inner_product({left}, {right}))"
    # A vector of zeros has no direction: it is like no other.
    found = f"array_cosine_distance({left}, {right})"
    return f"CASE WHEN isnan({found}) THEN 1.0 ELSE {found} END"


def bm25(column: str, wanted: Sequence[str], found: Statistics, cast: Cast) -> str:
    """SQL for a BM25 score; 0 where nothing matches."""
    parts, text = [], tokenized(column)
    length = f"{K1 * (1 - B)!r} + {K1 * B!r} * len({text}) / {cast(found.mean, 'DOUBLE')}"
    for token in wanted:
        weight = cast(idf(found.rows, found.frequency[token]), "DOUBLE")
        count = f"len(list_filter({text}, lambda t: t = {cast(token, 'VARCHAR')}))"
        parts.append(f"{weight} * {count} * {K1 + 1!r} / ({count} + {length})")
    return f"coalesce({' + '.join(parts)}, 0.0)"


def idf(rows: int, frequency: int) -> float:
    """The weight of a token that `frequency` of so many rows have."""
    return math.log(1 + (rows - frequency + 0.5) / (frequency + 0.5))


@dataclass(frozen=True)
class Arm:
    """One ranking that is fused with others: a distance, of which less is better, or a score above 0."""

    term: str
    near: bool
    identity: str
    """What decides between equals, and what several rows of one thing have in common."""

    def share(self, k: str) -> str:
        """SQL for what a row gets for its rank; nothing where it has none."""
        has_rank = f"{self.term} IS NOT NULL" if self.near else f"{self.term} > 0"
        order = f"{has_rank} DESC NULLS LAST, {self.term} {'ASC' if self.near else 'DESC'}, {self.identity}"
        return f"CASE WHEN {has_rank} THEN 1.0 / ({k} + dense_rank() OVER (ORDER BY {order})) ELSE 0.0 END"


def fused(arms: Sequence[Arm], k: str) -> str:
    """SQL for a reciprocal rank fusion, as a column over all rows."""
    return f"({' + '.join(arm.share(k) for arm in arms)})"
