"""Files of one table that were made on this machine and that the store does not have yet.

They are kept in memory until the commit, or a reader inside the transaction, needs them in the store; then all that are
needed go side by side. Each is sent once, whoever asks for it and how often. A file that nobody asks for is never sent:
a transaction that is given up leaves nothing behind.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable

from quire.formats.table_files import TableFiles
from quire.store import run_parallel

AT_ONCE = 8 << 20
"""Rows of one statement that take more are written straight to the store."""
PER_TABLE = 16 << 20
"""Bytes of one table that a transaction keeps unsent."""
PER_PROCESS = 256 << 20
"""Bytes that all transactions of this process keep unsent."""
ASIDE = 1 << 30
"""Bytes of one statement where nothing may be sent at all."""

_lock = threading.Lock()
_kept = 0
_released: queue.SimpleQueue[int] = queue.SimpleQueue()
"""Bytes that are no longer kept: a queue, because a parcel may be let go of in the middle of anything."""


def _count(size: int = 0) -> int:
    """Count bytes that are kept from now on; how many there are in all."""
    global _kept
    with _lock:
        _kept += size
        while not _released.empty():
            _kept -= _released.get_nowait()
        return _kept


class Parcel:
    """One file on its way."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.data: bytes | None = data
        self._sending = threading.Lock()
        _count(self.size)

    def send(self, write: Callable[[bytes], None]) -> None:
        """Write it, unless it was written. Whoever comes while another writes it waits for that."""
        with self._sending:
            if self.data is not None:
                write(self.data)
                self._let_go()

    def _let_go(self) -> None:
        self.data = None
        _released.put(self.size)

    def __del__(self) -> None:
        if self.data is not None:
            self._let_go()


class Outbox:
    """Unsent files, by name below the table's folder. Threads may add and send at once."""

    def __init__(self, files: TableFiles, location: str) -> None:
        self._files, self._location = files, location
        self._parcels: dict[str, Parcel] = {}

    @property
    def room(self) -> int:
        """Bytes that one more statement may keep here."""
        if self._files.is_aside:
            return ASIDE
        own = sum(parcel.size for parcel in self._unsent().values())
        return max(0, min(AT_ONCE, PER_TABLE - own, PER_PROCESS - _count()))

    def add(self, made: dict[str, bytes]) -> None:
        for name, data in made.items():
            self._parcels[name] = Parcel(data)

    def __contains__(self, name: str) -> bool:
        """Whether the store does not have a file yet."""
        parcel = self._parcels.get(name)
        return parcel is not None and parcel.data is not None

    @property
    def holds_any(self) -> bool:
        """Whether the store lacks any of its files."""
        return bool(self._unsent())

    def data(self, name: str) -> bytes | None:
        parcel = self._parcels.get(name)
        return parcel.data if parcel is not None else None

    def send(self, wanted: Callable[[str], bool]) -> None:
        """Write the files of these names, side by side. An error leaves those that failed here, to be sent again."""
        calls = [
            lambda n=name, p=parcel: p.send(lambda data: self._files.write(self._location, n, data))
            for name, parcel in self._unsent().items()
            if wanted(name)
        ]
        run_parallel(calls)

    def drop(self, names: Iterable[str]) -> None:
        """Forget files that nobody will need."""
        for name in names:
            self._parcels.pop(name, None)

    def _unsent(self) -> dict[str, Parcel]:
        return {name: parcel for name, parcel in self._parcels.copy().items() if parcel.data is not None}
