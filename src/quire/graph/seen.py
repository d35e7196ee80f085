"""The types of a graph as an actor may see them: without types, properties and texts that must not be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from quire.graph.catalog import STORED, Definition, Interface, Whole
from quire.ledger import TableInfo

Sees = Callable[[str, str], bool]
"""Whether a column of a table, by their names, may be seen."""


def seen_infos(infos: Iterable[TableInfo], sees: Sees) -> tuple[TableInfo, ...]:
    """The records of a graph's tables, with what may be told of them. An edge needs both of its ends."""
    given = tuple(infos)
    there = {info.id for info in given}
    shown = {info.id: _narrowed(info, rules, sees) for info in given if (rules := _rules(info)) is not None}
    found = []
    for info in given:
        if info.name == STORED:
            whole = msgspec.json.decode(info.rules, type=Whole) if info.rules else None
            if whole is None:
                found.append(info)
                continue
            interfaces = tuple(_interfaces(whole.interfaces, shown.values()))
            found.append(_with(info, msgspec.structs.replace(whole, text="", interfaces=interfaces)))
            continue
        defined = shown[info.id]
        if defined.kind == "edge" and not {defined.source, defined.target} <= there:
            continue
        found.append(_with(info, defined))
    return tuple(found)


def _rules(info: TableInfo) -> Definition | None:
    return None if info.name == STORED else msgspec.json.decode(info.rules, type=Definition)


def _interfaces(given: Iterable[Interface], shown: Iterable[Definition]) -> Iterator[Interface]:
    """Interfaces of types that are shown, with the properties that all of those show. The text of the schema, and an
    interface of hidden types alone, may tell of what is hidden."""
    types = tuple(shown)
    for one in given:
        names = [{p.name for p in type.properties} for type in types if one.name in type.implements]
        if names:
            common = set.intersection(*names)
            properties = (msgspec.structs.replace(p, annotations=()) for p in one.properties if p.name in common)
            yield Interface(one.name, tuple(properties))


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
    )


def _with(info: TableInfo, rules: Definition | Whole) -> TableInfo:
    return msgspec.structs.replace(info, rules=msgspec.json.encode(rules).decode())
