"""The same suite for what stands above tables: diffs, histories, merges, requests, the feed, upkeep."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.client.test_conformance import filled, lake

import quire
from quire.errors import ConsumerNotFound, InvalidInput, Refused, UnresolvedConflicts, Unsupported

__all__ = ["filled", "lake"]


@pytest.fixture
def parted(filled: Any) -> Any:
    """Main and `trial` have both changed rows: one of them on both sides."""
    trial = filled.create_branch("trial")
    with trial.transaction("there") as tx:
        tx["people"].update(values={"name": "theirs"}, where="id in (1, 2)")
        tx["people"].insert([{"id": 20, "name": "new", "age": 1}])
    with filled.transaction("here") as tx:
        tx["people"].update(values={"name": "ours"}, where="id = 1")
    return filled


def names(lake: Any) -> dict[int, str]:
    return {row["id"]: row["name"] for row in lake["people"].scan(filter="id in (1, 2, 20)").to_pylist()}


def test_a_diff_has_rows(parted: Any) -> None:
    [table] = found = parted.diff("1.0", "trial")
    assert (found.before, found.after, table.name, table.kind) == ("1.0", "2.0", "people", "changed")
    assert (table.added, table.changed, table.removed) == (1, 2, 0)
    assert table.rows.added.to_pylist() == [{"id": 20, "name": "new", "age": 1}]
    assert sorted(table.rows.changed_after["name"].to_pylist()) == ["theirs", "theirs"]
    assert table.some(1).changed_before.num_rows == 1
    assert found.to_dict()["tables"][0]["columns"] == {"added": [], "removed": [], "retyped": []}
    assert len(parted.diff("2.0", "trial")["people"].rows.changed_after) == 2
    assert [t.changed for t in parted.diff("HEAD", "trial", since_base=True)] == [2]


def test_the_history_of_a_row(lake: Any) -> None:
    days = pa.table({"id": pa.array([1], pa.int64()), "day": pa.array([dt.date(2026, 1, 2)])})
    lake.create_table("days", days, key="id")
    with lake.transaction("later") as tx:
        tx["days"].update(values={"day": dt.date(2026, 1, 3)}, where="id = 1")
    found = lake.history("days", 1)
    assert [(v.commit, v.change, v.row["day"], v.columns) for v in found] == [
        ("2.0", "update", dt.date(2026, 1, 3), ("day",)),
        ("1.0", "insert", dt.date(2026, 1, 2), ()),
    ]
    assert found.complete
    assert {column: version.commit for column, version in found.blame().items()} == {"id": "1.0", "day": "2.0"}


def test_the_log_over_all_parents(parted: Any) -> None:
    parted.merge("trial", resolve="theirs", message="both")
    first, both = list(parted.log()), list(parted.log(parents="all"))
    assert [c.message for c in first] == ["both", "here", "first", "create lake"]
    assert sorted(c.message for c in both) == ["both", "create lake", "first", "here", "there"]
    logs = {c.message: c.point.branch for c in both}
    assert logs["here"] == logs["both"] != logs["there"]
    assert [c.message for c in parted.log()[:2]] == ["both", "here"]


# -- merges ------------------------------------------------------------------------------------------------------------


def test_a_merge_with_open_conflicts_commits_nothing(parted: Any) -> None:
    with pytest.raises(UnresolvedConflicts) as caught:
        parted.merge("trial")
    assert caught.value.conflicts[0]["key"] == {"id": 1}
    assert parted.snapshot().commit == "2.0"


def test_a_preview_tells_and_is_resolved_and_committed(parted: Any) -> None:
    plan = parted.merge("trial", preview=True)
    assert (plan.outcome, plan.source, plan.target, plan.ours, plan.theirs, plan.bases) == (
        "merged", "trial", "main", "2.0", "2.0", ["1.0"],
    )  # fmt: skip
    [conflict] = plan.conflicts
    assert (conflict.kind, conflict.key, conflict.columns) == ("update-update", {"id": 1}, ("name",))
    assert (conflict.base["name"], conflict.ours["name"], conflict.theirs["name"]) == ("p1", "ours", "theirs")
    assert [(t["table"], t["open"]) for t in plan.tables] == [("people", 1)]
    assert plan.sql("select count(*) as n from conflicts").to_pylist() == [{"n": 1}]
    with pytest.raises(InvalidInput):
        plan.resolve("people", 7, choose="ours")
    assert plan.resolve("people", 1, values={"name": "both"}) == 1
    assert len(plan.conflicts.open) == 0
    assert plan.conflicts[0].resolution == "values"
    receipt = plan.commit("a merge")
    assert (receipt.commit, receipt.outcome) == ("3.0", "merged")
    assert names(parted) == {1: "both", 2: "theirs", 20: "new"}
    with pytest.raises(Refused):
        plan.commit()
    assert parted.merge("trial").outcome == "up-to-date"


@pytest.mark.parametrize(
    ("resolve", "name"),
    [
        ("ours", "ours"),
        ({"people": "theirs"}, "theirs"),
        ({"people": {"name": "max"}}, "theirs"),
        (lambda conflict: {"name": conflict.ours["name"] + conflict.theirs["name"]}, "ourstheirs"),
    ],
    ids=["side", "table", "column", "function"],
)
def test_conflicts_are_resolved_by_a_strategy(parted: Any, resolve: Any, name: str) -> None:
    parted.merge("trial", resolve=resolve)
    assert names(parted) == {1: name, 2: "theirs", 20: "new"}


def test_edited_conflicts_are_applied_if_they_fit(parted: Any) -> None:
    plan = parted.merge("trial", preview=True)
    rows = [{**one, "resolution": "theirs"} for one in plan.conflicts.to_list()]
    stale = {**rows[0], "fingerprint": "00"}
    assert plan.resolve([*rows, stale]) == 1
    assert [c.fingerprint for c in plan.stale] == ["00"]
    plan.commit()
    assert names(parted)[1] == "theirs"


def test_a_plan_is_of_the_commits_that_it_was_made_for(parted: Any) -> None:
    plan = parted.merge("trial", preview=True, resolve="ours")
    with parted.branch("trial").transaction() as tx:
        tx["people"].insert([{"id": 30, "name": "late", "age": 1}])
    plan.commit()
    assert parted["people"].count("id = 30") == 0


def test_picking_and_undoing_one_commit(parted: Any) -> None:
    parted.cherry_pick("trial:2.0", resolve="ours")
    assert names(parted) == {1: "ours", 2: "theirs", 20: "new"}
    plan = parted.revert("2.0", preview=True, resolve="ours")
    assert plan.outcome == "merged"
    parted.revert("3.0", "undo")
    assert names(parted) == {1: "ours", 2: "p2"}


def test_a_merge_request_from_opening_to_merging(parted: Any) -> None:
    made = parted.requests.open("trial", "Try it", "because")
    assert (made.number, made.state, made.source, made.target, made.text) == (1, "open", "trial", "main", "because")
    assert parted.requests.review(1, "object", "not yet").objections[0].text == "not yet"
    with pytest.raises(Refused, match="objections"):
        parted.requests.merge(1)
    parted.requests.review(1, "approve")
    assert parted.requests.comment(1, "fine").reviews[-1].verdict == "comment"
    plan = parted.merge("trial", preview=True)
    plan.resolve("people", 1, choose="theirs")
    assert len(parted.requests.resolve(1, plan.conflicts).resolutions) == 1
    receipt = parted.requests.merge(1)
    assert receipt.commit == "3.0"
    assert parted.requests.merge(1).commit == "3.0"
    assert parted.requests.get(1).merged == "3.0"
    assert parted.requests.list() == []
    assert [r.title for r in parted.requests.list("merged")] == ["Try it"]
    assert names(parted)[1] == "theirs"
    parted.create_branch("other")
    assert parted.requests.close(parted.requests.open("other", "Another").number, "no").state == "closed"
    assert parted.requests.reopen(2).state == "open"


# -- changes -----------------------------------------------------------------------------------------------------------


def told(feed: Any) -> list[Any]:
    """What a feed says: by commit, the tables with their types of change and keys."""
    found = []
    for block in feed:
        rows = {n: [(r["_change_type"], r.get("id")) for r in t.rows.to_pylist()] for n, t in block.tables.items()}
        found.append((block.commit, rows))
    return found


def test_changes_commit_by_commit(parted: Any) -> None:
    feed = parted.changes("1.0")
    assert told(feed) == [("2.0", {"people": [("update_postimage", 1)]})]
    with parted.transaction("more") as tx:
        tx["people"].delete("id = 0")
        tx["people"].drop_columns("age")
    assert told(feed) == [("3.0", {"people": [("delete", 0)]})]
    assert told(parted.changes(feed.cursor)) == []
    [block] = parted.changes("2.0", images="none")
    assert (block.message, block.tables["people"].events, block.tables["people"].key) == ("more", ("columns",), ("id",))
    assert block.tables["people"].rows.num_rows == 0
    assert told(parted.changes("1.0", images="both", ops=["update"]))[0][1]["people"] == [
        ("update_preimage", 1), ("update_postimage", 1),
    ]  # fmt: skip
    assert [len(b.tables) for b in parted.changes("beginning", tables=["notes"])] == [1, 0, 0]
    [(commit, tables)] = told(parted.changes("1.0", net=True))
    assert (commit, set(tables)) == ("3.0", {"people"})
    assert {("delete", 0), ("update_postimage", 1)} <= set(tables["people"])


def test_a_baseline_is_all_rows_and_then_what_comes(filled: Any) -> None:
    feed = filled.changes("baseline")
    [block] = feed
    assert block.baseline
    assert {name: table.rows.num_rows for name, table in block.tables.items()} == {"people": 10, "notes": 1}
    assert set(block.tables["notes"].rows.column_names) == {
        "text", "_change_type", "_commit", "_commit_seq", "_commit_time",
    }  # fmt: skip
    with filled.transaction() as tx:
        tx["notes"].append([{"text": "two"}])
    assert [b.commit for b in feed] == ["2.0"]


def test_following_ends_without_news_and_sees_them(filled: Any) -> None:
    assert told(filled.changes(follow=True, timeout=0.2)) == []
    feed = iter(filled.changes(follow=True, timeout=20))
    with filled.transaction() as tx:
        tx["notes"].append([{"text": "two"}])
    assert next(feed).commit == "2.0"


def test_a_cursor_of_another_question_is_refused(filled: Any) -> None:
    cursor = filled.changes("1.0", tables=["people"]).cursor
    with pytest.raises(InvalidInput):
        list(filled.changes(cursor))
    with pytest.raises(InvalidInput):
        filled.changes(images="some")


def test_named_consumers(filled: Any) -> None:
    consumer = filled.consumers.open("search", since="beginning", tables=["people"], hold=3600)
    assert [b.commit for b in consumer.changes()] == ["1.0"]
    assert [b.commit for b in consumer.changes()] == ["1.0"]
    consumer.commit(next(iter(consumer.changes())))
    assert (consumer.at, list(consumer.changes())) == ("1.0", [])
    [info] = filled.consumers.list()
    assert (info.name, info.commit, info.holds) == ("search", "1.0", True)
    consumer.renew()
    consumer.reset("baseline")
    assert [b.baseline for b in consumer.changes()] == [True]
    filled.consumers.drop("search")
    with pytest.raises(ConsumerNotFound):
        filled.consumers.drop("search")
    assert filled.consumers.list() == []


# -- upkeep ------------------------------------------------------------------------------------------------------------


def test_upkeep(filled: Any) -> None:
    for text in ("two", "three"):
        with filled.transaction() as tx:
            tx["notes"].append([{"text": text}])
    assert {t.table: t.outcome for t in filled.optimize(dry_run=True).tables}["notes"] == "planned"
    done = filled.optimize(["notes"])
    assert (done["notes"].outcome, done["notes"].fragments_before, done["notes"].fragments_after) == ("optimized", 3, 1)
    assert filled.verify(deep=True).ok
    assert filled.recover().head
    assert {p.table for p in filled.backfill()} >= {"notes"}
    assert filled.cleanup(dry_run=True).dry_run
    cleaned = filled.cleanup(keep=1, older_than=0, grace=0)
    assert cleaned.kept >= 1
    assert filled.status()["tables"] == 2


def test_an_export(filled: Any, tmp_path: Path) -> None:
    done = filled.export(tmp_path / "out", format="jsonl")
    assert (done.commit, done.rows, set(done.tables)) == ("1.0", 11, {"people", "notes"})
    assert len((tmp_path / "out" / done.tables["people"].files[0]).read_text().splitlines()) == 10
    with pytest.raises(quire.QuireError, match="not empty"):
        filled.export(tmp_path / "out")


def test_what_needs_addresses_or_an_engine_is_refused_behind_a_server(filled: Any) -> None:
    if type(filled).__name__ == "Lake":
        pytest.skip("a lake that is opened here can do these")
    with pytest.raises(Unsupported), filled.transaction() as tx:
        tx.register_table("x", "/somewhere")
    with pytest.raises(Unsupported):
        filled.optimize(engine=object())
    with pytest.raises(Unsupported):
        filled.merge("x", author="somebody")
