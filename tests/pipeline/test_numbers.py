"""Numbers of JSON arrive as they are written, and one that does not fit takes no other row with it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire import pipeline
from quire.rowfiles import files, jsonl

LARGE = 2**53 + 1


@pytest.fixture(params=["one block", "many blocks"], autouse=True)
def blocks(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many blocks":
        monkeypatch.setattr(files, "BLOCK", 32)
        monkeypatch.setattr(jsonl, "SAMPLE", 2)


def loaded(
    lake: quire.Lake, folder: Path, kind: pa.DataType, *values: str, columns: Any = None, where: str | None = None
) -> tuple[list[Any], list[int]]:
    """Values of one column as a table has them afterwards, and the lines that were rejected."""
    (folder / "rows.jsonl").write_text("".join(f'{{"v": {value}}}\n' for value in values), "utf-8")
    lake.create_table("t", schema=pa.schema([("v", kind)]))
    feed: dict[str, Any] = {"files": str(folder / "rows.jsonl"), "table": "t", "columns": columns, "where": where}
    done = pipeline.run(lake, {"sources": [feed]}, skip_rejects=True)
    return [row["v"] for row in lake["t"].to_pylist()], sorted(v.line or 0 for v in done.violations)


@pytest.mark.parametrize("columns", [None, {"v": "v"}], ids=["as they are", "mapped"])
@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.int64(), [str(LARGE), "1.0", "-3", "2e3"], [LARGE, 1, -3, 2000]),
        (pa.int64(), [str(-(2**63)), str(2**63 - 1), "1.0"], [-(2**63), 2**63 - 1, 1]),
        (pa.uint64(), [str(2**64 - 1), "3", "1.0"], [2**64 - 1, 3, 1]),
        (
            pa.decimal128(30, 4),
            ["12345678901234567.1234", "0.1", "123456789012345678901234.5", '"7.25"', str(LARGE)],
            ["12345678901234567.1234", "0.1", "123456789012345678901234.5", "7.25", str(LARGE)],
        ),
        (
            pa.decimal128(38, 0),
            ["-99999999999999999999", "3", "-9223372036854775809"],
            ["-99999999999999999999", "3", "-9223372036854775809"],
        ),
        (pa.decimal256(60, 2), ["9" * 50 + ".25", "1", "0.5"], ["9" * 50 + ".25", "1", "0.5"]),
        (pa.list_(pa.int64()), [f"[{LARGE}, 1.0]", "[]", "null", "[2]"], [[LARGE, 1], [], None, [2]]),
        (
            pa.struct([("n", pa.int64())]),
            [f'{{"n": {LARGE}}}', '{"n": 1.0}', "null"],
            [{"n": LARGE}, {"n": 1}, None],
        ),
    ],
    ids=str,
)
def test_numbers_keep_their_digits(
    lake: quire.Lake, tmp_path: Path, kind: pa.DataType, values: list[str], expected: list[Any], columns: Any
) -> None:
    wanted = [Decimal(v) for v in expected] if pa.types.is_decimal(kind) else expected
    assert loaded(lake, tmp_path, kind, *values, columns=columns) == (wanted, [])


@pytest.mark.parametrize(
    ("kind", "values", "expected", "wrong"),
    [
        (pa.int64(), ["1", "0.5", str(LARGE), '"x"', "true", "4"], [1, LARGE, 4], [2, 4, 5]),
        (pa.int32(), ["1", str(2**40), "3"], [1, 3], [2]),
        (pa.uint64(), ["1", "-3", str(2**64), "5"], [1, 5], [2, 3]),
        (pa.decimal128(5, 2), ["1.25", "1.255", "12345.5", "2"], [Decimal("1.25"), Decimal(2)], [2, 3]),
        (pa.list_(pa.int64()), ["[1]", "[2, 2.5]", '["x"]', "7", "[8]"], [[1], [8]], [2, 3, 4]),
        (pa.list_(pa.decimal128(4, 1)), ["[1.5]", "[1.55]", "[2]"], [[Decimal("1.5")], [Decimal(2)]], [2]),
    ],
    ids=str,
)
def test_only_the_row_that_does_not_fit_is_rejected(
    lake: quire.Lake, tmp_path: Path, kind: pa.DataType, values: list[str], expected: list[Any], wrong: list[int]
) -> None:
    assert loaded(lake, tmp_path, kind, *values) == (expected, wrong)


def test_rows_that_are_not_wanted_may_hold_anything(lake: quire.Lake, tmp_path: Path) -> None:
    found = loaded(lake, tmp_path, pa.int64(), "1", "0.5", str(LARGE), where="v > 0.7")
    assert found == ([1, LARGE], [])


def test_properties_of_a_graph_keep_their_digits(lake: quire.Lake, tmp_path: Path) -> None:
    graph = quire.Graph(lake)
    graph.apply_schema("node P { name: String @key  v: I64? }")
    lines = f'{{"name": "a", "v": {LARGE}}}\n{{"name": "b", "v": 1.0}}\n{{"name": "c", "v": 1.5}}\n'
    (tmp_path / "p.jsonl").write_text(lines, "utf-8")
    plan = {"sources": [{"files": str(tmp_path / "p.jsonl"), "node": "P"}]}
    done = pipeline.run(lake, plan, skip_rejects=1)
    assert [v.line for v in done.violations] == [3]
    assert {row["name"]: row["v"] for row in lake["node:P"].to_pylist()} == {"a": LARGE, "b": 1}


@pytest.mark.parametrize(
    ("values", "expected", "wrong"),
    [
        (["[1, 2.5]", "null", "[3, 4]"], [[1, 2.5], None, [3, 4]], []),
        (["[1, 2]", "[1]", "[3, 4]"], [[1, 2], [3, 4]], [2]),
    ],
)
def test_vectors(lake: quire.Lake, tmp_path: Path, values: list[str], expected: list[Any], wrong: list[int]) -> None:
    assert loaded(lake, tmp_path, pa.list_(pa.float32(), 2), *values) == (expected, wrong)
