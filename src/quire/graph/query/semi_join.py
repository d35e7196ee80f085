"""Narrowing scans before the SQL runs: ids that are found first are passed on from scan to scan while they are few.

A node that is looked up by its key gives the edges that touch it, those give the nodes at their other ends, and so on,
each read through an index. What grows too large is left as a full scan. What is read here holds every row that the
answer can be made of, so the pass changes what is read and never the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quire.filters import Condition, either
from quire.graph.integrity.lookups import TEXT, is_in
from quire.graph.language import plan
from quire.graph.query.implied_nodes import known_ids
from quire.graph.query.search.indexed import by_text, by_vector, has_index
from quire.graph.query.sql.walks import is_single
from quire.lake.read.hot_columns import HOT

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.query.prepare import Prepared
    from quire.graph.query.scans import Source
    from quire.lake.read.table import Table

FEW = 5_000
"""Ids that are passed on at most."""
LEAST_IDS = 64
ROWS_FOR_AN_ID = 2_000
"""Looking up an id takes as long as joining so many rows that are in memory."""
EDGES = 50_000
"""Edges that are read before the SQL runs at most."""
READS = 8
"""Hops of one walk that are followed here at most, each with a read; a longer walk is left to the SQL."""
SCANS = 3
"""The same where every hop reads the whole table."""
SMALL = 100_000
"""A table of so few rows may be scanned once for every hop; a larger one only through an index."""


def narrow(prepared: Prepared, *, sparing: bool = False) -> None:
    """Read what is little, and let it narrow what is next to it.

    `sparing` leaves large tables alone unless an index finds the rows: for who has others to read them.
    """
    if sparing and by_vector(prepared):
        return
    Pass(prepared, sparing).block(prepared.read.block)


@dataclass
class Pass:
    """One pass over a read."""

    prepared: Prepared
    sparing: bool = False
    ranked: str | None = None
    """A variable of which a search reads the best rows: it is read here only by what names few."""
    ids: dict[str, set[str]] = field(default_factory=dict)
    """All that a node variable can be, where that is little."""
    implied: Mapping[str, str] = field(init=False)
    left: set[str] = field(default_factory=set)
    """Steps whose edges, and nodes whose rows, are too many to be read here."""

    def __post_init__(self) -> None:
        self.implied = self.prepared.layout.implied

    def again(self, variable: str) -> Pass:
        """The pass that follows when rows of one more variable are known."""
        rows = self.prepared.sources[variable].rows
        assert rows is not None
        known = dict(self.ids)
        if rows.num_rows <= FEW:
            known[variable] = set(rows.column(0).to_pylist())
        return Pass(self.prepared, self.sparing, self.ranked, known, left=set(self.left))

    def block(self, block: plan.Block) -> None:
        """Read what is little in a block, and then in the blocks in it."""
        # What is of several types is left to the SQL: nodes of an interface, and steps along several edge types, of
        # which one does not say where they lead.
        members = self.prepared.layout.members
        scans = [s for s in block.scans if s.variable not in members]
        mine = {s.variable for s in scans}
        steps = [s for s in (*block.expansions, *(p.step for p in block.paths)) if not s.others]
        steps = [s for s in steps if not members.keys() & {s.source, s.target}]
        for variable, condition in _text_conditions(block):
            if variable == self.ranked:
                continue
            rows = by_text(self.prepared, variable, condition, FEW)
            if rows is not None:
                self._keep(variable, rows, "text index")
        self._spread(steps, mine)
        for scan in scans:
            if scan.variable in self.implied:
                ids = known_ids(self.prepared, scan.variable)
                if ids is not None and len(ids) <= FEW:
                    self.ids[scan.variable] = ids
        self._spread(steps, mine)
        for by_index in (True, False):
            for scan in scans:
                if scan.variable in self.implied or scan.variable in self.left:
                    continue
                if scan.variable == self.ranked and not by_index:
                    continue
                source = self.prepared.sources[scan.variable]
                if source.rows is not None or not source.filters or source.limit is not None:
                    continue
                if by_index == looks_up(source) and self._is_cheap(source, _tested(source), any):
                    self._read(scan.variable, [], "look-up" if by_index else "few rows")
                    self._spread(steps, mine)
        if self.ranked is not None and self.ranked not in self.ids:
            return  # what is inside waits for the rows that are ranked
        for inner in _inner(block):
            Pass(self.prepared, self.sparing, None, dict(self.ids)).block(inner)

    def _is_cheap(self, source: Source, columns: Iterable[str], which: Callable[[Iterable[bool]], bool]) -> bool:
        """Whether rows may be looked for here by some columns, of which all or any must have an index."""
        table = source.table(self.prepared.snapshot)
        return not self.sparing or table.count() <= SMALL or which(has_index(table, column) for column in columns)

    def _is_better_kept(self, source: Source, ids: set[str]) -> bool:
        """Whether columns in memory are joined sooner than so many ids are looked up, again and again."""
        table = source.table(self.prepared.snapshot)
        return not self.sparing and len(ids) > _worth(table) and HOT.wants(table)

    # -- nodes ------------------------------------------------------------------------------------------------

    def _read(self, variable: str, filters: Sequence[Condition], why: str) -> None:
        """Read the nodes of a variable, if they are few."""
        source = self.prepared.sources[variable]
        table = source.table(self.prepared.snapshot)
        few = FEW if filters or looks_up(source) else _worth(table)
        most = few if few < FEW and HOT.wants(table, note=False) else FEW
        rows = source.read(self.prepared.snapshot, filters=filters, limit=most + 1)
        if rows.num_rows > few:
            HOT.wants(table)
        if rows.num_rows <= most:
            self._keep(variable, rows, why)
        else:
            self.left.add(variable)

    def _keep(self, variable: str, rows: pa.Table, why: str) -> None:
        source = self.prepared.sources[variable]
        source.rows, source.why = rows, why
        if rows.num_rows <= FEW:
            self.ids[variable] = set(rows.column(0).to_pylist())

    # -- edges ------------------------------------------------------------------------------------------------

    def _spread(self, steps: Sequence[plan.Expand], mine: set[str]) -> None:
        """Follow edges from every node variable that is known, until nothing more is learnt."""
        waiting = [s for s in steps if self.prepared.sources[s.edge].rows is None and s.edge not in self.left]
        while True:
            ready = [(len(self.ids[end]), n, end) for n, s in enumerate(waiting) for end in _ends(s) if end in self.ids]
            if not ready:
                return
            _, number, start = min(ready)
            step = waiting.pop(number)
            far = self._follow(step, start)
            if far is None:
                self.left.add(step.edge)
            other = step.target if start == step.source else step.source
            if far is None or other in self.ids or other not in mine or self.prepared.sources[other].rows is not None:
                continue
            if other in self.implied:
                if len(far) <= FEW:
                    self.ids[other] = far
            elif not far:
                self._keep(other, self._nothing(other), f"ends of {step.entity.name}")
            elif self._is_better_kept(self.prepared.sources[other], far):
                continue
            elif len(far) <= FEW and self._is_cheap(self.prepared.sources[other], ["id"], all):
                self._read(other, [is_in("id", TEXT, sorted(far))], f"ends of {step.entity.name}")

    def _follow(self, step: plan.Expand, start: str) -> set[str] | None:
        """Read the edges that can be walked from one end; the nodes they lead to, or None where they are too many."""
        columns = _columns(step, from_source=start == step.source)
        seeds = self.ids[start]
        if is_single(step):
            source = self.prepared.sources[step.edge]
            if not self._is_cheap(source, columns, all) or self._is_better_kept(source, seeds):
                return None
            found = self._edges(step, columns, seeds)
            return None if found is None else self._finish(step, [found], _other_ends(found, columns, seeds))
        table = self.prepared.sources[step.edge].table(self.prepared.snapshot)
        indexed = all(has_index(table, c) for c in columns)
        if table.count() > SMALL and not indexed:
            return None
        visited, frontier, parts, hops = set(seeds), set(seeds), [], 0
        while frontier and (step.most is None or hops < step.most):
            if hops == (READS if indexed else SCANS):
                return None
            found = self._edges(step, columns, frontier)
            if found is None:
                return None
            parts.append(found)
            frontier = _other_ends(found, columns, frontier) - visited
            visited |= frontier
            hops += 1
            if len(visited) > FEW or sum(p.num_rows for p in parts) > EDGES:
                return None
        return self._finish(step, parts, visited)

    def _finish(self, step: plan.Expand, parts: list[pa.Table], far: set[str]) -> set[str]:
        import pyarrow as pa

        source = self.prepared.sources[step.edge]
        source.rows = pa.concat_tables(parts) if parts else self._nothing(step.edge)
        source.why = "edges of nodes that are known"
        return far

    def _edges(self, step: plan.Expand, columns: Sequence[str], ids: set[str]) -> pa.Table | None:
        if not ids:
            return self._nothing(step.edge)
        wanted = either([is_in(column, TEXT, sorted(ids)) for column in columns])
        found = self.prepared.sources[step.edge].read(self.prepared.snapshot, filters=[wanted], limit=EDGES + 1)
        return found if found.num_rows <= EDGES else None

    def _nothing(self, variable: str) -> pa.Table:
        return self.prepared.sources[variable].nothing(self.prepared.snapshot)


def _ends(step: plan.Expand) -> tuple[str, str]:
    return step.source, step.target


def _columns(step: plan.Expand, *, from_source: bool) -> tuple[str, ...]:
    """The columns of the edge at which a walk from one end starts."""
    if step.direction == "either":
        return ("src", "dst")
    return ("src",) if (step.direction == "forward") == from_source else ("dst",)


def _other_ends(edges: pa.Table, columns: Sequence[str], starts: set[str]) -> set[str]:
    """Where edges lead to from some nodes. The first columns of an edge are its id, `src` and `dst`."""
    sources, targets = edges.column(1).to_pylist(), edges.column(2).to_pylist()
    found: set[str] = set()
    if "src" in columns:
        found.update(t for s, t in zip(sources, targets, strict=True) if s in starts)
    if "dst" in columns:
        found.update(s for s, t in zip(sources, targets, strict=True) if t in starts)
    return found


def _worth(table: Table) -> int:
    """How many ids of a table are looked up sooner than its columns are joined in memory."""
    return min(max(LEAST_IDS, table.count() // ROWS_FOR_AN_ID), FEW)


def looks_up(source: Source) -> bool:
    """Whether a scan asks for an id, a key or what is unique: then it finds few rows, and through an index."""
    defined = source.place.entity.defined
    singles = {names[0] for names in (defined.key, *defined.unique) if len(names) == 1}
    for condition in source.conditions:
        if isinstance(condition, plan.In):
            sides: tuple[object, ...] = (condition.operand,)
        elif isinstance(condition, plan.Compare) and condition.operator == "=":
            sides = (condition.left, condition.right)
        else:
            continue
        for side in sides:
            if isinstance(side, plan.System) or (isinstance(side, plan.Field) and side.property.name in singles):
                return True
    return False


def _tested(source: Source) -> Iterator[str]:
    """The columns that the filters of a scan test."""
    for condition in source.conditions:
        for name in ("left", "right", "operand"):
            side = getattr(condition, name, None)
            if isinstance(side, plan.System):
                yield side.column
            elif isinstance(side, plan.Field):
                yield side.property.column


def _text_conditions(block: plan.Block) -> Iterator[tuple[str, plan.TextMatch]]:
    mine = {s.variable for s in block.scans}
    for condition in block.conditions:
        if isinstance(condition, plan.Matches) and condition.match.field.variable in mine:
            yield condition.match.field.variable, condition.match


def _inner(block: plan.Block) -> Iterator[plan.Block]:
    yield from (part.block for part in block.optional)
    yield from (one.block for one in block.counts)
    for condition in (*block.conditions, *block.after):
        if isinstance(condition, plan.Without):
            yield condition.block
        elif isinstance(condition, plan.Either):
            yield from condition.blocks
