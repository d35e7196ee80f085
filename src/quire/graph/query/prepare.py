"""From a plan to what can be run: what every scan reads, what is pushed into it, and the statement over the scans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidQuery
from quire.filters import columns
from quire.graph.language import plan
from quire.graph.query.known_values import Known
from quire.graph.query.layout import Layout, blocks, variables
from quire.graph.query.members import of_members
from quire.graph.query.pushed_filters import Filters
from quire.graph.query.scans import Source
from quire.graph.query.search.scores import Made, Scored
from quire.graph.query.search.search import Embed, Searches
from quire.graph.query.sql.dialect import Dialect
from quire.graph.query.sql.duckdb import CompiledSql, Compiler
from quire.graph.query.sql.expressions import Terms
from quire.graph.query.sql.fragments import Values
from quire.graph.query.sql.joins_only import Joined
from quire.lake.read.hot_columns import HOT
from quire.store import clock

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.read.snapshot import Snapshot

COLUMN = re.compile(r"\bv\d+_\w+")
"""A column of a variable in SQL."""


@dataclass
class Prepared:
    """A read on a snapshot, with the values of its parameters."""

    read: plan.Read
    snapshot: Snapshot
    known: Known
    searches: Searches
    layout: Layout
    sources: dict[str, Source]
    pushed: set[int] = field(default_factory=set)
    """Conditions that scans take care of, by identity."""
    values: Values = field(default_factory=Values)

    @property
    def limit(self) -> int | None:
        return self.known.count(self.read.limit, "limit")

    @property
    def offset(self) -> int | None:
        return self.known.count(self.read.offset, "offset")

    def statement(self) -> CompiledSql:
        """The SQL; what it binds is in `values`."""
        self.values = Values()
        terms = Terms(self.layout, self.known, self.values, self.searches)
        return self._compiled(Compiler, terms)

    def kept(self, sql: str) -> dict[str, pa.Table]:
        """Scans of which memory holds the columns that the SQL names, by variable. They filter nothing."""
        named = set(COLUMN.findall(sql))
        found = {}
        for name, source in self.sources.items():
            if source.rows is not None or source.limit is not None or name in self.layout.implied:
                continue
            filtered = {column for filter in source.filters for column in columns(filter)}
            shown = source.place.columns
            wanted = {n: c for n, c in shown.items() if n in named or c in filtered} or dict(list(shown.items())[:1])
            rows = HOT.read(source.table(self.snapshot), list(wanted.values()))
            if rows is not None:
                found[name] = rows.rename_columns(list(wanted))
                self.pushed -= {id(c) for c in source.conditions}
        return found

    def joined(self, dialect: Dialect) -> tuple[CompiledSql, Mapping[str, Made]]:
        """The SQL as joins alone, and the columns that it wants of the scans beside those that are stored."""
        self.values = Values(dialect)
        searches = Scored.of(self.searches, self.layout)
        statement = self._compiled(Joined, Terms(self.layout, self.known, self.values, searches))
        return statement, searches.made

    def _compiled(self, kind: type[Compiler], terms: Terms) -> CompiledSql:
        few = {name: s.rows.num_rows for name, s in self.sources.items() if s.rows is not None}
        return kind(self.read, self.layout, terms, frozenset(self.pushed), few).statement(self.limit, self.offset)


def prepare(query: plan.Query, snapshot: Snapshot, params: Mapping[str, Any], embed: Embed | None = None) -> Prepared:
    """Lay a read out on a snapshot and push down what scans can take. Nothing is read."""
    read = query.body
    if not isinstance(read, plan.Read):
        raise InvalidQuery(
            f"{query.name} is a mutation, not a query: it returns no rows.",
            next="Run it as a mutation.",
            query=query.name,
        )
    known = Known(params, clock.now())
    layout = Layout(read)
    sources = {name: Source(place) for name, place in layout.places.items() if name not in layout.members}
    prepared = Prepared(read, snapshot, known, Searches(snapshot, known, embed), layout, sources)
    for variable, condition in _pushable(read.block):
        taken = [(name, Filters(name, known).push(asked)) for name, asked in of_members(layout, variable, condition)]
        if all(found is not None for _, found in taken):
            for name, found in taken:
                sources[name].filters += [] if found is None else [found]
                sources[name].conditions.append(condition)
            prepared.pushed.add(id(condition))
    _push_limit(prepared)
    return prepared


def _pushable(block: plan.Block) -> Iterator[tuple[str, plan.Condition]]:
    """Conditions that concern one variable alone, in the block that scans it."""
    for inner in blocks(block):
        mine = {s.variable for s in inner.scans} | {e.edge for e in inner.expansions if e.bound}
        for condition in inner.conditions:
            used = variables(condition)
            if len(used) == 1 and used <= mine:
                yield used.pop(), condition
        for step in (*inner.expansions, *(p.step for p in inner.paths)):
            yield from ((along.edge, f) for along in step.every for f in along.filters)


def _push_limit(prepared: Prepared) -> None:
    """Any rows do for a limit without an order, so a query of one scan reads no more of them."""
    read, block = prepared.read, prepared.read.block
    is_one = len(block.scans) == 1 and not (block.expansions or block.paths or block.optional or block.after)
    if not is_one or read.aggregated or read.distinct or read.having or read.order or read.offset is not None:
        return
    if all(id(c) in prepared.pushed for c in block.conditions):
        scan = block.scans[0]
        for name in [member.variable for member in scan.members] or [scan.variable]:
            prepared.sources[name].limit = prepared.limit
