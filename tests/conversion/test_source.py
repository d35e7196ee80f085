"""What a statement was given is what is stored, whatever becomes of the caller's memory; and no input is a panic."""

from __future__ import annotations

import datetime as dt
import gc
import io
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quire
from quire.errors import InvalidInput, SchemaMismatch, StorageError
from quire.formats.lance import session
from quire.formats.lance.staging import draft

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64())])
MORE = int(os.environ.get("QUIRE_INPUTS", "1"))
"""How many times the usual number of random examples."""


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake", backfill=False)


def rows(lake: quire.Lake, table: str = "t") -> list[dict[str, Any]]:
    return sorted(lake[table].to_pylist(), key=lambda row: row["id"])


# -- the caller's memory ----------------------------------------------------------------------------------------------

GIVEN = [{"id": n, "v": n / 2} for n in range(1, 4)]
Given = tuple[Any, Callable[[], None]]


def of_numpy() -> Given:
    ids, v = np.array([1, 2, 3]), np.array([0.5, 1.0, 1.5])

    def spoil() -> None:
        ids[:], v[:] = 1, -1

    return {"id": ids, "v": v}, spoil


def of_arrow_on_numpy() -> Given:
    data, spoil = of_numpy()
    return pa.table({n: pa.array(a) for n, a in data.items()}), spoil


def of_a_slice() -> Given:
    ids, v = np.array([9, 1, 2, 3, 9]), np.array([0, 0.5, 1.0, 1.5, 0])

    def spoil() -> None:
        ids[:], v[:] = 1, -1

    return pa.table({"id": pa.array(ids), "v": pa.array(v)}).slice(1, 3), spoil


def of_a_buffer() -> Given:
    memory = bytearray(np.array([1, 2, 3, 0, 0, 0]).tobytes()[:24] + np.array([0.5, 1.0, 1.5]).tobytes())
    buffer = pa.py_buffer(memory)
    ids = pa.Array.from_buffers(pa.int64(), 3, [None, buffer.slice(0, 24)])
    v = pa.Array.from_buffers(pa.float64(), 3, [None, buffer.slice(24, 24)])

    def spoil() -> None:
        memory[:] = b"\1" * len(memory)

    return pa.table({"id": ids, "v": v}), spoil


def of_pandas() -> Given:
    frame = pd.DataFrame({"id": np.array([1, 2, 3]), "v": np.array([0.5, 1.0, 1.5])}, copy=False)

    def spoil() -> None:
        frame.loc[:, "id"], frame.loc[:, "v"] = 1, -1.0

    return frame, spoil


def of_pandas_on_numpy() -> Given:
    data, spoil = of_numpy()
    return pd.DataFrame(data, copy=False), spoil


def of_polars() -> Given:
    data, spoil = of_numpy()
    return pl.DataFrame(data), spoil


def of_lists() -> Given:
    given = [dict(row) for row in GIVEN]

    def spoil() -> None:
        for row in given:
            row.update(id=1, v=-1)
        given.clear()

    return given, spoil


def of_a_reader() -> Given:
    data, spoil = of_arrow_on_numpy()
    return data.to_reader(), spoil


def of_an_iterator() -> Given:
    """One buffer for all batches."""
    ids, v = np.zeros(1, np.int64), np.zeros(1)

    def batches() -> Iterator[pa.Table]:
        for row in GIVEN:
            ids[:], v[:] = row["id"], row["v"]
            yield pa.table({"id": pa.array(ids), "v": pa.array(v)})
        ids[:], v[:] = 1, -1

    return batches(), lambda: None


def of_a_reader_with_one_buffer() -> Given:
    data, spoil = of_an_iterator()
    return pa.RecordBatchReader.from_batches(SCHEMA, (t.to_batches()[0] for t in data)), spoil


OWNERS = [
    of_numpy,
    of_arrow_on_numpy,
    of_a_slice,
    of_a_buffer,
    of_pandas,
    of_pandas_on_numpy,
    of_polars,
    of_lists,
    of_a_reader,
    of_an_iterator,
    of_a_reader_with_one_buffer,
]


VERBS = ["append", "insert", "upsert", "upsert-some-columns", "overwrite", "create"]


def ask(tx: quire.Transaction, verb: str, data: Any) -> None:
    if verb == "create":
        tx.create_table(verb, data)
        return
    schema = SCHEMA.append(pa.field("other", pa.string())) if verb == "upsert-some-columns" else SCHEMA
    tx.create_table(verb, schema=schema, key="id" if verb in ("insert", "upsert", "upsert-some-columns") else None)
    getattr(tx[verb], verb.split("-")[0])(data)


@pytest.mark.parametrize("made", OWNERS, ids=lambda made: str(made.__name__))
@pytest.mark.parametrize("copied", [True, False], ids=["few", "many"])
def test_what_a_statement_was_given_is_what_is_stored(
    lake: quire.Lake, monkeypatch: pytest.MonkeyPatch, made: Callable[[], Given], copied: bool
) -> None:
    if not copied:
        monkeypatch.setattr(draft, "COPIED_BYTES", 0)
    with lake.transaction() as tx:
        for verb in VERBS:
            data, spoil = made()
            ask(tx, verb, data)
            spoil()
        gc.collect()
    for verb in VERBS:
        found = rows(lake, verb)
        assert [{"id": row["id"], "v": row["v"]} for row in found] == GIVEN, verb


def test_a_statement_that_is_run_again_after_a_lost_race_has_the_rows_it_was_given(lake: quire.Lake) -> None:
    lake.create_table("t", [{"id": 1, "v": 0.0}], schema=SCHEMA, key="id")
    data, spoil = of_arrow_on_numpy()
    tx = lake.transaction()
    assert tx["t"].upsert(data) == {"inserted": 2, "updated": 1}
    spoil()
    with lake.transaction() as rival:
        rival["t"].upsert([{"id": 9, "v": 9.0}])
    tx.commit()
    assert rows(lake) == [*GIVEN, {"id": 9, "v": 9.0}]


def test_a_key_that_the_caller_writes_later_is_not_there_twice(lake: quire.Lake) -> None:
    lake.create_table("t", schema=pa.schema([("id", pa.int64())]), key="id")
    ids = np.arange(1000)
    with lake.transaction() as tx:
        tx["t"].append({"id": ids})
        ids[:] = 1
    assert [row["id"] for row in rows(lake)] == list(range(1000))


def test_checks_and_searches_keep_what_they_were_given(lake: quire.Lake) -> None:
    lake.create_table("t", GIVEN, key="id")
    keys = np.array([1, 2])
    tx = lake.transaction()
    tx["t"].require_keys(pa.table({"id": pa.array(keys)}))
    keys[:] = 77
    tx["t"].insert([{"id": 4, "v": 2.0}])
    tx.commit()
    assert lake["t"].count() == 4


@pytest.mark.parametrize("rival", [False, True])
def test_which_rows_an_upsert_keeps_is_taken_too(lake: quire.Lake, rival: bool) -> None:
    """Also for when it is run again, on what a rival wrote."""
    lake.create_table("t", GIVEN, key="id")
    mask = np.array([True, False])
    tx = lake.transaction()
    tx["t"].upsert({"id": [1, 2], "v": [11.0, 22.0]}, keep={"v": mask})
    mask[:] = [False, True]
    if rival:
        with quire.open(lake.uri).transaction() as theirs:
            theirs["t"].upsert([{"id": 1, "v": 5.0}])
    tx.commit()
    assert [row["v"] for row in rows(lake)] == [5.0 if rival else 0.5, 22.0, 1.5]
    assert tx.receipt.replayed == rival


# -- memory that Rust cannot take -------------------------------------------------------------------------------------


def displaced(values: pa.Array, by: int) -> pa.Array:
    """The same values, each of whose buffers begins at an address of its own choice."""
    buffers = []
    for buffer in values.buffers():
        if buffer is None:
            buffers.append(None)
            continue
        memory = np.zeros(buffer.size + 128, np.uint8)
        start = -memory.ctypes.data % 64 + by
        memory[start : start + buffer.size] = np.frombuffer(buffer, np.uint8)
        buffers.append(pa.py_buffer(memory).slice(start, buffer.size))
    if values.type.num_fields:
        children = [displaced(values.values, by)]
        return pa.Array.from_buffers(values.type, len(values), buffers[: values.type.num_buffers], children=children)
    return pa.Array.from_buffers(values.type, len(values), buffers)


TYPES = {
    "int16": pa.array([1, None], pa.int16()),
    "int64": pa.array([1, None], pa.int64()),
    "float": pa.array([0.5, None], pa.float32()),
    "half": pa.array([np.float16(0.5), None], pa.float16()),
    "decimal": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
    "wide": pa.array([Decimal("1.25"), None], pa.decimal256(50, 2)),
    "text": pa.array(["abc", None]),
    "large text": pa.array(["abc", None], pa.large_string()),
    "bytes": pa.array([b"abc", None]),
    "time": pa.array([1, None], pa.timestamp("us")),
    "bool": pa.array([True, None]),
    "list": pa.array([[Decimal("1.25")], None], pa.list_(pa.decimal128(9, 2))),
    "vector": pa.array([[0.5, 1.0], None], pa.list_(pa.float32(), 2)),
}


@pytest.mark.parametrize("by", [1, 4, 8])
@pytest.mark.parametrize("verb", ["create", "append", "append many", "stream", "overwrite"])
def test_values_may_begin_anywhere_in_memory(
    lake: quire.Lake, monkeypatch: pytest.MonkeyPatch, by: int, verb: str
) -> None:
    if verb == "append many":
        monkeypatch.setattr(draft, "COPIED_BYTES", 0)
    given = pa.table({name: displaced(values, by) for name, values in TYPES.items()})
    with lake.transaction() as tx:
        if verb == "create":
            tx.create_table("t", given)
        else:
            tx.create_table("t", schema=given.schema)
            put = tx["t"].overwrite if verb == "overwrite" else tx["t"].append
            put(given.to_reader() if verb == "stream" else given)
    assert lake["t"].to_pylist() == given.to_pylist()


@pytest.mark.parametrize("name", ["decimal", "wide", "int64", "list"])
def test_an_arrow_file_of_any_type_is_read_back(lake: quire.Lake, tmp_path: Path, name: str) -> None:
    table = pa.table({"x": pa.array([True, None]), "v": TYPES[name]})
    path = tmp_path / "rows.arrow"
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    lake.create_table("t", pa.ipc.open_file(pa.memory_map(str(path))).read_all())
    with lake.transaction() as tx:
        tx["t"].append(pa.ipc.open_file(pa.memory_map(str(path))).read_all())
        tx["t"].append(pa.ipc.open_file(io.BytesIO(path.read_bytes())).read_all().slice(1))
    assert lake["t"].to_pylist() == [*table.to_pylist() * 2, *table.slice(1).to_pylist()]


def test_a_panic_of_a_library_is_a_typed_error() -> None:
    import lance

    texts = pa.table({"v": pa.array([["a", "b"]], pa.list_(pa.string(), 2))})
    with pytest.raises(StorageError, match="gave up on data of t") as caught, session.translating("data of t"):
        lance.write_dataset(texts, "memory://panics")
    assert caught.value.fields["panic"]
    assert caught.value.fields["what"] == "data of t"


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string(), 2),
        pa.list_(pa.list_(pa.int64()), 2),
        pa.list_(pa.float32(), 0),
        pa.month_day_nano_interval(),
        pa.struct([("a", pa.list_(pa.binary(), 2))]),
    ],
    ids=str,
)
def test_types_that_tables_do_not_have_are_refused(lake: quire.Lake, kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match="'v'"):
        lake.create_table("t", schema=pa.schema([("v", kind)]))
    with pytest.raises(SchemaMismatch, match="'v'"):
        lake.create_table("t", pa.table({"v": pa.nulls(2, kind)}))


# -- vectors ----------------------------------------------------------------------------------------------------------

VECTOR = pa.list_(pa.float32(), 2)
EMBEDDED = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
EMBEDDINGS: dict[str, Callable[[], Any]] = {
    "2-D array": lambda: {"id": [0, 1, 2], "v": EMBEDDED},
    "2-D float32": lambda: {"id": [0, 1, 2], "v": EMBEDDED.astype(np.float32)},
    "columns first": lambda: {"id": [0, 1, 2], "v": np.asfortranarray(EMBEDDED)},
    "list of arrays": lambda: {"id": [0, 1, 2], "v": list(EMBEDDED)},
    "dicts of arrays": lambda: [{"id": n, "v": v} for n, v in enumerate(EMBEDDED)],
    "pandas": lambda: pd.DataFrame({"id": [0, 1, 2], "v": list(EMBEDDED)}),
    "polars": lambda: pl.DataFrame({"id": [0, 1, 2], "v": pl.Series(EMBEDDED, dtype=pl.Array(pl.Float64, 2))}),
    "iterator": lambda: ({"id": [n], "v": EMBEDDED[n : n + 1]} for n in range(3)),
}


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("known", [False, True], ids=["new table", "known column"])
def test_arrays_of_numpy_are_vectors_that_can_be_searched(lake: quire.Lake, name: str, known: bool) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", VECTOR)]) if known else None
    lake.create_table("t", EMBEDDINGS[name](), schema=schema)
    kind = lake["t"].schema.field("v").type
    assert kind.list_size == 2
    assert kind.value_type == (pa.float32() if known or name == "2-D float32" else pa.float64())
    assert [row["v"] for row in rows(lake)] == EMBEDDED.tolist()
    assert lake["t"].search([0.9, 0.1], column="v", limit=1).to_pylist()[0]["id"] == 1


def test_arrays_of_different_lengths_and_of_whole_numbers_stay_lists(lake: quire.Lake) -> None:
    lake.create_table("t", {"a": [np.array([0.5]), np.array([0.5, 1.0])], "b": [np.array([1, 2]), np.array([3, 4])]})
    assert lake["t"].schema.field("a").type == pa.list_(pa.float64())
    assert lake["t"].schema.field("b").type == pa.list_(pa.int64())
    assert lake["t"].to_pylist() == [{"a": [0.5], "b": [1, 2]}, {"a": [0.5, 1.0], "b": [3, 4]}]


def test_a_table_of_three_dimensions_is_vectors_of_vectors(lake: quire.Lake) -> None:
    lake.create_table("t", {"v": np.arange(12.0).reshape(2, 3, 2)})
    assert lake["t"].schema.field("v").type == pa.list_(pa.list_(pa.float64(), 2), 3)
    assert [row["v"] for row in lake["t"].to_pylist()] == np.arange(12.0).reshape(2, 3, 2).tolist()


WRONG = [float("nan"), float("inf"), float("-inf"), None]


@pytest.mark.parametrize(
    "put",
    [
        lambda tx, data: tx["t"].append(data),
        lambda tx, data: tx["t"].append(data.to_pylist()),
        lambda tx, data: tx["t"].append(data.to_reader()),
        lambda tx, data: tx["t"].append(data.to_pandas()),
        lambda tx, data: tx["t"].append(data.cast(pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float64()))]))),
        lambda tx, data: tx["t"].overwrite(data),
        lambda tx, data: tx["t"].overwrite(data, schema="replace"),
        lambda tx, data: tx["t"].upsert(data, on="id"),
        lambda tx, data: tx["t"].upsert(data.to_reader(), on="id"),
        lambda tx, data: tx.create_table("new", data),
        lambda tx, data: tx.create_table("new", data.to_reader()),
        lambda tx, data: tx.create_table("new", data, schema=data.schema),
    ],
)
def test_a_vector_that_is_not_finite_is_refused_with_column_and_row(lake: quire.Lake, put: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", VECTOR)])
    lake.create_table("t", [{"id": 0, "v": [0.0, 0.0]}], schema=schema)
    for wrong in WRONG:
        data = pa.table({"id": [1, 2, 3], "v": pa.array([[0.5, 1.0], None, [1.0, wrong]], VECTOR)}, schema=schema)
        with pytest.raises(SchemaMismatch, match="NaN or an infinity") as caught, lake.transaction() as tx:
            put(tx, data)
        assert (caught.value.fields["column"], caught.value.fields["row"]) == ("v", 2)
    assert rows(lake) == [{"id": 0, "v": [0.0, 0.0]}]


def test_vectors_within_other_values_are_finite_too(lake: quire.Lake) -> None:
    kinds = {"struct": pa.struct([("v", VECTOR)]), "list": pa.list_(VECTOR), "map": pa.map_(pa.string(), VECTOR)}
    bad = {"struct": {"v": [1.0, np.nan]}, "list": [[0.0, 0.0], [np.nan, 0.0]], "map": [("k", [np.nan, 0.0])]}
    for name, kind in kinds.items():
        with pytest.raises(SchemaMismatch, match="NaN") as caught:
            lake.create_table(name, pa.table({"c": pa.array([None, bad[name]], kind)}))
        assert (caught.value.fields["column"], caught.value.fields["row"]) == ("c", 1)


def test_update_and_alter_column_make_no_vector_that_is_not_finite(lake: quire.Lake) -> None:
    lake.create_table("t", {"id": [1], "v": EMBEDDED[:1], "w": [[0.0, float("nan")]]})
    for change in (
        lambda t: t.update(values={"v": [0.0, float("nan")]}),
        lambda t: t.alter_column("w", type=VECTOR),
    ):
        with pytest.raises(SchemaMismatch, match="NaN"), lake.transaction() as tx:
            change(tx["t"])
    assert lake["t"].to_pylist()[0]["v"] == [0.0, 1.0]


@pytest.mark.parametrize("query", [[0.0, float("nan")], [float("inf"), 0.0], [1e300, 0.0]])
def test_a_search_for_a_vector_that_is_not_finite_is_refused(lake: quire.Lake, query: list[float]) -> None:
    lake.create_table("t", {"id": [0, 1, 2], "v": EMBEDDED})
    with pytest.raises(InvalidInput, match="NaN") as caught:
        lake["t"].search(query, column="v")
    assert caught.value.fields["column"] == "v"


def test_large_finite_numbers_whose_sum_is_not_are_vectors(lake: quire.Lake) -> None:
    lake.create_table("t", {"v": np.full((2, 3), 3e38, np.float32)})
    assert lake["t"].count() == 2


# -- a law ------------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "small": (pa.int8(), st.integers(-128, 127)),
    "large": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "real": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "flag": (pa.bool_(), st.booleans()),
    "money": (pa.decimal128(12, 2), st.decimals(-(10**9), 10**9, places=2)),
    "day": (pa.date32(), st.dates()),
    "when": (pa.timestamp("us"), st.datetimes()),
    "lasted": (pa.duration("us"), st.timedeltas(dt.timedelta(-(10**6)), dt.timedelta(10**6))),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)),
    "struct": (pa.struct([("a", pa.int16()), ("b", pa.string())]), st.fixed_dictionaries(
        {"a": st.none() | st.integers(-(2**15), 2**15 - 1), "b": st.none() | st.just("x")})),
}  # fmt: skip
FORMS: list[Callable[[pa.Table], Any]] = [
    lambda t: t,
    lambda t: t.slice(0),
    lambda t: t.to_reader(max_chunksize=2),
    lambda t: t.to_pylist(),
    lambda t: {name: t[name].to_pylist() for name in t.schema.names},
    lambda t: iter([t.slice(0, 1).to_pylist(), t.slice(1)]),
    lambda t: t.to_pandas(types_mapper=pd.ArrowDtype),
    lambda t: pl.DataFrame(pl.from_arrow(t)),
]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    lake = quire.create(tmp_path_factory.mktemp("many") / "lake", backfill=False)
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in COLUMNS.items())])
    lake.create_table("t", schema=schema)
    return lake


@settings(deadline=None, max_examples=12 * MORE)
@given(data=st.data())
def test_random_rows_come_back_equal_from_every_form(many: quire.Lake, data: st.DataObject) -> None:
    row = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()})
    drawn = data.draw(st.lists(row, min_size=1, max_size=4))
    form = data.draw(st.sampled_from(FORMS))
    schema = many["t"].schema
    table = pa.Table.from_pylist([{"id": n, **values} for n, values in enumerate(drawn)], schema=schema)
    tx = many.transaction()
    tx["t"].overwrite(form(table))
    stored = tx["t"].to_arrow().sort_by("id")
    tx.discard()
    assert stored.cast(schema).to_pylist() == table.to_pylist()


@settings(deadline=None, max_examples=40 * MORE)
@given(values=hnp.arrays(np.dtype("float32"), (3, 4), elements=st.floats(width=32)))
def test_vectors_are_stored_exactly_when_they_are_finite(many: quire.Lake, values: Any) -> None:
    from quire.conversion.inputs import source
    from quire.conversion.source import finite

    read = source({"v": values}, pa.schema([("v", pa.list_(pa.float32(), 4))]))
    try:
        kept = finite(read, "t").table()["v"].to_pylist()
    except SchemaMismatch:
        assert not np.isfinite(values).all()
        return
    assert kept == values.tolist()
