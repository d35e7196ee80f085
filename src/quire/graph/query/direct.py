"""Answering without SQL: where everything that a read joins was read before and is little, loops are faster.

DuckDB takes milliseconds to plan and start a statement, more than an index takes to find a node or its edges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from quire.graph.language import plan
from quire.graph.query.implied_nodes import known_ids, named_ids
from quire.graph.query.search import ranks as ranking
from quire.graph.query.sql.duckdb import whole
from quire.graph.query.sql.walks import is_single

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.query.prepare import Prepared

MOST = 20_000
"""Rows that are joined by loops at most."""

Bound = list[tuple[Any, ...]]
"""Rows of the answer so far, one value for each name: the id of a node, or the row of an edge."""


def joined(prepared: Prepared) -> list[tuple[bool, list[pa.Array]]] | None:
    """Of every output whether it is a whole entity, and its columns; None where SQL has to find them."""
    if not _is_plain(prepared):
        return None
    if not all(_filtered(prepared, c) for c in prepared.read.block.conditions if isinstance(c, plan.Matches)):
        return None
    rows = _Loops(prepared).rows()
    if rows is None:
        return None
    names, found = rows
    ranks: dict[int, ranking.Numbers] = {}
    for number, one in enumerate(_ranks(prepared)):
        numbers = _numbers(prepared, one, names, found)
        if numbers is None:
            return None
        ranks[number] = numbers
    order: Sequence[int] = range(len(found))
    if prepared.read.order:
        order = _ordered(prepared, names, found, ranks)
    first = prepared.offset or 0
    order = order[first:] if prepared.limit is None else order[first : first + prepared.limit]
    terms, numbered = [output.expression for output in prepared.read.outputs], _ranks(prepared)
    chosen = [found[n] for n in order]
    columns: list[tuple[bool, list[pa.Array]]] = []
    for term in terms:
        if isinstance(term, RANKS):
            columns.append((False, [_array(ranks[numbered.index(term)], order)]))
        else:
            columns.append((isinstance(term, plan.Whole), _values(prepared, term, names, chosen)))
    return columns


def _array(numbers: ranking.Numbers, order: Sequence[int]) -> pa.Array:
    import pyarrow as pa

    return pa.array([numbers[n] for n in order], pa.float64())


RANKS = (plan.Nearest, plan.Bm25, plan.Rrf)


def _ranks(prepared: Prepared) -> list[plan.Nearest | plan.Bm25 | plan.Rrf]:
    """What the outputs and the order rank by, each once."""
    found: list[plan.Nearest | plan.Bm25 | plan.Rrf] = []
    for term in (*(o.expression for o in prepared.read.outputs), *(o.expression for o in prepared.read.order)):
        if isinstance(term, RANKS) and term not in found:
            found.append(term)
    return found


def _numbers(prepared: Prepared, term: Any, names: list[str], found: Bound) -> ranking.Numbers | None:
    """The distance, score or rank of every row of the answer; None where the SQL has to compute them."""
    if isinstance(term, plan.Rrf):
        arms = [_numbers(prepared, arm, names, found) for arm in (term.first, term.second)]
        if arms[0] is None or arms[1] is None or term.first.field.variable != term.second.field.variable:
            return None
        at = names.index(term.first.field.variable)
        return ranking.shares(term, prepared, [arms[0], arms[1]], [values[at] for values in found])
    variable = term.field.variable
    rows = prepared.sources[variable].rows
    if rows is None or variable in prepared.layout.implied or prepared.layout.place(variable).entity.kind == "edge":
        return None
    kind = ranking.distances if isinstance(term, plan.Nearest) else ranking.bm25
    numbers = kind(prepared, term, rows)
    if numbers is None:
        return None
    by_id, at = dict(zip(rows.column(0).to_pylist(), numbers, strict=True)), names.index(variable)
    return [by_id[values[at]] for values in found]


def _ordered(prepared: Prepared, names: list[str], found: Bound, ranks: dict[int, ranking.Numbers]) -> Sequence[int]:
    """The rows of the answer in their order, best first. What has no distance has no place in an order of it."""
    [order] = prepared.read.order
    term = order.expression
    if isinstance(term, plan.Output):
        term = prepared.read.outputs[term.index].expression
    assert isinstance(term, RANKS)
    numbers = ranks[_ranks(prepared).index(term)]
    ids = [_ids(prepared, tie, names, found) for tie in prepared.read.ties]
    sign = -1.0 if order.descending else 1.0
    placed = [n for n, number in enumerate(numbers) if number is not None]
    return sorted(placed, key=lambda n: (sign * (numbers[n] or 0.0), *(column[n] for column in ids)))


def _ids(prepared: Prepared, tie: Any, names: list[str], found: Bound) -> list[str]:
    """The ids of one variable in the rows of the answer."""
    at, rows = names.index(tie.variable), prepared.sources[tie.variable].rows
    if prepared.layout.place(tie.variable).entity.kind != "edge" or rows is None:
        return [values[at] for values in found]
    ids = rows.column(0).to_pylist()
    return [ids[values[at]] for values in found]


def _filtered(prepared: Prepared, condition: plan.Matches) -> bool:
    """Leave only the rows of a variable that match, if that can be told without SQL."""
    import pyarrow as pa

    source = prepared.sources[condition.match.field.variable]
    if id(condition) in prepared.pushed:
        return True
    found = None if source.rows is None else ranking.matches(prepared, condition.match, source.rows)
    if found is None or source.rows is None:
        return False
    source.rows = source.rows.filter(pa.array(found, pa.bool_()))
    return True


def _is_ranked(read: plan.Read) -> bool:
    """Whether a read is put in order of a search, and of ids where that says nothing."""
    if len(read.order) != 1:
        return False
    term = read.order[0].expression
    if isinstance(term, plan.Output):
        term = read.outputs[term.index].expression
    return isinstance(term, RANKS) and all(isinstance(t, plan.System) and t.column == "id" for t in read.ties)


def _is_plain(prepared: Prepared) -> bool:
    """Whether a read does nothing but follow edges between nodes, all of which were read."""
    read, block = prepared.read, prepared.read.block
    if read.aggregated or read.distinct or read.having:
        return False
    if (read.order or read.offset is not None) and not _is_ranked(read):
        return False
    if block.optional or block.after or block.paths or not block.scans or prepared.layout.members:
        return False
    implied = prepared.layout.implied
    if not all(prepared.sources[s.variable].rows is not None for s in block.scans if s.variable not in implied):
        return False
    for step in block.expansions:
        if prepared.sources[step.edge].rows is None or not is_single(step) or step.others:
            return False
        if not all(id(f) in prepared.pushed for f in step.filters):
            return False
    known = (
        id(c) in prepared.pushed or isinstance(c, plan.Matches) or _is_known(prepared, c) for c in block.conditions
    )
    return all(known) and all(_is_stored(o.expression) or isinstance(o.expression, RANKS) for o in read.outputs)


def _is_known(prepared: Prepared, condition: plan.Condition) -> bool:
    """Whether a condition says which ids an implied node has, and nothing else."""
    return any(named_ids(prepared, name, condition) is not None for name in prepared.layout.implied)


def _is_stored(term: plan.Expression) -> bool:
    if isinstance(term, plan.Field):
        return term.property.type.base != "Blob"
    return isinstance(term, plan.System | plan.Whole)


class _Loops:
    """Joins edges and nodes by their ids."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.block = prepared, prepared.read.block
        self.places: dict[str, dict[str, int]] = {}
        """By node, the row of each id."""

    def rows(self) -> tuple[list[str], Bound] | None:
        """Every row of the answer, and the names of its values; None where the loops would be long."""
        sources, implied = self.prepared.sources, self.prepared.layout.implied
        read = [sources[s.variable] for s in self.block.scans if s.variable not in implied]
        read += [sources[e.edge] for e in self.block.expansions]
        if sum(0 if source.rows is None else source.rows.num_rows for source in read) > MOST:
            return None
        for scan in self.block.scans:
            rows = sources[scan.variable].rows
            if scan.variable not in implied and rows is not None:
                self.places[scan.variable] = {id: n for n, id in enumerate(rows.column(0).to_pylist())}
        first = self.block.scans[0].variable
        steps = list(self.block.expansions)
        if not steps:
            return ([first], [(id,) for id in self.places[first]]) if len(self.block.scans) == 1 else None
        names: list[str] = []
        found: Bound = [()]
        while steps:
            step = next((s for s in steps if not names or s.source in names or s.target in names), None)
            if step is None:
                return None  # two parts that nothing connects
            steps.remove(step)
            following = self._following(step, names, found)
            if following is None:
                return None
            names, found = following
        return (names, found) if {s.variable for s in self.block.scans} <= set(names) else None

    def _following(self, step: plan.Expand, names: list[str], found: Bound) -> tuple[list[str], Bound] | None:
        """The rows after one more step."""
        is_loop = step.source == step.target
        sources, targets = self._allows(step.source), self._allows(step.target)
        edges = [
            (source, target, row)
            for source, target, row in self._edges(step)
            if (source == target or not is_loop)
            and (sources is None or source in sources)
            and (targets is None or target in targets)
        ]
        shared = [e for e in dict.fromkeys((step.source, step.target)) if e in names]
        added = [e for e in dict.fromkeys((step.source, step.target)) if e not in names]
        by_shared: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
        for source, target, row in edges:
            end = {step.source: source, step.target: target}
            key = tuple(end[e] for e in shared)
            by_shared.setdefault(key, []).append((*(end[e] for e in added), row))
        at = [names.index(e) for e in shared]
        result: Bound = []
        for values in found:
            more = by_shared.get(tuple(values[n] for n in at), ())
            result += [(*values, *one) for one in more]
            if len(result) > MOST:
                return None
        return [*names, *added, step.edge], result

    def _allows(self, variable: str) -> Collection[str] | None:
        """The ids that a node may have; None for any."""
        if variable in self.prepared.layout.implied:
            return known_ids(self.prepared, variable)
        return self.places[variable]

    def _edges(self, step: plan.Expand) -> Iterator[tuple[str, str, int]]:
        """Source, target and row: of every edge if it is bound, else of each pair once."""
        rows = self.prepared.sources[step.edge].rows
        assert rows is not None
        pairs = list(zip(rows.column(1).to_pylist(), rows.column(2).to_pylist(), strict=True))
        every = [(s, t, n) for n, (s, t) in enumerate(pairs)] if step.direction != "backward" else []
        if step.direction != "forward":
            every += [(t, s, n) for n, (s, t) in enumerate(pairs) if step.direction == "backward" or s != t]
        yield from every if step.bound else {(s, t): (s, t, n) for s, t, n in every}.values()


def _values(prepared: Prepared, term: plan.Expression, names: list[str], found: Bound) -> list[pa.Array]:
    """The columns of one output: one, or those of a whole entity."""
    import pyarrow as pa

    assert isinstance(term, plan.Field | plan.System | plan.Whole)
    variable = term.variable
    at = names.index(variable)
    if variable in prepared.layout.implied:
        ids = pa.array([values[at] for values in found], pa.string())
        return [ids] * (2 if isinstance(term, plan.Whole) else 1)
    source = prepared.sources[variable]
    assert source.rows is not None
    is_edge = source.place.entity.kind == "edge"
    if is_edge:
        places = [values[at] for values in found]
    else:
        row_of = {id: n for n, id in enumerate(source.rows.column(0).to_pylist())}
        places = [row_of[values[at]] for values in found]
    taken = source.rows.take(pa.array(places, pa.int64()))
    layout = prepared.layout
    match term:
        case plan.Field():
            wanted = [layout.property(variable, term.property)]
        case plan.System():
            wanted = [layout.system(variable, term.column)]
        case plan.Whole():
            wanted = [layout.system(variable, c) for c in term.entity.system]
            wanted += [layout.property(variable, p) for p in whole(term.entity)]
    return [taken.column(name).combine_chunks() for name in wanted]
