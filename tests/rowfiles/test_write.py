"""Rows into files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.rowfiles.reading import read_files

from quire.errors import InvalidInput, QuireError
from quire.rowfiles import write as writers
from quire.rowfiles.kinds import Kind, kind_of

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "text": ["", None, 'a,"b"\nc'],
        "flag": [True, None, False],
        "day": [date(2026, 11, 1), None, None],
        "at": pa.array([datetime(2026, 11, 1, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
        "ns": pa.array([1, None, 3], pa.timestamp("ns")),
        "price": pa.array([Decimal("1.50"), None, None], pa.decimal128(10, 2)),
        "vec": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        "tags": pa.array([["x", 'y"'], [], None], pa.list_(pa.string())),
        "raw": pa.array([b"\x00\xff", None, b""], pa.binary()),
        "half": pa.array([0.5, None, 1.5], pa.float16()),
        "point": pa.array(
            [{"x": 1, "y": None}, None, {"x": 2, "y": "z"}], pa.struct([("x", pa.int64()), ("y", pa.string())])
        ),
    }
)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.jsonl.zst", "a.parquet", "a.arrow", "a.feather"])
def test_every_format_gives_back_what_was_written(name: str) -> None:
    count = writers.write(iter(TABLE.to_batches(max_chunksize=2)), TABLE.schema, name, kind_of(name, None))

    back = read_files([name], None, TABLE.schema).read_all()
    assert count == 3
    assert back.schema.names == TABLE.schema.names
    assert back.cast(TABLE.schema).to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize("kind", list(Kind))
def test_no_rows_make_a_file_all_the_same(kind: Kind) -> None:
    schema = pa.schema([("id", pa.int64())])
    assert writers.write(iter([]), schema, "a.file", kind) == 0
    assert read_files(["a.file"], kind, schema).read_all().equals(schema.empty_table())


def failing() -> Iterator[pa.RecordBatch]:
    yield from TABLE.to_batches()
    raise InvalidInput("boom")


@pytest.mark.parametrize("kind", list(Kind))
def test_a_failure_leaves_the_old_file_and_nothing_else(kind: Kind) -> None:
    Path("a.file").write_text("old")
    with pytest.raises(InvalidInput, match="boom"):
        writers.write(failing(), TABLE.schema, "a.file", kind)
    assert os.listdir() == ["a.file"]
    assert Path("a.file").read_text() == "old"


def test_an_old_file_is_replaced() -> None:
    Path("a.jsonl").write_text("old")
    writers.write(iter(pa.table({"a": [1]}).to_batches()), pa.schema([("a", pa.int64())]), "a.jsonl", Kind.jsonl)
    assert Path("a.jsonl").read_text() == '{"a":1}\n'


def test_columns_of_one_name_both_appear() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    writers.write(iter([batch]), batch.schema, "a.jsonl", Kind.jsonl)
    assert Path("a.jsonl").read_text() == '{"a":1,"a_1":2}\n'


def test_small_batches_share_a_row_group() -> None:
    batches = pa.table({"a": range(100)}).to_batches(max_chunksize=10)
    writers.write(iter(batches), batches[0].schema, "a.parquet", Kind.parquet)
    assert pq.ParquetFile("a.parquet").num_row_groups == 1


@pytest.mark.parametrize("path", ["absent/a.csv", "dir"])
def test_a_place_that_cannot_be_written_is_named(path: str) -> None:
    Path("dir").mkdir()
    with pytest.raises(QuireError, match=path):
        writers.write(iter(TABLE.to_batches()), TABLE.schema, path, Kind.csv)
    assert os.listdir() == ["dir"]


def test_parquet_does_not_go_to_stdout() -> None:
    with pytest.raises(InvalidInput, match="stdout"):
        writers.write(iter(TABLE.to_batches()), TABLE.schema, "-", Kind.parquet)
