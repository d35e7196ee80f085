"""Cleanup deletes what nothing needs, and nothing else. What slept through it is told so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import msgspec
import pytest
from tests.budget import budget

import quire
from quire import errors
from quire.errors import InvalidInput, Revoked, SnapshotExpired
from quire.lake.branch import revert
from quire.lake.upkeep.cleanup import collector, retained
from quire.lake.upkeep.cleanup.collector import Cleaned, Collector
from quire.ledger import FORMAT, Hint, Record, decode, encode, slot_key
from quire.ledger.notes_and_leases import Lease, Note, lease_key, note_key
from quire.store import Outcome, Store

NOW: dict[str, Any] = {"keep": 1, "older_than": 0, "grace": 0}
"""Keep nothing but the newest commit, whatever its age."""


def age(uri: str, seconds: float = 60.0) -> None:
    """Make everything in a lake on disk look older, as the store sees it."""
    for folder, _, names in os.walk(uri):
        for name in names:
            path = os.path.join(folder, name)
            then = os.stat(path).st_mtime - seconds
            os.utime(path, (then, then))


def files(uri: str, below: str = "tables") -> dict[str, int]:
    root = Path(uri) / below
    return {str(p.relative_to(uri)): p.stat().st_size for p in root.rglob("*") if p.is_file()}


def values(table: quire.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def lake(uri: str) -> Iterator[quire.Lake]:
    with quire.create(uri) as lake:
        lake.create_table("t", [{"id": 0, "v": 0}], key="id")
        yield lake


def write(lake: quire.Lake, *ids: int, table: str = "t") -> str:
    with lake.transaction(f"write {ids}") as tx:
        tx[table].upsert([{"id": i, "v": 10 * i} for i in dict.fromkeys(ids)])
    assert tx.receipt is not None
    assert tx.receipt.commit is not None
    return tx.receipt.commit


def place(lake: quire.Lake, name: str = "t") -> str:
    """The folder of a table, below the lake."""
    found = lake._live.refresh().by_name(name)
    assert found is not None
    return found.pin.location


def clean(lake: quire.Lake, **options: Any) -> Cleaned:
    """Clean up as if a minute had passed since everything was written, and no note of a slow write was left."""
    lake.close()
    age(lake.uri)
    return lake.cleanup(**{**NOW, **options})


# -- what goes and what stays -----------------------------------------------------------------------------------------


def test_what_expired_goes_and_what_is_kept_reads_the_same(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 9):
        write(lake, i, 0)
    lake.flush()
    before, rows = files(uri), values(lake["t"])
    done = clean(lake, keep=2)
    gone = before.keys() - files(uri).keys()
    assert len(gone) == done.files > 10
    assert sum(before[name] for name in gone) == done.bytes
    assert done.kept == 2
    assert [c.id for c in lake.log()] == ["9.0", "8.0"]
    assert values(lake["t"]) == rows
    assert values(lake.at(commit="8.0")["t"]) == [(i, 10 * i) for i in range(8)]
    assert lake.verify().ok
    with quire.open(uri) as again:
        assert values(again["t"]) == rows
        write(again, 99)
        assert again.verify().ok


@pytest.mark.parametrize("commit", ["1.0", "5.0"])
def test_a_commit_that_was_cleaned_up_says_so(lake: quire.Lake, uri: str, commit: str) -> None:
    for i in range(1, 9):
        write(lake, i)
    clean(lake)
    with quire.open(uri, read_only=True) as reader:
        for ask in (
            lambda: reader.at(commit=commit),
            lambda: reader.diff(commit).to_dict(),
            lambda: quire.open(uri).create_branch("b", at=commit),
            lambda: quire.open(uri).tag("x", at=commit),
        ):
            with pytest.raises(SnapshotExpired) as caught:
                ask()
            assert commit in str(caught.value)
            assert caught.value.next
    with pytest.raises(SnapshotExpired):
        quire.open(uri).revert(commit)
    assert not list(Store.open(uri).list("_quire/refs"))


def test_a_time_before_the_floor_says_so(lake: quire.Lake) -> None:
    when = lake.snapshot().time
    for i in range(1, 5):
        write(lake, i)
    clean(lake)
    with pytest.raises(SnapshotExpired):
        lake.at(time=when)
    assert lake.at(time=datetime.now(UTC))["t"].count() == 5


def test_young_files_are_never_deleted(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 5):
        write(lake, i, 0)
    lake.flush()
    before = files(uri)
    age(uri, 30)
    assert lake.cleanup(keep=1, older_than=0, grace=60).files == 0
    assert files(uri) == before
    assert lake.cleanup(keep=1, older_than=0, grace=20).files > 0


def test_what_was_the_newest_within_the_time_is_kept(lake: quire.Lake, uri: str) -> None:
    """Age counts from when a commit was superseded: what somebody could see lately stays."""
    for i in range(1, 4):
        write(lake, i)
    lake.flush()
    age(uri, 600)
    write(lake, 4)
    write(lake, 5)
    lake.flush()
    lake.cleanup(keep=1, older_than=60, grace=0)
    assert [c.id for c in lake.log()] == ["6.0", "5.0", "4.0"]
    assert lake.at(commit="4.0")["t"].count() == 4
    with pytest.raises(SnapshotExpired):
        lake.at(commit="3.0")


def test_the_last_commits_are_kept_whatever_their_age(lake: quire.Lake) -> None:
    for i in range(1, 8):
        write(lake, i)
    lake.claim()
    clean(lake, keep=3)
    clean(lake, keep=3)
    assert [c.id for c in lake.log()] == ["8.0", "7.0", "6.0"], "marks in the log are no commits"


def test_a_dropped_table_goes_with_the_last_commit_that_had_it(lake: quire.Lake, uri: str) -> None:
    lake.create_table("old", [{"id": 1}])
    folder = place(lake, "old")
    with lake.transaction("drop") as tx:
        tx.drop_table("old")
    clean(lake, keep=2)
    assert files(uri, folder)
    write(lake, 1)
    write(lake, 2)
    clean(lake, keep=2)
    assert not files(uri, folder)
    assert lake.verify().ok


def test_what_nobody_committed_goes(lake: quire.Lake, uri: str) -> None:
    tx = lake.transaction("never")
    tx.create_table("ghost", [{"id": 1}])
    tx["t"].append([{"id": 77, "v": 7}])
    tx["t"].count()
    tx.discard()
    before = files(uri)
    done = clean(lake)
    assert done.files >= 5
    assert files(uri).keys() < before.keys()
    assert values(lake["t"]) == [(0, 0)]
    assert lake.verify().ok


def test_files_that_are_not_quires_stay(lake: quire.Lake, uri: str) -> None:
    mine = [Path(uri) / "notes.txt", Path(uri) / "tables" / "readme.md", Path(uri) / "tables" / "mine.lance" / "x.bin"]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("keep me")
    write(lake, 1)
    write(lake, 2)
    clean(lake)
    assert all(path.read_text() == "keep me" for path in mine)


def test_a_registered_table_is_left_alone(lake: quire.Lake, uri: str, tmp_path: Path) -> None:
    outside = str(tmp_path / "outside.lance")
    for number in range(3):
        lance.write_dataset([{"id": number}], outside, mode="append" if number else "create")
    with lake.transaction("register") as tx:
        tx.register_table("plain", outside)
    for i in range(10, 14):
        with lake.transaction("append") as tx:
            tx["plain"].append([{"id": i}])
    lake.flush()
    before = files(outside, ".")
    clean(lake)
    assert files(outside, ".") == before
    assert lake["plain"].count() == 7
    assert lance.dataset(outside, version=2).count_rows() == 2


def test_plain_readers_keep_their_head(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 6):
        write(lake, i, 0)
    clean(lake)
    location = os.path.join(uri, place(lake))
    assert lance.dataset(location).to_table().num_rows == 6
    assert sorted(lance.dataset(location).to_table()["id"].to_pylist()) == list(range(6))


def test_a_plain_head_that_is_behind_is_left_alone(uri: str) -> None:
    """Nobody backfills here: a slow backfill could still promote a state whose files would be gone."""
    with quire.create(uri, backfill=False) as lake:
        lake.create_table("t", [{"id": 0, "v": 0}], key="id")
        for i in range(1, 6):
            write(lake, i, 0)
        before = files(uri)
        done = clean(lake)
        assert done.files == 0
        assert "t" in done.skipped
        assert files(uri) == before
        lake.backfill()
        write(lake, 6)
        write(lake, 7)
        lake.backfill()
        assert clean(lake).files > 0
        assert lake.verify().ok


def test_tables_that_are_left_alone_are_no_reason_for_another_floor(uri: str) -> None:
    with quire.create(uri, backfill=False) as lake:
        lake.create_table("t", [{"id": 0, "v": 0}], key="id")
        for i in range(1, 6):
            write(lake, 0, i)
        said = clean(lake).skipped["t"]
        assert "quire backfill" in said
        slots = [clean(lake) and lake._live.refresh().slot for _ in range(3)]
        assert len(set(slots)) == 1
        lake.backfill()
        assert clean(lake).files > 0


def test_a_plain_write_that_was_not_adopted_is_kept(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 4):
        write(lake, i, 0)
    lake.flush()
    location = os.path.join(uri, place(lake))
    lance.write_dataset([{"id": 500, "v": 5}], location, mode="append")
    write(lake, 4)
    write(lake, 5)
    clean(lake, keep=4)
    assert 500 in lance.dataset(location).to_table()["id"].to_pylist()
    lake.adopt("t")
    assert values(lake["t"])[-1] == (500, 5)
    assert lake.verify().ok


# -- protectors -------------------------------------------------------------------------------------------------------


def test_a_plain_write_whose_base_was_cleaned_up_is_adopted_onto_a_branch(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 4):
        write(lake, i, 0)
    lake.flush()
    location = os.path.join(uri, place(lake))
    lance.write_dataset([{"id": 500, "v": 5}], location, mode="append")
    for i in range(4, 9):
        write(lake, i)
    clean(lake)
    rows = values(lake["t"])
    done = lake.adopt("t")
    assert done.branch.startswith("foreign/")
    assert (500, 5) in values(lake.branch(done.branch)["t"])
    assert values(lake["t"]) == rows
    assert lake.verify().ok
    lake.backfill()
    assert lance.dataset(location).count_rows() == len(rows)


def test_tags_branches_and_leases_keep_their_commits(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 7):
        write(lake, i, 0)
    lake.tag("v3", at="3.0")
    side = lake.create_branch("side", at="4.0")
    write(side, 100)
    lease = lake.at(commit="5.0").lease(600)
    for i in range(7, 12):
        write(lake, i, 0)
    clean(lake)
    clean(lake)
    with quire.open(uri) as again:
        assert again.at(tag="v3")["t"].count() == 3
        assert again.branch("side")["t"].count() == 5
        assert again.at(commit="5.0")["t"].count() == 5
        write(again.branch("side"), 101)
        assert again.verify().ok
    with pytest.raises(SnapshotExpired):
        lake.at(commit="6.0")
    lease.release()
    lake.delete_tag("v3")
    lake.delete_branch("side")
    clean(lake)
    clean(lake)
    for commit in ("3.0", "4.0", "5.0"):
        with pytest.raises(SnapshotExpired):
            lake.at(commit=commit)
    assert lake["t"].count() == 12
    assert lake.verify().ok


def test_what_was_unprotected_just_now_is_still_kept(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 6):
        write(lake, i, 0)
    lake.tag("v2", at="2.0")
    lake.create_branch("side", at="3.0")
    lake.flush()
    age(uri)
    lake.delete_tag("v2")
    lake.delete_branch("side")
    lake.cleanup(**NOW)
    assert lake.at(commit="2.0")["t"].count() == 2
    assert lake.at(commit="3.0")["t"].count() == 3


def test_a_branch_may_start_at_a_tag_below_the_floor(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 6):
        write(lake, i, 0)
    lake.tag("v2", at="2.0")
    clean(lake)
    side = lake.create_branch("side", at="v2")
    write(side, 50)
    assert values(quire.open(uri).branch("side")["t"]) == [(0, 0), (1, 10), (50, 500)]
    lake.delete_tag("v2")
    for _ in range(2):
        clean(lake)
    assert values(quire.open(uri).branch("side")["t"]) == [(0, 0), (1, 10), (50, 500)]


def test_a_lease_runs_out_when_nobody_renews_it(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 4):
        write(lake, i, 0)
    lease = lake.at(commit="2.0").lease(30)
    lake.flush()
    age(uri, 30)
    lake.cleanup(**NOW)
    assert lake.at(commit="2.0")["t"].count() == 2
    age(uri, 30)
    lake.cleanup(**NOW)
    with pytest.raises(SnapshotExpired):
        lake.at(commit="2.0")
    assert not list(Store.open(uri).list("_quire/leases"))
    lease.release()


def test_a_snapshot_that_expired_cannot_be_leased(lake: quire.Lake) -> None:
    snapshot = lake.snapshot()
    for i in range(1, 4):
        write(lake, i, 0)
    clean(lake)
    with pytest.raises(SnapshotExpired):
        snapshot.lease()
    assert not list(lake._core.store.list("_quire/leases"))


@pytest.mark.parametrize("seconds", [0, -1, 1, float("nan"), 1e12])
def test_a_lease_of_no_length_is_refused(lake: quire.Lake, seconds: float) -> None:
    with pytest.raises(InvalidInput):
        lake.snapshot().lease(seconds)


def test_a_read_only_lake_cannot_lease_or_clean(lake: quire.Lake, uri: str) -> None:
    with quire.open(uri, read_only=True) as reader:
        for refused in (reader.snapshot().lease, reader.cleanup, reader.recover, reader.maintain):
            with pytest.raises(errors.ReadOnly):
                refused()
        assert reader.cleanup(dry_run=True).files == 0


# -- who sleeps through it --------------------------------------------------------------------------------------------


def test_a_writer_whose_base_expired_is_refused_for_good(lake: quire.Lake, uri: str) -> None:
    other = quire.open(uri)
    other._core.writers.began = lambda tx, background: None  # type: ignore[method-assign]
    tx = other.transaction("slow")
    tx["t"].append([{"id": 900, "v": 9}])
    for i in range(1, 6):
        write(lake, i, 0)
    clean(lake)
    with pytest.raises(Revoked) as caught:
        tx.commit()
    assert caught.value.retryable
    assert caught.value.fields["branch"] == "main"
    assert 900 not in [r["id"] for r in lake["t"].to_arrow().to_pylist()]
    other.transact(lambda tx: tx["t"].append([{"id": 901, "v": 9}]))
    assert lake.verify().ok


def test_a_writer_without_a_note_whose_files_are_old_is_refused(lake: quire.Lake, uri: str) -> None:
    """The base is still kept, but what was staged may be gone: there is no way to know, so it is not published."""
    other = quire.open(uri)
    other._core.writers.began = lambda tx, background: None  # type: ignore[method-assign]
    tx = other.transaction("slow")
    tx["t"].upsert([{"id": 900, "v": 9}])
    tx["t"].count()
    age(uri)
    write(lake, 1)
    lake.cleanup(keep=10, older_than=0, grace=0)
    with pytest.raises(Revoked, match="staged"):
        tx.commit()
    assert lake.verify().ok


def test_a_writer_whose_files_are_young_goes_on(lake: quire.Lake, uri: str) -> None:
    write(lake, 1)
    write(lake, 2)
    lake.flush()
    age(uri)
    other = quire.open(uri)
    tx = other.transaction("quick")
    tx["t"].upsert([{"id": 900, "v": 9}])
    assert lake.cleanup(keep=10, older_than=0, grace=0).files >= 0
    write(lake, 3)
    lake.cleanup(keep=1, older_than=3600, grace=0)
    tx.commit()
    assert values(lake["t"])[-1] == (900, 9)
    assert lake.verify().ok


def test_a_note_keeps_what_a_long_transaction_stages(lake: quire.Lake, uri: str) -> None:
    """However old the staged files are by the store's clock, a writer with a note publishes them."""
    other = quire.open(uri)
    tx = other.transaction("a long load")
    tx["t"].upsert([{"id": 900, "v": 9}])
    wait_for(lambda: other._core.writers.note is not None and bool(other._core.writers.note.covers))
    note = other._core.writers.note
    assert note is not None
    [entry] = Store.open(uri).list("_quire/writers")
    age(uri, 600)
    note.since -= timedelta(seconds=600)
    write(lake, 1)
    lake.flush()
    done = lake.cleanup(keep=10, older_than=0, grace=0)
    assert done.revoked == []
    tx.commit()
    assert values(lake["t"])[-1] == (900, 9)
    assert lake.verify().ok
    other.close()
    wait_for(lambda: not list(Store.open(uri).list("_quire/writers")))
    assert entry.key


def test_a_writer_that_was_silent_for_too_long_is_revoked(lake: quire.Lake, uri: str) -> None:
    other = quire.open(uri)
    tx = other.transaction("asleep")
    tx["t"].upsert([{"id": 900, "v": 9}])
    wait_for(lambda: other._core.writers.note is not None and bool(other._core.writers.note.covers))
    note = other._core.writers.note
    assert note is not None
    age(uri, 7200)
    write(lake, 1)
    done = lake.cleanup(keep=10, older_than=0, grace=0, dead_after=3600)
    assert done.revoked == [note.id]
    with pytest.raises(Revoked, match="no sign of life"):
        tx.commit()
    with other.transaction("awake again", fresh=True) as fresh:
        fresh["t"].upsert([{"id": 901, "v": 9}])
    assert values(lake["t"])[-1] == (901, 9)
    assert lake.verify().ok


def test_a_stalled_writer_never_finds_an_old_slot_free(lake: quire.Lake, uri: str) -> None:
    """A record that was built long ago and is sent now meets a tombstone."""
    ledger, branch = lake._core.ledger, lake._live.line.branch
    [old] = ledger.read(branch, [2]) if write(lake, 1) else []
    assert old is not None
    for i in range(2, 9):
        write(lake, i)
    clean(lake)
    [tombstone] = ledger.read(branch, [2])
    assert tombstone is not None
    assert tombstone.buried
    assert tombstone.write == old.write
    late = Record(FORMAT, branch, 2, "f" * 16, "", old.time)
    assert ledger.append(late).outcome is Outcome.CONFLICT
    assert ledger.append(old).outcome is Outcome.COMMITTED, "its own write: it had landed"


def test_an_unknown_outcome_can_be_settled_after_cleanup(lake: quire.Lake) -> None:
    write(lake, 1)
    commit = lake.show("2.0")
    unknown = quire.CommitUnknown("?", next="", log=lake._live.line.branch, slot=2, write=commit.write)
    stranger = quire.CommitUnknown("?", next="", log=lake._live.line.branch, slot=2, write="0" * 16)
    for i in range(2, 9):
        write(lake, i)
    clean(lake)
    assert lake.outcome(unknown) is Outcome.COMMITTED
    assert lake.outcome(stranger) is Outcome.CONFLICT


def test_a_reader_without_a_lease_gets_a_typed_error(lake: quire.Lake, uri: str) -> None:
    with lake.transaction("rows") as tx:
        tx["t"].overwrite([{"id": i, "v": i} for i in range(100)])
    sleeper = quire.open(uri, read_only=True).snapshot()
    for _ in range(3):
        with lake.transaction("again") as tx:
            tx["t"].overwrite([{"id": 1, "v": 1}])
    clean(lake)
    with pytest.raises(SnapshotExpired) as caught:
        sleeper["t"].to_arrow()
    assert caught.value.next


@pytest.mark.parametrize("query", ["select sum(v) from t", "select * from t where id = 1", "select count(v) from t"])
def test_sql_on_an_expired_snapshot_does_not_blame_the_query(lake: quire.Lake, uri: str, query: str) -> None:
    write(lake, 1)
    with quire.open(uri, read_only=True) as reader:
        snapshot = reader.snapshot()
        with lake.transaction("all new") as tx:
            tx["t"].overwrite([{"id": 9, "v": 9}])
        clean(lake)
        with pytest.raises(SnapshotExpired):
            snapshot.sql(query).to_arrow()


def test_a_lying_hint_does_not_keep_plain_readers_behind(lake: quire.Lake, uri: str) -> None:
    """As in a lake that was restored from a copy whose hint was newer than its log."""
    lake.flush()
    hint = Path(uri, "_quire", "hint-main.json")
    told = decode(hint.read_bytes(), Hint, "hint")
    hint.write_bytes(encode(msgspec.structs.replace(told, head=1000, backfilled=1000)))
    for n in range(1, 3):
        with quire.open(uri) as again:
            write(again, n)
        assert lance.dataset(f"{uri}/{place(lake)}").count_rows() == n + 1
    assert decode(hint.read_bytes(), Hint, "hint").head < 1000


def test_a_revert_on_a_branch_brings_nothing_back_that_is_going(
    lake: quire.Lake, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at main, then both floors are published, then it looks at its branch: it reads none of them."""
    with lake.transaction("replaced") as tx:
        tx["t"].overwrite([{"id": 9, "v": 9}])
    replaced = tx.receipt.commit  # type: ignore[union-attr]
    lake.create_table("u", [{"id": 0, "v": 0}], key="id")
    lake.create_branch("exp")
    with quire.open(uri, branch="exp") as branch:
        branch.create_table("own", [{"id": 0}])
        write(lake, 1, table="u")
        told: list[Any] = []
        looked, published, ended = (threading.Event() for _ in range(3))

        def undo() -> None:
            try:
                told.append(branch.revert(replaced))
            except errors.QuireError as error:
                told.append(error)
            ended.set()

        reverting = threading.Thread(target=undo)
        real_look, real_mark, real_gather = revert.check_kept, collector.mark, retained.gather

        def look(*given: Any) -> None:
            real_look(*given)
            looked.set()
            published.wait(20)

        def mark(live: Any, *given: Any, **more: Any) -> Any:
            if live.name == "main":
                reverting.start()
                assert looked.wait(20)
            done = real_mark(live, *given, **more)
            if live.name == "exp":
                published.set()
            return done

        gathered: list[Any] = []

        def gather(*given: Any) -> Any:
            gathered.append(real_gather(*given))
            if len(gathered) == 2:  # the heads were read before the revert could publish
                assert ended.wait(20)
            return gathered[-1]

        monkeypatch.setattr(revert, "check_kept", look)
        monkeypatch.setattr(collector, "mark", mark)
        monkeypatch.setattr(retained, "gather", gather)
        clean(lake)
        monkeypatch.undo()
        reverting.join()
        assert [type(one) for one in told] == [SnapshotExpired]
        assert len(gathered) == 2
        assert values(branch["t"]) == [(9, 9)]
        assert lake.verify().ok
        assert not list(Path(uri, "_quire", "leases").glob("*"))


def test_a_revert_on_a_branch_undoes_a_commit_of_its_parent(lake: quire.Lake, uri: str) -> None:
    with lake.transaction("replaced") as tx:
        tx["t"].overwrite([{"id": 9, "v": 9}])
    branch = lake.create_branch("exp")
    branch.revert(tx.receipt.commit)  # type: ignore[union-attr, arg-type]
    clean(lake)
    assert values(branch["t"]) == [(0, 0)]
    assert lake.verify().ok
    assert not list(Path(uri, "_quire", "leases").glob("*"))  # it is given back


FORKS = """
import os, sys, time
from pathlib import Path
import quire

uri = sys.argv[1]
folder = Path(uri, "_quire", "writers")
with quire.open(uri) as lake, lake.transaction("long") as tx:
    tx["t"].append([{"id": 5, "v": 5}])
    while not (noted := list(folder.glob("*"))):
        time.sleep(0.1)
    child = os.fork()
    if child == 0:  # leaves through the blocks of its parent
        sys.exit()
    os.waitpid(child, 0)
    assert list(folder.glob("*")) == noted
"""


def test_a_forked_child_leaves_its_parents_note_alone(lake: quire.Lake, uri: str) -> None:
    lake.close()
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS, uri], check=True, timeout=120)
    assert values(lake["t"]) == [(0, 0), (5, 5)]


def test_a_handle_that_slept_finds_the_head(lake: quire.Lake, uri: str) -> None:
    sleeper = quire.open(uri)
    for i in range(1, 70):  # two checkpoints further
        write(lake, i % 7)
    for _ in range(3):
        clean(lake, keep=2)
        write(lake, 1)
    assert sleeper.refresh() == lake.head
    assert values(sleeper["t"]) == values(lake["t"])
    write(sleeper, 8)


def test_a_lying_hint_that_points_below_the_floor_is_no_harm(lake: quire.Lake, uri: str) -> None:
    hint = Path(uri) / "_quire" / "hint-main.json"
    write(lake, 1)
    lake.flush()
    old = hint.read_bytes()
    for i in range(2, 70):
        write(lake, i % 5)
    clean(lake)
    hint.write_bytes(old)
    with quire.open(uri) as again:
        assert again.head == lake.head
        assert values(again["t"]) == values(lake["t"])


# -- running it -------------------------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing_and_says_what_a_run_does(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 6):
        write(lake, i, 0)
    lake.flush()
    age(uri)
    before = files(uri, ".")
    told = lake.cleanup(**NOW, dry_run=True)
    assert files(uri, ".") == before
    done = lake.cleanup(**NOW)
    assert (told.files, told.bytes, told.tables) == (done.files, done.bytes, done.tables)
    assert set(told.names) == before.keys() - {n for n in files(uri, ".")}.union({n for n in before if "_quire" in n})


def test_nothing_to_do_leaves_no_trace(lake: quire.Lake, uri: str) -> None:
    write(lake, 1)
    clean(lake)
    before, head = files(uri, "."), lake._live.refresh().slot
    assert lake.cleanup(**NOW).files == 0
    assert lake._live.refresh().slot == head
    assert files(uri, ".") == before


@pytest.fixture(scope="module")
def with_a_past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with forty commits and a tag, to be copied."""
    place = tmp_path_factory.mktemp("past") / "lake"
    with quire.create(place) as lake:
        lake.create_table("t", [{"id": 0, "v": 0}], key="id")
        for i in range(1, 40):
            write(lake, i % 5, 0)
        lake.tag("v9", at="9.0")
    return place


@pytest.mark.parametrize("stage", ["_publish", "_followed", "_sweep", "_bury", "_tidy"])
def test_it_can_be_interrupted_anywhere_and_run_again(
    with_a_past: Path, uri: str, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(with_a_past, uri)
    lake = quire.open(uri)
    rows, tagged = values(lake["t"]), values(lake.at(tag="v9")["t"])

    def stop(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Collector, stage, stop)
        with pytest.raises(KeyboardInterrupt):
            clean(lake)
    for _ in range(2):
        with quire.open(uri) as again:
            assert values(again["t"]) == rows
            assert values(again.at(tag="v9")["t"]) == tagged
            assert again.verify().ok, again.verify().findings
        clean(lake)
    write(lake, 3)


def test_two_collectors_at_once(lake: quire.Lake, uri: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    for i in range(1, 30):
        write(lake, i % 5, 0)
    rows = values(lake["t"])
    lake.flush()
    age(uri)
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(quire.open(uri).cleanup, **{**NOW, "keep": n}) for n in (1, 3, 5)]
        assert all(run.result().kept >= 1 for run in runs)
    assert values(lake["t"]) == rows
    assert quire.open(uri).verify().ok


def test_a_collector_that_is_overtaken_while_it_gathers_begins_again(
    lake: quire.Lake, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that is leased between two collectors needs pins of slots that the faster one has buried by then.

    Two rules see to it, and either is enough here: records that are buried under a collector's eyes make it begin
    again, and what its first pass found to be needed stays needed.
    """
    lake.create_table("other", [{"id": 1}])
    lake.tag("slow-floor", at=write(lake, 1))
    with lake.transaction("moves the other table") as tx:
        tx["other"].overwrite([{"id": 2}])
    leased = write(lake, 2)
    with lake.transaction("moves it again") as tx:
        tx["other"].overwrite([{"id": 3}])
    for i in range(3, 7):
        write(lake, i)
    lake.flush()
    age(uri)
    taken: list[Any] = []
    listing = retained.leased

    def slowly(core: Any, now: datetime) -> Any:
        found = listing(core, now)
        if len(taken) == 1:  # the slower one has published its floor and listed leases: now comes the faster one
            taken.append(quire.open(uri).at(commit=leased).lease(600))
            quire.open(uri).cleanup(**NOW)
        elif not taken:
            taken.append(None)
        return found

    monkeypatch.setattr(retained, "leased", slowly)
    lake.cleanup(keep=8, older_than=0, grace=0)
    monkeypatch.undo()
    assert len(taken) == 2
    with quire.open(uri) as again:
        snapshot = again.at(commit=leased)
        assert snapshot["other"].to_pylist() == [{"id": 2}]
        assert snapshot["t"].count() == 3
        assert again.verify().ok


def test_many_cleanups_leave_a_lake_that_opens(lake: quire.Lake, uri: str) -> None:
    lake.tag("first", at="1.0")
    for round_ in range(budget(6, full=12)):
        for i in range(5):
            write(lake, i, 0)
        clean(lake, keep=1 + round_ % 3)
        with quire.open(uri) as again:
            assert values(again["t"]) == values(lake["t"])
            assert again.at(tag="first")["t"].count() == 1
    assert lake.verify().ok


def test_old_checkpoints_and_side_objects_go(uri: str) -> None:
    with quire.create(uri) as lake:
        with lake.transaction("many tables") as tx:
            for n in range(150):
                tx.create_table(f"table_{n:03d}_{'x' * 150}", [{"id": n}])
        assert [n for n in files(uri, "_quire") if "side-" in n]
        lake.create_table("t", [{"id": 0, "v": 0}], key="id")
        for i in range(1, 70):
            write(lake, i % 5)
        clean(lake)
        names = [n.rpartition("/")[2] for n in files(uri, "_quire")]
        assert len([n for n in names if n.startswith("checkpoint-")]) <= 2
        assert not [n for n in names if n.startswith("side-")]
        with quire.open(uri) as again:
            assert len(again.tables()) == 151
            assert again.verify().ok


def test_what_dead_writers_left_beside_the_log_goes(uri: str) -> None:
    """Side objects that no slot names, and temporary files, which no listing shows."""
    with quire.create(uri) as lake:
        with lake.transaction("many tables") as tx:
            for n in range(150):
                tx.create_table(f"table_{n:03d}_{'x' * 150}", [{"id": n}])
        lake.create_table("t", [{"id": 0, "v": 0}], key="id")
        lake.flush()
        [named] = [n for n in files(uri, "_quire") if "side-" in n]
        orphan = Path(uri, named).with_name("side-1234-5678")
        orphan.write_bytes(Path(uri, named).read_bytes())
        left = [Path(uri, "_quire", ".1234.quire-tmp"), Path(uri, place(lake), "data", "x.lance#1")]
        for path in left:
            path.write_bytes(b"half")
        lake.tag("first", at="1.0")  # so that its record, and what belongs to it, stays
        for i in range(1, 5):
            write(lake, i)
        clean(lake)
        assert not orphan.exists()
        assert not [path for path in left if path.exists()]
        assert Path(uri, named).exists()
        young = [path.write_bytes(b"half") and path for path in left]
        lake.cleanup(**NOW)
        assert all(path.exists() for path in young)
        assert len(lake.at(tag="first").tables()) == 150
        assert lake.verify().ok


@pytest.mark.parametrize(
    "bad",
    [
        {"keep": 0},
        {"older_than": -1},
        {"grace": timedelta(days=-1)},
        {"dead_after": 5},
        {"older_than": float("inf")},
        {"older_than": "7d"},
    ],
)
def test_bad_retentions_are_refused(lake: quire.Lake, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        lake.cleanup(**bad)
    assert caught.value.next


def test_an_unreadable_lease_stops_cleanup(lake: quire.Lake, uri: str) -> None:
    for i in range(1, 6):
        write(lake, i, 0)
    Store.open(uri).put(lease_key("broken"), b'{"format":2,"id":"broken"')
    lake.flush()
    before = files(uri)
    with pytest.raises(errors.CorruptRecord, match="leases/broken"):
        clean(lake)
    assert files(uri) == before


def test_a_lost_slot_or_ref_stops_cleanup(lake: quire.Lake, uri: str) -> None:
    side = lake.create_branch("side")
    write(side, 1)
    for i in range(1, 6):
        write(lake, i, 0)
    lake.flush()
    age(uri)
    store = Store.open(uri)
    [ref] = [e.key for e in store.list("_quire/refs")]
    body = store.get(ref)
    store.delete(ref)
    with pytest.raises(errors.CorruptRecord, match="ref of a branch was lost"):
        quire.open(uri).cleanup(**NOW)
    store.put(ref, body)
    store.delete(slot_key(lake._live.line.branch, 3))
    with pytest.raises(errors.CorruptRecord):
        quire.open(uri).cleanup(**NOW)


def test_protectors_of_the_future_stop_cleanup(lake: quire.Lake, uri: str) -> None:
    write(lake, 1)
    write(lake, 2)
    Store.open(uri).put(note_key("x"), b'{"format":999}')
    with pytest.raises(errors.NewerFormat):
        clean(lake)


def test_protectors_are_plain_and_hold_no_secret(lake: quire.Lake, uri: str) -> None:
    assert set(Note.__struct_fields__) == {"format", "id", "author", "since"}
    with lake.snapshot().lease(60) as lease:
        [entry] = Store.open(uri).list("_quire/leases")
        body = Store.open(uri).get(entry.key)
        assert lease.held
    assert decode(body, Lease, "lease").target.commit == lease.commit
    assert not lease.held


def wait_for(true: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def test_what_a_kept_commit_took_over_stays_readable_when_its_branch_is_long_gone(lake: quire.Lake, uri: str) -> None:
    write(lake, 1)
    lake.create_branch("exp")
    with quire.open(uri, branch="exp") as branch:
        write(branch, 2)
    taken = lake.fast_forward("exp")
    lake.tag("v1", at=taken.commit)
    lake.delete_branch("exp")
    age(uri)
    for number in range(3, 6):
        write(lake, number)
    for _ in range(3):
        age(uri)
        clean(lake, **NOW)

    assert lake.show(taken.commit).adopts is not None
    assert values(lake.at(tag="v1")["t"]) == [(0, 0), (1, 10), (2, 20)]
    assert lake.verify().ok
