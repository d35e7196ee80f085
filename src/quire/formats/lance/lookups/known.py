"""What a session knows of the keys in data files: their fingerprints, by file and columns.

A data file is never changed and its name never used again. So what is known of a file holds for every version and every
branch of its table, and to know less only costs a look. Which files hold the key columns of a fragment, its version
says.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from quire.formats.fingerprints import Prints, has_one

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import LanceFragment

MEMORY = 64 << 20
"""Bytes of fingerprints that a session keeps: those that were used last."""
OVERHEAD = 200
"""What it takes to remember a file, beside the fingerprints."""
KEPT = 16
"""Versions whose fragments are remembered: one has up to thousands, and making the list takes milliseconds."""
SINGLY = 16
"""Up to so many fragments are asked for one by one."""

Fields = tuple[int, ...]
"""Columns by the ids that stay with them when they are renamed."""


class Part(NamedTuple):
    """Some columns of a fragment."""

    location: str
    """Of the table."""
    path: str
    """The data files that hold the columns; several are joined by `|`."""
    fields: Fields


class Known:
    """Shared by all threads of a session."""

    def __init__(self) -> None:
        self._prints: OrderedDict[Part, Prints] = OrderedDict()
        self._bytes = 0
        self._asked: dict[str, set[Fields]] = {}
        self._lock = threading.Lock()

    def get(self, parts: Sequence[Part]) -> list[Prints | None]:
        """The fingerprints of each part, where they are known."""
        with self._lock:
            found = [self._prints.get(part) for part in parts]
            for part, prints in zip(parts, found, strict=True):
                if prints is not None:
                    self._prints.move_to_end(part)
        return found

    def put(self, part: Part, prints: Prints) -> None:
        """Learn what a part holds: all of its keys, and perhaps more."""
        size = prints.nbytes + OVERHEAD
        if size > MEMORY // 4:
            return
        with self._lock:
            self._asked.setdefault(part.location, set()).add(part.fields)
            before = self._prints.pop(part, None)
            self._bytes += size - (0 if before is None else before.nbytes + OVERHEAD)
            self._prints[part] = prints
            while self._bytes > MEMORY:
                _, gone = self._prints.popitem(last=False)
                self._bytes -= gone.nbytes + OVERHEAD

    def ask(self, location: str, fields: Fields) -> None:
        """Say that rows of a table are looked up by these columns: what is written there is worth noting."""
        with self._lock:
            self._asked.setdefault(location, set()).add(fields)

    def asked(self, location: str) -> Iterable[Fields]:
        """The columns by which rows of a table were looked up."""
        with self._lock:
            return tuple(self._asked.get(location, ()))

    def forget(self) -> None:
        """Know nothing any more."""
        with self._lock:
            self._prints.clear()
            self._bytes = 0


# -- whose a handle is, and what its fragments are --------------------------------------------------------------------


@dataclass(frozen=True)
class Owner:
    """Whose a handle is: what the session knows, and where the table lies."""

    known: Known
    location: str
    stored: Stored | None = None
    copy: bool = False
    """Whether it reads by a copy of the manifest, in which the table's own files are on a base, the last one."""


class Stored(Protocol):
    """What was stored of the keys of a table."""

    def read(self) -> bool:
        """Learn it, unless that was done before; whether there was anything to learn."""
        ...


@dataclass(frozen=True)
class Piece:
    """One fragment, and the part of it that holds some columns; None where files alone do not tell that."""

    number: int
    rows: int
    """All that were written, those that were deleted since too."""
    part: Part | None


_owners: weakref.WeakKeyDictionary[LanceDataset, Owner] = weakref.WeakKeyDictionary()
_pieces: weakref.WeakKeyDictionary[LanceDataset, dict[Fields, list[Piece]]] = weakref.WeakKeyDictionary()


def owned(handle: LanceDataset, owner: Owner) -> None:
    """Say whose a handle is. Look-ups through a handle of nobody read every fragment."""
    _owners[handle] = owner


def owner_of(handle: LanceDataset) -> Owner | None:
    return _owners.get(handle)


def fields_of(handle: LanceDataset, columns: Sequence[str]) -> Fields | None:
    """The ids of columns whose values have fingerprints; None when one of them has none."""
    ids = {field.name(): int(field.id()) for field in handle.lance_schema.fields()}
    schema = handle.schema
    if not columns or any(name not in ids or not has_one(schema.field(name).type) for name in columns):
        return None
    return tuple(ids[name] for name in columns)


def names_of(handle: LanceDataset, fields: Fields) -> list[str] | None:
    """The present names of columns; None when one of them is gone."""
    names = {int(field.id()): str(field.name()) for field in handle.lance_schema.fields()}
    found = [names[number] for number in fields if number in names]
    return found if len(found) == len(fields) else None


def pieces_of(handle: LanceDataset, fields: Fields, location: str) -> list[Piece]:
    """Every fragment of a pinned handle, in order."""
    known = _pieces.get(handle)
    if known is None:
        if len(_pieces) >= KEPT:
            _pieces.clear()
        known = _pieces[handle] = {}
    found = known.get(fields)
    if found is None:
        every = [fragment.metadata for fragment in handle.get_fragments()]
        owner = owner_of(handle)
        base = _own_base(every) if owner is not None and owner.copy else None
        found = [Piece(int(m.id), int(m.physical_rows), part_of(m, fields, location, base)) for m in every]
        known[fields] = found
    return found


def fragments_of(handle: LanceDataset, numbers: Collection[int]) -> list[LanceFragment]:
    """Fragments by number, in the order in which the table has them."""
    if len(numbers) <= SINGLY:
        found = [handle.get_fragment(number) for number in sorted(numbers)]
        return [fragment for fragment in found if fragment is not None]
    return [f for f in handle.get_fragments() if int(f.fragment_id) in numbers]


def _own_base(every: Sequence[Any]) -> int | None:
    """The base of the table's own files in a copy: it was added last."""
    return max((file.base_id or 0 for metadata in every for file in metadata.files), default=0) or None


def part_of(metadata: Any, fields: Fields, location: str, base: int | None = None) -> Part | None:
    """The part of a fragment that holds some columns."""
    if metadata.overlays:
        return None  # values lie over those of the files
    paths = []
    for number in fields:
        holders = [file for file in metadata.files if number in file.fields]
        if len(holders) != 1 or holders[0].base_id != base:
            return None
        paths.append(str(holders[0].path))
    return Part(location, "|".join(dict.fromkeys(paths)), fields)
