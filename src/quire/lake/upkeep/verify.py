"""Checking a whole lake against itself. It reads everything that commits rest on and writes nothing.

The log is replayed here. Looking at the files of the tables, which is most of the work, can be done by the tasks of an
engine, with the same findings.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from quire.errors import NewerFormat, QuireError
from quire.lake.branch.live import open_branch
from quire.lake.context import Core
from quire.lake.engines import Engine, chosen
from quire.lake.format_file import FORMAT_KEY
from quire.lake.upkeep import verify_files
from quire.lake.upkeep.verify_unique import unique
from quire.ledger import (
    MAIN,
    FormatFile,
    History,
    Line,
    Pin,
    Point,
    Record,
    State,
    TableInfo,
    decode,
    fold,
    genesis,
    offers,
    repairs,
)
from quire.progress import Count, Progress, silent
from quire.prompt import OneLine, counted
from quire.store import run_parallel

BATCH = 64
TRIES = 3
_CHECKPOINT = re.compile(r"checkpoint-([0-9]{20})")
_LOOKED = {"branches": "log", "records": "record", "checkpoints": "checkpoint", "pins": "pin", "files": "file"}
COUNTS = ("branches", "records", "checkpoints", "tombstones", "pins", "files", "bytes", "read")


@dataclass(frozen=True, repr=False)
class Finding(OneLine):
    """One thing that is wrong."""

    check: str
    where: str
    message: str

    def _facts(self) -> str:
        return f"{self.where}: {self.message} [{self.check}]"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"check": self.check, "where": self.where, "message": self.message}


@dataclass(repr=False)
class Verification(OneLine):
    """What was looked at and what is wrong."""

    branches: int = 0
    records: int = 0
    checkpoints: int = 0
    tombstones: int = 0
    pins: int = 0
    files: int = 0
    bytes: int = 0
    read: int = 0
    """Files that were read from end to end."""
    findings: list[Finding] = field(default_factory=list)

    def _facts(self) -> str:
        looked = ", ".join(counted(getattr(self, what), one) for what, one in _LOOKED.items())
        return f"{'ok' if self.ok else counted(len(self.findings), 'finding')}; {looked}"

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        counts = {n: getattr(self, n) for n in COUNTS}
        return {"ok": self.ok, **counts, "findings": [f.to_dict() for f in self.findings]}


def verify(
    core: Core, progress: Progress | None = None, *, deep: bool = False, engine: Engine = "local"
) -> Verification:
    """Check a whole lake.

    Every record parses and follows its predecessor, checkpoints equal a replay, every pinned file is there in its size,
    and a plain HEAD that Quire wrote shows what its pin shows. With `deep` every data file is read from end to end, and
    must have the rows and columns that the states which need it say. At the head of every branch and under every tag no
    two rows of a table may then have one key or one stable row id. Under `engine="auto"` the size is that of all
    tables as they were last.
    """
    chosen(engine)
    for _ in range(TRIES):
        verifier = _Verifier(core, progress or silent, deep, engine)
        found = verifier.run()
        if found.ok or not verifier.overtaken():
            break  # else a cleanup came between, and what is missing may just have been given up
    return found


@dataclass
class _Log:
    """One log on the way through it."""

    name: str
    floor: int
    checkpoints: dict[int, str]
    """Those that were not met yet, by slot."""
    state: State | None
    last: str
    """The write id of the record before."""
    lost: bool = False
    """Whether the state cannot be told, because slots before this one were cleaned up."""


class _Verifier:
    def __init__(self, core: Core, progress: Progress, deep: bool, engine: Engine) -> None:
        self.core, self.deep, self.engine = core, deep, engine
        self.counts = {what: Count(progress, what) for what in ("records", "pins", "files", "read", "keys")}
        self.found = Verification()
        self.pins: dict[tuple[str, str], tuple[Pin, str]] = {}
        self.floors: dict[str, tuple[Line, int]] = {}
        self.newest: dict[tuple[str, str], tuple[Pin, TableInfo]] = {}
        """States of tables at the head of a branch or under a tag: what a deep look compares row by row."""

    def overtaken(self) -> bool:
        """Whether a cleanup has published a new floor since a log was looked at."""
        return any(self._floor(line) != floor for line, floor in list(self.floors.values()))

    def run(self) -> Verification:
        heads: dict[str, State] = {}
        self._format()
        for key in self.core.store.links():
            self.wrong("link", key, "It is a symbolic link. Cleanup leaves it alone; what it points to is unknown.")
        for name, line in self._lines():
            self.found.branches += 1
            head = self._log(name, line)
            if head is not None:
                heads[line.branch] = head
        for state in heads.values():
            self._note_newest(state)
        self._tags()
        self._offers()
        self._files()
        self._unique()
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
            refs = [r for r in self.core.refs.list("branch", self._bad_ref) if r.line is not None]
        except QuireError as error:
            self.wrong("refs", "_quire/refs", str(error))
            return
        for ref in sorted(refs, key=lambda r: len(r.line.inherited) if r.line else 0):
            assert ref.line is not None
            yield ref.name, ref.line

    def _format(self) -> None:
        try:
            if decode(self.core.store.get(FORMAT_KEY), FormatFile, FORMAT_KEY) != self.core.about:
                self.wrong("format", FORMAT_KEY, "It was changed or replaced since this lake was opened.")
        except QuireError as error:
            self.wrong("format", FORMAT_KEY, str(error))

    def _offers(self) -> None:
        """Offers that no writer takes, because they are damaged or were never made by Quire."""
        for key, body in offers.every(self.core.store):
            if body is not None:
                try:
                    offers.read_offer(body, key, whole=False)
                except NewerFormat:
                    continue
                except QuireError as error:
                    self.wrong("offer", key, f"{error.message} Nobody takes it, and cleanup removes it.")

    def _bad_ref(self, key: str, error: QuireError) -> None:
        self.wrong("refs", key, str(error))

    def _log(self, name: str, line: Line) -> State | None:
        """Replay one branch's own log from where it starts; its newest state, or None when it cannot be reached."""
        state = self._start(name, line)
        if line.inherited and state is None:
            return None
        log = _Log(name, self._floor(line), self._checkpoints(line.branch), state, state.write if state else "")
        self.floors[name] = line, log.floor
        for record in self._records(line, sorted(self.core.ledger.written(line.branch))):
            if record is None or not self._step(log, record):
                return None
        for slot, key in log.checkpoints.items():
            self.wrong("checkpoint", key, f"Slot {slot}, to which it belongs, does not exist.")
        return log.state

    def _step(self, log: _Log, record: Record) -> bool:
        """Go over one record of a log; False when what follows it means nothing any more."""
        where = f"slot {record.slot} of {log.name}"
        if record.previous != log.last:
            self.wrong("chain", where, f"It follows record {record.previous}, not {log.last}.")
            return False
        log.last = record.write
        kept = record.slot >= log.floor
        if record.buried:
            self.found.tombstones += 1
            if kept:
                self.wrong("chain", where, f"It was cleaned up, although it is not below the floor, {log.floor}.")
        elif log.lost and kept:
            self.wrong("chain", where, "No checkpoint leads to it.")
            return False
        if record.buried or log.lost:  # below the floor: buried, or to be buried by a cleanup that was interrupted
            key = log.checkpoints.pop(record.slot, None)
            log.state = self._load(key, record) if key is not None else None
            log.lost = log.state is None
            return True
        try:
            log.state = genesis(record) if log.state is None else fold(log.state, record)
        except QuireError as error:
            self.wrong("chain", where, str(error))
            return False
        if kept:
            self._note(record)
        if record.slot == log.floor:
            self._note_state(log.state)
        if record.slot in log.checkpoints:
            self._checkpoint(log.checkpoints.pop(record.slot), log.state)
        return True

    def _floor(self, line: Line) -> int:
        """The first slot of a log that cleanup has kept, as far as the log can be read."""
        try:
            state = History(self.core.store, self.core.ledger, line).open()
            return state.slot if state.closed else state.floor
        except QuireError:
            return 0

    def _load(self, key: str, record: Record) -> State | None:
        """A checkpoint at a slot that was cleaned up: it cannot be compared with a replay any more."""
        self.found.checkpoints += 1
        try:
            state = repairs.read(self.core.store, self.core.store.get(key), State, key)
        except QuireError as error:
            self.wrong("checkpoint", key, str(error))
            return None
        if (state.branch, state.slot, state.write) != (record.branch, record.slot, record.write):
            self.wrong("checkpoint", key, "It is the state at another slot.")
            return None
        return state

    def _start(self, name: str, line: Line) -> State | None:
        if not line.inherited:
            return None
        last = line.inherited[-1]
        try:
            at = Point(branch=last.branch, slot=last.slot, index=last.index)
            state = History(self.core.store, self.core.ledger, line).at(at)
            self._note_state(state)
            return state
        except QuireError as error:
            self.wrong("chain", f"start of {name}", str(error))
            return None

    def _checkpoints(self, branch: str) -> dict[int, str]:
        found: dict[int, str] = {}
        for entry in self.core.store.list(f"_quire/log/{branch}"):
            name = posixpath.basename(entry.key)
            number = _CHECKPOINT.fullmatch(name)
            if number is not None:
                found[int(number[1])] = entry.key
        return found

    def _records(self, line: Line, slots: list[int]) -> Iterator[Record | None]:
        """The records of a log in order; None, once, where the chain ends too early."""
        unbroken = [slot for number, slot in enumerate(slots) if slot == line.start + number]
        for first in range(0, len(unbroken), BATCH):
            part = unbroken[first : first + BATCH]
            for record in self._read_all(line, part):
                if record is None:
                    yield None
                    return
                self.found.records += 1
                self.counts["records"].add()
                yield record
        if len(unbroken) < len(slots):
            self.wrong("chain", f"log {line.branch}", f"Slot {line.start + len(unbroken)} is missing.")
            yield None

    def _read_all(self, line: Line, slots: list[int]) -> list[Record | None]:
        try:
            return self.core.ledger.read(line.branch, slots)
        except QuireError:  # one by one, to name those that cannot be read
            return run_parallel([partial(self._read, line, slot) for slot in slots])

    def _read(self, line: Line, slot: int) -> Record | None:
        try:
            return self.core.ledger.read(line.branch, [slot])[0]
        except QuireError as error:
            self.wrong("record", f"slot {slot} of log {line.branch}", str(error))
            return None

    def _checkpoint(self, key: str, state: State) -> None:
        self.found.checkpoints += 1
        try:
            stored = repairs.read(self.core.store, self.core.store.get(key), State, key)
        except QuireError as error:
            self.wrong("checkpoint", key, str(error))
            return
        if _comparable(stored, state) != _comparable(state, stored):
            self.wrong("checkpoint", key, "It differs from a replay of the log.")

    def _note_state(self, state: State) -> None:
        for table in state.tables.values():
            self.pins.setdefault((table.pin.location, table.pin.version), (table.pin, table.info.name))

    def _note_newest(self, state: State) -> None:
        for table in state.tables.values():
            self.newest.setdefault((table.pin.location, table.pin.version), (table.pin, table.info))

    def _note(self, record: Record) -> None:
        for commit in record.commits:
            for change in commit.changes:
                if change.pin is not None:
                    self.pins.setdefault((change.pin.location, change.pin.version), (change.pin, change.name))

    def _tags(self) -> None:
        try:
            for ref in self.core.refs.list("tag", self._bad_ref):
                if ref.target is None:
                    continue
                line = ref.line or Line(branch=self.core.about.main)
                try:
                    state = History(self.core.store, self.core.ledger, line).at(ref.target)
                    self._note_state(state)
                    self._note_newest(state)
                except QuireError as error:
                    self.wrong("tag", ref.name, f"It names commit {ref.target.commit}: {error}")
        except QuireError as error:
            self.wrong("refs", "_quire/refs", str(error))

    # -- the tables -------------------------------------------------------------------------------------------

    def _files(self) -> None:
        """What every pinned state needs, compared with one listing per table; a lake in memory has no files to list."""
        if self.core.store.scheme == "memory":
            return
        session = chosen(self.engine, self._size)
        pins = list(self.pins.values())
        parts = [pins[first : first + BATCH] for first in range(0, len(pins), BATCH)]
        needed: dict[str, verify_files.Sized] = {}
        needs: list[verify_files.Needs] = []
        asked = [(part, self.deep) for part in parts]
        told = verify_files.each(session, self.core, verify_files.needs, asked, verify_files.Needs)
        for part, found in zip(parts, told, strict=True):
            self.found.pins += len(part)
            self.counts["pins"].add(len(part))
            self._wrong(found.wrong)
            needs.append(found)
            for location, files in found.files.items():
                for path, file in files.items():
                    needed.setdefault(location, {}).setdefault(path, file)
        for there in verify_files.each(
            session, self.core, verify_files.present, list(needed.items()), verify_files.Present
        ):
            self.found.files += there.files
            self.found.bytes += there.bytes
            self.counts["files"].add(there.files)
            self._wrong(there.wrong)
        self._read_data(session, verify_files.readings(needs))

    def _read_data(self, session: Any, files: list[verify_files.Reading]) -> None:
        missing = {finding.where for finding in self.found.findings if finding.check == "file"}
        parts = list(verify_files.batches(f for f in files if f"{f.location}/{f.path}" not in missing))
        read = verify_files.each(
            session, self.core, verify_files.read, [(part,) for part in parts], list[verify_files.Wrong]
        )
        for part, wrong in zip(parts, read, strict=True):
            self.found.read += len(part)
            self.counts["read"].add(len(part))
            self._wrong(wrong)

    def _unique(self) -> None:
        """With `deep`: every row of a table has its own key and its own stable id."""
        if not self.deep:
            return
        damaged = {f.where.partition("/data/")[0] for f in self.found.findings if f.check in ("file", "data")}
        tables = [found for found in self.newest.values() if found[0].location not in damaged]
        asked = [([table],) for table in tables]
        session = chosen(self.engine, self._size)
        for wrong in verify_files.each(session, self.core, unique, asked, list[verify_files.Wrong]):
            self.counts["keys"].add()
            self._wrong(wrong)

    def _plain_heads(self, state: State) -> None:
        if self.core.store.scheme == "memory":
            return
        tables = list(state.tables.values())
        parts = [(tables[first : first + BATCH],) for first in range(0, len(tables), BATCH)]
        session = chosen(self.engine, self._size)
        looks = verify_files.each(session, self.core, verify_files.heads, parts, list[verify_files.Wrong])
        found = [wrong for some in looks for wrong in some]
        # A version of a client that came since is known from a newer state alone.
        now = open_branch(self.core, MAIN).state.tables if found else {}
        moved = {f"table {t.info.name!r}" for t in tables if t.info.id not in now or now[t.info.id].pin != t.pin}
        self._wrong(wrong for wrong in found if wrong[1] not in moved)

    def _wrong(self, found: Iterable[verify_files.Wrong]) -> None:
        for check, where, message in found:
            self.wrong(check, where, message)

    def _size(self) -> int:
        newest = {location: pin.bytes for (location, _), (pin, _) in self.pins.items()}
        return sum(newest.values())


def _comparable(state: State, other: State) -> State:
    """A state without what may differ between two that mean the same: where tokens are kept once there are many, and
    what versions before format 4 did not keep.
    """
    blank: dict[str, Any] = {"checkpoint": None, "fresh": {}}
    if state.token_pages or other.token_pages or state.tokens_since or other.tokens_since:
        blank |= {"tokens": {}, "token_pages": (), "tokens_since": None, "format": 0}
    if state.stream_pages or other.stream_pages:
        blank |= {"streams": {}, "stream_pages": (), "format": 0}
    if state.reaches is None or other.reaches is None:  # from a checkpoint of an older version
        blank |= {"reaches": None}
    return msgspec.structs.replace(state, **blank)
