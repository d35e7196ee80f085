"""The state of a branch at one slot: the fold of its records.

A checkpoint is a stored state. Folding is pure and deterministic, so a checkpoint always equals a replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from quire.ledger.records import (
    PAGED,
    SEALED,
    Change,
    Commit,
    Count,
    LogPosition,
    Moment,
    PageRef,
    Pin,
    Point,
    Position,
    Record,
    Slot,
    Stored,
    TableInfo,
    corrupt,
    in_calendar,
    readable,
)
from quire.ledger.token_pages import MAX_PAGES, SLACK, WINDOW, Page, page_of_streams, page_of_tokens
from quire.ledger.version_vector import Vector, joined, own, without

MAX_TOKENS = 10_000
KEPT_TOKENS = 5_000
"""Opaque tokens that a state holds itself at most, and that are left when the oldest have gone to a page."""
MAX_STREAMS = 4_000
KEPT_STREAMS = 2_000
"""The same for streams: those that moved last stay."""
MAX_FRESH = 16
MAX_REVOKED = 1_000
MAX_STEPS = 64
MAX_TABLES = 128 << 20
"""Bytes that the tables of a state may take, so that it can be stored with its tokens (`LARGEST`)."""
_PER_TABLE = 4 << 10
"""Bytes of a table that are not its rules, at most, unless its names are very long."""


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
    horizon: Moment | None = None
    """Store time of the newest floor: nothing younger was deleted. None where no floor was seen since format 5."""
    revoked: tuple[str, ...] = ()
    """Writers that a collector has taken for dead, the latest last."""
    closed: bool = False
    streams: dict[str, Position] = {}
    tokens: dict[str, tuple[Point, Moment]] = {}
    tokens_since: Moment | None = None
    """Tokens minted before this may have been forgotten; they are refused instead of repeated."""
    token_pages: tuple[PageRef, ...] = ()
    """Where older tokens are."""
    stream_pages: tuple[PageRef, ...] = ()
    """Where streams are that have not moved lately."""
    fresh: dict[str, Page] = {}
    """Pages that may not be stored yet. A checkpoint has none."""
    checkpoint: Point | None = None
    partial: bool = False
    """Whether commits of the slot are left out: a state inside a group."""
    steps: tuple[tuple[Slot, Moment], ...] = ()
    """Slots at which time went back, because those before them had run ahead of the store's clock."""
    reaches: dict[str, LogPosition] | None = None
    """The last ancestor of `head` in every log but its own; None where older versions did not keep it."""

    def checked(self, where: str) -> State:
        """This state, as it was found in storage, if it can be one at all."""
        try:
            in_calendar(self.time, self.committed, self.tokens_since, self.horizon)
            in_calendar(*(minted for _, minted in self.tokens.values()))
            in_calendar(*(time for _, time in self.steps))
        except ValueError as error:
            raise corrupt(where, str(error)) from None
        if any(table.info.id != key for key, table in self.tables.items()):
            raise corrupt(where, "a table has a different id than the one it is stored under")
        if len({table.info.name for table in self.tables.values()}) != len(self.tables):
            raise corrupt(where, "two tables have the same name")
        return self

    def by_name(self, name: str) -> TableState | None:
        return next((t for t in self.tables.values() if t.info.name == name), None)

    @property
    def behind(self) -> int:
        """How many slots lie after the newest checkpoint."""
        return self.slot - (self.checkpoint.slot if self.checkpoint else -1)

    def names(self) -> dict[str, str]:
        return {t.info.name: t.info.id for t in self.tables.values()}

    @property
    def vector(self) -> Vector | None:
        """The last commit in every log that `head` descends from, or is; None where older versions did not keep it."""
        return None if self.reaches is None else joined(self.reaches, own(self.head))


readable(State)


def genesis(record: Record) -> State:
    """The state at slot 0 of the first branch."""
    if record.kind != "genesis":
        raise corrupt(f"slot {record.slot} of log {record.branch}", "it is not the first record of a log")
    head = Point(branch=record.branch, slot=0, index=0)
    return State(
        format=record.format,
        branch=record.branch,
        slot=0,
        write=record.write,
        time=record.time,
        head=head,
        committed=record.time if record.format >= SEALED else None,
        reaches={},
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
    held = _Held.of(state)
    head, committed, reaches = state.head, state.committed, state.reaches
    for index, commit in enumerate(record.commits):
        if upto is not None and index > upto:
            break
        reaches = _reached(reaches, head, commit, record.branch)
        head, committed = (
            Point(branch=record.branch, slot=record.slot, index=index),
            commit.time if record.format >= SEALED else None,
        )
        for change in commit.changes:
            _apply(tables, change, head)
        if any(change.info is not None for change in commit.changes):
            _check_names(tables, head)
        held.take(commit, head)
    return msgspec.structs.replace(
        state,
        branch=record.branch,
        slot=record.slot,
        write=record.write,
        time=record.time,
        head=head,
        committed=committed,
        tables=tables,
        format=max(state.format, record.format, PAGED if held.token_pages or held.stream_pages else 0),
        epoch=max(state.epoch, record.epoch),
        floor=max(state.floor, record.floor.slot) if record.floor is not None else state.floor,
        horizon=_later(state.horizon, record.floor.horizon if record.floor is not None else None),
        revoked=_revoked(state.revoked, record),
        closed=record.kind == "closed",
        streams=held.streams,
        tokens=held.tokens,
        tokens_since=held.since,
        token_pages=held.token_pages,
        stream_pages=held.stream_pages,
        fresh=held.fresh,
        checkpoint=_newer(record.checkpoint, state.checkpoint),
        partial=upto is not None and upto < len(record.commits) - 1,
        steps=(*state.steps, (record.slot, record.time))[-MAX_STEPS:] if record.time < state.time else state.steps,
        reaches=reaches,
    )


def _reached(known: Vector | None, head: Point, commit: Commit, branch: str) -> Vector | None:
    """The ancestors of a commit in other logs, given those of the commit before it in its own line."""
    if commit.reaches is not None:
        return without(joined(known or {}, own(head), commit.reaches), branch)
    if known is None or any(parent.branch not in (branch, head.branch) for parent in commit.parents):
        return None  # an older version joined logs and did not write down what came with it
    return known if head.branch == branch else joined(known, own(head))


def grown(state: State, commit: Commit) -> int | None:
    """Bytes that the tables take after a commit by which they come to take too many; None for every other commit.

    What a lake cannot store any more it must refuse in the commit that would bring it about: its checkpoints come
    later, and every commit after it would need them.
    """
    if all(change.info is None for change in commit.changes):
        return None
    tables = dict(state.tables)
    for change in commit.changes:
        if change.info is not None:
            pin = change.pin or (tables[change.table].pin if change.table in tables else None)
            if pin is not None:
                tables[change.table] = TableState(change.info, pin, state.head)
        elif "drop" in change.ops:
            tables.pop(change.table, None)
    if _estimate(tables) <= MAX_TABLES:
        return None
    size = len(msgspec.json.encode(tables))
    return size if size > MAX_TABLES and size > len(msgspec.json.encode(state.tables)) else None


def _estimate(tables: dict[str, TableState]) -> int:
    """No less than the bytes that they take: JSON writes a character in six at most, where it is one of control."""
    return sum(_PER_TABLE + 6 * len(table.info.rules.encode()) for table in tables.values())


@dataclass
class _Held:
    """The tokens of a state on the way to the next one. What it starts from is not changed."""

    streams: dict[str, int]
    tokens: dict[str, tuple[Point, datetime]]
    since: datetime | None
    token_pages: tuple[PageRef, ...]
    stream_pages: tuple[PageRef, ...]
    fresh: dict[str, Page]

    @staticmethod
    def of(state: State) -> _Held:
        return _Held(
            state.streams, state.tokens, state.tokens_since, state.token_pages, state.stream_pages, state.fresh
        )

    def take(self, commit: Commit, at: Point) -> None:
        """Remember the tokens of a commit."""
        learnt = commit.learnt
        told = dict(learnt.streams) if learnt is not None else {}
        if commit.stream is not None:
            told[commit.stream.scope] = max(commit.stream.sequence, told.get(commit.stream.scope, 0))
        if told:  # those that moved last come last
            rest = {scope: last for scope, last in self.streams.items() if scope not in told}
            moved = {scope: max(last, self.streams.get(scope, last)) for scope, last in told.items()}
            self.streams = {**rest, **moved}
        if learnt is not None:
            # Here the work was done by this commit, whatever commit of the other branch did it first.
            self.tokens = {**{t: (at, minted) for t, (_, minted) in learnt.tokens.items()}, **self.tokens}
            self.since = max(filter(None, (self.since, learnt.since)), default=None)
            self.token_pages = _joined(self.token_pages, learnt.pages)
            self.stream_pages = _joined(self.stream_pages, learnt.stream_pages)
        if commit.token is not None:
            self.tokens = {**self.tokens, commit.token.id: (at, commit.token.minted)}
        if len(self.tokens) > MAX_TOKENS:
            self._page_tokens()
        if len(self.streams) > MAX_STREAMS:
            self._page_streams()

    def _page_tokens(self) -> None:
        newest = sorted(self.tokens.items(), key=lambda item: (item[1][1], item[0]), reverse=True)
        self.tokens = dict(sorted(newest[:KEPT_TOKENS]))
        ref, page = page_of_tokens(dict(newest[KEPT_TOKENS:]))
        self._add(ref, page)
        pages = sorted(_joined(self.token_pages, (ref,)), key=lambda r: (r.last or newest[0][1][1], r.name))
        over = newest[0][1][1] - WINDOW - SLACK
        gone = [r for n, r in enumerate(pages) if (r.last or over) < over or n < len(pages) - MAX_PAGES]
        self.token_pages = tuple(r for r in pages if r not in gone)
        self.since = max(filter(None, (self.since, *(r.last for r in gone))), default=None)

    def _page_streams(self) -> None:
        order = list(self.streams.items())
        cold, self.streams = dict(order[:-KEPT_STREAMS]), dict(order[-KEPT_STREAMS:])
        ref, page = page_of_streams(cold)
        self._add(ref, page)
        self.stream_pages = _joined(self.stream_pages, (ref,))

    def _add(self, ref: PageRef, page: Page) -> None:
        self.fresh = dict([*self.fresh.items(), (ref.name, page)][-MAX_FRESH:])


def _joined(known: tuple[PageRef, ...], more: tuple[PageRef, ...]) -> tuple[PageRef, ...]:
    return (*known, *(ref for ref in more if ref not in known))


def _revoked(known: tuple[str, ...], record: Record) -> tuple[str, ...]:
    told = record.floor.revoked if record.floor is not None else ()
    return (*known, *(w for w in told if w not in known))[-MAX_REVOKED:] if told else known


def _later(a: datetime | None, b: datetime | None) -> datetime | None:
    return max(filter(None, (a, b)), default=None)


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
        raise corrupt(
            f"commit {at.commit} of log {at.branch}", f"it gives table {change.table} a different id, {info.id}"
        )
    if info is None or pin is None:
        raise corrupt(
            f"commit {at.commit} of log {at.branch}", f"it changes table {change.table}, which does not exist"
        )
    tables[change.table] = TableState(info=info, pin=pin, commit=at)


def _check_names(tables: dict[str, TableState], at: Point) -> None:
    if len({table.info.name for table in tables.values()}) != len(tables):
        raise corrupt(f"commit {at.commit} of log {at.branch}", "it gives two tables the same name")


def commit_at(record: Record, index: int) -> Commit | None:
    return record.commits[index] if 0 <= index < len(record.commits) else None
