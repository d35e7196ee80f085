"""Values from anywhere: what Arrow would let through, what frames call a date, numbers that are too long."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire
from quire.errors import IntegrityError
from quire.graph.graph import Graph
from quire.graph.load import readers
from quire.graph.types import Type, Wrong

SCHEMA = """
node Day { name: String @key  born: Date?  seen: DateTime?  count: I64?  share: F64?  small: F32? tags: [I64]? }
node Pair { a: String  b: I64  @key(a, b) }
edge Near: Day -> Pair
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with quire.create(str(tmp_path / "lake"), backfill=False) as lake:
        made = Graph(lake)
        made.apply_schema(SCHEMA)
        yield made


def day(graph: Graph) -> dict[str, Any]:
    [row] = graph.lake["node:Day"].to_pylist()
    return dict(row)


def refused(graph: Graph, source: Any, **more: Any) -> dict[str, Any]:
    with pytest.raises(IntegrityError) as caught:
        graph.load(source, **more)
    [found] = caught.value.violations
    return dict(found)


BEYOND = [("born", "0000-01-01"), ("born", "0000-12-31"), ("seen", "0000-01-01T00:00:00Z")]


@pytest.mark.parametrize(("name", "value"), BEYOND)
@pytest.mark.parametrize("kind", ["rows", "csv", "arrow text"])
def test_a_time_that_python_does_not_have_is_refused(
    graph: Graph, tmp_path: Path, name: str, value: str, kind: str
) -> None:
    source: Any = [{"type": "Day", "data": {"name": "a", name: value}}]
    more: dict[str, Any] = {}
    if kind == "csv":
        source = tmp_path / "Day.csv"
        source.write_text(f"name,{name}\na,{value}\n")
    elif kind == "arrow text":
        source, more = pa.table({"name": ["a"], name: [value]}), {"type": "Day"}
    assert (refused(graph, source, **more)["rule"], graph.lake["node:Day"].count()) == ("type", 0)


def test_a_time_of_a_file_that_python_does_not_have_is_refused(graph: Graph, tmp_path: Path) -> None:
    late = pa.array([253402300800000000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"name": ["a"], "seen": late}), tmp_path / "Day.parquet")
    found = refused(graph, tmp_path / "Day.parquet")
    assert (found["property"], found["line"]) == ("seen", 1)
    assert "years 1 to 9999" in found["message"]


def test_a_raw_row_with_such_a_time_is_refused(graph: Graph) -> None:
    rows = pa.table({"id": ["a"], "name": ["a"], "born": pa.array([-800_000], pa.int32()).cast(pa.date32())})
    with pytest.raises(IntegrityError, match="born must be within the years 1 to 9999"), graph.lake.transaction() as tx:
        tx["node:Day"].insert(rows, missing="null")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_the_first_and_the_last_moment_are_kept(graph: Graph, moment: str) -> None:
    graph.load([{"type": "Day", "data": {"name": "a", "seen": moment, "born": moment[:10]}}])
    assert day(graph)["seen"] == dt.datetime.fromisoformat(moment)
    assert day(graph)["born"].isoformat() == moment[:10]


def test_midnight_is_a_date_for_frames_have_no_other(graph: Graph) -> None:
    import pandas as pd

    frame = pd.DataFrame({"name": ["a", "b"], "born": pd.to_datetime(["2020-02-29", None])})
    graph.load(frame, type="Day")
    assert [r["born"] for r in graph.lake["node:Day"].to_pylist()] == [dt.date(2020, 2, 29), None]
    graph.load([{"name": "c", "born": dt.datetime(2020, 1, 1)}], type="Day")
    assert refused(graph, frame.assign(born=pd.to_datetime("2020-01-01T05:00"), name=["x", "y"])[:1], type="Day")
    assert refused(graph, [{"name": "d", "born": dt.datetime(2020, 1, 1, 5)}], type="Day")["property"] == "born"


def test_decimals_are_numbers(graph: Graph) -> None:
    kind = pa.decimal128(18, 2)
    table = pa.table({"name": ["a"], "count": pa.array([decimal.Decimal("7.00")], kind)})
    graph.load(table.append_column("share", pa.array([decimal.Decimal("1.50")], kind)), type="Day")
    assert (day(graph)["count"], day(graph)["share"]) == (7, 1.5)
    wrong = pa.table({"name": ["b"], "count": pa.array([decimal.Decimal("7.50")], kind)})
    assert refused(graph, wrong, type="Day")["property"] == "count"
    graph.load([{"name": "c", "count": decimal.Decimal(12)}], type="Day")


@pytest.mark.parametrize("kind", ["rows", "table", "csv"])
def test_minus_zero_is_zero(graph: Graph, tmp_path: Path, kind: str) -> None:
    row = {"name": "a", "share": -0.0, "small": -0.0}
    source: Any = [row] if kind == "rows" else pa.Table.from_pylist([row])
    if kind == "csv":
        source = tmp_path / "Day.csv"
        source.write_text("name,share,small\na,-0.0,-0\n")
    graph.load(source, type="Day")
    assert str(day(graph)["share"]) == str(day(graph)["small"]) == "0.0"
    assert graph.lake["node:Day"].count("share = 0.0") == 1


def test_numbers_of_thousands_of_digits_are_refused_as_any_other(graph: Graph) -> None:
    assert "a very long int" in refused(graph, [{"name": "a", "count": 10**5000}], type="Day")["message"]
    assert refused(graph, [{"name": "a", "tags": [10**5000]}], type="Day")["property"] == "tags"
    wrong = decimal.Decimal(10) ** 5000
    assert refused(graph, [{"name": "a", "count": wrong}], type="Day")["rule"] == "type"


@pytest.mark.parametrize("end", ["9" * 5000, "[" * 100_000, '["a"]', '["a", "x"]', "{"])
def test_an_end_that_is_no_key_is_refused(graph: Graph, end: str) -> None:
    found = refused(graph, [{"edge": "Near", "from": "a", "to": end}], max_errors=1)
    assert (found["rule"], found["property"]) == ("type", "to")


@pytest.mark.parametrize("cell", ["[" * 100_000, "[1,"])
def test_a_cell_that_is_no_list_is_refused(graph: Graph, tmp_path: Path, cell: str) -> None:
    path = tmp_path / "Day.csv"
    path.write_text(f'name,tags\na,"{cell}"\n')
    assert refused(graph, path)["property"] == "tags"


def test_deep_json_is_told_with_its_own_line_and_costs_no_other_row(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows before it are typed by the same call that meets the deep one."""
    monkeypatch.setattr(readers, "BLOCK", 2)
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    path = tmp_path / "d.ndjson"
    rows = [{"type": "Day", "data": {"name": n}} for n in "abc"]
    lines = [json.dumps(r) for r in rows]
    lines.insert(1, json.dumps({"type": "Day", "data": {"name": "deep", "tags": deep}}))
    lines.insert(1, "[" * 100_000)
    path.write_text("\n".join(lines))
    done = graph.load(path, skip_rejects=True, rejects=tmp_path / "rejects.ndjson")
    assert {r["name"] for r in graph.lake["node:Day"].to_pylist()} == {"a", "b", "c"}
    assert done.rejected == 2
    told = [json.loads(line) for line in (tmp_path / "rejects.ndjson").read_text().splitlines()]
    assert sorted((t["line"], t["rule"]) for t in told) == [(2, "json"), (3, "type")]


@pytest.mark.parametrize(
    "given", [pd.Timestamp("2021-01-01 00:00:00.123456789"), "2021-01-01T00:00:00.123456789Z", pd.NaT]
)
def test_a_time_that_would_change_is_refused(given: Any) -> None:
    with pytest.raises(Wrong, match="must be a time"):
        Type("DateTime").value(given)


def test_zeros_beyond_microseconds_change_nothing() -> None:
    expected = dt.datetime(2021, 1, 1, 0, 0, 0, 123456, tzinfo=dt.UTC)
    assert Type("DateTime").value("2021-01-01T00:00:00.123456000Z") == expected
    assert Type("DateTime").value(pd.Timestamp("2021-01-01 00:00:00.123456")) == expected
