"""What is known of a table's keys, in one object beside its files, for processes that know nothing yet.

It is written in the background, now and then, and holds facts about files that never change. So it may be old, damaged,
gone or written over by another process: whatever it lacks is read from the files themselves.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from quire.errors import NewerFormat, QuireError
from quire.formats.fingerprints import Prints
from quire.formats.lance.lookups.known import Known, Part, owner_of, part_of
from quire.ledger import NotedKeys, decode, encode
from quire.ledger.records import Stored as StoredStruct
from quire.ledger.records import readable
from quire.store import Store

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

FOLDER = "_keys/"
"""Below a table's folder."""
NAME = FOLDER + "noted.json"
INLINE = 256
INLINE_FILES = 16
"""Keys, and files, that a record lists at most."""
EVERY_FILES = 16
EVERY_ROWS = 1 << 16
"""It is written again when so many files, or so many rows, have come that it lacks."""
MOST = 4 << 20
"""Keys that it holds at most."""
OTHERS = 4096
"""Keys that it holds at most of files that the newest version does not need: those of other branches."""
FORMAT = 2


class KeyFile(StoredStruct, frozen=True):
    """The object."""

    format: int
    table: str
    """Where the table lies, so that the object of another one is told."""
    files: tuple[NotedKeys, ...] = ()


readable(KeyFile)


def packed(part: Part, prints: Prints) -> NotedKeys:
    """What is known of a part, as it is stored."""
    text = base64.b64encode(prints.astype("<u4").tobytes()).decode()
    return NotedKeys(path=part.path, fields=part.fields, prints=text)


def unpacked(location: str, noted: NotedKeys) -> tuple[Part, Prints] | None:
    """The same as it is known; None for what cannot be such a thing."""
    try:
        raw = base64.b64decode(noted.prints, validate=True)
    except ValueError:
        return None
    if len(raw) % 4 or not noted.path or not noted.fields:
        return None
    prints = np.frombuffer(raw, "<u4").astype(np.uint32)
    if (prints[1:] <= prints[:-1]).any():
        return None
    return Part(location, noted.path, tuple(noted.fields)), prints


def notes(base: LanceDataset, fragments: Sequence[FragmentMetadata]) -> tuple[NotedKeys, ...]:
    """What is known of new fragments, for the record of their commit: nothing when it is much."""
    owner = owner_of(base)
    if owner is None or not fragments:
        return ()
    every = [part_of(f, fields, owner.location) for fields in owner.known.asked(owner.location) for f in fragments]
    some = [part for part in every if part is not None]
    found = [(part, p) for part, p in zip(some, owner.known.get(some), strict=True) if p is not None]
    if sum(len(p) for _, p in found) > INLINE or len(found) > INLINE_FILES:
        return ()
    return tuple(packed(part, p) for part, p in found)


def learn(known: Known, location: str, noted: Iterable[NotedKeys]) -> int:
    """Take in what somebody else has noted; how much of it was of use."""
    count = 0
    for one in noted:
        found = unpacked(location, one)
        if found is not None:
            known.put(*found)
            count += 1
    return count


class StoredKeys:
    """The object of one table, as one session knows it."""

    def __init__(self, store: Store, known: Known, location: str) -> None:
        self._store, self._known, self._location = store, known, location
        self._held: dict[Part, NotedKeys] = {}
        """What the object holds, as far as this session knows."""
        self._looked = self._closed = False
        self._compared: set[Part] = set()
        self._lock = threading.Lock()

    def read(self) -> bool:
        with self._lock:
            if self._looked:
                return False
            self._looked = True
            try:
                self._held = self._read()
            except NewerFormat:
                self._closed = True  # it belongs to a newer version of Quire
            except QuireError:
                return False
            return bool(learn(self._known, self._location, self._held.values()))

    def _read(self) -> dict[Part, NotedKeys]:
        name = f"{self._location}/{NAME}"
        body = self._store.get_or_none(name)
        found = None if body is None else decode(body, KeyFile, name)
        if found is None or found.table != self._location:
            return {}
        parts = [(unpacked(self._location, noted), noted) for noted in found.files]
        return {one[0]: noted for one, noted in parts if one is not None}

    def contradiction(self, compare: Callable[[Mapping[Part, Prints], set[Part]], tuple[set[Part], set[Part]]]) -> str:
        """In what the object is not what files hold, as far as `compare` has not looked at them before; or ""."""
        try:
            found = [unpacked(self._location, noted) for noted in self._read().values()]
        except QuireError:
            return ""  # nobody goes by it
        with self._lock:
            read, wrong = compare(dict(one for one in found if one is not None), self._compared)
            self._compared |= read
        if not wrong:
            return ""
        return f"{self._location}/{NAME} does not name every key in {min(wrong).path}: remove that object."

    def write(self, now: dict[Part, Prints]) -> None:
        """Write it again if it lacks much of what is known now."""
        fresh = {part: prints for part, prints in now.items() if part not in self._held}
        if not self._is_due(fresh):
            return
        self.read()
        if self._closed or not self._is_due({part: p for part, p in fresh.items() if part not in self._held}):
            return
        with self._lock:
            files = {part: packed(part, prints) for part, prints in _fitting(now).items()}
            left = OTHERS
            for part, noted in reversed(self._held.items()):
                left -= len(noted.prints) // 5  # of base64, a little more for each
                if left > 0 and part not in files:
                    files[part] = noted
            body = KeyFile(format=FORMAT, table=self._location, files=tuple(files.values()))
            self._store.put(f"{self._location}/{NAME}", encode(body))
            self._held = files

    def _is_due(self, fresh: dict[Part, Prints]) -> bool:
        return len(fresh) >= EVERY_FILES or sum(map(len, fresh.values())) >= EVERY_ROWS


def _fitting(now: dict[Part, Prints]) -> dict[Part, Prints]:
    """As many as the object may hold, the smallest files first: of a few large ones an index should tell."""
    chosen, rows = {}, 0
    for part, prints in sorted(now.items(), key=lambda item: len(item[1])):
        rows += len(prints)
        if rows > MOST:
            break
        chosen[part] = prints
    return chosen


class KeyObjects:
    """The objects of all tables of a session."""

    def __init__(self, store: Store, known: Known) -> None:
        self._store, self._known = store, known
        self._objects: dict[str, StoredKeys] = {}
        self._lock = threading.Lock()

    def of(self, location: str) -> StoredKeys:
        with self._lock:
            found = self._objects.get(location)
            if found is None:
                found = self._objects[location] = StoredKeys(self._store, self._known, location)
            return found
