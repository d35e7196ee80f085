"""Files as rows with lines: types that change on the way, lines that are none, pieces of one file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from quire.errors import InvalidInput, NotFound
from quire.rowfiles import files, jsonl
from quire.rowfiles.files import RowFile
from quire.rowfiles.kinds import Kind

Row = tuple[int, dict[str, Any]]


def read(piece: RowFile) -> tuple[list[Row], list[tuple[int, str]]]:
    """The rows of a piece by line, without nulls, and what was told."""
    told: list[tuple[int, str]] = []
    before = piece.first_line() - 1
    rows = []
    for batch, lines in piece.read(lambda line, rule, said, row: told.append((line + before, rule))):
        for line, row in zip(lines, batch.to_pylist(), strict=True):
            rows.append((int(line) + before, {k: v for k, v in row.items() if v is not None}))
    return rows, told


def written(folder: Path, *rows: Any) -> RowFile:
    path = folder / "rows.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), "utf-8")
    return RowFile(str(path), Kind.jsonl)


@pytest.fixture(params=["one block", "many blocks"], autouse=True)
def blocks(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many blocks":
        monkeypatch.setattr(files, "BLOCK", 64)
        monkeypatch.setattr(jsonl, "SAMPLE", 2)


def test_values_keep_what_they_are(tmp_path: Path) -> None:
    rows = [
        {"n": 1, "t": "2026-01-01", "l": [1, 2], "o": {"a": 1}},
        {"n": 2, "t": "x", "b": True},
        {"n": -3, "f": 0.5, "o": {"a": 2, "b": "new"}},
        {"n": 9007199254740993, "late": "only here"},
        {"n": None, "l": []},
        {},
    ]
    found, told = read(written(tmp_path, *rows))
    assert told == []
    seen = {line: row for line, row in found}
    for line, row in enumerate(rows, start=1):
        kept = {k: v for k, v in row.items() if v is not None}
        got = seen.get(line, {})
        if "o" in got:
            got["o"] = {k: v for k, v in got["o"].items() if v is not None}
        assert got == kept


def test_a_number_among_whole_ones_is_not_rounded(tmp_path: Path) -> None:
    found, _ = read(written(tmp_path, *({"n": n} for n in range(10)), {"n": 1.5}))
    assert [float(row["n"]) for _, row in found] == [*map(float, range(10)), 1.5]


def test_text_among_numbers_is_text_and_nothing_is_lost(tmp_path: Path) -> None:
    found, told = read(written(tmp_path, *({"n": n} for n in range(10)), {"n": "ten"}, {"n": 11}))
    assert told == []
    assert [str(row["n"]) for _, row in found] == [*map(str, range(10)), "ten", "11"]


def test_numbers_as_wide_as_they_come(tmp_path: Path) -> None:
    found, _ = read(written(tmp_path, {"n": 1}, {"n": 2**64 - 1}, {"n": 2**63 - 1}))
    assert [row["n"] for _, row in found] == [1, 2**64 - 1, 2**63 - 1]


def test_lines_that_are_none_are_told_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"n": 1}\n\n  \r\n{"n": 2}\r\n[3]\n{"n": 4\n{"n": "\xff"}\n{"n": 5}')
    found, told = read(RowFile(str(path), Kind.jsonl))
    assert told == [(5, "json"), (6, "json"), (7, "json")]
    assert [(line, row["n"]) for line, row in found] == [(1, 1), (4, 2), (8, 5)]


def test_names_that_differ_in_case_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="differ in case"):
        read(written(tmp_path, {"name": 1, "Name": 2}))


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert read(written(tmp_path)) == ([], [])


@pytest.mark.parametrize("size", [1, 7, 20, 64, 1000])
def test_pieces_of_a_file_are_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    rows = [{"n": n, "text": "x" * (n % 30)} for n in range(50)]
    whole = written(tmp_path, *rows[:20], "", "nope", *rows[20:])
    expected, told = read(whole)
    monkeypatch.setattr(files, "SHARE", size)
    parts = whole.shares()
    assert len(parts) > 1 or size == 1000
    found = [read(part) for part in parts]
    assert [row for rows, _ in found for row in rows] == expected
    assert [one for _, some in found for one in some] == told == [(22, "json")]


def test_pieces_of_parquet_are_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"n": list(range(100))}), path, row_group_size=10)
    whole = RowFile(path, Kind.parquet)
    monkeypatch.setattr(files, "SHARE", 150)
    parts = whole.shares()
    assert len(parts) > 2
    found = [row for part in parts for row in read(part)[0]]
    assert found == read(whole)[0] == [(n + 1, {"n": n} if n is not None else {}) for n in range(100)]


def test_compressed_files_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2}\n'))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b'n,t\n1,"a\nb"\n2,c\n'))
    assert read(RowFile(str(tmp_path / "a.jsonl.gz"), Kind.jsonl))[0] == [(1, {"n": 1}), (2, {"n": 2})]
    rows, _ = read(RowFile(str(tmp_path / "a.csv.gz"), Kind.csv))
    assert rows == [(2, {"n": "1", "t": "a\nb"}), (4, {"n": "2", "t": "c"})]


def test_arrow_files_and_streams(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2]})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table)
    with pa.ipc.new_stream(tmp_path / "b.arrow", table.schema) as stream:
        stream.write_table(table)
    for name in ("a.arrow", "b.arrow"):
        assert read(RowFile(str(tmp_path / name), Kind.arrow))[0] == [(1, {"n": 1}), (2, {"n": 2})]


def test_what_cannot_be_read_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "no.parquet").write_bytes(b"nothing like it")
    for path, format in (("no.parquet", "parquet"), ("no.arrow", "arrow"), ("no.csv.gz", "csv")):
        if not path.endswith("parquet"):
            (tmp_path / path).write_bytes(b"nothing like it")
        with pytest.raises(InvalidInput, match=path):
            read(RowFile(str(tmp_path / path), Kind(format)))
    with pytest.raises(NotFound, match="gone"):
        read(RowFile(str(tmp_path / "gone.csv"), Kind.csv))


@pytest.mark.parametrize("line", [b"\xff\xfe\x80,3,4", b"\xff\xfe\x80,3", b"M\xc3,3"])
def test_csv_that_is_no_text_is_told_with_its_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], line: bytes
) -> None:
    (tmp_path / "rows.csv").write_bytes("a,b\n1,2\n\u00e9,\u20ac\n".encode() + line + b"\n5,6\n")
    with pytest.raises(InvalidInput, match=r"rows\.csv cannot be read: line 4 is not UTF-8 text"):
        read(RowFile(str(tmp_path / "rows.csv"), Kind.csv))
    assert capfd.readouterr().err == ""


def test_a_letter_may_lie_on_the_border_of_two_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 17)
    text = [f"{n}\u00e9\u20ac" for n in range(30)]
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(f"{t},x\n" for t in text), "utf-8")
    assert [row["a"] for _, row in read(RowFile(str(tmp_path / "rows.csv"), Kind.csv))[0]] == text


def test_csv_of_many_blocks(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    csv.write_csv(pa.table({"n": list(range(40)), "t": [f"line\n{n}" for n in range(40)]}), path)
    rows, told = read(RowFile(str(path), Kind.csv))
    assert told == []
    assert [line for line, _ in rows] == list(range(2, 82, 2))
    assert [row["n"] for _, row in rows] == [str(n) for n in range(40)]
