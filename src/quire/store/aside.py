"""A store whose writes stay in this process: for work that is looked at and then forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import merge
from typing import Any

from quire.errors import NotFound
from quire.store import clock
from quire.store.backend import Entry, Follows
from quire.store.conditional_put import Created, Outcome
from quire.store.store import Store


class AsideStore(Store):
    """What another store holds, and on top of it what was written here. Nothing is ever written to that other one.

    What was written here costs no request, neither when it is written nor when it is read.
    """

    def __init__(self, base: Store) -> None:
        self.__dict__.update(vars(base))
        self._base = base
        self._written: dict[str, bytes | None] = {}
        """By key; None for what was deleted here."""

    def below(self, location: str) -> Store:
        """What lies at a location, with writes of its own that stay here."""
        return AsideStore(self._base.below(location))

    def held(self, key: str) -> dict[str, bytes]:
        """What was written here under a key, and in the folder that is named as it is without its ending."""
        folder = f"{key.rpartition('.')[0]}/"
        written = dict(self._written)
        return {k: data for k, data in written.items() if data is not None and (k == key or k.startswith(folder))}

    def get(self, key: str) -> bytes:
        if key not in self._written:
            return self._base.get(key)
        found = self._written[key]
        if found is None:
            raise NotFound(f"{key!r} was deleted in {self.uri}.", uri=self.uri, key=key)
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if key not in self._written:
            return self._base.get_range(key, start, length)
        return self.get(key)[start : start + length]

    def stat(self, key: str) -> Entry | None:
        if key not in self._written:
            return self._base.stat(key)
        found = self._written[key]
        return None if found is None else _entry(key, found)

    def put(self, key: str, data: bytes) -> None:
        self._written[key] = data

    def create(
        self,
        key: str,
        data: bytes,
        *,
        mine: Callable[[bytes], bool],
        deadline: float | None = None,
        beside: Callable[[], object] | None = None,
        follows: Follows | None = None,
    ) -> Created:
        found = self.get_or_none(key)
        if found is not None:
            return Created(Outcome.COMMITTED) if mine(found) else Created(Outcome.CONFLICT, found)
        self._written[key] = data
        return Created(Outcome.COMMITTED)

    def delete(self, key: str) -> None:
        self._written[key] = None

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        written = dict(self._written)
        own = (_entry(k, d) for k, d in sorted(written.items()) if d is not None and k.startswith(folder))
        theirs = (entry for entry in self._base.list(prefix, after=after) if entry.key not in written)
        return merge(theirs, (e for e in own if after is None or e.key > after), key=lambda entry: entry.key)

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing to do: nothing of it is to last."""

    def sweep(self, before: datetime) -> None:
        """Nothing to do: what others left is not ours to remove."""

    def __reduce__(self) -> Any:
        raise TypeError("what was written to this store is in this process alone")


def _entry(key: str, data: bytes) -> Entry:
    return Entry(key, len(data), clock.now())
