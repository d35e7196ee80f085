"""Recovery finishes what dead writers left: bounded, reported, quiet, and beside live writers."""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.lake.upkeep.cleanup.test_cleanup import age
from tests.system import ledgers
from tests.system.test_read_only import listing
from tests.system.writers import TABLES

import quire
from quire.lake.upkeep.recovery import Maintenance
from quire.ledger import CHECKPOINT_EVERY
from quire.store import Meter, clock, metering
from quire.testing.crash import POINTS, crash

DEEP, SHALLOW, WIDE = (5, 200), (5, 3), (70, 1)
"""Tables, and commits that touch all of them."""


def make(place: Path, tables: int, commits: int) -> Path:
    """A lake whose writers left every version to others to backfill; one table was last changed by somebody else."""
    with quire.create(place, backfill=False, author="maker") as lake:
        with lake.transaction("tables") as tx:
            for n in range(tables):
                tx.create_table(f"t{n}", [{"id": 0}])
        for number in range(1, commits + 1):
            with lake.transaction(f"commit {number}", author=f"writer {number % 3}") as tx:
                for n in range(tables):
                    tx[f"t{n}"].append([{"id": number}])
        with lake.transaction("last", author="late writer") as tx:
            tx["t0"].append([{"id": -1}])
    return place


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand versions that plain readers do not see."""
    return make(tmp_path_factory.mktemp("deep") / "lake", *DEEP)


@pytest.fixture(scope="module")
def shallow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("shallow") / "lake", *SHALLOW)


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], str]:
    """A lake can be copied as it lies."""

    def copied(place: Path) -> str:
        return str(shutil.copytree(place, tmp_path / f"copy-{uuid.uuid4().hex}"))

    return copied


def plain(uri: str) -> dict[str, list[int]]:
    """What readers see that know nothing of Quire."""
    snapshot = quire.open(uri, read_only=True).snapshot()
    places = {t: f"{uri}/{snapshot[t].describe()['location']}" for t in snapshot}
    return {t: lance.dataset(place).to_table().column(0).to_pylist() for t, place in places.items()}


def published(uri: str) -> dict[str, list[int]]:
    snapshot = quire.open(uri, read_only=True).snapshot()
    return {t: snapshot[t].to_arrow().column(0).to_pylist() for t in snapshot}


def files(uri: str) -> set[str]:
    return {str(p.relative_to(uri)) for p in Path(uri).rglob("*") if p.is_file()}


def recovered(uri: str, progress: Any = None) -> tuple[Any, Meter]:
    with quire.open(uri, backfill=False, author="nurse") as lake, metering() as meter:
        return lake.recover(progress), meter


# -- a thousand versions ----------------------------------------------------------------------------------------------


def test_recovery_costs_by_table_and_not_by_version(copy: Callable[[Path], str], deep: Path, shallow: Path) -> None:
    far, near = copy(deep), copy(shallow)
    assert sum(len(rows) for rows in published(far).values()) > 1000
    assert {t: len(rows) for t, rows in plain(far).items()} == dict.fromkeys(published(far), 1)

    done, many = recovered(far)
    _, few = recovered(near)

    assert plain(far) == published(far)
    assert len(done.steps) == DEEP[0]
    # A checkpoint may come on top; nothing is counted by versions.
    assert many.total <= few.total + 6
    assert many.total <= 6 * DEEP[0] + 10
    assert not many.external, "Lance asks the store for nothing"


def test_recovery_says_how_far_it_is(tmp_path: Path) -> None:
    uri = str(make(tmp_path / "wide", *WIDE))
    told: list[tuple[str, int, int]] = []
    done, _ = recovered(uri, lambda *step: told.append(step))
    counts = [count for what, count, total in told if what == "backfill"]
    assert {total for what, _, total in told if what == "backfill"} == {WIDE[0]}
    assert counts == sorted(set(counts)), "it rises"
    assert len(counts) >= 2
    assert counts[-1] == WIDE[0] == len(done.steps)
    assert plain(uri) == published(uri)


def test_the_side_log_names_commits_and_who_made_them(copy: Callable[[Path], str], deep: Path) -> None:
    uri = copy(deep)
    with quire.open(uri, read_only=True) as reader:
        head, log = reader.head, [c.id for c in reader.log()]
    done, _ = recovered(uri)

    with quire.open(uri, read_only=True) as reader:
        [told] = reader.recoveries()
        assert [c.id for c in reader.log()] == log, "it takes no slot"
        assert reader.head == head
        authors = {s.table: s.author for s in told.steps}
        for step in told.steps:
            assert step.commit in log
            assert reader.show(step.commit).author == step.author
            assert step.table in reader.show(step.commit).tables
    assert told == done
    assert (told.by, told.head, told.left) == ("nurse", head, ())
    assert {s.outcome for s in told.steps} == {"promoted"}
    last = f"writer {DEEP[1] % 3}"
    assert authors == {"t0": "late writer", **{f"t{n}": last for n in range(1, DEEP[0])}}


def test_a_second_recovery_finds_nothing_to_do(copy: Callable[[Path], str], deep: Path) -> None:
    uri = copy(deep)
    recovered(uri)
    before = {name: stat for name, stat in listing(f"{uri}/tables").items()}
    again, _ = recovered(uri)
    assert (again.steps, again.tidied, again.checkpoint) == ((), 0, None)
    assert listing(f"{uri}/tables") == before
    assert len(quire.open(uri, read_only=True).recoveries()) == 1


def test_opening_for_writing_does_the_same_and_says_nothing(
    copy: Callable[[Path], str], deep: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    uri = copy(deep)
    with caplog.at_level(logging.INFO), quire.open(uri, author="opener") as lake:
        assert lake.flush()
        assert lake.status()["pending_backfill"] == []
        assert lake.status()["background_failures"] == []
    assert plain(uri) == published(uri)
    [told] = lake.recoveries()
    assert (told.by, len(told.steps)) == ("opener", DEEP[0])
    assert caplog.messages == []
    assert capfd.readouterr() == ("", "")
    with quire.open(uri) as again:
        again.flush()
        assert len(again.recoveries()) == 1


def test_opening_read_only_writes_nothing(copy: Callable[[Path], str], shallow: Path) -> None:
    uri = copy(shallow)
    before = listing(uri)
    with quire.open(uri, read_only=True) as lake:
        lake.snapshot()["t0"].to_arrow()
        assert lake.status()["pending_backfill"] == [f"t{n}" for n in range(SHALLOW[0])]
        assert lake.recoveries() == []
        with pytest.raises(quire.errors.ReadOnly):
            lake.recover()
        assert lake.flush()
    assert listing(uri) == before


def test_a_missing_checkpoint_is_written(tmp_path: Path) -> None:
    class Idle(clock.World):
        """Nothing happens in the background: as if each writer died after its commit."""

        def start(self, work: Callable[[], object], name: str) -> clock.Thread:
            return super().start(lambda: None, name)

    uri = str(tmp_path / "lake")
    with clock.using(Idle()):
        make(Path(uri), 1, CHECKPOINT_EVERY + 2)
    before = quire.open(uri, read_only=True).status()
    assert before["checkpoint"] is None
    done, _ = recovered(uri)
    after = quire.open(uri, read_only=True).status()
    assert f"{done.checkpoint}.0" == done.head == before["head"]
    assert after["uncheckpointed"] < before["uncheckpointed"]
    assert quire.open(uri, read_only=True).verify().ok


# -- the dead and the living ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["publish: slot created", "backfill: between two tables", "backfill: transaction's file written"]
)
def test_the_next_opener_finishes_for_a_killed_writer_and_says_whose_work_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    uri = str(tmp_path / "lake")
    ledgers.create(uri)
    monkeypatch.setenv("QUIRE_AUTHOR", "the dead writer")
    crash(POINTS[point], ledgers.write_once, uri)

    with quire.open(uri, author="the heir") as lake:
        assert lake.flush()
        [told] = lake.recoveries()

    left = {"backfill: between two tables": 1}.get(point, 2)
    assert told.by == "the heir"
    assert len(told.steps) == left
    assert {(s.commit, s.author, s.outcome) for s in told.steps} == {("2.0", "the dead writer", "promoted")}
    assert {s.table for s in told.steps} <= set(TABLES)
    assert quire.open(uri, read_only=True).verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("point", ["backfill: before a transaction's file", "backfill: transaction's file written"])
def test_a_killed_backfill_leaves_nothing_that_slows_plain_readers(tmp_path: Path, point: str) -> None:
    uri = str(tmp_path / "lake")
    ledgers.create(uri)
    before = files(uri)
    crash(POINTS[point], ledgers.write_once, uri)
    new = {Path(name).name for name in files(uri) - before if "/_versions/" in name}
    assert new
    assert all(re.fullmatch(r"d\d+\.manifest", name) for name in new), "staged versions only"
    done, _ = recovered(uri)
    assert {s.outcome for s in done.steps} == {"promoted"}
    assert plain(uri) == published(uri)
    assert quire.open(uri, read_only=True).verify().ok


def test_only_old_leftovers_of_promotions_are_removed(copy: Callable[[Path], str], shallow: Path) -> None:
    uri = copy(shallow)
    recovered(uri)
    versions = Path(uri) / quire.open(uri, read_only=True)["t1"].describe()["location"] / "_versions"
    names = {
        "old": f"18446744073709551000.manifest-{uuid.uuid4()}",
        "young": f"18446744073709551001.manifest-{uuid.uuid4()}",
        "other": "18446744073709551002.manifest-mine",
        "notes": "notes.txt",
    }
    for kind, name in names.items():
        (versions / name).write_text("x")
        if kind != "young":
            then = time.time() - 3700
            os.utime(versions / name, (then, then))
    before = files(uri)

    done, _ = recovered(uri)

    assert (done.tidied, done.steps) == (1, ())
    assert {Path(name).name for name in before - files(uri)} == {names["old"]}
    assert quire.open(uri, read_only=True).recoveries()[0].tidied == 1


def test_a_live_writer_is_left_alone(copy: Callable[[Path], str], shallow: Path) -> None:
    uri = copy(shallow)
    writer = quire.open(uri, backfill=False, author="alive")
    tx = writer.transaction("slow")
    tx["t1"].append([{"id": 77}])
    tx.create_table("new", [{"id": 1}])
    assert tx["t1"].count() == SHALLOW[1] + 2  # it is staged
    staged = files(uri)

    done, _ = recovered(uri)

    assert staged <= files(uri), "nothing of it was removed"
    assert len(done.steps) == SHALLOW[0]
    receipt = tx.commit()
    assert (receipt.attempts, receipt.rebased) == (1, 0)
    assert 77 in published(uri)["t1"]
    assert 77 not in plain(uri)["t1"]
    recovered(uri)
    assert plain(uri) == published(uri)


def test_a_plain_write_is_reported_and_not_overwritten(copy: Callable[[Path], str], shallow: Path) -> None:
    uri = copy(shallow)
    location = f"{uri}/{quire.open(uri, read_only=True)['t1'].describe()['location']}"
    lance.write_dataset([{"id": 500}], location, mode="append")
    done, _ = recovered(uri)
    [left] = done.left
    assert (left.table, left.outcome) == ("t1", "foreign")
    assert plain(uri)["t1"] == [0, 500]
    assert plain(uri)["t2"] == published(uri)["t2"]


# -- a thread that keeps a lake in order ------------------------------------------------------------------------------


def until(condition: Callable[[], bool], maintenance: Maintenance) -> None:
    """Wait for it; a thread that ended, or never gets there, is an error."""
    for _ in range(3000):
        if condition():
            return
        assert maintenance.running
        time.sleep(0.01)
    raise AssertionError(f"it did not happen; failures: {maintenance.done.failures}")


def test_maintenance_recovers_until_it_is_stopped(copy: Callable[[Path], str], shallow: Path) -> None:
    uri = copy(shallow)
    lake = quire.open(uri, backfill=False)
    with lake.maintain(every=0.01) as keeping:
        until(lambda: plain(uri) == published(uri), keeping)
        with lake.transaction("more") as tx:
            tx["t3"].append([{"id": 99}])
        until(lambda: 99 in plain(uri)["t3"], keeping)
        assert keeping.running
    assert not keeping.running
    assert keeping.stop()
    rounds = keeping.done.rounds
    assert rounds >= 2
    assert keeping.done.last is not None
    assert keeping.done.failures == []
    with lake.transaction("afterwards") as tx:
        tx["t3"].append([{"id": 100}])
    lake.flush()
    assert keeping.done.rounds == rounds
    assert 100 not in plain(uri)["t3"]
    assert len(lake.recoveries()) >= 2


def test_a_thread_that_waits_long_stops_at_once(copy: Callable[[Path], str], shallow: Path) -> None:
    lake = quire.open(copy(shallow), backfill=False)
    keeping = lake.maintain(every=1e6)
    until(lambda: keeping.done.rounds == 1, keeping)
    assert keeping.stop(timeout=60)
    assert not keeping.running


def test_maintenance_optimizes_and_cleans_up_with_the_given_options(copy: Callable[[Path], str], shallow: Path) -> None:
    uri = copy(shallow)
    recovered(uri)
    age(uri)
    rows, before = published(uri), files(uri)
    lake = quire.open(uri)
    with lake.maintain(every=0.01, optimize={"tables": ["t1"]}, cleanup={"keep": 1, "older_than": 0, "grace": 0}) as k:
        until(lambda: bool(before - files(uri)), k)
        until(lambda: len(list(lake.log())) == 1, k)
    assert k.done.failures == []
    [newest] = lake.log()
    assert (set(newest.tables), newest.tables["t1"].ops) == ({"t1"}, ("compact",))
    assert {t: sorted(found) for t, found in published(uri).items()} == {t: sorted(found) for t, found in rows.items()}
    assert lake.verify().ok


def test_optimize_and_cleanup_are_off_by_default(copy: Callable[[Path], str], shallow: Path) -> None:
    uri = copy(shallow)
    recovered(uri)
    age(uri, 1e6)
    before, lake = files(f"{uri}/tables"), quire.open(uri)
    head = lake.head
    with lake.maintain(every=0.01) as keeping:
        until(lambda: keeping.done.rounds >= 3, keeping)
    assert lake.refresh() == head
    assert files(f"{uri}/tables") == before


def test_a_failure_is_collected_and_the_thread_goes_on(copy: Callable[[Path], str], shallow: Path) -> None:
    uri = copy(shallow)
    lake = quire.open(uri, backfill=False)
    with lake.maintain(every=0.001, optimize={"tables": ["nowhere"]}, cleanup={"keep": 0}) as keeping:
        until(lambda: keeping.done.rounds >= 15, keeping)
        assert plain(uri) == published(uri), "what can be done is done"
    kinds = {failure.split(":")[0]: failure for failure in keeping.done.failures}
    assert set(kinds) == {"optimize", "cleanup"}
    assert "TableNotFound" in kinds["optimize"]
    assert "InvalidArgument" in kinds["cleanup"]
    assert len(keeping.done.failures) == 20, "only the last ones are kept"
