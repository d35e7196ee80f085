"""Tokens beyond what a checkpoint holds: remembered in pages, found again, at a bounded cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.ledger.building import commit, grown

from quire.errors import InvalidToken, StorageError
from quire.lake.commit import tokens
from quire.ledger import Learnt, OpaqueToken, Point, State, StreamToken, encode, fold, genesis
from quire.ledger.records import PAGED
from quire.ledger.state import KEPT_STREAMS, KEPT_TOKENS, MAX_STREAMS, MAX_TOKENS
from quire.ledger.token_pages import MAX_STREAM_PAGES, MERGE_AT, MERGED, TokenPages, last_minted, page_key
from quire.store import Meter, Store, attached
from quire.testing.ledger import make_record

NOW = datetime.now(UTC)


def start() -> State:
    return genesis(make_record("main", 0, kind="genesis"))


def opaque(n: int, *, days: float = 0.0) -> OpaqueToken:
    return OpaqueToken(id=f"qt-{n:06d}", minted=NOW - timedelta(days=days) + timedelta(milliseconds=n))


def with_tokens(state: State, given: list[OpaqueToken], at: int = 0) -> State:
    """A state that holds these tokens, too, and then one commit more, which makes pages where there are too many."""
    more = {t.id: (Point("main", at), t.minted) for t in given[:-1]}
    state = msgspec.structs.replace(state, tokens={**state.tokens, **more}, time=NOW)
    record = make_record("main", state.slot + 1, previous=state.write, commits=(commit(token=given[-1]),), time=NOW)
    return fold(state, record)


def with_streams(state: State, scopes: list[str], last: int = 1) -> State:
    learnt = Learnt(streams=dict.fromkeys(scopes, last))
    record = make_record("main", state.slot + 1, previous=state.write, commits=(commit(learnt=learnt),), time=NOW)
    return fold(state, record)


def scopes(low: int, high: int) -> list[str]:
    return [f"scope-{n:06d}" for n in range(low, high)]


def used_stream(state: State, scope: str, sequence: int, pages: TokenPages) -> object:
    return tokens.used(state, StreamToken(scope, sequence), None, pages)


# -- opaque tokens -----------------------------------------------------------------------------------------------------


def test_no_token_of_the_last_seven_days_is_forgotten_however_many_there_are(memory: Store) -> None:
    pages, state = TokenPages(memory), start()
    given = [opaque(n) for n in range(3 * MAX_TOKENS)]
    for low in range(0, len(given), MAX_TOKENS // 2):
        state = with_tokens(state, given[low : low + MAX_TOKENS // 2], at=low)
    assert len(state.tokens) <= MAX_TOKENS
    assert state.tokens_since is None
    for n in (0, 1, KEPT_TOKENS - 1, MAX_TOKENS, 2 * MAX_TOKENS + 17, 3 * MAX_TOKENS - 1):
        assert isinstance(tokens.used(state, None, given[n], pages), Point), n
    assert tokens.used(state, None, opaque(99_999), pages) is False
    unknown = OpaqueToken(id="qt-never", minted=given[10].minted)
    assert tokens.used(state, None, unknown, pages) is False


def test_a_checkpoint_stays_small_and_leads_to_the_pages(memory: Store) -> None:
    log = grown(memory, 3)
    given = [opaque(n) for n in range(MAX_TOKENS + 1)]
    state = with_tokens(log.state, given)
    point = log.history.write_checkpoint(state)
    assert point is not None
    again = log.history.checkpoints.read(point)
    assert again is not None
    assert (again.format, again.fresh, len(again.tokens)) == (PAGED, {}, KEPT_TOKENS)
    pages = TokenPages(memory)
    cost = Meter()
    with attached(cost):
        assert tokens.used(again, None, opaque(50_000), pages) is False  # minted after everything that is in pages
        assert isinstance(tokens.used(again, None, given[-1], pages), Point)
    assert cost.total == 0
    cost = Meter()
    with attached(cost):
        assert isinstance(tokens.used(again, None, given[3], pages), Point)
        assert isinstance(tokens.used(again, None, given[4], pages), Point)
    assert cost.total == 1


def test_a_page_that_is_lost_is_an_error_and_never_a_second_commit(memory: Store) -> None:
    state = with_tokens(start(), [opaque(n) for n in range(MAX_TOKENS + 1)])
    lost = msgspec.structs.replace(state, fresh={})
    with pytest.raises(StorageError, match="it is not known"):
        tokens.used(lost, None, opaque(3), TokenPages(memory))


def test_pages_whose_window_is_over_are_given_up_and_their_tokens_refused(memory: Store) -> None:
    old = with_tokens(start(), [opaque(n, days=20) for n in range(MAX_TOKENS + 1)])
    assert len(old.token_pages) == 1
    state = with_tokens(old, [opaque(n + 500_000) for n in range(MAX_TOKENS + 1)])
    assert all(ref.last is not None and ref.last > NOW - timedelta(days=9) for ref in state.token_pages)
    assert state.tokens_since is not None
    with pytest.raises(InvalidToken, match="no longer remembered"):
        tokens.used(state, None, opaque(3, days=20), TokenPages(memory))


def test_the_name_of_a_page_says_until_when_it_is_needed(memory: Store) -> None:
    state = with_tokens(start(), [opaque(n) for n in range(MAX_TOKENS + 1)])
    [ref] = state.token_pages
    told = last_minted(page_key(ref.name))
    assert told is not None
    assert ref.last is not None
    assert abs(told - ref.last) <= timedelta(seconds=1)
    [streams] = with_streams(start(), scopes(0, MAX_STREAMS + 1)).stream_pages
    assert last_minted(page_key(streams.name)) is None


# -- streams -----------------------------------------------------------------------------------------------------------


def test_every_stream_is_remembered_for_ever_and_those_that_move_stay_at_hand(memory: Store) -> None:
    pages, state = TokenPages(memory), start()
    for low in range(0, 20_000, 1_000):
        state = with_streams(state, scopes(low, low + 1_000))
        state = with_streams(state, ["busy"], last=low + 1)
    assert len(state.streams) <= MAX_STREAMS
    assert len(encode(msgspec.structs.replace(state, fresh={}))) < 300_000
    assert state.streams["busy"] == 19_001
    for scope in (*scopes(0, 3), *scopes(9_999, 10_001), *scopes(19_999, 20_000)):
        assert used_stream(state, scope, 1, pages) is True
        assert used_stream(state, scope, 2, pages) is False
    assert used_stream(state, "never", 0, pages) is False


def test_pages_of_streams_are_merged_and_say_the_same(memory: Store) -> None:
    pages, state = TokenPages(memory), start()
    for turn in range(1, 13):  # the same streams move again and again
        for low in range(0, 6_000, 2_000):
            state = with_streams(state, scopes(low, low + 2_000), last=turn)
            pages.write(state.fresh)  # as every checkpoint does
    assert len(state.stream_pages) >= MERGE_AT
    merged = pages.merged(state.stream_pages, state.fresh)
    assert len(merged) <= 6_000 // MERGED + 1
    after = msgspec.structs.replace(state, stream_pages=merged, fresh={})
    for scope in (*scopes(0, 2), *scopes(3_999, 4_001), *scopes(5_999, 6_000)):
        assert used_stream(after, scope, 12, pages) is True
        assert used_stream(after, scope, 13, pages) is False
    assert sum(ref.count for ref in merged) <= 6_000


def test_when_there_is_no_room_a_new_stream_is_refused_and_known_ones_go_on(memory: Store) -> None:
    state = with_streams(start(), scopes(0, MAX_STREAMS + 1))
    pages = TokenPages(memory)
    [ref] = state.stream_pages
    full = msgspec.structs.replace(state, stream_pages=(ref,) * MAX_STREAM_PAGES)
    with pytest.raises(InvalidToken, match="cannot be added"):
        used_stream(full, "new", 1, pages)
    assert used_stream(full, scopes(0, 1)[0], 2, pages) is False
    assert tokens.remembered(full)["streams"] > tokens.remembered(full)["most_streams"] // 3


def test_a_reader_of_before_refuses_what_names_pages() -> None:
    state = with_streams(start(), scopes(0, MAX_STREAMS + KEPT_STREAMS))
    assert state.format == PAGED
    assert b'"format":3' in encode(msgspec.structs.replace(state, fresh={}))
