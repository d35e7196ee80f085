"""Identifiers of tables and namespaces, which have parts, as names of tables, which have none.

A table `docs` in the namespace `search` is the table `search.docs` of the lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quire.errors import InvalidName
from quire.lake.names import check_table

SEPARATOR = "."

Parts = tuple[str, ...]


def namespace(identifier: Sequence[str] | None) -> Parts:
    """The parts of a namespace; none for the lake itself."""
    parts = tuple(identifier or ())
    for part in parts:
        check_table(part)
        if SEPARATOR in part:
            raise InvalidName(f"{part!r} is not a part of an identifier.", next="Give its parts one by one.", name=part)
    return parts


def table(identifier: Sequence[str] | None) -> str:
    """The name of a table in the lake."""
    parts = tuple(identifier or ())
    if not parts or not all(parts):
        raise InvalidName(f"{list(parts)!r} does not name a table.", next="Give namespaces and a name.", name="")
    return check_table(SEPARATOR.join(parts))


def parts(name: str) -> Parts:
    """A table's name as namespaces and name."""
    return tuple(name.split(SEPARATOR))


def parents(name: str) -> Iterable[Parts]:
    """Every namespace that a table lies in, the outermost first."""
    found = parts(name)
    return (found[:n] for n in range(1, len(found)))


def page(names: Iterable[str], limit: int | None, token: str | None) -> tuple[list[str], str | None]:
    """Some names in order, and what to ask for the next ones with."""
    every = sorted(name for name in names if token is None or name > token)
    if limit is None or limit <= 0 or len(every) <= limit:
        return every, None
    return every[:limit], every[limit - 1]
