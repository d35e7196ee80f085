"""Text is read as the type of its column, strictly."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire import pipeline


@pytest.mark.parametrize(
    ("kind", "expected", "wrong"),
    [
        (pa.time64("us"), [dt.time(1, 2, 3), dt.time(23, 59, 59, 999999)], [4, 5, 6, 7, 8]),
        (pa.time64("ns"), [dt.time(1, 2, 3), dt.time(23, 59, 59, 999999)], [4, 5, 6, 7, 8]),
        (pa.time32("s"), [dt.time(1, 2, 3)], [3, 4, 5, 6, 7, 8]),
    ],
    ids=str,
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_times_of_the_day(
    lake: quire.Lake, tmp_path: Path, kind: pa.DataType, expected: list[Any], wrong: list[int], suffix: str
) -> None:
    values = ["01:02:03", "23:59:59.999999", "24:00:00", "1:02:03", "01:02", "01:02:03Z", "noon"]
    path = tmp_path / f"t.{suffix}"
    before = "t\n" if suffix == "csv" else '{"t": null}\n'
    written = values if suffix == "csv" else [f'{{"t": "{value}"}}' for value in values]
    path.write_text(before + "".join(f"{value}\n" for value in written), "utf-8")
    lake.create_table("t", schema=pa.schema([("t", kind)]))
    done = pipeline.run(lake, {"sources": [{"files": str(path), "table": "t"}]}, skip_rejects=True)
    assert [v.line for v in done.violations] == wrong
    assert [row["t"] for row in lake["t"].to_pylist() if row["t"] is not None] == expected
