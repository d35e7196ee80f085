"""Plain Delta tables in a lake: registered where they lie, followed, owned by the lake, and let go of again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import quire
import quire.delta


def rows(*ids: int, times: int = 10) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([times * i for i in ids], pa.int64())})


def content(table: Any) -> dict[int, int]:
    return {row["id"]: row["v"] for row in table.to_pylist()}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    uri = str(tmp_path / "plain")
    write_deltalake(uri, rows(1, 2, 3))
    write_deltalake(uri, rows(4), mode="append")
    return uri


@pytest.fixture
def lake(tmp_path: Path, folder: str) -> quire.Lake:
    lake = quire.create(str(tmp_path / "lake"), backfill=False)
    with lake.transaction("register") as tx:
        tx.register_table("orders", folder, key="id", format="delta")
    return lake


def test_a_registered_table_is_read_where_it_lies(lake: quire.Lake, folder: str) -> None:
    first = lake.snapshot()
    assert content(first["orders"]) == {1: 10, 2: 20, 3: 30, 4: 40}
    write_deltalake(folder, rows(5), mode="append")
    DeltaTable(folder).delete("id = 1")
    assert content(quire.open(lake.uri, external=[folder]).snapshot()["orders"]) == {1: 10, 2: 20, 3: 30, 4: 40}
    assert lake.adopt("orders").ops == ("append", "delete")
    assert content(lake.snapshot()["orders"]) == {2: 20, 3: 30, 4: 40, 5: 50}
    assert content(first["orders"]) == {1: 10, 2: 20, 3: 30, 4: 40}
    assert lake.verify(deep=True).ok
    with pytest.raises(quire.errors.Refused, match="plain Delta table"), lake.transaction("no") as tx:
        tx["orders"].append(rows(9))


def test_registering_reads_checkpoints_and_tables_without_their_first_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "plain")
    for i in range(4):
        write_deltalake(uri, rows(i), mode="append", partition_by=["id"])
    DeltaTable(uri).create_checkpoint()
    write_deltalake(uri, rows(7), mode="append")
    for version in range(3):
        (tmp_path / "plain" / "_delta_log" / f"{version:020d}.json").unlink()
    lake = quire.create(str(tmp_path / "lake"))
    with lake.transaction("register") as tx:
        tx.register_table("orders", uri, format="delta")
    assert content(lake.snapshot()["orders"]) == {0: 0, 1: 10, 2: 20, 3: 30, 7: 70}
    quire.delta.convert(lake, "orders")
    with lake.transaction("more") as tx:
        tx["orders"].append(rows(8))
    lake.backfill()
    assert quire.open(lake.uri, external=[uri])["orders"].count() == 6


@pytest.mark.parametrize("dialect", ["catalogManaged", "managedCommit"])
def test_there_and_back(lake: quire.Lake, folder: str, dialect: str) -> None:
    stale = DeltaTable(folder)
    done = quire.delta.convert(lake, "orders", dialect)
    assert (done.kind, done.version) == (dialect, 2)
    assert quire.delta.convert(lake, "orders", dialect).commit is None
    for table in (stale, folder):
        with pytest.raises(Exception, match="Managed|managedCommit|rotocol|catalog"):
            write_deltalake(table, rows(9), mode="append")
    with lake.transaction("change") as tx:
        tx["orders"].delete("id = 2")
        tx["orders"].upsert(rows(1, 6, times=3), on="id")
    expected = {1: 3, 3: 30, 4: 40, 6: 18}
    assert content(lake.snapshot()["orders"]) == expected
    owner = quire.delta.CommitOwner(lake).table("orders")
    assert owner.latest_version() == 3
    back = quire.delta.convert(lake, "orders", "plain")
    assert (back.kind, back.version) == ("plain", 4)
    assert content(DeltaTable(folder).to_pyarrow_table()) == expected == content(lake.snapshot()["orders"])
    write_deltalake(folder, rows(7), mode="append")
    lake.adopt("orders")
    assert content(lake.snapshot()["orders"]) == {**expected, 7: 70}
    again = quire.delta.convert(lake, "orders", "managedCommit")
    assert again.version == 6
    with lake.transaction("on") as tx:
        tx["orders"].append(rows(8))
    lake.backfill()
    assert content(DeltaTable(folder).to_pyarrow_table()) == {**expected, 7: 70, 8: 80}
    assert lake.verify(deep=True).ok


def test_what_clients_wrote_since_is_taken_along(lake: quire.Lake, folder: str) -> None:
    write_deltalake(folder, rows(5), mode="append")
    assert quire.delta.convert(lake, "orders").version == 3
    assert content(lake.snapshot()["orders"]) == {1: 10, 2: 20, 3: 30, 4: 40, 5: 50}


def test_rows_that_break_the_key_prevent_it(lake: quire.Lake, folder: str) -> None:
    write_deltalake(folder, rows(4), mode="append")
    with pytest.raises(quire.errors.QuireError, match="id"):
        quire.delta.convert(lake, "orders")
    write_deltalake(folder, rows(6), mode="append")
    DeltaTable(folder).delete("id = 4")
    quire.delta.convert(lake, "orders")
    assert content(lake.snapshot()["orders"]) == {1: 10, 2: 20, 3: 30, 6: 60}


def test_a_client_that_is_faster_wins_and_the_promise_is_forgotten(
    lake: quire.Lake, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client writes the very version that was promised, between the promise and the owner's own write."""
    from quire.formats.delta.staging import conversion

    keep, raced = conversion.keep, []

    def late(*args: Any) -> Any:
        if not raced:
            raced.append(1)
            write_deltalake(folder, rows(5), mode="append")
        return keep(*args)

    monkeypatch.setattr(conversion, "keep", late)
    done = quire.delta.convert(lake, "orders")
    assert done.version == 3
    assert content(lake.snapshot()["orders"]) == {1: 10, 2: 20, 3: 30, 4: 40, 5: 50}
    assert not (Path(folder) / "_quire" / "promise.json").exists()


def test_two_that_convert_at_once(lake: quire.Lake, folder: str) -> None:
    others = [quire.open(lake.uri, external=[folder], backfill=False) for _ in range(3)]
    found: list[Any] = []

    def one(handle: quire.Lake, to: str) -> None:
        try:
            found.append(quire.delta.convert(handle, "orders", to).kind)
        except quire.QuireError as error:
            found.append(error)

    kinds = ("catalogManaged", "managedCommit", "catalogManaged")
    threads = [threading.Thread(target=one, args=given) for given in zip(others, kinds, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    now = lake._core.format("delta").dialect(_pin(lake))  # type: ignore[attr-defined]
    assert now in found
    assert all(f == now or isinstance(f, quire.QuireError) for f in found)
    with lake.transaction("on") as tx:
        tx["orders"].append(rows(9))
    lake.backfill()
    assert lake.verify(deep=True).ok


def _pin(lake: quire.Lake) -> Any:
    lake.refresh()
    entry = lake._live.state.by_name("orders")
    assert entry is not None
    return entry.pin


@pytest.mark.parametrize("dialect", ["catalogManaged", "managedCommit"])
def test_files_of_other_clients_are_told_of_as_those_wrote_them(tmp_path: Path, dialect: Any) -> None:
    """Clients tell files apart by the text of their paths, which each escapes in its own way."""
    uri = str(tmp_path / "plain")
    given = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["Mon", "a b=ü/%", "Mon"]})
    write_deltalake(uri, given, partition_by=["day"])
    lake = quire.create(str(tmp_path / "lake"), backfill=False)
    with lake.transaction("register") as tx:
        tx.register_table("visits", uri, key="id", format="delta")
    quire.delta.convert(lake, "visits", dialect)
    with lake.transaction("one of its file, and all of another") as tx:
        tx["visits"].delete("id < 3")
    lake.backfill()
    quire.delta.convert(lake, "visits", "plain")
    assert DeltaTable(uri).to_pyarrow_table().to_pylist() == [{"id": 3, "day": "Mon"}]
    DeltaTable(uri).create_checkpoint()
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 1
