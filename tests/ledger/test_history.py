"""Reaching a state: right whatever the hint says, bounded at any depth, along branches of branches."""

from __future__ import annotations

import contextlib
import random
import uuid
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget
from tests.ledger.building import Log, append, commit, create, grown

from quire.errors import CommitNotFound, CorruptRecord, NewerFormat, QuireError
from quire.ledger import (
    Commit,
    Hint,
    History,
    Line,
    LogLedger,
    Point,
    Record,
    State,
    encode,
    hint_key,
    parse_hint,
    read_hint,
    slot_key,
    write_hint,
)
from quire.ledger.checkpoints import CHECKPOINT_EVERY
from quire.ledger.records import raw
from quire.store import Store, metering
from quire.testing.ledger import EPOCH

DEPTHS = [1, 100, 1000]
MOST_REQUESTS = 300
MOST_HOPS = 12


def in_memory() -> Store:
    return Store.open(f"memory://{uuid.uuid4().hex}")


def bare(state: State) -> State:
    """A state without the checkpoint it was reached from, which is no part of what it says."""
    return msgspec.structs.replace(state, checkpoint=None)


def checkpoint_key(at: Point) -> str:
    return f"_quire/log/{at.branch}/checkpoint-{at.slot:020d}"


@pytest.fixture(scope="module")
def logs() -> dict[int, Log]:
    """Logs of several depths, only ever read."""
    return {depth: grown(in_memory(), depth) for depth in DEPTHS}


# -- cold open ---------------------------------------------------------------------------------------------------------


def hint_bytes(log: Log, kind: str) -> bytes | None:
    """A hint as it may lie in the store."""
    branch, head, point = log.line.branch, log.head, log.checkpoint
    far = max(head // 2, log.line.start)
    hints: dict[str, Hint | bytes | None] = {
        "right": Hint(branch=branch, head=head, checkpoint=point),
        "right but without its checkpoint": Hint(branch=branch, head=head),
        "a little stale": Hint(branch=branch, head=max(head - 5, 0), checkpoint=None),
        "very stale": Hint(branch=branch, head=far),
        "missing": None,
        "a little too far": Hint(branch=branch, head=head + 7, checkpoint=point),
        "much too far": Hint(branch=branch, head=head * 3 + 1000, checkpoint=point),
        "for another branch": Hint(branch="other", head=head + 7, checkpoint=Point(branch="other", slot=head)),
        "before the start": Hint(branch=branch, head=-7),
        "a checkpoint that is not there": Hint(
            branch=branch, head=head + 90_000, checkpoint=Point(branch=branch, slot=head + 89_990)
        ),
        "a checkpoint of another branch": Hint(branch=branch, head=head, checkpoint=Point(branch="other", slot=0)),
        "a checkpoint after the head": Hint(branch=branch, head=head, checkpoint=Point(branch=branch, slot=head + 1)),
        "a checkpoint before time": Hint(branch=branch, head=head, checkpoint=Point(branch=branch, slot=-3)),
        "a large number": Hint(branch=branch, head=10**15),
        "a huge number": Hint(branch=branch, head=2**63),
        "a number without end": Hint(branch=branch, head=10**4000),
        "garbage": b"\xff\x00 not a hint",
        "a wrong type": b'{"branch":[],"head":"x"}',
        "empty": b"",
        "the future": b'{"format":99,"branch":"main","head":3}',
    }
    found = hints[kind]
    return raw(found) if isinstance(found, Hint) else found


HINTS = [
    "right",
    "right but without its checkpoint",
    "a little stale",
    "very stale",
    "missing",
    "a little too far",
    "much too far",
    "for another branch",
    "before the start",
    "a checkpoint that is not there",
    "a checkpoint of another branch",
    "a checkpoint after the head",
    "a checkpoint before time",
    "a large number",
    "a huge number",
    "a number without end",
    "garbage",
    "a wrong type",
    "empty",
    "the future",
]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", HINTS)
def test_a_cold_open_is_right_and_bounded_whatever_the_hint_says(logs: dict[int, Log], depth: int, kind: str) -> None:
    log = logs[depth]
    hint = parse_hint(hint_bytes(log, kind), "main")
    with metering() as cost:
        state = log.history.open(hint)
    assert bare(state) == bare(log.state)
    assert state.checkpoint is None or state.checkpoint.slot <= log.head
    assert cost.total <= MOST_REQUESTS
    assert cost.hops <= MOST_HOPS
    assert "list" not in cost.requests


@pytest.mark.parametrize("kind", HINTS)
def test_a_cold_open_of_a_branch_is_right_and_bounded_whatever_the_hint_says(kind: str) -> None:
    main = grown(in_memory(), 200)
    branch = main.fork("child", Point(branch="main", slot=150)).grow(40)
    hint = parse_hint(hint_bytes(branch, kind), "child")
    with metering() as cost:
        state = branch.history.open(hint)
    assert bare(state) == bare(branch.state)
    assert cost.total <= MOST_REQUESTS
    assert cost.hops <= MOST_HOPS


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_right_hint_makes_a_cold_open_one_hop(logs: dict[int, Log], depth: int) -> None:
    log = logs[depth]
    hint = parse_hint(hint_bytes(log, "right"), "main")
    with metering() as cost:
        log.history.open(hint)
    assert cost.hops == 1
    assert cost.total <= CHECKPOINT_EVERY + 4


@pytest.mark.parametrize("slots", [0, 1, 5, 200])
def test_a_branch_far_from_any_checkpoint_opens_with_all_its_commits(slots: int) -> None:
    main = grown(in_memory(), 200)
    branch = main.fork("child", Point(branch="main", slot=150)).grow(slots)
    history = History(branch.store, branch.ledger, branch.line, None)
    assert bare(history.open()) == bare(branch.state)


def test_a_disk_survives_a_hint_with_a_number_without_end(tmp_path: Any) -> None:
    log = grown(Store.open(tmp_path / "lake"), 3)
    log.store.put(hint_key("main"), raw(Hint(branch="main", head=10**4000)))
    assert bare(log.history.open(read_hint(log.store, "main"))) == bare(log.state)


def test_a_start_checkpoint_that_lies_beyond_the_start_is_not_believed() -> None:
    main = grown(in_memory(), 100)
    branch = main.fork("child", Point(branch="main", slot=40)).grow(3)
    assert main.checkpoint is not None
    assert main.checkpoint.slot > 40
    history = History(branch.store, branch.ledger, branch.line, main.checkpoint)
    assert bare(history.open()) == bare(branch.state)


@pytest.mark.parametrize("depth", [1, 40])
def test_a_log_opens_on_every_kind_of_store(store: Store, depth: int) -> None:
    log = grown(store, depth)
    write_hint(store, "main", Hint(branch="main", head=log.head, checkpoint=log.checkpoint))
    assert bare(log.history.open(read_hint(store, "main"))) == bare(log.state)
    assert bare(log.history.open()) == bare(log.state)


# -- refresh -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", DEPTHS)
def test_no_news_is_one_request(logs: dict[int, Log], depth: int) -> None:
    log = logs[depth]
    history = log.history
    state = history.open()
    with metering() as cost:
        assert history.refresh(state) == state
    assert (cost.requests, cost.hops) == ({"get": 1}, 1)


def test_no_news_is_one_request_on_a_branch_without_commits() -> None:
    branch = grown(in_memory(), 50).fork("child", Point(branch="main", slot=45))
    history = branch.history
    state = history.open()
    with metering() as cost:
        assert history.refresh(state) == state
    assert (cost.requests, cost.hops) == ({"get": 1}, 1)


@pytest.mark.parametrize(
    ("news", "requests", "hops"), [(1, 9, 2), (5, 9, 2), (9, 90, 6), (60, 150, 6), (300, 250, 11), (900, 250, 11)]
)
def test_news_is_learnt_in_few_requests(news: int, requests: int, hops: int) -> None:
    log = grown(in_memory(), 20)
    history = log.history
    state = history.open()
    log.grow(news)
    with metering() as cost:
        assert bare(history.refresh(state)) == bare(log.state)
    assert cost.total <= requests
    assert cost.hops <= hops


def test_a_lost_race_is_learnt_from_the_winner_and_one_request() -> None:
    log = grown(in_memory(), 10)
    history = log.history
    state = history.open()
    winner = log.add()
    with metering() as cost:
        assert bare(history.advance(state, {winner.slot: winner})) == bare(log.state)
    assert cost.total == 1


def test_what_was_learnt_needs_no_request_to_be_compared_with() -> None:
    log = grown(in_memory(), 10)
    history = log.history
    state = history.open(Hint(branch=log.line.branch, head=log.head))
    log.grow(4)
    history.refresh(state)
    with metering() as cost:
        assert history.between(state.slot, log.head) == log.records[-4:]
    assert cost.total == 0
    with metering() as cost:
        assert history.between(2, log.head) == log.records[3:]
    assert cost.hops == 1


@pytest.mark.parametrize(
    ("news", "requests", "hops"), [(0, 1, 1), (1, 9, 2), (8, 9, 2), (9, 41, 3), (40, 41, 3), (41, 73, 4)]
)
def test_news_is_read_in_growing_batches(news: int, requests: int, hops: int) -> None:
    log = grown(in_memory(), 10)
    history = log.history
    state = history.open()
    log.grow(news)
    with metering() as cost:
        assert bare(history.refresh(state)) == bare(log.state)
    assert (cost.total, cost.hops) == (requests, hops)


def test_far_behind_the_head_is_searched_for() -> None:
    log = grown(in_memory(), 10)
    history = log.history
    state = history.open()
    log.grow(1000)
    with metering() as cost:
        assert bare(history.refresh(state)) == bare(log.state)
    assert cost.hops <= MOST_HOPS
    assert cost.total <= MOST_REQUESTS


@pytest.mark.parametrize("depth", [1, 8])
def test_a_short_log_without_a_hint_is_read_once(depth: int) -> None:
    log = grown(in_memory(), depth)
    with metering() as cost:
        assert bare(log.history.open()) == bare(log.state)
    assert (cost.total, cost.hops) == (9, 1)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_fresh_hint_and_its_checkpoint_are_all_that_is_needed(logs: dict[int, Log], depth: int) -> None:
    log = logs[depth]
    hint = Hint(branch=log.line.branch, head=log.head, checkpoint=log.checkpoint)
    with metering() as cost:
        assert bare(log.history.open(hint)) == bare(log.state)
    assert cost.hops == 1
    assert cost.total <= CHECKPOINT_EVERY + 3


def test_a_state_in_the_past_reads_every_slot_once(logs: dict[int, Log]) -> None:
    log = logs[100]
    with metering() as cost:
        assert log.history.at_slot(40).slot == 40
    assert cost.hops == 2
    assert cost.total == 40 - 31 + 1, "the checkpoint, and the slots after it"


def test_a_closed_branch_says_so() -> None:
    log = grown(in_memory(), 10)
    history = log.history
    state = history.open()
    log.add(kind="closed", commits=())
    assert history.refresh(state).closed
    assert log.history.open().closed
    assert not log.history.at_slot(9).closed
    assert log.history.at_slot(10).closed


# -- time travel -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 100])
def test_every_slot_can_be_reached(logs: dict[int, Log], depth: int) -> None:
    log = logs[depth]
    for slot in range(depth):
        state = log.history.at_slot(slot)
        assert (state.slot, state.write, state.time) == (slot, log.records[slot].write, log.records[slot].time)
        assert state == log.history.at(Point(branch="main", slot=slot))
        if slot:
            assert state.tables["t"].pin.counter == slot + 1


@pytest.mark.parametrize("slot", [0, 31, 32, 500, 999])
def test_reaching_a_slot_is_bounded(logs: dict[int, Log], slot: int) -> None:
    with metering() as cost:
        logs[1000].history.at_slot(slot)
    assert cost.total <= 2 * CHECKPOINT_EVERY + 4
    assert cost.hops <= 2


@pytest.mark.parametrize(
    ("slot", "index"), [(-1, None), (-1, 0), (100, None), (100, 0), (10**15, 0), (5, 1), (5, -1), (0, 7)]
)
def test_a_commit_that_is_not_there_is_not_found(logs: dict[int, Log], slot: int, index: int | None) -> None:
    with pytest.raises(CommitNotFound, match="There is no commit"):
        logs[100].history.at_slot(slot, index)


@pytest.mark.parametrize("point", [Point("other", 3), Point("main", 100), Point("main", 3, 1), Point("main", -1)])
def test_a_point_that_is_not_on_the_line_is_not_found(logs: dict[int, Log], point: Point) -> None:
    with pytest.raises(CommitNotFound):
        logs[100].history.at(point)


@pytest.mark.parametrize("depth", [1, 100])
def test_a_time_means_the_last_commit_that_is_not_after_it(logs: dict[int, Log], depth: int) -> None:
    log = logs[depth]
    moment = timedelta(microseconds=1)
    for slot in range(depth):
        when = log.records[slot].time
        assert log.history.at_time(log.state, when).slot == slot
        assert log.history.at_time(log.state, when + moment).slot == slot
        if slot:
            assert log.history.at_time(log.state, when - moment).slot == slot - 1
    assert log.history.at_time(log.state, EPOCH + timedelta(days=999)).slot == log.head


def test_a_time_inside_a_group_means_the_last_of_its_commits_that_is_not_after_it() -> None:
    log = grown(in_memory(), 5)
    ids = ["a", "b", "c"]
    times = [EPOCH + timedelta(seconds=4, microseconds=100 * (n + 1)) for n in range(3)]
    log.add(*(_at(commit(create(i, i), message=i), when) for i, when in zip(ids, times, strict=True)), time=times[-1])
    log.add(_at(commit(create("d", "d"), message="d"), EPOCH + timedelta(seconds=9)), time=EPOCH + timedelta(seconds=9))
    moment = timedelta(microseconds=1)
    for index, when in enumerate(times):
        for exactly in (when, when + moment):
            found = log.history.at_time(log.state, exactly)
            assert (found.head.slot, found.head.index) == (5, index)
            assert {"a", "b", "c"} & set(found.tables) == set(ids[: index + 1])
    assert log.history.at_time(log.state, times[0] - moment).head.slot == 4
    child = log.fork("child", Point("main", 5, 1)).grow(1)
    assert child.history.at_time(child.state, times[2]).head == Point("main", 5, 1)


def _at(made: Commit, when: datetime) -> Commit:
    return msgspec.structs.replace(made, time=when)


@pytest.mark.parametrize("depth", DEPTHS)
def test_before_the_first_commit_there_is_nothing(logs: dict[int, Log], depth: int) -> None:
    log = logs[depth]
    with pytest.raises(CommitNotFound, match="There is no commit at or before 2025-12-31T23:59:59.999999"):
        log.history.at_time(log.state, EPOCH - timedelta(microseconds=1))


def test_finding_a_time_is_bounded(logs: dict[int, Log]) -> None:
    log = logs[1000]
    with metering() as cost:
        assert log.history.at_time(log.state, EPOCH + timedelta(seconds=333)).slot == 333
    assert cost.hops <= 6
    assert cost.total <= 130


# -- branches ----------------------------------------------------------------------------------------------------------


class Family:
    """main with a group of three at slot 20; `child` starts inside it, `grand` starts inside a group of child."""

    def __init__(self) -> None:
        self.main = grown(in_memory(), 20)
        self.main.add(*group("main", 20))
        self.main.grow(60)
        self.child = self.main.fork("child", Point(branch="main", slot=20, index=1)).grow(4)
        self.child.add(*group("child", 25))
        self.child.grow(50)
        self.grand = self.child.fork("grand", Point(branch="child", slot=25, index=0)).grow(45)


def group(name: str, slot: int) -> list[Commit]:
    return [commit(create(f"{name}-{i}", f"{name}-{i}"), message=f"{name} {slot}.{i}") for i in range(3)]


@pytest.fixture(scope="module")
def family() -> Family:
    """Only ever read."""
    return Family()


def test_a_branch_sees_its_part_of_a_group_and_nothing_after_it(family: Family) -> None:
    assert {"main-0", "main-1", "main-2"} <= family.main.state.tables.keys()
    for log in (family.child, family.grand):
        state = log.history.open()
        assert bare(state) == bare(log.state)
        assert {"main-0", "main-1"} <= state.tables.keys()
        assert "main-2" not in state.tables
    assert "child-0" in family.grand.state.tables
    assert "child-1" not in family.grand.state.tables


def test_every_commit_of_a_line_can_be_reached_and_no_other(family: Family) -> None:
    history = family.grand.history
    inside = [Point("main", 20, 1), Point("main", 0), Point("child", 21), Point("child", 25, 0), Point("grand", 26)]
    outside = [Point("main", 20, 2), Point("main", 21), Point("child", 20), Point("child", 25, 1), Point("child", 26)]
    assert [history.at(point).head for point in inside] == inside
    for point in outside:
        with pytest.raises(CommitNotFound):
            history.at(point)


@pytest.mark.parametrize("index", [2, 1, 0, None])
def test_a_slot_in_which_a_branch_starts_ends_where_the_branch_starts(family: Family, index: int | None) -> None:
    history = family.child.history
    if index == 2:
        with pytest.raises(CommitNotFound):
            history.at_slot(20, index)
        return
    state = history.at_slot(20, index)
    assert state.head == Point("main", 20, 1 if index is None else index)
    assert "main-2" not in state.tables


def test_the_log_is_newest_first_along_the_whole_line(family: Family) -> None:
    expected = [Point("grand", slot) for slot in range(70, 25, -1)]
    expected += [Point("child", 25, 0), *(Point("child", slot) for slot in range(24, 20, -1))]
    expected += [Point("main", 20, 1), Point("main", 20, 0), *(Point("main", slot) for slot in range(19, -1, -1))]
    found = list(family.grand.history.commits(family.grand.state))
    assert [point for point, _ in found] == expected
    messages = {point: entry.message for point, entry in found}
    assert messages[Point("child", 25, 0)] == "child 25.0"
    assert messages[Point("main", 20, 1)] == "main 20.1"


def test_the_log_starts_at_the_state_it_is_asked_for(family: Family) -> None:
    history = family.main.history
    state = history.at(Point("main", 20, 1))
    assert [p.commit for p, _ in history.commits(state, after=17)] == ["20.1", "20.0", "19.0", "18.0"]
    assert [p.commit for p, _ in history.commits(history.at_slot(20), after=19)] == ["20.2", "20.1", "20.0"]
    assert list(history.commits(state, after=20)) == []


def test_reading_the_newest_commits_of_a_deep_log_reads_little(logs: dict[int, Log]) -> None:
    log = logs[1000]
    with metering() as cost:
        commits = log.history.commits(log.state)
        assert [next(commits)[0].slot for _ in range(5)] == [999, 998, 997, 996, 995]
    assert cost.total <= 8


def test_a_time_on_a_branch_ends_where_the_branch_starts(family: Family) -> None:
    history, head = family.child.history, family.child.state
    state = history.at_time(head, EPOCH + timedelta(seconds=20))
    assert state.head == Point("main", 20, 1)
    assert history.at_time(head, EPOCH + timedelta(seconds=21)).head == Point("child", 21)
    assert history.at_time(head, EPOCH + timedelta(seconds=3)).head == Point("main", 3)


def test_a_branch_from_a_point_below_its_parents_start_skips_the_parent() -> None:
    main = grown(in_memory(), 30)
    child = main.fork("child", Point("main", 20)).grow(3)
    grand = child.fork("grand", Point("main", 10)).grow(2)
    assert grand.line == Line(branch="grand", inherited=main.line.fork("x", Point("main", 10)).inherited)
    assert grand.line.start == 11
    assert bare(grand.history.open()) == bare(grand.state)
    assert [p.branch for p, _ in grand.history.commits(grand.state)] == ["grand"] * 2 + ["main"] * 11


def test_a_branch_from_a_branch_that_has_no_commits_has_the_same_start() -> None:
    main = grown(in_memory(), 30)
    child = main.fork("child", Point("main", 20))
    grand = child.fork("grand", Point("main", 20)).grow(2)
    assert grand.line.inherited == child.line.inherited
    assert bare(grand.history.open()) == bare(grand.state)


def test_branches_of_one_commit_do_not_see_one_another() -> None:
    main = grown(in_memory(), 40)
    one = main.fork("one", Point("main", 35)).grow(3)
    two = main.fork("two", Point("main", 35)).grow(40)
    main.grow(2)
    for log in (main, one, two):
        assert bare(log.history.open()) == bare(log.state)
        assert log.history.open().branch == log.line.branch


def test_a_branch_never_writes_a_checkpoint_for_its_parent() -> None:
    main = grown(in_memory(), 20)
    main.add(*group("main", 20))
    child = main.fork("child", Point("main", 20, 0))
    with contextlib.suppress(QuireError):  # to refuse is fine; to write one that lacks 20.1 and 20.2 is not
        child.history.write_checkpoint(child.state)
    hint = Hint(branch="main", head=20, checkpoint=Point("main", 20))
    assert bare(main.history.open(hint)) == bare(main.state)


@st.composite
def families(draw: st.DrawFn) -> list[Log]:
    """Branches of branches at random commits, with groups, and with a checkpoint at any slot that has one."""
    shuffle = random.Random(draw(st.integers(0, 2**32)))
    logs = [grown(in_memory(), 1)]
    for number in range(draw(st.integers(1, 3))):
        for log in logs:
            for _ in range(draw(st.integers(0, 5))):
                slot = log.head + 1
                size = draw(st.integers(1, 3))
                log.add(*(change(log, f"{log.line.branch}-{slot}-{i}") for i in range(size)))
                if draw(st.integers(0, 3)) == 0:
                    log.write_checkpoint()
        parent = shuffle.choice(logs)
        points = [point for point, _ in parent.history.commits(parent.state)]
        logs.append(parent.fork(f"b{number}", shuffle.choice(points)))
    return logs


def change(log: Log, name: str) -> Commit:
    if "t" in log.state.tables and len(name) % 2:
        return commit(append("t", "t", log.head + 1), create(name, name), message=name)
    return commit(create(name, name), message=name)


@settings(max_examples=budget(15, full=40), deadline=None)
@given(families())
def test_any_commit_of_any_branch_is_what_a_replay_of_its_line_says(logs: list[Log]) -> None:
    for log in logs:
        history = log.history
        commits = list(history.commits(log.state))
        assert bare(history.open()) == bare(log.state)
        oldest_first = list(reversed(commits))
        for count, (point, _) in enumerate(oldest_first, 1):
            state = history.at(point)
            expected: set[str] = set()
            for _, entry in oldest_first[:count]:
                expected |= {c.table for c in entry.changes}
            assert state.tables.keys() == expected
            assert state.head == point


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_due_after_enough_slots_and_only_then() -> None:
    log = grown(in_memory(), CHECKPOINT_EVERY)
    slots = [int(e.key[-20:]) for e in log.store.list("_quire/log/main") if "checkpoint" in e.key]
    assert slots == [CHECKPOINT_EVERY - 1]
    log.grow(CHECKPOINT_EVERY)
    slots = [int(e.key[-20:]) for e in log.store.list("_quire/log/main") if "checkpoint" in e.key]
    assert slots == [CHECKPOINT_EVERY - 1, 2 * CHECKPOINT_EVERY - 1]


def test_a_checkpoint_has_the_same_bytes_whoever_writes_it() -> None:
    log = grown(in_memory(), 70)
    at = log.checkpoint
    assert at is not None
    body = log.store.get(checkpoint_key(at))
    log.store.delete(checkpoint_key(at))
    other = log.history
    other.write_checkpoint(other.at_slot(at.slot))
    assert log.store.get(checkpoint_key(at)) == body
    with metering() as cost:
        other.write_checkpoint(other.at_slot(at.slot))
    assert log.store.get(checkpoint_key(at)) == body
    assert cost.requests["create"] == 1


@pytest.mark.parametrize("depth", [100, 1000])
def test_a_checkpoint_that_is_missing_although_named_is_done_without(depth: int) -> None:
    log = grown(in_memory(), depth)
    assert log.checkpoint is not None
    log.store.delete(checkpoint_key(log.checkpoint))
    for hint in (None, Hint(branch="main", head=log.head, checkpoint=log.checkpoint)):
        with metering() as cost:
            assert bare(log.history.open(hint)) == bare(log.state)
        assert cost.total <= MOST_REQUESTS
    assert bare(log.history.at_slot(log.head)) == bare(log.state)


def test_a_log_of_which_every_checkpoint_is_lost_is_still_read() -> None:
    log = grown(in_memory(), 150)
    for entry in list(log.store.list("_quire/log/main")):
        if "checkpoint" in entry.key:
            log.store.delete(entry.key)
    for hint in (None, Hint(branch="main", head=log.head, checkpoint=log.checkpoint)):
        assert bare(log.history.open(hint)) == bare(log.state)


def test_records_are_not_read_again_for_every_checkpoint_that_is_lost() -> None:
    log = grown(in_memory(), 600)
    for entry in list(log.store.list("_quire/log/main")):
        if "checkpoint" in entry.key:
            log.store.delete(entry.key)
    with metering() as cost:
        assert bare(log.history.at_slot(log.head)) == bare(log.state)
    assert cost.total <= 2 * 600


def test_a_missing_slot_is_reported_without_reading_the_whole_log() -> None:
    log = grown(in_memory(), 600)
    log.store.delete(slot_key("main", 598))
    with metering() as cost, pytest.raises(CorruptRecord, match="missing"):
        log.history.at_slot(log.head)
    assert cost.total <= MOST_REQUESTS


@pytest.mark.parametrize("body", [b"", b"garbage", b"{}", b'{"format":1,"branch":"main"}'])
def test_a_checkpoint_of_garbage_is_named(body: bytes) -> None:
    log = grown(in_memory(), 50)
    assert log.checkpoint is not None
    log.store.put(checkpoint_key(log.checkpoint), body)
    with pytest.raises(CorruptRecord) as caught:
        log.history.at_slot(45)
    assert caught.value.object == checkpoint_key(log.checkpoint)


def test_a_checkpoint_of_the_future_is_refused() -> None:
    log = grown(in_memory(), 50)
    assert log.checkpoint is not None
    log.store.put(checkpoint_key(log.checkpoint), b'{"format":7}')
    with pytest.raises(NewerFormat) as caught:
        log.history.at_slot(45)
    assert caught.value.found == 7


@pytest.mark.parametrize("wrong", [{"slot": 30}, {"branch": "other"}])
def test_a_checkpoint_that_says_it_is_another_is_corrupt(wrong: dict[str, Any]) -> None:
    log = grown(in_memory(), 50)
    assert log.checkpoint is not None
    state = log.history.at_slot(log.checkpoint.slot)
    log.store.put(checkpoint_key(log.checkpoint), encode(msgspec.structs.replace(state, **wrong)))
    with pytest.raises(CorruptRecord, match="it says that it is the state at slot"):
        log.history.at_slot(45)


# -- logs that are damaged ---------------------------------------------------------------------------------------------


def test_a_slot_that_is_missing_in_the_middle_is_named() -> None:
    log = grown(in_memory(), 60)
    log.store.delete(slot_key("main", 50))
    with pytest.raises(CorruptRecord, match="missing"):
        log.history.open(Hint(branch="main", head=59, checkpoint=log.checkpoint))
    with pytest.raises(CorruptRecord, match="slot 50 is missing"):
        list(log.history.commits(log.state))


def test_a_chain_that_is_broken_is_named_wherever_it_is_read() -> None:
    log = grown(in_memory(), 60)
    broken = msgspec.structs.replace(log.records[50], previous="elsewhere")
    log.store.put(slot_key("main", 50), encode(broken))
    before = log.history.at_slot(49)
    readers = (
        lambda: log.history.open(),
        lambda: log.history.open(Hint(branch="main", head=59, checkpoint=log.checkpoint)),
        lambda: log.history.at_slot(55),
        lambda: log.history.refresh(before),
        lambda: log.history.advance(before, {broken.slot: broken}),
    )
    for read in readers:
        with pytest.raises(CorruptRecord, match="it follows record elsewhere") as caught:
            read()
        assert caught.value.object == "slot 50 of log main"


def test_a_record_of_the_future_is_refused_by_a_reader_that_follows() -> None:
    log = grown(in_memory(), 5)
    history = log.history
    state = history.open()
    log.store.put(slot_key("main", 5), b'{"format":999}')
    with pytest.raises(NewerFormat):
        history.refresh(state)


def test_a_log_that_does_not_exist_is_damage() -> None:
    store = in_memory()
    with pytest.raises(CorruptRecord, match="it has no slot"):
        History(store, LogLedger(store), Line(branch="nowhere")).open()


# -- hints -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["main", "feature/a b", "ä%2F", "x.quire-tmp", "x#1", "..", "é" * 33], ids=ascii)
def test_a_hint_is_read_as_it_was_written(store: Store, name: str) -> None:
    assert read_hint(store, name) is None
    hint = Hint(branch="b", head=7, checkpoint=Point(branch="b", slot=3), backfilled=5)
    write_hint(store, name, hint)
    assert read_hint(store, name) == hint
    write_hint(store, name, msgspec.structs.replace(hint, head=8))
    found = read_hint(store, name)
    assert found is not None
    assert found.head == 8


@given(st.binary(max_size=60))
def test_any_bytes_are_a_hint_or_none(body: bytes) -> None:
    assert parse_hint(body, "main") is None or isinstance(parse_hint(body, "main"), Hint)


def test_a_record_is_not_taken_for_a_hint() -> None:
    record: Record = grown(in_memory(), 1).records[0]
    assert parse_hint(encode(record), "main") is None
