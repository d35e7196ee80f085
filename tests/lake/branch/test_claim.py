"""The writer epoch: who was there before a claim can never publish again."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import BranchClosed, Fenced, ReadOnly, Unsupported
from quire.lake.commit import detached
from quire.store import metering
from quire.testing import processes


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    made = quire.create(tmp_path / "lake", backfill=False)
    made.create_table("t", [{"id": 1}])
    return made


def append(lake: quire.Lake, number: int) -> None:
    with lake.transaction() as tx:
        tx["t"].append([{"id": number}])


def ids(lake: quire.Lake) -> list[int]:
    return sorted(r["id"] for r in lake["t"].to_pylist())


def test_another_branch_can_be_claimed_by_name(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", [{"id": 1}])
    side = lake.create_branch("side")
    assert lake.claim("side") == 1
    with pytest.raises(quire.errors.Fenced), side.transaction() as tx:
        tx["t"].append([{"id": 2}])
    with lake.transaction() as tx:
        tx["t"].append([{"id": 3}])
    with pytest.raises(quire.errors.BranchNotFound):
        lake.claim("nowhere")


def test_a_handle_that_was_open_before_is_fenced_for_good_and_the_claimer_goes_on(lake: quire.Lake) -> None:
    zombie = quire.open(lake.uri, backfill=False)
    assert lake.claim() == 1
    append(lake, 2)
    for _ in range(2):
        with pytest.raises(Fenced) as refused:
            append(zombie, 99)
        assert refused.value.epoch == 1
        assert not refused.value.retryable
        zombie.refresh()
    assert ids(lake) == [1, 2]
    assert ids(zombie) == [1, 2]


def test_a_transaction_in_flight_when_the_branch_is_claimed_is_refused(lake: quire.Lake) -> None:
    zombie = quire.open(lake.uri, backfill=False)
    tx = zombie.transaction()
    tx["t"].append([{"id": 99}])
    lake.claim()
    with pytest.raises(Fenced):
        tx.commit()
    assert ids(lake) == [1]


def test_a_handle_opened_after_the_claim_writes_and_a_second_claim_fences_the_first(lake: quire.Lake) -> None:
    assert lake.claim() == 1
    later = quire.open(lake.uri, backfill=False)
    append(later, 2)
    assert later.claim() == 2
    with pytest.raises(Fenced):
        append(lake, 99)
    append(later, 3)
    assert ids(later) == [1, 2, 3]


def test_a_claim_fences_no_thread_of_its_own_handle(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can see that the branch was claimed can see by whom."""
    live, seen = lake._live, []
    won = live.won

    def watched(state: Any, record: Any) -> Any:
        seen.append((live.epoch, record.epoch))
        return won(state, record)

    monkeypatch.setattr(live, "won", watched)
    epoch = lake.claim()
    assert seen == [(epoch, epoch)]


def test_claimers_that_race_all_win_and_only_the_last_stays(lake: quire.Lake) -> None:
    handles = [quire.open(lake.uri, backfill=False) for _ in range(4)]
    epochs: dict[int, int] = {}

    def claim(number: int) -> None:
        epochs[number] = handles[number].claim()

    threads = [threading.Thread(target=claim, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(epochs.values()) == [1, 2, 3, 4]
    last = max(epochs, key=lambda n: epochs[n])
    for number, handle in enumerate(handles):
        if number == last:
            append(handle, 2)
        else:
            with pytest.raises(Fenced):
                append(handle, 99)
    assert ids(quire.open(lake.uri)) == [1, 2]


def zombie_process(uri: str, opened: multiprocessing.Queue[str], go: multiprocessing.Queue[str]) -> None:
    lake = quire.open(uri, backfill=False)
    opened.put("open")
    go.get(timeout=60)
    try:
        append(lake, 99)
        opened.put("committed")
    except Fenced:
        opened.put("fenced")


def test_a_zombie_in_another_process_is_fenced(lake: quire.Lake) -> None:
    context = processes.context()
    answers, go = context.Queue(), context.Queue()
    process = context.Process(target=zombie_process, args=(lake.uri, answers, go))
    process.start()
    assert answers.get(timeout=60) == "open"
    lake.claim()
    go.put("go")
    assert answers.get(timeout=60) == "fenced"
    process.join()
    assert ids(lake) == [1]


def test_branches_are_claimed_apart_and_a_claim_survives_checkpoints_and_cold_opens(lake: quire.Lake) -> None:
    b = lake.create_branch("b")
    stale = quire.open(lake.uri, branch="b", backfill=False)
    b.claim()
    append(lake, 2)
    with pytest.raises(Fenced):
        append(stale, 99)
    for number in range(3, 40):
        append(b, number)
    b.flush()
    assert quire.open(lake.uri, branch="b").claim() == 2
    assert ids(b) == [1, *range(3, 40)]


def test_the_claim_is_one_request_and_no_commit_of_the_log(lake: quire.Lake) -> None:
    lake.refresh()
    with metering() as cost:
        lake.claim()
    assert cost.requests == {"get": 1, "create": 1}
    assert [c.id for c in lake.log()] == ["1.0", "0.0"]
    append(lake, 2)
    assert [c.id for c in lake.log()] == ["3.0", "1.0", "0.0"]
    assert lake.at(commit="1.0")["t"].count() == 1


def test_a_claim_needs_a_writable_open_branch(lake: quire.Lake) -> None:
    with pytest.raises(ReadOnly):
        quire.open(lake.uri, read_only=True).claim()
    b = lake.create_branch("b")
    lake.delete_branch("b")
    with pytest.raises(BranchClosed):
        b.claim()


# -- what began before a claim ends with it, whoever commits it -------------------------------------------------------


def test_work_that_began_before_a_claim_is_refused_whoever_commits_it(lake: quire.Lake) -> None:
    """Data files that other processes wrote, taken over by a handle that was opened after the claim."""
    begun = pickle.loads(pickle.dumps(detached.begin(quire.open(lake.uri, backfill=False))))
    lake.claim()
    later = quire.open(lake.uri, backfill=False)
    with pytest.raises(Fenced) as refused, detached.resume(later, begun, "late") as tx:
        tx["t"].append([{"id": 99}])
    assert (refused.value.epoch, refused.value.began) == (1, 0)
    detached.end(later, begun)
    fresh = detached.begin(later)
    with detached.resume(quire.open(lake.uri, backfill=False), fresh, "in time") as tx:
        tx["t"].append([{"id": 2}])
    detached.end(later, fresh)
    assert ids(lake) == [1, 2]


def test_the_claimer_takes_over_no_work_that_another_began(lake: quire.Lake) -> None:
    begun = detached.begin(quire.open(lake.uri, backfill=False))
    lake.claim()
    with pytest.raises(Fenced), detached.resume(lake, begun, "late") as tx:
        tx["t"].append([{"id": 99}])
    assert ids(lake) == [1]


def test_a_fenced_handle_begins_no_work_for_others(lake: quire.Lake) -> None:
    old = quire.open(lake.uri, backfill=False)
    lake.claim()
    with pytest.raises(Fenced):
        detached.begin(old)


def test_a_claim_ends_what_its_own_handle_began_before_a_claim_by_another(lake: quire.Lake) -> None:
    tx, mine = lake.transaction(), lake.transaction()
    tx["t"].append([{"id": 99}])
    other = quire.open(lake.uri, backfill=False)
    other.claim()
    lake.claim()
    with pytest.raises(Fenced):
        tx.commit()
    with pytest.raises(Fenced):
        append(other, 99)
    mine.discard()
    during = lake.transaction()
    lake.claim()
    during["t"].append([{"id": 2}])
    during.commit()  # nobody else came between
    assert ids(lake) == [1, 2]


@pytest.mark.parametrize("way", ["there and back", "a branch first", "twice"])
def test_a_handle_that_is_made_from_an_old_one_is_as_old(lake: quire.Lake, way: str) -> None:
    lake.create_branch("side")
    old = quire.open(lake.uri, backfill=False)
    if way == "there and back":
        aside = old.branch("side")
        lake.claim()
        derived = aside.branch("main")
    elif way == "a branch first":
        old.branch("side").branch("main")
        lake.claim()
        derived = old.branch("side").branch("main")
    else:
        lake.claim()
        derived = old.branch("side").branch("main").branch("side").branch("main")
    derived.refresh()
    for _ in range(2):
        with pytest.raises(Fenced):
            append(derived, 99)
    append(old.branch("side"), 3)  # that branch was not claimed
    assert ids(lake) == [1]


def test_handles_that_the_claimer_makes_go_on(lake: quire.Lake) -> None:
    lake.create_branch("side")
    before = lake.branch("side")
    assert lake.claim("side") == 1
    append(lake.branch("side"), 2)
    with pytest.raises(Fenced):
        append(before, 99)
    assert ids(lake.branch("side")) == [1, 2]


def test_a_writer_of_streams_that_is_sent_elsewhere_is_as_old_as_its_handle(lake: quire.Lake) -> None:
    pytest.importorskip("pyspark")
    from quire.spark.stream import sink

    old = sink(quire.open(lake.uri, backfill=False), _no_batch, stream="s")
    lake.claim()
    sent = pickle.loads(pickle.dumps(old))
    with pytest.raises(Fenced):
        append(sent.lake, 99)
    append(pickle.loads(pickle.dumps(sink(lake, _no_batch, stream="s"))).lake, 2)
    assert ids(lake) == [1, 2]


def _no_batch(tx: Any, rows: Any) -> None:
    """A sink writes nothing here."""


def test_a_handle_cannot_be_pickled_around_a_claim(lake: quire.Lake) -> None:
    with pytest.raises(Unsupported):
        pickle.dumps(lake)
    snapshot = pickle.loads(pickle.dumps(lake.snapshot()))
    assert not hasattr(snapshot, "transaction")
    assert snapshot["t"].count() == 1
