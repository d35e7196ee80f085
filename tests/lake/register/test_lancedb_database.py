"""A folder of Lance tables is registered as a whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import quire
from quire.errors import InvalidInput, NotFound, NotOwner, TableNotFound
from quire.lake.register.lancedb_database import _folders
from quire.lake.register.owner_mark import MARK
from quire.store import Store


@pytest.fixture
def database(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name, ids in {"a": [1, 2], "b": [1, 1], "c.d": [3]}.items():
        lance.write_dataset(pa.table({"id": ids}), str(folder / f"{name}.lance"))
    (folder / "notes.txt").write_text("no table")
    (folder / "other").mkdir()
    return folder


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake", backfill=False)


def state(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_all_tables_are_registered_in_one_commit(lake: quire.Lake, database: Path) -> None:
    done = lake.register_database(database, keys={"a": "id", "c.d": ["id"]}, message="all of the shop")
    assert done.commit == "1.0"
    assert [(t.table, t.rows, t.key) for t in done.tables] == [("a", 2, ("id",)), ("b", 2, ()), ("c.d", 1, ("id",))]
    assert lake.tables() == ["a", "b", "c.d"]
    assert next(iter(lake.log())).message == "all of the shop"
    with lake.transaction() as tx:
        for name in lake.tables():
            tx[name].append([{"id": 9}])
    assert {p.outcome for p in lake.backfill()} == {"promoted"}
    assert lance.dataset(str(database / "a.lance")).count_rows() == 3


def test_a_dry_run_says_everything_and_writes_nothing(lake: quire.Lake, database: Path) -> None:
    lake.create_table("a", [{"id": 1}])
    (database / "empty.lance").mkdir()
    (database / "bad name.lance").mkdir()
    before, head = state(database), lake.head
    planned = lake.register_database(database, keys={"b": "id", "c.d": "nope"}, dry_run=True)
    assert {t.table: bool(t.problem) for t in planned.tables} == dict.fromkeys(
        ["a", "b", "bad name", "c.d", "empty"], True
    )
    told = {t.table: t.problem for t in planned.problems}
    for name, said in {
        "a": "already",
        "b": "more than once",
        "bad name": "not a valid table name",
        "c.d": "nope",
    }.items():
        assert said in told[name]
    assert planned.to_dict()["commit"] is None
    assert (state(database), lake.refresh()) == (before, head)


def test_with_one_problem_no_table_is_registered_and_all_problems_are_told(lake: quire.Lake, database: Path) -> None:
    before = state(database)
    with pytest.raises(InvalidInput) as caught:
        lake.register_database(database, keys={"b": "id", "c.d": "nope"})
    assert set(caught.value.problems) == {"b", "c.d"}
    assert lake.tables() == []
    assert state(database) == before
    lake.register_database(database, tables=["a", "c.d"], prefix="shop_")
    assert lake.tables() == ["shop_a", "shop_c.d"]


def test_tables_of_another_lake_are_a_problem(lake: quire.Lake, database: Path, tmp_path: Path) -> None:
    lake.register_database(database, tables=["a"])
    assert (database / "a.lance" / MARK).exists()
    other = quire.create(tmp_path / "other", backfill=False)
    planned = other.register_database(database, dry_run=True)
    assert [t.table for t in planned.problems] == ["a"]
    with pytest.raises(NotOwner), other.transaction() as tx:
        tx.register_table("a", str(database / "a.lance"))


def test_what_is_not_there_is_said(lake: quire.Lake, database: Path) -> None:
    with pytest.raises(NotFound):
        lake.register_database(database / "other")
    with pytest.raises(NotFound):
        lake.register_database(database / "nowhere")
    with pytest.raises(TableNotFound):
        lake.register_database(database, tables=["zz"])
    with pytest.raises(TableNotFound):
        lake.register_database(database, keys={"zz": "id"})
    with pytest.raises(InvalidInput):
        lake.register_database(database, tables="a")


def test_folders_in_an_object_store_are_found_without_listing_what_is_in_them(tmp_path: Path) -> None:
    store = Store.open(f"memory://{tmp_path.name}")
    keys = [
        "a.lance/_versions/1",
        "a.lance/data/x",
        "a.lance-old/data/x",
        "a.lance0/x",
        "b.lance/_versions/1",
        "c",
        "z.lance/k",
    ]
    for key in keys:
        store.put(key, b"x")
    assert list(_folders(store)) == ["a.lance", "b.lance", "z.lance"]
