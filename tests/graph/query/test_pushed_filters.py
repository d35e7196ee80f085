"""Filters of scans: only what is exact is pushed, and no value ever is more than a value."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import budget

import quire
from quire.filters import Compare
from quire.graph.catalog import Property
from quire.graph.integrity.lookups import TEXT, compare, is_in
from quire.graph.language import plan
from quire.graph.query.known_values import Known
from quire.graph.query.pushed_filters import Filters
from quire.graph.types import Type

PLAIN = ["a", "b'c", "''", 'd"e', "f`g", "h\\i", "\\'", "%", "--", "/*"]
HOSTILE = [*PLAIN, "nul\0x", "é\u0301", "; drop", "", "\n", "' OR 1=1 --"]


@pytest.fixture(scope="module")
def table() -> quire.Table:
    lake = quire.create("memory://filters-of-scans", backfill=False)
    lake.create_table("t", pa.table({"id": HOSTILE, "property:id": HOSTILE}))
    return lake["t"]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_text_finds_itself_and_nothing_else(table: quire.Table, value: str) -> None:
    for name in ("id", "property:id"):
        found = table.scan(filter=compare(name, TEXT, "=", value)).to_arrow()["id"].to_pylist()
        assert found == [value]
    assert table.scan(filter=is_in("id", TEXT, [value, "nobody"])).to_arrow()["id"].to_pylist() == [value]


@settings(max_examples=budget(20, full=60), deadline=None)
@given(st.text(max_size=12))
def test_no_text_breaks_out_of_a_filter(table: quire.Table, value: str) -> None:
    found = table.scan(filter=compare("id", TEXT, "=", value)).to_arrow()["id"].to_pylist()
    assert found == [v for v in HOSTILE if v == value]


def pushed(operator: str, base: str, value: object, kind: str) -> object:
    term = plan.Compare(
        operator,  # type: ignore[arg-type]
        plan.Field("x", Property(1, "p", Type(base)), Type(base)),
        plan.Constant(value, Type(kind)),
    )
    return Filters("x", Known({}, dt.datetime.now(dt.UTC))).push(term)


@pytest.mark.parametrize(
    ("operator", "base", "value", "kind", "filter"),
    [
        ("<", "I32", 2.5, "F64", Compare("p", "<", 3)),
        ("<=", "I32", 2.5, "F64", Compare("p", "<=", 2)),
        (">", "I32", 2.5, "F64", Compare("p", ">", 2)),
        (">=", "I32", -2.5, "F64", Compare("p", ">=", -2)),
        ("=", "I32", 2.0, "F64", Compare("p", "=", 2)),
        ("=", "I32", 2.5, "F64", None),
        ("<", "I32", 2**40, "I64", None),
        ("<", "U32", -1, "I64", None),
        ("=", "F64", 2**53 + 1, "I64", None),
        ("=", "F64", 7, "I64", Compare("p", "=", 7.0)),
        ("=", "F32", 0.1, "F64", None),
        ("=", "F32", 0.5, "F64", Compare("p", "=", 0.5)),
        ("!=", "Bool", True, "Bool", Compare("p", "<>", True)),
        ("=", "Date", dt.date(2020, 1, 2), "Date", Compare("p", "=", dt.date(2020, 1, 2))),
        ("=", "String", None, "String", None),
        (">", "I64", -(2**63), "I64", Compare("p", ">", -(2**63))),
    ],
)
def test_a_comparison_is_pushed_only_where_it_is_exact(
    operator: str, base: str, value: object, kind: str, filter: object
) -> None:
    assert pushed(operator, base, value, kind) == filter
