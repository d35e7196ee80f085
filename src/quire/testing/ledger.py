"""What every ledger must do, as tests that run against any implementation.

Derive a class in a pytest module and give it a fixture `factory`: a callable without arguments that opens the ledger on
a place which is empty when the test starts. Every call opens the same place anew, as another program would.

    class TestMyLedger(LedgerConformance):
        @pytest.fixture
        def factory(self, tmp_path):
            return partial(open_my_ledger, str(tmp_path))

The factory is sent to other processes, so it must be picklable. A ledger that lives in one process only says so and
leaves out the one test that needs more:

    class TestInMemory(LedgerConformance):
        test_processes_race_and_one_wins_each_slot = None
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from quire.errors import DeadlineExceeded
from quire.ledger import (
    FORMAT,
    Change,
    Commit,
    Keys,
    Ledger,
    OpaqueToken,
    Pin,
    Point,
    Read,
    Record,
    StreamToken,
    TableInfo,
    encode,
    new_id,
)
from quire.store import Outcome
from quire.testing import processes

Factory = Callable[[], Ledger]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def make_record(branch: str, slot: int, *, previous: str = "", **fields: Any) -> Record:
    """A small valid record: one commit, a fresh write id, one second of record time per slot."""
    when = EPOCH + timedelta(seconds=slot)
    write = fields.pop("write", None) or new_id()
    commits = fields.pop("commits", None)
    if commits is None:
        commits = (Commit(write=write, time=when, author="conformance", message=f"slot {slot}"),)
    return Record(
        format=FORMAT,
        branch=branch,
        slot=slot,
        write=write,
        previous=previous,
        time=fields.pop("time", when),
        commits=commits,
        **fields,
    )


def make_chain(branch: str, count: int, *, first: int = 0, previous: str = "") -> list[Record]:
    """Records for consecutive slots, each naming the one before it."""
    chain: list[Record] = []
    for slot in range(first, first + count):
        chain.append(make_record(branch, slot, previous=previous))
        previous = chain[-1].write
    return chain


def make_full_record(branch: str, slot: int) -> Record:
    """A record in which every field that a record may have is set, with text that is easy to mangle."""
    when = datetime(2026, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC)
    pin = Pin(format="lance", location="tables/t1", version="9223372036854775809", counter=7, rows=3, bytes=9, head=2)
    info = TableInfo(id="t1", name="naïve.表", key=("a", "b"), stable_row_ids=True, validator="graph")
    keys = Keys(columns=("a", "b"), count=2, hashes="AAECAwQFBgc=")
    change = Change(
        table="t1", name="naïve.表", ops=("create", "append"), pin=pin, info=info, keys=(keys,), added=3, removed=1
    )
    full = Commit(
        write=new_id(),
        time=when,
        author='a "quoted" <author>',
        message="line one\nline two\t\x7f \U0001f4da \u2028",
        parents=(Point(branch=branch, slot=1, index=2), Point(branch="elsewhere", slot=9)),
        changes=(change, Change(table="t2", name="gone", ops=("drop",), removed=5)),
        reads=(Read(kind="key-exists", table="t1", columns=("a",), count=1), Read(kind="table", table="t2")),
        isolation="serializable",
        stream=StreamToken(scope="kafka/orders", sequence=2**62),
        token=OpaqueToken(id="qt-1", minted=when),
        reverts=Point(branch=branch, slot=0),
        adopts=Point(branch="elsewhere", slot=9),
        reaches={"elsewhere": (9, 0)},
    )
    bare = Commit(write=new_id(), time=when, author="")
    return make_record(
        branch,
        slot,
        previous="before",
        time=when,
        kind="claim",
        epoch=3,
        checkpoint=Point(branch=branch, slot=0),
        commits=(full, bare),
    )


def make_tombstone(record: Record, checkpoint: int | None = None) -> Record:
    """What is left of a record that was cleaned up."""
    near = None if checkpoint is None else Point(branch=record.branch, slot=checkpoint)
    return make_record(
        record.branch,
        record.slot,
        previous=record.previous,
        write=record.write,
        time=record.time,
        kind="tombstone",
        commits=(),
        checkpoint=near,
    )


def make_large_record(branch: str, slot: int, size: int) -> Record:
    """A record whose commits alone take more than `size` bytes."""
    commit = Commit(write=new_id(), time=EPOCH, author="conformance", message="x" * size)
    return make_record(branch, slot, commits=(commit,))


class LedgerConformance:
    """The promises of `quire.ledger.Ledger`. Derive from it and provide the fixture `factory`."""

    racers: ClassVar[int] = 12
    """How many threads, and how many processes, race."""
    raced_slots: ClassVar[int] = 8
    depth: ClassVar[int] = 70
    """How many slots the logs have in which the head is searched."""
    large: ClassVar[Sequence[int]] = (70_000, 1_000_000)
    """Bytes in records that an implementation may have to store in a special way."""

    # -- append -----------------------------------------------------------------------------------------------

    def test_an_append_to_a_free_slot_is_committed_and_can_be_read(self, factory: Factory) -> None:
        ledger, record = factory(), make_record("b", 0)
        appended = ledger.append(record)
        assert appended.outcome is Outcome.COMMITTED
        assert appended.winner is None
        assert ledger.read("b", [0]) == [record]

    def test_every_field_of_a_record_survives(self, factory: Factory) -> None:
        record = make_full_record("b", 4)
        factory().append(record)
        assert factory().read("b", [4]) == [record]

    def test_a_second_append_conflicts_and_returns_the_winner(self, factory: Factory) -> None:
        ledger, winner = factory(), make_full_record("b", 0)
        ledger.append(winner)
        appended = ledger.append(make_record("b", 0))
        assert appended.outcome is Outcome.CONFLICT
        assert appended.winner == winner
        assert ledger.read("b", [0]) == [winner]

    def test_an_append_conflicts_with_what_another_program_wrote(self, factory: Factory) -> None:
        mine, theirs, winner = factory(), factory(), make_record("b", 0)
        assert mine.read("b", [0]) == [None]
        theirs.append(winner)
        assert mine.append(make_record("b", 0)).winner == winner

    def test_ones_own_retry_is_committed(self, factory: Factory) -> None:
        ledger, record = factory(), make_record("b", 0)
        assert ledger.append(record).outcome is Outcome.COMMITTED
        assert ledger.append(record).outcome is Outcome.COMMITTED
        assert factory().append(record).outcome is Outcome.COMMITTED
        assert ledger.read("b", [0, 1]) == [record, None]

    def test_ones_own_retry_is_committed_after_others_have_gone_on(self, factory: Factory) -> None:
        ledger, chain = factory(), make_chain("b", 5)
        fill(ledger, chain)
        assert ledger.append(chain[1]).outcome is Outcome.COMMITTED
        assert ledger.read("b", list(range(5))) == chain

    def test_a_stalled_writer_never_finds_an_old_slot_free(self, factory: Factory) -> None:
        ledger, chain = factory(), make_chain("b", 20)
        fill(ledger, chain)
        for slot in (0, 7, 19):
            appended = factory().append(make_record("b", slot))
            assert (appended.outcome, appended.winner) == (Outcome.CONFLICT, chain[slot])

    def test_a_write_that_lost_may_win_a_later_slot(self, factory: Factory) -> None:
        ledger, first = factory(), make_record("b", 0)
        ledger.append(first)
        assert ledger.append(make_record("b", 0, write="mine")).outcome is Outcome.CONFLICT
        moved = make_record("b", 1, write="mine", previous=first.write)
        assert ledger.append(moved).outcome is Outcome.COMMITTED
        assert ledger.read("b", [0, 1]) == [first, moved]

    def test_large_records_come_back_whole(self, factory: Factory) -> None:
        ledger = factory()
        records = [make_large_record("b", slot, size) for slot, size in enumerate(self.large)]
        for record in records:
            assert ledger.append(record).outcome is Outcome.COMMITTED
            assert ledger.append(record).outcome is Outcome.COMMITTED
            lost = ledger.append(make_large_record("b", record.slot, self.large[0]))
            assert (lost.outcome, lost.winner) == (Outcome.CONFLICT, record)
        assert factory().read("b", list(range(len(records)))) == records

    def test_nothing_is_written_when_time_is_up(self, factory: Factory) -> None:
        ledger = factory()
        try:
            appended = ledger.append(make_record("b", 0), deadline=time.monotonic() - 1)
        except DeadlineExceeded:
            pass
        else:
            raise AssertionError(f"an append after its deadline must raise DeadlineExceeded, not return {appended}")
        assert ledger.read("b", [0]) == [None]
        assert ledger.append(make_record("b", 0), deadline=time.monotonic() + 600).outcome is Outcome.COMMITTED

    # -- read -------------------------------------------------------------------------------------------------

    def test_records_come_in_the_order_asked_for(self, factory: Factory) -> None:
        ledger, chain = factory(), make_chain("b", 4)
        fill(ledger, chain)
        assert ledger.read("b", [3, 0, 2, 0]) == [chain[3], chain[0], chain[2], chain[0]]

    def test_an_absent_slot_is_none(self, factory: Factory) -> None:
        ledger, record = factory(), make_record("b", 0)
        ledger.append(record)
        assert ledger.read("b", [1, 0, 10**9]) == [None, record, None]
        assert ledger.read("nowhere", [0]) == [None]
        assert ledger.read("b", []) == []

    def test_an_absent_slot_is_seen_once_it_is_written(self, factory: Factory) -> None:
        reader, writer = factory(), factory()
        for record in make_chain("b", 3):
            assert reader.read("b", [record.slot]) == [None]
            writer.append(record)
            assert reader.read("b", [record.slot]) == [record]

    def test_branches_are_apart(self, factory: Factory) -> None:
        ledger = factory()
        one, two = make_record("one", 0), make_record("two", 0)
        assert ledger.append(one).outcome is Outcome.COMMITTED
        assert ledger.append(two).outcome is Outcome.COMMITTED
        fill(ledger, make_chain("two", 3, first=1))
        assert (ledger.read("one", [0, 1]), ledger.read("two", [0])) == ([one, None], [two])
        assert (ledger.head("one", 0), ledger.head("two", 0)) == (0, 3)

    def test_a_log_may_start_at_any_slot(self, factory: Factory) -> None:
        ledger, chain = factory(), make_chain("b", 12, first=1000)
        fill(ledger, chain)
        assert ledger.read("b", [999, 1000, 1011, 1012]) == [None, chain[0], chain[-1], None]
        beliefs = (-1, 0, 500, 999, 1000, 1005, 1011, 1012, 1500, 10**6)
        assert {b: ledger.head("b", b, first=1000) for b in beliefs} == dict.fromkeys(beliefs, 1011)
        assert [ledger.head("empty", belief, first=1000) for belief in (999, 1000, 5000)] == [-1] * 3

    # -- head -------------------------------------------------------------------------------------------------

    def test_an_empty_log_has_no_head(self, factory: Factory) -> None:
        ledger = factory()
        assert [ledger.head("b", belief) for belief in (-1, 0, 1, 50, 10**6)] == [-1] * 5

    def test_the_head_is_found_from_any_belief(self, factory: Factory) -> None:
        ledger, last = factory(), self.depth - 1
        fill(ledger, make_chain("b", self.depth))
        beliefs = (last, last - 1, last // 2, 1, 0, -1, last + 1, last + 2, 3 * last, 10**6, 10**12)
        assert {belief: ledger.head("b", belief) for belief in beliefs} == dict.fromkeys(beliefs, last)

    def test_the_head_is_right_at_every_depth(self, factory: Factory) -> None:
        ledger = factory()
        for record in make_chain("b", 12):
            ledger.append(record)
            beliefs = (-1, 0, record.slot, record.slot + 3)
            assert [ledger.head("b", belief) for belief in beliefs] == [record.slot] * 4

    # -- bury -------------------------------------------------------------------------------------------------

    def test_a_buried_slot_still_exists(self, factory: Factory) -> None:
        ledger, chain = factory(), make_chain("b", 6)
        fill(ledger, chain)
        graves = [make_tombstone(record, checkpoint=5) for record in chain[:4]]
        for grave in graves:
            ledger.bury(grave)
        assert ledger.read("b", list(range(7))) == [*graves, *chain[4:], None]
        assert factory().read("b", [0, 3, 4]) == [graves[0], graves[3], chain[4]]
        assert [factory().head("b", belief) for belief in (-1, 0, 2, 5, 9)] == [5] * 5

    def test_an_append_to_a_buried_slot_conflicts_with_the_tombstone(self, factory: Factory) -> None:
        ledger, chain = factory(), make_chain("b", 3)
        fill(ledger, chain)
        grave = make_tombstone(chain[1])
        factory().bury(grave)
        for writer in (ledger, factory()):
            appended = writer.append(make_record("b", 1))
            assert (appended.outcome, appended.winner) == (Outcome.CONFLICT, grave)
        assert ledger.read("b", [1]) == [grave]

    def test_ones_own_append_is_committed_although_it_is_buried(self, factory: Factory) -> None:
        ledger, chain = factory(), make_chain("b", 3)
        fill(ledger, chain)
        grave = make_tombstone(chain[1])
        factory().bury(grave)
        assert ledger.append(chain[1]).outcome is Outcome.COMMITTED
        assert factory().append(chain[1]).outcome is Outcome.COMMITTED
        assert ledger.read("b", [1]) == [grave]

    def test_burying_again_changes_nothing(self, factory: Factory) -> None:
        ledger, chain = factory(), make_chain("b", 3)
        fill(ledger, chain)
        grave = make_tombstone(chain[0], checkpoint=2)
        for digger in (ledger, ledger, factory()):
            digger.bury(grave)
            assert factory().read("b", [0, 1, 2, 3]) == [grave, *chain[1:], None]

    def test_a_large_record_can_be_buried(self, factory: Factory) -> None:
        ledger, record = factory(), make_large_record("b", 0, self.large[0])
        fill(ledger, [record])
        ledger.bury(make_tombstone(record))
        assert factory().read("b", [0]) == [make_tombstone(record)]

    def test_a_slot_that_is_being_buried_is_never_absent(self, factory: Factory) -> None:
        chain = make_chain("b", 12)
        fill(factory(), chain)
        allowed = [{encode(record), encode(make_tombstone(record))} for record in chain]

        def bury_all() -> None:
            digger = factory()
            for record in chain[:-1]:
                digger.bury(make_tombstone(record))

        with ThreadPoolExecutor(2) as pool:
            diggers = [pool.submit(bury_all) for _ in range(2)]
            looks, ledger = 0, factory()
            while looks < 5 or not all(digger.done() for digger in diggers):
                for record, either in zip(ledger.read("b", list(range(12))), allowed, strict=True):
                    assert record is not None
                    assert encode(record) in either
                assert ledger.head("b", 3) == 11
                looks += 1
            for digger in diggers:
                digger.result()
        assert factory().read("b", list(range(12))) == [*map(make_tombstone, chain[:-1]), chain[-1]]

    def test_the_store_says_when_a_slot_was_written(self, factory: Factory) -> None:
        ledger, chain = factory(), make_chain("b", 4)
        fill(ledger, chain)
        ledger.append(make_record("other", 0))
        before = ledger.written("b")
        assert sorted(before) == [0, 1, 2, 3]
        assert sorted(before.values()) == [before[slot] for slot in range(4)]
        ledger.bury(make_tombstone(chain[1]))
        after = factory().written("b")
        assert after[1] >= before[3]
        assert {slot: after[slot] for slot in (0, 2, 3)} == {slot: before[slot] for slot in (0, 2, 3)}
        assert ledger.written("nothing") == {}

    # -- races ------------------------------------------------------------------------------------------------

    def test_threads_race_and_one_wins_each_slot(self, factory: Factory) -> None:
        barrier = threading.Barrier(self.racers)
        with ThreadPoolExecutor(self.racers) as pool:
            check_race(factory, race_on(pool, factory, barrier, self.racers, self.raced_slots))

    def test_processes_race_and_one_wins_each_slot(self, factory: Factory) -> None:
        forks = processes.context()
        with forks.Manager() as manager, ProcessPoolExecutor(self.racers, mp_context=forks) as pool:
            barrier = manager.Barrier(self.racers)
            check_race(factory, race_on(pool, factory, barrier, self.racers, self.raced_slots))


Race = list[tuple[str, Outcome, Record | None]]


def race(factory: Factory, barrier: Any, slots: int) -> Race:
    """Append to the same slots as everybody else; per slot the own write id, the outcome and the winner."""
    ledger = factory()
    results: Race = []
    for slot in range(slots):
        record = make_record("race", slot)
        barrier.wait(120)
        appended = ledger.append(record)
        results.append((record.write, appended.outcome, appended.winner))
    return results


def race_on(pool: Executor, factory: Factory, barrier: Any, racers: int, slots: int) -> list[Race]:
    """What each of so many racers on a pool found."""
    futures = [pool.submit(race, factory, barrier, slots) for _ in range(racers)]
    return [future.result(240) for future in futures]


def check_race(factory: Factory, races: list[Race]) -> None:
    """Exactly one racer won each slot, it is the one that can be read, and every loser was told so."""
    slots = len(races[0])
    held = factory().read("race", list(range(slots)))
    for slot, record in enumerate(held):
        assert record is not None
        seen = [results[slot] for results in races]
        assert [write for write, outcome, _ in seen if outcome is Outcome.COMMITTED] == [record.write]
        losers = [winner for write, outcome, winner in seen if write != record.write and outcome is Outcome.CONFLICT]
        assert losers == [record] * (len(races) - 1)
    assert factory().head("race", 0) == slots - 1


def fill(ledger: Ledger, records: Sequence[Record]) -> None:
    """Append these records, each of which must be committed."""
    for record in records:
        appended = ledger.append(record)
        assert appended.outcome is Outcome.COMMITTED, f"slot {record.slot}: {appended}"
