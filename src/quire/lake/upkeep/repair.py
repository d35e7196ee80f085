"""Making a lake readable again whose objects hold values that an earlier version should have refused.

Every stored object of the ledger is read as it lies there. For one that cannot be read only because of a value that a
caller gave, a repair is written beside it (`quire.ledger.repairs`); the object itself stays as it is. What was damaged
otherwise is reported and left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from quire.arguments import checked
from quire.errors import CorruptRecord, QuireError, StorageError
from quire.lake.format_file import FORMAT_KEY, no_lake
from quire.ledger import FormatFile, Record, Ref, State, decode, repairs
from quire.ledger.log import SideObject
from quire.ledger.notes_and_leases import LEASES, NOTES, Lease, Note
from quire.ledger.records import Stored
from quire.prompt import OneLine, counted
from quire.store import Entry, Store, run_parallel

S = TypeVar("S", bound=Stored)

BATCH = 64
PIECE = 64 << 20
"""Bytes of an object that is too large to be read whole that are read at once."""

_KINDS: tuple[tuple[re.Pattern[str], type[Stored]], ...] = (
    (re.compile(r"_quire/log/[^/]+/[0-9]{20}"), Record),
    (re.compile(r"_quire/log/[^/]+/side-[^/]+"), SideObject),
    (re.compile(r"_quire/log/[^/]+/checkpoint-[0-9]{20}"), State),
    (re.compile(r"_quire/refs/[^/]+/[0-9]+"), Ref),
    (re.compile(rf"{LEASES}/[^/]+"), Lease),
    (re.compile(rf"{NOTES}/[^/]+"), Note),
)


@dataclass(frozen=True, repr=False)
class Repair(OneLine):
    """One object that could not be read, and what became of it."""

    object: str
    problem: str
    repaired: bool
    """Whether it can be read now; after a dry run, whether it could be."""
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """By place: the value that is stored, and the one that is read from now on."""

    def _facts(self) -> str:
        return f"{self.object}: {self.problem}; {'repaired' if self.repaired else 'not repaired'}"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        changes = [{"place": at, "stored": str(was), "read": now} for at, (was, now) in self.changes.items()]
        return {"object": self.object, "problem": self.problem, "repaired": self.repaired, "changes": changes}


@dataclass(repr=False)
class Repaired(OneLine):
    """What a repair found. It is empty for a lake that can be read."""

    dry_run: bool
    looked: int = 0
    """Objects that were looked at."""
    earlier: int = 0
    """Objects that an earlier run has repaired."""
    repairs: list[Repair] = field(default_factory=list)

    def _facts(self) -> str:
        repaired = sum(found.repaired for found in self.repairs)
        did = "would repair" if self.dry_run else "repaired"
        return (
            f"{did} {repaired} of {counted(len(self.repairs), 'damaged object')}; {counted(self.looked, 'object')} read"
        )

    @property
    def ok(self) -> bool:
        """Whether everything can be read, or could be if this was no dry run."""
        return all(found.repaired for found in self.repairs)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "ok": self.ok,
            "dry_run": self.dry_run,
            "looked": self.looked,
            "earlier": self.earlier,
            "repairs": [found.to_dict() for found in self.repairs],
        }


@checked
def repair(
    uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None, dry_run: bool = False
) -> Repaired:
    """Make a lake readable again that an earlier version has written values into that no version reads.

    No commit and no row is lost, nothing is overwritten or deleted, and others may be at work. With `dry_run` nothing
    is written. The lake need not be readable to be repaired; `lake.repair()` does the same for one that is open.
    """
    store = Store.open(uri, storage_options)
    body = store.get_or_none(FORMAT_KEY)
    if body is None:
        raise no_lake(store)
    return repair_store(store, decode(body, FormatFile, FORMAT_KEY).ledger, dry_run=dry_run)


def repair_store(store: Store, ledger: str, *, dry_run: bool) -> Repaired:
    """Look at every object of a lake's ledger."""
    done = Repaired(dry_run)
    wanted: list[Callable[[], Repair | bool]] = []
    for entry in store.list("_quire"):
        kind = next((k for shape, k in _KINDS if shape.fullmatch(entry.key)), None)
        if kind is not None:
            wanted.append(partial(_look, store, entry, kind, dry_run))
    for where, data in _rows(store, ledger):
        wanted.append(partial(_judge, store, where, data, data, Record, dry_run))
    for low in range(0, len(wanted), BATCH):
        for found in run_parallel(wanted[low : low + BATCH]):
            done.looked += 1
            if isinstance(found, Repair):
                done.repairs.append(found)
            else:
                done.earlier += found
    return done


def _rows(store: Store, ledger: str) -> Iterator[tuple[str, bytes]]:
    if ledger == "manifest":
        from quire.ledger.manifest.ledger import ManifestLedger

        yield from ManifestLedger(store).bodies()


def _look(store: Store, entry: Entry, kind: type[S], dry_run: bool) -> Repair | bool:
    try:
        data = store.get_or_none(entry.key)
    except StorageError as error:
        if not repairs.is_too_large(error):
            raise
        data = b"".join(
            store.get_range(entry.key, at, min(PIECE, entry.size - at)) for at in range(0, entry.size, PIECE)
        )
        return _judge(store, entry.key, data, None, kind, dry_run)
    return False if data is None else _judge(store, entry.key, data, data, kind, dry_run)


def _judge(store: Store, where: str, data: bytes, name: bytes | None, kind: type[S], dry_run: bool) -> Repair | bool:
    """The repair of one object; whether it was repaired before if it needs none now."""
    problem = _problem(data, name, kind, where)
    if problem is None:
        return False
    if store.get_or_none(repairs.repair_key(where, name)) is not None:
        return True
    mended = repairs.mend(data, kind, where, cut=name is None)
    if mended is None:
        return Repair(where, problem, False)
    if not dry_run:
        repairs.write(store, where, name, mended.body)
    return Repair(where, problem, True, mended.changes)


def _problem(data: bytes, name: bytes | None, kind: type[S], where: str) -> str | None:
    if name is None:
        return f"it takes {len(data)} bytes, more than Quire reads"
    try:
        decode(data, kind, where)
    except CorruptRecord as error:
        return str(error.fields["reason"])
    except QuireError as error:  # of a newer format, which is fine
        return None if error.kind == "newer-format" else error.message
    return None
