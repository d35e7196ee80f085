"""Versions that unmodified clients of a format stage, as commits of the lake.

A client asks for one number in a table's plain line. The line is brought up to date first: then its newest version is
the table's newest state, and what follows it at the next number follows that state. It is published as it is or not at
all, as nothing of it may be moved; and what was published lies in the line before the client hears of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from quire.errors import (
    CommitNotFound,
    Conflict,
    ForeignWriter,
    InvalidInput,
    QuireError,
    Refused,
    Revoked,
    StorageError,
    Unsupported,
)
from quire.formats import Managed, StagedVersion, TableFormat
from quire.lake.commit.table_change import Edit
from quire.lake.commit.transaction import Transaction
from quire.lake.names import no_table
from quire.ledger import OpaqueToken, Pin, State, TableInfo, TableState
from quire.store import Store, clock, is_outside, run_parallel

if TYPE_CHECKING:
    from datetime import datetime

    from quire.lake.lake import Lake

TRIES = 5
ALL_ROWS = frozenset({"overwrite", "schema"})


def managed(lake: Lake, pin: Pin, table: str) -> Managed:
    """The format of a table, if clients can write versions of it through the lake."""
    found = lake._core.format(pin.format)
    if not isinstance(found, Managed):
        raise Unsupported(
            f"Table {table!r} has the format {pin.format!r}, whose clients do not write through a namespace.",
            next="Write to it with Quire.",
            table=table,
            format=pin.format,
        )
    return found


def follow(lake: Lake, table: TableState) -> int:
    """Bring a table's plain line to a state of main; the number of its newest version then.

    It may be further, where somebody has committed since. `StorageError` when it cannot be brought there now.
    """
    name = table.info.name
    if lake.read_only:
        return _read_only(lake, table)
    lake._core.owners.writable(table.pin, table.info)
    place: TableFormat = lake._core.format(table.pin.format)
    for attempt in range(TRIES):
        done = place.promote(table.pin, commit=table.commit.commit, table=name)
        if done.outcome in ("current", "promoted"):
            lake._live.followed(table.info.id, table.pin.counter)
            return done.version
        if done.outcome == "foreign":
            now = lake._live.refresh().tables.get(table.info.id)
            if now is None or now.pin == table.pin:
                raise ForeignWriter(
                    f"Table {name!r}: {done.detail}, past the lake.",
                    next="`quire adopt` commits it; until then the table takes no version of clients.",
                    table=name,
                    version=done.version,
                )
            table = now
        elif done.outcome == "blocked":
            raise Refused(f"Table {name!r} cannot follow: {done.detail}.", next="`quire doctor` says more.", table=name)
        clock.sleep(clock.uniform(0, 0.02 * (attempt + 1)))
    raise StorageError(
        f"The plain line of table {name!r} is not at its newest state yet.", next="Try again in a moment.", table=name
    )


def _read_only(lake: Lake, table: TableState) -> int:
    head = lake._core.format(table.pin.format).head(table.pin)
    if str(head.version) == table.pin.version or (head.counter is not None and head.counter >= table.pin.counter):
        return head.version
    raise StorageError(
        f"The plain line of table {table.info.name!r} is not at its newest state, and this lake was opened read-only.",
        next="Whoever writes to the lake brings it there; `quire backfill` does too.",
        table=table.info.name,
    )


def newest(lake: Lake, name: str) -> TableState:
    """A table at the newest commit."""
    state = lake._core.narrow(lake._live.refresh())
    table = state.by_name(name)
    if table is None:
        lake._core.missed([name])
        raise no_table(name, state.names())
    return table


def commit_at(lake: Lake, table: TableState, number: int) -> str:
    """The commit that a version of a table's plain line shows; `CommitNotFound` if it is of none that is kept."""
    place = managed(lake, table.pin, table.info.name)
    if place.plain_version(table.pin.location, number) is not None:
        shown = place.commit_of(table.pin.location, number)
        if shown is not None:
            return shown
        for point, entry in lake._live.history.commits(lake._live.state):
            pin = next((c.pin for c in entry.changes if c.table == table.info.id), None)
            if pin is not None and (pin.version == str(number) or _is_of(pin, number)):
                return point.commit
    raise CommitNotFound(
        f"No commit that is kept shows version {number} of table {table.info.name!r}.",
        next="Commits that came within a second share a version; `quire log` shows them all.",
        table=table.info.name,
        version=number,
    )


def _is_of(pin: Pin, number: int) -> bool:
    return any(known.number == number and known.version == pin.version for known in pin.acknowledged)


def begin(lake: Lake, message: str, author: str | None, transactions: Sequence[str]) -> Transaction:
    """A transaction that publishes what clients call by these names at most once."""
    lake._core.check_writable()
    tx = lake.transaction(message, author=author, fresh=True)
    if transactions:
        name = transactions[0]
        if len(transactions) > 1:
            name = hashlib.blake2b("\0".join(transactions).encode(), digest_size=16).hexdigest()
        tx.token = OpaqueToken(id=f"lance:{name}", minted=clock.now())
    return tx


def write(tx: Transaction, lake: Lake, name: str, staged: Sequence[StagedVersion]) -> None:
    """Make versions that clients have staged, one after the other, what a transaction does to a table."""
    if name not in tx._names:
        raise no_table(name, tx._names)
    edit = tx._edit(tx._names[name])
    if edit.base is None or edit.changed:
        raise InvalidInput(f"Table {name!r} is changed twice in one commit.", next="Send its versions in one piece.")
    pin = edit.base.pin
    place = managed(lake, pin, name)
    head = follow(lake, edit.base)
    check_numbers(name, head, staged)
    edit.work = place.client_work(pin, staged, key=edit.info.key, write=tx.write, table=name)
    for one in staged:
        for op in one.ops:
            edit.did(op)
    _check_young(tx, *edit.work.written())


def write_to_view(
    tx: Transaction, lake: Lake, name: str, number: int, staged: Sequence[StagedVersion], *, movable: bool
) -> None:
    """Make versions that clients have staged what a transaction does to a table, which a view shows at a number.

    With `movable` their rows may be moved onto a rival's state until the transaction commits.
    """
    if name not in tx._names:
        raise no_table(name, tx._names)
    edit = tx._edit(tx._names[name])
    assert edit.base is not None
    lake._core.owners.writable(edit.base.pin, edit.info)
    place = managed(lake, edit.base.pin, name)
    check_numbers(name, number, staged)
    edit.work = place.view_work(edit.base.pin, staged, key=edit.info.key, write=tx.write, table=name, movable=movable)
    for one in staged:
        for op in one.ops:
            edit.did(op)
    _check_young(tx, *edit.work.written())


def create(
    tx: Transaction,
    lake: Lake,
    info: TableInfo,
    staged: Sequence[StagedVersion],
    *,
    format: str = "lance",
    marked: bool = False,
) -> None:
    """Make the first versions that clients have staged a new table of a transaction."""
    from quire.lake.commit.attempt import check_key

    place = lake._core.format(format)
    assert isinstance(place, Managed)
    tx._free(info.name)
    check_numbers(info.name, 0, staged)
    made = place.client_table(staged, table=info.name, marked=marked)
    if info.key:
        check_key(lake._core.format(format).open(made.pin, info.name), info.key, info.name)
    edit = Edit(info, None, pin=made.pin)
    edit.did("create")
    tx.edits[info.id] = edit
    tx._names[info.name] = info.id
    _check_young(tx, made.pin.location, made.files)
    store = tx.live.core.store
    if store.is_local:
        files = [name for name in made.files if not name.endswith("/")]
        store.sync([f"{made.pin.location}/{name}" for name in files])


def take_over(tx: Transaction, lake: Lake, info: TableInfo, location: str, *, format: str = "lance") -> None:
    """Make what a client has begun by itself, in a folder that was kept free for it, a new table of a transaction.

    Nobody else writes to such a folder, so there is no rival whose rows could be lost.
    """
    from quire.lake.commit.attempt import check_key

    place = lake._core.format(format)
    assert isinstance(place, Managed)
    tx._free(info.name)
    pin = place.begun_table(location)
    if info.key:
        check_key(lake._core.format(format).open(pin, info.name), info.key, info.name)
    edit = Edit(info, None, pin=pin)
    edit.did("create")
    tx.edits[info.id] = edit
    tx._names[info.name] = info.id


def check_numbers(name: str, head: int, staged: Sequence[StagedVersion]) -> None:
    """Raise `Conflict` unless versions follow the newest one of the line without a gap."""
    for expected, one in enumerate(staged, head + 1):
        if one.number != expected:
            raise Conflict(
                f"Table {name!r} is at version {expected - 1}, so the next is {expected} and not {one.number}.",
                next="Open the table again, and write again.",
                table=name,
                expected=one.number - 1,
                actual=expected - 1,
            )


def _check_young(tx: Transaction, location: str, names: Sequence[str]) -> None:
    """Refuse files that the newest cleanup may be deleting. Of later ones the transaction reads in the log itself."""
    store, horizon = tx.live.core.store, tx.at.horizon
    if horizon is None or is_outside(location) or store.scheme == "memory":
        return
    keys = [f"{location}/{name}" for name in names]
    times = run_parallel([partial(_oldest, store, key) for key in keys])
    if any(time is None or time < horizon for time in times):
        raise Revoked(
            f"Files of the version are older than what the newest cleanup of {store.uri} left alone.",
            next="Write the rows again; a write should take less time than cleanup's grace.",
            location=location,
        )


def _oldest(store: Store, key: str) -> datetime | None:
    if key.endswith("/"):
        return min((entry.modified for entry in store.list(key)), default=None)
    entry = store.stat(key)
    return entry.modified if entry is not None else None


def put_in_line(lake: Lake, state: State, tables: Sequence[str]) -> None:
    """Put what was just committed into the plain lines of some tables, by id; `StorageError` when that is not done."""
    found = [state.tables[i] for i in tables if i in state.tables]
    calls: list[Callable[[], int]] = [partial(follow, lake, table) for table in found]
    try:
        run_parallel(calls)
    except QuireError as error:
        raise StorageError(
            f"The commit is published, but its tables' plain lines do not show it yet: {error.message}",
            next="Ask for the version again; nothing must be written again.",
            retryable=True,
        ) from error
