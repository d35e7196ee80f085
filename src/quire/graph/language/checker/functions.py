"""Functions of values and `case`, typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from quire.graph.language import ast, plan
from quire.graph.language.ast import At
from quire.graph.language.functions import FUNCTIONS, IN_WORDS, common, fits
from quire.graph.language.position import wrong
from quire.graph.types import Type

if TYPE_CHECKING:
    from quire.graph.language.checker.expression import Expressions


def function(types: Expressions, given: ast.Call) -> plan.Function:
    """A call of one of `FUNCTIONS`, each argument of which is checked."""
    _check_place(types, given.at, f"{given.function}(…)")
    one = FUNCTIONS[given.function]
    arguments = tuple(types.value(argument) for argument in given.arguments)
    kinds = [cast(Type, argument.type) for argument in arguments]
    for number, (kind, written) in enumerate(zip(kinds, given.arguments, strict=True)):
        wanted = one.takes[min(number, len(one.takes) - 1)]
        if not fits(kind, wanted):
            raise wrong(
                written.at,
                f"{given.function}(…) takes {IN_WORDS[wanted]} here, and this is {kind.required}.",
                expected=IN_WORDS[wanted],
            )
    if one.gives == "common":
        found = _common(arguments, [a.at for a in given.arguments], f"{given.function}(…)")
        return plan.Function(given.function, arguments, _optional(found, all(kind.optional for kind in kinds)))
    result = {
        "same": kinds[0].required,
        "item": Type(kinds[0].base, values=kinds[0].values),
        "texts": Type("String", many=True),
    }.get(one.gives) or Type(one.gives)
    is_null = one.gives == "item" or any(kind.optional for kind in kinds)
    return plan.Function(given.function, arguments, _optional(result, is_null))


def case(types: Expressions, given: ast.Case) -> plan.Case:
    """The branches of a `case`, whose values have a type in common."""
    from quire.graph.language.checker.predicate import predicate

    _check_place(types, given.at, "case")
    branches = tuple(
        plan.When(tuple(predicate(c, types) for c in branch.conditions), types.value(branch.value))
        for branch in given.branches
    )
    otherwise = None if given.otherwise is None else types.value(given.otherwise)
    written = [branch.value for branch in given.branches]
    values = [branch.value for branch in branches]
    if otherwise is not None and given.otherwise is not None:
        values.append(otherwise)
        written.append(given.otherwise)
    found = _common(values, [value.at for value in written], "case")
    is_null = otherwise is None or any(cast(Type, value.type).optional for value in values)
    return plan.Case(branches, otherwise, _optional(found, is_null))


def _check_place(types: Expressions, at: At, what: str) -> None:
    if types.place == "set":
        raise wrong(at, f"{what} is not allowed here.", "Compute the value before, and give it as a parameter.")


def _common(values: list[plan.Expression] | tuple[plan.Expression, ...], at: list[At], what: str) -> Type:
    kinds = [cast(Type, value.type).required for value in values]
    if any(kind.base == "U64" for kind in kinds):
        kinds = [_as_given(value) for value in values]
    for number in range(1, len(kinds) + 1):
        found = common(kinds[:number])
        if found is None:
            before = common(kinds[: number - 1])
            raise wrong(
                at[number - 1],
                f"{what} gives values of one type; this is {kinds[number - 1].required}, and before it is {before}.",
                "Give values of one type.",
            )
    found = common(kinds)
    assert found is not None
    if found.base in ("Vector", "Blob"):
        raise wrong(at[0], f"{what} gives no {found.base}.")
    return found


def _as_given(value: plan.Expression) -> Type:
    """The type of a value beside U64: a number that was written out and is not below 0 goes with it."""
    kind = cast(Type, value.type).required
    if isinstance(value, plan.Constant) and kind.base == "I64" and not kind.many and 0 <= value.value < 2**32:
        return Type("U32")
    return kind


def _optional(kind: Type, optional: bool) -> Type:
    return msgspec.structs.replace(kind, optional=optional)
