"""What the layers above the lake ask of the handles that users hold, beside their public methods."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import TagNotFound
from quire.lake.names import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from quire.formats import View
    from quire.lake.commit.transaction import Transaction
    from quire.lake.commit.transaction_table import TransactionTable
    from quire.lake.context import Core
    from quire.lake.feed.consumers import Consumer
    from quire.lake.feed.cursor import Scope
    from quire.lake.feed.feed import Feed
    from quire.lake.lake import Lake
    from quire.lake.read.snapshot import Snapshot
    from quire.lake.read.table import Table
    from quire.ledger import Point, State
    from quire.store import Store

_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")


def store_of(lake: Lake) -> Store:
    """Where the lake lies."""
    return lake._core.store


def core_of(lake: Lake) -> Core:
    """What all handles of a lake share."""
    return lake._core


def invoke(lake: Lake, query: str) -> None:
    """Refuse a stored query that whoever holds the handle may not run."""
    if lake._core.guard is not None:
        lake._core.allow("invoke", "Query", query)  # type: ignore[attr-defined]


def allow_on_lake(lake: Lake, verb: str) -> None:
    """Refuse now what a verb of upkeep would refuse when it is called, which may be later and elsewhere."""
    from quire.lake.guard.verbs import LAKE

    if lake._core.guard is not None:
        lake._core.allow(LAKE[verb].action, "Lake", "lake")  # type: ignore[attr-defined]


def see_branch(lake: Lake, name: str) -> None:
    """Refuse a branch that whoever holds the handle may not see."""
    lake._core.see_branch(name)


def epoch_of(lake: Lake) -> int:
    """The epoch of the branch that a handle belongs to: a claim that came since ends what it does."""
    return lake._live.epoch


def hold_epoch(lake: Lake, epoch: int) -> None:
    """Let a handle be as old as another, which was opened in an earlier epoch."""
    lake._live.hold(epoch)


def state_of(at: Snapshot | Transaction) -> State:
    """The state of all tables that is read, without what a transaction does to them."""
    from quire.lake.read.snapshot import Snapshot

    if isinstance(at, Snapshot):
        return at._state
    return at.at if at._gate is None else at._gate.narrowed(at)


def is_governed(lake: Lake) -> bool:
    """Whether a policy holds for whoever holds the handle: then it gives rows, and no files."""
    return lake._core.guard is not None and lake._core.guard.active()


def newest_seen(lake: Lake) -> State:
    """The newest state, with the tables that whoever holds the handle may see."""
    return lake._core.narrow(lake._live.refresh())


def names_seen(tx: Transaction) -> Mapping[str, str]:
    """The tables of a transaction by name, and their ids: those that whoever holds it may see."""
    return tx._names if tx._gate is None else tx._gate.names_seen(tx, tx._names)


def need_rows(tx: Transaction, table: str, columns: Sequence[str], written: str) -> None:
    """Refuse to write to the table `written` where the answer would tell of hidden rows of a table, by its id."""
    if tx._gate is not None:
        tx._gate.need_rows(tx, table, columns, written)


def columns_seen(at: Snapshot | Transaction) -> Callable[[str, str], bool] | None:
    """Says of a column of a table whether whoever reads may see it; None where everything may be seen."""
    from quire.lake.read.snapshot import Snapshot

    gate = at._gate
    if gate is None or not gate.core.guard.active() or (not isinstance(at, Snapshot) and at.committing):
        return None
    return lambda table, column: bool(gate.core.may("readColumn", "Column", f"{table}/{column}"))


def see_whole_graph(lake: Lake, validator: str) -> None:
    """Refuse to change the schema of a graph of which whoever holds the handle sees only a part."""
    core = lake._core
    if core.guard is not None:
        core.see_all_of(lake._live.refresh(), validator)  # type: ignore[attr-defined]


def explain(snapshot: Snapshot, query: str) -> str:
    """How DuckDB would run a SELECT over the tables of a snapshot."""
    from quire.lake.read import sql
    from quire.lake.read.snapshot import opened

    rows = sql.run(query, None, sql.Tables(lambda _: snapshot.tables(), partial(opened, snapshot)), explain=True)
    return "\n".join(str(row["explain_value"]) for row in rows.to_pylist())


def view_of(table: Table) -> View:
    """How a table of a snapshot is read through its format."""
    return table._view()


def pinned(table: Table) -> tuple[str, str, str]:
    """Which state of which table it is: equal where the rows are."""
    pin = table._state.pin
    return table.id, pin.location, pin.version


def shows_all(table: Table) -> bool:
    """Whether whoever holds a table sees all of it: no rule hides rows or columns, or masks values."""
    from quire.lake.guard.seen import SeenView

    return table._gate is None or not isinstance(table._view(), SeenView)


def transaction_of(table: TransactionTable) -> Transaction:
    """The transaction that a table was taken from."""
    return table._tx


def log_of(lake: Lake) -> str:
    """The id of the log that the branch of a handle writes: names come and go, ids stay."""
    return lake._live.line.branch


def slot_of(lake: Lake) -> int:
    """The newest slot that a handle knows of; it costs no request."""
    return lake._live.state.slot


def protectors_of(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """Who keeps files from cleanup just now: leases of readers, and notes of writers. Two lists, and a GET for each."""
    from datetime import timedelta

    from quire.ledger.notes_and_leases import leases, notes

    store = lake._core.store
    leased = [
        {
            "commit": one.what.target.commit,
            "branch": lake.branch_name if one.what.target.branch == log_of(lake) else None,
            "author": one.what.author,
            "renewed": one.modified.isoformat(),
            "ends": (one.modified + timedelta(seconds=one.what.seconds)).isoformat(),
        }
        for one in leases(store)
    ]
    writing = [
        {
            "author": one.what.author,
            "since": (one.what.since or one.modified).isoformat(),
            "renewed": one.modified.isoformat(),
        }
        for one in notes(store)
    ]
    return {"leases": leased, "writers": writing}


def is_closed(lake: Lake) -> bool:
    """Whether the handle has seen that its branch was deleted."""
    return lake._live.state.closed


def head_of(lake: Lake) -> Point:
    """The newest commit that a handle knows of, and in which log it lies; it costs no request."""
    return lake._live.state.head


def scope_of(lake: Lake, tables: Sequence[str] | None, ops: Sequence[str] | None, images: str) -> Scope:
    """What cursors of the changes of a branch are bound to, and what makes and reads them."""
    from quire.lake.feed.cursor import Scope

    return Scope.of(lake._core.about.lake, lake._live.line.branch, tables, ops, images)


def consumer_feed(consumer: Consumer, since: str) -> Feed:
    """The changes of a consumer from a cursor on, wherever it stands; what it holds is there for it."""
    what = consumer._found.what
    scope = consumer._consumers._scope(what)
    moved = msgspec.structs.replace(what, at=scope.parse(since), baseline=False)
    return consumer._consumers._feed(moved)


def snapshot_of(lake: Lake, at: Point) -> Snapshot:
    """All tables at a commit of the line of a handle, wherever it lies."""
    from quire.lake.read.snapshot import Snapshot

    return Snapshot(lake._core, lake._core.narrow(lake._live.history.at(at)), lake._live.name, lake._live)


def snapshot_at(lake: Lake, at: str) -> Snapshot:
    """The state at a commit, a tag, a branch, or a time. A tag that looks like a time is a tag."""
    if _TIME.fullmatch(at):
        try:
            return lake.at(tag=at)
        except TagNotFound:
            return lake.at(time=at)
    return lake.at(commit=at)


def point_or_time(lake: Lake, at: str) -> str | datetime:
    """A commit, a tag or a branch as it was written, or a time. A tag that looks like a time is a tag."""
    return parse_time(at) if _TIME.fullmatch(at) and at not in lake.tags() else at
