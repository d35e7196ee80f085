"""The files of pinned states: whether they are there, in their size and, if every byte is to be read, with their rows.

Every function here takes a lake and plain values and answers with plain values, so that it runs in this process or in
the tasks of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from quire.errors import QuireError
from quire.formats import Readable
from quire.lake.context import Core
from quire.lake.engines import Whereabouts, answers, settled
from quire.ledger import Pin, TableState
from quire.ledger.records import reader
from quire.store import Store, run_parallel

T = TypeVar("T")

Wrong = tuple[str, str, str]
"""Which check, where, and what is wrong."""
Sized = dict[str, tuple[int | None, str]]
"""Files with the size that each must have, where it is known, and a table that needs it."""
AT_ONCE = 64
"""Small files that are read side by side."""
TASK_BYTES = 256 << 20
"""Data that one task reads, unless a single file has more."""


class Needs(msgspec.Struct):
    """What some states need, by location."""

    files: dict[str, Sized] = {}
    claims: dict[str, dict[str, tuple[int, ...]]] = {}
    formats: dict[str, str] = {}
    wrong: list[Wrong] = []


class Present(msgspec.Struct):
    """How some files compare with what is there."""

    files: int = 0
    bytes: int = 0
    wrong: list[Wrong] = []


class Reading(msgspec.Struct):
    """A file that is read from end to end, and what it must hold."""

    location: str
    format: str
    path: str
    claim: tuple[int, ...]
    size: int = 0


# -- what is done ------------------------------------------------------------------------------------------------------


def needs(core: Core, pins: Sequence[tuple[Pin, str]], deep: bool) -> Needs:
    """What these states need, and what they say of the contents: `deep` of all files, else of small ones alone."""
    found = Needs()
    for (pin, name), (files, claims, wrong) in zip(
        pins, run_parallel([partial(_needs, core, pin, name, deep) for pin, name in pins]), strict=True
    ):
        found.wrong += wrong
        found.formats[pin.location] = pin.format
        sized = found.files.setdefault(pin.location, {})
        for path, size in files.items():
            sized.setdefault(path, (size, name))
        said = found.claims.setdefault(pin.location, {})
        for path, claim in claims.items():
            said.setdefault(path, claim)
    return found


def _needs(
    core: Core, pin: Pin, name: str, deep: bool
) -> tuple[dict[str, int | None], dict[str, tuple[int, ...]], list[Wrong]]:
    where = f"table {name!r} version {pin.counter}"
    try:
        format = core.format(pin.format)
        files = format.files(pin, name)
        if not isinstance(format, Readable):
            return files, {}, []
        claims, wrong = format.claims(pin, name, deep=deep)
        return files, claims, [] if wrong is None else [("rows", where, wrong)]
    except QuireError as error:
        return {}, {}, [("pin", where, str(error))]


def present(core: Core, location: str, files: Sized) -> Present:
    """Compare files with one listing of their table."""
    root = Store.open(core.store.reach.address(location), core.store.options)
    there = {entry.key: entry.size for entry in root.list("")}
    found = Present()
    for path, (size, name) in sorted(files.items()):
        found.files += 1
        folder = path.endswith("/")
        if folder:
            sizes = [length for key, length in there.items() if key.startswith(path)]
        else:
            sizes = [there[path]] if path in there else []
        held = sum(sizes)
        if not sizes:
            found.wrong.append(("file", f"{location}/{path}", f"It is missing, and table {name!r} needs it."))
        elif size is not None and (held < size if folder else held != size):  # others may have left files in a folder
            found.wrong.append(("file", f"{location}/{path}", f"It has {held} bytes instead of {size}."))
        elif not folder and not held:
            found.wrong.append(("file", f"{location}/{path}", f"It is empty, and table {name!r} needs it."))
        else:
            found.bytes += held
    return found


def read(core: Core, files: Sequence[Reading]) -> list[Wrong]:
    """Read files from end to end."""
    wrong = [_unlike(core, file) for file in files if file.size]
    small = [partial(_unlike, core, file) for file in files if not file.size]
    for low in range(0, len(small), AT_ONCE):
        wrong += run_parallel(small[low : low + AT_ONCE])
    return [one for one in wrong if one is not None]


def _unlike(core: Core, file: Reading) -> Wrong | None:
    format = core.format(file.format)
    assert isinstance(format, Readable)
    said = format.unlike(file.location, file.path, file.claim)
    if said is not None:  # asked again: a store may fail for a moment, a file stays as it is
        said = format.unlike(file.location, file.path, file.claim)
    return None if said is None else ("data", f"{file.location}/{file.path}", said)


def heads(core: Core, tables: Sequence[TableState]) -> list[Wrong]:
    """A HEAD that carries a table's newest counter must show the same fragments and columns as the pin."""
    problems = run_parallel([partial(_head, core, table) for table in tables])
    return [("head", f"table {t.info.name!r}", p) for t, p in zip(tables, problems, strict=True) if p]


def _head(core: Core, table: TableState) -> str | None:
    try:
        return core.format(table.pin.format).head_differs(table.pin)
    except QuireError as error:
        return str(error)


def readings(found: Iterable[Needs]) -> list[Reading]:
    """Every file of which something is said, once."""
    wanted: dict[tuple[str, str], Reading] = {}
    for some in found:
        for location, claims in some.claims.items():
            for path, claim in claims.items():
                size = some.files[location].get(path, (0, ""))[0] or 0
                wanted.setdefault((location, path), Reading(location, some.formats[location], path, claim, size))
    return list(wanted.values())


def batches(files: Iterable[Reading]) -> Iterator[list[Reading]]:
    """Files in groups of a size for one task."""
    group: list[Reading] = []
    size = 0
    for file in files:
        if group and size + file.size > TASK_BYTES:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


# -- who does it -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One call of such a function, for another process."""

    where: Whereabouts
    function: Callable[..., Any]
    given: tuple[Any, ...]

    def __call__(self) -> bytes:
        return msgspec.json.encode(self.function(self.where.core(), *self.given))


def each(
    session: Any | None, core: Core, function: Callable[..., T], given: Sequence[tuple[Any, ...]], kind: type[T]
) -> Iterator[T]:
    """Call a function for each of these values, here one after the other, or by one job of a session."""
    if session is None:
        yield from (function(core, *values) for values in given)
        return
    where = Whereabouts.of(core)
    for answer in answers(session, [Call(where, function, values) for values in given]):
        yield reader(kind).decode(settled(answer))
