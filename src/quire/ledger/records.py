"""What is stored in the ledger: frozen structs, readable JSON, one format number.

A record is immutable once published. It holds the delta of one slot, names the record before it, and points at a
checkpoint that was already written. Nothing here knows a table format: a pin's `version` is opaque text.
"""

from __future__ import annotations

import hashlib
import numbers
import threading
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec

from quire.errors import CorruptRecord, FormatError, InvalidInput, NewerFormat
from quire.prompt import OneLine
from quire.store import clock

FORMAT = 2
"""The format that this Quire writes.

1: slots, checkpoints, refs. 2: floors and tombstones, which an older reader must not overlook, and checksums. 3: the
same, in an object that names pages of tokens; it is written only where there are any. 4: the same, after a commit that
joined another log to its own. 5: the same, with versions that plain clients were told they made, which whoever
backfills must put at their numbers.
"""

PAGED = 3
JOINED = 4
MANAGED = 5
NEWEST = 5
"""The newest format this Quire reads."""

SEALED = 2
"""From this format on everything that is stored ends in a checksum."""

LARGEST = 256 << 20
"""Bytes of the largest object that is written. A store reads several times as much, so what is written is readable."""

_SUM = b',"sum":"'

T = TypeVar("T")

Slot = Annotated[int, msgspec.Meta(ge=0, le=10**18)]
"""A slot number: bounded, so that no stored number can send a reader on an endless search."""


Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a zone; one without could not be compared."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""A number that can be added to and stored again."""

GivenText = Annotated[str, msgspec.Meta(extra={"given": "text"})]
GivenFlag = Annotated[bool, msgspec.Meta(extra={"given": "flag"})]
LogPosition = tuple[Slot, Count]
"""Slot and index of a commit in its log."""
Position = Annotated[int, msgspec.Meta(ge=0, le=2**62, extra={"given": "position"})]
"""What callers give. An old object in which such a value is not what it must be can be repaired (`repairs`)."""


def in_calendar(*times: datetime | None) -> None:
    """Refuse times so far out that nothing can be added to or taken from them."""
    for time in times:
        if time is not None and not 1970 <= time.year <= 9000:
            raise ValueError(f"{time.isoformat()} is not a valid time for a lake")


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of everything stored. Unknown fields are ignored, so a minor addition stays readable."""


class Acknowledged(Stored, frozen=True):
    """A version that a client of the format made through this lake, and was told so.

    It lies at this number of the table's plain line, with the client's own transaction, whoever puts it there.
    """

    number: Count
    version: str
    """The staged version that holds the same."""
    transaction: str
    """The client's name for what it did."""
    counter: Count
    """The counter of the table's newest commit of which it has everything."""


class Pin(Stored, frozen=True):
    """The exact state of one table at a commit."""

    format: str
    location: str
    version: str
    counter: Count
    rows: Count = 0
    bytes: Count = 0
    head: Count = 0
    """The newest linear version of the table whose rows this state includes: foreign commits up to it were adopted."""
    fragments: Count = 0
    """How many pieces the rows lie in; 0 when that is not known."""
    acknowledged: tuple[Acknowledged, ...] = ()
    """The last versions of clients in the table's line: backfill puts them there before anything that came later."""


class TableInfo(Stored, frozen=True):
    """What does not change with every write: identity, name, key, options."""

    id: str
    name: str
    key: tuple[str, ...] = ()
    stable_row_ids: GivenFlag = False
    validator: GivenText | None = None
    rules: GivenText = ""
    """What the validator goes by. The lake keeps it with the table and does not read it."""


class Keys(Stored, frozen=True):
    """Hashes of the keys a commit inserted, so that most races are settled without reading data."""

    columns: tuple[str, ...]
    count: Count
    hashes: str | None = None
    """Base64 of sorted 8-byte hashes, or None when there were too many to list."""


class NotedKeys(Stored, frozen=True):
    """Fingerprints of all keys in some columns of a data file, so that nobody has to read it to look for one."""

    path: str
    fields: tuple[Count, ...]
    """The columns, by the ids that the format gives them."""
    prints: str
    """Base64; how it is made is the format's business."""


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
    added: Count = 0
    removed: Count = 0
    noted: tuple[NotedKeys, ...] = ()
    """The keys of new data files, while they are few."""


class Read(Stored, frozen=True):
    """A read that a decision rested on; it is executed again on every new base before publish."""

    kind: Literal["key-exists", "key-absent", "no-row", "table"]
    table: str
    columns: tuple[str, ...] = ()
    count: Count = 0


class StreamToken(OneLine, Stored, frozen=True):
    """Position `sequence` of a stream `scope`: kept for ever, compared with >=."""

    scope: GivenText
    sequence: Position

    def __post_init__(self) -> None:
        if not isinstance(self.sequence, int) and isinstance(self.sequence, numbers.Integral):
            msgspec.structs.force_setattr(self, "sequence", int(self.sequence))  # a number of numpy is a number

    def _facts(self) -> str:
        return f"{self.scope}:{self.sequence}"


class OpaqueToken(Stored, frozen=True):
    """A one-off token that carries its minting time."""

    id: str
    minted: Moment


class Point(Stored, frozen=True, order=True):
    """A commit, wherever it lies: branch id, slot and position within the slot."""

    branch: str
    slot: Slot
    index: Count = 0

    @property
    def commit(self) -> str:
        """The commit's id on its branch, such as `12.0`."""
        return f"{self.slot}.{self.index}"


class PageRef(Stored, frozen=True):
    """A page of tokens, as a state names it; see `token_pages`."""

    name: str
    count: Count
    first: Moment | None = None
    """When the oldest of its opaque tokens was minted, and the newest."""
    last: Moment | None = None
    low: str = ""
    """The first of its streams, and the last."""
    high: str = ""
    merged: bool = False
    """Whether it holds what several pages of streams held, and no other merged page the same."""

    def __post_init__(self) -> None:
        in_calendar(self.first, self.last)

    def may_hold(self, minted: datetime) -> bool:
        return self.first is not None and self.last is not None and self.first <= minted <= self.last

    def may_hold_stream(self, scope: str) -> bool:
        return self.low <= scope <= self.high


class Learnt(Stored, frozen=True):
    """Tokens that were committed on another branch and whose work this commit takes over."""

    streams: dict[str, Position] = {}
    tokens: dict[str, tuple[Point, Moment]] = {}
    since: Moment | None = None
    """Tokens minted before this may have been forgotten there."""
    pages: tuple[PageRef, ...] = ()
    stream_pages: tuple[PageRef, ...] = ()

    def __post_init__(self) -> None:
        in_calendar(self.since, *(minted for _, minted in self.tokens.values()))


class Joining(Stored, frozen=True):
    """How a commit came to what it took over from another line: what a merge, a cherry-pick or a revert has to say."""

    how: Literal["fast-forward", "merged", "squashed", "picked", "reverted"]
    source: GivenText
    """The word by which it was named."""
    commit: Point | None = None
    """The commit that was merged or picked, or taken back."""
    bases: tuple[Point, ...] = ()
    conflicts: dict[str, Count] = {}
    """How many there were, by kind."""
    resolved: dict[str, Count] = {}
    """How they were resolved: by which side, by values, by a function."""


class Cost(Stored, frozen=True):
    """What a transaction had taken when its slot was about to be written.

    So the write of the slot is not in it: in the log one create and one hop, and one put and one hop more for a side
    object. Attempts at earlier slots are.
    """

    requests: dict[str, Count] = {}
    """Quire's own, by kind."""
    external: dict[str, Count] = {}
    """Those that other systems made for it, by system."""
    hops: Count = 0
    retries: Count = 0
    bytes_in: Count = 0
    bytes_out: Count = 0
    elapsed: Count = 0
    """Microseconds since the transaction began."""
    phases: dict[str, Count] = {}
    """Microseconds by phase."""


class Commit(Stored, frozen=True):
    """One transaction's entry in a slot."""

    write: str
    time: Moment
    author: GivenText
    message: GivenText = ""
    parents: tuple[Point, ...] = ()
    changes: tuple[Change, ...] = ()
    reads: tuple[Read, ...] = ()
    isolation: Literal["snapshot", "serializable"] = "snapshot"
    stream: StreamToken | None = None
    token: OpaqueToken | None = None
    reverts: Point | None = None
    adopts: Point | None = None
    """The commit whose pins this one took over as they are: a fast-forward."""
    reaches: dict[str, LogPosition] | None = None
    """Of a commit with parents in other logs: the last ancestor in every log but its own; see `version_vector`."""
    joining: Joining | None = None
    """Of a merge, a cherry-pick or a revert of rows: of what, and how its conflicts were resolved."""
    learnt: Learnt | None = None
    left_out: dict[str, Count] = {}
    """Rows that a load left out because they broke a rule, by table or type."""
    cost: Cost | None = None
    metadata: dict[str, str] = {}
    """What the caller says about the commit, by key."""

    def __post_init__(self) -> None:
        in_calendar(self.time, self.token.minted if self.token is not None else None)


class Floor(Stored, frozen=True):
    """What a collector declares gone. Every later writer of the branch reads it before it takes a slot."""

    slot: Slot
    """The first slot that is kept; what lies before it is gone unless a tag, a branch or a lease protects it."""
    horizon: Moment
    """Store time: no object that is younger is deleted."""
    revoked: tuple[str, ...] = ()
    """Writers that count as dead: what they staged may be deleted, and they can never publish it."""

    def __post_init__(self) -> None:
        in_calendar(self.horizon)


class Record(Stored, frozen=True):
    """The content of one slot."""

    format: int
    branch: str
    slot: Slot
    write: str
    previous: str
    time: Moment
    kind: Literal["genesis", "commits", "closed", "claim", "floor", "tombstone"] = "commits"
    epoch: Count = 0
    checkpoint: Point | None = None
    commits: tuple[Commit, ...] = ()
    side: str | None = None
    """Object that holds `commits` when they would make the record too large."""
    floor: Floor | None = None
    writes: tuple[str, ...] = ()
    """In a tombstone: the write ids of the commits that were here, if there were several."""

    def wrote(self, write: str) -> bool:
        """Whether this is, or was, the slot of a write."""
        return write in (self.write, *self.writes, *(commit.write for commit in self.commits))

    def __post_init__(self) -> None:
        in_calendar(self.time)
        if (self.kind == "floor") != (self.floor is not None):
            raise ValueError("only a floor record may hold a floor")
        if self.floor is not None and self.floor.slot > self.slot:
            raise ValueError("its floor is above its own slot")
        if self.kind == "genesis" and self.slot != 0:
            raise ValueError("only slot 0 begins a log")

    @property
    def buried(self) -> bool:
        """Whether only a tombstone is left of what was in this slot."""
        return self.kind == "tombstone"


class FormatFile(Stored, frozen=True):
    """`_quire/format.json`: written once, never edited."""

    format: int
    lake: str
    main: str
    ledger: str
    created: Moment

    def __post_init__(self) -> None:
        in_calendar(self.created)


class Hint(Stored, frozen=True):
    """Best effort: where the head probably is. May be missing, stale or wrong."""

    branch: str
    head: Slot
    checkpoint: Point | None = None
    backfilled: Count = 0
    """Every table change up to this slot has reached the table's plain HEAD."""
    format: int = 1


class _Versioned(msgspec.Struct):
    format: int = 1


_readers: dict[type, msgspec.json.Decoder[Any]] = {}
_building = threading.Lock()


def readable(*kinds: Any) -> None:
    """Build the readers of stored types while their module is imported.

    msgspec fills in a type at its first use; two threads that do so at once can crash the process.
    """
    with _building:
        for kind in kinds:
            _readers[kind] = msgspec.json.Decoder(kind)


def learn(kind: Any) -> None:
    """Have msgspec fill in a type that it may not know yet, before `msgspec.convert` uses it."""
    with _building:
        msgspec.json.Decoder(kind)


def reader(kind: Any) -> msgspec.json.Decoder[Any]:
    """The reader of a type, which only one thread at a time makes."""
    if kind not in _readers:
        readable(kind)
    return _readers[kind]


readable(_Versioned, Record, FormatFile, Hint)


new_id = clock.token
"""A random identifier: branch, table, write."""


def encode(value: Stored) -> bytes:
    """A stored object as bytes: JSON that, from format 2 on, ends in its own checksum.

    This is the only place where bytes to be published are made, and they are read here before anybody else has to:
    `InvalidInput` for a value that no reader would accept. So whatever is written can be read.
    """
    kind = type(value)
    try:
        body = raw(value)
        if len(body) > LARGEST:
            raise ValueError(f"it takes {len(body)} bytes; the maximum is {LARGEST}")
        if isinstance(getattr(value, "format", None), int):
            decode(body, kind, kind.__name__)
        else:
            reader(kind).decode(body)
    except (msgspec.MsgspecError, FormatError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = error.fields.get("reason", error.message) if isinstance(error, FormatError) else str(error)
        raise InvalidInput(
            f"A {kind.__name__} cannot be stored: {reason}. Nothing was written.",
            next="Correct the value that the message names, or split the commit if it is too large.",
            object=kind.__name__,
            reason=reason,
        ) from None
    return body


def raw(value: Stored) -> bytes:
    """The bytes of a stored object, unproven: for measuring, never for writing."""
    body = msgspec.json.encode(value)
    number = getattr(value, "format", None)
    return seal(body) if isinstance(number, int) and number >= SEALED else body


def seal(body: bytes) -> bytes:
    """A JSON object with a checksum of itself as its last field, so that damage is not mistaken for content."""
    return body[:-1] + _SUM + _checksum(body) + b'"}'


def unseal(data: bytes) -> bytes | None:
    """The object without its checksum; None when there is none or it does not fit."""
    end = len(data) - len(_SUM) - 18
    if end < 1 or not data.endswith(b'"}') or data[end : end + len(_SUM)] != _SUM:
        return None
    body = data[:end] + b"}"
    return body if data[end + len(_SUM) : -2] == _checksum(body) else None


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=8).hexdigest().encode()


def decode(data: bytes, kind: type[T], where: str) -> T:
    """Decode stored bytes.

    `where` names the object in the error. Garbage is `CorruptRecord`, the future is `NewerFormat`.
    """
    try:
        found = _readers[_Versioned].decode(data).format
        if found > NEWEST:
            raise NewerFormat(
                f"{where} has format {found}; this version of Quire reads formats up to {NEWEST}.",
                next="Upgrade Quire on this machine. The lake itself is fine.",
                object=where,
                found=found,
                supported=NEWEST,
            )
        if found < 1:
            raise corrupt(where, f"format {found} never existed")
        if (found >= SEALED or _SUM in data[-32:]) and unseal(data) is None:
            raise corrupt(where, "its checksum does not match its content")
        return cast("T", reader(kind).decode(data))
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
