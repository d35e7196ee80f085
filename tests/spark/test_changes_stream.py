"""The changes of a table as a stream of Spark: each commit once, a gap told, columns kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import quire
import quire.spark
from quire.errors import FeedGap, InvalidInput, SchemaMismatch, TableNotFound
from quire.spark.changes import ALL, ChangesReader

NOW: dict[str, Any] = {"keep": 1, "older_than": 0, "grace": 0}


@pytest.fixture
def people(lake: quire.Lake) -> quire.Lake:
    with lake.transaction("start") as tx:
        tx.create_table("people", [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bo"}], key="id")
        tx.create_table("other", [{"n": 1}])
    with lake.transaction("Monday") as tx:
        tx["people"].upsert([{"id": 2, "name": "Ben"}, {"id": 3, "name": "Cy"}])
        tx["people"].delete("id = 1")
    return lake


def reader(lake: quire.Lake, **options: str) -> ChangesReader:
    return ChangesReader({"lake": lake.uri, "table": "people", **options})


def rows(of: ChangesReader, start: Any, end: Any) -> list[tuple[Any, ...]]:
    """What the parts of a batch hold: kind, id, name, whether the row is one of all."""
    found = []
    for part in of.partitions(start, end):
        for batch in of.read(part):
            found += [(r["_change_type"], r["id"], r.get("name"), r["_reset"]) for r in batch.to_pylist()]
    return found


def test_a_batch_has_what_was_committed_between_two_offsets(people: quire.Lake) -> None:
    source = reader(people, since="beginning")
    start = source.initialOffset()
    end = source.latestOffset()
    assert rows(source, start, end) == [
        ("insert", 1, "Ada", True),
        ("insert", 2, "Bo", True),
        ("delete", 1, "Ada", False),
        ("update_postimage", 2, "Ben", False),
        ("insert", 3, "Cy", False),
    ]
    assert source.partitions(end, end) == []
    with people.transaction("elsewhere") as tx:
        tx["other"].append([{"n": 2}])
    people.optimize()
    assert rows(source, end, source.latestOffset(end, None)) == []


def test_both_signatures_of_spark_are_served(people: quire.Lake) -> None:
    streaming = pytest.importorskip("pyspark.sql.streaming.datasource")
    for n in range(4):
        with people.transaction() as tx:
            tx["people"].upsert([{"id": 10 + n, "name": "x"}])
    source = reader(people, since="beginning", commits="2")
    start = source.initialOffset()
    two = source.latestOffset(start, streaming.ReadMaxRows(1))
    assert (start["slot"], two["slot"]) == (0, 2)
    assert source.latestOffset(start, streaming.ReadAllAvailable())["slot"] == 6
    source.partitions(start, two)
    assert source.latestOffset()["slot"] == 4  # without a word where the batch begins
    source.prepareForTriggerAvailableNow()
    with people.transaction() as tx:
        tx["people"].upsert([{"id": 50, "name": "late"}])
    assert source.latestOffset({**start, "slot": 5})["slot"] == 6


def test_a_batch_is_the_same_when_it_runs_again(people: quire.Lake) -> None:
    source = reader(people, since="beginning")
    start, end = source.initialOffset(), source.latestOffset()
    first = rows(source, start, end)
    with people.transaction() as tx:
        tx["people"].upsert([{"id": 2, "name": "later"}])
    assert rows(reader(people), start, end) == first


def test_all_rows_come_first_when_asked_for(people: quire.Lake) -> None:
    source = reader(people, since="baseline")
    assert source.initialOffset() == ALL
    end = source.latestOffset()
    assert sorted(rows(source, ALL, end)) == [("insert", 2, "Ben", True), ("insert", 3, "Cy", True)]


def test_a_gap_is_an_error_or_begins_anew(people: quire.Lake) -> None:
    source = reader(people, since="beginning")
    start = source.initialOffset()
    for n in range(3):
        with people.transaction() as tx:
            tx["people"].upsert([{"id": 4 + n, "name": "x"}])
    people.close()
    for path in Path(people.uri).rglob("*"):
        os.utime(path, (then := path.stat().st_mtime - 60, then))
    people.cleanup(**NOW)
    with pytest.raises(FeedGap):
        source.partitions(start, source.latestOffset())
    again = reader(people, onGap="baseline")
    found = rows(again, start, again.latestOffset())
    assert len(found) == 5
    assert all(reset for _, _, _, reset in found)


def test_changed_columns_end_the_run_and_the_next_one_has_them(people: quire.Lake) -> None:
    source = reader(people, since="now")
    start = source.initialOffset()
    with people.transaction("columns") as tx:
        tx["people"].add_columns({"age": "id * 10"})
    with pytest.raises(SchemaMismatch, match="same checkpoint"):
        source.partitions(start, source.latestOffset())
    again = reader(people)
    found = [
        row for part in again.partitions(start, again.latestOffset()) for b in again.read(part) for row in b.to_pylist()
    ]
    assert sorted((r["id"], r["age"], r["_reset"]) for r in found) == [(2, 20, True), (3, 30, True)]
    end = again.latestOffset()
    with people.transaction("gone") as tx:
        tx.drop_table("people")
    with pytest.raises(TableNotFound, match="dropped"):
        again.partitions(end, again.latestOffset())


def test_a_new_name_ends_the_stream(people: quire.Lake) -> None:
    source = reader(people, since="now")
    start = source.initialOffset()
    with people.transaction() as tx:
        tx.rename_table("people", "persons")
    with pytest.raises(TableNotFound, match="renamed"):
        source.partitions(start, source.latestOffset())


def test_executors_read_and_compare_a_change_that_is_large(people: quire.Lake, spark: Any) -> None:
    blocks = list(people.changes("beginning", images="both"))
    for block in blocks:
        for changes in block.tables.values():
            frame = changes.frame(spark)
            assert sorted(frame.columns) == sorted(changes.rows.column_names)
            names = changes.rows.column_names
            there = sorted(str(tuple(row)) for row in frame.select([n for n in names if n != "_commit_time"]).collect())
            here = changes.rows.drop_columns(["_commit_time"]).to_pylist()
            assert there == sorted(str(tuple(row.values())) for row in here)
    with pytest.raises(InvalidInput, match="Spark session"):
        blocks[0].tables["people"].frame("local")


WRONG = [{"onGap": "ignore"}, {"commits": "0"}, {"commits": "x"}, {"hold": "-1", "consumer": "c"}, {"hold": "9"}]


@pytest.mark.parametrize("options", WRONG)
def test_what_is_wrong_is_told(people: quire.Lake, options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        reader(people, **options)


def test_a_stream_into_another_lake_applies_each_change_once(people: quire.Lake, spark: Any, tmp_path: Path) -> None:
    copy = quire.create(tmp_path / "copy")
    copy.create_table("people", [{"id": 0, "name": "none"}], key="id")

    def apply(tx: Any, batch: Any) -> None:
        batch = batch.orderBy("_commit_seq").persist()
        for commit in [r[0] for r in batch.select("_commit_seq").distinct().orderBy("_commit_seq").collect()]:
            part = batch.where(batch._commit_seq == commit)
            gone = [r.id for r in part.where("_change_type = 'delete'").collect()]
            if gone:
                tx["people"].delete(f"id in ({', '.join(map(str, gone))})")
            tx["people"].upsert(part.where("_change_type <> 'delete'").select("id", "name"))

    def run(checkpoint: str) -> None:
        changes = (
            spark.readStream.format("quire")
            .option("changes", "true")
            .option("lake", people.uri)
            .option("since", "beginning")
            .option("consumer", "copy")
            .option("hold", "3600")
            .load("people")
        )
        query = (
            changes.writeStream.foreachBatch(quire.spark.sink(copy, apply, stream="people copy"))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(240)
        assert query.exception() is None

    run("one")
    copied = {r["id"]: r["name"] for r in quire.open(copy.uri)["people"].to_pylist()}
    assert copied == {0: "none", 2: "Ben", 3: "Cy"}
    with people.transaction("Tuesday") as tx:
        tx["people"].upsert([{"id": 3, "name": "Cyd"}])
    run("one")
    copied = {r["id"]: r["name"] for r in quire.open(copy.uri)["people"].to_pylist()}
    assert copied[3] == "Cyd"
    [consumer] = people.consumers.list()
    assert consumer.holds
    # Spark's own record of finished batches is lost: the batches run again, and nothing is applied twice.
    before = quire.open(copy.uri).head
    for file in (tmp_path / "one" / "commits").iterdir():
        file.unlink()
    run("one")
    assert quire.open(copy.uri).head == before
