"""Small languages of the command line: key=value pairs, tokens, points in history, column lists."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import quire
from quire.errors import InvalidInput
from quire.lake.commit import tokens
from quire.lake.commit.preconditions import TableVersion

if TYPE_CHECKING:
    import pyarrow as pa


def pairs(given: Sequence[str] | None, option: str, form: str, *, next: str | None = None) -> dict[str, str]:
    """`key=value` options. The text itself is never repeated in an error: it may be a secret."""
    found: dict[str, str] = {}
    for number, text in enumerate(given or (), 1):
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InvalidInput(
                f"{option} number {number} is not of the form {form}.", next=next or f"Write {option} {form}."
            )
        if key in found:
            raise InvalidInput(f"{option} names {key!r} twice.", next="Name each once.")
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


def typed(text: str, schema: pa.Schema, column: str) -> Any:
    """The value that a text stands for in a column: as it is for text, else as JSON has it. `null` is null."""
    from quire.rowfiles import json_values

    kind = schema.field(column).type if schema.get_field_index(column) >= 0 else None
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if kind is None or value is None:
        return value
    if str(kind) in ("string", "large_string", "string_view"):
        return text
    return json_values.column([value], kind, column)[0].as_py()


def expectations(given: Sequence[str] | None) -> dict[str, int]:
    """`--expect table=version` options; `table=version@id` names the very table."""
    found = pairs(given, "--expect", "table=version")
    return {table: _version(text, table) for table, text in found.items()}


def _version(text: str, table: str) -> int:
    number, at, identity = text.partition("@")
    if not number.isdecimal() or (at and not re.fullmatch("[0-9a-f]{16}", identity)):
        raise InvalidInput(
            f"{text!r} is not a version of table {table!r}.",
            next="Write --expect table=7; `quire tables` shows it. With the id of the table, which `quire table "
            "describe` shows, write table=7@0123456789abcdef.",
        )
    return TableVersion(int(number), identity) if at else int(number)


def metadata(given: Sequence[str] | None) -> dict[str, str]:
    """`--meta key=value` options, of which a key is given once."""
    found = pairs(given, "--meta", "key=value")
    if len(found) != len(given or ()):
        raise InvalidInput("--meta was given twice with the same key.", next="Give every key once.")
    return found


def token(text: str | None) -> quire.StreamToken | str | None:
    """`qt-…` is opaque; `scope:7` is a position in a stream."""
    return tokens.from_text(text)


def names(text: str | None) -> list[str] | None:
    """`id,name` as a list."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def length(text: str) -> timedelta:
    """A length of time as people write it: 90s, 30m, 12h, 7d, 2w, or 0."""
    if text.strip() == "0":
        return timedelta(0)
    found = _LENGTH.fullmatch(text.strip())
    try:
        if found is not None:
            return timedelta(**{_UNITS[found[2]]: float(found[1])})
    except OverflowError:
        pass
    raise InvalidInput(f"{text!r} is not a length of time.", next="Write it like 90s, 30m, 12h, 7d or 2w.")
