"""Idempotency tokens: a transaction with a token commits at most once per branch lineage.

A *stream* token is a position in a named stream and is remembered for ever. An *opaque* token is minted by `token()`,
carries its time, and is remembered for `WINDOW`; an older one is refused, because nobody can tell any more whether it
was used.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from quire.errors import InvalidToken
from quire.ledger import OpaqueToken, Point, State, StreamToken
from quire.store import clock

WINDOW = timedelta(days=7)

Token = str | StreamToken

_SHAPE = re.compile(r"qt-([0-9a-f]{12})-[0-9a-f]{16}")


def token() -> str:
    """Mint an opaque token: keep it with the job, pass it to every attempt.

    >>> token()[:3]
    'qt-'
    """
    millis = int(clock.now().timestamp() * 1000)
    return f"qt-{millis:012x}-{clock.token()}"


def from_text(text: str | None) -> Token | None:
    """A token as options and command lines have it: `qt-…` is opaque, `scope:7` is a position in a stream."""
    if text is None or text.startswith("qt-"):
        return text
    scope, _, sequence = text.rpartition(":")
    if not scope or not sequence.isdecimal():
        raise InvalidToken(
            f"{text!r} is not a token.",
            next="Write scope:sequence, such as nightly:20261101, or pass one minted by quire.token().",
        )
    return StreamToken(scope=scope, sequence=int(sequence))


def parse(value: Token | None) -> tuple[StreamToken | None, OpaqueToken | None]:
    if value is None:
        return None, None
    if isinstance(value, StreamToken):
        if not value.scope or not isinstance(value.sequence, int) or value.sequence < 0:
            raise InvalidToken(
                f"{value!r} is not a stream token.", next="A scope and a sequence number of at least 0 are needed."
            )
        return value, None
    found = _SHAPE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidToken(
            f"{value!r} is not a token.",
            next="Mint one with quire.token() and keep it, or name a stream: quire.StreamToken(scope, sequence).",
        )
    return None, OpaqueToken(id=value, minted=datetime.fromtimestamp(int(found[1], 16) / 1000, UTC))


def used(state: State, stream: StreamToken | None, opaque: OpaqueToken | None) -> Point | bool:
    """Where this token was committed; True when it was but the commit is not known; False when it was not."""
    if stream is not None:
        return state.streams.get(stream.scope, -1) >= stream.sequence
    if opaque is None:
        return False
    if opaque.id in state.tokens:
        return state.tokens[opaque.id][0]
    # A record's time may run ahead of the clock; that must not make fresh tokens look old.
    window = min(state.time, clock.now()) - WINDOW
    forgotten = max(filter(None, (state.tokens_since, window)))
    if opaque.minted <= forgotten:
        raise InvalidToken(
            f"Token {opaque.id} was minted at {opaque.minted.isoformat()}; tokens that old are no longer remembered.",
            next="Look in the log whether the work was done; if it was not, run it with a fresh token.",
            token=opaque.id,
        )
    return False
