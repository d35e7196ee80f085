"""What callers give to be kept in a record: texts, metadata, names of validators. Each has a kind and a bound.

A value is checked where it is given, so that the error names it and nothing was staged for it. The bounds hold for what
is written from now on; what is stored already is read whatever its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from quire.errors import InvalidInput

E = TypeVar("E", bound=InvalidInput)

MESSAGE = 1 << 20
"""Bytes of a message of a commit or a tag, as UTF-8."""
AUTHOR = 1 << 14
RULES = 16 << 20
VALIDATOR = 200
SCOPE = 1_000
"""Of a stream of tokens: each is kept for ever."""
ENTRIES = 64
"""Entries of a commit's metadata."""
NAME = 200
VALUE = 4_096


def text(field: str, value: Any, most: int, error: type[E] = InvalidInput) -> str:  # type: ignore[assignment]
    """A text that can be stored, of at most so many bytes; else the error, which names the field."""
    if not isinstance(value, str):
        raise error(
            f"The {field} must be text, not {type(value).__name__}.", next=f"Pass a str as {field}.", field=field
        )
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise error(
            f"The {field} {value[:40]!r} cannot be stored: it contains half a character (an unpaired surrogate).",
            next="Use text that can be encoded as UTF-8.",
            field=field,
        ) from None
    if size > most:
        raise error(
            f"The {field} takes {size} bytes; a commit stores at most {most}.",
            next="Shorten it, and store long text in a table.",
            field=field,
            size=size,
            limit=most,
        )
    return str(value)


def author(value: Any) -> str:
    return text("author", value, AUTHOR)


def message(value: Any, what: str = "message") -> str:
    return text(what, value, MESSAGE)


def rules(value: Any) -> str:
    return text("rules", value, RULES)


def validator(value: Any) -> str | None:
    """The name of a validator; None for none."""
    return None if value is None else text("validator", value, VALIDATOR)


def flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(
            f"{field} must be True or False, not {type(value).__name__}.", next=f"Pass {field}=True.", field=field
        )
    return value


def metadata(value: Any) -> dict[str, str]:
    """A few short texts by key."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f"The metadata must be a dict of text to text, not a {type(value).__name__}.",
            next='Pass a dict, such as metadata={"job": "42"}.',
            field="metadata",
        )
    if len(value) > ENTRIES:
        raise InvalidInput(
            f"The metadata has {len(value)} entries; a commit stores at most {ENTRIES}.",
            next="Store more in a table.",
            field="metadata",
            limit=ENTRIES,
        )
    found = {}
    for key, entry in value.items():
        name = text("key of the metadata", key, NAME)
        if not name or "=" in name or not name.isprintable():
            raise InvalidInput(
                f"{name!r} is not a valid key of metadata.", next="Use printable text without '='.", field="metadata"
            )
        found[name] = text(f"metadata {name!r}", entry, VALUE)
    return found
