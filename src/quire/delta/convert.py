"""Tables whose commits the lake owns become plain Delta tables, and plain ones the lake's.

Whatever stops a conversion, the same call goes on with it, in any process.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from quire.errors import CommitUnknown, Conflict, ForeignWriter, InvalidInput, StorageError, Unsupported
from quire.formats import Convertible
from quire.lake.commit.table_change import Edit
from quire.lake.lake import Lake
from quire.lake.names import no_table
from quire.ledger import Pin, TableState
from quire.prompt import OneLine
from quire.store import Outcome

PLAIN = "plain"
KINDS = ("catalogManaged", "managedCommit", PLAIN)
TRIES = 10
"""Other writers that may be faster before it is given up."""


@dataclass(frozen=True, repr=False)
class Converted(OneLine):
    """What a table is now."""

    table: str
    kind: str
    """`catalogManaged`, `managedCommit` or `plain`."""
    version: int
    """From which on."""
    commit: str | None
    """The lake's commit; None when the table was so already."""

    def _facts(self) -> str:
        return f"{self.table} is {self.kind} from version {self.version} on"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"table": self.table, "kind": self.kind, "version": self.version, "commit": self.commit}


def convert(lake: Lake, table: str, to: str = KINDS[0]) -> Converted:
    """Let the lake own the commits of a plain Delta table, or let go of a table: `to="plain"`.

    A plain table is taken as its clients left it; while they write, the first to create a version wins. A table that is
    let go is published whole first, and nobody commits to it in between. `Conflict` when others were faster each time.

    >>> import quire.delta
    >>> lake = quire.create("memory://convert-example")
    >>> with lake.transaction("start") as tx:
    ...     orders = tx.create_table("orders", [{"id": 1}], format="delta")
    >>> quire.delta.convert(lake, "orders", "plain").kind
    'plain'
    """
    if to not in KINDS:
        raise InvalidInput(f"{to!r} is no kind of Delta table.", next=f"Use one of {', '.join(KINDS)}.")
    lake._core.check_writable()
    if not lake._live.is_main:
        raise InvalidInput(
            "Only main is published, so only main can change who owns the commits of a table.",
            next="Open the lake on main, and convert there.",
        )
    for _ in range(TRIES):
        done = _once(lake, table, to)
        if done is not None:
            return done
    raise Conflict(
        f"Others wrote to table {table!r} each time that it was about to be converted.",
        next="Try again when there is less traffic.",
        table=table,
    )


def _once(lake: Lake, table: str, to: str) -> Converted | None:
    entry = _entry(lake, table)
    format = _format(lake, entry.pin)
    kind = format.dialect(entry.pin) or PLAIN
    if kind == to:
        if kind == PLAIN:
            _publish(lake, entry)  # whoever let go of it may have been stopped before that
        return Converted(table, kind, format.newest(entry.pin), None)
    if PLAIN not in (kind, to):
        raise InvalidInput(
            f"The commits of table {table!r} are owned in the way of {kind} already.",
            next="Convert it to a plain table first, and then to the other kind.",
            table=table,
        )
    lake._core.owners.writable(entry.pin, entry.info)
    return _release(lake, entry) if to == PLAIN else _own(lake, entry, to)


def _own(lake: Lake, entry: TableState, to: str) -> Converted | None:
    format, name = _format(lake, entry.pin), entry.info.name
    tx = lake.transaction(f"convert {name} to {to}")
    pin = format.own(entry.pin, to, key=entry.info.key, write=tx.write, table=name)
    if pin is None:
        tx.discard()
        return None
    ops = ["schema"] if pin.head <= format.newest(entry.pin) else ["adopt", "schema"]
    tx.edits[entry.info.id] = Edit(entry.info, entry, ops=ops, pin=pin)
    commit = _commit(lake, tx)
    if commit is None:
        return None
    with contextlib.suppress(StorageError):  # it is done; a promise that stays is known to be an old one
        format.owned(pin)
    kind = format.dialect(pin)  # another's promise may have been about the other dialect
    return Converted(name, str(kind), format.newest(pin), commit) if kind == to else None


def _release(lake: Lake, entry: TableState) -> Converted | None:
    format, name = _format(lake, entry.pin), entry.info.name
    _publish(lake, entry)
    tx = lake.transaction(f"convert {name} to a plain table")
    edit = Edit(entry.info, entry, ops=["schema"])
    edit.work = format.release(entry.pin, write=tx.write, table=name)
    tx.edits[entry.info.id] = edit
    commit = _commit(lake, tx)
    if commit is None:
        return None
    with contextlib.suppress(StorageError):  # it is done; backfill, or the same call again, publishes it
        _publish(lake, _entry(lake, name))
    return Converted(name, PLAIN, format.newest(entry.pin) + 1, commit)


def _commit(lake: Lake, tx: Any) -> str | None:
    """Commit; None when somebody else was faster."""
    if tx.at.tables.get(next(iter(tx.edits))) != next(iter(tx.edits.values())).base:
        tx.discard()
        return None
    try:
        return str(tx.commit().commit)
    except CommitUnknown as unknown:
        if not committed(lake, unknown):
            raise
        return lake.head
    except Conflict:
        return None


def committed(lake: Lake, unknown: CommitUnknown) -> bool:
    """Whether a commit is known to be there, as far as the store can be asked now."""
    with contextlib.suppress(StorageError):
        return lake.outcome(unknown) is Outcome.COMMITTED
    return False


def _publish(lake: Lake, entry: TableState) -> None:
    format = _format(lake, entry.pin)
    done = format.publish(entry.pin, format.newest(entry.pin), table=entry.info.name)
    if done.outcome == "behind":
        raise StorageError(
            f"Table {entry.info.name!r} was not published up to version {format.newest(entry.pin)}: {done.detail}.",
            next="Convert it again; this is safe.",
            table=entry.info.name,
        )
    if done.outcome not in ("current", "promoted"):
        raise ForeignWriter(
            f"Table {entry.info.name!r} cannot be published up to version {format.newest(entry.pin)}:"
            f" {done.detail or done.outcome}.",
            next="See what `quire verify` says of it; a version that a client wrote past the owner must go first.",
            table=entry.info.name,
            version=done.version,
        )


def _format(lake: Lake, pin: Pin) -> Any:
    return lake._core.format(pin.format)


def _entry(lake: Lake, table: str) -> TableState:
    now = lake._live.refresh()
    found = now.by_name(table)
    if found is None:
        raise no_table(table, now.names())
    if not isinstance(_format(lake, found.pin), Convertible):
        raise Unsupported(
            f"Table {table!r} is of format {found.pin.format!r}, whose tables have no other kind.",
            next="Name a Delta table.",
            table=table,
        )
    return found
