"""From the clauses of `match` to a block of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from quire.errors import InvalidQuery
from quire.graph.catalog import Entity
from quire.graph.interface_type import InterfaceType
from quire.graph.language import ast, plan
from quire.graph.language.checker.expression import Context, Expressions
from quire.graph.language.checker.predicate import predicate
from quire.graph.language.checker.scope import Bound, Scope, Scopes, resolve, small
from quire.graph.language.plan_parts import parts, variables
from quire.graph.language.position import wrong


@dataclass
class Matching:
    """Makes the blocks of one query. Errors in single conditions are gathered, so that one does not hide the next."""

    context: Context
    scopes: Scopes
    counts: dict[int, list[plan.Counted]] = field(default_factory=dict)
    """What is counted, by the identity of the scope that it is counted in."""

    _known: dict[tuple[int, ast.CountOf], tuple[ast.At, str]] = field(default_factory=dict)
    """Where a block was written first, and its name."""

    def __post_init__(self) -> None:
        self.context.counted = self.counted

    def counted(self, scope: Scope, given: ast.CountOf) -> plan.CountOf:
        """A block that is counted for the rows of a scope; once, however often it is written."""
        known = self._known.setdefault((id(scope), given), (given.at, self.scopes.unnamed("count")))
        at, name = known
        if at != given.at:
            scope.inner.pop(given.at, None)
        if at != given.at or any(one.name == name for one in self.counts_of(scope)):
            return plan.CountOf(name)
        [inner] = scope.inner[given.at]
        block = self.block(inner)
        self.counts.setdefault(id(scope), []).append(plan.Counted(name, block, _shared(inner, block)))
        return plan.CountOf(name)

    def counts_of(self, scope: Scope) -> tuple[plan.Counted, ...]:
        return tuple(self.counts.get(id(scope), ()))

    def block(self, scope: Scope) -> plan.Block:
        optionals = {b.unique for o in scope.optionals() for b in o.variables()}
        expansions, paths, maybe = [], [], []
        conditions: list[plan.Condition] = []
        after: list[plan.Condition] = []
        for clause in scope.clauses:
            try:
                match clause:
                    case ast.Traverse():
                        expansions.append(self._expand(scope, clause))
                    case ast.Shortest():
                        paths.append(
                            plan.Shortest(scope.own[clause.path.name].unique, self._expand(scope, clause.step))
                        )
                    case ast.Optional():
                        [inner] = scope.inner[clause.at]
                        block = self.block(inner)
                        maybe.append(plan.Maybe(block, _shared(inner, block)))
                    case _:
                        for condition in self._conditions(scope, clause):
                            late = bool(optionals & set(variables(condition))) or self._counts(scope, condition)
                            (after if late else conditions).append(condition)
            except InvalidQuery as error:
                self.context.errors.append(error)
        scans = tuple(
            plan.Scan(b.unique, b.entity, self._members(b))
            for b in scope.variables()
            if b.role == "node" and b.entity is not None
        )
        counts = self.counts_of(scope)
        return plan.Block(scans, tuple(expansions), tuple(paths), tuple(conditions), tuple(maybe), tuple(after), counts)

    def _members(self, bound: Bound) -> tuple[plan.Member, ...]:
        types = bound.entity.members if isinstance(bound.entity, InterfaceType) else ()
        return tuple(plan.Member(self.scopes.member(bound, type), type) for type in types)

    def _counts(self, scope: Scope, condition: plan.Condition) -> bool:
        """Whether a condition is about what is counted in this block."""
        mine = {one.name for one in self.counts_of(scope)}
        return any(isinstance(part, plan.CountOf) and part.variable in mine for part in parts(condition))

    def _conditions(self, scope: Scope, clause: ast.Clause) -> Iterator[plan.Condition]:
        types = Expressions(self.context, "match", scope)
        match clause:
            case ast.Bind():
                resolve(scope, clause.variable).uses += 1
                for given in clause.properties:
                    access = ast.Access(clause.variable, given.name, given.at)
                    if clause.variable.name == "_":
                        yield self._anonymous(scope, clause, given)
                    else:
                        yield predicate(ast.Compare("=", access, given.value, given.at), types)
            case ast.Compare() | ast.IsNull() | ast.Matches():
                yield predicate(clause, types)
            case ast.Not():
                [inner] = scope.inner[clause.at]
                block = self.block(inner)
                shared = _shared(inner, block)
                if not shared and not self.context.errors:
                    message = "This not { … } shares no variable with the outside: it holds for all rows or for none."
                    self.context.warn("uncorrelated-not", message, clause.at)
                yield plan.Without(block, shared)
            case ast.Exists():
                [inner] = scope.inner[clause.at]
                block = self.block(inner)
                yield plan.Either((block,), _shared(inner, block))
            case ast.Or():
                inners = scope.inner[clause.at]
                blocks = tuple(self.block(inner) for inner in inners)
                names = dict.fromkeys(
                    name for inner, block in zip(inners, blocks, strict=True) for name in _shared(inner, block)
                )
                yield plan.Either(blocks, tuple(names))
            case _:
                raise AssertionError(clause)

    def _anonymous(self, scope: Scope, clause: ast.Bind, given: ast.Assignment) -> plan.Predicate:
        """`$_: Type { name: value }`: the only place where the properties of `$_` can be reached."""
        bound = resolve(scope, clause.variable)
        assert bound.entity is not None
        types = Expressions(self.context, "match", scope, row=(bound.unique, bound.entity))
        return predicate(ast.Compare("=", ast.Name(given.name, given.at), given.value, given.at), types)

    def _expand(self, scope: Scope, step: ast.Traverse) -> plan.Expand:
        edge = self.scopes.edges[step.at]
        ends = [resolve(scope, end) for end in (step.source, step.target)]
        for bound in ends:
            bound.uses += 1
        if step.binding is None:
            name = self.scopes.unnamed(small(edge.name))
        else:
            bound = resolve(scope, step.binding)
            bound.uses += 1
            name = bound.unique
        filters = self._of_edge(name, edge, step)
        others = [(self.scopes.unnamed(small(other.name)), other) for other in self.scopes.others[step.at]]
        bounds = step.bounds or ast.Bounds(1, 1)
        self._check_nearest(step, edge, bounds)
        if bounds.most != 1 and edge.defined.source != edge.defined.target:
            types_of_ends = [self.context.catalog.by_id(id).name for id in (edge.defined.source, edge.defined.target)]
            message = f"{edge.name} leads from {' to '.join(types_of_ends)}, so it is never walked more than one hop."
            self.context.warn("bounds-without-effect" if bounds.least == 1 else "never-holds", message, step.at)
        elif bounds.most is None:
            message = f"{step.edge}{{{bounds.least},}} has no upper bound and may walk the whole graph."
            self.context.warn("unbounded-traversal", message, step.at)
        return plan.Expand(
            ends[0].unique,
            ends[1].unique,
            name,
            edge,
            self.scopes.directions[step.at],
            step.binding is not None,
            bounds.least,
            bounds.most,
            filters,
            tuple(plan.Along(name, other, self._of_edge(name, other, step)) for name, other in others),
        )

    def _of_edge(self, name: str, edge: Entity, step: ast.Traverse) -> tuple[plan.Predicate, ...]:
        """The filters of a traversal, about the properties of one of its edge types."""
        types = Expressions(self.context, "edge", row=(name, edge))
        return tuple(predicate(given, types) for given in step.filters)

    def _check_nearest(self, step: ast.Traverse, edge: Entity, bounds: ast.Bounds) -> None:
        """A walk of no hop ends at the node where it begins, so both ends are of one type."""
        if bounds.least == 0 and edge.defined.source != edge.defined.target:
            ends = [self.context.catalog.by_id(id).name for id in (edge.defined.source, edge.defined.target)]
            raise wrong(
                step.at,
                f"{edge.name} leads from {' to '.join(ends)}, so there is no walk of 0 hops along it.",
                "Begin the bounds at 1.",
            )


def _shared(scope: Scope, block: plan.Block) -> tuple[str, ...]:
    """Variables that a block uses and does not introduce."""
    own = {b.unique for s in scope.all() for b in s.variables()} | {a.edge for e in _expansions(block) for a in e.every}
    return tuple(dict.fromkeys(name for name in variables(block) if name not in own))


def _expansions(block: plan.Block) -> Iterator[plan.Expand]:
    yield from block.expansions
    yield from (p.step for p in block.paths)
    for condition in (*block.conditions, *block.after):
        match condition:
            case plan.Without():
                yield from _expansions(condition.block)
            case plan.Either():
                for inner in condition.blocks:
                    yield from _expansions(inner)
            case _:
                pass
    for inner in (*(p.block for p in block.optional), *(c.block for c in block.counts)):
        yield from _expansions(inner)
