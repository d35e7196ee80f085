"""What a read means, in plain loops over plain dicts.

It shares the parsed tree with the engine and nothing else: no check, no plan, no SQL. Where a value cannot be computed
(a division by zero, an overflow) it says so; in conditions the engine may come upon such a value also in rows that
another condition leaves out, so there `may_fail` says whether there is any.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from tests.graph.differential.evaluate import Context, Env, Evaluate, Path, Thing, as_single, key_of, parts_of, used
from tests.graph.differential.values import Unclear, Undefined, compared, sorted_by
from tests.graph.differential.walking import paths_from, reached_from
from tests.graph.differential.words import Corpus, distance_of, matches
from tests.graph.differential.world import Kind, Row, World

from quire.graph.language import ast


@dataclass
class Answer:
    rows: list[tuple[Any, ...]]
    ordered: bool
    """The rows come in this order; else in any."""
    limit: int | None = None
    """So many of the rows come, any of them. None where all do."""


class Naive(Evaluate):
    """One read on one world."""

    def __init__(self, world: World, query: ast.Query, values: Mapping[str, Any], now: dt.datetime) -> None:
        super().__init__(world.with_interface(), query, values, now)
        assert isinstance(query.body, ast.Read)
        self.read = query.body
        self.aliases = {p.alias: p.expression for p in self.read.projections if p.alias}
        self.may_fail = False
        self.found: list[Env] = []
        self._corpora: dict[tuple[str, str], Corpus] = {}

    def answer(self) -> Answer:
        """The rows; `Undefined` where one of their values cannot be computed."""
        read = self.read
        kinds = self._look_for_errors(read.match, {})
        for part in parts_of((read.projections, read.having, read.order)):
            if isinstance(part, ast.CountOf):
                self._look_for_errors(part.clauses, kinds)
        self.found = list(self.solve(read.match, {}, {}))
        try:
            return self._answered()
        except Undefined:
            if read.limit is None or (read.having and read.order):
                raise
            raise Unclear from None  # rows beyond the limit need not be computed, unless `having` asks for them

    def _answered(self) -> Answer:
        read = self.read
        self._drop_without_distance()
        contexts = self._contexts()
        rows = [(c, tuple(self._output(p.expression, c) for p in read.projections)) for c in contexts]
        if read.distinct:
            rows = list({repr(outputs): (c, outputs) for c, outputs in reversed(rows)}.values())[::-1]
        rows = [(c, o) for c, o in rows if all([self.holds(test, c) for test in read.having])]
        limit, offset = self._count(read.limit), self._count(read.offset)
        if not read.order and read.offset is None:
            return Answer([o for _, o in rows], False, limit)
        rows = self._sorted(rows)
        rows = rows[offset or 0 :]
        return Answer([o for _, o in (rows if limit is None else rows[:limit])], True)

    # -- match ----------------------------------------------------------------------------------------------------

    def solve(self, clauses: tuple[ast.Clause, ...], env: Env, types: Mapping[str, str]) -> Iterator[Env]:
        """Every way to satisfy clauses, given what is bound outside."""
        types = self._types(clauses, types)
        for optional in _optionals(clauses):
            types = self._types(optional.clauses, types)  # later blocks see its variables
        own = list(dict.fromkeys(k for k in _nodes(clauses) if k not in env))
        for base in self._combined(own, clauses, env, types):
            for bound in self._with_edges(clauses, base, types):
                rows = [bound] if self._all_hold(self._early(clauses, bound), bound, types) else []
                for clause in clauses:
                    if isinstance(clause, ast.Optional):
                        rows = [new for row in rows for new in self._maybe(clause.clauses, row, types)]
                late = [c for c in clauses if c not in self._early(clauses, bound)]
                yield from (row for row in rows if self._all_hold(late, row, types))

    def _combined(
        self, own: list[str], clauses: tuple[ast.Clause, ...], env: Env, types: Mapping[str, str]
    ) -> Iterator[Env]:
        """Nodes for the variables, one after the other, as long as traversals between them are there."""
        if not own:
            if all(self._connects(c, env, types) for c in clauses if isinstance(c, ast.Traverse)):
                yield env
            return
        first, *rest = own
        for row in self.world.rows[types[first]]:
            new = env | {first: Thing(self.world.kinds[types[first]], row)}
            steps = [c for c in clauses if isinstance(c, ast.Traverse) and key_of(c.source) in new]
            if all(self._connects(c, new, types) for c in steps if key_of(c.target) in new):
                yield from self._combined(rest, clauses, new, types)

    def _with_edges(self, clauses: tuple[ast.Clause, ...], env: Env, types: Mapping[str, str]) -> Iterator[Env]:
        """The same with edges and paths that have a name: every combination of them."""
        choices: list[list[tuple[str, Thing | Path]]] = []
        for clause in clauses:
            if isinstance(clause, ast.Traverse) and clause.binding is not None:
                kind = self.world.edge(clause.edge)
                fitting = [Thing(kind, e) for e in self._edges(clause, types) if self._between(clause, e, env, types)]
                choices.append([(key_of(clause.binding), e) for e in fitting])
            elif isinstance(clause, ast.Shortest):
                ways = self._ways(clause.step, env, types)
                choices.append([(key_of(clause.path), Path(ways))] if ways else [])
        for chosen in product(*choices):
            yield env | dict(chosen)

    def _maybe(self, clauses: tuple[ast.Clause, ...], env: Env, types: Mapping[str, str]) -> list[Env]:
        nothing: Env = dict.fromkeys(k for k in _introduced(clauses) if k not in env)
        if not nothing:
            return [env]
        return list(self.solve(clauses, env, types)) or [env | nothing]

    def _early(self, clauses: tuple[ast.Clause, ...], env: Env) -> list[ast.Clause]:
        """Conditions on what is bound before the optional parts."""
        plain = [c for c in clauses if isinstance(c, ast.Bind | ast.Compare | ast.IsNull | ast.Matches)]
        return [c for c in plain if all(v in env or v in self.values for v in used(c))]

    def _all_hold(self, clauses: Iterable[ast.Clause], env: Env, types: Mapping[str, str]) -> bool:
        """Whether all hold. One that does not decides it, whatever cannot be computed in another."""
        undefined = None
        for clause in clauses:
            try:
                if not self._satisfied(clause, env, types):
                    return False
            except Undefined as error:
                undefined = error
        if undefined is not None:
            raise undefined
        return True

    def _satisfied(self, clause: ast.Clause, env: Env, types: Mapping[str, str]) -> bool:
        match clause:
            case ast.Bind():
                thing = env[key_of(clause.variable)]
                assert isinstance(thing, Thing)
                return all(
                    compared("=", thing.get(a.name), self._given(thing, a, Context(env))) for a in clause.properties
                )
            case ast.Compare() | ast.IsNull() | ast.Matches():
                return self.holds(clause, Context(env))
            case ast.Not():
                return not self._exists([clause.clauses], env, types)
            case ast.Exists():
                return self._exists([clause.clauses], env, types)
            case ast.Or():
                return self._exists(clause.alternatives, env, types)
            case _:
                return True

    def _given(self, thing: Thing, assignment: ast.Assignment, at: Context) -> Any:
        """What a property has to be; an F32 is what was written as it holds it."""
        value, prop = self.value(assignment.value, at), thing.kind.prop(assignment.name)
        return as_single(assignment.value, value) if prop is not None and prop.base == "F32" else value

    def _exists(self, blocks: Iterable[tuple[ast.Clause, ...]], env: Env, types: Mapping[str, str]) -> bool:
        undefined = None
        for block in blocks:
            try:
                if next(self.solve(block, env, types), None) is not None:
                    return True
            except Undefined as error:
                self.may_fail, undefined = True, error
        if undefined is not None:
            raise undefined
        return False

    def count_of(self, given: ast.CountOf, at: Context) -> int:
        """How many ways there are to satisfy the clauses, given what is bound around them."""
        return len(list(self.solve(given.clauses, at.env, self._all_types(at.env))))

    def _all_types(self, env: Env) -> dict[str, str]:
        """The types of all nodes that a block may see, be they null or not."""
        found = self._types(self.read.match, {})
        for optional in _optionals(self.read.match):
            found = self._types(optional.clauses, found)
        return found | {name: thing.kind.name for name, thing in env.items() if isinstance(thing, Thing)}

    # -- types ----------------------------------------------------------------------------------------------------

    def _types(self, clauses: tuple[ast.Clause, ...], known: Mapping[str, str]) -> dict[str, str]:
        """The types of node variables: as they are bound, else from the edges between them."""
        found, pool = dict(known), list(_flat(clauses))
        for clause in pool:
            if isinstance(clause, ast.Bind):
                found[key_of(clause.variable)] = clause.type
        steps = [c for c in pool if isinstance(c, ast.Traverse)]
        for forward in [False] * len(steps) + [True] * len(steps):
            for step in steps:
                self._type_ends(step, found, forward)
        return found

    def _type_ends(self, step: ast.Traverse, found: dict[str, str], forward: bool) -> None:
        kind, source, target = self.world.edge(step.edge), key_of(step.source), key_of(step.target)
        if not (kind.loops or source in found or target in found or forward):
            return
        backward = self._is_backward(step, found)
        ends = (kind.target, kind.source) if backward else (kind.source, kind.target)
        found.setdefault(source, ends[0])
        found.setdefault(target, ends[1])

    def _is_backward(self, step: ast.Traverse, types: Mapping[str, str]) -> bool:
        """Whether the source of a step is at the target of the edge. What may be at both ends does not say it."""
        kind = self.world.edge(step.edge)
        for end, near, far in ((step.source, kind.source, kind.target), (step.target, kind.target, kind.source)):
            given = self.world.kinds.get(types.get(key_of(end), ""))
            if given is not None and not kind.loops and not (given.may_be(near) and given.may_be(far)):
                return given.may_be(far)
        return False

    def _ends(self, step: ast.Traverse, env: Env, types: Mapping[str, str]) -> tuple[str | None, str | None]:
        """The nodes at the ends of a step, as edges call them; None for what no such edge can lead to."""
        kind = self.world.edge(step.edge)
        near, far = (kind.target, kind.source) if self._is_backward(step, types) else (kind.source, kind.target)
        return _end(env[key_of(step.source)], near), _end(env[key_of(step.target)], far)

    def _look_for_errors(self, clauses: tuple[ast.Clause, ...], types: dict[str, str]) -> dict[str, str]:
        """Whether a condition cannot be computed for any nodes and edges at all, be they part of a row or not.

        What is known of types goes on to later blocks.
        """
        kinds = self._types(clauses, types)
        for clause in clauses:
            if isinstance(clause, ast.Traverse) and clause.binding is not None:
                kinds[key_of(clause.binding)] = self.world.edge(clause.edge).name
        for clause in clauses:
            if isinstance(clause, ast.Optional):
                kinds = self._look_for_errors(clause.clauses, kinds)
        for part in (p for c in clauses if isinstance(c, ast.Compare | ast.IsNull) for p in parts_of(c)):
            if isinstance(part, ast.CountOf):
                self._look_for_errors(part.clauses, kinds)
        for clause in clauses:
            if isinstance(clause, ast.Not | ast.Exists):
                self._look_for_errors(clause.clauses, kinds)
            elif isinstance(clause, ast.Or):
                for alternative in clause.alternatives:
                    self._look_for_errors(alternative, kinds)
            elif isinstance(clause, ast.Compare | ast.IsNull):
                names = [v for v in dict.fromkeys(used(clause)) if v in kinds]
                rows = [[Thing(self.world.kinds[kinds[v]], r) for r in self.world.rows[kinds[v]]] for v in names]
                for things in product(*rows):
                    try:
                        self.holds(clause, Context(dict(zip(names, things, strict=True))))
                    except Undefined:
                        self.may_fail = True
                    except KeyError:
                        pass  # it is about a path or an edge of a block around it
            elif isinstance(clause, ast.Traverse | ast.Shortest):
                step = clause.step if isinstance(clause, ast.Shortest) else clause
                for kind in (self.world.edge(name) for name in (step.edge, *step.others)):
                    for edge, test in product(self.world.rows[kind.name], step.filters):
                        try:
                            self.holds(test, Context({}, bare=Thing(kind, edge)))
                        except Undefined:
                            self.may_fail = True
        return kinds

    # -- edges ----------------------------------------------------------------------------------------------------

    def _passes(self, step: ast.Traverse, edge: Row, kind: Kind) -> bool:
        context = Context({}, bare=Thing(kind, edge))
        try:
            return self.all_hold(step.filters, context)
        except Undefined:
            raise Unclear from None  # the edge may lead nowhere that matters

    def _edges(self, step: ast.Traverse, types: Mapping[str, str]) -> list[Row]:
        """The edges that a step may walk."""
        kinds = [self.world.edge(name) for name in (step.edge, *step.others)]
        return [e for kind in kinds for e in self.world.rows[kind.name] if self._passes(step, e, kind)]

    def _pairs(self, step: ast.Traverse, types: Mapping[str, str]) -> list[tuple[str, str]]:
        """Their ends, in the direction of the step."""
        edges = self._edges(step, types)
        forward = [(e["@src"], e["@dst"]) for e in edges]
        backward = [(t, s) for s, t in forward]
        if step.either:
            return forward + backward
        return backward if self._is_backward(step, types) else forward

    def _between(self, step: ast.Traverse, edge: Row, env: Env, types: Mapping[str, str]) -> bool:
        ends = (edge["@src"], edge["@dst"])
        if self._is_backward(step, types):
            ends = ends[::-1]
        wanted = self._ends(step, env, types)
        return wanted == ends or (step.either and wanted == ends[::-1])

    def _connects(self, step: ast.Traverse, env: Env, types: Mapping[str, str]) -> bool:
        source, target = self._ends(step, env, types)
        if source is None or target is None:
            return False
        pairs = self._pairs(step, types)
        if step.bounds is None:
            return (source, target) in pairs
        once = not self.world.edge(step.edge).loops
        return target in reached_from(source, pairs, step.bounds.least, step.bounds.most, once)

    def _ways(self, step: ast.Traverse, env: Env, types: Mapping[str, str]) -> list[str]:
        source, target = self._ends(step, env, types)
        if source is None or target is None:
            return []
        least, most = (step.bounds.least, step.bounds.most) if step.bounds else (1, 1)
        once = not self.world.edge(step.edge).loops
        return paths_from(source, self._pairs(step, types), least, most, once).get(target, [])

    # -- searches -------------------------------------------------------------------------------------------------

    def call(self, given: ast.Call, at: Context) -> Any:
        if given.function == "now":
            return super().call(given, at)
        if given.function == "rrf":
            return self._fused(given, at)
        field, wanted = given.arguments[0], self.value(given.arguments[1], at)
        assert isinstance(field, ast.Access)
        thing = at.env[field.variable.name]
        found = self.property(thing, field.property)
        if given.function == "nearest":
            metric = self._kind_of(field.variable.name).prop(field.property).metric  # type: ignore[union-attr]
            return None if found is None else distance_of(metric or "l2", found, wanted)
        if given.function == "bm25":
            return self._corpus(field).score(found, wanted)
        most = self.value(given.arguments[2], at) if len(given.arguments) == 3 else None
        return None if found is None else matches(given.function, found, wanted, most)

    def _corpus(self, field: ast.Access) -> Corpus:
        kind = self._kind_of(field.variable.name)
        key = kind.name, field.property
        if key not in self._corpora:
            self._corpora[key] = Corpus([row[field.property] for row in self.world.rows[kind.name]])
        return self._corpora[key]

    def _kind_of(self, variable: str) -> Kind:
        """The type of a variable, wherever in the query it is introduced."""
        return self.world.kinds[self._all_types({})[variable]]

    def _fused(self, given: ast.Call, at: Context) -> float:
        k = self.value(given.arguments[2], at) if len(given.arguments) == 3 else 60
        total = 0.0
        for arm in given.arguments[:2]:
            assert isinstance(arm, ast.Call)
            field = arm.arguments[0]
            assert isinstance(field, ast.Access)
            mine = at.env[field.variable.name]
            ranked = self._ranked(arm, field.variable.name)
            if isinstance(mine, Thing) and mine.id in ranked:
                total += 1 / (k + 1 + ranked.index(mine.id))
        return total

    def _ranked(self, arm: ast.Call, variable: str) -> list[str]:
        """The ids of what was found, the best first; without what has no distance or matches nothing."""
        scores: dict[str, float] = {}
        for env in self.found:
            thing = env[variable]
            if isinstance(thing, Thing):
                scores[thing.id] = self.value(arm, Context(env))
        if arm.function == "nearest":
            there = [(score, id) for id, score in scores.items() if score is not None]
        else:
            there = [(-score, id) for id, score in scores.items() if score > 0]
        return [id for _, id in sorted(there)]

    def _drop_without_distance(self) -> None:
        """Rows in the order of a distance have one."""
        for ordering in self.read.order:
            found = self._resolved(ordering.expression)
            if isinstance(found, ast.Call) and found.function == "nearest":
                self.found = [env for env in self.found if self.value(found, Context(env)) is not None]

    # -- outputs --------------------------------------------------------------------------------------------------

    def _resolved(self, given: ast.Expression) -> ast.Expression:
        return self.aliases[given.name] if isinstance(given, ast.Name) else given

    def _output(self, given: ast.Expression, at: Context) -> Any:
        found = self.value(given, at)
        return found.whole if isinstance(found, Thing) else found

    def _contexts(self) -> list[Context]:
        """A context per row of the answer: rows as they were found, or groups of them."""
        read = self.read
        everything = [*(p.expression for p in read.projections), *read.having, *(o.expression for o in read.order)]
        if not any(self._aggregates(e) for e in everything):
            return [Context(env) for env in self.found]
        keys = [p.expression for p in read.projections if not self._aggregates(p.expression)]
        groups: dict[str, list[Env]] = {} if keys else {"": []}
        for env in self.found:
            key = repr([self.plain(k, Context(env)) for k in keys]) if keys else ""
            groups.setdefault(key, []).append(env)
        return [Context(rows[0] if rows else {}, group=rows) for rows in groups.values()]

    def _aggregates(self, part: object) -> bool:
        return any(
            isinstance(p, ast.Aggregate)
            or (isinstance(p, ast.Name) and p.name in self.aliases and self._aggregates(self.aliases[p.name]))
            for p in parts_of(part)
        )

    def _sorted(self, rows: list[tuple[Context, tuple[Any, ...]]]) -> list[tuple[Context, tuple[Any, ...]]]:
        keys: list[tuple[list[Any], bool]] = []
        for ordering in self.read.order:
            found = self._resolved(ordering.expression)
            best_first = isinstance(found, ast.Call) and found.function in (
                "bm25",
                "rrf",
                "search",
                "match_text",
                "fuzzy",
            )
            descending = best_first if ordering.descending is None else ordering.descending
            keys.append(([self.plain(ordering.expression, c) for c, _ in rows], descending))
        return sorted_by(rows, [*keys, *((column, False) for column in self._ties(rows))])

    def _ties(self, rows: list[tuple[Context, tuple[Any, ...]]]) -> Iterator[list[Any]]:
        """What decides between rows that are equal in the order: ids, or the outputs where rows have none."""
        grouped = bool(rows) and rows[0][0].group is not None
        if grouped or self.read.distinct:
            for projection in self.read.projections:
                if not (grouped and self._aggregates(projection.expression)):
                    yield [self.plain(projection.expression, c) for c, _ in rows]
            return
        for name in _tied(self.read.match, set()):
            yield [_id(c.env.get(name)) for c, _ in rows]

    def _count(self, given: ast.Literal | ast.Variable | None) -> int | None:
        found = None if given is None else self.value(given, Context({}))
        assert found is None or isinstance(found, int)
        return found


# -- names of variables -----------------------------------------------------------------------------------------------


def _end(found: Thing | Path | None, kind: str) -> str | None:
    return found.end(kind) if isinstance(found, Thing) else None


def _id(found: Thing | Path | None) -> str | None:
    return found.id if isinstance(found, Thing) else None


def _nodes(clauses: Iterable[ast.Clause]) -> Iterator[str]:
    """Node variables that clauses bind, in their order; of an `or`, those that every alternative binds."""
    for clause in clauses:
        match clause:
            case ast.Bind():
                yield key_of(clause.variable)
            case ast.Traverse():
                yield from (key_of(clause.source), key_of(clause.target))
            case ast.Or():
                first, *rest = [[n for n in _nodes(a) if not n.startswith("_")] for a in clause.alternatives]
                yield from (name for name in first if all(name in other for other in rest))
            case _:
                pass


def _optionals(clauses: Iterable[ast.Clause]) -> Iterator[ast.Optional]:
    """Optional blocks and those inside them, in their order."""
    for clause in clauses:
        if isinstance(clause, ast.Optional):
            yield clause
            yield from _optionals(clause.clauses)


def _named_edges(clauses: Iterable[ast.Clause]) -> Iterator[str]:
    for clause in clauses:
        if isinstance(clause, ast.Traverse) and clause.binding is not None:
            yield key_of(clause.binding)


def _introduced(clauses: Iterable[ast.Clause]) -> Iterator[str]:
    """Everything that an optional block and those inside it bind."""
    clauses = tuple(clauses)
    yield from (*_nodes(clauses), *_named_edges(clauses))
    for clause in clauses:
        if isinstance(clause, ast.Shortest):
            yield key_of(clause.path)
        elif isinstance(clause, ast.Optional):
            yield from _introduced(clause.clauses)


def _tied(clauses: Iterable[ast.Clause], seen: set[str]) -> Iterator[str]:
    """The nodes of a block, its edges, then those of its optional parts."""
    clauses = tuple(clauses)
    for name in (*_nodes(clauses), *_named_edges(clauses)):
        if name not in seen:
            seen.add(name)
            yield name
    for clause in clauses:
        if isinstance(clause, ast.Optional):
            yield from _tied(clause.clauses, seen)


def _flat(clauses: Iterable[ast.Clause]) -> Iterator[ast.Clause]:
    """Clauses, and those of alternatives, whose variables are typed together."""
    for clause in clauses:
        yield clause
        if isinstance(clause, ast.Or):
            for alternative in clause.alternatives:
                yield from _flat(alternative)
