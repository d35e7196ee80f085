"""Checking a whole lake against itself. It reads everything that commits rest on and writes nothing."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from quire.errors import QuireError
from quire.lake.core import Core
from quire.ledger import MAIN, History, Line, Pin, Point, Record, State, TableState, decode, fold, genesis
from quire.store import Store, run_parallel

BATCH = 64

Progress = Callable[[str, int], None]
"""Told what is being checked and how many were done since."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    check: str
    where: str
    message: str

    def to_dict(self) -> dict[str, Any]:
        return {"check": self.check, "where": self.where, "message": self.message}


@dataclass
class Verification:
    """What was looked at and what is wrong."""

    branches: int = 0
    records: int = 0
    checkpoints: int = 0
    pins: int = 0
    files: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        counts = {n: getattr(self, n) for n in ("branches", "records", "checkpoints", "pins", "files", "bytes")}
        return {"ok": self.ok, **counts, "findings": [f.to_dict() for f in self.findings]}


def verify(core: Core, progress: Progress | None = None) -> Verification:
    """Check a whole lake.

    Every record parses and follows its predecessor, checkpoints equal a replay, every pinned file is there in its size,
    and a plain HEAD that Quire wrote shows what its pin shows.
    """
    return _Verifier(core, progress or (lambda what, count: None)).run()


class _Verifier:
    def __init__(self, core: Core, progress: Progress) -> None:
        self.core, self.progress = core, progress
        self.found = Verification()
        self.pins: dict[tuple[str, str], tuple[Pin, str]] = {}

    def run(self) -> Verification:
        heads: dict[str, State] = {}
        for name, line in self._lines():
            self.found.branches += 1
            head = self._log(name, line)
            if head is not None:
                heads[line.branch] = head
        self._tags()
        self._files()
        if self.core.about.main in heads:
            self._plain_heads(heads[self.core.about.main])
        return self.found

    def wrong(self, check: str, where: str, message: str) -> None:
        self.found.findings.append(Finding(check, where, message))

    # -- the ledger -------------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[tuple[str, Line]]:
        """Main first, then branches after the branches they started from."""
        yield MAIN, Line(branch=self.core.about.main)
        try:
            refs = [r for r in self.core.refs.list("branch") if r.line is not None]
        except QuireError as error:
            self.wrong("refs", "_quire/refs", str(error))
            return
        for ref in sorted(refs, key=lambda r: len(r.line.inherited) if r.line else 0):
            assert ref.line is not None
            yield ref.name, ref.line

    def _log(self, name: str, line: Line) -> State | None:
        """Replay one branch's own log from where it starts; its newest state, or None when it cannot be reached."""
        state = self._start(name, line)
        if line.inherited and state is None:
            return None
        slots, checkpoints = self._listing(line.branch)
        for record in self._records(line, slots):
            if record is None:
                return None
            try:
                state = genesis(record) if state is None else fold(state, record)
            except QuireError as error:
                self.wrong("chain", f"slot {record.slot} of {name}", str(error))
                return None
            self._note(record)
            if record.slot in checkpoints:
                self._checkpoint(checkpoints.pop(record.slot), state)
        for slot, key in checkpoints.items():
            self.wrong("checkpoint", key, f"There is no slot {slot} for it.")
        return state

    def _start(self, name: str, line: Line) -> State | None:
        if not line.inherited:
            return None
        last = line.inherited[-1]
        try:
            at = Point(branch=last.branch, slot=last.slot, index=last.index)
            return History(self.core.store, self.core.ledger, line).at(at)
        except QuireError as error:
            self.wrong("chain", f"start of {name}", str(error))
            return None

    def _listing(self, branch: str) -> tuple[list[int], dict[int, str]]:
        slots: list[int] = []
        checkpoints: dict[int, str] = {}
        for entry in self.core.store.list(f"_quire/log/{branch}"):
            name = posixpath.basename(entry.key)
            if name.isdigit():
                slots.append(int(name))
            elif name.startswith("checkpoint-") and name.removeprefix("checkpoint-").isdigit():
                checkpoints[int(name.removeprefix("checkpoint-"))] = entry.key
        return slots, checkpoints

    def _records(self, line: Line, slots: list[int]) -> Iterator[Record | None]:
        """The records of a log in order; None, once, where the chain ends too early."""
        unbroken = [slot for number, slot in enumerate(slots) if slot == line.start + number]
        for first in range(0, len(unbroken), BATCH):
            part = unbroken[first : first + BATCH]
            for record in run_parallel([partial(self._read, line, slot) for slot in part]):
                if record is None:
                    yield None
                    return
                self.found.records += 1
                self.progress("records", 1)
                yield record
        if len(unbroken) < len(slots):
            self.wrong("chain", f"log {line.branch}", f"Slot {line.start + len(unbroken)} is missing.")
            yield None

    def _read(self, line: Line, slot: int) -> Record | None:
        try:
            return self.core.ledger.read(line.branch, [slot])[0]
        except QuireError as error:
            self.wrong("record", f"slot {slot} of log {line.branch}", str(error))
            return None

    def _checkpoint(self, key: str, state: State) -> None:
        self.found.checkpoints += 1
        try:
            stored = decode(self.core.store.get(key), State, key)
        except QuireError as error:
            self.wrong("checkpoint", key, str(error))
            return
        if msgspec.structs.replace(stored, checkpoint=None) != msgspec.structs.replace(state, checkpoint=None):
            self.wrong("checkpoint", key, "It is not what a replay of the log gives.")

    def _note(self, record: Record) -> None:
        for commit in record.commits:
            for change in commit.changes:
                if change.pin is not None:
                    self.pins.setdefault((change.pin.location, change.pin.version), (change.pin, change.name))

    def _tags(self) -> None:
        try:
            for ref in self.core.refs.list("tag"):
                if ref.target is None:
                    continue
                [record] = self.core.ledger.read(ref.target.branch, [ref.target.slot])
                if record is None or ref.target.index >= len(record.commits):
                    self.wrong("tag", ref.name, f"It names commit {ref.target.commit}, which does not exist.")
        except QuireError as error:
            self.wrong("refs", "_quire/refs", str(error))

    # -- the tables -------------------------------------------------------------------------------------------

    def _files(self) -> None:
        """What every pinned state needs, compared with one listing per table; a lake in memory has no files to list."""
        if self.core.store.scheme == "memory":
            return
        needed: dict[str, dict[str, tuple[int | None, str]]] = {}
        pins = list(self.pins.values())
        for first in range(0, len(pins), BATCH):
            part = pins[first : first + BATCH]
            wanted = run_parallel([partial(self._needs, pin, name) for pin, name in part])
            for (pin, name), files in zip(part, wanted, strict=True):
                self.found.pins += 1
                self.progress("pins", 1)
                for path, size in files.items():
                    needed.setdefault(pin.location, {}).setdefault(path, (size, name))
        for location, files_of in needed.items():
            self._compare(location, files_of)

    def _needs(self, pin: Pin, name: str) -> dict[str, int | None]:
        try:
            return self.core.format(pin.format).files(pin, name)
        except QuireError as error:
            self.wrong("pin", f"table {name!r} version {pin.counter}", str(error))
            return {}

    def _compare(self, location: str, files: dict[str, tuple[int | None, str]]) -> None:
        absolute = "://" in location or location.startswith("/")
        root = Store.open(location if absolute else self.core.store.child_uri(location), self.core.store.options)
        there = {entry.key: entry.size for entry in root.list("")}
        for path, (size, name) in sorted(files.items()):
            self.found.files += 1
            self.progress("files", 1)
            if path.endswith("/"):
                sizes = [length for key, length in there.items() if key.startswith(path)]
            else:
                sizes = [there[path]] if path in there else []
            if not sizes:
                self.wrong("file", f"{location}/{path}", f"Table {name!r} needs it, and it is gone.")
            elif size is not None and sizes != [size]:
                self.wrong("file", f"{location}/{path}", f"It has {sizes[0]} bytes instead of {size}.")
            else:
                self.found.bytes += sum(sizes)

    def _plain_heads(self, state: State) -> None:
        """A HEAD that carries a table's newest counter must show the same fragments and columns as the pin."""
        if self.core.store.scheme == "memory":
            return
        tables = list(state.tables.values())
        problems = run_parallel([partial(self._plain_head, table) for table in tables])
        for table, problem in zip(tables, problems, strict=True):
            if problem:
                self.wrong("head", f"table {table.info.name!r}", problem)

    def _plain_head(self, table: TableState) -> str | None:
        try:
            return self.core.format(table.pin.format).head_differs(table.pin)
        except QuireError as error:
            return str(error)
