"""Which rows an actor may read: what is left of the rules when all but the row is known, as a condition on columns.

Cedar fails on a value that is not there, and a rule that fails does not hold. So of every expression it is told apart
where it is true and where it is false; where it is neither, it fails. Both are conditions that are false for null, and
they are joined by and and or alone. A permit holds where it is true. A forbid must be false: where it fails, nobody
knows whether it would hold, so the row is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from quire.filters import Always, Both, Compare, Condition, Either, Flag, In, IsNull, Not
from quire.policy.words import LAKE

if TYPE_CHECKING:
    import pyarrow as pa

NEVER, EVER = Always(False), Always(True)
SMALLEST, LARGEST = -(2**63), 2**63 - 1


class Truth(NamedTuple):
    """Where an expression is true, and where it is false."""

    true: Condition
    false: Condition


FAILS = Truth(NEVER, NEVER)


def both(parts: Sequence[Condition]) -> Condition:
    """All of them, as short as can be."""
    if NEVER in parts:
        return NEVER
    left = [part for part in parts if part != EVER]
    return EVER if not left else left[0] if len(left) == 1 else Both(tuple(left))


def either(parts: Sequence[Condition]) -> Condition:
    """One of them at least."""
    if EVER in parts:
        return EVER
    left = [part for part in parts if part != NEVER]
    return NEVER if not left else left[0] if len(left) == 1 else Either(tuple(left))


def condition(residuals: Mapping[str, Any], table: str, columns: Mapping[str, pa.DataType]) -> Condition | None:
    """The rows of a table for which the rules that are left allow it; None for all of them."""
    reading = Reading(table, columns)
    permits, forbids = [], []
    for rule in residuals.values():
        parts = [_polar(reading.truth(part["body"]), part["kind"]) for part in rule["conditions"]]
        truth = Truth(both([p.true for p in parts]), either([p.false for p in parts]))
        if rule["effect"] == "permit":
            permits.append(truth.true)
        else:
            forbids.append(_false_of_all(parts))
    found = both([either(permits), *forbids])
    return None if found == EVER else found


def _polar(truth: Truth, kind: str) -> Truth:
    return truth if kind == "when" else Truth(truth.false, truth.true)


def _false_of_all(parts: Sequence[Truth]) -> Condition:
    """Where conditions that are asked one after the other come to false before one of them fails."""
    found: list[Condition] = []
    before: list[Condition] = []
    for part in parts:
        found.append(both([*before, part.false]))
        before.append(part.true)
    return either(found)


class Reading:
    """Reads expressions over the rows of one table."""

    def __init__(self, table: str, columns: Mapping[str, pa.DataType]) -> None:
        self._table, self._columns = table, columns

    def truth(self, tree: Any) -> Truth:
        """Where an expression holds and where it does not. What cannot be told fails."""
        if not isinstance(tree, Mapping) or len(tree) != 1:
            return FAILS
        [(operator, inner)] = tree.items()
        read: Callable[[Any], Truth] | None = {
            "Value": self._value, "&&": self._and, "||": self._or, "!": self._not, "==": self._equal,
            "!=": lambda t: self._not({"arg": {"==": t}}), "<": self._compared("<", ">="),
            "<=": self._compared("<=", ">"), ">": self._compared(">", "<="), ">=": self._compared(">=", "<"),
            "has": self._has, "in": self._in, "is": self._is, "contains": self._contains, ".": self._flag,
            "if-then-else": self._choice,
        }.get(operator)  # fmt: skip
        return FAILS if read is None else read(inner)

    def _value(self, value: Any) -> Truth:
        if value is True:
            return Truth(EVER, NEVER)
        return Truth(NEVER, EVER) if value is False else FAILS

    def _and(self, tree: Any) -> Truth:
        left, right = self.truth(tree["left"]), self.truth(tree["right"])
        return Truth(both([left.true, right.true]), either([left.false, both([left.true, right.false])]))

    def _or(self, tree: Any) -> Truth:
        left, right = self.truth(tree["left"]), self.truth(tree["right"])
        return Truth(either([left.true, both([left.false, right.true])]), both([left.false, right.false]))

    def _not(self, tree: Any) -> Truth:
        inner = self.truth(tree["arg"])
        return Truth(inner.false, inner.true)

    def _choice(self, tree: Any) -> Truth:
        test, yes, no = (self.truth(tree[name]) for name in ("if", "then", "else"))
        return Truth(
            either([both([test.true, yes.true]), both([test.false, no.true])]),
            either([both([test.true, yes.false]), both([test.false, no.false])]),
        )

    # -- of one column ------------------------------------------------------------------------------------------

    def _equal(self, tree: Any) -> Truth:
        left, right = tree["left"], tree["right"]
        if _is_row(left) or _is_row(right):
            return Truth(NEVER, EVER)  # no rule can name a row
        column, value = self._column(left), _literal(right)
        if column is None:
            column, value = self._column(right), _literal(left)
        if column is None or value is _NONE:
            return FAILS
        there = Not(IsNull(column))
        if not self._fits(column, value):
            return Truth(NEVER, there)  # values of different types differ
        if isinstance(value, bool):
            yes, no = Flag(column), both([there, Not(Flag(column))])
            return Truth(both([there, yes]), no) if value else Truth(no, both([there, yes]))
        return Truth(both([there, Compare(column, "=", value)]), both([there, Compare(column, "<>", value)]))

    def _compared(self, yes: Any, no: Any) -> Callable[[Any], Truth]:
        mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

        def read(tree: Any) -> Truth:
            import pyarrow.types as t

            column, value, one, other = self._column(tree["left"]), _literal(tree["right"]), yes, no
            if column is None:
                column, value = self._column(tree["right"]), _literal(tree["left"])
                one, other = mirrored[yes], mirrored[no]
            if column is None or isinstance(value, bool) or not isinstance(value, int):
                return FAILS  # Cedar orders whole numbers alone
            if not t.is_integer(self._columns[column]):
                return FAILS
            there = Not(IsNull(column))
            low, high = _range(self._columns[column])
            if not low <= value <= high:  # it stands beyond all that the column holds
                below = (value > high) == (one in ("<", "<="))
                return Truth(there, NEVER) if below else Truth(NEVER, there)
            return Truth(both([there, Compare(column, one, value)]), both([there, Compare(column, other, value)]))

        return read

    def _contains(self, tree: Any) -> Truth:
        column, values = self._column(tree["right"]), _set(tree["left"])
        if column is None or values is None:
            return FAILS
        there = Not(IsNull(column))
        fitting = tuple(value for value in values if self._fits(column, value) and not isinstance(value, bool))
        if any(isinstance(value, bool) and self._fits(column, value) for value in values):
            return FAILS
        if not fitting:
            return Truth(NEVER, there)
        return Truth(both([there, In(column, fitting)]), both([there, Not(In(column, fitting))]))

    def _has(self, tree: Any) -> Truth:
        if not _is_row(tree["left"]):
            return FAILS
        name = tree["attr"]
        if name not in self._columns or not _is_known(self._columns[name]):
            return Truth(NEVER, EVER)
        return Truth(Not(IsNull(name)), IsNull(name))

    def _flag(self, tree: Any) -> Truth:
        column = self._column({".": tree})
        if column is None or str(self._columns[column]) != "bool":
            return FAILS
        there = Not(IsNull(column))
        return Truth(both([there, Flag(column)]), both([there, Not(Flag(column))]))

    def _column(self, tree: Any) -> str | None:
        """The column that an expression takes, if it has values that rules know."""
        if not isinstance(tree, Mapping) or set(tree) != {"."} or not _is_row(tree["."]["left"]):
            return None
        name: str = tree["."]["attr"]
        return name if name in self._columns and _is_known(self._columns[name]) else None

    def _fits(self, column: str, value: Any) -> bool:
        import pyarrow.types as t

        kind = self._columns[column]
        if isinstance(value, bool):
            return bool(t.is_boolean(kind))
        if isinstance(value, int):
            if not t.is_integer(kind):
                return False
            low, high = _range(kind)
            return low <= value <= high
        return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))

    # -- of the row itself --------------------------------------------------------------------------------------

    def _in(self, tree: Any) -> Truth:
        if not _is_row(tree["left"]):
            return FAILS
        wanted = _named(tree["right"])
        if wanted is None:
            return FAILS
        above = {("Table", self._table), ("Lake", LAKE)}
        return Truth(EVER, NEVER) if wanted & above else Truth(NEVER, EVER)

    def _is(self, tree: Any) -> Truth:
        if not _is_row(tree["left"]):
            return FAILS
        if tree["entity_type"] != "Row":
            return Truth(NEVER, EVER)
        return self._in({"left": tree["left"], "right": tree["in"]}) if tree.get("in") else Truth(EVER, NEVER)


_NONE = object()


def _is_row(tree: Any) -> bool:
    if not isinstance(tree, Mapping):
        return False
    if "unknown" in tree:
        return bool(tree["unknown"] == [{"Value": "resource"}])
    return bool(tree.get("Var") == "resource")


def _literal(tree: Any) -> Any:
    if isinstance(tree, Mapping) and set(tree) == {"Value"} and isinstance(tree["Value"], str | int):
        value = tree["Value"]
        return value if isinstance(value, str | bool) or SMALLEST <= value <= LARGEST else _NONE
    return _NONE


def _set(tree: Any) -> list[Any] | None:
    if not isinstance(tree, Mapping):
        return None
    if "Set" in tree:
        values = [_literal(part) for part in tree["Set"]]
    elif isinstance(tree.get("Value"), list):
        values = [_literal({"Value": part}) for part in tree["Value"]]
    else:
        return None
    return None if any(value is _NONE for value in values) else values


def _named(tree: Any) -> set[tuple[str, str]] | None:
    """The things that an expression names: one, or a set of them."""
    if not isinstance(tree, Mapping):
        return None
    parts = tree.get("Set")
    if parts is None and isinstance(tree.get("Value"), list):
        parts = [{"Value": part} for part in tree["Value"]]
    if parts is not None:
        found = [_named(part) for part in parts]
        return None if any(f is None for f in found) else {pair for f in found if f for pair in f}
    value = tree.get("Value")
    entity = value.get("__entity") if isinstance(value, Mapping) else None
    return {(entity["type"], entity["id"])} if isinstance(entity, Mapping) else None


def _range(kind: pa.DataType) -> tuple[int, int]:
    import pyarrow.types as t

    bits = kind.bit_width
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if t.is_signed_integer(kind) else (0, (1 << bits) - 1)


def _is_known(kind: pa.DataType) -> bool:
    """Whether Cedar has values for a column of this type."""
    import pyarrow.types as t

    if t.is_uint64(kind):
        return False  # Cedar's numbers are smaller
    texts = t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind)
    return bool(t.is_boolean(kind) or t.is_integer(kind) or texts)
