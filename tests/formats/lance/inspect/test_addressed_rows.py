"""What changed is read at its addresses: the cost follows the change, and the rows are those of a scan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import quire
from quire.formats.lance.inspect.addressed_rows import SHARE, deleted, rows_at

CHANGED = 50


def read_by(work: Any) -> tuple[int, Any]:
    before = lance.bytes_read_counter()
    found = work()
    return lance.bytes_read_counter() - before, found


def filled(folder: Path, rows: int, *, key: bool, stable: bool) -> quire.Lake:
    lake = quire.create(folder, backfill=False)
    text = pa.array(np.arange(rows)).cast(pa.string())
    with lake.transaction() as tx:
        ids = pa.array(np.arange(rows))
        table = pa.table({"id": ids, "text": text, "x": pa.array(np.random.default_rng(1).random(rows))})
        tx.create_table("t", table, key="id" if key else None, stable_row_ids=stable)
    return lake


def change(lake: quire.Lake, rows: int) -> None:
    """The same number of rows, spread over the table, whatever its size."""
    step = rows // CHANGED
    with lake.transaction() as tx:
        tx["t"].upsert([{"id": n * step, "text": "new", "x": 0.5} for n in range(CHANGED)], on="id")


@pytest.mark.parametrize(("key", "stable"), [(True, False), (False, True)])
def test_the_same_changed_rows_cost_the_same_in_a_table_a_hundred_times_as_large(
    tmp_path: Path, key: bool, stable: bool
) -> None:
    costs = []
    for rows in (10_000, 1_000_000):
        lake = filled(tmp_path / str(rows), rows, key=key, stable=stable)
        change(lake, rows)
        fresh = quire.open(lake.uri, read_only=True)
        cost, found = read_by(lambda: fresh.diff("1.0")["t"].rows)  # noqa: B023 - it is called at once
        counts = (CHANGED, 0, CHANGED) if not key else (0, CHANGED, 0)
        assert found.counts == counts
        gone = found.changed_before if key else found.removed
        assert sorted(gone.column("id").to_pylist()) == [n * (rows // CHANGED) for n in range(CHANGED)]
        costs.append(cost)
    small, large = costs
    whole = lake["t"].bytes
    assert large < 5 * small, "the cost follows the change"
    assert large < whole / 10, "and is far from the whole table"


def test_a_revert_reads_no_more_than_what_it_takes_back(tmp_path: Path) -> None:
    rows = 1_000_000
    lake = filled(tmp_path / "lake", rows, key=False, stable=False)
    with lake.transaction() as tx:
        tx["t"].delete(f"id % {rows // CHANGED} = 0")
    with lake.transaction() as tx:
        tx["t"].append([{"id": -1, "text": "later", "x": 0.0}])
    fresh = quire.open(lake.uri, backfill=False)
    cost, _ = read_by(lambda: fresh.revert("2.0"))
    assert fresh["t"].count() == rows + 1
    assert fresh["t"].count(f"id % {rows // CHANGED} = 0") == CHANGED
    assert cost < fresh["t"].bytes / 10


# -- the rows are those of a scan --------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def many(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[quire.Lake]:
    """A table of every kind of column, some of whose rows are deleted."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("vector", pa.list_(pa.float32(), 4)),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("at", pa.struct([pa.field("x", pa.float64()), pa.field("y", pa.string())])),
            pa.field("price", pa.decimal128(12, 2)),
            pa.field("flag", pa.bool_()),
        ]
    )
    rows = [
        {
            "id": n,
            "vector": None if n % 7 == 0 else [n, n + 1, n + 2, n + 3],
            "tags": None if n % 5 == 0 else [f"t{n}"] * (n % 3),
            "at": {"x": float(n), "y": None if n % 2 else "y"},
            "price": None,
            "flag": n % 2 == 0,
        }
        for n in range(400)
    ]
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        with lake.transaction() as tx:
            tx.create_table("t", pa.Table.from_pylist(rows, schema), key="id", stable_row_ids=request.param)
        with lake.transaction() as tx:
            tx["t"].delete("id % 11 = 3")
        yield lake


def by_id(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: row["id"])


def test_few_rows_and_many_are_the_same_rows(many: quire.Lake) -> None:
    before = {row["id"]: row for row in many["t"].to_pylist()}
    few, lots = "id in (0, 5, 35, 200, 398)", "id % 2 = 1"
    for where, count in ((few, 5), (lots, len([n for n in before if n % 2 and n not in (5, 35)]))):
        with many.transaction() as tx:
            assert tx["t"].delete(where) == count
        found = many.diff("2.0" if where == few else "3.0")["t"].rows
        assert by_id(found.removed) == [before[n] for n in sorted(found.removed.column("id").to_pylist())]
        assert found.counts == (0, 0, count)


@pytest.mark.parametrize("stable", [False, True])
def test_blobs_of_few_rows_come_with_their_bytes(tmp_path: Path, stable: bool) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    rows = [{"id": n, "photo": None if n % 3 == 0 else bytes([n]) * n} for n in range(100)]
    with lake.transaction() as tx:
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), lance.blob_field("photo")])
        tx.create_table("t", schema=schema, key="id", stable_row_ids=stable).append(rows)
    with lake.transaction() as tx:
        tx["t"].delete("id in (1, 2)")
    with lake.transaction() as tx:
        tx["t"].delete("id in (0, 50, 98)")
    gone = lake.diff("2.0")["t"].rows.removed
    photos = dict(zip(gone.column("id").to_pylist(), gone.column("photo").to_pylist(), strict=True))
    assert {id: photo and photo["data"] for id, photo in photos.items()} == {0: None, 50: b"2" * 50, 98: b"b" * 98}
    with lake.transaction() as tx:
        tx["t"].append([{"id": 500, "photo": b"later"}])
    lake.revert("3.0")
    assert lake["t"].count("id in (0, 50, 98)") == 3


def test_rows_come_back_the_other_way_round(many: quire.Lake) -> None:
    with many.transaction() as tx:
        tx["t"].delete("id in (1, 2)")
    forth, back = many.diff("2.0", "3.0")["t"].rows, many.diff("3.0", "2.0")["t"].rows
    assert by_id(forth.removed) == by_id(back.added)
    assert [row["id"] for row in by_id(back.added)] == [1, 2]


def test_a_column_that_came_or_went_in_between_is_no_change_of_rows(many: quire.Lake) -> None:
    with many.transaction() as tx:
        tx["t"].add_columns({"twice": "id * 2"})
        tx["t"].drop_columns("tags")
    with many.transaction() as tx:
        tx["t"].delete("id = 8")
    found = many.diff("2.0")["t"]
    assert (found.added, found.changed, found.removed) == (0, 0, 1)
    assert found.rows.removed.column("tags").to_pylist() == [["t8", "t8"]]


def test_a_compaction_in_between_is_no_change_of_rows(many: quire.Lake) -> None:
    with many.transaction() as tx:
        tx["t"].upsert([{"id": 8, "flag": False}, {"id": 1000, "flag": True}])
    many.optimize()
    with many.transaction() as tx:
        tx["t"].delete("id = 9")
    found = many.diff("2.0")["t"]
    assert (found.added, found.changed, found.removed) == (1, 1, 1)
    assert [row["flag"] for row in (*found.rows.changed_before.to_pylist(), *found.rows.changed_after.to_pylist())] == [
        True,
        False,
    ]


def test_places_and_columns_are_those_of_the_fragment(many: quire.Lake) -> None:
    handle: Any = many["t"]._view().handle  # type: ignore[attr-defined]
    [fragment] = handle.get_fragments()
    dead = deleted(handle, fragment)
    assert dead.tolist() == list(range(3, 400, 11))
    living = np.setdiff1d(np.arange(400, dtype=np.uint32), dead)
    for places in (living[:3], living[-3:], living[:: int(1 / SHARE) + 1], living[::2], living):
        for columns in (None, ["id"], ["vector", "id"]):
            batches = list(rows_at(handle, fragment, places, columns))
            found = [row["id"] for batch in batches for row in batch.to_pylist()]
            assert found == places.tolist()
            assert all(batch.schema.names == (columns or handle.schema.names) for batch in batches)
    assert list(rows_at(handle, fragment, living[:0], None)) == []
