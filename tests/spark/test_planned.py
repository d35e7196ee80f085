"""What `df.write.format("quire")` finds out while Spark plans: before any task, with an error of ours and no stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
import quire.spark
from quire.errors import InvalidInput, QuireError, SchemaMismatch, TableNotFound, Unsupported

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("age", pa.int32())]
)


@pytest.fixture
def filled(lake: quire.Lake) -> quire.Lake:
    lake.create_table("t", schema=SCHEMA, key="id")
    lake.create_table("plain", schema=SCHEMA)
    return lake


def writer(lake: quire.Lake, fields: str, **options: str) -> Any:
    """What Spark asks for when it plans a write of a frame of these columns."""
    from quire.spark import types
    from quire.spark.datasource import QuireSource

    kinds = {"long": pa.int64(), "string": pa.string(), "int": pa.int32(), "array": pa.list_(pa.int32())}
    named = (field.split() for field in fields.split(", "))
    schema = types.spark_schema(pa.schema([(name, kinds[kind]) for name, kind in named]))
    return QuireSource({"lake": lake.uri, "table": "t", **options}).writer(schema, overwrite=False)


def staged(lake: quire.Lake) -> list[Path]:
    """Data files, and notes of writers that are at work."""
    root = Path(lake.uri)
    return sorted([*root.glob("tables/*/data/*"), *root.glob("_quire/writers/*")])


WRONG: dict[str, tuple[type[QuireError], str, str, dict[str, str]]] = {
    "a column is missing": (SchemaMismatch, "lacks column 'age'", "id long, name string", {}),
    "a key column is missing": (SchemaMismatch, "lacks column 'id'", "name string, age int", {"missing": "null"}),
    "a column is unknown": (SchemaMismatch, "Did you mean 'name'", "id long, nam string, age int", {}),
    "a type does not fit": (SchemaMismatch, "'age'|age", "id long, name string, age array", {}),
    "two columns are one": (SchemaMismatch, "'ID', 'id'", "ID long, id long, name string, age int", {}),
    "case counts": (SchemaMismatch, "no column 'ID'", "ID long, name string, age int", {"caseSensitive": "true"}),
    "an option is unknown": (InvalidInput, "Did you mean 'token'", "id long", {"tokn": "x:1"}),
    "an option is for reading": (InvalidInput, "filter .* not for writing", "id long", {"filter": "id > 1"}),
    "an option has no such value": (InvalidInput, "Use error or null", "id long", {"missing": "zero"}),
    "the table is unknown": (TableNotFound, "no table 'tt'", "id long", {"table": "tt"}),
    "the table is not named": (InvalidInput, "needs the option table", "id long", {"table": ""}),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_found_by_the_plan_and_leaves_nothing(filled: quire.Lake, what: str) -> None:
    error, said, fields, options = WRONG[what]
    before = staged(filled)
    with pytest.raises(error, match=said) as caught:
        writer(filled, fields, **options)
    assert caught.value.next
    assert staged(filled) == before


def test_advice_names_options_that_the_format_has(filled: quire.Lake) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        writer(filled, "id long, name string")
    assert '.option("missing", "null")' in str(caught.value.next)
    assert writer(filled, "id long, name string", missing="null").names == ["id", "name"]


def test_names_are_taken_as_spark_takes_them(filled: quire.Lake) -> None:
    assert writer(filled, "ID long, Name string, age int").names == ["id", "name", "age"]
    with filled.transaction() as tx:
        tx.create_table("two", schema=pa.schema([("a", pa.int64()), ("A", pa.int64())]))
    assert writer(filled, "A long, a long", table="two").names == ["A", "a"]


def test_streams_are_refused(filled: quire.Lake) -> None:
    from pyspark.sql.types import StructType

    from quire.spark.datasource import QuireSource

    source = QuireSource({"lake": filled.uri, "table": "t"})
    with pytest.raises(Unsupported, match="spark.read"):
        source.streamReader(StructType()).initialOffset()
    with pytest.raises(Unsupported, match="foreachBatch"):
        source.streamWriter(StructType(), overwrite=False)


def test_a_token_that_was_used_is_known_to_the_plan(filled: quire.Lake) -> None:
    with filled.transaction("first", token=quire.StreamToken("job", 3)) as tx:
        tx["t"].append([{"id": 1, "name": "a", "age": 1}])
    before = staged(filled)
    planned = writer(filled, "nothing int", token="job:3")

    def rows() -> Any:
        raise AssertionError("a row is read")
        yield

    planned.commit([planned.write(rows())])
    assert staged(filled) == before


# -- on Spark ----------------------------------------------------------------------------------------------------------


def test_spark_tells_what_the_plan_found_without_a_task_and_without_a_stack(filled: quire.Lake, spark: Any) -> None:
    ran = spark.sparkContext.accumulator(0)

    def counted(batches: Any) -> Any:
        for batch in batches:
            ran.add(1)
            yield batch

    rows = spark.range(4).selectExpr("id", "'x' as name").mapInArrow(counted, "id long, name string")
    with pytest.raises(SchemaMismatch, match="lacks column 'age'") as caught:
        rows.write.format("quire").option("lake", filled.uri).mode("append").save("t")
    said = str(caught.value)
    assert '.option("missing", "null")' in said
    assert "Traceback" not in said
    assert ran.value == 0
    rows.write.format("quire").option("lake", filled.uri).option("missing", "null").mode("append").save("t")
    assert filled.sql("select count(*) as n from t where name = 'x' and age is null").to_pylist() == [{"n": 4}]
    with pytest.raises(Exception, match="already has a row") as caught:
        rows.write.format("quire").option("lake", filled.uri).option("missing", "null").mode("append").save("t")
    assert "upsert in quire.spark.transaction" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_names_in_another_case_are_written_by_both_faces(filled: quire.Lake, spark: Any) -> None:
    rows = spark.range(3).selectExpr("id as ID", "'x' as Name", "cast(7 as int) as age")
    rows.write.format("quire").option("lake", filled.uri).mode("append").save("t")
    with quire.spark.transaction(spark, filled, fresh=True) as tx:
        counts = tx["t"].upsert(rows.selectExpr("ID + 2 as Id", "'y' as NAME", "AGE"))
        tx["plain"].append(rows)
        assert tx["t"].delete(rows.where("ID = 0").select("ID")) == 1
    assert counts == {"inserted": 2, "updated": 1}
    names = {row["id"]: row["name"] for row in filled["t"].to_pylist()}
    assert (names, filled["plain"].count()) == ({1: "x", 2: "y", 3: "y", 4: "y"}, 3)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(SchemaMismatch, match="no column 'ID'"), quire.spark.transaction(spark, filled) as tx:
            tx["plain"].append(spark.range(1).selectExpr("id as ID", "'x' as name", "cast(7 as int) as age"))
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_stream_by_format_ends_at_once_and_says_why(filled: quire.Lake, spark: Any, tmp_path: Path) -> None:
    stream = spark.readStream.format("quire").option("lake", filled.uri).load("t")
    with pytest.raises(Exception, match="reads and writes tables, not streams") as caught:
        stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(60)
    assert "Traceback" not in str(caught.value)


def test_loads_ask_their_token_first_on_spark_too(lake: quire.Lake, spark: Any, tmp_path: Path) -> None:
    graph = quire.Graph(lake)
    graph.apply_schema("node Person { name: String @key  age: I32? @range(age, 0..150) }")
    file = tmp_path / "people.jsonl"
    lines = [
        '{"type": "Person", "data": {"name": "a", "age": 1}}',
        '{"type": "Person", "data": {"name": "b", "age": 999}}',
    ]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    token, how = quire.token(), {"engine": spark, "skip_rejects": True}
    first = graph.load(str(file), options={"token": token}, **how)
    file.unlink()
    again = graph.load(str(file), options={"token": token}, **how)
    assert (again.types, again.rejected, again.repeated) == (first.types, 1, True)
