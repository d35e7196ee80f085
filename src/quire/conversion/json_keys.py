"""Keys that an object of JSON has twice: readers keep one of the two values and drop the other without a word."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_KEY = re.compile(rb'"\s*:')


class _Twice(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def repeated(text: bytes, read: Any) -> str | None:
    """A key that an object in the text has twice, also an object within. `read` is what the text was read as.

    Text with as many keys as were read has none twice. Only other text, such as with `":` in a value, is read again.
    """
    seen = len(_KEY.findall(text))
    return None if seen <= _top(read) or seen <= _keys(read) else _found(text)


def _found(text: bytes) -> str | None:
    try:
        json.loads(text, object_pairs_hook=_once)
    except _Twice as twice:
        return twice.key
    except (ValueError, RecursionError):  # whoever read it before says what is wrong with it
        return None
    return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Twice(key)
            seen.add(key)
    return made


def _top(value: Any) -> int:
    return len(value) if isinstance(value, dict) else 0


def _keys(value: Any) -> int:
    """How many keys objects have at least, those within too."""
    if isinstance(value, dict):
        return len(value) + sum(_keys(v) for v in value.values() if isinstance(v, dict | list))
    if isinstance(value, list):
        return sum(_keys(v) for v in value if isinstance(v, dict | list))
    if isinstance(value, msgspec.Struct):
        given = [v for v in (getattr(value, name) for name in value.__struct_fields__) if v is not None]
        return len(given) + sum(map(_keys, given))
    return 0
