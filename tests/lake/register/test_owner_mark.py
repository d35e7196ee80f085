"""A registered table belongs to one lake, whoever else can reach it."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import quire
from quire.errors import Conflict, NotOwner, QuireError, Refused, TableExists
from quire.lake.register.owner_mark import MARK


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    place = tmp_path / "plain.lance"
    lance.write_dataset(pa.table({"id": [1]}), str(place))
    return place


def made(place: Path) -> quire.Lake:
    return quire.create(place, backfill=False)


def register(lake: quire.Lake, place: Path, name: str = "t") -> None:
    with lake.transaction() as tx:
        tx.register_table(name, str(place))


def write(lake: quire.Lake, number: int = 2, name: str = "t") -> None:
    with lake.transaction() as tx:
        tx[name].append([{"id": number}])


def test_a_table_that_another_lake_owns_is_not_registered(tmp_path: Path, plain: Path) -> None:
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    register(one, plain)
    with pytest.raises(NotOwner) as caught:
        register(two, plain)
    assert caught.value.owner == str(tmp_path / "one")
    assert two.tables() == []
    write(one)
    assert one["t"].count() == 2


def test_a_transaction_that_is_discarded_leaves_no_mark(tmp_path: Path, plain: Path) -> None:
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    tx = one.transaction()
    tx.register_table("t", str(plain))
    tx.discard()
    assert not (plain / MARK).exists()
    register(two, plain)


def test_of_lakes_that_register_a_table_at_once_one_wins(tmp_path: Path, plain: Path) -> None:
    lakes = [made(tmp_path / f"lake{n}") for n in range(4)]
    txs = [lake.transaction() for lake in lakes]
    for tx in txs:
        tx.register_table("t", str(plain))

    def commit(tx: Any) -> str:
        try:
            tx.commit()
            return "won"
        except NotOwner:
            return "lost"

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(commit, txs))
    assert sorted(told) == ["lost"] * 3 + ["won"]
    assert [lake.tables() for lake in lakes] == [["t"] if won == "won" else [] for won in told]


@pytest.mark.parametrize("handles", ["one handle", "two handles"])
@pytest.mark.parametrize("take_over", [False, True])
def test_of_transactions_of_one_lake_that_register_a_table_at_once_one_wins(
    tmp_path: Path, plain: Path, handles: str, take_over: bool
) -> None:
    lake = made(tmp_path / "lake")
    other = lake if handles == "one handle" else quire.open(tmp_path / "lake", backfill=False)
    first, second = lake.transaction(), other.transaction()
    first.register_table("r1", str(plain), take_over=take_over)
    second.register_table("r2", str(plain), take_over=take_over)
    first.commit()
    with pytest.raises((NotOwner, Conflict)):
        second.commit()
    lake.refresh()
    assert lake.tables() == ["r1"]
    write(lake, name="r1")
    lake.backfill()
    assert lance.dataset(str(plain)).count_rows() == 2


NAMES = {
    "a link": lambda place: linked(place.parent / "link.lance", place),
    "below a link": lambda place: linked(place.parent.parent / "elsewhere", place.parent) / place.name,
    "with dots": lambda place: place.parent / ".." / place.parent.name / place.name,
    "a URI": lambda place: f"file://{place}",
}


def linked(link: Path, target: Path) -> Path:
    link.symlink_to(target)
    return link


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_one_table_by_whatever_path_it_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    plain = tmp_path / "data/plain.lance"
    lance.write_dataset(pa.table({"id": [1]}), str(plain))
    lake = made(tmp_path / "lake")
    register(lake, NAMES[name](plain))
    assert lake["t"].describe()["location"] == str(plain)
    with pytest.raises(TableExists, match="'t'"):
        register(lake, plain, "again")
    with pytest.raises(NotOwner):
        register(made(tmp_path / "other"), plain)


def test_a_table_that_comes_back_is_the_one_that_it_was(tmp_path: Path, plain: Path) -> None:
    lake = made(tmp_path / "lake")
    register(lake, plain)
    known = lake["t"].id
    with lake.transaction() as tx:
        tx.drop_table("t")
    with pytest.raises(NotOwner):
        register(made(tmp_path / "other"), plain)
    register(lake, plain, "back")
    write(lake, name="back")
    lake.backfill()
    assert (lake["back"].id, lake["back"].count()) == (known, 2)
    assert lake.at(commit="1.0")["t"].count() == 1
    assert lance.dataset(str(plain)).count_rows() == 2
    assert lake.verify(deep=True).findings == []


def test_on_another_branch_it_is_the_same_table_and_main_moves_its_head(tmp_path: Path, plain: Path) -> None:
    lake = made(tmp_path / "lake")
    branch = lake.create_branch("trial")
    register(lake, plain)
    register(branch, plain)
    write(branch, 3)
    write(lake, 2)
    lake.backfill()
    branch.flush()
    assert lake["t"].id == branch["t"].id
    assert [row["id"] for row in branch["t"].to_pylist()] == [1, 3]
    assert lance.dataset(str(plain)).to_table()["id"].to_pylist() == [1, 2]
    assert lake.verify(deep=True).findings == []


def test_a_registration_that_did_not_come_to_a_commit_can_be_done_again(tmp_path: Path, plain: Path) -> None:
    lake = made(tmp_path / "lake")
    tx = lake.transaction(expect={"nothing": 7})
    tx.register_table("t", str(plain))
    with pytest.raises(QuireError):
        tx.commit()
    (plain / MARK).unlink(missing_ok=True)
    late = lake.transaction()
    late.register_table("t", str(plain))
    lake._core.owners.writable(late["t"]._edit.pin, late["t"]._edit.info)  # type: ignore[arg-type]
    late.discard()
    assert (plain / MARK).exists()
    register(lake, plain)
    write(lake)
    assert lake["t"].count() == 2


def test_a_copy_of_a_lake_leaves_the_tables_of_the_original_alone(tmp_path: Path, plain: Path) -> None:
    one = made(tmp_path / "one")
    register(one, plain)
    write(one)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    two = quire.open(tmp_path / "two", external="allow", backfill=False)
    before = {p: p.stat().st_mtime_ns for p in plain.rglob("*")}
    assert two["t"].count() == 2
    with pytest.raises(NotOwner):
        write(two, 3)
    assert [(p.outcome, "belongs" in p.detail) for p in two.backfill()] == [("blocked", True)]
    assert [t.outcome for t in two.optimize().tables] == ["nothing"]
    two.cleanup(keep=1, older_than=0, grace=0)
    assert {p: p.stat().st_mtime_ns for p in plain.rglob("*")} == before
    write(one, 3)
    assert one["t"].count() == 3


def test_a_lake_that_was_moved_takes_its_tables_over(tmp_path: Path, plain: Path) -> None:
    one = made(tmp_path / "one")
    register(one, plain)
    (tmp_path / "one").rename(tmp_path / "moved")
    moved = quire.open(tmp_path / "moved", external=[plain], backfill=False)
    with pytest.raises(NotOwner) as caught:
        write(moved)
    assert "take-over" in str(caught.value.next)
    moved.take_over("t")
    write(moved)
    assert moved["t"].count() == 2
    again = quire.open(tmp_path / "moved", external=[plain], backfill=False)
    write(again, 3)
    assert again["t"].count() == 3


def test_the_table_of_a_lake_that_is_gone_is_taken_over_when_it_is_registered(tmp_path: Path, plain: Path) -> None:
    with made(tmp_path / "one") as one:
        register(one, plain)
    shutil.rmtree(tmp_path / "one")
    two = made(tmp_path / "two")
    discarded = two.transaction()
    discarded.register_table("t", str(plain), take_over=True)
    discarded.discard()
    assert str(tmp_path / "one") in (plain / MARK).read_text()
    with two.transaction() as tx:
        tx.register_table("t", str(plain), take_over=True)
    write(two)
    assert two["t"].count() == 2
    assert str(tmp_path / "two") in (plain / MARK).read_text()


def test_a_table_in_the_lakes_own_folder_moves_and_is_copied_with_it(tmp_path: Path) -> None:
    one = made(tmp_path / "one")
    lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "one/mine.lance"))
    register(one, tmp_path / "one/mine.lance")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    for place in ("one", "two"):
        lake = quire.open(tmp_path / place, backfill=False)
        write(lake)
        assert lake["t"].count() == 2
    with pytest.raises(NotOwner):
        register(made(tmp_path / "three"), tmp_path / "one/mine.lance")


def test_a_table_of_an_older_lake_that_has_no_mark_gets_one_with_the_first_write(tmp_path: Path, plain: Path) -> None:
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    register(one, plain)
    (plain / MARK).unlink()
    with quire.open(tmp_path / "one", external=[plain], backfill=False) as again:
        write(again)
    assert (plain / MARK).exists()
    with pytest.raises(NotOwner):
        register(two, plain)


@pytest.mark.parametrize("through_link", [False, True])
def test_a_table_among_the_tables_of_another_lake_is_refused(tmp_path: Path, through_link: bool) -> None:
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    one.create_table("t", [{"id": 1}])
    place = tmp_path / "one" / one["t"].describe()["location"]
    if through_link:
        (tmp_path / "link.lance").symlink_to(place)
        place = tmp_path / "link.lance"
    with pytest.raises(Refused, match="among the tables of the lake") as caught:
        register(two, place)
    assert caught.value.lake == str(tmp_path / "one")
    assert two.tables() == []


def test_a_mark_that_cannot_be_read_is_nobodys_permission(tmp_path: Path, plain: Path) -> None:
    one = made(tmp_path / "one")
    (plain / MARK).write_text("{}")
    with pytest.raises(NotOwner, match="owner of the table .* cannot be read"):
        register(one, plain)


def test_plain_clients_keep_the_mark(tmp_path: Path, plain: Path) -> None:
    one = made(tmp_path / "one")
    register(one, plain)
    mark = (plain / MARK).read_bytes()
    lance.write_dataset(pa.table({"id": [5]}), str(plain), mode="append")
    lance.write_dataset(pa.table({"id": [6]}), str(plain), mode="overwrite")
    lance.dataset(str(plain)).delete("id = 6")
    assert (plain / MARK).read_bytes() == mark


def test_only_a_table_that_lies_elsewhere_is_taken_over(tmp_path: Path) -> None:
    one = made(tmp_path / "one")
    one.create_table("t", [{"id": 1}])
    for name in ("t", "nope"):
        with pytest.raises(QuireError):
            one.take_over(name)
