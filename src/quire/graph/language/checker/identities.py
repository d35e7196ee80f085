"""Comparisons with ids in the `where` of a statement: a node is named there as in an insert, by its key.

from = 7                    the key of one property
to = ["x", 1]               the key of several
id in [1, 2, $other]        any of them; each may be a list where the key is one
from = "7"                  an id is text, so the text of a key does as well

An id has the order of its text, which is not that of the key: 10 comes before 9. So it has none here, unless the key is
a text itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from quire.errors import InvalidQuery
from quire.graph.catalog import Entity
from quire.graph.interface_type import InterfaceType
from quire.graph.language import ast, plan
from quire.graph.language.checker.expression import Expressions
from quire.graph.language.plan_parts import parts
from quire.graph.language.position import wrong
from quire.graph.types import Type


def by_identity(given: ast.Compare, types: Expressions) -> plan.Predicate | None:
    """A comparison with an id, or with an end of an edge. None where it is none, or one of a text like any other."""
    if types.row is None:
        return None
    left, right = _subject(given.left, types), _subject(given.right, types)
    if given.operator not in ("=", "!=", "in"):
        for side in (left, right):
            if side is not None and not side.is_text:
                raise side.unordered(given.operator)
        return None
    if given.operator == "in":
        options = None if left is None else left.options(given.right, types)
        return None if left is None or options is None else plan.In(left.column, options)
    subject, written = (left, given.right) if left is not None else (right, given.left)
    if subject is None or (left is not None and right is not None):
        return None
    value = subject.id_of(written, types)
    if value is None:
        return None
    return plan.Compare(given.operator, *((subject.column, value) if left is not None else (value, subject.column)))


@dataclass(frozen=True)
class _Subject:
    """The id that is compared with something."""

    written: ast.Name
    column: plan.System
    node: Entity
    """The type whose id it is; an edge type for the id of an edge."""

    @property
    def kinds(self) -> tuple[Type, ...]:
        return tuple(self.node.properties[name].type.required for name in self.node.defined.key)

    @property
    def is_text(self) -> bool:
        """Whether an id is what was given, letter by letter."""
        return not self.kinds or (len(self.kinds) == 1 and self.kinds[0].is_text)

    def unordered(self, operator: str) -> InvalidQuery:
        key = self.node.defined.key
        own = self.column.column == "id"
        return wrong(
            self.written.at,
            f"{self.written.name} is the id of a {self.node.name} as text, so {operator} would not follow its key.",
            f"Compare {' and '.join(key)} instead." if own else "Compare it with =, != or in.",
            type=self.node.name,
        )

    def id_of(self, given: ast.Expression, types: Expressions) -> plan.Expression | None:
        """What is given as an id; None where it is compared as the text that it is."""
        if isinstance(given, ast.ListOf):
            return _made(tuple(self._parts(given, types)), self.kinds)
        value = types.value(given)
        kind = cast(Type, value.type)
        if _of_a_row(value) or (self.is_text and kind.is_text):
            return None
        if not (kind.is_text or (len(self.kinds) == 1 and _fits(kind, self.kinds[0]))):
            raise self._no_id(given, kind)
        return _made((value,), self.kinds)

    def options(self, given: ast.Expression, types: Expressions) -> plan.Expression | None:
        """The ids of a list; None where the list is compared as it is."""
        if isinstance(given, ast.ListOf):
            found = tuple(self.id_of(item, types) or self._text(item, types) for item in given.items)
            if all(isinstance(item, plan.Constant) for item in found):
                return plan.Constant([cast(plan.Constant, item).value for item in found], plan.IDS)
            return plan.ListOf(found, plan.IDS)
        value = types.value(given)
        kind = cast(Type, value.type)
        if self.is_text or not kind.many or _of_a_row(value):
            return None
        member = Type(kind.base, values=kind.values)
        if not (member.is_text or (len(self.kinds) == 1 and _fits(member, self.kinds[0]))):
            raise self._no_id(given, kind)
        return plan.KeyText((value,), self.kinds, Type("String", many=True, optional=kind.optional))

    def _text(self, given: ast.Expression, types: Expressions) -> plan.Expression:
        value = types.value(given)
        if not cast(Type, value.type).is_text:
            raise self._no_id(given, cast(Type, value.type))
        return value

    def _parts(self, given: ast.ListOf, types: Expressions) -> list[plan.Expression]:
        key = self.node.defined.key
        if not key or len(given.items) != len(key):
            keys = ", ".join(key) or "none; give the id as text"
            raise wrong(given.at, f"the key of {self.node.name} is {keys}.", f"Give {len(key) or 1} values.")
        found = [types.value(item) for item in given.items]
        for name, kind, value, item in zip(key, self.kinds, found, given.items, strict=True):
            if _of_a_row(value):
                raise wrong(item.at, "a key is written with values and parameters.", f"Give a value for {name}.")
            have = cast(Type, value.type)
            if not have.is_text and not _fits(have, kind):
                raise wrong(item.at, f"{self.node.name}.{name} is {kind}, and this is {have}.", property=name)
        return found

    def _no_id(self, given: ast.Expression, kind: Type) -> InvalidQuery:
        key = self.node.defined.key
        advice = f"Give {key[0] if len(key) == 1 else '[' + ', '.join(key) + ']'} or the id as text."
        return wrong(
            given.at,
            f"{self.written.name} is the id of a {self.node.name}, and this is {kind}.",
            advice if key else "Give the id as text.",
            type=self.node.name,
        )


def _subject(given: ast.Expression, types: Expressions) -> _Subject | None:
    assert types.row is not None
    found = types.any(given) if isinstance(given, ast.Name) else None
    if not isinstance(found, plan.System) or isinstance(types.row[1], InterfaceType):
        return None  # the types of an interface have keys of many kinds: their ids are compared as text
    entity, catalog = types.row[1], types.context.catalog
    if found.column != "id":
        entity = catalog.source(entity) if found.column == "src" else catalog.target(entity)
    return _Subject(cast(ast.Name, given), found, entity)


def _made(values: tuple[plan.Expression, ...], kinds: tuple[Type, ...]) -> plan.Expression:
    if all(isinstance(value, plan.Constant) for value in values):
        written = [cast(plan.Constant, value).value for value in values]
        return plan.Constant(plan.key_text(kinds, written), plan.STRING)
    optional = any(cast(Type, value.type).optional for value in values)
    return plan.KeyText(values, kinds, Type("String", optional=optional))


def _of_a_row(value: plan.Expression) -> bool:
    return any(isinstance(part, plan.Field | plan.System) for part in parts(value))


def _fits(given: Type, kind: Type) -> bool:
    if given.many:
        return False
    return (given.is_number and kind.is_number) or (given.is_text and kind.is_text) or given.base == kind.base
