"""Opaque words by which a client goes on where a page ended, at the same commit."""

from __future__ import annotations

import base64
from typing import TypeVar

import msgspec

from quire.errors import InvalidInput
from quire.ledger.records import reader


class RowsAt(msgspec.Struct, array_like=True, frozen=True):
    """Where the next page of rows begins, and for which question."""

    commit: str
    table: str
    question: str
    offset: int


class LogAt(msgspec.Struct, array_like=True, frozen=True):
    """The commit below which the next page of a log begins."""

    last: str


T = TypeVar("T", bound=msgspec.Struct)


def written(at: msgspec.Struct) -> str:
    """The word for a place."""
    return base64.urlsafe_b64encode(msgspec.json.encode(at)).decode().rstrip("=")


def read(word: str, kind: type[T]) -> T:
    """The place that a word stands for."""
    try:
        found: T = reader(kind).decode(base64.urlsafe_b64decode(word + "=" * (-len(word) % 4)))
        return found
    except (ValueError, msgspec.MsgspecError):
        raise InvalidInput(
            "This is no word that an earlier page gave as next.", next="Pass next as it was given.", field="next"
        ) from None
