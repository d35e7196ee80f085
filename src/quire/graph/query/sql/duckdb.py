"""A plan as one SQL statement over the relations of its variables.

Every block becomes a SELECT over its scans, expansions and paths. A block inside another sees the columns around it by
their names, so `not` and `or` are EXISTS and `optional` is a lateral join. Walks of several hops are tables of their
own, before everything else. `joined` says the same with joins alone, for engines that have none of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from quire.graph.catalog import Entity, Property
from quire.graph.language import plan
from quire.graph.query.layout import EntityColumns, Layout, blocks, variables
from quire.graph.query.sql.expressions import Terms
from quire.graph.query.sql.fragments import all_of, any_of
from quire.graph.query.sql.walks import Side, Walk, is_single, once


@dataclass(frozen=True)
class Column:
    """An output in the rows of the statement."""

    output: plan.Projected
    names: tuple[str, ...]
    """One column, or those of a whole entity: its system columns and then its properties."""


@dataclass(frozen=True)
class CompiledSql:
    text: str
    columns: tuple[Column, ...]
    walks: tuple[Walk, ...] = ()
    """Walks that the engine makes before, each a relation of its name, where the text does not make them."""


@dataclass(frozen=True)
class Selected:
    """The outputs of a read, before they are put in order."""

    rows: str
    """A SELECT of the outputs, and of what they are chosen and put in order by."""
    columns: tuple[Column, ...]
    where: str
    order: tuple[str, ...]

    @property
    def names(self) -> str:
        return ", ".join(name for column in self.columns for name in column.names)


@dataclass
class Compiler:
    """Makes the statement of one read."""

    opening = "WITH RECURSIVE"

    read: plan.Read
    layout: Layout
    terms: Terms
    pushed: frozenset[int] = frozenset()
    """Conditions that the scans take care of, by identity."""
    few: Mapping[str, int] = field(default_factory=dict)
    """Variables of which only so many rows were read."""
    tables: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    """Names of alternatives that are joined."""
    walks: list[Walk] = field(default_factory=list)
    _alone: dict[str, list[plan.Condition]] = field(default_factory=dict)
    """Conditions of each node variable that concern nothing else."""

    def statement(self, limit: int | None, offset: int | None) -> CompiledSql:
        self._alone = dict(_alone(self.read.block))
        rows = self._scored(self.block(self.read.block))
        selected = self._selected(rows)
        if self.read.having:
            selected = self._computed(selected)
        text = self._cut(selected, limit, offset or 0)
        if self.tables:
            text = f"{self.opening} " + ",\n".join(self.tables) + "\n" + text
        return CompiledSql(text, selected.columns, tuple(self.walks))

    # -- blocks -----------------------------------------------------------------------------------------------

    def block(self, block: plan.Block, *, counts: bool = True) -> str:
        """A SELECT of all columns of a block. `counts` says whether it matters how often a row is found."""
        found = self._base(block, counts)
        for number, part in enumerate(block.optional):
            if introduces(part.block):
                inner = self.block(part.block)
                found = f"SELECT * FROM ({found}) AS b{number} LEFT JOIN LATERAL ({inner}) AS m{number} ON TRUE"
        for one in block.counts:
            counted = f"(SELECT count(*) FROM ({self.block(one.block)}) AS m)"
            found = f"SELECT *, {counted} AS {self.layout.path(one.name, 'count')} FROM ({found}) AS b"
        after = [self.condition(c) for c in block.after]
        return f"SELECT * FROM ({found}) AS b WHERE {all_of(after)}" if after else found

    def _base(self, block: plan.Block, counts: bool) -> str:
        return chosen(*self._parts(block, counts))

    def _parts(self, block: plan.Block, counts: bool) -> tuple[list[str], list[str]]:
        """The tables of a block without its optional parts, and what holds of their rows."""
        tables, tests = [], []
        for scan in block.scans:
            if scan.variable not in self.layout.implied:
                tables.append(self._relation(scan.variable))
        for step in block.expansions:
            tables.append(self._expansion(step, counts))
            tests += self._joins(step)
        for path in block.paths:
            tables.append(self._path(path))
            name = self._path_name(path)
            tests += self._ends(path.step, f"{name}_a", f"{name}_b")
        for condition in block.conditions:
            shared = connected(condition, block) if isinstance(condition, plan.Either) else None
            if shared is not None and isinstance(condition, plan.Either):
                name = f"e{len(self.joined)}"
                self.joined.append(name)
                tables.append(self._alternatives(condition, shared, name))
                tests += [f"{self.layout.system(v, 'id')} = {name}_{n}" for n, v in enumerate(shared)]
            elif id(condition) not in self.pushed:
                tests.append(self.condition(condition))
        return tables, tests

    def _relation(self, variable: str) -> str:
        """What is read of a variable."""
        place = self.layout.place(variable)
        members = self.layout.members.get(variable)
        if members is None:
            return self.terms.sql.relation(place.relation)
        return f"({' UNION ALL '.join(self._member(place, member) for member in members)}) AS {place.relation}"

    def _member(self, place: EntityColumns, member: plan.Member) -> str:
        """The nodes of one type of an interface, under the names of the interface."""
        id, name = self.layout.system(member.variable, "id"), self._type_name(member)
        values = {"id": f"{name} || ':' || {id}", "own": id, "type": name}
        shown = [f"{value} AS {self.layout.system(place.variable, column)}" for column, value in values.items()]
        for prop in place.properties:
            column = self.layout.property(member.variable, member.entity.properties[prop.name])
            shown.append(f"{column} AS {self.layout.property(place.variable, prop)}")
        return f"SELECT {', '.join(shown)} FROM {self._relation(member.variable)}"

    def _type_name(self, member: plan.Member) -> str:
        return self.terms.values.add(member.entity.name, plan.STRING)

    def condition(self, condition: plan.Condition) -> str:
        if isinstance(condition, plan.Without):
            return f"NOT {self._exists(condition.block)}"
        if isinstance(condition, plan.Either):
            return any_of(self._exists(block) for block in condition.blocks)
        return self.terms.predicate(condition)

    def _alternatives(self, either: plan.Either, shared: Sequence[str], name: str) -> str:
        """The nodes that alternatives connect, each combination once: a table to join, instead of every combination of
        nodes with a test."""
        scans = tuple(plan.Scan(v, self.layout.place(v).entity) for v in shared)
        ids = ", ".join(f"{self.layout.system(v, 'id')} AS {name}_{n}" for n, v in enumerate(shared))
        found = [
            f"SELECT {ids} FROM ({self.block(replace(inner, scans=(*scans, *inner.scans)), counts=False)}) AS b"
            for inner in either.blocks
        ]
        return f"({' UNION '.join(found)}) AS {name}"

    def _exists(self, block: plan.Block) -> str:
        if block.scans or block.expansions or block.paths or block.optional or block.counts:
            return f"EXISTS ({self.block(block, counts=False)})"
        # What holds of a row that is there already; null is no match, also where it is denied.
        return f"coalesce({all_of(self.condition(c) for c in (*block.conditions, *block.after))}, FALSE)"

    # -- expansions -------------------------------------------------------------------------------------------

    def _expansion(self, step: plan.Expand, counts: bool) -> str:
        """A table that an expansion is joined with: one row per edge, or each pair of ends once."""
        edge = self.layout.place(step.edge)
        name = f"w{edge.number}"
        if not step.bound and not is_single(step):
            return self._walked(self._walk(step, name, self._side(step)))
        if step.others:
            turns = (False, True) if step.direction == "either" else (False,)
            source, target = self.layout.system(step.edge, "src"), self.layout.system(step.edge, "dst")
            pairs = " UNION ".join(self._pairs(along, turned) for along in step.every for turned in turns)
            return f"(SELECT s AS {source}, t AS {target} FROM ({pairs}) AS e) AS {name}"
        source, target = self.layout.system(step.edge, "src"), self.layout.system(step.edge, "dst")
        tests = [self.terms.predicate(f) for f in step.filters if id(f) not in self.pushed]
        where = f" WHERE {all_of(tests)}" if tests else ""
        relation = self._relation(step.edge)
        if step.bound:
            if step.direction != "either":
                return f"(SELECT * FROM {relation}{where}) AS {name}"
            turned = f" WHERE {all_of([*tests, f'{source} <> {target}'])}"
            return (
                f"(SELECT *, {source} AS {name}_a, {target} AS {name}_b FROM {relation}{where} UNION ALL "
                f"SELECT *, {target}, {source} FROM {relation}{turned}) AS {name}"
            )
        every = f"SELECT {source}, {target} FROM {relation}{where}"
        if step.direction == "either":
            return f"({every} UNION SELECT {target}, {source} FROM {relation}{where}) AS {name}"
        is_set = not counts or any({"src", "dst"} >= set(columns) for columns in step.entity.defined.unique)
        return f"({every if is_set else every.replace('SELECT', 'SELECT DISTINCT', 1)}) AS {name}"

    def _joins(self, step: plan.Expand) -> list[str]:
        name = f"w{self.layout.place(step.edge).number}"
        if not is_single(step) or (step.bound and step.direction == "either"):
            return self._ends(step, f"{name}_a", f"{name}_b")
        ends = self.layout.system(step.edge, "src"), self.layout.system(step.edge, "dst")
        return self._ends(step, *(reversed(ends) if step.direction == "backward" else ends))

    def _ends(self, step: plan.Expand, source: str, target: str) -> list[str]:
        types = (step.entity.defined.source, step.entity.defined.target)
        first, last = reversed(types) if step.direction == "backward" else types
        return [*self._end(step.source, source, first), *self._end(step.target, target, last)]

    def _end(self, variable: str, end: str, type: str) -> list[str]:
        """That a node is at an end of an edge, which leads to nodes of one type."""
        members = self.layout.members.get(variable)
        if members is None:
            id = self.layout.system(variable, "id")
            return [f"{id} = {end}"] if id != end else []
        name = self._type_name(next(member for member in members if member.entity.id == type))
        return [f"{self.layout.system(variable, 'own')} = {end}", f"{self.layout.system(variable, 'type')} = {name}"]

    def _walk(self, step: plan.Expand, name: str, side: Side, *, path: bool = False) -> Walk:
        turns = {"forward": (False,), "backward": (True,), "either": (False, True)}[step.direction]
        edges = " UNION ALL ".join(self._pairs(along, turned) for along in step.every for turned in turns)
        # Nothing is written that is not used: its values would be bound in vain.
        seeds = "" if once(step) else self._seeds(step.source if side == "source" else step.target)
        return Walk(name, edges, seeds, step.least, step.most, side, once(step), path)

    def _pairs(self, along: plan.Along, turned: bool) -> str:
        """The ends of the edges of a type, `s` and `t`."""
        source, target = self.layout.system(along.edge, "src"), self.layout.system(along.edge, "dst")
        tests = [self.terms.predicate(f) for f in along.filters if id(f) not in self.pushed]
        where = f" WHERE {all_of(tests)}" if tests else ""
        ends = (target, source) if turned else (source, target)
        return f"SELECT {ends[0]} AS s, {ends[1]} AS t FROM {self._relation(along.edge)}{where}"

    def _walked(self, walk: Walk) -> str:
        """The relation of a walk: its last table."""
        self.tables += walk.tables(self.terms.sql)
        return walk.name

    def _seeds(self, variable: str) -> str:
        tests = [self.condition(c) for c in self._alone.get(variable, ()) if id(c) not in self.pushed]
        where = f" WHERE {all_of(tests)}" if tests else ""
        column = self.layout.system(variable, "own" if variable in self.layout.members else "id")
        return f"SELECT {column} FROM {self._relation(variable)}{where}"

    def _side(self, step: plan.Expand) -> Side:
        """The end to start from: the one of which less was read."""
        source, target = self.few.get(step.source), self.few.get(step.target)
        return "target" if target is not None and (source is None or target < source) else "source"

    def _path(self, path: plan.Shortest) -> str:
        return self._walked(self._walk(path.step, self._path_name(path), "source", path=True))

    def _path_name(self, path: plan.Shortest) -> str:
        return self.layout.path(path.path, "length").removesuffix("_length")

    # -- outputs ----------------------------------------------------------------------------------------------

    def _scored(self, rows: str) -> str:
        """The rows of the block, with every distance, score and rank that the outputs and the order need."""
        used = [*(o.expression for o in self.read.outputs), *(o.expression for o in self.read.order)]
        used += [e for e in self.read.ties]
        found = list(_scores([*used, *self.read.having]))
        plain = [s for s in found if not isinstance(s, plan.Rrf)]
        for kind in (plain, [s for s in found if isinstance(s, plan.Rrf)]):
            columns: list[str] = []
            named: list[tuple[plan.Expression, str]] = []
            for term in kind:
                column = f"f{len(self.terms.named) + len(named)}"
                text = self.terms.fused(term) if isinstance(term, plan.Rrf) else self.terms.expression(term)
                columns.append(f"{text} AS {column}")
                named.append((term, column))
            if columns:
                rows = f"SELECT *, {', '.join(columns)} FROM ({rows}) AS b"
                if kind is plain:
                    rows = self._near(rows, named)
                self.terms.named += named
        return rows

    def _near(self, rows: str, named: Sequence[tuple[plan.Expression, str]]) -> str:
        """Leave out what has no distance, where rows are put in the order of it."""
        tests = []
        for order in self.read.order:
            term = order.expression
            if isinstance(term, plan.Output):
                term = self.read.outputs[term.index].expression
            tests += [
                f"{column} IS NOT NULL" for other, column in named if other == term and isinstance(term, plan.Nearest)
            ]
        return f"SELECT * FROM ({rows}) AS b WHERE {all_of(tests)}" if tests else rows

    def _selected(self, rows: str) -> Selected:
        read, terms = self.read, self.terms
        grouped: list[str] = []
        outputs = [""] * len(read.outputs)
        for index, output in enumerate(read.outputs):
            if read.aggregated and output.key:
                rows = f"SELECT *, {terms.expression(output.expression)} AS g{index} FROM ({rows}) AS b"
                outputs[index] = f"g{index}"
                grouped.append(outputs[index])
        terms.outputs = outputs  # the others may be made of what is grouped by
        for index, output in enumerate(read.outputs):
            outputs[index] = outputs[index] or terms.expression(output.expression)
        selected, columns = self._columns(outputs)
        if read.distinct and not read.aggregated:  # the rows of groups are distinct
            rows = f"SELECT DISTINCT {', '.join(selected)} FROM ({rows}) AS b" + _group(grouped)
            terms.outputs, selected, grouped = [c.names[0] for c in columns], ["*"], []
        tests = [f"{terms.predicate(p)} AS h{n}" for n, p in enumerate(read.having)]
        keys = [f"{terms.expression(o.expression)} AS k{n}" for n, o in enumerate(read.order)]
        ties = [f"{terms.expression(t)} AS t{n}" for n, t in enumerate(read.ties)] if keys or read.offset else []
        text = f"SELECT {', '.join([*selected, *tests, *keys, *ties])} FROM ({rows}) AS b" + _group(grouped)
        sorted_by = [
            f"k{n} {'DESC NULLS LAST' if o.descending else 'ASC NULLS FIRST'}" for n, o in enumerate(read.order)
        ]
        sorted_by += [f"t{n} ASC NULLS FIRST" for n in range(len(ties))]
        where = f" WHERE {all_of(f'h{n}' for n in range(len(tests)))}" if tests else ""
        return Selected(text, columns, where, tuple(sorted_by))

    def _computed(self, selected: Selected) -> Selected:
        """The same with every value computed before `having` chooses. An engine that moved its tests down to the scans
        would compute values of rows that are not found, and leave out those that fail. No engine moves a test below a
        number that it cannot know."""
        rows = f"SELECT *, {self.terms.sql.chance} AS z FROM ({selected.rows}) AS b"
        held = selected.where.removeprefix(" WHERE ")
        return replace(selected, rows=rows, where=f" WHERE CASE WHEN {held} THEN z END >= 0")

    def _cut(self, selected: Selected, limit: int | None, offset: int) -> str:
        """The outputs in their order, those that limit and offset leave."""
        text = f"SELECT {selected.names} FROM ({selected.rows}) AS b{selected.where}"
        text += f"\nORDER BY {', '.join(selected.order)}" if selected.order else ""
        text += "" if limit is None else f"\nLIMIT {limit:d}"
        return text + (f"\nOFFSET {offset:d}" if offset else "")

    def _columns(self, outputs: Sequence[str]) -> tuple[list[str], tuple[Column, ...]]:
        """What is selected for the outputs: a whole entity takes a column for each of its own."""
        selected, columns = [], []
        for index, (output, text) in enumerate(zip(self.read.outputs, outputs, strict=True)):
            names = [f"o{index}"]
            selected.append(f"{text} AS o{index}")
            if isinstance(output.expression, plan.Whole):
                variable = output.expression.variable
                others = [self.layout.system(variable, c) for c in output.expression.entity.system[1:]]
                others += [self.layout.property(variable, p) for p in whole(output.expression.entity)]
                for number, column in enumerate(others):
                    names.append(f"o{index}_{number}")
                    value = f"any_value({column})" if self.read.aggregated else column
                    selected.append(f"{value} AS {names[-1]}")
            columns.append(Column(output, tuple(names)))
        return selected, tuple(columns)


def chosen(tables: Sequence[str], tests: Sequence[str]) -> str:
    """A SELECT of all columns of tables, where the tests hold."""
    start = f"SELECT * FROM {', '.join(tables)}" if tables else "SELECT 1 AS nothing"
    return f"{start} WHERE {all_of(tests)}" if tests else start


def whole(entity: Entity) -> list[Property]:
    """The properties that a whole entity is returned with."""
    return [p for p in entity.defined.properties if p.type.base != "Blob"]


def connected(either: plan.Either, block: plan.Block) -> tuple[str, ...] | None:
    """The nodes of a block that every alternative connects by traversals; None where one does not, or uses more."""
    shared = either.shared
    mine = {s.variable for s in block.scans}
    if len(shared) < 2 or not set(shared) <= mine:
        return None
    for inner in either.blocks:
        groups = [{s.source, s.target} for s in inner.expansions]
        reached = {shared[0]}
        for _ in groups:
            reached |= {v for g in groups if g & reached for v in g}
        if inner.optional or inner.counts or not set(shared) <= reached:
            return None
    return shared


def introduces(block: plan.Block) -> bool:
    """Whether a block, or an optional part of it, has a variable of its own. One that has none changes no row."""
    return bool(block.variables) or any(introduces(part.block) for part in block.optional)


_OF_SEVERAL = (plan.ListOf, plan.Function, plan.Case, plan.When)


def _group(columns: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(columns)}" if columns else ""


def _alone(block: plan.Block) -> Iterator[tuple[str, list[plan.Condition]]]:
    for inner in blocks(block):
        for scan in inner.scans:
            mine = [c for c in inner.conditions if variables(c) == {scan.variable}]
            yield scan.variable, mine


def _scores(terms: Sequence[object]) -> Iterator[plan.Nearest | plan.Bm25 | plan.Rrf]:
    """Every different score in some expressions and predicates, parts before what is made of them."""
    found: list[object] = []

    def walk(term: object) -> None:
        if isinstance(term, plan.Rrf):
            walk(term.first)
            walk(term.second)
        if isinstance(term, plan.Nearest | plan.Bm25 | plan.Rrf):
            if term not in found:
                found.append(term)
            return
        for name in ("left", "right", "operand", "options", "argument", "value", "otherwise"):
            if (part := getattr(term, name, None)) is not None:
                walk(part)
        for name in ("items", "arguments", "branches", "conditions"):
            for item in getattr(term, name, ()) if isinstance(term, _OF_SEVERAL) else ():
                walk(item)

    for term in terms:
        walk(term)
    yield from found  # type: ignore[misc]
