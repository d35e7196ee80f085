"""Differences between commits, found by the tasks of a session: the same rows as in one process."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
import quire.spark.diff
from quire.errors import ColumnNotFound, InvalidInput, TableNotFound, Unsupported
from quire.lake import engines

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("x", pa.float64()),
        ("at", pa.timestamp("us")),
        ("cost", pa.decimal128(20, 2)),
        ("v", pa.list_(pa.float32(), 2)),
        ("home", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
    ]
)
ODD = SCHEMA.append(pa.field("clock", pa.time64("us"))).append(pa.field("much", pa.decimal256(40, 2)))


def row(number: int, name: str | None = None) -> dict[str, Any]:
    return {
        "id": number,
        "name": name if name is not None else f"n{number}",
        "x": [0.0, -0.0, float("nan"), None, 1.5][number % 5],
        "at": dt.datetime(2026, 1, 1, 0, 0, number % 60),
        "clock": dt.time(1, 2, number % 60),
        "cost": Decimal(number) / 4,
        "much": Decimal(number) / 2,
        "v": [number, 1.0] if number % 3 else None,
        "home": {"city": f"c{number % 4}", "zip": None if number % 2 else number},
    }


def table(numbers: Any, schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist([row(n) for n in numbers], schema)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    made = quire.create(tmp_path_factory.mktemp("diff") / "lake")
    with made.transaction() as tx:
        tx.create_table("keyed", table(range(100)), key="id")
        tx.create_table("bag", table([*range(50), *range(10)], ODD))
        tx.create_table("pairs", pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "n": [1, 2, 3]}), key=["a", "b"])
        tx.create_table("same", table(range(5)))
        tx.create_table("gone", table(range(4)))
    for low in (100, 130):
        with made.transaction() as tx:
            tx["keyed"].append(table(range(low, low + 30)))
    made.tag("before")
    with made.transaction() as tx:
        tx["keyed"].upsert(pa.Table.from_pylist([row(n, "new") for n in range(20, 40)], SCHEMA))
        tx["keyed"].upsert(table(range(40, 45)))  # the same again: no difference
        tx["keyed"].delete("id between 60 and 69")
        tx["keyed"].append(table(range(200, 215)))
        tx["bag"].delete("id < 3")
        tx["bag"].append(table([1, 7, 7, 900], ODD))
        tx["pairs"].upsert([{"a": 1, "b": "y", "n": 20}, {"a": 3, "b": "z", "n": 4}])
        tx["pairs"].delete("a = 2")
        tx.drop_table("gone")
        tx.create_table("fresh", table(range(3)))
    with made.transaction() as tx:
        tx["keyed"].add_columns({"twice": "id * 2"})
        tx["keyed"].drop_columns("at")
    made.optimize()
    return made


def plain(rows: Any) -> list[str]:
    """Rows to compare: NaN equals itself, and no order."""
    return sorted(map(repr, (sorted(r.items()) for r in rows)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("groups", [1, 7])
def test_the_numbers_are_the_same(lake: quire.Lake, spark: Any, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quire.spark.diff, "GROUP_ROWS", 1_000_000 if groups == 1 else 40)
    monkeypatch.setattr(quire.spark.diff, "TASK_ROWS", 1_000_000 if groups == 1 else 50)
    here, there = lake.diff("before"), lake.diff("before", engine=spark)
    assert here.to_dict() == there.to_dict()
    assert {t.name: (t.added, t.changed, t.removed) for t in there} == {
        "bag": (3, 0, 5),
        "fresh": (3, 0, 0),
        "gone": (0, 0, 4),
        "keyed": (15, 20, 10),
        "pairs": (1, 1, 1),
    }
    assert repr(here) == repr(there)
    back = lake.diff("HEAD", "before", engine=spark)
    assert back["keyed"].to_dict() == lake.diff("HEAD", "before")["keyed"].to_dict()


@pytest.mark.full
def test_all_tables_are_counted_by_one_job(lake: quire.Lake, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    counts = quire.spark.diff.counts
    monkeypatch.setattr(quire.spark.diff, "counts", lambda s, pairs: calls.append(len(pairs)) or counts(s, pairs))
    found = lake.diff("before", engine=spark)
    assert calls == []
    found.to_dict()
    assert calls == [3]
    monkeypatch.setattr("quire.lake.read.diff.compare", None)  # nothing is compared by the driver
    assert lake.diff("before", tables=["keyed"], engine=spark)["keyed"].changed == 20


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["added", "changed_before", "changed_after", "removed"])
def test_frames_hold_the_rows(lake: quire.Lake, spark: Any, what: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quire.spark.diff, "GROUP_ROWS", 5)
    found = lake.diff("before")
    wanted = getattr(found["pairs"].rows, what)
    got = found["pairs"].frame(spark, what)
    assert plain(r.asDict() for r in got.collect()) == plain(wanted.to_pylist())
    assert got.columns == wanted.schema.names


@pytest.mark.full
def test_a_frame_of_what_is_new_altogether(tmp_path: Path, spark: Any) -> None:
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", [{"id": 1, "v": None}, {"id": 2, "v": "x"}])
    new, old = lake.diff("0.0")["t"], lake.diff("1.0", "0.0")["t"]
    assert plain(r.asDict() for r in new.frame(spark, "added").collect()) == plain(lake["t"].to_pylist())
    assert new.frame(spark, "removed").count() == 0
    assert plain(r.asDict() for r in old.frame(spark, "removed").collect()) == plain(lake["t"].to_pylist())


def test_types_that_spark_does_not_have_are_compared(lake: quire.Lake, spark: Any) -> None:
    for name in ("bag", "keyed"):
        some = lake.diff("before", engine=spark)[name].some(1000)
        rows = lake.diff("before")[name].rows
        for what in ("added", "removed", "changed_before", "changed_after"):
            assert getattr(some, what).schema == getattr(rows, what).schema
            assert plain(getattr(some, what).to_pylist()) == plain(getattr(rows, what).to_pylist())
        assert some.changed_before["id"].to_pylist() == some.changed_after["id"].to_pylist()
    few = lake.diff("before", engine=spark)["keyed"].some(2)
    assert few.counts == (2, 2, 2)
    with pytest.raises(Unsupported, match="much"):
        lake.diff("before")["bag"].frame(spark, "added")
    found = lake.diff("before")["bag"].frame(spark, "added", columns=["name", "id"])
    assert sorted(tuple(row) for row in found.collect()) == [("n7", 7), ("n7", 7), ("n900", 900)]
    with pytest.raises(ColumnNotFound):
        lake.diff("before")["bag"].frame(spark, "added", columns=["nix"])


@pytest.mark.full
def test_a_change_and_its_undoing_is_no_difference(tmp_path: Path, spark: Any) -> None:
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", table(range(10)), key="id")
    with lake.transaction() as tx:
        tx["t"].delete("id < 5")
    with lake.transaction() as tx:
        tx["t"].append(table(range(5)))
    lake.optimize()
    here, there = lake.diff("1.0"), lake.diff("1.0", engine=spark)
    assert here.to_dict() == there.to_dict()
    assert [(t.added, t.changed, t.removed) for t in there] == [(0, 0, 0)]


def test_refusals(lake: quire.Lake, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableNotFound):
        lake.diff("before", tables=["nix"], engine=spark)
    with pytest.raises(InvalidInput):
        lake.diff("before", engine="nix")
    with pytest.raises(InvalidInput, match="'changed_before'.* not 'changed'"):
        lake.diff("before")["pairs"].frame(spark, "changed")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="Spark session"):
        lake.diff("before")["pairs"].frame("local", "added")
    assert lake.diff("before", engine="auto")["keyed"].counted is None
    monkeypatch.setattr(engines, "AUTO_BYTES", 1)
    assert lake.diff("before", engine="auto")["keyed"].counted is not None
