"""From `match … return …` to the plan: outputs, grouping, having, order, limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast, get_args

from quire.errors import InvalidQuery
from quire.graph.catalog import Entity
from quire.graph.language import ast, plan
from quire.graph.language.checker.advice import advise
from quire.graph.language.checker.expression import Context, Expressions
from quire.graph.language.checker.match import Matching
from quire.graph.language.checker.predicate import predicate
from quire.graph.language.checker.scope import Scope, Scopes
from quire.graph.language.plan_parts import parts
from quire.graph.language.position import wrong
from quire.graph.language.printer import show_expression
from quire.graph.names import nearest
from quire.graph.types import Type

_OF_ROWS = (
    plan.Field,
    plan.System,
    plan.Whole,
    plan.PathLength,
    plan.PathNodes,
    plan.CountOf,
    plan.Nearest,
    plan.TextMatch,
    plan.Bm25,
    plan.Rrf,
)
"""What has another value in every row."""
_MADE_OF_OTHERS = (
    plan.Order,
    plan.Arithmetic,
    plan.Negate,
    plan.ListOf,
    plan.Function,
    plan.Case,
    plan.When,
    *get_args(plan.Predicate),
)
_BEST_FIRST = (plan.Bm25, plan.Rrf, plan.TextMatch)
P = TypeVar("P")


class Reading:
    """Checks one read query. Errors of single projections, conditions and orderings are gathered in the context."""

    def __init__(self, context: Context, body: ast.Read) -> None:
        self.context = context
        self.body = body
        self.scopes = Scopes(context.catalog, context.parameters)
        self.outputs: list[plan.Projected] = []
        self.names: set[str] = set()
        self.aliases: dict[str, int] = {}

    def check(self) -> plan.Read:
        body = self.body
        scope = self.scopes.build(body.match, (body.projections, body.having, body.order))
        matching = Matching(self.context, self.scopes)
        block = matching.block(scope)
        for projection in body.projections:
            self._gather(self._project, scope, projection)
        having = [h for h in (self._gather(self._having, scope, given) for given in body.having) if h is not None]
        order = [o for o in (self._gather(self._ordering, scope, given) for given in body.order) if o is not None]
        limit = self._gather(self._count, body.limit, "limit")
        offset = self._gather(self._count, body.offset, "offset")
        if self.context.errors:
            raise self.context.errors[0]
        block = dataclasses.replace(block, counts=matching.counts_of(scope))
        aggregated = any(isinstance(p, plan.Aggregate) for p in parts((*self._expressions(), *having, *order)))
        outputs = tuple(self._grouped() if aggregated else self.outputs)
        single = aggregated or body.distinct
        found = plan.Read(
            block=block,
            outputs=outputs,
            needs={},
            aggregated=aggregated,
            distinct=body.distinct,
            having=tuple(self._lifted(h, given, True) for h, given in zip(having, body.having, strict=True)),
            order=tuple(self._lifted(o, given, single) for o, given in zip(order, body.order, strict=True)),
            ties=tuple(self._ties(block, aggregated)),
            limit=limit,
            offset=offset,
        )
        found = dataclasses.replace(found, needs=dict(_needs(found)))
        self._check_search(found)
        advise(self.context, scope, body, found)
        return found

    def _gather(self, check: Any, *given: Any) -> Any:
        """What a check gives, or None and its error kept."""
        try:
            return check(*given)
        except InvalidQuery as error:
            self.context.errors.append(error)
            return None

    # -- outputs --------------------------------------------------------------------------------------------------

    def _project(self, scope: Scope, given: ast.Projection) -> None:
        types = Expressions(self.context, "return", scope, alias=self._alias)
        found = types.any(given.expression)
        name = given.alias or _name(given.expression)
        if name in self.names:
            raise wrong(given.at, f"two results are called {name}.", "Name one of them with `as`.", result=name)
        self.names.add(name)
        if given.alias is not None:
            self.aliases[given.alias] = len(self.outputs)
        aggregates = any(isinstance(p, plan.Aggregate) for p in parts(found))
        self.outputs.append(plan.Projected(name, found, found.type, not aggregates))

    def _alias(self, given: ast.Name) -> plan.Expression:
        """An alias stands for what it was given to."""
        index = self.aliases.get(given.name)
        if index is None:
            known = (
                f"There are {', '.join(self.aliases)}." if self.aliases else f"Properties are written $x.{given.name}."
            )
            raise wrong(given.at, f"there is no result {given.name}.", nearest(given.name, self.aliases) or known)
        return self.outputs[index].expression

    def _expressions(self) -> Iterator[plan.Expression]:
        return (output.expression for output in self.outputs)

    def _grouped(self) -> Iterator[plan.Projected]:
        """Outputs of an aggregated query. What is no aggregate in one that has one must be a key itself."""
        for output, given in zip(self.outputs, self.body.projections, strict=True):
            if any(isinstance(p, plan.Rrf) for p in parts(output.expression)):
                raise wrong(given.at, "rrf(…) ranks single rows, and these are grouped.", "Leave out the aggregates.")
            if output.key:
                yield output
            else:
                lifted = self._lift(output.expression, keys=True)
                self._check_single(lifted, given.expression)
                yield dataclasses.replace(output, expression=lifted)

    # -- after grouping -------------------------------------------------------------------------------------------

    def _having(self, scope: Scope, given: ast.Filter) -> plan.Predicate:
        return predicate(given, Expressions(self.context, "having", scope, alias=self._alias))

    def _ordering(self, scope: Scope, given: ast.Ordering) -> plan.Order:
        types = Expressions(self.context, "order", scope, alias=self._alias)
        found = types.value(given.expression)
        if found.type is None or not found.type.is_scalar:
            raise wrong(given.at, f"{found.type} has no order.", "Order by a number, a text, a date or a score.")
        descending = given.descending
        return plan.Order(found, isinstance(found, _BEST_FIRST) if descending is None else descending)

    def _lifted(self, part: P, given: ast.Filter | ast.Ordering, single: bool) -> P:
        """With everything that is also an output as `Output`. The rest must not be of rows, where none are left."""
        lifted = self._lift(part)
        if single:
            self._check_single(lifted, given)
        return lifted

    def _lift(self, part: P, *, keys: bool = False) -> P:
        for index, output in enumerate(self.outputs):
            if output.expression == part and (output.key or not keys):
                return cast(P, plan.Output(index, output.type))
        if isinstance(part, tuple):
            return cast(P, tuple(self._lift(item, keys=keys) for item in part))
        if isinstance(part, _MADE_OF_OTHERS):
            changes = {f.name: self._lift(getattr(part, f.name), keys=keys) for f in dataclasses.fields(part)}
            return cast(P, dataclasses.replace(part, **changes))
        return part

    def _check_single(self, part: Any, given: ast.Filter | ast.Ordering | ast.Expression) -> None:
        """Refuse what belongs to single rows, outside of aggregates."""
        if isinstance(part, plan.Aggregate | plan.Output):
            return
        if isinstance(part, _OF_ROWS):
            why = "the rows are made distinct" if self.body.distinct else "rows are grouped by then"
            raise wrong(
                given.at,
                f"this uses a value of single rows, but {why}.",
                "Return it too, or put it into an aggregate.",
            )
        if isinstance(part, tuple):
            for item in part:
                self._check_single(item, given)
        elif dataclasses.is_dataclass(part):
            for field in dataclasses.fields(part):
                self._check_single(getattr(part, field.name), given)

    def _ties(self, block: plan.Block, aggregated: bool) -> Iterator[plan.Expression]:
        if aggregated or self.body.distinct:
            for index, output in enumerate(self.outputs):
                if output.key or not aggregated:
                    yield plan.Output(index, output.type)
            return
        for name in (*(s.variable for s in block.scans), *(e.edge for e in block.expansions if e.bound)):
            yield plan.System(name, "id")
        for maybe in block.optional:
            for tie in self._ties(maybe.block, False):
                yield dataclasses.replace(cast(plan.System, tie), type=Type("String", optional=True))

    # -- limits ---------------------------------------------------------------------------------------------------

    def _count(self, given: ast.Literal | ast.Variable | None, word: str) -> plan.Constant | plan.Parameter | None:
        if given is None:
            return None
        if isinstance(given, ast.Literal):
            if cast(int, given.value) >= 2**63:
                raise wrong(given.at, f"{word} {given.value} is too large.", "Leave it out for all rows.")
            return plan.Constant(given.value, plan.I64)
        kind = self.context.parameters.get(given.name)
        if kind is None:
            advice = nearest(given.name, self.context.parameters) or f"Declare it, as in ${given.name}: I64."
            raise wrong(given.at, f"there is no parameter ${given.name}.", advice, variable=given.name)
        self.context.used.add(given.name)
        if not kind.is_integer:
            raise wrong(given.at, f"{word} takes a whole number, and ${given.name} is {kind}.", "Declare it as I64.")
        return plan.Parameter(given.name, kind)

    def _check_search(self, found: plan.Read) -> None:
        if found.limit is not None:
            return
        for order, given in zip(found.order, self.body.order, strict=True):
            ranked = self.outputs[order.expression.index] if isinstance(order.expression, plan.Output) else order
            for part in parts(ranked):
                if isinstance(part, plan.Nearest | plan.Rrf):
                    name = "nearest" if isinstance(part, plan.Nearest) else "rrf"
                    raise wrong(given.at, f"{name}(…) in order needs a limit.", "Add limit 10, say.")


def _name(given: ast.Expression) -> str:
    """What a result without an alias is called: as it is written, without the `$` of variables."""
    match given:
        case ast.Variable():
            return given.name
        case ast.Access():
            return f"{given.variable.name}.{given.property}"
        case ast.Aggregate() if given.argument is not None:
            return f"{given.function}({'distinct ' if given.distinct else ''}{_name(given.argument)})"
        case _:
            return show_expression(given).replace("$", "")


def _needs(found: plan.Read) -> Iterator[tuple[str, plan.Needs]]:
    """For every node and edge of the query, which properties it reads of them."""
    entities: dict[str, Entity] = {}
    used: dict[str, set[str]] = {}
    member_of: dict[str, str] = {}
    for output in found.outputs:
        # Only what is returned as a whole is read as one: counted or compared, an entity is its id.
        if isinstance(output.expression, plan.Whole):
            entity = output.expression.entity
            used.setdefault(output.expression.variable, set()).update(_readable(entity))
    for part in parts((found.block, *found.outputs, *found.having, *found.order)):
        match part:
            case plan.Scan():
                entities |= {part.variable: part.entity} | {m.variable: m.entity for m in part.members}
                member_of |= {member.variable: part.variable for member in part.members}
            case plan.Expand():
                entities |= {along.edge: along.entity for along in part.every}
            case plan.Field():
                used.setdefault(part.variable, set()).add(part.property.name)
            case _:
                pass
    for name, entity in entities.items():
        wanted = used.get(member_of.get(name, name), ())
        yield name, plan.Needs(entity, tuple(p for p in entity.defined.properties if p.name in wanted))


def _readable(entity: Entity) -> Iterable[str]:
    return (p.name for p in entity.defined.properties if p.type.base != "Blob")
