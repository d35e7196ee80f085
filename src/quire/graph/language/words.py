"""What single words of a text stand for."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from quire.graph.language.place import wrong
from quire.graph.language.tree import At
from quire.graph.names import nearest
from quire.graph.types import SCALARS

LARGEST = 2**64 - 1


def place(token: Any) -> At:
    """Where a token begins."""
    return At(token.line, token.column)


def whole(token: Any) -> int:
    """The number that digits stand for."""
    digits = token.lstrip("0") or "0"
    if len(digits) > 20 or int(digits) > LARGEST:
        raise wrong(place(token), "the number is too large.", f"The largest is {LARGEST}.")
    return int(digits)


def scalar(token: Any) -> str:
    """The name of a base type."""
    if token not in SCALARS:
        advice = nearest(token, (*SCALARS, "Vector")) or f"There are {', '.join(SCALARS)} and Vector(n)."
        raise wrong(place(token), f"there is no type {token}.", advice)
    return str(token)


def unquoted(token: Any) -> str:
    """The text that a string in quotes stands for. Line ends and tabs may stand in it as they are."""
    # An escape is kept as it is, so that a backslash before a line end stays an escape that is none.
    plain = re.sub(r"\\[\s\S]|[\x00-\x1f]", lambda c: c[0] if c[0][0] == "\\" else f"\\u{ord(c[0]):04x}", token)
    try:
        return msgspec.json.decode(plain, type=str)
    except (msgspec.DecodeError, UnicodeError):
        raise wrong(
            place(token),
            "the text has an escape that is none.",
            'There are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four hexadecimal digits.',
        ) from None
