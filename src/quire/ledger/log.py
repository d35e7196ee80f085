"""The log ledger: one immutable object per slot, created if absent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import msgspec

from quire.ledger import repairs
from quire.ledger.head_search import last_existing
from quire.ledger.protocol import Appended
from quire.ledger.records import SEALED, Commit, Record, Slot, Stored, corrupt, encode, new_id, readable
from quire.store import Follows, Outcome, Store, run_parallel

MAX_RECORD = 64 * 1024
"""A record larger than this moves its commits to a side object, written before publish."""


_PLAIN = re.compile(r"[0-9A-Za-z_-]{1,64}")
_SLOT = re.compile(r"[0-9]{20}")


class SideObject(Stored, frozen=True):
    format: int
    commits: tuple[Commit, ...]
    branch: str = ""
    slot: Slot = 0
    write: str = ""
    """The record it belongs to."""


readable(SideObject)


class LogLedger:
    """Slots at `_quire/log/<branch-id>/<20 digits>`."""

    name = "log"

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(
        self,
        record: Record,
        *,
        deadline: float | None = None,
        beside: Callable[[], object] | None = None,
        after: str | None = None,
    ) -> Appended:
        data = encode(record)
        if len(data) > MAX_RECORD:
            record = self._move_aside(record)
            data = encode(record)
        key = slot_key(record.branch, record.slot)

        def mine(found: bytes) -> bool:
            return repairs.read(self._store, found, Record, key).write == record.write

        follows = None if after is None or record.slot == 0 else _slot(after, record.slot - 1, record.previous)
        created = self._store.create(key, data, mine=mine, deadline=deadline, beside=beside, follows=follows)
        if created.outcome is not Outcome.CONFLICT:
            return Appended(created.outcome)
        if created.found is None:
            return Appended(Outcome.CONFLICT, self.read(record.branch, [record.slot])[0])
        return Appended(Outcome.CONFLICT, self._decode(created.found, record.branch, record.slot))

    def read(self, branch: str, slots: Sequence[int]) -> list[Record | None]:
        bodies = self._store.get_many([slot_key(branch, slot) for slot in slots])
        pairs = zip(slots, bodies, strict=True)
        # In parallel: a large record fetches its side object while it is decoded.
        return run_parallel([partial(self._decode_or_none, body, branch, slot) for slot, body in pairs])

    def head(self, branch: str, at_least: int, first: int = 0) -> int:
        def exists(slots: Sequence[int]) -> list[bool]:
            return [body is not None for body in self._store.get_many([slot_key(branch, s) for s in slots])]

        return last_existing(exists, at_least, first)

    def confirm(self, branch: str, slot: int, write: str) -> None:
        self._store.confirm(_slot(branch, slot, write))

    def bury(self, tombstone: Record) -> None:
        self._store.put(slot_key(tombstone.branch, tombstone.slot), encode(tombstone))

    def written(self, branch: str) -> dict[int, datetime]:
        found = {}
        for entry in self._store.list(f"_quire/log/{branch}"):
            name = entry.key.rpartition("/")[2]
            if _SLOT.fullmatch(name):
                found[int(name)] = entry.modified
        return found

    def _move_aside(self, record: Record) -> Record:
        name = f"side-{record.write}-{new_id()}"  # another for every slot that is tried
        body = SideObject(record.format, record.commits, record.branch, record.slot, record.write)
        self._store.put(f"_quire/log/{record.branch}/{name}", encode(body))
        return msgspec.structs.replace(record, commits=(), side=name)

    def _decode_or_none(self, body: bytes | None, branch: str, slot: int) -> Record | None:
        return None if body is None else self._decode(body, branch, slot)

    def _decode(self, body: bytes, branch: str, slot: int) -> Record:
        key = slot_key(branch, slot)
        record = repairs.read(self._store, body, Record, key)
        if record.branch != branch or record.slot != slot:
            raise corrupt(key, f"it says that it is slot {record.slot} of log {record.branch}")
        if record.side is None:
            return record
        if not _PLAIN.fullmatch(record.write) or not _is_side_of(record.write, record.side):
            raise corrupt(key, "it names a side object of another record")
        side = f"_quire/log/{branch}/{record.side}"
        held = repairs.fetch(self._store, side, SideObject)
        if held is None:
            raise corrupt(side, f"it is missing, but slot {slot} needs it")
        owner = (held.branch, held.slot, held.write)
        if owner != (branch, slot, record.write) if held.format >= SEALED else not _first(held, record):
            raise corrupt(side, f"it does not belong to slot {slot}")
        return msgspec.structs.replace(record, side=None, commits=held.commits)


def _is_side_of(write: str, name: str) -> bool:
    mine = f"side-{write}"
    return name == mine or (name.startswith(f"{mine}-") and _PLAIN.fullmatch(name[len(mine) + 1 :]) is not None)


def _first(body: SideObject, record: Record) -> bool:
    """Whether an old side object, which does not say so, can be this record's."""
    return bool(body.commits) and body.commits[0].write == record.write


class _Head(msgspec.Struct):
    """As much of a record as tells which one it is; a tombstone keeps it."""

    write: str = ""


readable(_Head)


def _slot(branch: str, slot: int, write: str) -> Follows:
    """A slot that holds a known write."""

    def known(found: bytes) -> bool:
        try:
            return msgspec.json.decode(found, type=_Head).write == write
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False

    return Follows(slot_key(branch, slot), known)


def slot_key(branch: str, slot: int) -> str:
    return f"_quire/log/{branch}/{slot:020d}"
