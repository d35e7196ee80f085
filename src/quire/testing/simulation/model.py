"""What the lake must look like, told by what was written to the store, object by object.

The model watches the bucket. It folds every slot as it is created, keeps the rows of every table at every commit, and
objects at once to what must never happen: a slot that is deleted or changed, a chain that does not hold, a commit that
names files which are not there, a file that is deleted under a state that somebody relies on.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from quire.errors import QuireError
from quire.ledger import Line, Pin, Point, Record, State, decode, fold, genesis
from quire.ledger.refs import Ref
from quire.testing.simulation.bucket import Bucket

TableRows = dict[int, dict[str, Any]]
"""Rows of a table by their first column, which every table of a simulation has unique."""

CommitSlot = tuple[int, int]
"""Slot and index of a commit."""

_SLOT = re.compile(r"_quire/log/([^/]+)/(\d{20})$")
_REF = re.compile(r"_quire/refs/")
_HEAD = re.compile(r"(tables/[^/]+)/head/(\d+)\.json$")


class Violation(AssertionError):
    """Something happened that must not, whatever fails."""


@dataclass
class Log:
    """One branch's log as it was written."""

    line: Line
    records: dict[int, Record] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)
    """By slot: the state after all that is in it."""
    commits: dict[CommitSlot, State] = field(default_factory=dict)
    """By commit, in order: the state after it. The first is the one that the log starts from."""
    head: int = -1

    @property
    def state(self) -> State:
        return self.states[self.head]


class Model:
    """Every state that was ever committed."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self.bucket, self.prefix = bucket, prefix + "/"
        self.logs: dict[str, Log] = {}
        self.main = ""
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self._refs: dict[str, Ref] = {}
        self._heads: dict[str, tuple[int, int]] = {}
        self._rows: dict[str, TableRows] = {}
        self._files: dict[str, frozenset[str]] = {}
        bucket.watchers.append(self._watch)

    # -- watching ---------------------------------------------------------------------------------------------

    def wrong(self, what: str) -> None:
        self.violations.append(what)

    def _watch(self, verb: str, key: str, before: bytes | None, after: bytes | None) -> None:
        name = key[len(self.prefix) :]
        try:
            if (slot := _SLOT.match(name)) is not None:
                self._slot(slot[1], int(slot[2]), before, after)
            elif after is not None and _REF.match(name) and before is None:
                self._ref(name, decode(after, Ref, name))
            elif after is None and name.startswith("tables/"):
                self.counts["file deleted"] += 1
                self._deleted(name)
            elif after is not None and (head := _HEAD.match(name)) is not None:
                self._promoted(head[1], int(head[2]), before, after)
        except QuireError as error:
            self.wrong(f"{verb} {name}: {type(error).__name__}: {error}")

    def _slot(self, branch: str, slot: int, before: bytes | None, after: bytes | None) -> None:
        where = f"slot {slot} of log {branch}"
        if after is None:
            return self.wrong(f"{where} was deleted")
        record = decode(after, Record, where)
        if before is not None:
            known = decode(before, Record, where)
            if record.kind != "tombstone" or (record.write, record.previous) != (known.write, known.previous):
                self.wrong(f"{where} was overwritten by {record.kind} {record.write}, it held {known.write}")
            elif slot >= (floor := self._floor(branch)):
                self.wrong(f"{where} was buried, but the floor is {floor}")
            self.counts["tombstone"] += 1
            return None
        if record.kind == "tombstone":
            return self.wrong(f"{where}: a tombstone where nothing was")
        log = self._log(branch, slot, record)
        if log is None:
            return self.wrong(f"{where}: the slot before it does not exist")
        log.records[slot] = record
        base = log.states.get(slot - 1)
        if base is not None and record.epoch < base.epoch:
            self.wrong(f"{where}: a writer of epoch {record.epoch} committed after a claim of epoch {base.epoch}")
        if base is not None and base.closed:
            self.wrong(f"{where}: a commit after the branch was closed")
        if record.floor is not None:
            self.counts["floor"] += 1
            self.counts["writer revoked"] += len(record.floor.revoked)
        log.states[slot] = genesis(record) if base is None else fold(base, record)
        log.head = slot
        if base is None:
            log.commits[slot, 0] = log.states[slot]
        else:
            self._commits(log, base, record, where)
        return None

    def _commits(self, log: Log, base: State, record: Record, where: str) -> None:
        """Take in the commits of a slot, each after the one before it."""
        before, last = base, base.time
        moved: set[str] = set()
        for index, commit in enumerate(record.commits):
            after = fold(base, record, upto=index)
            if commit.parents[:1] != (before.head,):
                self.wrong(f"{where}: commit {index} names {commit.parents} as its parents, not {before.head}")
            if not last < commit.time <= record.time:
                self.wrong(f"{where}: commit {index} is of {commit.time}, after {last}, in a record of {record.time}")
            for change in commit.changes:
                if change.pin is not None:
                    self._complete(change.pin, f"{where} ({commit.message}), table {change.name}")
            self.counts["fused"] += any(change.table in moved for change in commit.changes)
            moved |= {change.table for change in commit.changes}
            log.commits[record.slot, index] = before = after
            last = commit.time
        if len(record.commits) > 1:
            self.counts["group"] += 1
            self.counts["grouped commit"] += len(record.commits)
            self.counts["group of three or more"] += len(record.commits) > 2
        if record.commits and before != log.states[record.slot]:
            self.wrong(f"{where}: the state after its last commit is not the state after the slot")

    def _floor(self, branch: str) -> int:
        """The first slot that must stay; of a closed log only the record that closed it."""
        state = self.logs[branch].state
        return state.slot if state.closed else state.floor

    def _log(self, branch: str, slot: int, record: Record) -> Log | None:
        """The log that a record extends; it starts one where a branch, or the lake, begins."""
        log = self.logs.get(branch)
        if log is not None:
            return log if log.head == slot - 1 else None
        if slot == 0:
            self.main = self.main or branch
            log = self.logs[branch] = Log(Line(branch=branch))
            return log
        ref = self._refs.get(branch)
        if ref is None or ref.line is None:
            return None
        last = ref.line.inherited[-1]
        start = self.state(Point(branch=last.branch, slot=last.slot, index=last.index))
        if start is None or last.slot != slot - 1:
            return None
        log = self.logs[branch] = Log(ref.line)
        log.states[last.slot] = log.commits[last.slot, last.index] = start
        self.counts["branch from inside a group"] += start.partial
        return log

    def _ref(self, name: str, ref: Ref) -> None:
        if ref.kind == "branch" and ref.line is not None:
            self._refs[ref.line.branch] = ref

    def _complete(self, pin: Pin, where: str) -> None:
        """At the moment of its publish every file of a pin is there."""
        missing = sorted(f for f in self.files(pin) if self.prefix + f not in self.bucket.objects)
        if missing:
            self.wrong(f"{where}: published although {missing[0]} does not exist")

    def _promoted(self, location: str, number: int, before: bytes | None, after: bytes) -> None:
        """A table's plain HEAD never moves back, and never to a state that is not published."""
        counter = json.loads(after).get("counter") or 0
        if before is not None:
            self.wrong(f"plain version {number} of {location} was overwritten")
        last, known = self._heads.get(location, (-1, -1))
        if number > last:  # a late one may fill a place that cleanup has emptied: nobody takes it for HEAD
            if counter <= known:
                self.wrong(f"plain HEAD of {location} moved from {known} to {counter}")
            self._heads[location] = (number, counter)

    def _deleted(self, name: str) -> None:
        for branch, log in self.logs.items():
            if log.state.closed:
                continue
            for table in log.state.tables.values():
                if name.startswith(table.pin.location + "/") and name in self.files(table.pin):
                    self.wrong(f"{name} was deleted, but table {table.info.name} needs it at the head of log {branch}")

    # -- asking -----------------------------------------------------------------------------------------------

    def state(self, at: Point) -> State | None:
        """The state at a commit."""
        log = self.logs.get(at.branch)
        return log.commits.get((at.slot, at.index)) if log is not None else None

    def before(self, at: Point) -> State | None:
        """The state that a commit found: that of the commit before it, in its slot or an earlier one."""
        log = self.logs[at.branch]
        earlier = [state for place, state in log.commits.items() if place < (at.slot, at.index)]
        return earlier[-1] if earlier else None

    def between(self, branch: str, first: CommitSlot, last: CommitSlot) -> list[State]:
        """The states at the commits of a log from one to another, both included."""
        return [state for place, state in self.logs[branch].commits.items() if first <= place <= last]

    def seen(self, state: State) -> State | None:
        """What somebody who holds this state must see; None when there never was such a state."""
        known = self.state(state.head)
        log = self.logs.get(state.branch)
        whole = log.states.get(state.slot) if log is not None else None
        if known is None or whole is None:
            return None
        inside = state.head.slot == state.slot and known.partial
        return known if inside or whole.head == state.head else None

    def chain(self, branch: str) -> Iterator[tuple[Record, int, State, State]]:
        """Every commit of a log, by record and index, with the state before and after it."""
        log = self.logs[branch]
        states = list(log.commits.items())
        for (_, before), ((slot, index), after) in itertools.pairwise(states):
            yield log.records[slot], index, before, after

    def files(self, pin: Pin) -> frozenset[str]:
        """Keys of the objects that a pin needs, also of those that are gone."""
        found = self._files.get(pin.version)
        if found is None:
            key = f"{pin.location}/versions/{pin.version}.json"
            body = self.bucket.ever.get(self.prefix + key)
            names = [key]
            if body is not None:
                for fragment in json.loads(body).get("fragments", ()):
                    names += [f"{pin.location}/{file['path']}" for file in fragment["files"]]
            found = frozenset(names)
            if body is not None:
                self._files[pin.version] = found
        return found

    def rows(self, pin: Pin) -> TableRows:
        """The rows of a pin, read without the code under test."""
        found = self._rows.get(pin.version)
        if found is None:
            found = self._rows[pin.version] = self._read(pin)
        return found

    def _read(self, pin: Pin) -> TableRows:
        version = json.loads(self.bucket.ever[f"{self.prefix}{pin.location}/versions/{pin.version}.json"])
        fields = {f["id"]: f["name"] for f in version["fields"]}
        key = version["fields"][0]["name"]
        rows: TableRows = {}
        for fragment in version.get("fragments", ()):
            columns: dict[str, list[Any]] = {}
            for file in fragment["files"]:
                data = json.loads(self.bucket.ever[f"{self.prefix}{pin.location}/{file['path']}"])
                columns |= {fields[int(n)]: values for n, values in data["columns"].items() if int(n) in fields}
            gone = set(fragment.get("deleted", ()))
            for offset in range(fragment["rows"]):
                if offset in gone:
                    continue
                row: dict[str, Any] = {
                    name: columns[name][offset] if name in columns else None for name in fields.values()
                }
                if row[key] in rows:
                    self.wrong(f"version {pin.version} of {pin.location} holds {key} = {row[key]} twice")
                rows[row[key]] = row
        return rows
