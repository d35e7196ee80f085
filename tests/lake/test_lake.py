"""A lake's handle: create, open, look at it, close it."""

from __future__ import annotations

import json
import os
import pickle
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import quire
from quire.errors import CommitNotFound, InvalidInput, InvalidName, LakeExists, LakeNotFound, QuireError, ReadOnly
from quire.ledger import MAIN, hint_key
from quire.store import metering


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(root: Path) -> quire.Lake:
    lake = quire.create(root, author="ada@host", backfill=False)
    with lake.transaction("first") as tx:
        tx.create_table("a", [{"v": 1}])
        tx.create_table("b", [{"v": 1}, {"v": 2}])
    with lake.transaction("second", author="bob") as tx:
        tx["a"].append([{"v": 3}])
    lake.flush()
    return lake


# -- create and open --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [str, Path, lambda p: f"{p}/", lambda p: f"file://{p}", lambda p: os.path.relpath(p)])
def test_a_place_can_be_written_in_many_ways(root: Path, form: Any) -> None:
    with quire.create(form(root)) as lake:
        lake.create_table("t", [{"v": 1}])
    assert lake.uri == str(root)
    assert quire.open(form(root)).tables() == ["t"]


def test_a_new_lake_is_empty_and_has_one_commit(root: Path) -> None:
    lake = quire.create(root)
    assert lake.tables() == []
    assert lake.head == "0.0"
    [commit] = lake.log()
    assert (commit.id, commit.message, commit.parents, commit.tables) == ("0.0", "create lake", (), {})


def test_a_lake_is_created_once(root: Path) -> None:
    quire.create(root)
    before = files(root)
    with pytest.raises(LakeExists, match=str(root)) as caught:
        quire.create(root)
    assert caught.value.fields["uri"] == str(root)
    assert files(root) == before
    assert quire.create(root, exist_ok=True).head == "0.0"


def test_many_creators_make_one_lake(root: Path) -> None:
    made: list[quire.Lake] = []
    refused: list[LakeExists] = []
    start = threading.Barrier(8)

    def create() -> None:
        start.wait()
        try:
            made.append(quire.create(root))
        except LakeExists as error:
            refused.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 7)
    assert quire.open(root).status()["lake"] == made[0].status()["lake"]


def test_a_folder_that_holds_other_things_can_hold_a_lake(root: Path) -> None:
    root.mkdir()
    (root / "notes.txt").write_text("mine")
    quire.create(root).create_table("t", [{"v": 1}])
    assert (root / "notes.txt").read_text() == "mine"
    assert quire.open(root)["t"].count() == 1


def test_a_lake_can_be_copied_and_moved(lake: quire.Lake, root: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(root, copy)
    shutil.rmtree(root)
    moved = quire.open(copy, backfill=False)
    assert moved["a"].to_pylist() == [{"v": 1}, {"v": 3}]
    with moved.transaction("goes on") as tx:
        tx["a"].append([{"v": 4}])
    assert moved["a"].count() == 3


def test_opening_nothing_makes_nothing(root: Path) -> None:
    with pytest.raises(LakeNotFound):
        quire.open(root)
    assert not root.exists()


def test_a_lake_in_memory_lives_as_long_as_the_process(request: pytest.FixtureRequest) -> None:
    uri = f"memory://{request.node.name}"
    lake = quire.create(uri, backfill=False)
    with lake.transaction("x") as tx:
        tx.create_table("t", [{"v": 1}])
    with lake.transaction("y") as tx:
        tx["t"].append([{"v": 2}])
    assert lake["t"].to_pylist() == [{"v": 1}, {"v": 2}]
    assert quire.open(uri, backfill=False)["t"].to_pylist() == [{"v": 1}, {"v": 2}]
    with pytest.raises(LakeNotFound):
        quire.open(f"{uri}-other")


# -- read only --------------------------------------------------------------------------------------------------------


WRITES: dict[str, Any] = {
    "transaction": lambda lake: lake.transaction("x"),
    "transact": lambda lake: lake.transact(lambda tx: None),
    "create_table": lambda lake: lake.create_table("t", [{"v": 1}]),
    "revert": lambda lake: lake.revert("1.0"),
    "create_branch": lambda lake: lake.create_branch("x"),
    "delete_branch": lambda lake: lake.delete_branch("x"),
    "fast_forward": lambda lake: lake.fast_forward("x"),
    "tag": lambda lake: lake.tag("x"),
    "delete_tag": lambda lake: lake.delete_tag("x"),
    "backfill": lambda lake: lake.backfill(),
    "adopt": lambda lake: lake.adopt("a"),
}


@pytest.mark.parametrize("verb", WRITES)
def test_a_read_only_lake_refuses_to_write(lake: quire.Lake, root: Path, verb: str) -> None:
    before = files(root)
    reader = quire.open(root, read_only=True)
    assert reader.read_only
    with pytest.raises(ReadOnly, match=str(root)) as caught:
        WRITES[verb](reader)
    assert caught.value.kind == "read-only"
    assert "read_only" in str(caught.value)
    assert files(root) == before


def test_a_read_only_lake_writes_nothing_while_it_reads(lake: quire.Lake, root: Path) -> None:
    before = files(root)
    with quire.open(root, read_only=True) as reader:
        reader.snapshot().sql("select * from a join b using (v)").to_arrow()
        reader["a"].scan(filter="v > 1").to_arrow()
        reader["a"].describe()
        list(reader.log())
        reader.show("1.0")
        reader.status()
        reader.at(commit="1.0")["a"].count()
        reader.diff("1.0")
        reader.branches()
        reader.tags()
        reader.refresh()
        reader.foreign()
        reader.flush()
    assert files(root) == before


# -- looking at it ----------------------------------------------------------------------------------------------------


def test_the_handle_says_where_it_is(lake: quire.Lake, root: Path) -> None:
    assert (lake.uri, lake.branch_name, lake.head, lake.read_only) == (str(root), "main", "2.0", False)
    assert repr(lake) == f"<Lake {root} on 'main' at 2.0>"


def test_status_is_plain_data(lake: quire.Lake, root: Path) -> None:
    status = json.loads(json.dumps(lake.status()))
    assert (status["uri"], status["branch"], status["head"]) == (str(root), "main", "2.0")
    assert (status["tables"], status["rows"]) == (2, 4)
    assert status["bytes"] > 0
    assert status["pending_backfill"] == ["a", "b"]
    assert status["background_failures"] == []
    lake.backfill()
    assert lake.status()["pending_backfill"] == []


def test_a_handle_learns_of_others_commits_when_it_asks(lake: quire.Lake, root: Path) -> None:
    other = quire.open(root, backfill=False)
    other.create_table("c", [{"v": 1}])
    assert lake.head == "2.0"
    assert lake.refresh() == "3.0"
    assert lake.head == "3.0"
    assert lake.tables() == ["a", "b", "c"]


def test_asking_for_news_costs_one_request_when_there_is_none(lake: quire.Lake) -> None:
    lake.refresh()
    for ask in (lake.refresh, lake.snapshot, lake.tables):
        with metering() as meter:
            ask()
        assert (meter.total, meter.hops) == (1, 1)


def test_names_can_be_asked_for_on_the_lake_itself(lake: quire.Lake) -> None:
    assert "a" in lake
    assert "nope" not in lake
    assert sorted(lake) == ["a", "b"]


# -- the log ----------------------------------------------------------------------------------------------------------


def test_the_log_is_newest_first_and_complete(lake: quire.Lake) -> None:
    second, first, genesis = lake.log()
    assert [c.id for c in (second, first, genesis)] == ["2.0", "1.0", "0.0"]
    assert (second.message, second.author, second.parents) == ("second", "bob", ("1.0",))
    assert (first.message, first.author, first.branch) == ("first", "ada@host", "main")
    assert second.tables["a"].ops == ("append",)
    assert (second.tables["a"].version, second.tables["a"].added, second.tables["a"].removed) == (2, 1, 0)
    assert set(first.tables) == {"a", "b"}
    assert genesis.time < first.time < second.time
    assert datetime.now(UTC) - second.time < timedelta(minutes=10)


def test_a_log_can_be_cut_indexed_and_read_again(lake: quire.Lake) -> None:
    assert [c.id for c in lake.log(limit=2)] == ["2.0", "1.0"]
    assert list(lake.log(limit=0)) == []
    log = lake.log()
    assert (log[0].id, log[-1].id, [c.id for c in log[1:]]) == ("2.0", "0.0", ["1.0", "0.0"])
    assert [c.id for c in log] == [c.id for c in log]
    with pytest.raises(IndexError):
        log[99]


def test_a_log_is_of_the_moment_it_was_asked_for(lake: quire.Lake) -> None:
    log = lake.log()
    lake.create_table("later", [{"v": 1}])
    assert [c.id for c in log] == ["2.0", "1.0", "0.0"]


def test_a_long_log_is_read_in_order_and_in_parts(root: Path) -> None:
    lake = quire.create(root, backfill=False)
    lake.create_table("t", [{"v": 0}])
    for n in range(70):
        with lake.transaction(f"commit {n}") as tx:
            tx["t"].append([{"v": n}])
    fresh = quire.open(root, read_only=True)
    assert [c.id for c in fresh.log()] == [f"{n}.0" for n in range(71, -1, -1)]
    with metering() as meter:
        assert fresh.log(limit=1)[0].message == "commit 69"
    assert meter.total < 20


def test_one_commit_can_be_shown(lake: quire.Lake) -> None:
    assert lake.show("1.0") == lake.show("1") == lake.log()[1]
    assert json.loads(json.dumps(lake.show("2.0").to_dict()))["tables"]["a"]["ops"] == ["append"]
    with pytest.raises(CommitNotFound, match="9.0"):
        lake.show("9.0")
    with pytest.raises(CommitNotFound):
        lake.show("1.7")
    with pytest.raises(CommitNotFound, match="'first'"):
        lake.show("first")
    with pytest.raises(InvalidName, match="commit id"):
        lake.show("first of all")


def test_a_receipt_is_plain_data(lake: quire.Lake) -> None:
    with lake.transaction("third") as tx:
        tx["b"].delete("v = 1")
    assert tx.receipt is not None
    receipt = json.loads(json.dumps(tx.receipt.to_dict()))
    assert (receipt["commit"], receipt["branch"], receipt["attempts"]) == ("3.0", "main", 1)
    assert receipt["tables"]["b"] == {"version": 2, "ops": ["delete"], "added": 0, "removed": 1}
    assert receipt["cost"]["requests"] == {"create": 1}


def test_a_transaction_without_a_change_commits_nothing(lake: quire.Lake) -> None:
    with lake.transaction("looks only") as tx:
        tx["a"].count()
    assert tx.receipt is not None
    assert tx.receipt.commit is None
    assert lake.refresh() == "2.0"


# -- time travel ------------------------------------------------------------------------------------------------------


def test_any_commit_tag_or_time_can_be_read(lake: quire.Lake) -> None:
    lake.tag("v1", at="1.0")
    second, first, _ = lake.log()
    for at in (
        {"commit": "1.0"},
        {"commit": "1"},
        {"tag": "v1"},
        {"time": first.time},
        {"time": first.time.isoformat()},
    ):
        snap = lake.at(**at)
        assert (snap.commit, snap["a"].to_pylist()) == ("1.0", [{"v": 1}])
    assert lake.at(time=second.time).commit == "2.0"
    assert lake.at(time=second.time - timedelta(microseconds=1)).commit == "1.0"
    assert lake.at(time=datetime.now(UTC).date() + timedelta(days=1)).commit == "2.0"


@pytest.mark.parametrize("at", [{}, {"commit": "1.0", "tag": "v1"}, {"time": "yesterday"}, {"time": 5}])
def test_a_moment_must_be_said_clearly(lake: quire.Lake, at: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        lake.at(**at)


def test_before_the_first_commit_there_was_nothing(lake: quire.Lake) -> None:
    with pytest.raises(CommitNotFound, match="1999"):
        lake.at(time="1999-12-31")


# -- for notebooks ----------------------------------------------------------------------------------------------------

EVIL = "<script>alert('x')</script>"


def test_html_escapes_what_people_wrote(root: Path) -> None:
    lake = quire.create(root, author=EVIL, backfill=False)
    with lake.transaction(EVIL) as tx:
        tx.create_table("t", [{"v": 1}])
    for html in (lake._repr_html_(), lake.log()._repr_html_(), lake.snapshot()._repr_html_()):
        assert "<script>" not in html
        assert "<table>" in html
    assert lake.log()._repr_html_().count("&lt;script&gt;") == 3, "message, and the author of both commits"
    assert "1.0" in lake.log()._repr_html_()
    assert "<td>t</td>" in lake.snapshot()._repr_html_()
    assert str(root) in lake._repr_html_()
    assert EVIL in repr(lake.log()), "plain text stays as it is"


def test_the_html_of_a_lake_escapes_its_own_place(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "<b>x")
    assert "<b>x" not in lake._repr_html_()
    assert "&lt;b&gt;x" in lake._repr_html_()


# -- life -------------------------------------------------------------------------------------------------------------


def test_closing_finishes_what_is_left_for_later(root: Path) -> None:
    with quire.create(root) as lake:
        lake.create_table("t", [{"v": 1}])
        with lake.transaction("more") as tx:
            tx["t"].append([{"v": 2}])
        location = lake["t"].describe()["location"]
    assert lance.dataset(str(root / location)).to_table().to_pylist() == [{"v": 1}, {"v": 2}]
    assert (root / hint_key(MAIN)).exists()
    lake.close()
    assert lake.status()["background_failures"] == []


def test_flush_says_that_everything_is_done(lake: quire.Lake) -> None:
    lake.create_table("c", [{"v": 1}])
    assert lake.flush() is True


def test_a_lake_is_not_sent_to_another_process_by_accident(lake: quire.Lake) -> None:
    with pytest.raises((QuireError, TypeError)):
        pickle.dumps(lake)


def test_threads_share_a_lake(lake: quire.Lake) -> None:
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            with lake.transaction(f"thread {n}") as tx:
                tx["a"].append([{"v": 100 + n}])
            assert lake.snapshot().sql("select count(*) c from a where v = ?", [100 + n]).to_pylist() == [{"c": 1}]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert lake["a"].count() == 10
    assert len([entry for entry in lake.log() if entry.message.startswith("thread")]) == 8
