"""Backfill: plain readers see a published state once, in order, and never at a foreign writer's cost."""

from __future__ import annotations

import contextvars
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lancedb
import pyarrow as pa
import pytest
from tests.formats.lance.conftest import Tables, content, place, plain, rows

import quire
from quire.errors import DuplicateKeys, InvalidName, Refused, TableExists, Unsupported
from quire.formats import IndexSpec
from quire.ledger import Hint, write_hint
from quire.store import Store, clock, metering


def test_promotion_is_exact_and_idempotent(tables: Tables) -> None:
    first = tables.create(rows(1))
    second = tables.append(first, 2)
    done = [tables.format.promote(second, commit="2.0", table="t") for _ in range(3)]
    assert [p.outcome for p in done] == ["promoted", "current", "current"]
    assert tables.head(first).version == 2
    assert tables.head(first).to_table() == tables.handle(second).to_table()
    head = tables.format.head(second)
    assert (head.version, head.counter, head.commit) == (2, 2, "2.0")


def test_intermediate_states_may_be_skipped_and_older_ones_never_come_back(tables: Tables) -> None:
    first = tables.create(rows(1))
    second = tables.append(first, 2)
    third = tables.change(second, lambda w: w.rows.delete("id = 1"))
    assert tables.format.promote(third, commit="3.0", table="t").outcome == "promoted"
    assert tables.format.promote(second, commit="2.0", table="t").outcome == "current"
    assert tables.head(first).to_table().to_pylist() == [{"id": 2, "v": 20}]
    assert tables.head(first).version == 2


def test_work_goes_on_from_the_staged_and_from_the_promoted_state(tables: Tables) -> None:
    pin = tables.create(rows(1))
    for number in range(2, 6):
        pin = tables.append(pin, number)
        if number % 2:
            tables.format.promote(pin, commit=f"{number}.0", table="t")
    assert tables.content(pin) == [(i, 10 * i) for i in range(1, 6)]
    assert tables.head(pin).to_table() == tables.handle(pin).to_table()


def test_promotion_leaves_nothing_behind_but_the_version(tables: Tables) -> None:
    pin = tables.append(tables.create(rows(1)), 2)
    folder = tables.folder / pin.location / "_versions"
    before = {p.name for p in folder.iterdir()}
    tables.format.promote(pin, commit="2.0", table="t")
    new = {p.name for p in folder.iterdir()} - before
    assert new - {"latest_version_hint.json"} == {f"{2**64 - 1 - 2:020d}.manifest"}


def test_a_foreign_write_is_reported_and_never_overwritten(tables: Tables) -> None:
    first = tables.create(rows(1))
    second = tables.append(first, 2)
    lance.write_dataset(rows(77), tables.uri(first), mode="append")
    done = tables.format.promote(second, commit="2.0", table="t")
    assert (done.outcome, done.version) == ("foreign", 2)
    assert tables.head(first).to_table()["id"].to_pylist() == [1, 77]


def test_a_promotion_asks_for_nothing_twice(tables: Tables) -> None:
    """The first one reads HEAD to see whose it is; later ones know that as long as its number is the same."""
    pin = tables.append(tables.create(rows(1)), 2)
    for expected in ({"get": 2}, {"get": 1}, {"get": 1}):
        with metering() as cost:
            assert tables.format.promote(pin, commit=f"{pin.counter}.0", table="t").outcome == "promoted"
        assert cost.requests == {"list": 1, "put": 1, "create": 1, **expected}
        assert not cost.external
        pin = tables.append(pin, pin.counter + 1)
    assert tables.head(pin).count_rows() == 4


def test_what_is_known_of_a_head_is_not_believed_when_its_number_changed(tables: Tables) -> None:
    pin = tables.append(tables.create(rows(1)), 2)
    assert tables.format.promote(pin, commit="2.0", table="t").outcome == "promoted"
    lance.write_dataset(rows(77), tables.uri(pin), mode="append")
    later = tables.append(pin, 3)
    done = tables.format.promote(later, commit="3.0", table="t")
    assert (done.outcome, done.version) == ("foreign", 3)
    assert tables.head(pin).to_table()["id"].to_pylist() == [1, 2, 77]


@pytest.mark.parametrize("rival", ["plain writer", "other backfill of this state", "other backfill of an older state"])
def test_whoever_comes_between_the_look_and_the_write_stays(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, rival: str
) -> None:
    second = tables.append(tables.create(rows(1)), 2)
    third = tables.append(second, 3)
    other = Tables(tables.folder)
    rivals: dict[str, tuple[Callable[[], Any], str, list[int]]] = {
        "plain writer": (lambda: lance.write_dataset(rows(77), tables.uri(third), mode="append"), "foreign", [1, 77]),
        "other backfill of this state": (
            lambda: other.format.promote(third, commit="3.0", table="t"),
            "current",
            [1, 2, 3],
        ),
        "other backfill of an older state": (
            lambda: other.format.promote(second, commit="2.0", table="t"),
            "behind",
            [1, 2],
        ),
    }
    act, outcome, expected = rivals[rival]
    create = Store.create

    def late(self: Store, key: str, *args: Any, **options: Any) -> Any:
        if str(tables.folder) in self.uri:  # and is not what a lake of another test leaves behind
            monkeypatch.setattr(Store, "create", create)
            act()
        return create(self, key, *args, **options)

    monkeypatch.setattr(Store, "create", late)
    assert tables.format.promote(third, commit="3.0", table="t").outcome == outcome
    assert tables.head(third).to_table()["id"].to_pylist() == expected
    assert tables.head(third).version == 2


def test_a_promoted_version_is_what_lance_itself_would_have_made(tables: Tables, tmp_path: Path) -> None:
    first = tables.create(rows(1, 2))
    pin = tables.change(first, lambda w: w.rows.append(rows(3), missing="error"), lambda w: w.rows.delete("id = 1"))
    pin = tables.change(pin, lambda w: w.indexes.create(IndexSpec("id", "BTREE", "by_id"), replace=False))
    copy = shutil.copytree(tables.uri(pin), tmp_path / "copy").as_posix()
    tables.format.promote(pin, commit="3.0", table="t")
    theirs = lance.LanceDataset.commit(copy, lance.LanceOperation.Restore(int(pin.version)), read_version=1)
    ours = tables.head(pin)
    assert ours.version == theirs.version == 2
    assert ours.to_table() == theirs.to_table()
    assert [f.metadata.to_json() for f in ours.get_fragments()] == [
        f.metadata.to_json() for f in theirs.get_fragments()
    ]
    assert [i["uuid"] for i in ours.list_indices()] == [i["uuid"] for i in theirs.list_indices()] != []
    made = ours.read_transaction(2)
    assert (Path(tables.uri(pin)) / "_transactions" / f"{made.read_version}-{made.uuid}.txn").is_file()
    assert lance.write_dataset(rows(9), tables.uri(pin), mode="append").version == 3


def test_commits_that_follow_one_another_share_a_backfill(tmp_path: Path) -> None:
    """The first is promoted at once, the others when a second is over, or when somebody asks."""

    class Standing(clock.World):
        now_is = 1000.0

        def monotonic(self) -> float:
            return self.now_is

        def start(self, work: Callable[[], object], name: str) -> threading.Thread:
            thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name=name, daemon=True)
            thread.start()
            return thread

    def settle(lake: quire.Lake) -> None:
        background = lake._background
        while background._busy or any(due <= world.now_is for due, _ in background._tasks.values()):
            time.sleep(0.001)

    world = Standing()
    with clock.using(world), quire.create(tmp_path / "lake") as lake:
        lake.create_table("t", rows(1))
        lake.flush()
        world.now_is += 10
        seen = []
        for number in range(2, 8):
            if number == 7:
                world.now_is += 1
            with lake.transaction() as tx:
                tx["t"].append(rows(number))
            settle(lake)
            seen.append(len(plain(lake, "t")))
        assert seen == [2, 2, 2, 2, 2, 7]
        with lake.transaction() as tx:
            tx["t"].append(rows(8))
        lake.flush()
        assert len(plain(lake, "t")) == 8
        assert lance.dataset(place(lake, "t")).version == 4


def test_plain_lance_and_lancedb_read_and_search_backfilled_tables(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].upsert(rows(3, 4, times=7))
        tx["t"].delete("id = 1")
        tx["t"].create_index("id", "BTREE")
        tx["log"].append(rows(4))
    assert plain(lake, "t") == [(1, 10), (2, 20), (3, 30)]
    assert {p.outcome for p in lake.backfill()} == {"promoted"}
    for name in ("t", "log"):
        assert plain(lake, name) == content(lake, name)
    assert lance.dataset(place(lake, "t")).to_table(filter="id = 4").to_pylist() == [{"id": 4, "v": 28}]
    folder, _, leaf = place(lake, "t").rpartition("/")
    table = lancedb.connect(folder).open_table(leaf.removesuffix(".lance"))
    assert sorted(tuple(r.values()) for r in table.to_arrow().to_pylist()) == content(lake, "t")


def test_a_plain_version_says_which_lake_and_commit_it_is(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].append(rows(4))
    lake.backfill()
    head = lance.dataset(place(lake, "t"))
    properties = head.read_transaction(head.version).transaction_properties
    assert properties["quire.lake"] == lake.status()["lake"]
    assert properties["quire.commit"] == "2.0"


@pytest.mark.parametrize("steps", [1, 2])
def test_a_revert_reaches_plain_readers(lake: quire.Lake, steps: int) -> None:
    """Also back to the state in which the table was created, which is a version of the plain history itself."""
    for number in range(4, 4 + steps):
        with lake.transaction() as tx:
            tx["log"].append(rows(number))
    lake.backfill()
    for commit in range(1 + steps, 1, -1):
        lake.revert(f"{commit}.0")
    lake.backfill()
    assert plain(lake, "log") == content(lake, "log") == [(1, 10), (2, 20), (3, 30)]
    assert lake.status()["pending_backfill"] == []
    with lake.transaction() as tx:
        tx["log"].append(rows(9))
    lake.backfill()
    assert plain(lake, "log") == content(lake, "log") == [(1, 10), (2, 20), (3, 30), (9, 90)]


def test_only_main_is_backfilled(lake: quire.Lake) -> None:
    branch = lake.create_branch("exp")
    with branch.transaction() as tx:
        tx["t"].append(rows(4))
    assert branch.backfill() == []
    lake.backfill()
    assert plain(lake, "t") == [(1, 10), (2, 20), (3, 30)]
    lake.fast_forward("exp")
    lake.backfill()
    assert plain(lake, "t") == [(1, 10), (2, 20), (3, 30), (4, 40)]


def test_two_backfills_at_once_promote_once(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["t"].append(rows(4))
    other = quire.open(lake.uri, backfill=False)
    version = lance.dataset(place(lake, "t")).version
    outcomes = [p.outcome for p in (*lake.backfill(), *other.backfill()) if p.table == "t"]
    assert sorted(outcomes) == ["current", "promoted"]
    assert lance.dataset(place(lake, "t")).version == version + 1


def test_a_table_that_cleans_up_after_itself_is_not_registered(tmp_path: Path) -> None:
    where = str(tmp_path / "auto.lance")
    options: Any = {"interval": 1, "older_than_seconds": 0}
    lance.write_dataset(pa.table({"id": [1]}), where, auto_cleanup_options=options)
    lake = quire.create(tmp_path / "lake", backfill=False)
    with pytest.raises(Unsupported, match=r"lance\.auto_cleanup"), lake.transaction() as tx:
        tx.register_table("t", where)


def test_backfill_never_lets_lance_clean_up_what_commits_pin(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    plain = lance.dataset(f"{lake.uri}/{lake['t'].describe()['location']}")
    plain.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    lake.adopt("t")
    for number in (2, 3):
        with lake.transaction() as tx:
            tx["t"].append([{"id": number}])
        assert [p.outcome for p in lake.backfill()] == ["blocked"]
    for entry in lake.log():
        for name in entry.tables:
            lake.at(commit=entry.id)[name].to_arrow()
    assert lake["t"].count() == 3


def test_a_table_that_was_dropped_is_registered_again_as_a_copy(tmp_path: Path) -> None:
    """Its own folder belongs to the lake, which may be cleaning it up."""
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 0}])
    for number in (1, 2):
        with lake.transaction() as tx:
            tx["t"].append([{"id": number}])
    lake.backfill()
    where = f"{lake.uri}/{lake['t'].describe()['location']}"
    with lake.transaction() as tx:
        tx.drop_table("t")
    with pytest.raises(Refused, match="belongs to this lake"), lake.transaction() as tx:
        tx.register_table("again", where)
    where = shutil.copytree(where, tmp_path / "copy.lance").as_posix()
    with lake.transaction() as tx:
        tx.register_table("again", where)
    with lake.transaction() as tx:
        tx["again"].append([{"id": 99}])
    assert [p.outcome for p in lake.backfill()] == ["promoted"]
    assert sorted(lance.dataset(where).to_table()["id"].to_pylist()) == [0, 1, 2, 99]


def test_the_verb_looks_at_every_table_whatever_a_hint_says(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 0}])
    with lake.transaction() as tx:
        tx["t"].append([{"id": 1}])
    lake.flush()
    lying = Hint(branch=lake._live.line.branch, head=2, backfilled=2)
    write_hint(lake._core.store, "main", lying)
    again = quire.open(lake.uri)
    assert [p.outcome for p in again.backfill()] == ["promoted"]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_registered_table_is_one_table_however_its_place_is_written(tmp_path: Path, scheme: str) -> None:
    where = str(tmp_path / "ext.lance")
    lance.write_dataset(pa.table({"id": [1, 1]}), where)
    lake = quire.create(tmp_path / "lake", backfill=False)
    with pytest.raises(DuplicateKeys), lake.transaction() as tx:
        tx.register_table("t", scheme + where, key="id")
    with lake.transaction() as tx:
        tx.register_table("t", scheme + where)
    with lake.transaction() as tx:
        tx["t"].append([{"id": 5}])
    assert sorted(r["id"] for r in lake["t"].to_pylist()) == [1, 1, 5]
    with pytest.raises(TableExists), lake.transaction() as tx:
        tx.register_table("u", where)


def test_an_index_survives_a_refused_schema_change(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1, "v": 1}])
    with lake.transaction() as tx:
        tx["t"].create_index("v")
        with pytest.raises(InvalidName):
            tx["t"].add_columns({"v": "id"})
    assert [ix["name"] for ix in lake["t"].indexes()] == ["v_idx"]


def test_an_index_follows_a_renamed_column_in_one_transaction(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": n, "v": n} for n in range(10)])
    with lake.transaction() as tx:
        tx["t"].create_index("v")
        tx["t"].rename_column("v", "w")
    assert [ix["columns"] for ix in lake["t"].indexes()] == [["w"]]
    assert [r["id"] for r in lake["t"].scan(filter="w = 7").to_pylist()] == [7]
