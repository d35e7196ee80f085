"""Small files of tables, read and written by our own store: manifests, commits and deletion vectors above all.

What was written or read lately is kept, so that a version can be staged on top of another without a request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from quire.store import AsideStore, Store

KEPT = 64 << 20
"""Bytes of files that are kept in all."""
LARGEST = 4 << 20
"""A larger file is read again."""


class TableFiles:
    """The files of the tables of one lake, by the table's location and their name below it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stores: dict[str, Store] = {"": store}
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(self, location: str, name: str) -> bytes:
        """A file that never changes; `NotFound` if it is not there."""
        found = self.kept(location, name)
        if found is not None:
            return found
        data = self.read_now(location, name)
        self.keep(location, name, data)
        return data

    def kept(self, location: str, name: str) -> bytes | None:
        """What is remembered of a file."""
        with self._lock:
            found = self._kept.get((location, name))
            if found is not None:
                self._kept.move_to_end((location, name))
            return found

    def read_now(self, location: str, name: str) -> bytes:
        """The same as it is in the store now, whatever was read before."""
        return self.of(location).get(name)

    def read_range(self, location: str, name: str, start: int, length: int) -> bytes:
        """Some bytes of a file, which are not remembered."""
        return self.of(location).get_range(name, start, length)

    @property
    def is_aside(self) -> bool:
        """Whether what is written stays on this machine."""
        return isinstance(self._store, AsideStore)

    def held(self, location: str, name: str) -> dict[str, bytes]:
        """A file that was written and stays on this machine, with those in the folder named after it."""
        store = self.of(location)
        return store.held(name) if isinstance(store, AsideStore) else {}

    def write(self, location: str, name: str, data: bytes) -> None:
        """Write a file that nobody else writes: its name is unique."""
        self.of(location).put(name, data)

    def keep(self, location: str, name: str, data: bytes) -> None:
        """Remember what a file holds."""
        with self._lock:
            if len(data) > LARGEST or (location, name) in self._kept:
                return
            self._kept[location, name] = data
            self._size += len(data)
            while self._size > KEPT:
                self._size -= len(self._kept.popitem(last=False)[1])

    def of(self, location: str) -> Store:
        """The folder of a table as a store."""
        with self._lock:
            found = self._stores.get(location)
        return found if found is not None else self._stores.setdefault(location, self._store.below(location))
