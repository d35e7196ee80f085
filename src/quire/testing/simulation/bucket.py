"""The objects of a simulated store, what may befall a request, and the record of what happened."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from quire.store import Entry
from quire.testing.simulation.scheduler import Process

Fault = Literal["before", "after", "late", "twice", "denied", "crash before", "crash after", "cut"]
"""What may befall one request.

before        it fails and has no effect
after         it has its effect and the answer is lost
late          it fails for the sender and has its effect later
twice         the transport repeats it; the sender sees the answer to the second
denied        the store answers that this is not allowed
crash before  the sender dies, the request was never sent
crash after   the sender dies, the request has its effect
cut           it has its effect or not, and the sender reaches nothing for a while
"""

Watcher = Callable[[str, str, bytes | None, bytes | None], None]
"""Told (verb, key, before, after) when the content of a key changes."""


@dataclass
class Bucket:
    """The objects. `ever` keeps the last bytes of what was deleted and the first of what was overwritten."""

    time: Callable[[], datetime]
    objects: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)
    ever: dict[str, bytes] = field(default_factory=dict)
    watchers: list[Watcher] = field(default_factory=list)
    _keys: list[str] | None = None

    def write(self, key: str, data: bytes, verb: str = "put") -> None:
        before = self.objects.get(key)
        self.objects[key] = (data, self.time())
        if before is None:
            self._keys = None
        self.ever.setdefault(key, data)
        for watcher in self.watchers:
            watcher(verb, key, before[0] if before else None, data)

    def delete(self, key: str) -> None:
        before = self.objects.pop(key, None)
        if before is not None:
            self._keys = None
            for watcher in self.watchers:
                watcher("delete", key, before[0], None)

    def keys(self) -> list[str]:
        if self._keys is None:
            self._keys = sorted(self.objects)
        return self._keys


class Faults:
    """Decides what befalls a request, and how long it takes. This one: nothing, and no time."""

    def draw(self, process: Process, verb: str, key: str) -> Fault | None:
        return None

    def latency(self, process: Process, verb: str, key: str) -> float:
        return 0.0

    def lateness(self) -> float:
        """After how many seconds a late request lands."""
        return 1.0

    def outage(self) -> float:
        """For how many seconds a process that is cut off stays so."""
        return 10.0

    def page(self) -> int:
        return 1000

    def listed(self, folder: str, page: Sequence[Entry]) -> Sequence[Entry]:
        """What a page of a listing shows."""
        return page


@dataclass
class Trace:
    """What happened, as text if it is wanted, and in any case as one digest."""

    keep: bool = False
    lines: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    _digest: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    def note(self, line: str) -> None:
        self._digest.update(line.encode())
        if self.keep:
            self.lines.append(line)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()
