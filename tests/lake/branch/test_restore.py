"""Tables go back to an earlier commit by a new one that pins their states again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.lake.conftest import rows

import quire
from quire.errors import IntegrityError, NameConflict, SnapshotExpired, TableNotFound


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    """Tag `then`: `a` with ids 1 and 2 and an index, `b` with id 1. Since: both changed, `b` renamed, `new` created."""
    lake = quire.create(tmp_path / "lake")
    with lake.transaction() as tx:
        tx.create_table("a", rows(1, 2), key="id")
        tx.create_table("b", rows(1))
    lake.create_table("gone", rows(9))
    lake.tag("then")
    with lake.transaction() as tx:
        tx["a"].delete("id = 1")
        tx["a"].insert(rows(3))
    with lake.transaction() as tx:
        tx.rename_table("b", "c")
        tx["c"].append(rows(2))
        tx.drop_table("gone")
        tx.create_table("new", rows(1))
    return lake


def ids(lake: quire.Lake) -> dict[str, list[int]]:
    snap = lake.snapshot()
    return {name: sorted(row["id"] for row in snap[name].to_pylist()) for name in snap.tables()}


THEN = {"a": [1, 2], "b": [1], "gone": [9]}
NOW = {"a": [2, 3], "c": [1, 2], "new": [1]}


def test_a_whole_lake_goes_back_and_forth(lake: quire.Lake) -> None:
    before = lake.head
    receipt = lake.restore("then")
    assert ids(lake) == THEN
    entry = lake.show(str(receipt.commit))
    assert entry.message == "restore to 2.0"
    assert set(receipt.tables) == {"a", "b", "gone", "new"}
    assert not lake.diff("then")
    lake.restore(before)
    assert ids(lake) == NOW
    assert lake.restore(lake.head).commit is None
    with lake.transaction() as tx:
        tx["a"].upsert(rows(2, 7))
        tx["c"].append(rows(5))
    assert ids(lake) == {**NOW, "a": [2, 3, 7], "c": [1, 2, 5]}
    lake.close()
    assert lake.verify(deep=True).findings == []


def test_some_tables_go_back_and_others_stay(lake: quire.Lake) -> None:
    lake.restore("then", tables=["a"], message="only a", metadata={"why": "test"})
    assert ids(lake) == {**NOW, "a": [1, 2]}
    assert (lake.log()[0].message, lake.log()[0].metadata) == ("only a", {"why": "test"})
    lake.restore("then", tables=["gone"])
    assert ids(lake) == {**NOW, "a": [1, 2], "gone": [9]}
    lake.restore("then", tables=["b"])
    assert ids(lake) == {**THEN, "new": [1]}


def test_a_table_made_under_the_name_since_gives_way(lake: quire.Lake) -> None:
    lake.create_table("gone", rows(100))
    lake.restore("then", tables=["gone"])
    assert ids(lake)["gone"] == [9]


def test_a_name_that_another_table_keeps_is_refused(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx.rename_table("a", "b")
    with pytest.raises(NameConflict, match="belongs to another table now"):
        lake.restore("then", tables=["b"])
    lake.restore("then", tables=["a", "b"])
    assert {k: v for k, v in ids(lake).items() if k in "ab"} == {"a": [1, 2], "b": [1]}


def test_an_unknown_table_names_those_of_then(lake: quire.Lake) -> None:
    with pytest.raises(TableNotFound, match=r"no table 'c' at commit 2\.0.*a, b, gone"):
        lake.restore("then", tables=["c"])


def test_a_time_and_a_branch(lake: quire.Lake) -> None:
    when = lake.show("then").time
    lake.restore(when)
    assert ids(lake) == THEN
    exp = lake.create_branch("exp")
    with exp.transaction() as tx:
        tx["a"].delete("true")
    lake.restore("branch:exp")
    assert ids(lake)["a"] == []


def test_writers_of_other_tables_go_on_beside_it(lake: quire.Lake) -> None:
    other = quire.open(lake.uri)
    late = other.transaction()
    late["new"].append(rows(50))
    stale = other.transaction()
    stale["a"].upsert(rows(50))
    lake.restore("then", tables=["a"])
    assert late.commit().commit is not None
    assert ids(lake)["new"] == [1, 50]
    with pytest.raises(quire.errors.Conflict):
        stale.commit()
    assert ids(lake)["a"] == [1, 2]


def test_rules_of_a_graph_hold(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake")
    graph = quire.Graph(lake)
    graph.apply_schema("node Person { name: String @key }\nedge Knows: Person -> Person {}\n")
    empty = lake.head
    graph.load([{"type": "Person", "data": {"name": n}} for n in ("Ann", "Ben")])
    graph.load([{"edge": "Knows", "from": "Ann", "to": "Ben"}])
    with pytest.raises(IntegrityError):
        lake.restore(empty, tables=["node:Person"])
    lake.restore(empty, tables=["node:Person", "edge:Knows"])
    assert lake["node:Person"].count() == lake["edge:Knows"].count() == 0


def test_what_cleanup_removed_is_expired_and_a_tag_keeps(lake: quire.Lake) -> None:
    gone = "3.0"
    lake.close()
    old = time.time() - 100_000
    for path in Path(lake.uri).rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
    with quire.open(lake.uri) as fresh:
        fresh.cleanup(keep=1, older_than=0, grace=0)
        with pytest.raises(SnapshotExpired):
            fresh.restore(gone)
        fresh.restore("then")
        assert ids(fresh) == THEN
        fresh.cleanup(keep=1, older_than=0, grace=0)
    assert ids(quire.open(lake.uri)) == THEN
