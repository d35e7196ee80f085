"""The best rows of a query that is put in order of a search: indexes give candidates, and the SQL ranks them exactly.

Candidates stand for all rows of their variable, and the rest of the query is run over them, with its joins, filters and
negations. The answer is certain if its last row is better than anything that is no candidate can be; else there are
more candidates, and in the end all rows. What an index of vectors does not find is not known to be there, so an answer
through one is approximate, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from quire.graph.language import plan
from quire.graph.query.prepare import Prepared
from quire.graph.query.search.candidates import Candidates, by_distance, by_score, fused
from quire.graph.query.search.settings import Settings
from quire.graph.query.semi_join import Pass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

LEAST = 100
"""Candidates at least."""
FUSED = 256
"""Candidates of each ranking at least, where two are fused."""
SPARE = 4
"""Candidates at first, for each row that is asked for."""
GROWTH = 4
MOST = 20_000
"""With more candidates than these, looking at all rows is as good."""
MANY = 2_000
"""Tables of fewer rows are looked at as a whole."""


@dataclass(frozen=True)
class Ranking:
    """What a read is put in order of."""

    term: plan.Nearest | plan.Bm25 | plan.Rrf
    variable: str
    read: plan.Read
    """The read with an output more, if it has not the term among its own."""
    output: int
    """Which output the term is."""

    @property
    def is_added(self) -> bool:
        return self.output == len(self.read.outputs) - 1 and self.read.outputs[-1].name == ADDED


ADDED = "\0rank"
"""The name of an output that is not part of the answer. Nobody can write it."""


@dataclass
class Ranked:
    """The answer, and how it was found."""

    rows: pa.Table
    how: str
    approximate: str | None
    """Why it need not be the exact answer; None where it is."""
    prepared: Prepared


def ranking(read: plan.Read) -> Ranking | None:
    """What the rows of a read are ranked by, if a few of the best of one variable are asked for."""
    if read.aggregated or read.distinct or not read.order or read.limit is None:
        return None
    first = read.order[0]
    at = first.expression.index if isinstance(first.expression, plan.Output) else None
    term = first.expression if at is None else read.outputs[at].expression
    if not isinstance(term, plan.Nearest | plan.Bm25 | plan.Rrf) or first.descending == isinstance(term, plan.Nearest):
        return None
    arms = (term.first, term.second) if isinstance(term, plan.Rrf) else (term,)
    variables = {arm.field.variable for arm in arms}
    if len(variables) != 1 or not variables <= {s.variable for s in read.block.scans}:
        return None
    if at is None:
        at = len(read.outputs)
        read = replace(read, outputs=(*read.outputs, plan.Projected(ADDED, term, term.type, key=False)))
    return Ranking(term, variables.pop(), read, at)


@dataclass
class Best:
    """Finds the best rows of one read."""

    prepared: Prepared
    ranking: Ranking
    settings: Settings
    run: Callable[[Prepared], pa.Table]
    found: Candidates | None = field(default=None, init=False)

    def rows(self) -> Ranked | None:
        """The answer; None where candidates are of no use."""
        prepared, variable = self.prepared, self.ranking.variable
        limit, offset = prepared.limit or 0, prepared.offset or 0
        source = prepared.sources[variable]
        if not limit or source.table(prepared.snapshot).count() <= MANY:
            return None
        known = Pass(prepared, ranked=variable)
        known.block(prepared.read.block)
        if source.rows is not None:
            return self._answer(self.run(prepared), f"all {source.rows.num_rows} candidates: {source.why}", None)
        before = {name: (s.rows, s.why) for name, s in prepared.sources.items()}
        count, looks_at_all = max(LEAST, SPARE * (limit + offset)), False
        if isinstance(self.ranking.term, plan.Rrf):
            count = max(FUSED, 2 * count)
        while count <= MOST:
            found = self._candidates(count, looks_at_all)
            if found is None:
                break
            if found.is_short and found.approximate is not None:
                if looks_at_all or isinstance(self.ranking.term, plan.Rrf):
                    break
                looks_at_all = True  # a filter left too few of what the index looked at
                continue
            source.rows, source.why = found.rows, found.how
            known.again(variable).block(prepared.read.block)
            rows = self.run(prepared)
            if found.is_certain(rows, self.ranking.output, limit, implied=self._implies_match()):
                return self._answer(rows, found.how, found.approximate)
            self._restore(before)
            if found.is_short:
                break
            count *= GROWTH
        self._restore(before)
        return None

    def _answer(self, rows: pa.Table, how: str, approximate: str | None) -> Ranked:
        if self.ranking.is_added:
            rows = rows.remove_column(self.ranking.output)
        return Ranked(rows, how, approximate, self.prepared)

    def _candidates(self, count: int, looks_at_all: bool) -> Candidates | None:
        term, settings = self.ranking.term, self.settings
        if isinstance(term, plan.Nearest):
            settings = replace(settings, exact=settings.exact or looks_at_all)
            return by_distance(self.prepared, term, count, settings)
        if isinstance(term, plan.Bm25):
            return by_score(self.prepared, term, count)
        return None if settings.exact else fused(self.prepared, term, count, settings)

    def _restore(self, before: Mapping[str, tuple[Any, str]]) -> None:
        self.prepared.searches.ends = []
        for name, (rows, why) in before.items():
            self.prepared.sources[name].rows, self.prepared.sources[name].why = rows, why

    def _implies_match(self) -> bool:
        """Whether a filter of the query leaves nothing without a score."""
        term = self.ranking.term
        if not isinstance(term, plan.Bm25):
            return False
        wanted = set(self.prepared.searches.tokens(term))
        for condition in self.prepared.read.block.conditions:
            if not isinstance(condition, plan.Matches) or condition.match.field != term.field:
                continue
            tokens = set(self.prepared.searches.tokens(condition.match))
            if condition.match.function == "search" and tokens <= wanted:
                return True
            if condition.match.function == "match_text" and tokens & wanted:
                return True
        return False
