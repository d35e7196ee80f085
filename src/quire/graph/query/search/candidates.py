"""Candidates of a ranking: the rows of a table that an index puts first, and how good all others can be at best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quire.formats import Indexed, Search
from quire.graph.language import plan
from quire.graph.query.search.indexed import details, plain_tokens, text_counts
from quire.graph.query.search.search import metric_of
from quire.lake.handles import view_of

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.query.prepare import Prepared
    from quire.graph.query.search.settings import Settings
    from quire.lake.read.table import Table

SINGLE = 1e-5
"""How much numbers of 32 bits may differ from those of 64, as a part of them."""


@dataclass(frozen=True)
class Candidates:
    """Rows of one variable, with the columns of its scan."""

    rows: pa.Table
    how: str
    bound: float
    """No other row has a rank that is better than this."""
    near: bool
    """Whether less is better."""
    is_short: bool
    """Whether there are fewer than were asked for: there are no others, as far as the index knows."""
    approximate: str | None = None
    is_fused: bool = False
    end: float | None = None
    """The last distance or score among them, as the SQL computes it; None where there are no others."""

    def is_certain(self, answer: pa.Table, output: int, limit: int, *, implied: bool) -> bool:
        """Whether an answer over the candidates is the answer over all rows. `implied` says that all others have no
        rank, and that a row without one is no answer."""
        if answer.num_rows < limit:
            return self.is_short and (self.near or implied)
        worst = answer.column(output)[-1].as_py()
        if worst is None:
            return False
        if self.is_short:
            return self.near or self.is_fused or worst > 0
        return bool(worst < self.bound if self.near else worst > self.bound)


def by_distance(prepared: Prepared, term: plan.Nearest, count: int, settings: Settings) -> Candidates | None:
    """The nearest rows, through an index if there is one; None where Lance measures otherwise than Quire."""
    source, prop = prepared.sources[term.field.variable], term.field.property
    table, metric = source.table(prepared.snapshot), metric_of(prop)
    query = prepared.searches.vector(term)
    if query is None or not isinstance(view_of(table), Indexed) or (metric == "cosine" and not any(query)):
        return None
    found = [d for d in details(table, prop.column, "IVF") if str(d.get("metric_type", "")).lower() == metric]
    if found and not settings.exact:
        # Where the index holds vectors as they are, its distances need no second look.
        refine = None if _is_flat(table, prop.column) else settings.refine
        search = Search(vector=(prop.column, query), metric=metric, nprobes=settings.nprobes, refine=refine)
        how, approximate = "vector index", f"vector index, {settings.nprobes} partitions probed"
    else:
        search = Search(vector=(prop.column, query), metric=metric, exact=True)
        how, approximate = "all vectors", None
    rows, distances = source.searched(prepared.snapshot, search, count, "_distance")
    far = float(distances[-1].as_py()) if len(distances) else math.inf
    far = math.sqrt(max(far, 0.0)) if metric == "l2" else far
    bound = far - SINGLE * (1.0 + abs(far)) * (10.0 if metric == "dot" else 1.0)
    if metric == "cosine":
        bound = min(bound, 1.0 - SINGLE)  # vectors of zeros are at 1, wherever Lance puts them
    how, short = f"{how}, {rows.num_rows} candidates", rows.num_rows < count
    end = None if short else far + SINGLE * (1.0 + abs(far))
    return Candidates(rows, how, bound, near=True, is_short=short, approximate=approximate, end=end)


def _is_flat(table: Table, column: str) -> bool:
    return all(ix["kind"].upper() == "IVF_FLAT" for ix in table.indexes() if ix["columns"] == [column])


def by_score(prepared: Prepared, term: plan.Bm25, count: int, *, roughly: bool = False) -> Candidates | None:
    """The rows that a text index scores highest. It counts with what it covers, so its scores may be some way off those
    of all rows; how far at most is known, or there are no candidates unless they are wanted `roughly`."""
    source = prepared.sources[term.field.variable]
    table, column = source.table(prepared.snapshot), term.field.property.column
    tokens = prepared.searches.tokens(term)
    counts = text_counts(table, column, tokens)
    if counts is None or not plain_tokens(tokens, counts.index.options):
        return None
    off = counts.scale()
    if math.isinf(off) and not roughly:
        return None
    search = Search(text=" ".join(tokens), text_columns=(column,))
    rows, scores = source.searched(prepared.snapshot, search, count, "_score")
    last, short = (float(scores[-1].as_py()) if len(scores) else 0.0), rows.num_rows < count
    end = None if short else last * (1.0 - SINGLE)
    how = f"text index, {rows.num_rows} candidates"
    return Candidates(rows, how, off * last, near=False, is_short=short, end=end)


def fused(prepared: Prepared, term: plan.Rrf, count: int, settings: Settings) -> Candidates | None:
    """The first rows of both rankings. What is in one alone takes the rank among them in the other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts: list[Candidates] = []
    for arm in (term.first, term.second):
        found = (
            by_distance(prepared, arm, count, settings)
            if isinstance(arm, plan.Nearest)
            else by_score(prepared, arm, count, roughly=True)
        )
        if found is None or (isinstance(arm, plan.Nearest) and found.approximate is None):
            return None  # where every vector is looked at anyway, so is every rank
        parts.append(found)
    # What is no candidate of a ranking has no rank in it, also where the other one found it.
    ends = [(arm, part.end) for arm, part in zip((term.first, term.second), parts, strict=True)]
    prepared.searches.ends = [(arm, end) for arm, end in ends if end is not None]
    first, second = parts
    more = second.rows.filter(pc.invert(pc.is_in(second.rows.column(0), first.rows.column(0))))
    rows = pa.concat_tables([first.rows, more])
    k = float(prepared.known.value(term.k) or 0)
    if k <= 0:
        return None
    bound = sum(1.0 / (k + 1 + part.rows.num_rows) for part in parts if not part.is_short or part.near)
    how = f"{first.how}; {second.how}"
    told = f"ranks are counted among the first {count} rows of each ranking"
    short = all(part.is_short for part in parts)
    return Candidates(rows, how, bound, near=False, is_short=short, approximate=told, is_fused=True)
