"""What was refused, and what was done that no commit tells of: append-only objects, written in the background.

Entries of a second or so become one object, so an attempt costs no request of its own, and nobody waits for it. One
that cannot be stored is kept and tried again, and the log of `quire` says so. When too many wait, those that came later
are counted, and the count is stored.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from quire.errors import QuireError
from quire.lake.guard.protocol import Who
from quire.ledger import new_id
from quire.ledger.records import Stored, decode, encode, readable
from quire.store import Store, run_parallel

if TYPE_CHECKING:
    from quire.lake.context import Core
    from quire.lake.lake import Lake

FOLDER = "_quire/audit"
EVERY = 1.0
"""Seconds for which entries are gathered into one object."""
LONGEST = 60.0
"""Seconds between two tries while the store fails."""
MOST_WAITING = 10_000

_log = logging.getLogger("quire")


class Entry(Stored, frozen=True):
    """What somebody did, or tried."""

    time: datetime
    actor: str
    what: Literal["denied", "did", "wrote", "lost"]
    action: str
    kind: str
    name: str
    branch: str = ""
    request: str = ""
    via: str = ""
    commit: str = ""
    message: str = ""
    count: int = 1
    """How often, within the second or so of one object."""

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {**msgspec.structs.asdict(self), "time": self.time.isoformat()}


class Entries(Stored, frozen=True):
    """One object of entries, oldest first."""

    format: int
    entries: tuple[Entry, ...]


readable(Entries)


class Writer:
    """Writes entries down in the background. Shared by all who act on a lake in this process."""

    def __init__(self, core: Core) -> None:
        self._store, self._writes = core.store, not core.read_only
        self._waiting: deque[Entry] = deque()
        self._lost = 0
        self._condition = threading.Condition()
        self._storing = False
        self._thread: threading.Thread | None = None
        self._registered = False

    def add(self, what: Literal["denied", "did"], who: Who, action: str, kind: str, name: str, branch: str) -> None:
        """Take an entry; it is stored within a second or so."""
        entry = Entry(
            time=datetime.now(UTC), actor=who.name, what=what, action=action, kind=kind, name=name[:400], branch=branch,
            request=who.request, via=who.via,
        )  # fmt: skip
        if not self._writes:
            _log.warning("%s: %s %s %s %r (request %s)", what, who.name, action, kind, name, who.request or "-")
            return
        with self._condition:
            if len(self._waiting) >= MOST_WAITING:
                self._lost += 1
                return
            self._waiting.append(entry)
            if not self._registered:
                self._registered = True
                atexit.register(self._store_some)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="quire-audit", daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def flush(self, timeout: float) -> bool:
        """Store what waits. False when time ran out first."""
        end = time.monotonic() + timeout
        while time.monotonic() < end or timeout == 0:
            with self._condition:
                if not self._waiting and not self._storing and not self._lost:
                    return True
            if not self._store_some():
                time.sleep(min(0.05, max(0.0, end - time.monotonic())))
            if timeout == 0:
                break
        with self._condition:
            return not self._waiting and not self._storing

    def _run(self) -> None:
        pause = EVERY
        while True:
            time.sleep(pause)
            pause = EVERY if self._store_some() else min(pause * 2, LONGEST)
            with self._condition:
                if not self._waiting and not self._lost and not self._condition.wait(30.0) and not self._waiting:
                    self._thread = None
                    return

    def _store_some(self) -> bool:
        """Store what waits as one object; whether that was done."""
        with self._condition:
            if self._storing:
                return False
            taken, lost = list(self._waiting), self._lost
            if not taken and not lost:
                return True
            self._storing = True
        entries = _gathered(taken)
        if lost:
            entries.append(_lost(lost))
        now = int(time.time() * 1_000_000)
        body = encode(Entries(format=1, entries=tuple(entries)))
        stored = False
        try:
            self._store.create(f"{FOLDER}/{now:020d}-{new_id()}", body, mine=lambda found: found == body)
            stored = True
        except QuireError as error:
            _log.warning("%d audit entries wait: they cannot be stored (%s).", len(taken), error.message)
        finally:
            with self._condition:
                self._storing = False
                if stored:
                    for _ in taken:
                        self._waiting.popleft()
                    self._lost -= lost
                self._condition.notify_all()
        return stored


def _gathered(entries: list[Entry]) -> list[Entry]:
    """Entries, of which those that differ in their time alone are one with a count."""
    found: dict[tuple[Any, ...], Entry] = {}
    for entry in entries:
        key = tuple(v for n, v in msgspec.structs.asdict(entry).items() if n not in ("time", "count"))
        seen = found.get(key)
        found[key] = entry if seen is None else msgspec.structs.replace(seen, count=seen.count + entry.count)
    return list(found.values())


def _lost(count: int) -> Entry:
    return Entry(
        time=datetime.now(UTC), actor="", what="lost", action="", kind="", name="", count=count,
        message="more attempts than could be written down in time",
    )  # fmt: skip


def read(store: Store) -> Iterator[Entry]:
    """Everything that was written down, newest first."""
    keys = sorted((entry.key for entry in store.list(FOLDER)), reverse=True)
    for some in _batched(keys, 64):
        for key, body in zip(some, run_parallel([partial(store.get, key) for key in some]), strict=True):
            yield from reversed(decode(body, Entries, key).entries)


def _batched(keys: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def entries(lake: Lake, *, limit: int | None, actor: str | None, denied: bool) -> Iterator[Entry]:
    """What was refused and done, and the commits of the branch, newest first."""
    core, live = lake._core.base, lake._live
    if lake._core.guard is not None:
        lake._core.guard.flush(5.0)
    told = (entry for entry in read(core.store) if not denied or entry.what in ("denied", "lost"))
    commits = iter(()) if denied else _commits(core, live)
    merged = heapq.merge(told, commits, key=lambda entry: entry.time, reverse=True)
    wanted = (entry for entry in merged if actor is None or entry.actor == actor)
    yield from itertools.islice(wanted, limit)


def _commits(core: Core, live: Any) -> Iterator[Entry]:
    for point, commit in live.history.commits(live.refresh()):
        request = commit.metadata.get("http.request", "")
        names = ", ".join(f"{c.name} ({', '.join(c.ops)})" for c in commit.changes)
        yield Entry(
            time=commit.time, actor=commit.author, what="wrote", action="commit", kind="Table", name=names,
            branch=live.name, request=request, via="http" if request else "",
            commit=point.commit, message=commit.message,
        )  # fmt: skip
