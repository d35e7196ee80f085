"""Data goes into a lake and comes out equal, whatever held it; what cannot be written leaves nothing behind."""

from __future__ import annotations

import datetime as dt
import gc
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quire
from quire.conversion.inputs import source
from quire.errors import DuplicateKeys, InvalidInput, InvalidName, QuireError, SchemaMismatch

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64())])
ROWS = [{"id": 1, "v": 0.5}, {"id": 2, "v": None}]


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake", backfill=False)


@pytest.fixture
def tables(lake: quire.Lake) -> quire.Lake:
    """A lake with an unkeyed table `plain` and a table `keyed`, both empty."""
    with lake.transaction("tables") as tx:
        tx.create_table("plain", schema=SCHEMA)
        tx.create_table("keyed", schema=SCHEMA, key="id")
    return lake


def round_trip(lake: quire.Lake, data: Any, **options: Any) -> pa.Table:
    with lake.transaction("in") as tx:
        tx.create_table("t", data, **options)
    return lake["t"].to_arrow()


def unchanged(lake: quire.Lake, head: str) -> None:
    """Nothing was committed, and a fresh handle sees no difference either."""
    assert lake.refresh() == head
    again = quire.open(lake.uri, read_only=True)
    assert again.head == head
    assert again["plain"].count() == again["keyed"].count() == 0
    assert again.tables() == ["keyed", "plain"]


# -- every type -------------------------------------------------------------------------------------------------------

BERLIN = pa.timestamp("us", "Europe/Berlin")
TYPES: dict[str, pa.Array] = {
    "bool": pa.array([True, False, None]),
    **{str(k): pa.array([1, 0, None], k) for k in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(k): pa.array([1, 2**k.bit_width - 1, None], k) for k in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{str(k): pa.array([1.5, float("inf"), None], k) for k in (pa.float16(), pa.float32(), pa.float64())},
    "decimal": pa.array([Decimal("1.50"), Decimal("-0.01"), None], pa.decimal128(38, 2)),
    "wide decimal": pa.array([Decimal("1.50"), None, None], pa.decimal256(50, 2)),
    "text": pa.array(["", "ä 🎈", None]),
    "large text": pa.array(["x", None, ""], pa.large_string()),
    "binary": pa.array([b"\x00\xff", b"", None]),
    "large binary": pa.array([b"\x00", None, b""], pa.large_binary()),
    "fixed binary": pa.array([b"ab", None, b"\x00\xff"], pa.binary(2)),
    "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "date64": pa.array([dt.date(2020, 1, 1), None, dt.date(1969, 12, 31)], pa.date64()),
    "time": pa.array([dt.time(0), dt.time(23, 59, 59, 999999), None], pa.time64("us")),
    "duration": pa.array([dt.timedelta(days=-1), None, dt.timedelta(microseconds=1)], pa.duration("us")),
    **{f"timestamp {u}": pa.array([0, -1, None], pa.timestamp(u)) for u in ("s", "ms", "us", "ns")},
    "timestamp with a zone": pa.array([dt.datetime(2020, 7, 1, tzinfo=dt.UTC), None, None], BERLIN),
    "list": pa.array([[1, None], [], None]),
    "large list": pa.array([["x"], [], None], pa.large_list(pa.string())),
    "list of lists": pa.array([[[1], None, []], [], None]),
    "vector": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "list of structs": pa.array([[{"a": 1}, None], [], None]),
    "struct of lists": pa.array([{"a": [1, 2]}, {"a": None}, None]),
    "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("name", TYPES)
def test_values_of_every_type_come_back_equal(lake: quire.Lake, name: str) -> None:
    table = pa.table({"row": [0, 1, 2], "v": TYPES[name]})
    assert round_trip(lake, table).equals(table)
    with lake.transaction("again") as tx:
        tx["t"].append(table)
    twice = lake["t"].scan(filter="row >= 0").to_arrow()
    assert twice.combine_chunks().equals(pa.concat_tables([table, table]).combine_chunks())


def test_encodings_that_are_not_stored_come_back_as_equal_values(lake: quire.Lake) -> None:
    table = pa.table(
        {
            "view": pa.array(["x", None], pa.string_view()),
            "raw": pa.array([b"x", None], pa.binary_view()),
            "words": pa.array(["x", None]).dictionary_encode(),
            "nested": pa.array([["x"], None], pa.list_(pa.string_view())),
        }
    )
    back = round_trip(lake, table)
    assert back.to_pylist() == table.to_pylist()
    assert back.schema.types == [pa.string(), pa.binary(), pa.string(), pa.list_(pa.string())]


def test_a_schema_with_such_encodings_makes_a_table_with_plain_columns(lake: quire.Lake) -> None:
    with lake.transaction("x") as tx:
        tx.create_table("t", schema=pa.schema([("v", pa.string_view()), ("w", pa.dictionary(pa.int8(), pa.string()))]))
        tx["t"].append([{"v": "x", "w": "y"}])
    assert lake["t"].schema.types == [pa.string(), pa.string()]
    assert lake["t"].to_pylist() == [{"v": "x", "w": "y"}]


@pytest.mark.parametrize(
    ("odd", "plain"),
    [
        (pa.array([[1], None, []], pa.list_view(pa.int32())), pa.list_(pa.int32())),
        (pa.array([Decimal("1.50"), None], pa.decimal32(5, 2)), pa.decimal128(5, 2)),
        (pa.array([Decimal("1.50"), None], pa.decimal64(12, 2)), pa.decimal128(12, 2)),
        (pa.RunEndEncodedArray.from_arrays([2, 3], ["x", "y"]), pa.string()),
    ],
    ids=lambda v: str(v.type if isinstance(v, pa.Array) else v),
)
def test_layouts_that_lance_lacks_are_stored_as_equal_values(
    lake: quire.Lake, odd: pa.Array, plain: pa.DataType
) -> None:
    back = round_trip(lake, pa.table({"v": odd}))
    assert back.schema.field("v").type == plain
    assert back["v"].to_pylist() == odd.to_pylist()
    with lake.transaction("from its schema") as tx:
        tx.create_table("u", schema=pa.schema([("v", odd.type)]))
        tx["u"].append(pa.table({"v": odd}))
    assert lake["u"].to_arrow().equals(back)


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.dense_union([pa.field("a", pa.int64())])], ids=str)
def test_a_type_that_cannot_be_stored_is_refused_by_column(lake: quire.Lake, kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match="'odd'") as caught, lake.transaction("x") as tx:
        tx.create_table("t", schema=pa.schema([("fine", pa.int64()), ("odd", kind)]))
    assert caught.value.fields["column"] == "odd"
    assert str(kind) in caught.value.message
    assert caught.value.retryable is False
    assert lake.tables() == []


def test_column_names_may_hold_spaces_quotes_and_letters_of_any_script(lake: quire.Lake) -> None:
    table = pa.table({"a b": [1], "größe": [2], 'q"': [3], "select": [4], "Case": [5]})
    assert round_trip(lake, table).equals(table)
    with lake.transaction("delete") as tx:
        assert tx["t"].delete("`a b` = 1 and `select` = 4") == 1


# -- every holder -----------------------------------------------------------------------------------------------------

HOLDERS: dict[str, Callable[[], Any]] = {
    "table": lambda: pa.Table.from_pylist(ROWS, schema=SCHEMA),
    "batch": lambda: pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA),
    "reader": lambda: pa.Table.from_pylist(ROWS, schema=SCHEMA).to_reader(),
    "pandas": lambda: pd.DataFrame({"id": [1, 2], "v": pd.array([0.5, None], dtype="Float64")}),
    "polars": lambda: pl.DataFrame(ROWS),
    "duckdb": lambda: duckdb.connect().sql("select * from (values (1::bigint, 0.5::double), (2, null)) t(id, v)"),
    "rows": lambda: ROWS,
    "columns": lambda: {"id": [1, 2], "v": [0.5, None]},
    "batches": lambda: (pa.RecordBatch.from_pylist([row], schema=SCHEMA) for row in ROWS),
    "lists of rows": lambda: ([row] for row in ROWS),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_every_holder_of_rows_works_for_every_verb(tables: quire.Lake, holder: str) -> None:
    make = HOLDERS[holder]
    with tables.transaction("all verbs") as tx:
        assert tx["plain"].append(make()) == 2
        assert tx["keyed"].insert(make()) == 2
        assert tx["keyed"].upsert(make()) == {"inserted": 0, "updated": 2}
        tx.create_table("made", make(), schema=SCHEMA)
        tx.create_table("replaced", schema=SCHEMA)
        assert tx["replaced"].overwrite(make()) == 2
    snap = tables.snapshot()
    for name in ("plain", "keyed", "made", "replaced"):
        assert snap[name].to_pylist() == ROWS, name
        assert snap[name].count() == 2


def test_a_table_of_the_lake_is_an_input_too(tables: quire.Lake) -> None:
    with tables.transaction("fill") as tx:
        tx["plain"].append(ROWS)
    with tables.transaction("copy") as tx:
        tx["keyed"].append(tables["plain"])
        tx.create_table("sums", tables.sql("select id, sum(v) as v from plain group by id order by id"))
    assert tables["keyed"].to_pylist() == tables["sums"].to_pylist() == ROWS


@pytest.mark.parametrize(
    "empty", [[], {}, iter([]), SCHEMA.empty_table(), SCHEMA.empty_table().to_reader(), pd.DataFrame(ROWS)[:0]]
)
def test_appending_nothing_is_no_error(tables: quire.Lake, empty: Any) -> None:
    with tables.transaction("nothing") as tx:
        assert tx["plain"].append(empty) == 0
    assert tables["plain"].count() == 0


@pytest.mark.parametrize("verb", ["insert", "upsert", "overwrite"])
def test_the_other_verbs_take_nothing_too(tables: quire.Lake, verb: str) -> None:
    with tables.transaction("nothing") as tx:
        getattr(tx["keyed"], verb)([])
    assert tables["keyed"].to_pylist() == []


def test_a_table_can_start_from_a_reader_without_rows(lake: quire.Lake) -> None:
    assert round_trip(lake, SCHEMA.empty_table().to_reader()).schema.equals(SCHEMA)


def test_rows_of_a_list_may_lack_columns_and_add_them(lake: quire.Lake) -> None:
    back = round_trip(lake, [{"a": 1}, {"a": 2, "b": "x"}])
    assert back.to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


class Stream:
    """Batches made on demand, which sees how many of them are alive at once."""

    def __init__(self, batches: int, rows: int) -> None:
        self._batches, self._rows = batches, rows
        self.made, self.most_bytes = 0, 0
        gc.collect()
        self._before = pa.total_allocated_bytes()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(self._batches):
            self.made += 1
            ids = range(number * self._rows, (number + 1) * self._rows)
            yield pa.record_batch({"id": pa.array(ids, pa.int64()), "v": pa.array([0.5] * self._rows)})
            self.most_bytes = max(self.most_bytes, pa.total_allocated_bytes() - self._before)


@pytest.mark.parametrize("verb", ["append", "create", "overwrite", "upsert"])
def test_a_stream_is_written_as_it_comes_and_never_held_whole(tables: quire.Lake, verb: str) -> None:
    stream = Stream(batches=100, rows=20_000)
    whole = 100 * 20_000 * 16
    with tables.transaction("large") as tx:
        if verb == "append":
            assert tx["plain"].append(iter(stream)) == 2_000_000
        elif verb == "create":
            tx.create_table("made", iter(stream))
        elif verb == "overwrite":
            assert tx["plain"].overwrite(iter(stream)) == 2_000_000
        else:
            tx["keyed"].upsert(iter(stream))
    assert stream.made == 100
    # The keys of an upsert are held, half of the bytes here; the rows never are.
    assert stream.most_bytes < whole * (0.75 if verb == "upsert" else 0.5)
    name = {"create": "made", "upsert": "keyed"}.get(verb, "plain")
    assert tables.sql(f"select count(*) n, count(distinct id) d, sum(v) s from {name}").to_pylist() == [
        {"n": 2_000_000, "d": 2_000_000, "s": 1_000_000.0}
    ]


# -- what cannot be written -------------------------------------------------------------------------------------------


class Mine(Exception):
    """An error of the user's program."""


def broken(good: int) -> Iterator[pa.RecordBatch]:
    for number in range(good):
        yield pa.record_batch({"id": [number], "v": [0.5]})
    raise Mine("in my own generator")


WRITES: dict[str, Callable[[quire.Transaction, Any], Any]] = {
    "append": lambda tx, data: tx["plain"].append(data),
    "insert": lambda tx, data: tx["keyed"].insert(data),
    "upsert": lambda tx, data: tx["keyed"].upsert(data),
    "overwrite": lambda tx, data: tx["plain"].overwrite(data),
    "create": lambda tx, data: tx.create_table("new", data),
    "create with a schema": lambda tx, data: tx.create_table("new", data, schema=SCHEMA, key="id"),
}


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("good", [0, 1, 5])
@pytest.mark.parametrize("as_reader", [False, True])
def test_an_exception_in_the_users_iterator_comes_out_unchanged(
    tables: quire.Lake, verb: str, good: int, as_reader: bool
) -> None:
    head = tables.head
    data: Any = pa.RecordBatchReader.from_batches(SCHEMA, broken(good)) if as_reader else broken(good)
    with pytest.raises(Mine, match="in my own generator"):
        with tables.transaction("broken") as tx:
            WRITES[verb](tx, data)
    assert tx.status == "discarded"
    assert tx.status != "committed"
    unchanged(tables, head)


@pytest.mark.parametrize("verb", WRITES)
def test_a_later_batch_that_does_not_fit_is_a_schema_mismatch(tables: quire.Lake, verb: str) -> None:
    head = tables.head

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1], "v": [0.5]})
        yield pa.record_batch({"id": ["x"], "v": [0.5]})

    with pytest.raises(SchemaMismatch, match="'id'"):
        with tables.transaction("broken") as tx:
            WRITES[verb](tx, batches())
    unchanged(tables, head)


@pytest.mark.parametrize("verb", WRITES)
def test_a_statement_that_failed_leaves_no_trace_in_a_transaction_that_goes_on(tables: quire.Lake, verb: str) -> None:
    with tables.transaction("goes on") as tx:
        with pytest.raises(Mine):
            WRITES[verb](tx, broken(3))
        tx["plain"].append(ROWS)
    assert tables.tables() == ["keyed", "plain"]
    assert tables["plain"].to_pylist() == ROWS
    assert tables["keyed"].count() == 0


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("data", [5, None, "text", object()])
def test_what_holds_no_rows_is_refused(tables: quire.Lake, verb: str, data: Any) -> None:
    if verb.startswith("create") and data is None:
        data = {1, 2}
    head = tables.head
    with pytest.raises(InvalidInput):
        with tables.transaction("broken") as tx:
            WRITES[verb](tx, data)
    unchanged(tables, head)


FITTED = [verb for verb in WRITES if verb != "create"]
"""A table that is created without a schema takes the columns it is given."""


@pytest.mark.parametrize("verb", FITTED)
@pytest.mark.parametrize(
    "data",
    [
        pa.table({"id": ["x"], "v": [0.5]}),
        [{"id": "x", "v": 0.5}],
        [{"id": 1.5, "v": 0.5}],
        [{"id": 2**70, "v": 0.5}],
        pa.table({"id": pa.array([2**63], pa.uint64()), "v": [0.5]}),
        pa.table({"id": [1], "v": [0.5], "extra": [1]}),
        [{"id": 1, "v": 0.5}, {"id": 2, "v": 0.5, "extra": 1}],
        pa.table([[1], [0.5], [0.5]], names=["id", "v", "v"]),
    ],
    ids=[
        "text",
        "row of text",
        "fraction",
        "too large",
        "unsigned",
        "extra column",
        "late extra column",
        "one name twice",
    ],
)
def test_data_that_does_not_fit_is_refused_and_nothing_is_committed(tables: quire.Lake, verb: str, data: Any) -> None:
    head = tables.head
    with pytest.raises(SchemaMismatch) as caught:
        with tables.transaction("broken") as tx:
            WRITES[verb](tx, data)
    assert caught.value.fields["table"] in ("plain", "keyed", "new")
    unchanged(tables, head)


def test_a_required_column_takes_no_null_from_anywhere(lake: quire.Lake) -> None:
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.float64())])
    with lake.transaction("x") as tx:
        tx.create_table("t", schema=strict)
    for data in (
        [{"id": None, "v": 1.0}],
        pa.table({"id": pa.array([None], pa.int64()), "v": [1.0]}),
        iter([[{"id": None, "v": 1.0}]]),
    ):
        with pytest.raises(SchemaMismatch, match="required"), lake.transaction("null") as tx:
            tx["t"].append(data)
    with pytest.raises(SchemaMismatch, match="lacks column 'id'"), lake.transaction("absent") as tx:
        tx["t"].append([{"v": 1.0}], missing="null")
    assert lake["t"].count() == 0
    with lake.transaction("fine") as tx:
        tx["t"].append([{"id": 1}], missing="null")
    assert lake["t"].to_pylist() == [{"id": 1, "v": None}]


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr", "_distance", "_score", "", "a.b", "tick`", "line\nbreak"])
def test_a_reserved_or_unquotable_column_name_is_refused(lake: quire.Lake, name: str) -> None:
    with pytest.raises(InvalidName) as caught, lake.transaction("x") as tx:
        tx.create_table("t", pa.table({name: [1]}))
    assert caught.value.fields["column"] == name
    assert lake.tables() == []


def test_columns_of_a_new_table_must_have_a_name_and_a_type(lake: quire.Lake) -> None:
    for data in (pa.table({"a": pa.nulls(2)}), pa.table([[1], [2]], names=["a", "a"]), [{"a": None}]):
        with pytest.raises(SchemaMismatch, match="'a'"), lake.transaction("x") as tx:
            tx.create_table("t", data)
    for nothing in ({}, [], [{}], pa.table({})):
        with pytest.raises(InvalidInput, match="column"), lake.transaction("x") as tx:
            tx.create_table("t", nothing)
    with pytest.raises(InvalidInput, match="schema or data"), lake.transaction("x") as tx:
        tx.create_table("t")
    assert lake.tables() == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("verb", ["insert", "upsert", "create with a schema"])
def test_one_key_twice_in_the_data_is_refused(tables: quire.Lake, verb: str, stream: bool) -> None:
    head = tables.head
    rows = [{"id": 1, "v": 0.5}, {"id": 2, "v": 0.5}, {"id": 1, "v": 0.7}]
    data: Any = iter([rows[:2], rows[2:]]) if stream else rows
    with pytest.raises(DuplicateKeys, match="id=1") as caught:
        with tables.transaction("twice") as tx:
            WRITES[verb](tx, data)
    assert caught.value.fields["keys"] == [{"id": 1}]
    unchanged(tables, head)


# -- keys of every type -----------------------------------------------------------------------------------------------

KEYS: dict[str, pa.Array] = {
    **{str(k): pa.array([1, 2, 3], k) for k in (pa.int8(), pa.int64(), pa.uint8(), pa.uint32(), pa.float64())},
    "uint64": pa.array([1, 2**63, 2**64 - 1], pa.uint64()),
    "text": pa.array(["it's", 'say "x"', "a\\b"]),
    "large text": pa.array(["it's", "a\\'b", "ü\n"], pa.large_string()),
    "binary": pa.array([b"\x00", b"'", b"\xff"]),
    "large binary": pa.array([b"\x00", b"'", b"\xff"], pa.large_binary()),
    "fixed binary": pa.array([b"ab", b"cd", b"\x00\xff"], pa.binary(2)),
    "decimal": pa.array([Decimal("1.50"), Decimal("1.51"), Decimal("-1")], pa.decimal128(10, 2)),
    "date": pa.array([1, 2, 3], pa.date32()),
    "date64": pa.array([86_400_000, 0, -86_400_000], pa.date64()),
    "time": pa.array([1, 2, 3], pa.time64("us")),
    "time ns": pa.array([1, 2, 3], pa.time64("ns")),
    **{f"timestamp {u}": pa.array([1, 2, 3], pa.timestamp(u)) for u in ("s", "ms", "us", "ns")},
    "timestamp with a zone": pa.array([1, 2, 3], BERLIN),
    "timestamp ns with a zone": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")),
    "duration": pa.array([1, 2, 3], pa.duration("us")),
    "duration ns": pa.array([1, 2, 3], pa.duration("ns")),
}


@pytest.mark.parametrize(
    ("name", "composite"),
    [*((name, False) for name in KEYS), ("int64", True), ("large text", True), ("duration ns", True)],
)
def test_a_key_of_every_type_tells_its_rows_apart(lake: quire.Lake, name: str, composite: bool) -> None:
    keys = KEYS[name]

    def some(first: int, count: int, v: int) -> pa.Table:
        return pa.table({"id": keys.slice(first, count), "part": ["x"] * count, "v": [v] * count})

    with lake.transaction("make") as tx:
        tx.create_table("t", some(0, 2, 0), key=["id", "part"] if composite else "id")
    with lake.transaction("replace and add") as tx:
        assert tx["t"].upsert(some(1, 2, 1)) == {"inserted": 1, "updated": 1}
        tx["t"].require_keys(some(0, 1, 0).drop_columns("v" if composite else ["part", "v"]))
    with pytest.raises(quire.KeyConflict, match="'t'"), lake.transaction("again") as tx:
        tx["t"].insert(some(0, 1, 9))
    with lake.transaction("one column") as tx:
        assert tx["t"].upsert(some(2, 1, 2).drop_columns([] if composite else "part")) == {"inserted": 0, "updated": 1}
    table = lake["t"].to_arrow()
    assert {v: id for v, id in zip(table["v"].to_pylist(), table["id"], strict=True)} == dict(enumerate(keys))


def test_many_keys_are_told_apart_too(lake: quire.Lake) -> None:
    """More keys than are looked up one by one."""
    for name, kind in (("whole", pa.int64()), ("text", pa.large_string()), ("short", pa.duration("ns"))):
        numbers = pa.array(range(3000))
        ids = pc.cast(numbers, kind)
        with lake.transaction(name) as tx:
            tx.create_table(name, pa.table({"id": ids, "v": [0] * 3000}), key="id")
            assert tx[name].upsert(pa.table({"id": ids.slice(500), "v": [1] * 2500})) == {
                "inserted": 0,
                "updated": 2500,
            }
        assert lake[name].count() == 3000
        assert lake[name].count("v = 1") == 2500


@pytest.mark.parametrize(
    "column",
    [pa.array([[1], [2]]), pa.array([{"a": 1}, {"a": 2}]), pa.array([[1.0], [2.0]], pa.list_(pa.float32(), 1))],
    ids=lambda a: str(a.type),
)
def test_a_nested_key_is_refused_when_the_table_is_made(lake: quire.Lake, column: pa.Array) -> None:
    with pytest.raises(InvalidInput, match="'id'"), lake.transaction("x") as tx:
        tx.create_table("t", pa.table({"id": column}), key="id")
    with pytest.raises(InvalidInput), lake.transaction("x") as tx:
        tx.create_table("t", pa.table({"id": [1]}), key=["id", "id"])
    assert lake.tables() == []


@pytest.mark.parametrize("wrap", [lambda s: pl.DataFrame([s]), lambda s: {"v": s}], ids=["frame", "column"])
def test_a_column_of_python_objects_is_refused_with_its_name(wrap: Any) -> None:
    lake = quire.create("memory://objects-of-polars", exist_ok=True)
    with pytest.raises(SchemaMismatch) as wrong:
        lake.create_table("t", wrap(pl.Series("v", [bytearray(b"a")], dtype=pl.Object)))
    assert wrong.value.column == "v"
    assert lake.tables() == []


@pytest.mark.parametrize(
    "query",
    ["select 1 as id, 'x'::int as s", "select i as id, if(i > 90000, error('no'), 's') as s from range(100000) t(i)"],
    ids=["when it begins", "in the middle"],
)
def test_a_relation_that_fails_ends_in_an_error_of_quire_and_nothing_is_written(tmp_path: Path, query: str) -> None:
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", [{"id": 0, "s": "a"}])
    with duckdb.connect() as connection, pytest.raises(QuireError, match="DuckDBPyRelation"), lake.transaction() as tx:
        tx["t"].append(connection.sql(query))
    assert lake["t"].count() == 1


WRONG_WORDS = {
    "not UTF-8": {b"k": b"\xff\xfe"},
    "marked as a blob": {b"lance-encoding:blob": b"true"},
    "may be null": {b"lance-schema:unenforced-primary-key": b"true"},
}


@pytest.mark.parametrize("said", WRONG_WORDS)
def test_metadata_that_lance_cannot_follow_is_refused_with_the_column(lake: quire.Lake, said: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), metadata=WRONG_WORDS[said])])
    with pytest.raises(SchemaMismatch, match=said) as caught:
        lake.create_table("t", pa.table({"id": [1]}, schema=schema))
    assert caught.value.column == "id"
    assert lake.tables() == []


@pytest.mark.parametrize("value", [1, np.int64(1), np.array(3), "abc", b"abc", None])
def test_one_value_for_a_column_is_told_how_columns_are_given(value: Any) -> None:
    with pytest.raises((SchemaMismatch, InvalidInput)) as caught:
        source({"id": value}, pa.schema({"id": pa.int64()}), table="t")
    assert "alter_column" not in str(caught.value.next)


@pytest.mark.parametrize("kind", ["Int128", "List(Int128)"])
def test_a_type_of_polars_that_arrow_does_not_have_is_named_with_its_column(kind: str) -> None:
    wide = pl.DataFrame({"id": [1], "c": [2**70] if kind == "Int128" else [[2**70]]})
    with pytest.raises(SchemaMismatch, match=re.escape(f"Column 'c' of table 't' is of polars' type {kind}")) as caught:
        source(wide, table="t")
    assert caught.value.column == "c"
    assert "Cast" in str(caught.value.next)


def test_half_a_character_is_not_told_to_become_text() -> None:
    with pytest.raises(SchemaMismatch) as caught:
        source([{"s": "\ud800"}], pa.schema({"s": pa.string()}), table="t")
    assert "surrogate" in str(caught.value.next)
