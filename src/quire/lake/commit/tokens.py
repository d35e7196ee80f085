"""Idempotency tokens: a transaction with a token commits at most once per branch lineage.

A *stream* token is a position in a named stream and is remembered for ever. An *opaque* token is minted by `token()`,
carries its time, and is remembered for `WINDOW`; an older one is refused, because nobody can tell any more whether it
was used.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from quire.arguments import checked
from quire.errors import InvalidToken
from quire.lake.commit import record_values
from quire.ledger import OpaqueToken, Point, State, StreamToken
from quire.ledger.token_pages import MAX_STREAM_PAGES, MERGED, WINDOW, TokenPages
from quire.store import clock

MOST = 2**62
"""The last position of a stream."""
DIGITS = 19
AHEAD = timedelta(days=1)
"""How far the clock that minted a token may run ahead of ours."""
FIRST = datetime(2020, 1, 1, tzinfo=UTC)
"""No token was minted before this."""

Token = str | StreamToken

_SHAPE = re.compile(r"qt-([0-9a-f]{12})-[0-9a-f]{16}")


@checked
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
    scope, _, sequence = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if scope and sequence.isdecimal() and (len(sequence) > DIGITS or int(sequence) > MOST):
        raise _no_position(sequence, scope)
    if not scope or not sequence.isdecimal():
        raise InvalidToken(
            f"{text!r} is not a token.",
            next="Use scope:sequence, such as nightly:20261101, or a token from quire.token().",
        )
    return StreamToken(scope=scope, sequence=int(sequence))


def parse(value: Token | None) -> tuple[StreamToken | None, OpaqueToken | None]:
    """What a token is; `InvalidToken` for one that could not be stored, or that no clock can have made."""
    if value is None:
        return None, None
    if isinstance(value, StreamToken):
        return _stream(value), None
    found = _SHAPE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidToken(
            f"{value!r} is not a token.",
            next="Create one with quire.token() and keep it, or name a stream: quire.StreamToken(scope, sequence).",
            field="token",
        )
    assert isinstance(value, str)
    return None, OpaqueToken(id=value, minted=_minted(value, int(found[1], 16)))


def _stream(given: StreamToken) -> StreamToken:
    scope = record_values.text("scope of the token", given.scope, record_values.SCOPE, InvalidToken)
    if not scope:
        raise InvalidToken(
            "A stream token needs a scope.", next="Pass the name of the stream as the scope.", field="token"
        )
    sequence = given.sequence
    if not isinstance(sequence, int) or isinstance(sequence, bool) or not 0 <= sequence <= MOST:
        raise _no_position(sequence, scope)
    return StreamToken(scope=scope, sequence=sequence)


def _no_position(sequence: object, scope: str) -> InvalidToken:
    return InvalidToken(
        f"{str(sequence)[:40]!r} is not a position in the stream {scope!r}.",
        next=f"Use a whole number from 0 to {MOST}.",
        field="token",
        limit=MOST,
    )


def _minted(token: str, millis: int) -> datetime:
    """When a token says it was minted."""
    now = clock.now()
    earliest, latest = int(FIRST.timestamp() * 1000), int((now + AHEAD).timestamp() * 1000)
    if not earliest <= millis <= latest:
        raise InvalidToken(
            f"Token {token} has a time {'before' if millis < earliest else 'after'} any possible one; the clock "
            f"here says {now.isoformat()}.",
            next="Create it with quire.token() on a machine with a correct clock.",
            token=token,
            field="token",
        )
    return datetime.fromtimestamp(millis / 1000, UTC)


def used(state: State, stream: StreamToken | None, opaque: OpaqueToken | None, pages: TokenPages) -> Point | bool:
    """Where this token was committed; True when it was but the commit is not known; False when it was not.

    What the state does not hold itself is in pages, which are read where the token may be in one.
    """
    if stream is not None:
        return _used_stream(state, stream, pages)
    if opaque is None:
        return False
    if opaque.id in state.tokens:
        return state.tokens[opaque.id][0]
    # A record's time may run ahead of the clock; that must not make fresh tokens look old.
    window = min(state.time, clock.now()) - WINDOW
    forgotten = max(filter(None, (state.tokens_since, window)))
    if opaque.minted <= forgotten:
        raise InvalidToken(
            f"Token {opaque.id} was created at {opaque.minted.isoformat()}; tokens that old are no longer remembered.",
            next="Check in the log whether the work was done. If it was not, run it with a new token.",
            token=opaque.id,
        )
    at = pages.token(state.token_pages, state.fresh, opaque.id, opaque.minted)
    return at if at is not None and at.branch == state.branch else at is not None


def _used_stream(state: State, stream: StreamToken, pages: TokenPages) -> bool:
    known = state.streams.get(stream.scope)
    if known is not None:
        return known >= stream.sequence
    if not state.stream_pages:
        return False
    last = pages.stream(state.stream_pages, state.fresh, stream.scope)
    if last < 0 and len(state.stream_pages) >= MAX_STREAM_PAGES:
        raise InvalidToken(
            f"This branch already remembers {count_streams(state)} streams of tokens, the maximum, so "
            f"{stream.scope!r} cannot be added.",
            next="Use fewer scopes, each with a position that rises, or opaque tokens, which are forgotten after a "
            "time.",
            token=stream.scope,
        )
    return last >= stream.sequence


def count_streams(state: State) -> int:
    """Streams that a state remembers; at most: one that moved again may be counted twice."""
    return len(state.streams) + sum(ref.count for ref in state.stream_pages)


def remembered(state: State) -> dict[str, Any]:
    """What `status` says about tokens: how many are remembered, from when on, and how many streams there may be."""
    return {
        "opaque": len(state.tokens) + sum(ref.count for ref in state.token_pages),
        "since": state.tokens_since.isoformat() if state.tokens_since else None,
        "streams": count_streams(state),
        "most_streams": MAX_STREAM_PAGES * MERGED,
    }
