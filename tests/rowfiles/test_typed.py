"""Rows from files."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import math
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Run
from tests.rowfiles.reading import read_files

from quire.errors import InvalidInput, NotFound, QuireError, SchemaMismatch
from quire.rowfiles import typed
from quire.rowfiles.kinds import Kind, kind_of

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

    table = read_files([str(file)], None, SCHEMA).read_all()

    assert table.schema == SCHEMA
    assert table["id"].to_pylist() == [7, 8, 9]
    assert table["name"].to_pylist() == ["", None, "NA"]
    assert table["score"].to_pylist()[:2] == [1.0, None]


def test_csv_without_a_table_is_typed_by_its_values(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,name\n1,x\n")
    assert read_files([str(file)], None, None).schema == pa.schema([("id", pa.int64()), ("name", pa.string())])


def test_a_line_break_inside_quotes_is_part_of_the_value(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('id,name\n1,"two\nlines"\n')
    assert read_files([str(file)], None, None).read_all()["name"].to_pylist() == ["two\nlines"]


def test_csv_holds_lists_as_json(tmp_path: Path) -> None:
    schema = pa.schema([("vec", pa.list_(pa.float32(), 2)), ("raw", pa.binary())])
    file = tmp_path / "a.csv"
    file.write_text('vec,raw\n"[1, 2]",AP8=\n,\n')

    assert read_files([str(file)], None, schema).read_all().to_pylist() == [
        {"vec": [1.0, 2.0], "raw": b"\x00\xff"},
        {"vec": None, "raw": None},
    ]

    file.write_text("vec\noops\n")
    with pytest.raises(InvalidInput, match="oops"):
        read_files([str(file)], None, schema).read_all()


def test_jsonl_takes_its_types_from_the_table_and_nulls_for_what_a_row_lacks(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1, "score": 2}\n\n{"score": 0.5, "id": 2, "name": "x"}\n')

    table = read_files([str(file)], None, SCHEMA).read_all()

    assert table.schema.field("score").type == pa.float32()
    assert table.to_pylist() == [{"id": 1, "score": 2.0, "name": None}, {"id": 2, "score": 0.5, "name": "x"}]


def test_jsonl_keeps_a_column_that_the_table_does_not_have(tmp_path: Path) -> None:
    """So that the table can refuse it; it must not vanish."""
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n{"id": 2, "zzz": 3}\n')
    assert read_files([str(file)], None, SCHEMA).schema.names == ["id", "zzz"]


def test_jsonl_says_which_line_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n\n[1]\n')
    with pytest.raises(InvalidInput, match="line 3: ") as caught:
        read_files([str(file)], None, None).read_all()
    assert caught.value.line == 3


def test_jsonl_comes_in_bounded_batches(tmp_path: Path) -> None:
    count = typed.BATCH_ROWS * 2 + 1
    file = tmp_path / "a.jsonl"
    file.write_text("".join(f'{{"id": {i}}}\n' for i in range(count)))

    sizes = [batch.num_rows for batch in read_files([str(file)], None, None)]

    assert max(sizes) <= typed.BATCH_ROWS
    assert sum(sizes) == count


def test_a_column_that_appears_later_is_refused_not_dropped(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n' * typed.BATCH_ROWS + '{"id": 2, "late": 1}\n')
    with pytest.raises(SchemaMismatch, match="'late'"):
        read_files([str(file)], None, None).read_all()


def test_an_empty_jsonl_file_has_the_tables_columns_or_none() -> None:
    Path("empty.jsonl").write_text("\n")
    assert read_files(["empty.jsonl"], None, SCHEMA).read_all().equals(SCHEMA.empty_table())
    with pytest.raises(InvalidInput, match="empty"):
        read_files(["empty.jsonl"], None, None)


@pytest.mark.parametrize("form", ["file", "stream"])
def test_arrow_files_and_streams_are_both_read(form: str) -> None:
    table = pa.table({"id": [1, 2]})
    make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with open("a.arrow", "wb") as sink, make(sink, table.schema) as writer:
        writer.write_table(table)
    assert read_files(["a.arrow"], None, None).read_all().equals(table)


def test_an_arrow_stream_is_read_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": [1, 2]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sink.getvalue())))
    assert read_files(["-"], Kind.arrow, None).read_all().equals(table)


def test_parquet_is_not_read_from_stdin() -> None:
    with pytest.raises(InvalidInput, match="stdin"):
        read_files(["-"], Kind.parquet, None)


def test_compressed_text_is_read() -> None:
    Path("a.csv.gz").write_bytes(gzip.compress(b"id\n1\n"))
    Path("a.jsonl.gz").write_bytes(gzip.compress(b'{"id": 2}\n'))
    assert read_files(["a.csv.gz", "a.jsonl.gz"], None, None).read_all()["id"].to_pylist() == [1, 2]


def test_several_files_follow_each_other_in_the_shape_of_the_first() -> None:
    Path("a.csv").write_text("id,v\n1,x\n")
    pq.write_table(pa.table({"v": ["y"], "id": pa.array([2], pa.int32())}), "b.parquet")

    assert read_files(["a.csv", "b.parquet"], None, None).read_all().to_pylist() == [
        {"id": 1, "v": "x"},
        {"id": 2, "v": "y"},
    ]

    Path("c.csv").write_text("id\n3\n")
    with pytest.raises(SchemaMismatch, match=r"c\.csv"):
        read_files(["a.csv", "c.csv"], None, None).read_all()


def test_rows_are_counted_beforehand_where_that_is_free() -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), "a.parquet")
    Path("a.csv").write_text("id\n1\n")
    assert typed.rows_in(typed.row_files(["a.parquet", "a.parquet"], None)) == 6
    assert typed.rows_in(typed.row_files(["a.parquet", "a.csv"], None)) is None


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
        read_files([name], None, None).read_all()


def test_a_directory_is_not_a_file() -> None:
    Path("dir.csv").mkdir()
    with pytest.raises(QuireError, match=r"dir\.csv"):
        read_files(["dir.csv"], None, None).read_all()


def test_a_value_that_is_not_of_the_columns_type_is_an_error_of_the_file() -> None:
    Path("a.csv").write_text("id,name\nx,y\n")
    with pytest.raises(InvalidInput, match=r"a\.csv"):
        read_files(["a.csv"], None, SCHEMA).read_all()


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

    batches = read_files(["-"], kind, None)
    first, second = next(batches), next(batches)

    assert first.num_rows > 0
    assert second.num_rows > 0
    assert source.taken < 64 * typed.CHUNK_BYTES


def test_a_csv_file_that_is_not_utf8_is_refused_with_the_line(run: Run, here: Path) -> None:
    (here / "old.csv").write_bytes("id,town\n1,Köln\n".encode("latin-1"))
    run("init", "shop")
    ran = run("table", "create", "shop", "towns", "--from", "old.csv", code=2)
    assert "line 2 is not UTF-8" in ran.err
    assert "iconv" in ran.err
    assert run("tables", "shop", "--json").json["tables"] == []


# -- types that no table says -----------------------------------------------------------------------------------------

GUESSED: list[tuple[list[str], pa.DataType, list[Any]]] = [
    (["1", " -2", "0"], pa.int64(), [1, -2, 0]),
    (["1", "2.50", "1e3", ".5"], pa.float64(), [1.0, 2.5, 1000.0, 0.5]),
    (["1.5", "nan", "-inf"], pa.float64(), [1.5, math.nan, -math.inf]),
    (["true", "FALSE"], pa.bool_(), [True, False]),
    (["2026-01-02", "2026-01-02 00:00:00"], pa.timestamp("s"), [dt.datetime(2026, 1, 2)] * 2),
    (["12:30:00"], pa.time32("s"), [dt.time(12, 30)]),
    (["9007199254740993", "1.5"], pa.decimal128(38, 1), [Decimal("9007199254740993.0"), Decimal("1.5")]),
    (["12345678901234567890123"], pa.decimal128(38, 0), [Decimal("12345678901234567890123")]),
    (["18446744073709551615"], pa.uint64(), [2**64 - 1]),
]
TEXT = [
    *(["007", "8"], ["007", "1.5"], ["-007"], ["+49170", "5"], ["-0", "1"], ["0x10", "1"], ["1_000", "1"]),
    *(["1", "true"], ["0", "false"], ["true", "yes"], ["nan"], ["Inf", "Nan"], ["N/A", "1"]),
    *(["1e400", "1"], ["1e-400", "1"], ["1e99999999999999999999", "1"], ["1" * 40, "1"], ["0.1" + "1" * 40, "1"]),
    *(["12:30"], ["0001-01-01T00:00:00.123"], ["2026-01-01T00:00:00.1234567890123"], ["99999-01-01"]),
]


@pytest.mark.parametrize(("texts", "kind", "values"), GUESSED, ids=[" ".join(texts) for texts, _, _ in GUESSED])
def test_text_without_a_table_becomes_values_that_say_the_same(
    tmp_path: Path, texts: list[str], kind: pa.DataType, values: list[Any]
) -> None:
    found = guess(tmp_path, texts)
    assert found.type == kind
    assert repr(found.to_pylist()) == repr(values)


@pytest.mark.parametrize("texts", TEXT, ids=[" ".join(texts)[:40] for texts in TEXT])
def test_what_a_number_or_a_time_would_say_less_than_stays_text(tmp_path: Path, texts: list[str]) -> None:
    assert guess(tmp_path, texts).to_pylist() == texts


def guess(folder: Path, texts: list[str]) -> pa.ChunkedArray:
    file = folder / "a.csv"
    file.write_text("v,w\n" + "".join(f"{text},\n" for text in texts))
    return read_files([str(file)], None, None).read_all()["v"]


@pytest.mark.parametrize(
    ("suffix", "first", "later"),
    [
        *[("csv", "8", later) for later in ("007", "+5", "1.0", "true", "0x10")],
        *[("csv", "1.5", later) for later in ("007", "1e400", "9007199254740993")],
        *[("csv", "true", later) for later in ("1", "0")],
        *[("jsonl", "8", later) for later in ('"007"', '"8"', "true", "1.5")],
        *[("jsonl", "1.5", later) for later in ('"1.5"', "9007199254740993")],
        ("jsonl", "true", '"true"'),
    ],
)
@pytest.mark.parametrize("files", [1, 2])
def test_a_later_value_that_would_say_less_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, first: str, later: str, files: int
) -> None:
    monkeypatch.setattr(typed, "CHUNK_BYTES", 64 if files == 1 else typed.CHUNK_BYTES)
    header, line = ("v,w\n", "{},\n") if suffix == "csv" else ("", '{{"v": {}, "w": null}}\n')
    bodies = [[first] * 99 + [later]] if files == 1 else [[first], [later]]
    paths = []
    for number, body in enumerate(bodies):
        paths.append(tmp_path / f"{number}.{suffix}")
        paths[-1].write_text(header + "".join(line.format(value) for value in body))

    place = f"{files - 1}.{suffix}, line {len(bodies[-1]) + (suffix == 'csv')}: "
    with pytest.raises(SchemaMismatch, match=re.escape(place)) as caught:
        read_files([str(path) for path in paths], None, None).read_all()
    assert caught.value.fields["column"] == "v"
    assert "--schema" in (caught.value.next or "")


def test_a_column_without_values_is_text(tmp_path: Path) -> None:
    assert guess(tmp_path, ["", ""]).to_pylist() == [None, None]
    assert guess(tmp_path, ["", ""]).type == pa.string()
