"""Files outside a lake: names, patterns, ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from quire.errors import InvalidInput, NotFound
from quire.rowfiles import inputs
from quire.store import Store

FILES = ("raw/a.csv", "raw/b.csv", "raw/b.txt", "raw/2026/c.csv", "raw/2026/11/d.csv", "raw/[x].csv")
PATTERNS = {
    "raw/*.csv": ["raw/[x].csv", "raw/a.csv", "raw/b.csv"],
    "raw/?.csv": ["raw/a.csv", "raw/b.csv"],
    "raw/[ab].*": ["raw/a.csv", "raw/b.csv", "raw/b.txt"],
    "raw/[!a].csv": ["raw/b.csv"],
    "raw/**/*.csv": ["raw/2026/11/d.csv", "raw/2026/c.csv", "raw/[x].csv", "raw/a.csv", "raw/b.csv"],
    "raw/*/c.csv": ["raw/2026/c.csv"],
    "raw/none*": [],
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_the_same_on_disk_and_in_a_bucket(tmp_path: Path, pattern: str) -> None:
    bucket = Store.open("memory://inputs")
    for name in FILES:
        bucket.put(name, b"x")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = inputs.expand(pattern, str(tmp_path))
    assert sorted(found) == sorted(str(tmp_path / name) for name in PATTERNS[pattern])
    there = inputs.expand(f"memory://inputs/{pattern}")
    assert sorted(there) == sorted(f"memory://inputs/{name}" for name in PATTERNS[pattern])


def test_a_name_that_is_no_pattern_is_itself(tmp_path: Path) -> None:
    assert inputs.expand("a.csv", str(tmp_path)) == [str(tmp_path / "a.csv")]
    assert inputs.expand("memory://inputs/x/y.csv") == ["memory://inputs/x/y.csv"]
    (tmp_path / "[x].csv").touch()
    assert inputs.expand("[x].csv", str(tmp_path)) == [str(tmp_path / "[x].csv")]


@pytest.mark.parametrize("where", ["disk", "bucket"])
def test_a_file_is_read_and_sought_in(tmp_path: Path, where: str, monkeypatch: Any) -> None:
    data = bytes(range(256)) * 100
    Store.open("memory://inputs").put("f/data", data)
    (tmp_path / "data").write_bytes(data)
    path = str(tmp_path / "data") if where == "disk" else "memory://inputs/f/data"
    monkeypatch.setattr(inputs, "AHEAD", 1000)
    with inputs.open_input(path) as stream:
        assert stream.read(300) == data[:300]
        assert stream.seek(-5, 2) == len(data) - 5
        assert stream.read() == data[-5:]
        assert stream.seek(7) == 7
        assert stream.read() == data[7:]
        assert stream.read(1) == b""
    assert inputs.size_of(path) == len(data)


@pytest.mark.parametrize("path", ["none.csv", "memory://inputs/none.csv"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, path: str) -> None:
    full = path if "://" in path else str(tmp_path / path)
    with pytest.raises(NotFound, match="none.csv"):
        inputs.open_input(full)
    assert inputs.size_of(full) == 0


@pytest.mark.parametrize("path", ["s3://bucket/", "s3://bu*ket/x/*.csv"])
def test_what_names_no_file_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        inputs.open_input(path) if "*" not in path else inputs.expand(path)


def test_arrow_reads_csv_and_parquet_from_a_bucket() -> None:
    import io

    import pyarrow as pa

    table = pa.table({"a": list(range(1000)), "b": [f"t{n}" for n in range(1000)]})
    bucket = Store.open("memory://inputs")
    for name, write in (("t.csv", csv.write_csv), ("t.parquet", pq.write_table)):
        sink = io.BytesIO()
        write(table, sink)
        bucket.put(name, sink.getvalue())
    with inputs.open_input("memory://inputs/t.csv") as stream:
        assert csv.read_csv(stream).equals(table)
    with inputs.open_input("memory://inputs/t.parquet") as stream:
        assert pq.read_table(stream).equals(table)
