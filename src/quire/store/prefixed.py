"""The objects below a folder of another backend, over its connections.

A client of its own for each table would read the certificates of the machine (2 ms of CPU) and open connections anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from quire.store.backend import Backend, Entry


class Prefixed:
    """A `Backend` whose keys lie below a folder of a remote one."""

    def __init__(self, backend: Backend, folder: str) -> None:
        self._backend, self._folder = backend, folder + "/"
        self.attempts, self.in_order = backend.attempts, backend.in_order

    def get(self, key: str) -> bytes:
        return self._backend.get(self._folder + key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._backend.get_range(self._folder + key, start, length)

    def head(self, key: str) -> Entry:
        return self._own(self._backend.head(self._folder + key))

    def put(self, key: str, data: bytes) -> None:
        self._backend.put(self._folder + key, data)

    def create(self, key: str, data: bytes) -> None:
        self._backend.create(self._folder + key, data)

    def delete(self, key: str) -> None:
        self._backend.delete(self._folder + key)

    def pages(self, prefix: str, after: str | None) -> Iterator[Sequence[Entry]]:
        beyond = None if after is None else self._folder + after
        for page in self._backend.pages((self._folder + prefix).rstrip("/"), beyond):
            yield [self._own(entry) for entry in page]

    def sync(self, paths: Sequence[str]) -> None:
        """Nothing to do: what remote stores acknowledge is durable."""

    def _own(self, entry: Entry) -> Entry:
        return replace(entry, key=entry.key.removeprefix(self._folder))
