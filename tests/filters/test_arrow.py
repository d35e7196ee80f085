"""Expressions of pyarrow: rows are those that pyarrow finds, whatever the columns are called and whoever tells them."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quire
from quire.errors import InvalidExpression
from quire.filters import arrow
from quire.formats.lance import filtered_scan

COUNTER = itertools.count()
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "s": ["a", None, "b"],
        "b": [True, None, False],
        "d": [dt.date(2020, 1, 1), None, dt.date(1969, 12, 31)],
        "ts": pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(1969, 12, 31)], pa.timestamp("us")),
        "f": [1.5, None, float("nan")],
        "i8": pa.array([-7, None, 127], pa.int8()),
    }
)
F = pc.field
PLAIN = {
    "a number": F("id") == 2,
    "a literal first": pc.greater(pc.scalar(2), F("id")),
    "a text": F("s") != "a",
    "a date": F("d") < dt.date(1970, 1, 1),
    "a time": F("ts") >= dt.datetime(1970, 1, 1),
    "listed": F("s").isin(["a", "x"]),
    "not listed": ~F("s").isin(["a"]),
    "listed with null": F("s").isin(["a", None]),
    "not listed with null": ~F("s").isin(["a", None]),
    "many listed": F("id").isin(list(range(2, 300))),
    "null": F("s").is_null() | ~F("b"),
    "there": F("s").is_valid() & F("b"),
    "many joined": F("id").isin([1]) | (F("id") == 2) | (F("id") == 3) | (F("id") == 4) | (F("id") == 5),
}
ONLY_PYARROW = {
    "null skipped": ~pc.is_in(F("s"), value_set=pa.array(["a", None]), skip_nulls=True),
    "case folded": pc.match_substring(F("s"), "A", ignore_case=True),
    "start folded": pc.starts_with(F("s"), "A", ignore_case=True),
    "end folded": pc.ends_with(F("s"), "A", ignore_case=True),
    "chosen": pc.if_else(F("s") == "a", F("id"), pc.scalar(9)) == 9,
    "NaN is null": F("f").is_null(nan_is_null=True),
    "a float": F("f") > 1,
    "another type": F("i8") < 300,
    "an unsafe cast": F("id").cast(pa.bool_(), safe=False),
    "a power": pc.power(F("i8").cast(pa.int64()), 2) == 49,
    "by number": F(1) == "a",
    "by number, the last": F(6) == -7,
    "no column": pc.scalar(True),
    "nothing": F("id") == pc.scalar(pa.scalar(None, pa.int64())),
}


@pytest.fixture(scope="module", params=["alone", "beside v"])
def lake(request: pytest.FixtureRequest) -> quire.Lake:
    """The rows, once beside a column whose name is a part of a word that pyarrow writes, `value_set`."""
    made = quire.create(f"memory://arrow-filters-{next(COUNTER)}", backfill=False)
    vectors = pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2))
    made.create_table("t", ROWS if request.param == "alone" else ROWS.append_column("v", vectors))
    return made


@pytest.mark.parametrize("name", [*PLAIN, *ONLY_PYARROW])
def test_an_expression_finds_the_rows_that_pyarrow_finds(lake: quire.Lake, name: str) -> None:
    filter = {**PLAIN, **ONLY_PYARROW}[name]
    expected = ROWS.filter(filter)["id"].to_pylist()
    table = lake["t"]
    assert table.scan(columns=["id"], filter=filter).to_arrow()["id"].to_pylist() == expected
    assert [row["id"] for row in table.scan(filter=filter, limit=2).to_pylist()] == expected[:2]
    assert table.count(filter) == len(expected)


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_plain_goes_to_lance_as_sql(lake: quire.Lake, name: str) -> None:
    handle: Any = lake["t"]._view().handle  # type: ignore[attr-defined]
    found = filtered_scan.split(PLAIN[name], handle.schema)
    assert found.exact
    assert isinstance(found.lance, str)


@pytest.mark.parametrize("name", ONLY_PYARROW)
def test_what_is_not_proven_alike_is_left_to_pyarrow(name: str) -> None:
    found = filtered_scan.split(ONLY_PYARROW[name], ROWS.schema)
    assert (found.exact, found.lance) == (False, None)


def test_what_pyarrow_cannot_compute_on_a_row_is_a_typed_error(lake: quire.Lake) -> None:
    for filter in (F("s").cast(pa.int64()) == 1, pc.add_checked(F("i8"), pc.scalar(1)).cast(pa.int8()) == 0):
        with pytest.raises(InvalidExpression):
            lake["t"].scan(filter=filter).to_arrow()
        with pytest.raises(InvalidExpression):
            lake["t"].count(filter)


def test_names_that_cannot_be_read_back_are_left_to_pyarrow() -> None:
    odd = pa.schema([("a\nb", pa.int64()), ("it's", pa.int64()), ("end: 'equal'", pa.int64())])
    assert arrow.plain(F("a\nb") == 1, odd) is None
    for name in odd.names[1:]:
        assert arrow.named(F(name) == 1, odd) == (name,)
        assert str(arrow.plain(F(name) == 1, odd)).endswith("= 1")
