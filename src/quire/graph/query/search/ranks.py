"""Distances, matches and scores of rows that were read, without SQL: the same numbers, for a few hundred rows faster.

Texts that are not ASCII are left to the SQL, as are queries that are not: their tokens need its tables of letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from quire.graph.language import plan
from quire.graph.query.search.search import metric_of
from quire.lake.read.ranking import scores, text_statistics

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.query.prepare import Prepared

Numbers = list[float | None]


def distances(prepared: Prepared, term: plan.Nearest, rows: pa.Table) -> Numbers | None:
    """The distance of every row; None where a vector is null. None altogether where the SQL has to compute them."""
    query, prop = prepared.searches.vector(term), term.field.property
    if query is None:
        return None
    column = rows.column(prepared.layout.property(term.field.variable, prop)).combine_chunks()
    size, kept = prop.type.size, column.drop_null()
    stored = kept.flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(len(kept), size)
    wanted = np.asarray(query, np.float64)
    found = iter(scores.distances(metric_of(prop), stored, wanted).tolist())
    return [next(found) if there else None for there in column.is_valid().to_pylist()]


def matches(prepared: Prepared, term: plan.TextMatch, rows: pa.Table) -> list[bool] | None:
    """Whether every row matches, where texts and query are ASCII and words need no look at others."""
    if term.function == "fuzzy":
        return None
    texts, wanted = _texts(prepared, term, rows), prepared.searches.tokens(term)
    if texts is None or not wanted:
        return None
    test = all if term.function == "match_text" else any
    return [text is not None and test(token in text for token in wanted) for text in texts]


def bm25(prepared: Prepared, term: plan.Bm25, rows: pa.Table) -> Numbers | None:
    """The BM25 score of every row; 0 where nothing matches."""
    texts, wanted = _texts(prepared, term, rows), prepared.searches.tokens(term)
    if texts is None or not wanted:
        return None
    found = prepared.searches.statistics(prepared.layout.place(term.field.variable).entity, term)
    return [0.0 if text is None else scores.score(text, wanted, found) for text in texts]


def _texts(prepared: Prepared, term: plan.TextMatch | plan.Bm25, rows: pa.Table) -> list[list[str] | None] | None:
    """The tokens of every text."""
    column = rows.column(prepared.layout.property(term.field.variable, term.field.property))
    texts = column.to_pylist()
    if not all(text is None or text.isascii() for text in texts):
        return None
    return [None if text is None else text_statistics.ascii_tokens(text) for text in texts]


def shares(term: plan.Rrf, prepared: Prepared, arms: list[Numbers], ids: list[str]) -> Numbers:
    """What every row gets for its ranks in both arms. An entity that is in several rows has one rank."""
    k = float(prepared.known.value(term.k))
    total = [0.0] * len(ids)
    for arm, numbers in zip((term.first, term.second), arms, strict=True):
        near, worst = isinstance(arm, plan.Nearest), prepared.searches.worst(arm)
        by_id = {id: n for id, n in zip(ids, numbers, strict=True) if n is not None and (near or n > 0)}
        if worst is not None:
            by_id = {id: n for id, n in by_id.items() if (n <= worst if near else n >= worst)}
        best = sorted(by_id.items(), key=lambda one: (one[1] if near else -one[1], one[0]))
        rank = {id: number for number, (id, _) in enumerate(best, 1)}
        total = [sum_ + (1.0 / (k + rank[id]) if id in rank else 0.0) for sum_, id in zip(total, ids, strict=True)]
    return list(total)
