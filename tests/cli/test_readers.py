"""Rows from files."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quire.cli import readers
from quire.cli.kinds import Kind, kind_of
from quire.errors import InvalidInput, NotFound, QuireError, SchemaMismatch

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("score", pa.float32())])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", Kind.csv),
        ("a.CSV", Kind.csv),
        ("a.csv.gz", Kind.csv),
        ("a.jsonl", Kind.jsonl),
        ("a.ndjson.zst", Kind.jsonl),
        ("a.parquet", Kind.parquet),
        ("a.arrow", Kind.arrow),
        ("a.feather", Kind.arrow),
    ],
)
def test_the_name_says_the_format(name: str, kind: Kind) -> None:
    assert kind_of(name, None) is kind
    assert kind_of(name, Kind.csv) is Kind.csv


@pytest.mark.parametrize("name", ["rows", "rows.txt", "-", "rows.gz"])
def test_a_name_that_does_not_say_the_format_needs_the_option(name: str) -> None:
    with pytest.raises(InvalidInput, match="format") as caught:
        kind_of(name, None)
    assert "--format" in str(caught.value.next)
    assert kind_of(name, Kind.jsonl) is Kind.jsonl


def test_csv_takes_its_types_from_the_table(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('id,name,score\n007,"",1\n8,,\n9,NA,nan\n')

    table = readers.read([str(file)], None, SCHEMA).read_all()

    assert table.schema == SCHEMA
    assert table["id"].to_pylist() == [7, 8, 9]
    assert table["name"].to_pylist() == ["", None, "NA"]
    assert table["score"].to_pylist()[:2] == [1.0, None]


def test_csv_without_a_table_is_typed_by_its_values(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,name\n1,x\n")
    assert readers.read([str(file)], None, None).schema == pa.schema([("id", pa.int64()), ("name", pa.string())])


def test_a_line_break_inside_quotes_is_part_of_the_value(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('id,name\n1,"two\nlines"\n')
    assert readers.read([str(file)], None, None).read_all()["name"].to_pylist() == ["two\nlines"]


def test_csv_holds_lists_as_json(tmp_path: Path) -> None:
    schema = pa.schema([("vec", pa.list_(pa.float32(), 2)), ("raw", pa.binary())])
    file = tmp_path / "a.csv"
    file.write_text('vec,raw\n"[1, 2]",AP8=\n,\n')

    assert readers.read([str(file)], None, schema).read_all().to_pylist() == [
        {"vec": [1.0, 2.0], "raw": b"\x00\xff"},
        {"vec": None, "raw": None},
    ]

    file.write_text("vec\noops\n")
    with pytest.raises(InvalidInput, match="oops"):
        readers.read([str(file)], None, schema).read_all()


def test_jsonl_takes_its_types_from_the_table_and_nulls_for_what_a_row_lacks(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1, "score": 2}\n\n{"score": 0.5, "id": 2, "name": "x"}\n')

    table = readers.read([str(file)], None, SCHEMA).read_all()

    assert table.schema.field("score").type == pa.float32()
    assert table.to_pylist() == [{"id": 1, "score": 2.0, "name": None}, {"id": 2, "score": 0.5, "name": "x"}]


def test_jsonl_keeps_a_column_that_the_table_does_not_have(tmp_path: Path) -> None:
    """So that the table can refuse it; it must not vanish."""
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n{"id": 2, "zzz": 3}\n')
    assert readers.read([str(file)], None, SCHEMA).schema.names == ["id", "zzz"]


def test_jsonl_says_which_line_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n\n[1]\n')
    with pytest.raises(InvalidInput, match="Line 3 of") as caught:
        readers.read([str(file)], None, None).read_all()
    assert caught.value.line == 3


def test_jsonl_comes_in_bounded_batches(tmp_path: Path) -> None:
    count = readers.BATCH_ROWS * 2 + 1
    file = tmp_path / "a.jsonl"
    file.write_text("".join(f'{{"id": {i}}}\n' for i in range(count)))

    sizes = [batch.num_rows for batch in readers.read([str(file)], None, None)]

    assert max(sizes) <= readers.BATCH_ROWS
    assert sum(sizes) == count


def test_a_column_that_appears_later_is_refused_not_dropped(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n' * readers.BATCH_ROWS + '{"id": 2, "late": 1}\n')
    with pytest.raises(SchemaMismatch, match="'late'"):
        readers.read([str(file)], None, None).read_all()


def test_an_empty_jsonl_file_has_the_tables_columns_or_none() -> None:
    Path("empty.jsonl").write_text("\n")
    assert readers.read(["empty.jsonl"], None, SCHEMA).read_all().equals(SCHEMA.empty_table())
    with pytest.raises(InvalidInput, match="empty"):
        readers.read(["empty.jsonl"], None, None)


@pytest.mark.parametrize("form", ["file", "stream"])
def test_arrow_files_and_streams_are_both_read(form: str) -> None:
    table = pa.table({"id": [1, 2]})
    make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with open("a.arrow", "wb") as sink, make(sink, table.schema) as writer:
        writer.write_table(table)
    assert readers.read(["a.arrow"], None, None).read_all().equals(table)


def test_an_arrow_stream_is_read_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": [1, 2]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sink.getvalue())))
    assert readers.read(["-"], Kind.arrow, None).read_all().equals(table)


def test_parquet_is_not_read_from_stdin() -> None:
    with pytest.raises(InvalidInput, match="stdin"):
        readers.read(["-"], Kind.parquet, None)


def test_compressed_text_is_read() -> None:
    Path("a.csv.gz").write_bytes(gzip.compress(b"id\n1\n"))
    Path("a.jsonl.gz").write_bytes(gzip.compress(b'{"id": 2}\n'))
    assert readers.read(["a.csv.gz", "a.jsonl.gz"], None, None).read_all()["id"].to_pylist() == [1, 2]


def test_several_files_follow_each_other_in_the_shape_of_the_first() -> None:
    Path("a.csv").write_text("id,v\n1,x\n")
    pq.write_table(pa.table({"v": ["y"], "id": pa.array([2], pa.int32())}), "b.parquet")

    assert readers.read(["a.csv", "b.parquet"], None, None).read_all().to_pylist() == [
        {"id": 1, "v": "x"},
        {"id": 2, "v": "y"},
    ]

    Path("c.csv").write_text("id\n3\n")
    with pytest.raises(SchemaMismatch, match=r"c\.csv"):
        readers.read(["a.csv", "c.csv"], None, None).read_all()


def test_rows_are_counted_beforehand_where_that_is_free() -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), "a.parquet")
    Path("a.csv").write_text("id\n1\n")
    assert readers.rows_in(["a.parquet", "a.parquet"], None) == 6
    assert readers.rows_in(["a.parquet", "a.csv"], None) is None


@pytest.mark.parametrize(
    ("name", "body", "error"),
    [
        ("absent.csv", None, NotFound),
        ("bad.parquet", b"nonsense", InvalidInput),
        ("bad.arrow", b"ARROW1nonsense", InvalidInput),
        ("bad.csv", b"a,b\n1\n", InvalidInput),
        ("bad.jsonl", b"\xff\xfe\n", InvalidInput),
        ("empty.csv", b"", InvalidInput),
    ],
)
def test_a_file_that_cannot_be_read_is_named(name: str, body: bytes | None, error: type[QuireError]) -> None:
    if body is not None:
        Path(name).write_bytes(body)
    with pytest.raises(error, match=name):
        readers.read([name], None, None).read_all()


def test_a_directory_is_not_a_file() -> None:
    Path("dir.csv").mkdir()
    with pytest.raises(QuireError, match=r"dir\.csv"):
        readers.read(["dir.csv"], None, None).read_all()


def test_a_value_that_is_not_of_the_columns_type_is_an_error_of_the_file() -> None:
    Path("a.csv").write_text("id,name\nx,y\n")
    with pytest.raises(InvalidInput, match=r"a\.csv"):
        readers.read(["a.csv"], None, SCHEMA).read_all()


class Endless(io.RawIOBase):
    """A source that never ends and counts what was taken from it."""

    def __init__(self, head: bytes, again: bytes) -> None:
        self.pending, self.again, self.taken = head, again, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.pending = self.pending or self.again
        size = min(len(buffer), len(self.pending))
        buffer[:size], self.pending = self.pending[:size], self.pending[size:]
        self.taken += size
        return size


def endless(kind: Kind) -> Endless:
    if kind is Kind.csv:
        return Endless(b"id,v\n", b"1,0.5\n" * 10_000)
    if kind is Kind.jsonl:
        return Endless(b"", b'{"id": 1, "v": 0.5}\n' * 10_000)
    batch = pa.record_batch({"id": [1] * 10_000, "v": [0.5] * 10_000})
    empty, one = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(empty, batch.schema), pa.ipc.new_stream(one, batch.schema) as writer:
        writer.write_batch(batch)
    head = len(empty.getvalue()) - 8  # without the mark of the end
    return Endless(one.getvalue()[:head], one.getvalue()[head:-8])


@pytest.mark.parametrize("kind", [Kind.csv, Kind.jsonl, Kind.arrow])
def test_rows_arrive_before_the_source_ends(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    source = endless(kind)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(source)))

    batches = readers.read(["-"], kind, None)
    first, second = next(batches), next(batches)

    assert first.num_rows > 0
    assert second.num_rows > 0
    assert source.taken < 64 * readers.CHUNK_BYTES
