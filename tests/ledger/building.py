"""Logs and checkpoints for tests, written the way the lake writes them. Spawned processes import from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from quire.ledger import (
    CHECKPOINT_EVERY,
    Change,
    Commit,
    History,
    Ledger,
    Line,
    LogLedger,
    Pin,
    Point,
    Record,
    Refs,
    Segment,
    State,
    TableInfo,
    fold,
    genesis,
    new_ref,
)
from quire.store import Store
from quire.testing.ledger import EPOCH, fill, make_record


def open_log(uri: str, options: Mapping[str, str]) -> Ledger:
    return LogLedger(Store.open(uri, options))


def create(table: str, name: str, version: int = 1) -> Change:
    return Change(table=table, name=name, ops=("create",), pin=pin(table, version), info=TableInfo(id=table, name=name))


def append(table: str, name: str, version: int) -> Change:
    return Change(table=table, name=name, ops=("append",), pin=pin(table, version), added=1)


def rename(table: str, name: str) -> Change:
    return Change(table=table, name=name, ops=("rename",), info=TableInfo(id=table, name=name))


def drop(table: str, name: str) -> Change:
    return Change(table=table, name=name, ops=("drop",))


def pin(table: str, version: int) -> Pin:
    return Pin(format="lance", location=f"tables/{table}", version=str(version), counter=version, rows=version)


def commit(*changes: Change, message: str = "", **fields: Any) -> Commit:
    return Commit(write=message or "w", time=EPOCH, author="tester", message=message, changes=changes, **fields)


def state_of(records: list[Record]) -> State:
    """What the records say, told slowly: every table's newest pin, without checkpoints."""
    state = genesis(records[0])
    for record in records[1:]:
        state = fold(state, record)
    return state


class Log:
    """A branch that is written like the lake writes one: a checkpoint every so often, named by the records after it.

    Table `t` moves with every slot, so its counter tells which slot a state belongs to.
    """

    def __init__(
        self, store: Store, branch: str = "main", line: Line | None = None, start: State | None = None
    ) -> None:
        self.store = store
        self.ledger = LogLedger(store)
        self.line = line or Line(branch=branch)
        self.records: list[Record] = []
        self._state = start
        self._checkpoint: Point | None = start.checkpoint if start else None
        self.start_checkpoint = self._checkpoint

    @property
    def state(self) -> State:
        assert self._state is not None
        return self._state

    @property
    def head(self) -> int:
        return self.state.slot

    @property
    def checkpoint(self) -> Point | None:
        """The newest checkpoint that is written."""
        return self._checkpoint

    @property
    def history(self) -> History:
        """A fresh reader that knows nothing."""
        return History(self.store, LogLedger(self.store), self.line, self.start_checkpoint)

    def next(self, *commits: Commit, **fields: Any) -> Record:
        """The record that would follow, not yet written."""
        slot = self._state.slot + 1 if self._state else 0
        if not commits and "commits" not in fields:
            version = slot + 1
            known = self._state is not None and "t" in self._state.tables
            commits = (commit(append("t", "t", version) if known else create("t", "t", version), message=f"c{slot}"),)
        return make_record(
            self.line.branch,
            slot,
            previous=fields.pop("previous", self._state.write if self._state else ""),
            checkpoint=fields.pop("checkpoint", self._checkpoint),
            commits=fields.pop("commits", commits),
            **fields,
        )

    def add(self, *commits: Commit, **fields: Any) -> Record:
        if self._state is None:
            fields.setdefault("kind", "genesis")
            fields.setdefault("commits", (commit(message="create lake"),))
        record = self.next(*commits, **fields)
        fill(self.ledger, [record])
        self.records.append(record)
        self._state = genesis(record) if self._state is None else fold(self._state, record)
        if self.state_with_checkpoint().behind >= CHECKPOINT_EVERY:
            self.write_checkpoint()
        return record

    def write_checkpoint(self) -> None:
        self._checkpoint = self.history.write_checkpoint(self.state)

    def grow(self, count: int) -> Log:
        for _ in range(count):
            self.add()
        return self

    def state_with_checkpoint(self) -> State:
        return msgspec.structs.replace(self.state, checkpoint=self._checkpoint)

    def fork(self, branch: str, at: Point) -> Log:
        """A branch that starts after commit `at`, with the checkpoint that its ref would name."""
        start = self.history.at(at)
        return Log(self.store, branch, self.line.fork(branch, at), start)


def grown(store: Store, depth: int) -> Log:
    """A log of `depth` slots: genesis and then one commit per slot."""
    return Log(store).grow(depth)


def race_for_ref(uri: str, options: Mapping[str, str], barrier: Any, names: list[str]) -> list[tuple[str, bool]]:
    """Create generation 0 of the same branches as everybody else; the own write ids and whether they won."""
    refs = Refs(Store.open(uri, options))
    results = []
    for name in names:
        ref = new_ref("branch", name, author="racer", time=EPOCH, line=Line(name, (Segment("parent", 3, 0),)))
        barrier.wait(120)
        results.append((ref.write, refs.create("branch", ref, 0)))
    return results
