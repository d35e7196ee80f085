"""Columns that are kept in memory are those of the pinned commit, whatever happened to the table before and after."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire.lake.read.hot_columns import HotColumns

COLUMNS = ["id", "n"]
SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("v", pa.list_(pa.float32(), 2))])


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {"id": [f"r{n:05}" for n in numbers], "n": list(numbers), "v": [[float(n), 0.0] for n in numbers]},
        schema=SCHEMA,
    )


@pytest.fixture(params=["memory", "disk"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> quire.Lake:
    uri = f"memory://hot-{random.random()}" if request.param == "memory" else str(tmp_path / "lake")
    made = quire.create(uri, backfill=False)
    with made.transaction("made") as tx:
        tx.create_table("t", schema=SCHEMA, key=["id"])
        tx["t"].append(rows(0, 500))
    return made


def in_order(table: pa.Table | None) -> list[Any]:
    assert table is not None
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def stored(snapshot: quire.Snapshot) -> list[Any]:
    return in_order(snapshot["t"].scan(columns=COLUMNS).to_arrow())


def test_a_column_is_kept_when_it_is_asked_for_again(lake: quire.Lake) -> None:
    hot, at = HotColumns(), lake.snapshot()
    assert hot.read(at["t"], COLUMNS) is None
    assert in_order(hot.read(at["t"], COLUMNS)) == stored(at)
    assert hot.read(at["t"], ["v"]) is None
    assert hot.read(at["t"], ["v"]) is None  # vectors are too large


def test_every_commit_has_its_own_rows(lake: quire.Lake) -> None:
    number, hot, seen = random.Random(20), HotColumns(), []
    hot.wants(lake.snapshot()["t"])
    count = 500
    for turn in range(14):
        with lake.transaction("change") as tx:
            match turn % 4:
                case 0:
                    tx["t"].append(rows(count, 40))
                    count += 40
                case 1:
                    tx["t"].delete(f"n % 37 = {number.randrange(37)}")
                case 2:
                    tx["t"].update({"n": "n + 1000"}, where=f"n % 41 = {number.randrange(41)}")
                case 3:
                    tx["t"].upsert(rows(number.randrange(count), 30))
        if turn == 9:
            lake.optimize()
        seen.append(lake.snapshot())
        assert in_order(hot.read(seen[-1]["t"], COLUMNS)) == stored(seen[-1])
    for at in (seen[2], seen[-1], seen[7], seen[0]):
        assert in_order(hot.read(at["t"], COLUMNS[:1])) == [{"id": r["id"]} for r in stored(at)]
        assert in_order(hot.read(at["t"], COLUMNS)) == stored(at)


def test_an_append_reads_its_own_rows(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from quire.lake.read import hot_columns

    hot, read = HotColumns(), []
    hot.wants(lake.snapshot()["t"])
    assert hot.read(lake.snapshot()["t"], COLUMNS) is not None
    with lake.transaction("more") as tx:
        tx["t"].append(rows(500, 7))
    real = hot_columns._read

    def counting(view: Any, numbers: Any, columns: Any, parts: dict[int, int]) -> Any:
        read.append(sum(parts[n] for n in numbers))
        return real(view, numbers, columns, parts)

    monkeypatch.setattr(hot_columns, "_read", counting)
    found = hot.read(lake.snapshot()["t"], COLUMNS)
    assert found is not None
    assert found.num_rows == 507
    assert read == [7]


def test_what_is_kept_is_bounded(lake: quire.Lake) -> None:
    at = lake.snapshot()["t"]
    none, one = HotColumns(most=10), HotColumns(most=6_000)
    for hot in (none, one):
        hot.wants(at)
    assert none.read(at, COLUMNS) is None
    assert one.read(at, ["n"]) is not None
    assert one.read(at, COLUMNS) is None
    assert sum(held.bytes for held in one._held.values()) <= 6_000
