"""Plain writers behind Quire's back: noticed, adopted by the conflict rules, kept on a branch, never lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import msgspec
import pyarrow as pa
import pytest
from tests.formats.lance.conftest import content, place, plain, rows

import quire
from quire.errors import AlreadyExists, ColumnNotFound, Conflict, InvalidInput, NotFound, TableNotFound
from quire.lake.branch import adopt
from quire.lake.commit.table_change import Edit

Writer = Callable[[str], Any]

FIRST = [(1, 10), (2, 20), (3, 30)]


def append(*ids: int, times: int = 10) -> Writer:
    return lambda uri: lance.write_dataset(rows(*ids, times=times), uri, mode="append")


def merge(*ids: int) -> Writer:
    def run(uri: str) -> None:
        builder = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        builder.execute(rows(*ids, times=7))

    return run


def append_and_index(uri: str) -> None:
    append(77)(uri)
    lance.dataset(uri).create_scalar_index("id", "BTREE")


def append_and_compact(uri: str) -> None:
    append(77)(uri)
    lance.dataset(uri).optimize.compact_files()


FOREIGN: dict[str, tuple[Writer, list[tuple[Any, ...]]]] = {
    "append": (append(77), [*FIRST, (77, 770)]),
    "two appends": (lambda uri: (append(77)(uri), append(78)(uri)), [*FIRST, (77, 770), (78, 780)]),
    "delete": (lambda uri: lance.dataset(uri).delete("id = 1"), [(2, 20), (3, 30)]),
    "update": (lambda uri: lance.dataset(uri).update({"v": "v + 1"}, where="id = 1"), [(1, 11), (2, 20), (3, 30)]),
    "upsert": (merge(1, 77), [(1, 7), (2, 20), (3, 30), (77, 539)]),
    "append and index": (append_and_index, [*FIRST, (77, 770)]),
    "append and compact": (append_and_compact, [*FIRST, (77, 770)]),
    "overwrite": (lambda uri: lance.write_dataset(rows(8), uri, mode="overwrite"), [(8, 80)]),
    "add column": (
        lambda uri: lance.dataset(uri).add_columns({"w": "v + 1"}),
        [(1, 10, 11), (2, 20, 21), (3, 30, 31)],
    ),
}


@pytest.mark.parametrize("name", ["t", "log"])
@pytest.mark.parametrize("writer", FOREIGN)
def test_a_foreign_write_is_noticed_and_adopted_as_a_commit(lake: quire.Lake, name: str, writer: str) -> None:
    write, expected = FOREIGN[writer]
    write(place(lake, name))
    assert [p.table for p in lake.foreign()] == [name]
    assert content(lake, name) == FIRST
    found = lake.adopt(name)
    assert (found.branch, found.commit) == ("main", "2.0")
    assert content(lake, name) == plain(lake, name) == expected
    assert lake.foreign() == []
    assert lake.adopt(name).commit is None
    assert content(quire.open(lake.uri, read_only=True), name) == expected
    assert content(lake.at(commit="1.0"), name) == FIRST


@pytest.mark.parametrize("writer", FOREIGN)
def test_a_foreign_write_beside_an_unbackfilled_commit_loses_neither(lake: quire.Lake, writer: str) -> None:
    """Main or a branch of its own: the foreign rows are in the lake, and so is the commit that was faster."""
    write, expected = FOREIGN[writer]
    with lake.transaction() as tx:
        tx["t"].append(rows(50))
    write(place(lake, "t"))
    lake.backfill()
    assert plain(lake, "t") == expected
    found = lake.adopt("t")
    if found.branch == "main":
        assert content(lake) == sorted([*expected, (50, 500)])
    else:
        assert found.branch.startswith("foreign/")
        assert content(lake.branch(found.branch)) == expected
        assert content(lake) == [*FIRST, (50, 500)]
    assert lake.foreign() == []
    assert {p.outcome for p in lake.backfill()} <= {"promoted", "current"}
    assert plain(lake, "t") == content(lake)
    with lake.transaction() as tx:
        tx["t"].append(rows(60))
    lake.backfill()
    assert plain(lake, "t") == content(lake)


@pytest.mark.parametrize("writer", ["append", "delete", "update", "upsert"])
def test_row_changes_beside_other_rows_are_adopted_on_main(lake: quire.Lake, writer: str) -> None:
    with lake.transaction() as tx:
        tx["t"].append(rows(50))
    FOREIGN[writer][0](place(lake, "t"))
    assert lake.adopt("t").branch == "main"


CONFLICTS: dict[str, tuple[Callable[[Any], Any], Writer]] = {
    "the same row": (lambda t: t.update({"v": "0"}, where="id = 1"), lambda uri: lance.dataset(uri).delete("id = 1")),
    "the same key": (lambda t: t.append(rows(77, times=3)), append(77)),
    "an overwrite": (lambda t: t.append(rows(50)), FOREIGN["overwrite"][0]),
    "after an overwrite": (lambda t: t.overwrite(rows(5)), append(77)),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_foreign_write_in_conflict_is_kept_on_a_branch(lake: quire.Lake, case: str) -> None:
    mine, write = CONFLICTS[case]
    with lake.transaction() as tx:
        mine(tx["t"])
    ours = content(lake)
    write(place(lake, "t"))
    theirs = plain(lake, "t")
    found = lake.adopt("t")
    assert found.branch.startswith("foreign/t-")
    assert content(lake.branch(found.branch)) == theirs
    assert content(lake) == ours
    lake.backfill()
    assert plain(lake, "t") == ours


def test_a_foreign_append_that_breaks_the_key_does_not_reach_main(lake: quire.Lake) -> None:
    append(2, times=7)(place(lake, "t"))
    found = lake.adopt("t")
    assert found.branch.startswith("foreign/")
    assert content(lake) == FIRST
    assert content(lake.branch(found.branch)) == [(1, 10), (2, 14), (2, 20), (3, 30)]
    with lake.transaction() as tx:
        tx["t"].upsert([{"id": 2, "v": 0}])
    assert content(lake) == [(1, 10), (2, 0), (3, 30)]


def test_a_rival_between_conflict_and_acknowledgement_is_not_lost(lake: quire.Lake) -> None:
    """Main acknowledges a foreign version with a pin of its own; a commit that came between must stay."""
    other = quire.open(lake.uri, backfill=False)
    tx = lake.transaction()
    now = tx.at.by_name("t")
    assert now is not None
    tx.edits[now.info.id] = Edit(now.info, now, ops=["adopt"], pin=msgspec.structs.replace(now.pin, head=7))
    with other.transaction() as theirs:
        theirs["t"].append(rows(50))
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.retryable
    assert content(lake) == [*FIRST, (50, 500)]


def test_other_tables_go_on_while_one_is_foreign(lake: quire.Lake) -> None:
    append(77)(place(lake, "t"))
    with lake.transaction() as tx:
        tx["log"].append(rows(4))
        tx["t"].append(rows(50))
    outcomes = {p.table: p.outcome for p in lake.backfill()}
    assert outcomes == {"t": "foreign", "log": "promoted"}
    assert plain(lake, "log") == content(lake, "log")
    assert plain(lake, "t") == [*FIRST, (77, 770)]
    assert content(lake) == [*FIRST, (50, 500)]


def test_adoption_is_refused_where_it_makes_no_sense(lake: quire.Lake) -> None:
    with pytest.raises(TableNotFound):
        lake.adopt("nope")
    with pytest.raises(InvalidInput):
        lake.create_branch("exp").adopt("t")


# -- tables that were there before ------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [True, False])
def test_an_existing_table_is_registered_where_it_lies(lake: quire.Lake, tmp_path: Path, inside: bool) -> None:
    uri = str((Path(lake.uri) if inside else tmp_path) / "old.lance")
    lance.write_dataset(rows(1), uri)
    append(2)(uri)
    lance.dataset(uri).delete("id = 1")
    before = {p for p in Path(uri).rglob("data/*")}
    with lake.transaction() as tx:
        tx.register_table("old", uri, key="id")
        tx["t"].append(rows(4))
    assert {p for p in Path(uri).rglob("data/*")} == before
    assert content(lake, "old") == [(2, 20)]
    assert lake.foreign() == []
    with lake.transaction() as tx:
        tx["old"].upsert(rows(2, 3, times=7))
    lake.backfill()
    assert content(lake, "old") == [(2, 14), (3, 21)]
    found = lance.dataset(uri).to_table().to_pylist()
    assert sorted(tuple(r.values()) for r in found) == [(2, 14), (3, 21)]
    append(9)(uri)
    assert lake.adopt("old").branch == "main"
    assert content(lake, "old") == [(2, 14), (3, 21), (9, 90)]


def test_registering_what_is_not_there_or_does_not_fit_is_refused(lake: quire.Lake, tmp_path: Path) -> None:
    uri = str(tmp_path / "old.lance")
    lance.write_dataset(rows(1), uri)
    with lake.transaction() as tx:
        with pytest.raises(NotFound):
            tx.register_table("x", str(tmp_path / "nothing"))
        with pytest.raises(ColumnNotFound):
            tx.register_table("x", uri, key="nope")
    assert lake.tables() == ["log", "t"]


def test_one_place_is_one_table(lake: quire.Lake, tmp_path: Path) -> None:
    """Two names for one folder would backfill over each other."""
    uri = str(tmp_path / "old.lance")
    lance.write_dataset(rows(1), uri)
    with lake.transaction() as tx:
        tx.register_table("a", uri)
        with pytest.raises(AlreadyExists):
            tx.register_table("b", uri)
    with pytest.raises(AlreadyExists), lake.transaction() as tx:
        tx.register_table("b", uri)
    with pytest.raises(AlreadyExists), lake.transaction() as tx:
        tx.register_table("b", place(lake, "t"))


def plain_append(lake: quire.Lake, table: str, rows: list[dict[str, object]]) -> None:
    """What a plain Lance client does behind Quire's back."""
    where = f"{lake.uri}/{lake[table].describe()['location']}"
    lance.write_dataset(pa.Table.from_pylist(rows), where, mode="append")


def test_a_second_foreign_write_after_an_adoption_beside_own_rows_loses_neither(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    with lake.transaction() as tx:
        tx["t"].append([{"id": 2}])
    plain_append(lake, "t", [{"id": 100}])
    assert lake.adopt("t").branch == "main"
    plain_append(lake, "t", [{"id": 101}])
    assert lake.adopt("t").branch == "main"

    assert sorted(r["id"] for r in lake["t"].to_pylist()) == [1, 2, 100, 101]
    assert lake["t"].count() == 4
    assert [p.outcome for p in lake.backfill()] == ["promoted"]


def test_an_acknowledged_commit_survives_the_adoption_of_a_later_foreign_write(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    plain_append(lake, "t", [{"id": 3}])
    lake.adopt("t")
    plain_append(lake, "t", [{"id": 4}])
    with lake.transaction() as tx:
        tx["t"].append([{"id": 5}])
    assert lake.adopt("t").branch == "main"
    assert sorted(r["id"] for r in lake["t"].to_pylist()) == [1, 3, 4, 5]


def test_the_same_key_written_by_both_after_an_adoption_goes_to_a_branch(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", pa.table({"id": pa.array([1]), "who": ["ours"]}), key="id")
    plain_append(lake, "t", [{"id": 3, "who": "theirs"}])
    lake.adopt("t")
    plain_append(lake, "t", [{"id": 4, "who": "theirs"}])
    with lake.transaction() as tx:
        tx["t"].insert([{"id": 4, "who": "ours"}])

    kept = lake.adopt("t")
    assert kept.branch.startswith("foreign/")
    ours = {r["id"]: r["who"] for r in lake["t"].to_pylist()}
    theirs = {r["id"]: r["who"] for r in lake.branch(kept.branch)["t"].to_pylist()}
    assert ours == {1: "ours", 3: "theirs", 4: "ours"}
    assert theirs == {1: "ours", 3: "theirs", 4: "theirs"}
    assert [p.outcome for p in lake.backfill()] == ["promoted"]


def test_a_foreign_write_after_one_that_is_kept_on_a_branch_brings_only_its_own_rows(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", pa.table({"id": pa.array([1]), "who": ["ours"]}), key="id")
    with lake.transaction() as tx:
        tx["t"].insert([{"id": 2, "who": "ours"}])
    plain_append(lake, "t", [{"id": 2, "who": "theirs"}])
    assert lake.adopt("t").branch.startswith("foreign/")
    plain_append(lake, "t", [{"id": 9, "who": "theirs"}])
    assert lake.adopt("t").branch == "main"
    assert {r["id"]: r["who"] for r in lake["t"].to_pylist()} == {1: "ours", 2: "ours", 9: "theirs"}


def test_reverting_an_adoption_lets_backfill_go_on(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    plain_append(lake, "t", [{"id": 100}])
    adopted = lake.adopt("t").commit
    assert adopted is not None
    lake.revert(adopted)
    assert [p.outcome for p in lake.backfill()] == ["promoted"]
    assert lake.foreign() == []
    where = f"{lake.uri}/{lake['t'].describe()['location']}"
    assert lance.dataset(where).to_table()["id"].to_pylist() == [1]


def test_a_foreign_write_that_removes_the_key_column_is_kept_on_a_branch(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", pa.table({"id": pa.array([1]), "v": pa.array([10])}), key="id")
    lance.dataset(f"{lake.uri}/{lake['t'].describe()['location']}").drop_columns(["id"])

    kept = lake.adopt("t")
    assert kept.branch.startswith("foreign/")
    side = lake.branch(kept.branch)["t"]
    assert (side.to_pylist(), side.key) == ([{"v": 10}], ())
    assert (lake["t"].to_pylist(), lake["t"].key) == ([{"id": 1, "v": 10}], ("id",))
    assert [p.outcome for p in lake.backfill()] == ["promoted"]


def test_one_foreign_write_is_adopted_once_by_two_adopters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    plain_append(lake, "t", [{"id": 2}])
    other = quire.open(lake.uri, backfill=False)
    graft = adopt._graft

    def and_somebody_is_faster(*args: Any, **options: Any) -> None:
        graft(*args, **options)
        monkeypatch.setattr(adopt, "_graft", graft)
        assert other.adopt("t").commit == "2.0"

    monkeypatch.setattr(adopt, "_graft", and_somebody_is_faster)
    assert lake.adopt("t").commit is None
    assert sorted(r["id"] for r in lake["t"].to_pylist()) == [1, 2]
    assert [b.name for b in lake.branches()] == ["main"]


def test_a_transaction_open_while_a_foreign_write_is_acknowledged_keeps_its_account(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", pa.table({"id": pa.array([1]), "who": ["ours"]}), key="id")
    with lake.transaction() as tx:
        tx["t"].insert([{"id": 2, "who": "ours"}])
    mine = lake.transaction()
    mine["t"].insert([{"id": 50, "who": "ours"}])
    plain_append(lake, "t", [{"id": 2, "who": "theirs"}])
    assert quire.open(lake.uri, backfill=False).adopt("t").branch.startswith("foreign/")
    mine.commit()
    assert [p.outcome for p in lake.backfill()] == ["promoted"]
    where = f"{lake.uri}/{lake['t'].describe()['location']}"
    assert sorted(lance.dataset(where).to_table()["id"].to_pylist()) == [1, 2, 50]
