"""Ranks as SQL: distances of vectors, BM25 scores of text, and reciprocal rank fusion of both.

`cast` binds a value and gives the SQL for it, as a type of the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from quire.lake.read.ranking.text_statistics import Statistics, tokenized

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def score(text: Sequence[str], wanted: Sequence[str], found: Statistics) -> float:
    """The same BM25 score of the tokens of one text."""
    length, total = K1 * (1 - B) + K1 * B * len(text) / found.mean, 0.0
    for token in wanted:
        count = text.count(token)
        if count:
            total += idf(found.rows, found.frequency[token]) * count * (K1 + 1) / (count + length)
    return total


def distances(metric: str, stored: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same distances of vectors, which are rows, to one."""
    found: NDArray[np.float64]
    # Products are summed up row by row, so that equal vectors are at equal distances wherever they stand.
    if metric == "l2":
        found = np.sqrt(((stored - wanted) ** 2).sum(axis=1))
    elif metric == "dot":
        found = 1.0 - (stored * wanted).sum(axis=1)
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            lengths = np.sqrt((stored**2).sum(axis=1)) * np.sqrt((wanted**2).sum())
            near = np.clip((stored * wanted).sum(axis=1) / lengths, -1.0, 1.0)
        found = np.where(lengths > 0, 1.0 - near, 1.0)
    return found


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
    worst: str | None = None
    """SQL for the last number that has a rank, if not all have."""

    def share(self, k: str) -> str:
        """SQL for what a row gets for its rank; nothing where it has none."""
        has_rank = f"{self.term} IS NOT NULL" if self.near else f"{self.term} > 0"
        if self.worst is not None:
            has_rank = f"({has_rank} AND {self.term} {'<=' if self.near else '>='} {self.worst})"
        order = f"{has_rank} DESC NULLS LAST, {self.term} {'ASC' if self.near else 'DESC'}, {self.identity}"
        return f"CASE WHEN {has_rank} THEN 1.0 / ({k} + dense_rank() OVER (ORDER BY {order})) ELSE 0.0 END"


def fused(arms: Sequence[Arm], k: str) -> str:
    """SQL for a reciprocal rank fusion, as a column over all rows."""
    return f"({' + '.join(arm.share(k) for arm in arms)})"
