"""A process is killed at every place of the protocol: readers see both tables change or neither; the next goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow.compute as pc
import pytest
from tests.system import ledgers
from tests.system.writers import TABLES

import quire
from quire.testing.crash import POINTS, NotReached, Point, crash

pytestmark = pytest.mark.slow

UNSEEN = [
    "stage: data files written",
    "stage: one of two tables staged",
    "stage: before the files are synced",
    "publish: before the slot is sent",
    "publish: slot written aside, not linked",
]
DONE = [
    "publish: slot created",
    "publish: outcome known",
    "backfill: before the first table",
    "backfill: between two tables",
    "backfill: before a transaction's file",
    "backfill: transaction's file written",
    "backfill: canonical manifest created",
    "backfill: after the last table",
]


@pytest.fixture(scope="module")
def watcher() -> Iterator[ledgers.Watcher]:
    """Another process that reads all the time."""
    process = ledgers.Watcher()
    yield process
    process.close()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    place = str(tmp_path / "lake")
    ledgers.create(place)
    return place


@pytest.mark.parametrize("point", UNSEEN)
def test_a_crash_before_the_slot_exists_changes_neither_table(uri: str, watcher: ledgers.Watcher, point: str) -> None:
    watcher.watch(uri)

    crash(POINTS[point], ledgers.write_once, uri)

    assert watcher.seen() == {"1.0": ledgers.NOTHING}
    assert plain_sums(uri) == ledgers.NOTHING
    check_that_the_next_writer_goes_on(uri, watcher, before=ledgers.NOTHING)


@pytest.mark.parametrize("point", DONE)
def test_a_crash_after_the_slot_exists_has_changed_both_tables(uri: str, watcher: ledgers.Watcher, point: str) -> None:
    watcher.watch(uri)

    crash(POINTS[point], ledgers.write_once, uri)

    seen = watcher.seen()
    assert seen.pop("2.0") == ledgers.EVERYTHING
    assert seen in ({}, {"1.0": ledgers.NOTHING})
    check_that_the_next_writer_goes_on(uri, watcher, before=ledgers.EVERYTHING)


@pytest.mark.parametrize("point", DONE)
def test_the_next_opener_finishes_the_backfill_of_a_dead_writer(uri: str, point: str) -> None:
    crash(POINTS[point], ledgers.write_once, uri)

    with quire.open(uri) as lake:
        assert lake.flush()
        assert lake.status()["pending_backfill"] == []
        assert lake.status()["background_failures"] == []

    assert plain_sums(uri) == ledgers.EVERYTHING


def test_a_reader_does_not_finish_the_backfill_of_a_dead_writer(uri: str) -> None:
    crash(POINTS["publish: slot created"], ledgers.write_once, uri)

    with quire.open(uri, read_only=True) as lake:
        assert ledgers.sums(lake.snapshot()) == ledgers.EVERYTHING

    assert plain_sums(uri) == ledgers.NOTHING


@pytest.mark.parametrize("second", ["backfill: transaction's file written", "backfill: canonical manifest created"])
def test_a_crash_while_finishing_the_backfill_of_a_dead_writer_is_finished_by_a_third(uri: str, second: str) -> None:
    crash(POINTS["publish: slot created"], ledgers.write_once, uri)
    crash(POINTS[second], ledgers.write_once, uri)

    with quire.open(uri) as lake:
        assert lake.flush()
        found = ledgers.sums(lake.snapshot())

    assert found == ledgers.EVERYTHING
    assert plain_sums(uri) == ledgers.EVERYTHING


@pytest.mark.parametrize("point", ["create table: before its files", "create table: one of two written"])
def test_a_crash_while_creating_tables_creates_none(uri: str, watcher: ledgers.Watcher, point: str) -> None:
    watcher.watch(uri)

    crash(POINTS[point], ledgers.create_two_more_tables, uri)

    assert watcher.seen() == {"1.0": ledgers.NOTHING}
    assert quire.open(uri, read_only=True).tables() == sorted(TABLES)
    ledgers.create_two_more_tables(uri)
    snapshot = quire.open(uri, read_only=True).snapshot()
    assert snapshot.tables() == sorted([*TABLES, "more_debits", "more_credits"])
    assert snapshot["more_debits"].to_pylist() == snapshot["more_credits"].to_pylist() == [{"id": 1, "amount": 5}]


@pytest.mark.parametrize(
    "point", ["publish: before the slot is sent", "publish: slot created", "backfill: before the first table"]
)
def test_a_crash_at_the_commit_that_creates_tables_creates_all_or_none(uri: str, point: str) -> None:
    crash(POINTS[point], ledgers.create_two_more_tables, uri)

    with quire.open(uri) as lake:
        expected = [] if point == "publish: before the slot is sent" else ["more_credits", "more_debits"]
        assert sorted(set(lake.tables()) - set(TABLES)) == expected
        for table in expected:
            assert lake[table].to_pylist() == [{"id": 1, "amount": 5}]


@pytest.mark.parametrize("point", [name for name in POINTS if name.startswith(("checkpoint", "hint"))])
def test_a_crash_at_a_checkpoint_or_hint_loses_no_commit(
    uri: str, watcher: ledgers.Watcher, tmp_path: Path, point: str
) -> None:
    acknowledged = tmp_path / "acknowledged"
    watcher.watch(uri)

    crash(POINTS[point], ledgers.write_many, uri, str(acknowledged), 60)

    seen = watcher.seen()
    assert all(len(set(found.values())) == 1 for found in seen.values()), seen
    with quire.open(uri) as lake:
        commits = [c.id for c in lake.log()]
        assert set(acknowledged.read_text().split() if acknowledged.exists() else []) <= set(commits)
        assert commits == [f"{slot}.0" for slot in reversed(range(len(commits)))]
        for commit in commits[:-1]:
            added = sum(range(int(commit.partition(".")[0])))
            assert ledgers.sums(lake.at(commit=commit)) == dict.fromkeys(TABLES, 6 + added)
    check_that_the_next_writer_goes_on(uri, watcher, before=ledgers.sums(quire.open(uri, read_only=True).snapshot()))


@pytest.mark.parametrize("point", ["create lake: first slot written", "create lake: format file written aside"])
def test_a_lake_whose_creation_crashed_does_not_exist_and_can_be_created(tmp_path: Path, point: str) -> None:
    place = str(tmp_path / "lake")

    crash(POINTS[point], ledgers.make_lake, place)

    with pytest.raises(quire.errors.LakeNotFound):
        quire.open(place)
    ledgers.create(place)
    assert ledgers.sums(quire.open(place).snapshot()) == ledgers.NOTHING


def test_a_lake_whose_creator_died_at_the_very_end_exists(tmp_path: Path) -> None:
    place = str(tmp_path / "lake")

    crash(POINTS["create lake: after"], ledgers.make_lake, place)

    with pytest.raises(quire.errors.LakeExists):
        quire.create(place)
    assert quire.open(place).tables() == []


def test_a_point_that_is_never_reached_is_reported(uri: str) -> None:
    with pytest.raises(NotReached):
        crash(Point("quire.store.store:Store.stat", "before", match="nowhere"), ledgers.write_once, uri)


def plain_sums(uri: str) -> dict[str, int]:
    """What a plain Lance reader sees."""
    snapshot = quire.open(uri, read_only=True).snapshot()
    places = {t: f"{uri}/{snapshot[t].describe()['location']}" for t in TABLES}
    return {t: pc.sum(lance.dataset(place).to_table()["amount"]).as_py() for t, place in places.items()}


def check_that_the_next_writer_goes_on(uri: str, watcher: ledgers.Watcher, before: dict[str, int]) -> None:
    """Nothing needs repair: another process opens the lake, writes, and plain readers see it."""
    with quire.open(uri) as lake:
        assert ledgers.sums(lake.snapshot()) == before
        with lake.transaction("next") as tx:
            for table in TABLES:
                tx[table].append([{"writer": 2, "seq": 0, "amount": 100}])
    expected = {t: n + 100 for t, n in before.items()}
    assert plain_sums(uri) == expected
    assert watcher.seen()[tx.receipt.commit] == expected
