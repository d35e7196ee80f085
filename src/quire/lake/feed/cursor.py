"""Cursors: where a reader of changes stands. Opaque text that only fits the branch and the filter it was made for."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from quire.errors import InvalidInput
from quire.ledger import Point
from quire.ledger.records import Count, Slot, Stored, readable

PREFIX = "qc1."
LONGEST = 512
INDEXES = 20
"""Bits of a sequence number that are left for the place within a slot."""


class _Cursor(Stored, frozen=True):
    lake: str
    branch: str
    """The id of the branch whose changes are read; the commit may lie in a log that it has inherited."""
    log: str
    slot: Slot
    index: Count
    scope: str


readable(_Cursor)
_reader = msgspec.json.Decoder(_Cursor)


@dataclass(frozen=True)
class Scope:
    """Whose changes are read: of which lake, branch, tables and kinds."""

    lake: str
    branch: str
    filter: str

    @staticmethod
    def of(lake: str, branch: str, tables: Sequence[str] | None, ops: Sequence[str] | None, images: str) -> Scope:
        """The same filter is the same scope, however it was written."""
        asked = [sorted(set(tables)) if tables is not None else None, sorted(set(ops)) if ops is not None else None]
        told = msgspec.json.encode([*asked, images])
        return Scope(lake, branch, hashlib.blake2b(told, digest_size=6).hexdigest())

    def cursor(self, at: Point) -> str:
        """The text that names a commit as the last one that was read."""
        body = msgspec.json.encode(_Cursor(self.lake, self.branch, at.branch, at.slot, at.index, self.filter))
        return PREFIX + base64.urlsafe_b64encode(body).decode().rstrip("=")

    def parse(self, text: str) -> Point:
        """The commit that a cursor names; `InvalidInput` for one of another lake, branch or filter."""
        cursor = _decoded(text)
        for what, mine, its in (
            ("lake", self.lake, cursor.lake),
            ("branch", self.branch, cursor.branch),
            ("filter (tables, ops or images)", self.filter, cursor.scope),
        ):
            if mine != its:
                raise InvalidInput(
                    f"This cursor belongs to another {what}.",
                    next="Pass it to the call that it came from, with the same filter; or begin anew with"
                    ' since="baseline".',
                    cursor=text,
                )
        return Point(branch=cursor.log, slot=cursor.slot, index=cursor.index)


def is_cursor(text: str) -> bool:
    return text.startswith(PREFIX)


def sequence(at: Point) -> int:
    """A number that rises from commit to commit of a branch, for tokens of streams."""
    return (at.slot << INDEXES) | at.index


def _decoded(text: str) -> _Cursor:
    body = text.removeprefix(PREFIX)
    try:
        if len(text) > LONGEST or not body.isascii():
            raise ValueError
        return _reader.decode(base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.MsgspecError, ValueError, RecursionError):
        raise InvalidInput(
            f"{text[:60]!r} is not a cursor.",
            next="Pass the `cursor` of a block or of a feed, as it was.",
            cursor=text[:LONGEST],
        ) from None
