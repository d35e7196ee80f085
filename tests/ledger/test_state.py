"""Folding: a checkpoint at any slot and the records after it give what a replay from the start gives."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget
from tests.ledger.building import append, commit, create, drop, rename, state_of

from quire.errors import CorruptRecord, InvalidToken
from quire.lake.commit.tokens import used
from quire.ledger import (
    Change,
    Commit,
    OpaqueToken,
    Point,
    Record,
    State,
    StreamToken,
    TableInfo,
    decode,
    encode,
    fold,
    genesis,
)
from quire.ledger import state as ledger_state
from quire.ledger.state import KEPT_TOKENS, MAX_TOKENS, grown
from quire.ledger.token_pages import TokenPages
from quire.store import Store
from quire.testing.ledger import EPOCH, make_record


@dataclass
class World:
    """What a history means, kept apart from the code under test."""

    tables: dict[str, tuple[str, int, Point]] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, tuple[Point, datetime]] = field(default_factory=dict)
    made: int = 0

    def snapshot(self) -> tuple[dict[str, Any], dict[str, int], dict[str, Any]]:
        return dict(self.tables), dict(self.streams), dict(self.tokens)


def seen(state: State) -> tuple[dict[str, Any], dict[str, int], dict[str, Any]]:
    tables = {i: (t.info.name, t.pin.counter, t.commit) for i, t in state.tables.items()}
    return tables, dict(state.streams), dict(state.tokens)


@dataclass
class Told:
    records: list[Record]
    after: list[list[Any]]
    """What the world is after each commit of each slot; at least one entry per slot."""


@st.composite
def histories(draw: st.DrawFn, slots: int = 7) -> Told:
    world = World()
    records = [make_record("main", 0, kind="genesis", commits=(commit(message="create lake"),))]
    after: list[list[Any]] = [[world.snapshot()]]
    for slot in range(1, draw(st.integers(1, slots)) + 1):
        commits: list[Commit] = []
        states: list[Any] = []
        for index in range(draw(st.integers(0, 3))):
            commits.append(draw_commit(draw, world, Point(branch="main", slot=slot, index=index)))
            states.append(world.snapshot())
        epoch = draw(st.integers(0, 2))
        records.append(make_record("main", slot, previous=records[-1].write, commits=tuple(commits), epoch=epoch))
        after.append(states or [world.snapshot()])
    return Told(records, after)


def draw_commit(draw: st.DrawFn, world: World, at: Point) -> Commit:
    changes: list[Change] = []
    for _ in range(draw(st.integers(0, 3))):
        what = draw(st.sampled_from(["create", "append", "rename", "drop"]))
        if what == "create" or not world.tables:
            world.made += 1
            table, name = f"t{world.made}", f"name{world.made}"
            changes.append(create(table, name))
            world.tables[table] = (name, 1, at)
            continue
        table = draw(st.sampled_from(sorted(world.tables)))
        name, counter, _ = world.tables[table]
        if what == "append":
            changes.append(append(table, name, counter + 1))
            world.tables[table] = (name, counter + 1, at)
        elif what == "rename":
            changes.append(rename(table, name + "'"))
            world.tables[table] = (name + "'", counter, at)
        else:
            changes.append(drop(table, name))
            del world.tables[table]
    stream = token = None
    if draw(st.booleans()):
        stream = StreamToken(scope=draw(st.sampled_from("ab")), sequence=draw(st.integers(0, 9)))
        world.streams[stream.scope] = max(stream.sequence, world.streams.get(stream.scope, -1))
    if draw(st.booleans()):
        token = OpaqueToken(id=draw(st.sampled_from("pqrs")), minted=EPOCH + timedelta(seconds=draw(st.integers(0, 5))))
        world.tokens[token.id] = (at, token.minted)
    return commit(*changes, message=at.commit, stream=stream, token=token)


def states_of(records: list[Record]) -> list[State]:
    states = [genesis(records[0])]
    for record in records[1:]:
        states.append(fold(states[-1], record))
    return states


@given(histories())
def test_the_fold_says_what_the_history_means(told: Told) -> None:
    for state, worlds, record in zip(states_of(told.records), told.after, told.records, strict=True):
        assert seen(state) == worlds[-1]
        assert (state.slot, state.write, state.time) == (record.slot, record.write, record.time)
        assert state.epoch == max(r.epoch for r in told.records[: record.slot + 1])
        assert state.names() == {name: table for table, (name, _, _) in worlds[-1][0].items()}


@given(histories())
def test_a_checkpoint_at_any_slot_equals_a_replay(told: Told) -> None:
    states = states_of(told.records)
    for at, checkpoint in enumerate(states):
        state = decode(encode(checkpoint), State, "checkpoint")
        for record in told.records[at + 1 :]:
            state = fold(state, record)
        assert state == states[-1]
        assert encode(state) == encode(states[-1])


@given(histories())
def test_a_fold_up_to_a_commit_leaves_out_the_later_ones_of_its_group(told: Told) -> None:
    states = states_of(told.records)
    for record, before, worlds in zip(told.records[1:], states, told.after[1:], strict=False):
        for index in range(len(record.commits)):
            state = fold(before, record, upto=index)
            assert seen(state) == worlds[index]
            assert state.head == Point(branch="main", slot=record.slot, index=index)


@given(histories())
@settings(max_examples=budget(15, full=30))
def test_folding_changes_no_state_that_somebody_holds(told: Told) -> None:
    before = [genesis(told.records[0])]
    bytes_before = [encode(before[0])]
    for record in told.records[1:]:
        before.append(fold(before[-1], record))
        bytes_before.append(encode(before[-1]))
    assert [encode(state) for state in before] == bytes_before


def test_the_head_is_the_last_commit_even_if_records_without_one_follow() -> None:
    first = make_record("main", 0, kind="genesis")
    work = make_record("main", 1, previous=first.write, commits=(commit(create("t", "t")), commit(append("t", "t", 2))))
    claim = make_record("main", 2, previous=work.write, kind="claim", epoch=1, commits=())
    state = state_of([first, work, claim])
    assert (state.slot, state.head, state.epoch) == (2, Point(branch="main", slot=1, index=1), 1)
    assert state.write == claim.write


def test_the_epoch_never_falls() -> None:
    first = make_record("main", 0, kind="genesis")
    claim = make_record("main", 1, previous=first.write, kind="claim", epoch=4, commits=())
    late = make_record("main", 2, previous=claim.write, epoch=1)
    assert state_of([first, claim, late]).epoch == 4


def test_a_closed_record_closes() -> None:
    first = make_record("main", 0, kind="genesis")
    last = make_record("main", 1, previous=first.write, kind="closed", commits=())
    assert not genesis(first).closed
    assert state_of([first, last]).closed


def test_the_newest_checkpoint_that_a_record_names_is_kept() -> None:
    first = make_record("main", 0, kind="genesis")
    state, points = genesis(first), [Point(branch="main", slot=s) for s in (3, 9, 5)]
    for slot, point in enumerate(points, 1):
        state = fold(state, make_record("main", slot, previous=state.write, checkpoint=point))
    assert state.checkpoint == points[1]


# -- what does not fit -------------------------------------------------------------------------------------------------


def test_a_record_that_does_not_follow_is_corrupt_and_named() -> None:
    state = genesis(make_record("main", 0, kind="genesis"))
    with pytest.raises(CorruptRecord, match="it follows record elsewhere, but the record before it is") as caught:
        fold(state, make_record("main", 1, previous="elsewhere"))
    assert caught.value.object == "slot 1 of log main"


@pytest.mark.parametrize("change", [append("t", "t", 2), rename("t", "u")])
def test_a_change_of_a_table_that_does_not_exist_is_corrupt_and_named(change: Change) -> None:
    state = genesis(make_record("main", 0, kind="genesis"))
    record = make_record("main", 1, previous=state.write, commits=(commit(create("s", "s")), commit(change)))
    with pytest.raises(CorruptRecord, match="it changes table t, which does not exist") as caught:
        fold(state, record)
    assert caught.value.object == "commit 1.1 of log main"


# -- tokens ------------------------------------------------------------------------------------------------------------


def full_of_tokens(count: int) -> State:
    """A state that remembers `count` tokens, minted one second apart."""
    state = genesis(make_record("main", 0, kind="genesis"))
    order = list(range(count))
    random.Random(7).shuffle(order)
    point = Point(branch="main", slot=0)
    return msgspec.structs.replace(state, tokens={f"token-{n:06d}": (point, minted(n)) for n in order})


def minted(n: int) -> datetime:
    return EPOCH + timedelta(seconds=n)


def with_token(state: State, n: int) -> State:
    token = OpaqueToken(id=f"token-{n:06d}", minted=minted(n))
    return fold(state, make_record("main", state.slot + 1, previous=state.write, commits=(commit(token=token),)))


def test_no_token_is_forgotten_up_to_the_limit() -> None:
    state = with_token(full_of_tokens(MAX_TOKENS - 1), MAX_TOKENS - 1)
    assert (len(state.tokens), state.tokens_since) == (MAX_TOKENS, None)


def test_beyond_the_limit_the_oldest_go_to_a_page_and_stay_remembered() -> None:
    state = with_token(full_of_tokens(MAX_TOKENS), MAX_TOKENS)
    assert len(state.tokens) == KEPT_TOKENS
    gone = MAX_TOKENS + 1 - KEPT_TOKENS
    assert min(state.tokens) == f"token-{gone:06d}"
    assert state.tokens_since is None
    [ref] = state.token_pages
    assert (ref.count, ref.first, ref.last) == (gone, minted(0), minted(gone - 1))
    assert set(state.fresh[ref.name].tokens) == {f"token-{n:06d}" for n in range(gone)}


def test_what_goes_to_a_page_does_not_depend_on_who_folded_or_from_where() -> None:
    full = full_of_tokens(MAX_TOKENS)
    sorted_tokens = dict(sorted(full.tokens.items()))
    other = decode(encode(msgspec.structs.replace(full, tokens=sorted_tokens)), State, "checkpoint")
    token = OpaqueToken(id="new", minted=minted(5))
    record = make_record("main", 1, previous=full.write, commits=(commit(token=token),))
    one, two = fold(full, record), fold(other, record)
    assert encode(one) == encode(two)
    assert "new" not in one.tokens


def pages() -> TokenPages:
    """Of a lake that has none."""
    return TokenPages(Store.open(f"memory://{uuid.uuid4().hex}"))


def test_what_an_earlier_version_forgot_stays_forgotten() -> None:
    state = msgspec.structs.replace(full_of_tokens(MAX_TOKENS), tokens_since=minted(-5))
    after = with_token(state, MAX_TOKENS)
    assert (len(after.tokens), after.tokens_since) == (KEPT_TOKENS, minted(-5))
    with pytest.raises(InvalidToken, match="no longer remembered"):
        used(after, None, OpaqueToken(id="token-old", minted=minted(-6)), pages())


def test_a_stream_keeps_its_furthest_position() -> None:
    state = genesis(make_record("main", 0, kind="genesis"))
    for sequence, expected in ((3, 3), (9, 9), (5, 9)):
        stream = StreamToken(scope="s", sequence=sequence)
        record = make_record("main", state.slot + 1, previous=state.write, commits=(commit(stream=stream),))
        state = fold(state, record)
        assert state.streams == {"s": expected}
    assert used(state, StreamToken(scope="s", sequence=9), None, pages()) is True
    assert used(state, StreamToken(scope="s", sequence=10), None, pages()) is False


def test_a_commit_by_which_tables_outgrow_what_can_be_stored_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_state, "MAX_TABLES", 20_000)

    def with_rules(name: str, size: int) -> Commit:
        made = create(name, name)
        return commit(msgspec.structs.replace(made, info=TableInfo(id=name, name=name, rules="r" * size)))

    first = make_record("main", 0, kind="genesis", commits=(commit(message="create lake"),))
    state = fold(genesis(first), make_record("main", 1, previous=first.write, commits=(with_rules("a", 9_000),)))
    assert grown(state, with_rules("b", 9_000)) is None
    assert (grown(state, with_rules("b", 11_000)) or 0) > 20_000
    assert grown(state, commit(append("a", "a", 2))) is None

    monkeypatch.setattr(ledger_state, "MAX_TABLES", 5_000)  # as it is after an earlier version has written it
    assert grown(state, with_rules("a", 8_000)) is None, "what makes it smaller is a way out"
    assert grown(state, commit(append("a", "a", 2))) is None
    assert grown(state, with_rules("b", 0)) is not None
