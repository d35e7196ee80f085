"""Every version of one row, and where each of its values comes from."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

import quire
from quire.errors import InvalidInput, TableNotFound


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake", author="ada")


def story(lake: quire.Lake) -> None:
    lake.create_table("t", [{"id": 1, "a": "x", "b": 1}, {"id": 2, "a": "y", "b": 2}], key="id")
    with lake.transaction("two", author="ben", metadata={"job": "7"}) as tx:
        tx["t"].upsert([{"id": 1, "a": "X", "b": 1}])
    with lake.transaction("others") as tx:
        tx["t"].upsert([{"id": 2, "a": "Y", "b": 2}, {"id": 3, "a": "z", "b": 3}])
    lake.optimize()
    with lake.transaction("by condition") as tx:
        tx["t"].update({"b": "b + 10"}, where="id = 1")
    with lake.transaction("renamed") as tx:
        tx.rename_table("t", "u")


def test_versions_tell_commit_author_and_what_changed(lake: quire.Lake) -> None:
    story(lake)
    last, second, first = found = lake.history("u", 1)
    assert [(v.change, v.columns, v.row) for v in (first, second, last)] == [
        ("insert", (), {"id": 1, "a": "x", "b": 1}),
        ("update", ("a",), {"id": 1, "a": "X", "b": 1}),
        ("update", ("b",), {"id": 1, "a": "X", "b": 11}),
    ]
    assert (second.commit, second.author, second.message, second.metadata) == ("2.0", "ben", "two", {"job": "7"})
    assert second.time == lake.show("2.0").time
    assert found.complete
    assert {name: v.commit for name, v in found.blame().items() if v} == {"id": "1.0", "a": "2.0", "b": last.commit}
    assert found[0].to_dict()["row"] == last.row
    assert repr(second) == "<RowVersion 2.0 by ben: update of a>"


def test_a_row_that_went_and_came_back(lake: quire.Lake) -> None:
    story(lake)
    with lake.transaction() as tx:
        tx["u"].delete("id = 1")
    gone = lake.head
    with lake.transaction() as tx:
        tx["u"].insert([{"id": 1, "a": "n", "b": 0}])
    found = lake.history("u", {"id": 1})
    assert [v.change for v in found] == ["insert", "delete", "update", "update", "insert"]
    assert found[1].row is None
    assert found[1].commit == gone
    assert {v.commit for v in found.blame().values() if v} == {found[0].commit}
    assert [v.change for v in lake.history("u", 1, limit=2)] == ["insert", "delete"]
    assert not lake.history("u", 1, limit=2).complete
    assert list(lake.history("u", 99)) == []
    assert lake.history("u", 99).blame() == {}


def test_commits_that_list_other_keys_are_not_looked_at(lake: quire.Lake) -> None:
    lake.create_table("t", [{"id": 0}], key="id")
    for number in range(1, 21):
        with lake.transaction() as tx:
            tx["t"].insert([{"id": number}])
    lake.close()
    needed = {lake.at(commit=c)._state.by_name("t").pin.version for c in ("1.0", "7.0", "8.0", "21.0")}  # type: ignore[union-attr]
    for path in Path(lake.uri).rglob("d*.manifest"):
        if path.name[1:].removesuffix(".manifest") not in needed:
            path.unlink()  # whoever looked into another state would see that it is gone
    found = quire.open(lake.uri, read_only=True).history("t", 7)
    assert [v.commit for v in found] == ["8.0"]
    assert found.complete


def test_wrong_questions_are_refused(lake: quire.Lake) -> None:
    lake.create_table("plain", [{"id": 1}])
    lake.create_table("pairs", [{"a": 1, "b": "x", "v": 1}], key=["a", "b"])
    with pytest.raises(InvalidInput, match="no key"):
        lake.history("plain", 1)
    with pytest.raises(TableNotFound):
        lake.history("nothing", 1)
    with pytest.raises(quire.QuireError):
        lake.history("pairs", "x")
    with pytest.raises(quire.QuireError):
        lake.history("pairs", (1, 2, 3))
    assert [v.change for v in lake.history("pairs", (1, "x"))] == ["insert"]


def test_what_cleanup_removed_is_not_told_and_said_so(lake: quire.Lake) -> None:
    lake.create_table("t", [{"id": 1, "v": 0}], key="id")
    for number in range(1, 6):
        with lake.transaction() as tx:
            tx["t"].upsert([{"id": 1, "v": number}])
    lake.close()
    old = time.time() - 100_000
    for path in Path(lake.uri).rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
    with quire.open(lake.uri) as fresh:
        fresh.cleanup(keep=3, older_than=0, grace=0)
        found = fresh.history("t", 1)
        assert [v.row["v"] for v in found if v.row] == [5, 4]
        assert not found.complete
        assert found.blame()["id"] is None


def test_nodes_and_edges_of_a_graph(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake")
    graph = quire.Graph(lake)
    graph.apply_schema("node Person { name: String @key age: I32? }\nedge Knows: Person -> Person { since: I32? }\n")
    graph.load([{"type": "Person", "data": {"name": n, "age": 1}} for n in ("Ann", "Ben")])
    graph.load([{"type": "Person", "data": {"name": "Ann", "age": 2}}], mode="merge")
    newest, first = graph.history("Person", "Ann")
    assert (newest.columns, newest.row and newest.row["age"], first.row and first.row["age"]) == (("age",), 2, 1)


@settings(max_examples=budget(10, full=300), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_history_is_what_every_commit_showed(seed: int, tmp_path_factory: Any) -> None:
    chance = random.Random(seed)
    lake = quire.create(tmp_path_factory.mktemp("history") / "lake")
    lake.create_table("t", [{"id": 0, "v": 0}, {"id": 1, "v": 0}], key="id")
    for _ in range(12):
        verb, rows = chance.randint(0, 6), [{"id": k, "v": chance.randint(0, 2)} for k in chance.sample(range(4), 2)]
        with lake.transaction() as tx:
            table = tx["t"]
            if verb <= 1:
                table.upsert(rows)
            elif verb == 2:
                table.insert(rows, exists="ignore")
            elif verb == 3:
                table.delete(f"id = {chance.randint(0, 3)}")
            elif verb == 4:
                table.update(values={"v": chance.randint(0, 2)}, where=f"id <= {chance.randint(0, 3)}")
            elif verb == 5:
                table.overwrite(rows)
        if verb == 6:
            lake.restore(chance.choice([c.id for c in lake.log()][:-1]))
    shown = {c.id: {r["id"]: r for r in lake.at(commit=c.id)["t"].to_pylist()} for c in list(lake.log())[:-1]}
    for key in range(4):
        expected, before = [], None
        for commit in reversed(shown):
            now = shown[commit].get(key)
            if now != before:
                expected.append((commit, now))
            before = now
        assert [(v.commit, v.row) for v in lake.history("t", key)] == expected[::-1]


def test_a_change_that_was_merged_is_told_where_it_was_made(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "merged", author="ada")
    lake.create_table("t", [{"id": 1, "a": 0, "b": 0}], key="id")
    exp = lake.create_branch("exp")
    for n in (1, 2):
        with exp.transaction(f"on exp {n}", author="bo") as tx:
            tx["t"].update(values={"a": n}, where="id = 1")
    lake.fast_forward("exp")
    with lake.transaction("after") as tx:
        tx["t"].update(values={"b": 5}, where="id = 1")
    with exp.transaction("on exp 3") as tx:
        tx["t"].update(values={"a": 3}, where="id = 1")
    lake.delete_branch("exp")
    lake = quire.open(lake.uri)
    found = lake.history("t", 1)
    assert [(v.message, v.change, v.columns) for v in found] == [
        ("after", "update", ("b",)),
        ("on exp 2", "update", ("a",)),
        ("on exp 1", "update", ("a",)),
        ("create t", "insert", ()),
    ]
    assert found.complete
    blame = found.blame()
    assert blame["a"] is not None
    assert blame["a"].author == "bo"
    assert lake.show(blame["a"].commit).message == "on exp 2"
    assert [v.message for v in lake.history("t", 1, limit=2)] == ["after", "on exp 2"]


def test_a_row_that_both_sides_changed_is_the_work_of_both(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "both")
    lake.create_table("t", [{"id": 1, "a": 0, "b": 0}, {"id": 2, "a": 0, "b": 0}], key="id")
    exp = lake.create_branch("exp")
    with exp.transaction("a and the other row", author="bo") as tx:
        tx["t"].update(values={"a": 1}, where="id = 1")
        tx["t"].update(values={"a": 9}, where="id = 2")
    with lake.transaction("b", author="ada") as tx:
        tx["t"].update(values={"b": 1}, where="id = 1")
    lake.merge("exp", message="merge")
    lake.delete_branch("exp")
    assert [v.message for v in lake.history("t", 2)] == ["a and the other row", "create t"]
    assert [v.message for v in lake.history("t", 1)] == ["merge", "a and the other row", "b", "create t"]
