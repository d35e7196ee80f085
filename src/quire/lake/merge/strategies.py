"""How conflicts are resolved without a person: by side, by table, by column, by a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from quire.errors import InvalidInput, shown
from quire.lake.merge.alike import equal_values
from quire.lake.merge.conflicts import MergeConflict, Side

Decision = Literal["ours", "theirs", "delete"] | Mapping[str, Any] | None
"""A side, the row goes, values of columns, or left open."""
Resolver = Callable[[MergeConflict], Decision]
ColumnRule = Literal["ours", "theirs", "max", "min"] | Callable[[Any, Any, Any], Any]
Strategy = Side | Resolver | Mapping[str, ColumnRule]
Strategies = Strategy | Mapping[str, Strategy]

SIDES = ("ours", "theirs")


class Resolving:
    """What `resolve=` asks for."""

    def __init__(self, asked: Any) -> None:
        self._by_table: dict[str, Any] = {}
        self._every: Any = None
        if asked is None or _is_strategy(asked):
            self._every = asked
        elif isinstance(asked, Mapping):
            for table, strategy in asked.items():
                if not isinstance(table, str) or not (_is_strategy(strategy) or isinstance(strategy, Mapping)):
                    raise _strange(strategy, f"resolve[{table!r}]")
                self._by_table[table] = _columns(strategy, table) if isinstance(strategy, Mapping) else strategy
            self._every = self._by_table.pop("*", None)
        else:
            raise _strange(asked, "resolve")

    def __bool__(self) -> bool:
        return self._every is not None or bool(self._by_table)

    def of(self, table: str) -> Side | Resolver | None:
        """What decides about conflicts of a table: one side for all of them, or a function of each."""
        found = self._by_table.get(table, self._every)
        if isinstance(found, Mapping):
            rules = cast("Mapping[str, ColumnRule]", found)
            return lambda conflict: by_column(conflict, rules)
        return cast("Side | Resolver | None", found)


def by_column(conflict: MergeConflict, rules: Mapping[str, ColumnRule]) -> Decision:
    """Values for all columns in conflict, or nothing: a row that is half resolved is not."""
    if conflict.ours is None or conflict.theirs is None or not conflict.columns:
        return None
    values: dict[str, Any] = {}
    for column in conflict.columns:
        rule = rules.get(column, rules.get("*"))
        if rule is None:
            return None
        base = None if conflict.base is None else conflict.base.get(column)
        values[column] = _cell(rule, base, conflict.ours[column], conflict.theirs[column])
    return values


def _cell(rule: ColumnRule, base: Any, ours: Any, theirs: Any) -> Any:
    if not isinstance(rule, str):
        return rule(base, ours, theirs)
    if rule in SIDES:
        return ours if rule == "ours" else theirs
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return max(ours, theirs) if rule == "max" else min(ours, theirs)


def checked_decision(decision: Any, conflict: MergeConflict) -> Decision:
    """What a function answered, if it is an answer."""
    if decision is None or isinstance(decision, Mapping):
        return cast("Decision", decision)
    if isinstance(decision, str) and decision in (*SIDES, "delete"):
        return cast("Decision", decision)
    raise InvalidInput(
        f"The function that resolves conflicts of {conflict.table!r} answered {shown(decision)}.",
        next='It answers "ours", "theirs", "delete", a dict of values, or None to leave the conflict open.',
        table=conflict.table,
    )


def side_of(conflict: MergeConflict, values: Mapping[str, Any]) -> Side | None:
    """The side that has just these values, if there is one."""
    for name in SIDES:
        row = getattr(conflict, name)
        if row is not None and all(n in row and equal_values(row[n], v) for n, v in values.items()):
            return cast("Side", name)
    return None


def _is_strategy(asked: Any) -> bool:
    return (isinstance(asked, str) and asked in SIDES) or (callable(asked) and not isinstance(asked, type))


def _columns(given: Mapping[Any, Any], table: str) -> Mapping[str, ColumnRule]:
    for column, rule in given.items():
        fine = callable(rule) or (isinstance(rule, str) and rule in (*SIDES, "max", "min"))
        if not isinstance(column, str) or not fine:
            raise InvalidInput(
                f"{shown(rule)} is no way to resolve conflicts in column {column!r} of {table!r}.",
                next='Use "ours", "theirs", "max", "min", or a function of (base, ours, theirs).',
                table=table,
                column=str(column),
            )
    return given


def _strange(asked: Any, where: str) -> InvalidInput:
    return InvalidInput(
        f"{where}={shown(asked)} is no way to resolve conflicts.",
        next='Use "ours", "theirs", a function of the conflict, or a dict of these by table; "*" is every other table.',
    )
