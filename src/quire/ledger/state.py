"""The state of a branch at one slot: the fold of its records.

A checkpoint is a stored state. Folding is pure and deterministic, so a checkpoint always equals a replay.
"""

from __future__ import annotations

import msgspec

from quire.ledger.records import (
    SEALED,
    Change,
    Commit,
    Count,
    Moment,
    Pin,
    Point,
    Record,
    Slot,
    Stored,
    TableInfo,
    corrupt,
    in_calendar,
    readable,
)

MAX_TOKENS = 10_000
KEPT_TOKENS = 9_000
MAX_REVOKED = 1_000


class TableState(Stored, frozen=True):
    """A table as a commit sees it, and the commit that last moved it."""

    info: TableInfo
    pin: Pin
    commit: Point


class State(Stored, frozen=True):
    """All pins at one commit, with what writers need to extend the chain."""

    format: int
    branch: str
    slot: Slot
    write: str
    """Write id of the record at `slot`: the predecessor of the next one."""
    time: Moment
    """When the record was made; the commit at `head` may be older."""
    head: Point
    committed: Moment | None = None
    """When the commit at `head` was made; None in a checkpoint of format 1."""
    tables: dict[str, TableState] = {}
    epoch: Count = 0
    floor: Slot = 0
    """The first slot that cleanup has kept."""
    revoked: tuple[str, ...] = ()
    """Writers that a collector has taken for dead, the latest last."""
    closed: bool = False
    streams: dict[str, Count] = {}
    tokens: dict[str, tuple[Point, Moment]] = {}
    tokens_since: Moment | None = None
    """Tokens minted before this may have been forgotten; they are refused instead of repeated."""
    checkpoint: Point | None = None
    partial: bool = False
    """Whether commits of the slot are left out: a state inside a group."""

    def checked(self, where: str) -> State:
        """This state, as it was found in storage, if it can be one at all."""
        try:
            in_calendar(self.time, self.committed, self.tokens_since, *(minted for _, minted in self.tokens.values()))
        except ValueError as error:
            raise corrupt(where, str(error)) from None
        if any(table.info.id != key for key, table in self.tables.items()):
            raise corrupt(where, "a table has another id than the one it is kept under")
        if len({table.info.name for table in self.tables.values()}) != len(self.tables):
            raise corrupt(where, "two tables have one name")
        return self

    def by_name(self, name: str) -> TableState | None:
        return next((t for t in self.tables.values() if t.info.name == name), None)

    def names(self) -> dict[str, str]:
        return {t.info.name: t.info.id for t in self.tables.values()}


readable(State)


def genesis(record: Record) -> State:
    """The state at slot 0 of the first branch."""
    if record.kind != "genesis":
        raise corrupt(f"slot {record.slot} of log {record.branch}", "it does not begin a log")
    head = Point(branch=record.branch, slot=0, index=0)
    return State(
        format=record.format,
        branch=record.branch,
        slot=0,
        write=record.write,
        time=record.time,
        head=head,
        committed=record.time if record.format >= SEALED else None,
    )


def fold(state: State, record: Record, *, upto: int | None = None) -> State:
    """The state after `record`, or after its commit `upto` only."""
    if record.buried:
        raise corrupt(f"slot {record.slot} of log {record.branch}", "it was cleaned up, but it is needed")
    if record.previous != state.write:
        raise corrupt(
            f"slot {record.slot} of log {record.branch}",
            f"it follows record {record.previous}, but the record before it is {state.write}",
        )
    tables = dict(state.tables)
    streams, tokens, since = state.streams, state.tokens, state.tokens_since
    head, committed = state.head, state.committed
    for index, commit in enumerate(record.commits):
        if upto is not None and index > upto:
            break
        head, committed = (
            Point(branch=record.branch, slot=record.slot, index=index),
            commit.time if record.format >= SEALED else None,
        )
        for change in commit.changes:
            _apply(tables, change, head)
        if any(change.info is not None for change in commit.changes):
            _check_names(tables, head)
        streams = _streams(streams, commit)
        if commit.learnt is not None:
            # Here the work was done by this commit, whatever commit of the other branch did it first.
            tokens = {**{t: (head, minted) for t, (_, minted) in commit.learnt.tokens.items()}, **tokens}
            since = max(filter(None, (since, commit.learnt.since)), default=None)
        if commit.token is not None:
            tokens = {**tokens, commit.token.id: (head, commit.token.minted)}
        if len(tokens) > MAX_TOKENS:
            tokens, since = _forget(tokens, since)
    return msgspec.structs.replace(
        state,
        branch=record.branch,
        slot=record.slot,
        write=record.write,
        time=record.time,
        head=head,
        committed=committed,
        tables=tables,
        format=max(state.format, record.format),
        epoch=max(state.epoch, record.epoch),
        floor=max(state.floor, record.floor.slot) if record.floor is not None else state.floor,
        revoked=_revoked(state.revoked, record),
        closed=record.kind == "closed",
        streams=streams,
        tokens=tokens,
        tokens_since=since,
        checkpoint=_newer(record.checkpoint, state.checkpoint),
        partial=upto is not None and upto < len(record.commits) - 1,
    )


def _revoked(known: tuple[str, ...], record: Record) -> tuple[str, ...]:
    told = record.floor.revoked if record.floor is not None else ()
    return (*known, *(w for w in told if w not in known))[-MAX_REVOKED:] if told else known


def _streams(known: dict[str, int], commit: Commit) -> dict[str, int]:
    """The last position of every stream, after a commit."""
    told = dict(commit.learnt.streams) if commit.learnt is not None else {}
    if commit.stream is not None:
        told[commit.stream.scope] = max(commit.stream.sequence, told.get(commit.stream.scope, 0))
    return {**known, **{scope: max(at, known.get(scope, at)) for scope, at in told.items()}} if told else known


def _newer(a: Point | None, b: Point | None) -> Point | None:
    if a is None or b is None:
        return a or b
    return a if a.slot >= b.slot else b


def _apply(tables: dict[str, TableState], change: Change, at: Point) -> None:
    known = tables.get(change.table)
    info = change.info or (known.info if known else None)
    if "drop" in change.ops and change.pin is None:
        tables.pop(change.table, None)
        return
    pin = change.pin or (known.pin if known else None)
    if info is not None and info.id != change.table:
        raise corrupt(f"commit {at.commit} of log {at.branch}", f"it gives table {change.table} another id, {info.id}")
    if info is None or pin is None:
        raise corrupt(
            f"commit {at.commit} of log {at.branch}", f"it changes table {change.table}, which does not exist"
        )
    tables[change.table] = TableState(info=info, pin=pin, commit=at)


def _check_names(tables: dict[str, TableState], at: Point) -> None:
    if len({table.info.name for table in tables.values()}) != len(tables):
        raise corrupt(f"commit {at.commit} of log {at.branch}", "it gives two tables one name")


def _forget(
    tokens: dict[str, tuple[Point, Moment]], since: Moment | None
) -> tuple[dict[str, tuple[Point, Moment]], Moment | None]:
    newest = sorted(tokens.items(), key=lambda item: (item[1][1], item[0]), reverse=True)
    kept = dict(sorted(newest[:KEPT_TOKENS]))
    gone = newest[KEPT_TOKENS][1][1]
    return kept, gone if since is None else max(since, gone)


def commit_at(record: Record, index: int) -> Commit | None:
    return record.commits[index] if 0 <= index < len(record.commits) else None
