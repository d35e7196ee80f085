"""Keys of rows: canonical typed values, their hashes, and duplicates within one batch."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from quire.errors import ColumnNotFound, DuplicateKeys, InvalidInput
from quire.ledger import Keys

if TYPE_CHECKING:
    import pyarrow as pa

INLINE = 512
"""More keys than this are not listed in a commit; a rival then reads the key column instead."""


def summarise(columns: Sequence[str], keys: pa.Table) -> Keys:
    """What a commit record says about the keys it wrote."""
    if keys.num_rows > INLINE:
        return Keys(columns=tuple(columns), count=keys.num_rows)
    packed = b"".join(sorted(hashes(columns, keys)))
    return Keys(columns=tuple(columns), count=keys.num_rows, hashes=base64.b64encode(packed).decode())


def hashes(columns: Sequence[str], keys: pa.Table) -> Iterable[bytes]:
    columns_values = [keys.column(name).to_pylist() for name in columns]
    for values in zip(*columns_values, strict=True):
        digest = hashlib.blake2b(digest_size=8)
        for value in values:
            tag, body = canonical(value)
            digest.update(tag + len(body).to_bytes(4, "big") + body)
        yield digest.digest()


def canonical(value: Any) -> tuple[bytes, bytes]:
    """One value as (type tag, bytes), equal for equal values whatever their Arrow width."""
    if isinstance(value, bool):
        return b"b", b"\x01" if value else b"\x00"
    if isinstance(value, int):
        return b"i", str(value).encode()
    if isinstance(value, float):
        return (b"i", str(int(value)).encode()) if value.is_integer() else (b"f", repr(value).encode())
    if isinstance(value, str):
        return b"s", value.encode()
    if isinstance(value, bytes):
        return b"x", value
    if hasattr(value, "isoformat"):
        return b"t", value.isoformat().encode()
    return b"o", str(value).encode()


def disjoint(mine: Keys, theirs: Iterable[Keys]) -> bool | None:
    """True: no key in common. None: the records cannot tell, look at the data."""
    if mine.hashes is None:
        return None
    own = _unpack(mine.hashes)
    for other in theirs:
        if other.columns != mine.columns or other.hashes is None:
            return None
        if own & _unpack(other.hashes):
            return None
    return True


def _unpack(text: str) -> set[bytes]:
    raw = base64.b64decode(text)
    return {raw[i : i + 8] for i in range(0, len(raw), 8)}


def check_columns(on: Sequence[str], schema: pa.Schema, table: str) -> None:
    """Refuse key columns that do not exist, occur twice, or hold lists or structs."""
    import pyarrow as pa

    if len(set(on)) != len(on):
        raise InvalidInput(f"The key of table {table!r} names a column twice.", next="Name each once.", table=table)
    for name in on:
        if schema.get_field_index(name) < 0:
            raise ColumnNotFound(
                f"Table {table!r} has no column {name!r} to use as a key.",
                next=f"Its columns are {', '.join(schema.names)}.",
                table=table,
                column=name,
            )
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            raise InvalidInput(
                f"Column {name!r} of table {table!r} is {kind}, which cannot be a key.",
                next="Use a column of single values.",
                table=table,
                column=name,
            )


def check_distinct(keys: pa.Table, on: Sequence[str], table: str) -> None:
    """Refuse null keys and keys that occur twice in one batch: the result would depend on luck."""
    for name in on:
        if keys.column(name).null_count:
            raise DuplicateKeys(
                f"The data for table {table!r} has a null in key column {name!r}.",
                next="A key must be present in every row; fill or drop those rows.",
                table=table,
                column=name,
            )
    counts = keys.group_by(list(on), use_threads=False).aggregate([([], "count_all")])
    if counts.num_rows == keys.num_rows:
        return
    import pyarrow.compute as pc

    twice = counts.filter(pc.greater(counts["count_all"], 1)).select(list(on)).slice(0, 5).to_pylist()
    raise DuplicateKeys(
        f"The data for table {table!r} has the same key more than once: {show(twice)}.",
        next="Keep one row per key.",
        table=table,
        keys=twice,
    )


def show(keys: Sequence[dict[str, Any]]) -> str:
    """Keys for people: `id=3`, `(a=1, b='x')`."""
    parts = []
    for key in keys[:5]:
        body = ", ".join(f"{k}={v!r}" for k, v in key.items())
        parts.append(body if len(key) == 1 else f"({body})")
    return ", ".join(parts) + (", …" if len(keys) > 5 else "")
