"""The change feed: every commit as a block of typed rows, cursors at commit ends, gaps that say how to go on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.lake.conftest import rows

import quire
from quire.errors import BranchClosed, FeedGap, InvalidInput, Unsupported
from quire.lake.feed.blocks import ChangeBlock, TableChanges


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake", author="ada")


def told(changes: TableChanges) -> list[tuple[str, Any]]:
    """Type and id of every changed row, in order."""
    found = changes.rows
    return list(zip(found.column("_change_type").to_pylist(), found.column("id").to_pylist(), strict=True))


def all_of(lake: quire.Lake, since: str = "beginning", **asked: Any) -> list[ChangeBlock]:
    return list(lake.changes(since, **asked))


def story(lake: quire.Lake) -> None:
    with lake.transaction("start", metadata={"job": "7"}) as tx:
        tx.create_table("k", [{"id": 2, "v": "b"}, {"id": 1, "v": "a"}], key="id")
        tx.create_table("p", rows(1, 1))
    with lake.transaction("rows") as tx:
        tx["k"].upsert([{"id": 1, "v": "A"}, {"id": 3, "v": "c"}])
        tx["k"].delete("id = 2")
        tx["p"].append(rows(1))
    lake.optimize()


def test_every_commit_is_a_block_of_typed_rows(lake: quire.Lake) -> None:
    story(lake)
    start, changed, *upkeep = all_of(lake)
    assert (start.commit, start.message, start.author, start.metadata) == ("1.0", "start", "ada", {"job": "7"})
    assert start.parents == ("0.0",)
    assert list(start.tables) == ["k", "p"]
    assert (start.tables["k"].events, start.tables["k"].reset) == (("created",), True)
    assert told(start.tables["k"]) == [("insert", 1), ("insert", 2)], "ordered by key"
    assert told(start.tables["p"]) == [("insert", 1), ("insert", 1)]

    keyed = changed.tables["k"]
    assert told(keyed) == [("update_postimage", 1), ("delete", 2), ("insert", 3)]
    assert keyed.rows.column("v").to_pylist() == ["A", "b", "c"]
    assert set(keyed.rows.column("_commit").to_pylist()) == {"2.0"}
    assert set(keyed.rows.column("_commit_seq").to_pylist()) == {changed.sequence}
    assert keyed.rows.column("_commit_time").to_pylist()[0] == changed.time
    assert keyed.rows.schema.field("_commit_time").type == pa.timestamp("us", "UTC")
    assert told(changed.tables["p"]) == [("insert", 1)]
    assert upkeep
    assert not any(upkeep), "upkeep changes no row"
    assert start.sequence < changed.sequence < upkeep[0].sequence


def test_images_and_ops(lake: quire.Lake) -> None:
    story(lake)
    both = told(all_of(lake, images="both")[1].tables["k"])
    assert both == [("update_preimage", 1), ("update_postimage", 1), ("delete", 2), ("insert", 3)]
    assert told(all_of(lake, ops=["delete"])[1].tables["k"]) == [("delete", 2)]
    assert told(all_of(lake, ops=["update", "insert"])[1].tables["k"]) == [("update_postimage", 1), ("insert", 3)]
    assert told(all_of(lake, images="none")[1].tables["k"]) == []
    only = all_of(lake, tables=["p"])
    assert [list(block.tables) for block in only[:2]] == [["p"], ["p"]]
    assert len(only) == len(all_of(lake)), "blocks of other tables are empty, so that cursors go on"


def test_a_cursor_goes_on_where_a_block_ended(lake: quire.Lake) -> None:
    story(lake)
    blocks = all_of(lake)
    for place, block in enumerate(blocks):
        assert [b.commit for b in lake.changes(block.cursor)] == [b.commit for b in blocks[place + 1 :]]
        assert [b.commit for b in lake.changes(block.commit)] == [b.commit for b in blocks[place + 1 :]]
    feed = lake.changes("now")
    assert list(feed) == []
    lake.create_table("late", rows(9))
    again = quire.open(lake.uri)
    [late] = again.changes(feed.cursor)
    assert list(late.tables) == ["late"]
    assert late.cursor == again.changes("now").cursor


def test_a_cursor_inside_a_group_goes_on_in_the_group(lake: quire.Lake) -> None:
    lake.create_table("t", rows(0))

    def write(number: int) -> None:
        for turn in range(4):
            with lake.transaction() as tx:
                tx["t"].append(rows(10 * number + turn))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    blocks = all_of(lake, "1.0")
    assert [b.commit for b in blocks] == [c.id for c in reversed(list(lake.log(32)))]
    if not any(not b.commit.endswith(".0") for b in blocks):
        pytest.fail("no slot was shared, so the test shows nothing")
    ids = [told(b.tables["t"])[0][1] for b in blocks]
    for place, block in enumerate(blocks):
        assert [told(b.tables["t"])[0][1] for b in lake.changes(block.cursor)] == ids[place + 1 :]


@pytest.mark.parametrize("text", ["qc1.", "qc1.AAAA", "qc1.é", "qc1." + "x" * 9999, "nonsense", "17.0", ""])
def test_what_is_no_place_of_the_feed_is_refused(lake: quire.Lake, text: str) -> None:
    with pytest.raises(quire.QuireError) as caught:
        lake.changes(text)
    assert caught.value.kind in ("invalid-input", "commit-not-found", "invalid-name")


def test_a_cursor_of_another_lake_branch_or_filter_is_refused(lake: quire.Lake, tmp_path: Path) -> None:
    lake.create_table("t", rows(1))
    cursor = lake.changes("now").cursor
    for other, asked in (
        (quire.create(tmp_path / "other"), {}),
        (lake.create_branch("exp"), {}),
        (lake, {"tables": ["t"]}),
        (lake, {"images": "both"}),
    ):
        with pytest.raises(InvalidInput, match="belongs to another"):
            other.changes(cursor, **asked)
    named = lake.changes("now", tables=["a", "b"]).cursor
    assert list(lake.changes(named, tables=["b", "a"])) == []


@pytest.mark.parametrize(
    "asked",
    [{"ops": ["upsert"]}, {"images": "before"}, {"net": True, "follow": True}, {"poll": 0}, {"timeout": -1}],
)
def test_wrong_options_are_refused(lake: quire.Lake, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        lake.changes(**asked)


def test_events_of_tables_and_columns(lake: quire.Lake) -> None:
    lake.create_table("a", [{"id": 1, "v": 1}], key="id")
    start = lake.head
    with lake.transaction() as tx:
        tx.rename_table("a", "b")
    with lake.transaction() as tx:
        tx["b"].add_columns({"w": "v + 1"})
    with lake.transaction() as tx:
        tx["b"].drop_columns(["v"])
    with lake.transaction() as tx:
        tx.drop_table("b")
    renamed, added, dropped, gone = (block.tables["b"] for block in lake.changes(start))
    assert (renamed.events, renamed.was, renamed.reset, renamed.rows.num_rows) == (("renamed",), "a", False, 0)
    assert (added.events, added.columns["added"], added.reset) == (("columns",), ["w"], True)
    assert added.rows.select(["id", "v", "w", "_change_type"]).to_pylist() == [
        {"id": 1, "v": 1, "w": 2, "_change_type": "insert"}
    ]
    assert (dropped.columns["removed"], dropped.reset, dropped.rows.num_rows) == (["v"], False, 0)
    assert (gone.events, gone.rows.num_rows) == (("dropped",), 0)
    assert len({renamed.id, added.id, dropped.id, gone.id}) == 1, "a table keeps its id"


def test_net_is_one_block(lake: quire.Lake) -> None:
    story(lake)
    feed = lake.changes("1.0", net=True)
    [block] = feed
    assert block.commit == lake.head
    assert told(block.tables["k"]) == [("update_postimage", 1), ("delete", 2), ("insert", 3)]
    assert feed.cursor == block.cursor
    assert list(feed) == []
    assert list(lake.changes(lake.head, net=True)) == []


def test_a_baseline_is_the_newest_state_and_what_comes_after(lake: quire.Lake) -> None:
    story(lake)
    feed = lake.changes("baseline")
    first, *rest = feed
    assert rest == []
    assert (first.baseline, first.commit) == (True, lake.head)
    assert all(table.reset for table in first.tables.values())
    assert told(first.tables["k"]) == [("insert", 1), ("insert", 3)]
    assert sum(batch.num_rows for batch in first.tables["p"].batches()) == 3
    with lake.transaction() as tx:
        tx["p"].append(rows(5))
    assert [told(block.tables["p"]) for block in feed] == [[("insert", 5)]]


def test_a_follower_sees_its_own_commits_at_once_and_those_of_others(lake: quire.Lake) -> None:
    lake.create_table("t", rows(0))
    other = quire.open(lake.uri)
    feed = lake.changes("now", follow=True, poll=0.05, timeout=20)
    heard: list[tuple[str, Any]] = []

    def listen() -> None:
        for block in feed:
            heard.extend(told(block.tables["t"]))
            if len(heard) == 2:
                return

    listener = threading.Thread(target=listen)
    listener.start()
    with lake.transaction() as tx:
        tx["t"].append(rows(1))
    with other.transaction() as tx:
        tx["t"].append(rows(2))
    listener.join(30)
    assert heard == [("insert", 1), ("insert", 2)]
    assert list(lake.changes("now", follow=True, poll=0.05, timeout=0.1)) == []


def test_watch_names_each_newer_commit(lake: quire.Lake) -> None:
    watching = lake.watch(poll=0.05, timeout=20)
    timer = threading.Timer(0.2, lambda: quire.open(lake.uri).create_table("t", rows(1)))
    timer.start()
    assert next(watching) == "1.0"
    assert list(lake.watch(poll=0.05, timeout=0.1)) == []


def test_a_branch_that_is_deleted_ends_its_followers(lake: quire.Lake) -> None:
    exp = lake.create_branch("exp")
    feed = iter(exp.changes("now", follow=True, poll=0.05, timeout=20))
    threading.Timer(0.2, lambda: lake.delete_branch("exp")).start()
    with pytest.raises(BranchClosed):
        next(feed)


def test_a_branch_begins_with_what_it_inherited(lake: quire.Lake) -> None:
    lake.create_table("t", rows(1))
    exp = lake.create_branch("exp")
    with exp.transaction() as tx:
        tx["t"].append(rows(2))
    with lake.transaction() as tx:
        tx["t"].append(rows(3))
    assert [told(block.tables["t"]) for block in exp.changes("beginning")] == [[("insert", 1)], [("insert", 2)]]
    lake.create_branch("late", at="1.0")
    assert [told(b.tables["t"]) for b in lake.branch("late").changes("beginning")] == [[("insert", 1)]]


def age(lake: quire.Lake) -> None:
    old = time.time() - 100_000
    for path in Path(lake.uri).rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))


def test_what_cleanup_removed_is_a_gap_with_a_way_on(lake: quire.Lake) -> None:
    lake.create_table("t", rows(1), key=None)
    stale = lake.changes("now").cursor
    for number in range(2, 7):
        with lake.transaction() as tx:
            tx["t"].append(rows(number))
    lake.close()
    age(lake)
    with quire.open(lake.uri) as fresh:
        fresh.cleanup(keep=2, older_than=0, grace=0)
        for since in (stale, "beginning", "2.0"):
            with pytest.raises(FeedGap) as caught:
                list(fresh.changes(since))
            assert caught.value.kind == "feed-gap"
            going_on = list(fresh.changes(caught.value.cursor))
            assert [told(b.tables["t"]) for b in going_on] == [[("insert", 6)]]
        first = next(iter(fresh.changes("baseline")))
        assert sorted(first.tables["t"].rows.column("id").to_pylist()) == [1, 2, 3, 4, 5, 6]


def test_a_block_is_applied_once_by_its_token(lake: quire.Lake, tmp_path: Path) -> None:
    story(lake)
    copy = quire.create(tmp_path / "copy")

    def apply(block: ChangeBlock) -> bool:
        with copy.transaction(block.message, token=block.token("copy")) as tx:
            if tx.repeated():
                return False
            for name, changes in block.tables.items():
                replay(tx, name, changes)
        return True

    blocks = all_of(lake)
    assert [apply(block) for block in [*blocks, *blocks]] == [True] * len(blocks) + [False] * len(blocks)
    for name in ("k", "p"):
        assert sorted(map(str, copy[name].to_pylist())) == sorted(map(str, lake[name].to_pylist()))


def replay(tx: quire.Transaction, name: str, changes: TableChanges) -> None:
    """What a consumer does with the changes of a table, in a lake of its own."""
    if "dropped" in changes.events:
        tx.drop_table(name)
        return
    if changes.was is not None:
        tx.rename_table(changes.was, name)
    found = changes.rows.drop_columns(["_change_type", "_commit", "_commit_seq", "_commit_time"])
    kinds = changes.rows.column("_change_type")
    if changes.reset:
        if "created" in changes.events:
            tx.create_table(name, found, key=list(changes.key) or None)
        else:
            tx[name].overwrite(found, schema="replace")
        return
    if changes.columns["removed"]:
        tx[name].drop_columns(changes.columns["removed"])

    def some(kind: str) -> pa.Table:
        chosen = found.filter(pa.compute.equal(kinds, kind))
        return chosen.select([n for n in chosen.column_names if n not in changes.columns["removed"]])

    if changes.key:
        gone = some("delete").select(list(changes.key)).to_pylist()
        for key in gone:
            tx[name].delete(" and ".join(f"{column} = {value!r}" for column, value in key.items()))
        tx[name].upsert(pa.concat_tables([some("update_postimage"), some("insert")]))
    else:
        left = without(tx[name].to_arrow().to_pylist(), some("delete").to_pylist()) + some("insert").to_pylist()
        tx[name].overwrite(pa.Table.from_pylist(left, schema=tx[name].schema))


def without(rows: Sequence[Any], gone: Sequence[Any]) -> list[Any]:
    """A multiset without some of its members."""
    left = list(rows)
    for row in gone:
        left.remove(row)
    return left


def test_a_column_that_changes_are_told_by_is_refused(lake: quire.Lake) -> None:
    lake.create_table("t", [{"_commit": 1}])
    [block] = lake.changes("0.0")
    with pytest.raises(Unsupported, match="_commit"):
        _ = block.tables["t"].rows


def test_blocks_and_changes_show_themselves(lake: quire.Lake) -> None:
    story(lake)
    block = all_of(lake)[0]
    assert repr(block) == "<ChangeBlock 1.0: k, p>"
    assert repr(block.tables["k"]) == "<TableChanges k created>"
    assert repr(lake.changes("1.0")) == "<Feed of 'main' after 1.0>"
    assert block.to_dict()["tables"][0] == {
        "table": "k",
        "id": block.tables["k"].id,
        "events": ["created"],
        "was": None,
        "columns": {"added": [], "removed": [], "retyped": []},
        "reset": True,
    }
