"""A table may have columns of any type beside its key: rows are found by key all the same."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire

TIME = dt.time(1, 2, 3, 4)
WHEN = dt.datetime(2026, 1, 2, 3, 4, 5)
EVERY: dict[str, tuple[pa.DataType, Any]] = {
    "u8": (pa.uint8(), 1),
    "u64": (pa.uint64(), 2**64 - 1),
    "half": (pa.float16(), 1.5),
    "large_text": (pa.large_string(), "x"),
    "large_bytes": (pa.large_binary(), b"x"),
    "four": (pa.binary(4), b"abcd"),
    "day": (pa.date32(), dt.date(2026, 1, 2)),
    "day64": (pa.date64(), dt.date(2026, 1, 2)),
    "time32": (pa.time32("s"), dt.time(1, 2, 3)),
    "time64": (pa.time64("us"), TIME),
    "time64ns": (pa.time64("ns"), TIME),
    "when": (pa.timestamp("us"), WHEN),
    "when_ns": (pa.timestamp("ns", "UTC"), WHEN),
    "lasted": (pa.duration("us"), dt.timedelta(seconds=5)),
    "money": (pa.decimal128(10, 2), Decimal("1.25")),
    "wide": (pa.decimal256(60, 2), Decimal("1.25")),
    "list": (pa.list_(pa.int64()), [1, 2]),
    "large_list": (pa.large_list(pa.int64()), [1, 2]),
    "vector": (pa.list_(pa.float32(), 2), [1.0, 2.0]),
    "bytes_list": (pa.list_(pa.uint8()), [1, 2]),
    "times": (pa.list_(pa.time64("us")), [TIME]),
    "struct": (pa.struct([("a", pa.uint64()), ("b", pa.time64("us"))]), {"a": 1, "b": TIME}),
    "structs": (pa.list_(pa.struct([("a", pa.decimal256(60, 0))])), [{"a": Decimal(1)}]),
}
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int64(), [1, 2, 3]),
    "text": (pa.string(), ["a'", "b", "c"]),
    "u64": (pa.uint64(), [1, 2**64 - 1, 3]),
    "day": (pa.date32(), [dt.date(2026, 1, n) for n in (1, 2, 3)]),
    "time": (pa.time64("us"), [dt.time(n) for n in (1, 2, 3)]),
    "wide": (pa.decimal256(60, 2), [Decimal(n) for n in (1, 2, 3)]),
}


def rows(kind: pa.DataType, keys: list[Any], n: int, others: dict[str, tuple[pa.DataType, Any]] = EVERY) -> pa.Table:
    columns = {name: pa.array([value] * len(keys), other) for name, (other, value) in others.items()}
    return pa.table({"id": pa.array(keys, kind), "n": pa.array([n] * len(keys), pa.int64()), **columns})


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    return quire.create(tmp_path / "lake")


@pytest.mark.parametrize("name", KEYS)
def test_rows_are_found_by_key_whatever_lies_beside_it(lake: quire.Lake, name: str) -> None:
    kind, (one, two, three) = KEYS[name]
    lake.create_table("t", rows(kind, [one, two], 0), key="id")
    with lake.transaction() as tx:
        assert tx["t"].insert(rows(kind, [three], 1)) == 1
        assert tx["t"].upsert(rows(kind, [two], 2)) == {"inserted": 0, "updated": 1}
        assert tx["t"].delete("n = 0") == 1
    assert sorted((row["n"], row["id"]) for row in lake["t"].to_pylist()) == [(1, three), (2, two)]
    with pytest.raises(quire.errors.KeyConflict), lake.transaction() as tx:
        tx["t"].insert(rows(kind, [three], 3))


@pytest.mark.parametrize("name", EVERY)
def test_every_type_alone(lake: quire.Lake, name: str) -> None:
    mine = {name: EVERY[name]}
    lake.create_table("t", rows(pa.int64(), [1, 2], 0, mine), key="id")
    with lake.transaction() as tx:
        assert tx["t"].upsert(rows(pa.int64(), [2, 3], 1, mine)) == {"inserted": 1, "updated": 1}
    assert sorted((row["id"], row["n"]) for row in lake["t"].to_pylist()) == [(1, 0), (2, 1), (3, 1)]


def test_lists_fit_however_their_values_are_called(lake: quire.Lake, tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))
    given = pa.table({"c": pa.array([[{"x": 1, "y": "a"}], None], kind)})
    lake.create_table("t", schema=given.schema)
    pq.write_table(given, tmp_path / "t.parquet")
    read = pq.read_table(tmp_path / "t.parquet")
    assert str(read.schema.field("c").type) != str(kind)
    for data in (read, read.to_batches(), read.to_reader(), given):
        with lake.transaction() as tx:
            tx["t"].append(data)
    assert lake["t"].to_pylist() == given.to_pylist() * 4
