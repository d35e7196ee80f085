"""Which variables a query has, where they can be seen, and of which type they are.

A block introduces a variable where it binds it: `$x: Type`, the ends of a traversal, `$e:`, `$p = shortest(…)`. Blocks
inside it see it. A node that every alternative of an `or` binds belongs to the block around the `or`; so an `or` is a
condition and nothing else. What an `optional` introduces is seen after it: by conditions, by later `optional`s and by
`return`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Literal

from quire.errors import NotFound
from quire.graph.catalog import Catalog, Entity
from quire.graph.interface_type import fits, interface_type
from quire.graph.language import ast
from quire.graph.language.ast import At
from quire.graph.language.plan import Direction
from quire.graph.language.position import wrong
from quire.graph.names import nearest

Role = Literal["node", "edge", "path"]
Kind = Literal["match", "not", "exists", "or", "optional", "count"]


@dataclass(eq=False)
class Bound:
    """A variable of the query."""

    name: str
    """As it was written."""
    unique: str
    """As the plan calls it."""
    role: Role
    at: At
    scope: Scope
    entity: Entity | None = None
    """Of nodes and edges, as soon as it is known."""
    uses: int = 0

    @property
    def type_name(self) -> str:
        return self.entity.name if self.entity else "a path"


@dataclass(eq=False)
class Scope:
    """A block of clauses with the variables that it introduces."""

    clauses: tuple[ast.Clause, ...]
    kind: Kind
    parent: Scope | None = None
    own: dict[str, Bound] = field(default_factory=dict)
    anonymous: dict[At, Bound] = field(default_factory=dict)
    """`$_`, by position."""
    inner: dict[At, list[Scope]] = field(default_factory=dict)
    """Of `not`, `exists`, `or`, `optional` and `count`, by position."""

    def chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def find(self, name: str) -> Bound | None:
        """The variable that a name means in this block: its own, one around it, one of an optional that came before."""
        inside: Scope | None = None
        for scope in self.chain():
            if name in scope.own:
                return scope.own[name]
            for optional in scope.optionals(before=inside):
                if name in optional.own:
                    return optional.own[name]
            inside = scope
        return None

    def optionals(self, before: Scope | None = None) -> Iterator[Scope]:
        """Its optional blocks; only those before one of them, if it is one."""
        for clause in self.clauses:
            if isinstance(clause, ast.Optional) and clause.at in self.inner:
                [block] = self.inner[clause.at]
                if block is before:
                    return
                yield block
                yield from block.optionals()

    def sees_null(self, bound: Bound) -> bool:
        """Whether the variable may be null here: it belongs to an optional block that this one is not in."""
        around = set(self.chain())
        return any(s.kind == "optional" and s not in around for s in bound.scope.chain())

    def all(self) -> Iterator[Scope]:
        """This block and all inside it, in the order in which they are written."""
        yield self
        for at in sorted(self.inner, key=lambda at: (at.line, at.column)):
            for block in self.inner[at]:
                yield from block.all()

    def variables(self) -> Iterator[Bound]:
        """What it introduces, in the order in which it is written."""
        yield from sorted((*self.own.values(), *self.anonymous.values()), key=lambda b: (b.at.line, b.at.column))


class Scopes:
    """Makes the scopes of a query: first the variables, then their types."""

    def __init__(self, catalog: Catalog, parameters: Iterable[str]) -> None:
        self.catalog = catalog
        self.parameters = set(parameters)
        self.taken: set[str] = set(self.parameters)
        self.directions: dict[At, Direction] = {}
        """Of traversals, by position."""
        self.edges: dict[At, Entity] = {}
        self.others: dict[At, tuple[Entity, ...]] = {}
        """The other edge types of a traversal along several."""

    def build(self, clauses: tuple[ast.Clause, ...], rest: object = ()) -> Scope:
        """The scope of `match`, with all the others inside it, typed. `rest` is what comes after, which may count."""
        root = self._declare(clauses, "match", None)
        self._declare_counts(root, rest)
        self._resolve(root)
        return root

    # -- variables ------------------------------------------------------------------------------------------------

    def _declare(self, clauses: tuple[ast.Clause, ...], kind: Kind, parent: Scope | None) -> Scope:
        scope = Scope(clauses, kind, parent)
        for clause in clauses:
            for variable, role in bindings(clause):
                self._introduce(scope, variable, role)
            if isinstance(clause, ast.Or):
                for variable in _in_every(clause):
                    if scope.find(variable.name) is None:
                        self._introduce(scope, variable, "node")
        # Optional blocks come first, since conditions see what they introduce.
        for clause in sorted(clauses, key=lambda c: not isinstance(c, ast.Optional)):
            if isinstance(clause, ast.Or):
                scope.inner[clause.at] = [self._declare(a, "or", scope) for a in clause.alternatives]
            elif isinstance(clause, ast.Not):
                scope.inner[clause.at] = [self._declare(clause.clauses, "not", scope)]
            elif isinstance(clause, ast.Exists):
                scope.inner[clause.at] = [self._declare(clause.clauses, "exists", scope)]
            elif isinstance(clause, ast.Optional):
                self._check_optional(scope, clause)
                scope.inner[clause.at] = [self._declare(clause.clauses, "optional", scope)]
        for clause in clauses:
            if not isinstance(clause, _OF_BLOCKS):
                self._declare_counts(scope, clause)
        return scope

    def _declare_counts(self, scope: Scope, part: object) -> None:
        """The blocks that are counted in a part of the tree."""
        if isinstance(part, ast.CountOf):
            scope.inner[part.at] = [self._declare(part.clauses, "count", scope)]
        elif isinstance(part, tuple):
            for item in part:
                self._declare_counts(scope, item)
        elif is_dataclass(part) and not isinstance(part, At):
            for one in fields(part):
                self._declare_counts(scope, getattr(part, one.name))

    def _check_optional(self, scope: Scope, clause: ast.Optional) -> None:
        kinds = {s.kind for s in scope.chain()}
        if "count" in kinds:
            raise wrong(clause.at, "optional { … } cannot be counted.", "Leave it out, or count what it is about.")
        if kinds & {"not", "or", "exists"}:
            where = "not { … } or or { … }" if "exists" not in kinds else "exists { … }"
            raise wrong(clause.at, f"optional {{ … }} has no effect inside {where}.", "Leave it out.")

    def _introduce(self, scope: Scope, variable: ast.Variable, role: Role) -> None:
        if variable.name == "_":
            if role == "path":
                raise wrong(variable.at, "a path needs a name.", "Write $p = shortest(…), then use $p.length.")
            scope.anonymous[variable.at] = Bound("_", self._unique("_"), role, variable.at, scope)
            return
        if variable.name in self.parameters:
            raise wrong(
                variable.at,
                f"${variable.name} is a parameter and cannot be used as {_a(role)} variable.",
                "Use another name.",
                variable=variable.name,
            )
        found = scope.find(variable.name)
        if found is None:
            bound = Bound(variable.name, self._unique(variable.name), role, variable.at, scope)
            scope.own[variable.name] = bound
        elif found.role != role or role != "node":
            raise wrong(
                variable.at,
                f"${variable.name} is {_a(found.role)} already (line {found.at.line}) and cannot be {_a(role)} too.",
                "Use another name.",
                variable=variable.name,
            )

    def member(self, bound: Bound, type: Entity) -> str:
        """A name for the nodes of one type of an interface; no variable can have it."""
        return self._unique(f"{bound.unique}:{type.name}")

    def unnamed(self, edge: str) -> str:
        """A name for an edge that was given none; no variable can have it."""
        return self._unique(f"<{edge}>")

    def _unique(self, name: str) -> str:
        found, number = name, 1
        while found in self.taken or found == "_":
            number += 1
            found = f"{name}#{number}"
        self.taken.add(found)
        return found

    # -- types ----------------------------------------------------------------------------------------------------

    def _resolve(self, scope: Scope) -> None:
        """Types of what a block and its alternatives introduce, then of the blocks inside."""
        group = list(_alternatives(scope))
        for block in group:
            for clause in block.clauses:
                if isinstance(clause, ast.Bind):
                    self._typed(block, clause.variable, self._node(clause), clause.at)
        steps = [(b, s) for b in group for s in b.clauses if isinstance(s, ast.Traverse)]
        self._walk(steps)
        for block in group:
            for clause in block.clauses:
                if isinstance(clause, ast.Shortest):
                    self._path(block, clause)
        for kind in (ast.Optional, ast.Not):
            for block in group:
                for clause in block.clauses:
                    if isinstance(clause, kind):
                        self._resolve(block.inner[clause.at][0])
        for block in group:
            for scopes in block.inner.values():
                for inner in scopes:
                    if inner.kind in ("exists", "count"):
                        self._resolve(inner)

    def _node(self, clause: ast.Bind) -> Entity:
        name = clause.type
        try:
            return self.catalog.node(name)
        except NotFound as error:
            interface = interface_type(self.catalog, name)
            if interface is not None and interface.members:
                return interface
            if interface is not None:
                raise wrong(
                    clause.at,
                    f"{name} is an interface that no node type implements, so nothing can be found by it.",
                    f"Match a node type, or declare one with node … implements {name}.",
                    type=name,
                ) from None
            if any(e.name == name for e in self.catalog.edges):
                raise wrong(
                    clause.at,
                    f"{name} is an edge type, and an edge is bound between its ends.",
                    f"Write $a ${clause.variable.name}:{small(name)} $b.",
                    type=name,
                ) from None
            known = [*(e.name for e in self.catalog.nodes), *(i.name for i in self.catalog.interfaces)]
            raise wrong(clause.at, _lower(error.message), nearest(name, known) or error.next, type=name) from None

    def _edge(self, step: ast.Traverse) -> Entity:
        found, *others = [self._edge_type(step, name) for name in (step.edge, *step.others)]
        self.edges[step.at], self.others[step.at] = found, tuple(others)
        for other in others:
            ends = [self.catalog.source(e).name + " to " + self.catalog.target(e).name for e in (found, other)]
            if ends[0] != ends[1]:
                raise wrong(
                    step.at,
                    f"{found.name} leads from {ends[0]}, and {other.name} from {ends[1]}.",
                    "Edge types of one step have the same ends; write the others as alternatives in or { … }.",
                    type=other.name,
                )
        return found

    def _edge_type(self, step: ast.Traverse, name: str) -> Entity:
        try:
            return self.catalog.edge(name)
        except NotFound:
            known = [small(e.name) for e in self.catalog.edges]
            raise wrong(
                step.at,
                f"there is no edge type {name!r}.",
                nearest(name, known) or f"There are {', '.join(known) or 'none; apply a schema first'}.",
                type=name,
            ) from None

    def _walk(self, steps: list[tuple[Scope, ast.Traverse]]) -> None:
        """Type the ends of traversals from each other until all are known. The order of clauses has no say in it."""
        for scope, step in steps:
            edge = self._edge(step)
            if step.binding is not None:
                bound = resolve(scope, step.binding)
                bound.entity = edge
                if step.bounds is not None and (step.bounds.least, step.bounds.most) != (1, 1):
                    raise wrong(
                        step.binding.at,
                        f"${step.binding.name} binds one edge, and a traversal with bounds walks several.",
                        "Leave out the bounds or the binding.",
                    )
        while steps:
            left = [(scope, step) for scope, step in steps if not self._step(scope, step, forward=False)]
            if len(left) == len(steps):
                self._step(*left.pop(0), forward=True)
            steps = left

    def _step(self, scope: Scope, step: ast.Traverse, *, forward: bool) -> bool:
        """Settle the direction of a traversal, if the types of its ends say it, or `forward` does."""
        edge = self.edges[step.at]
        source, target = self.catalog.source(edge), self.catalog.target(edge)
        a, b = resolve(scope, step.source), resolve(scope, step.target)
        same = source.id == target.id
        if step.either and not same:
            raise wrong(
                step.at,
                f"<{step.edge}> goes in both directions, but {edge.name} leads from {source.name} to {target.name}.",
                f"Write {step.edge} without the angle brackets; the direction follows from the types.",
                type=edge.name,
            )
        backward = None if same else _backward(a.entity, b.entity, source, target)
        if backward is None and not (same or forward):
            return False
        self.directions[step.at] = "either" if step.either else "backward" if backward else "forward"
        self._end(scope, step, step.source, target if backward else source, edge)
        self._end(scope, step, step.target, source if backward else target, edge)
        return True

    def _end(self, scope: Scope, step: ast.Traverse, variable: ast.Variable, entity: Entity, edge: Entity) -> None:
        bound = resolve(scope, variable)
        if bound.entity is None:
            bound.entity = entity
        elif not fits(bound.entity, entity):
            source, target = self.catalog.source(edge), self.catalog.target(edge)
            raise wrong(
                variable.at,
                f"${variable.name} is {bound.entity.name}, but {step.edge} leads from {source.name} to {target.name},"
                f" so {entity.name} was expected.",
                "Use another edge or another variable.",
                variable=variable.name,
                type=edge.name,
            )

    def _typed(self, scope: Scope, variable: ast.Variable, entity: Entity, at: At) -> None:
        bound = resolve(scope, variable)
        if bound.entity is not None and bound.entity.id != entity.id:
            raise wrong(
                at,
                f"${variable.name} is {bound.entity.name} already (line {bound.at.line}) and cannot be"
                f" {entity.name} too.",
                "Use another name.",
                variable=variable.name,
            )
        bound.entity = entity

    def _path(self, scope: Scope, clause: ast.Shortest) -> None:
        """Both ends of a path are bound by something else."""
        step = clause.step
        self._edge(step)
        for end in (step.source, step.target):
            if end.name == "_" or scope.find(end.name) is None:
                raise wrong(
                    end.at,
                    f"shortest(…) leads between two nodes that are bound, and ${end.name} is not.",
                    f"Bind it, as in ${'a' if end.name == '_' else end.name}: Type {{ … }}.",
                    variable=end.name,
                )
            if resolve(scope, end).role != "node":
                raise wrong(
                    end.at,
                    f"shortest(…) leads between two nodes, and ${end.name} is {_a(resolve(scope, end).role)}.",
                    "Name the nodes at its ends.",
                    variable=end.name,
                )
            if scope.sees_null(resolve(scope, end)):
                raise wrong(
                    end.at,
                    f"${end.name} belongs to an optional block and may be null, so no path leads there.",
                    "Find the path inside the optional block.",
                    variable=end.name,
                )
        self._step(scope, step, forward=True)


def _backward(a: Entity | None, b: Entity | None, source: Entity, target: Entity) -> bool | None:
    """Whether an edge is walked against its direction by what its ends are; None where they do not say it."""
    for entity, near, far in ((a, source, target), (b, target, source)):
        if entity is not None and not (fits(entity, near) and fits(entity, far)):
            return fits(entity, far)
    return None


_OF_BLOCKS = (ast.Not, ast.Exists, ast.Or, ast.Optional)


def resolve(scope: Scope, variable: ast.Variable) -> Bound:
    """The variable that stands at a position where one is bound."""
    found = scope.anonymous[variable.at] if variable.name == "_" else scope.find(variable.name)
    assert found is not None
    return found


def bindings(clause: ast.Clause) -> Iterator[tuple[ast.Variable, Role]]:
    """The variables that a clause binds by itself."""
    match clause:
        case ast.Bind():
            yield clause.variable, "node"
        case ast.Traverse():
            yield clause.source, "node"
            if clause.binding is not None:
                yield clause.binding, "edge"
            yield clause.target, "node"
        case ast.Shortest():
            yield clause.path, "path"
        case _:
            pass


def _in_every(clause: ast.Or) -> list[ast.Variable]:
    """Nodes that every alternative binds, at the top of it."""

    def nodes(clauses: Iterable[ast.Clause]) -> dict[str, ast.Variable]:
        found: dict[str, ast.Variable] = {}
        for inner in clauses:
            for variable, role in bindings(inner):
                if role == "node" and variable.name != "_":
                    found.setdefault(variable.name, variable)
            if isinstance(inner, ast.Or):
                for variable in _in_every(inner):
                    found.setdefault(variable.name, variable)
        return found

    first, *rest = [nodes(a) for a in clause.alternatives]
    return [variable for name, variable in first.items() if all(name in r for r in rest)]


def _alternatives(scope: Scope) -> Iterator[Scope]:
    """A block and the alternatives inside it, whose variables are typed together."""
    yield scope
    for clause in scope.clauses:
        if isinstance(clause, ast.Or):
            for block in scope.inner[clause.at]:
                yield from _alternatives(block)


def small(name: str) -> str:
    """An edge type as queries write it."""
    return name[:1].lower() + name[1:]


def _a(role: Role) -> str:
    return "an edge" if role == "edge" else f"a {role}"


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]
