"""The types of a graph as an actor may see them: without types, properties and texts that must not be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from quire.graph.catalog import STORED, Definition, Whole
from quire.ledger import TableInfo

Sees = Callable[[str, str], bool]
"""Whether a column of a table, by their names, may be seen."""


def seen_infos(infos: Iterable[TableInfo], sees: Sees) -> tuple[TableInfo, ...]:
    """The records of a graph's tables, with what may be told of them. An edge needs both of its ends."""
    given = tuple(infos)
    there = {info.id for info in given}
    found = []
    for info in given:
        if info.name == STORED:
            whole = msgspec.json.decode(info.rules, type=Whole) if info.rules else None
            if whole is None:
                found.append(info)
                continue
            blank = msgspec.structs.replace(whole, text="", interfaces=())  # they may tell of hidden types
            found.append(_with(info, blank))
            continue
        defined = msgspec.json.decode(info.rules, type=Definition)
        if defined.kind == "edge" and not {defined.source, defined.target} <= there:
            continue
        found.append(_with(info, _narrowed(info, defined, sees)))
    return tuple(found)


def _narrowed(info: TableInfo, defined: Definition, sees: Sees) -> Definition:
    hidden = {p.name for p in defined.properties if not sees(info.name, p.column)}
    return msgspec.structs.replace(
        defined,
        properties=tuple(p for p in defined.properties if p.name not in hidden),
        key=() if hidden & set(defined.key) else defined.key,
        unique=tuple(names for names in defined.unique if not hidden & set(names)),
        index=tuple(names for names in defined.index if not hidden & set(names)),
        ranges=tuple(one for one in defined.ranges if one.property not in hidden),
        checks=tuple(one for one in defined.checks if one.property not in hidden),
        implements=(),
    )


def _with(info: TableInfo, rules: Definition | Whole) -> TableInfo:
    return msgspec.structs.replace(info, rules=msgspec.json.encode(rules).decode())
