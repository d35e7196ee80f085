"""Small languages of the command line: key=value pairs, tokens, points in history, column lists."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import quire
from quire.errors import InvalidInput, TagNotFound
from quire.lake import tokens

if TYPE_CHECKING:
    import pyarrow as pa

_COMMIT = re.compile(r"(.+:)?\d+(\.\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")
_TYPES = {
    "int": "int64",
    "integer": "int64",
    "boolean": "bool",
    "str": "string",
    "text": "string",
    "bytes": "binary",
    "date": "date32",
    "timestamp": "timestamp[us]",
}


def pairs(given: Sequence[str] | None, option: str, form: str, *, next: str | None = None) -> dict[str, str]:
    """`key=value` options. The text itself is never repeated in an error: it may be a secret."""
    found: dict[str, str] = {}
    for number, text in enumerate(given or (), 1):
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InvalidInput(
                f"{option} number {number} is not of the form {form}.", next=next or f"Write {option} {form}."
            )
        found[key] = value
    return found


def scalars(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """`key=value` options whose values are numbers, true, false, null or JSON where they read as such, else text."""
    found: dict[str, Any] = {}
    for key, text in pairs(given, option, "name=value").items():
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def expectations(given: Sequence[str] | None) -> dict[str, int]:
    found = pairs(given, "--expect", "table=version")
    for table, text in found.items():
        if not text.isdecimal():
            raise InvalidInput(
                f"{text!r} is not a version of table {table!r}.",
                next="Write --expect table=7; `quire tables` shows it.",
            )
    return {table: int(text) for table, text in found.items()}


def token(text: str | None) -> quire.StreamToken | str | None:
    """`qt-…` is opaque; `scope:7` is a position in a stream."""
    return tokens.from_text(text)


def snapshot_at(lake: quire.Lake, at: str) -> quire.Snapshot:
    """The state at a commit, a tag, or a time. A tag that looks like a time is a tag."""
    if _TIME.fullmatch(at):
        try:
            return lake.at(tag=at)
        except TagNotFound:
            return lake.at(time=at)
    if _COMMIT.fullmatch(at):
        return lake.at(commit=at)
    try:
        return lake.at(tag=at)
    except TagNotFound:
        if not any(branch.name == at for branch in lake.branches()):
            raise
    raise TagNotFound(f"{at!r} is a branch, not a commit, tag or time.", next=f"Write -b {at} instead.", tag=at)


def names(text: str | None) -> list[str] | None:
    """`id,name` as a list."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def schema(text: str) -> pa.Schema:
    """Columns as `id:int64!,name:string,vec:float32[128]`; `!` means required.

    >>> schema("id:int64!,tags:string[]").field("id").nullable
    False
    """
    import pyarrow as pa

    fields = []
    for part in re.split(r",(?![^\[(]*[\])])", text):
        name, colon, kind = (piece.strip() for piece in part.partition(":"))
        if not name or not colon or not kind:
            raise InvalidInput(
                f"{part.strip()!r} is not a column.", next="Write columns as id:int64,name:string,vec:float32[128]."
            )
        fields.append(pa.field(name, data_type(kind.removesuffix("!")), nullable=not kind.endswith("!")))
    return pa.schema(fields)


def data_type(text: str) -> pa.DataType:
    """A type by its Arrow name; `T[]` is a list and `T[128]` a vector of 128."""
    import pyarrow as pa

    text = text.strip()
    if listed := re.fullmatch(r"(.+)\[(\d*)\]", text):
        item = data_type(listed[1])
        return pa.list_(item, int(listed[2])) if listed[2] else pa.list_(item)
    if zoned := re.fullmatch(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([\w/+:-]+)\]", text):
        return pa.timestamp(zoned[1], zoned[2])
    if decimal := re.fullmatch(r"decimal(?:128)?\((\d+),\s*(\d+)\)", text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    try:
        return pa.type_for_alias(_TYPES.get(text, text))
    except ValueError:
        raise InvalidInput(
            f"{text!r} is not a type.",
            next="Use Arrow's names: int64, float32, string, bool, date32, timestamp[us], timestamp[us, tz=UTC], "
            "decimal(10, 2), binary; string[] for a list, float32[128] for a vector.",
        ) from None
