"""Objects that cannot be read because of a value that a caller gave, and the repairs that stand in for them.

Values are checked before they are written (`records.encode`), but an object may be older than that check. A repair is
an object of its own with the same content and the offending values made valid. It is named by the key and the very
bytes that it stands in for, and created if absent:

- nothing is overwritten or deleted, so no reader, writer or cleanup at work can be disturbed, and two repairs at once
  write the same bytes;
- a tombstone that takes the place of a slot has other bytes, so the repair of what was there before does not apply;
- it is looked for only where an object cannot be read, so it costs no request anywhere else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from quire.errors import CorruptRecord, QuireError, StorageError
from quire.ledger.records import LARGEST, SEALED, Stored, corrupt, decode, encode, unseal
from quire.store import Outcome, Store

S = TypeVar("S", bound=Stored)

FOLDER = "_quire/repairs"
CUT = 1 << 16
"""Characters that are left of a text in an object that is too large to be read."""


@dataclass(frozen=True)
class Mended:
    """An object as it can be read, and what was done to it: by place, what was there and what is there now."""

    body: bytes
    changes: dict[str, tuple[Any, Any]]


def read(store: Store, data: bytes, kind: type[S], where: str) -> S:
    """Decode stored bytes, or the repair that stands in for them. `CorruptRecord` says whether they can be repaired."""
    try:
        return decode(data, kind, where)
    except CorruptRecord as error:
        body = store.get_or_none(repair_key(where, data))
        if body is None:
            raise advised(error) if mend(data, kind, where) is not None else error from None
        return decode(body, kind, where)


def fetch(store: Store, key: str, kind: type[S]) -> S | None:
    """The object at a key, or the repair that stands in for it; None where there is none."""
    try:
        data = store.get_or_none(key)
    except StorageError as error:
        if not is_too_large(error):
            raise
        body = store.get_or_none(repair_key(key, None))
        if body is None:
            raise advised(corrupt(key, "it is larger than any object that Quire reads")) from None
        return decode(body, kind, key)
    return None if data is None else read(store, data, kind, key)


def is_too_large(error: QuireError) -> bool:
    return "larger_than" in error.fields


def repair_key(where: str, data: bytes | None) -> str:
    """Where the repair of an object lies. One that is too large to be read is known by its key alone."""
    digest = hashlib.blake2b(where.encode(), digest_size=16)
    if data is not None:
        digest.update(b"\0")
        digest.update(data)
    return f"{FOLDER}/{digest.hexdigest()}"


def advised(error: CorruptRecord) -> CorruptRecord:
    """The same error, of an object that can be repaired."""
    return CorruptRecord(
        error.message,
        next="`quire repair LAKE` (quire.repair) makes it readable again without losing a commit.",
        **{**error.fields, "repairable": True},
    )


def mend(data: bytes, kind: type[S], where: str, *, cut: bool = False) -> Mended | None:
    """An object that cannot be read with the values that callers gave made valid; None when that does not help.

    Nothing else is touched. With `cut`, or in what is too large to be written again, long texts are cut. Bytes that
    were damaged do not fit their checksum, and are nothing to guess at.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    sealed = isinstance(document, dict) and ("sum" in document or (_number(document) or 0) >= SEALED)
    if not isinstance(document, dict) or (sealed and unseal(data) is None):
        return None
    document.pop("sum", None)
    walk = _Walk(cut=cut or len(data) > LARGEST)
    made = walk.mended(document, inspect.type_info(kind), "")
    if not walk.changes:
        return None
    try:
        body = encode(msgspec.convert(made, kind))
        decode(body, kind, where)
    except (msgspec.MsgspecError, QuireError, ValueError):
        return None
    return Mended(body, walk.changes)


def _number(document: dict[str, Any]) -> int | None:
    found = document.get("format")
    return found if isinstance(found, int) else None


class _Walk:
    """A walk over a document by its type, which makes valid what callers gave."""

    def __init__(self, *, cut: bool) -> None:
        self._cut = cut
        self.changes: dict[str, tuple[Any, Any]] = {}

    def mended(self, value: Any, kind: inspect.Type, at: str) -> Any:
        given = (kind.extra or {}).get("given") if isinstance(kind, inspect.Metadata) else None
        if given is not None:
            return self._leaf(value, given, at)
        if isinstance(kind, inspect.Metadata):
            return self.mended(value, kind.type, at)
        if isinstance(kind, inspect.UnionType):
            return self._in_union(value, kind, at)
        if isinstance(kind, inspect.StructType) and isinstance(value, dict):
            fields = {f.encode_name: f.type for f in kind.fields}
            return {n: self.mended(v, fields[n], f"{at}.{n}") if n in fields else v for n, v in value.items()}
        if isinstance(kind, inspect.DictType) and isinstance(value, dict):
            return {n: self.mended(v, kind.value_type, f"{at}.{n}") for n, v in value.items()}
        if isinstance(kind, inspect.VarTupleType) and isinstance(value, list):
            return [self.mended(v, kind.item_type, f"{at}[{n}]") for n, v in enumerate(value)]
        if isinstance(kind, inspect.TupleType) and isinstance(value, list) and len(value) == len(kind.item_types):
            return [
                self.mended(v, k, f"{at}[{n}]") for n, (v, k) in enumerate(zip(value, kind.item_types, strict=True))
            ]
        return value

    def _in_union(self, value: Any, kind: inspect.UnionType, at: str) -> Any:
        if value is None:
            return None
        others = [k for k in kind.types if not isinstance(k, inspect.NoneType)]
        return self.mended(value, others[0], at) if len(others) == 1 else value

    def _leaf(self, value: Any, given: str, at: str) -> Any:
        made = _MADE[given](value)
        if given == "text" and self._cut and len(made) > CUT:
            made = f"{made[:CUT]}… (cut by a repair; it had {len(made)} characters)"
        if made != value or type(made) is not type(value):
            self.changes[at.removeprefix(".")] = (_shown(value), _shown(made))
        return made


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _position(value: Any) -> Any:
    """A place in a stream: beyond the last one it is the last one, so what was used stays used."""
    return max(0, min(int(value), 2**62)) if isinstance(value, int | float) else value


_MADE: dict[str, Any] = {"text": _text, "position": _position, "flag": bool}


def _shown(value: Any) -> Any:
    return f"{value[:100]}…" if isinstance(value, str) and len(value) > 100 else value


def write(store: Store, where: str, data: bytes | None, body: bytes) -> None:
    """Store a repair, unless it is there."""
    key = repair_key(where, data)
    if store.create(key, body, mine=lambda found: True).outcome is Outcome.UNKNOWN:
        raise StorageError(
            f"The store did not confirm that the repair of {where} was written.", next="Run the repair again.", key=key
        )
