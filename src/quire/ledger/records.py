"""What is stored in the ledger: frozen structs, readable JSON, one format number.

A record is immutable once published. It holds the delta of one slot, names the record before it, and points at a
checkpoint that was already written. Nothing here knows a table format: a pin's `version` is opaque text.
"""

from __future__ import annotations

import secrets
import threading
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec

from quire.errors import CorruptRecord, NewerFormat

FORMAT = 1
"""The newest format this Quire reads and the one it writes."""

T = TypeVar("T")

Slot = Annotated[int, msgspec.Meta(ge=0, le=10**18)]
"""A slot number: bounded, so that no stored number can send a reader on an endless search."""


Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a zone; one without could not be compared."""


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of everything stored. Unknown fields are ignored, so a minor addition stays readable."""


class Pin(Stored, frozen=True):
    """The exact state of one table at a commit."""

    format: str
    location: str
    version: str
    counter: int
    rows: int = 0
    bytes: int = 0
    head: int = 0
    """The newest linear version of the table whose rows this state includes: foreign commits up to it were adopted."""


class TableInfo(Stored, frozen=True):
    """What does not change with every write: identity, name, key, options."""

    id: str
    name: str
    key: tuple[str, ...] = ()
    stable_row_ids: bool = False
    validator: str | None = None


class Keys(Stored, frozen=True):
    """Hashes of the keys a commit inserted, so that most races are settled without reading data."""

    columns: tuple[str, ...]
    count: int
    hashes: str | None = None
    """Base64 of sorted 8-byte hashes, or None when there were too many to list."""


Op = Literal[
    "create",
    "append",
    "insert",
    "upsert",
    "update",
    "delete",
    "overwrite",
    "schema",
    "index",
    "compact",
    "drop",
    "rename",
    "restore",
    "adopt",
    "register",
]


class Change(Stored, frozen=True):
    """What one commit did to one table."""

    table: str
    name: str
    ops: tuple[Op, ...]
    pin: Pin | None = None
    info: TableInfo | None = None
    keys: tuple[Keys, ...] = ()
    added: int = 0
    removed: int = 0


class Read(Stored, frozen=True):
    """A read that a decision rested on; it is executed again on every new base before publish."""

    kind: Literal["key-exists", "key-absent", "no-row", "table"]
    table: str
    columns: tuple[str, ...] = ()
    count: int = 0


class StreamToken(Stored, frozen=True):
    """Position `sequence` of a stream `scope`: kept for ever, compared with >=."""

    scope: str
    sequence: int


class OpaqueToken(Stored, frozen=True):
    """A one-off token that carries its minting time."""

    id: str
    minted: Moment


class Point(Stored, frozen=True, order=True):
    """A commit, wherever it lies: branch id, slot and position within the slot."""

    branch: str
    slot: Slot
    index: int = 0

    @property
    def commit(self) -> str:
        return f"{self.slot}.{self.index}"


class Learnt(Stored, frozen=True):
    """Tokens that were committed on another branch and whose work this commit takes over."""

    streams: dict[str, int] = {}
    tokens: dict[str, tuple[Point, Moment]] = {}
    since: Moment | None = None
    """Tokens minted before this may have been forgotten there."""


class Commit(Stored, frozen=True):
    """One transaction's entry in a slot."""

    write: str
    time: Moment
    author: str
    message: str = ""
    parents: tuple[Point, ...] = ()
    changes: tuple[Change, ...] = ()
    reads: tuple[Read, ...] = ()
    isolation: Literal["snapshot", "serializable"] = "snapshot"
    stream: StreamToken | None = None
    token: OpaqueToken | None = None
    reverts: Point | None = None
    adopts: Point | None = None
    """The commit whose pins this one took over as they are: a fast-forward."""
    learnt: Learnt | None = None


class Record(Stored, frozen=True):
    """The content of one slot."""

    format: int
    branch: str
    slot: Slot
    write: str
    previous: str
    time: Moment
    kind: Literal["genesis", "commits", "closed", "claim"] = "commits"
    epoch: int = 0
    checkpoint: Point | None = None
    commits: tuple[Commit, ...] = ()
    side: str | None = None
    """Object that holds `commits` when they would make the record too large."""


class FormatFile(Stored, frozen=True):
    """`_quire/format.json`: written once, never edited."""

    format: int
    lake: str
    main: str
    ledger: str
    created: Moment


class Hint(Stored, frozen=True):
    """Best effort: where the head probably is. May be missing, stale or wrong."""

    branch: str
    head: Slot
    checkpoint: Point | None = None
    backfilled: int = 0
    """Every table change up to this slot has reached the table's plain HEAD."""


class _Versioned(msgspec.Struct):
    format: int = 0


_readers: dict[type, msgspec.json.Decoder[Any]] = {}
_building = threading.Lock()


def readable(*kinds: type) -> None:
    """Build the readers of stored types while their module is imported.

    msgspec fills in a type at its first use; two threads that do so at once can crash the process.
    """
    for kind in kinds:
        _readers[kind] = msgspec.json.Decoder(kind)


def _reader(kind: type) -> msgspec.json.Decoder[Any]:
    if kind not in _readers:
        with _building:
            readable(kind)
    return _readers[kind]


readable(_Versioned, Record, FormatFile, Hint)


def new_id() -> str:
    """A random identifier: branch, table, write."""
    return secrets.token_hex(8)


def encode(value: Stored) -> bytes:
    return msgspec.json.encode(value)


def decode(data: bytes, kind: type[T], where: str) -> T:
    """Decode stored bytes.

    `where` names the object in the error. Garbage is `CorruptRecord`, the future is `NewerFormat`.
    """
    try:
        found = _readers[_Versioned].decode(data).format
        if found > FORMAT:
            raise NewerFormat(
                f"{where} has format {found}; this Quire reads up to {FORMAT}.",
                next="Upgrade Quire on this machine; the lake itself is fine.",
                object=where,
                found=found,
                supported=FORMAT,
            )
        return cast("T", _reader(kind).decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise corrupt(where, f"it is not a valid {kind.__name__}: {error}") from None


def corrupt(where: str, reason: str, **fields: Any) -> CorruptRecord:
    return CorruptRecord(
        f"{where} cannot be used: {reason}.",
        next="Restore this object from a backup or another copy of the lake; nothing else was changed.",
        object=where,
        reason=reason,
        **fields,
    )
