"""Every writing verb leaves the same rows, counts and errors on Spark as in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
import quire.spark
from quire.errors import (
    ColumnNotFound,
    Conflict,
    DuplicateKeys,
    InvalidInput,
    KeyConflict,
    QuireError,
    SchemaMismatch,
    TableNotFound,
    Unsupported,
)
from quire.spark.write import SparkTable

OLD = [{"id": i, "name": f"old {i}", "score": i / 2} for i in range(20)]
NEW = [{"id": i, "name": f"new {i}", "score": None if i % 7 == 0 else i * 1.5} for i in range(15, 40)]
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("score", pa.float64())])
DDL = "id long, name string, score double"


@pytest.fixture(params=["tasks", "shuffle"])
def compared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which keys are compared: every task reads them all, or Spark shuffles them."""
    if request.param == "shuffle":
        monkeypatch.setattr(SparkTable, "few", 0)
    return str(request.param)


def started(path: Path, *, key: str | None) -> quire.Lake:
    lake = quire.create(path)
    with lake.transaction() as tx:
        tx.create_table("t", schema=SCHEMA, key=key)
        tx["t"].append(OLD[:12])
    with lake.transaction() as tx:
        tx["t"].append(OLD[12:])
    return lake


def rows(lake: quire.Lake, table: str = "t") -> list[dict[str, Any]]:
    return sorted(lake[table].to_pylist(), key=lambda row: row["id"])


def both(
    tmp_path: Path, spark: Any, key: str | None, local: Callable[[Any], Any], on_spark: Callable[[Any, Any], Any]
) -> tuple[quire.Lake, quire.Lake, Any, Any]:
    """Do the same in this process and on Spark: both lakes, and what both returned."""
    here, there = started(tmp_path / "here", key=key), started(tmp_path / "there", key=key)
    with here.transaction("the change") as tx:
        said = local(tx["t"])
    with quire.spark.transaction(spark, there, "the change") as stx:
        told = on_spark(stx["t"], spark)
    first, second = tx.receipt, stx.receipt
    assert first is not None
    assert second is not None
    a, b = first.tables["t"], second.tables["t"]
    assert a == b
    assert rows(here) == rows(there)
    assert there["t"].schema == here["t"].schema
    return here, there, said, told


def frame(spark: Any, data: list[dict[str, Any]]) -> Any:
    """The rows in two partitions."""
    return spark.createDataFrame([tuple(r.values()) for r in data], DDL)


def test_append(tmp_path: Path, spark: Any) -> None:
    *_, said, told = both(tmp_path, spark, None, lambda t: t.append(NEW), lambda t, s: t.append(frame(s, NEW)))
    assert said == told == len(NEW)


@pytest.mark.full
def test_insert(tmp_path: Path, spark: Any) -> None:
    fresh = [row for row in NEW if row["id"] >= 20]
    *_, said, told = both(tmp_path, spark, "id", lambda t: t.insert(fresh), lambda t, s: t.insert(frame(s, fresh)))
    assert said == told == len(fresh)


@pytest.mark.full
@pytest.mark.sampled(1)
def test_upsert(tmp_path: Path, spark: Any, compared: str) -> None:
    *_, said, told = both(tmp_path, spark, "id", lambda t: t.upsert(NEW), lambda t, s: t.upsert(frame(s, NEW)))
    assert said == told == {"inserted": 20, "updated": 5}


@pytest.mark.full
@pytest.mark.sampled(1)
def test_upsert_by_columns_that_are_no_key(tmp_path: Path, spark: Any, compared: str) -> None:
    *_, said, told = both(
        tmp_path,
        spark,
        None,
        lambda t: (t.append([OLD[15]]), t.upsert(NEW, on="id"))[1],
        lambda t, s: (t.append(frame(s, [OLD[15]])), t.upsert(frame(s, NEW), on="id"))[1],
    )
    assert said == told == {"inserted": 20, "updated": 5}


def test_upsert_of_some_columns_keeps_the_others(tmp_path: Path, spark: Any) -> None:
    part = [{"id": row["id"], "name": row["name"]} for row in NEW]
    *_, said, told = both(
        tmp_path,
        spark,
        "id",
        lambda t: t.upsert(part),
        lambda t, s: t.upsert(frame(s, NEW).drop("score")),
    )
    assert said == told == {"inserted": 20, "updated": 5}


@pytest.mark.full
@pytest.mark.sampled(1)
def test_delete_by_keys(tmp_path: Path, spark: Any, compared: str) -> None:
    *_, said, told = both(
        tmp_path,
        spark,
        "id",
        lambda t: t.delete("id >= 10 and id < 30"),
        lambda t, s: t.delete(s.range(10, 30).union(s.range(12, 15))),
    )
    assert said == told == 10


@pytest.mark.full
def test_delete_by_condition(tmp_path: Path, spark: Any) -> None:
    *_, said, told = both(tmp_path, spark, None, lambda t: t.delete("id < 3"), lambda t, s: t.delete("id < 3"))
    assert said == told == 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", [None, "id"])
def test_overwrite(tmp_path: Path, spark: Any, key: str | None) -> None:
    *_, said, told = both(tmp_path, spark, key, lambda t: t.overwrite(NEW), lambda t, s: t.overwrite(frame(s, NEW)))
    assert said == told == len(NEW)


@pytest.mark.full
def test_overwrite_with_other_columns(tmp_path: Path, spark: Any) -> None:
    other = pa.table({"id": pa.array([1, 2, 3]), "when": pa.array(["a", "b", None])})
    both(
        tmp_path,
        spark,
        None,
        lambda t: t.overwrite(other, schema="replace"),
        lambda t, s: t.overwrite(
            s.createDataFrame([(1, "a"), (2, "b"), (3, None)], "id long, when string"), schema="replace"
        ),
    )


@pytest.mark.full
def test_overwrite_after_a_column_was_dropped_and_one_added(tmp_path: Path, spark: Any) -> None:
    def reshape(table: Any) -> None:
        table.drop_columns("name")
        table.add_columns({"name": pa.string()})

    data = [{"id": 1, "score": 0.5, "name": "x"}]
    both(
        tmp_path,
        spark,
        "id",
        lambda t: (reshape(t), t.overwrite(data), t.append([{"id": 2, "score": 1.0, "name": "y"}])),
        lambda t, s: (
            reshape(t.table),
            t.overwrite(s.createDataFrame([(1, "x", 0.5)], DDL)),
            t.append(s.createDataFrame([(2, "y", 1.0)], DDL)),
        ),
    )


@pytest.mark.full
def test_append_after_columns_were_dropped_and_renamed(tmp_path: Path, spark: Any) -> None:
    def reshape(table: Any) -> None:
        table.drop_columns("name")
        table.rename_column("score", "points")

    both(
        tmp_path,
        spark,
        None,
        lambda t: (reshape(t), t.append([{"id": 100, "points": 1.0}])),
        lambda t, s: (reshape(t.table), t.append(s.createDataFrame([(100, 1.0)], "id long, points double"))),
    )


def test_statements_see_each_other(tmp_path: Path, spark: Any, compared: str) -> None:
    both(
        tmp_path,
        spark,
        "id",
        lambda t: (t.insert([NEW[-1]]), t.upsert(NEW), t.delete("id in (16, 17, 39)"), t.insert([NEW[1]])),
        lambda t, s: (
            t.insert(frame(s, [NEW[-1]])),
            t.upsert(frame(s, NEW)),
            t.delete(s.createDataFrame([(16,), (17,), (39,)], "id long")),
            t.insert(frame(s, [NEW[1]])),
        ),
    )


@pytest.mark.full
def test_a_new_table_of_a_frame(lake: quire.Lake, spark: Any) -> None:
    with quire.spark.transaction(spark, lake, "made") as tx:
        tx.create_table("a", frame(spark, OLD), key="id")
        tx.create_table("b", frame(spark, NEW))
        tx["a"].upsert(frame(spark, NEW))
    assert len(list(lake.log())) == 2
    assert lake["a"].count() == 40
    assert lake["a"].key == ("id",)
    assert rows(lake, "b") == NEW


def test_many_tables_move_in_one_commit(tmp_path: Path, spark: Any) -> None:
    lake = started(tmp_path, key="id")
    lake.create_table("u", schema=SCHEMA)
    before = lake.head
    with quire.spark.transaction(spark, lake, "both", author="ada") as tx:
        tx["t"].upsert(frame(spark, NEW))
        tx["u"].append(frame(spark, NEW))
        assert quire.open(lake.uri).head == before
        assert tx["u"].frame(filter="id > 30").count() == 9
    newest = next(iter(lake.log()))
    assert (newest.message, newest.author) == ("both", "ada")
    assert sorted(newest.tables) == ["t", "u"]


@pytest.mark.full
def test_an_exception_leaves_nothing_visible(tmp_path: Path, spark: Any) -> None:
    lake = started(tmp_path, key=None)
    with pytest.raises(ZeroDivisionError), quire.spark.transaction(spark, lake) as tx:
        tx["t"].append(frame(spark, NEW)) / 0
    assert rows(quire.open(lake.uri)) == OLD


@pytest.mark.full
def test_a_token_commits_once(tmp_path: Path, spark: Any) -> None:
    lake, token = started(tmp_path, key=None), quire.token()
    for _ in range(2):
        with quire.spark.transaction(spark, lake, token=token) as tx:
            tx["t"].append(frame(spark, NEW))
    assert tx.receipt is not None
    assert tx.receipt.repeated
    assert lake["t"].count() == len(OLD) + len(NEW)


def test_an_empty_frame_changes_nothing(tmp_path: Path, spark: Any) -> None:
    lake = started(tmp_path, key="id")
    with quire.spark.transaction(spark, lake) as tx:
        assert tx["t"].append(frame(spark, NEW).where("id < 0")) == 0
        assert tx["t"].upsert(frame(spark, NEW).where("id < 0")) == {"inserted": 0, "updated": 0}
        assert tx["t"].delete(spark.range(0)) == 0
    assert tx.receipt is not None
    assert tx.receipt.commit is None


# -- refusals ----------------------------------------------------------------------------------------------------------


def refused(lake: quire.Lake, spark: Any, statement: Callable[[Any], Any]) -> QuireError:
    with pytest.raises(QuireError) as caught, quire.spark.transaction(spark, lake) as tx:
        statement(tx["t"])
    assert rows(lake) == OLD
    return caught.value


@pytest.mark.sampled(1)
def test_a_key_that_exists_is_a_conflict(tmp_path: Path, spark: Any, compared: str) -> None:
    lake = started(tmp_path, key="id")
    error = refused(lake, spark, lambda t: t.append(frame(spark, NEW)))
    assert isinstance(error, KeyConflict)
    assert {row["id"] for row in error.keys} == {15, 16, 17, 18, 19}
    assert str(error).startswith("Table 't' already has a row with id=")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("verb", "few"), [("insert", 0), ("upsert", 100), ("overwrite", 100)])
def test_a_key_that_comes_twice_is_refused(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, verb: str, few: int
) -> None:
    monkeypatch.setattr(SparkTable, "few", few)
    lake = started(tmp_path, key="id")
    twice = [{**NEW[0], "id": 70}, {**NEW[0], "id": 71}, {**NEW[1], "id": 70}]
    error = refused(lake, spark, lambda t: getattr(t, verb)(frame(spark, twice)))
    assert isinstance(error, DuplicateKeys)
    assert error.keys == [{"id": 70}]


@pytest.mark.full
@pytest.mark.sampled(1)
@pytest.mark.parametrize("verb", ["upsert", "delete"])
def test_a_key_that_is_null_is_refused(tmp_path: Path, spark: Any, verb: str) -> None:
    lake = started(tmp_path, key="id")
    error = refused(lake, spark, lambda t: getattr(t, verb)(spark.createDataFrame([(None, "x", 1.0)], DDL)))
    assert isinstance(error, DuplicateKeys)
    assert error.column == "id"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("ddl", "row"),
    [
        ("id long, name string", (50, "x")),
        (DDL + ", extra int", (50, "x", 1.0, 1)),
        ("id string, name string, score double", ("50", "x", 1.0)),
    ],
)
def test_columns_that_do_not_fit_are_refused_as_in_this_process(
    tmp_path: Path, spark: Any, ddl: str, row: tuple[Any, ...]
) -> None:
    lake = started(tmp_path, key=None)
    error = refused(lake, spark, lambda t: t.append(spark.createDataFrame([row], ddl)))
    names = [part.split()[0] for part in ddl.split(", ")]
    with pytest.raises(SchemaMismatch) as local, lake.transaction() as tx:
        tx["t"].append(iter([pa.Table.from_pylist([dict(zip(names, row, strict=True))])]))
    assert str(error) == str(local.value)


def test_a_value_that_does_not_fit_is_found_by_a_task(tmp_path: Path, spark: Any) -> None:
    lake = quire.create(tmp_path)
    lake.create_table("t", schema=pa.schema([("id", pa.int8())]))
    with pytest.raises(SchemaMismatch, match="'id'"), quire.spark.transaction(spark, lake) as tx:
        tx["t"].append(spark.range(1000))
    assert lake["t"].count() == 0


def test_misuse_is_told(tmp_path: Path, spark: Any) -> None:
    lake = started(tmp_path, key=None)
    assert "no key" in str(refused(lake, spark, lambda t: t.upsert(frame(spark, NEW))))
    assert isinstance(
        refused(lake, spark, lambda t: t.upsert(frame(spark, NEW), on="nix")), SchemaMismatch | ColumnNotFound
    )
    assert isinstance(refused(lake, spark, lambda t: t.append(NEW)), InvalidInput)
    with pytest.raises(TableNotFound), quire.spark.transaction(spark, lake) as tx:
        tx["nix"].append(frame(spark, NEW))


def test_a_lake_in_memory_is_out_of_reach(spark: Any) -> None:
    lake = quire.create("memory://out-of-reach")
    lake.create_table("t", schema=SCHEMA)
    with pytest.raises(Unsupported, match="memory"), quire.spark.transaction(spark, lake) as tx:
        tx["t"].append(frame(spark, NEW))


# -- rivals ------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_rows_of_rivals_are_kept(tmp_path: Path, spark: Any) -> None:
    lake = started(tmp_path, key="id")
    with quire.spark.transaction(spark, lake) as tx:
        tx["t"].upsert(frame(spark, NEW))
        with quire.open(lake.uri).transaction() as rival:
            rival["t"].upsert([{"id": 2, "name": "rival", "score": 0.0}, {"id": 900, "name": "rival", "score": 0.0}])
    assert tx.receipt is not None
    assert tx.receipt.rebased == 1
    found = {row["id"]: row["name"] for row in rows(lake)}
    assert found[2] == found[900] == "rival"
    assert found[16] == "new 16"
    assert len(found) == 41


@pytest.mark.sampled(1)
def test_an_upsert_runs_again_where_a_rival_wrote_the_same_key(tmp_path: Path, spark: Any, compared: str) -> None:
    lake = started(tmp_path, key="id")
    with quire.spark.transaction(spark, lake) as tx:
        tx["t"].upsert(frame(spark, NEW))
        with quire.open(lake.uri).transaction() as rival:
            rival["t"].upsert([{"id": 16, "name": "rival", "score": 0.0}])
    assert tx.receipt is not None
    assert tx.receipt.replayed == 1
    assert rows(lake) == [*OLD[:15], *NEW]


@pytest.mark.full
def test_a_strict_insert_loses_against_the_same_key(tmp_path: Path, spark: Any) -> None:
    lake = started(tmp_path, key="id")
    fresh = [row for row in NEW if row["id"] >= 20]
    tx = quire.spark.transaction(spark, lake)
    tx["t"].insert(frame(spark, fresh))
    with quire.open(lake.uri).transaction() as rival:
        rival["t"].insert([{"id": 30, "name": "rival", "score": 0.0}])
    with pytest.raises(KeyConflict, match="id=30"):
        tx.commit()
    assert lake["t"].count() == 21


@pytest.mark.full
def test_a_delete_by_keys_follows_a_compaction(tmp_path: Path, spark: Any) -> None:
    lake = started(tmp_path, key="id")
    with quire.spark.transaction(spark, lake) as tx:
        tx["t"].delete(spark.range(10, 30))
        quire.open(lake.uri).optimize()
    assert rows(lake) == OLD[:10]


def test_columns_that_were_kept_rest_on_the_rows_that_were_there(tmp_path: Path, spark: Any) -> None:
    lake = started(tmp_path, key="id")
    tx = quire.spark.transaction(spark, lake)
    tx["t"].upsert(frame(spark, NEW).drop("score"))
    with quire.open(lake.uri).transaction() as rival:
        rival["t"].update(values={"score": 99.0}, where="id = 16")
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.retryable
    assert {row["id"]: row["score"] for row in rows(lake)}[16] == 99.0


def test_a_receipt_says_what_the_jobs_took(lake: quire.Lake, spark: Any, tmp_path: Path) -> None:
    """By statement or load: how many jobs and tasks there were, how often tasks began, and how long they worked."""
    from quire import pipeline

    def feed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context is not None and (context.partitionId(), context.attemptNumber()) == (0, 0):
            raise RuntimeError("this attempt is over")

    lake.create_table("t", schema=pa.schema([("id", pa.int64())]), key="id")
    with quire.spark.transaction(spark, lake) as tx:
        tx["t"].insert(spark.range(0, 40, 1, 4).mapInArrow(feed, "id long"))
    told = tx.receipt.cost["jobs"]["insert t"]
    assert told["tasks"] >= 4
    assert told["attempts"] == told["tasks"] + 1
    assert told["seconds"] > 0 < told["task_seconds"]
    (tmp_path / "t.csv").write_text("id\n100\n", "utf-8")
    done = pipeline.run(lake, {"sources": [{"files": str(tmp_path / "t.csv"), "table": "t"}]}, engine=spark)
    assert done.receipt is not None
    assert done.receipt.cost["jobs"]["load t"]["tasks"] >= 1
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(i).description() for i in range(min(jobs.size(), 8))]
    assert {"quire: load t", "quire: insert t"} <= {one.get() for one in found if one.isDefined()}
    with lake.transaction() as plain:
        plain["t"].delete("id = 100")
    assert "jobs" not in plain.receipt.cost
