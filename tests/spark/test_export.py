"""Tables of one commit as files, written by one process or by tasks."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet
import pytest

import quire
from quire.errors import AlreadyExists, InvalidInput, SchemaMismatch, StorageError, TableNotFound, Unsupported
from quire.lake import engines
from quire.lake.read import export as module
from quire.rowfiles import write as writers
from quire.spark.export import export
from quire.store import Store
from quire.testing.s3 import SeaweedFS
from quire.testing.tasks import PickledTasks


@pytest.fixture(params=["local", "tasks", pytest.param("spark", marks=pytest.mark.full)])
def engine(request: pytest.FixtureRequest) -> Any:
    made = {"local": lambda: "local", "tasks": PickledTasks, "spark": lambda: request.getfixturevalue("spark")}
    return made[request.param]()


@pytest.fixture
def tables(lake: quire.Lake) -> quire.Lake:
    filled(lake)
    return lake


def filled(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx.create_table("t", [{"id": i, "v": [float(i)] * 2} for i in range(10)], key="id")
        tx.create_table("node:X", schema=pa.schema([("id", pa.int64())]))
    for low in (10, 20):
        with lake.transaction() as tx:
            tx["t"].append([{"id": i, "v": None} for i in range(low, low + 10)])
    with lake.transaction() as tx:
        tx["t"].delete("id % 2 = 1")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_files_hold_the_rows_of_one_commit(
    tables: quire.Lake, tmp_path: Path, engine: Any, format: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_ROWS", 12)
    snapshot = tables.snapshot()
    with tables.transaction() as tx:
        tx["t"].delete("true")
    out = tmp_path / "out"
    done = snapshot.export(out, format=format, engine=engine)
    assert {name: t.rows for name, t in done.tables.items()} == {"node:X": 0, "t": 15}
    assert (done.rows, done.commit, done.folder) == (15, snapshot.commit, str(out))
    found = ds.dataset(out / "t", format=format).to_table().sort_by("id")
    assert found.equals(snapshot["t"].to_arrow().sort_by("id"))
    assert sorted(p.name for p in (out / "t").iterdir()) == [f"part-0000{n}-00.{format}" for n in range(2)]
    assert ds.dataset(out / "node%3AX", format=format).to_table().schema.names == ["id"]
    listed = json.loads((out / "_export.json").read_text())
    assert (listed["commit"], listed["tables"]["t"]["rows"], listed["tables"]["t"]["key"]) == (
        snapshot.commit,
        15,
        ["id"],
    )
    for file in listed["tables"]["t"]["files"]:
        assert (out / file["file"]).stat().st_size == file["bytes"]
    assert done.tables["t"].bytes == sum((out / name).stat().st_size for name in done.tables["t"].files)


def test_text(tables: quire.Lake, tmp_path: Path, engine: Any) -> None:
    wanted = tables["t"].to_pylist()
    tables.export(tmp_path / "csv", tables=["t"], format="csv", engine=engine)
    tables.export(tmp_path / "jsonl", tables=["t"], format="jsonl", engine=engine)
    lines = [json.loads(x) for p in sorted((tmp_path / "jsonl/t").iterdir()) for x in p.read_text().splitlines()]
    assert lines == wanted
    [file] = (tmp_path / "csv/t").iterdir()
    assert pyarrow.csv.read_csv(file)["id"].to_pylist() == [row["id"] for row in wanted]
    assert '"[0.0,0.0]"' in file.read_text()


def test_large_parts_become_several_files(
    tables: quire.Lake, tmp_path: Path, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 1)
    done = tables.export(tmp_path / "out", tables=["t"], engine=engine)
    assert done.rows == 15
    small = list(writers.files(tables["t"].scan(batch_size=4), tables["t"].schema, "parquet", 1))
    assert [rows for _, rows in small] == [15]  # one row group is not cut
    monkeypatch.setattr(writers, "GROUP_ROWS", 1)
    small = list(writers.files(tables["t"].scan(batch_size=4), tables["t"].schema, "parquet", 1))
    assert sum(rows for _, rows in small) == 15
    assert len(small) > 3
    assert [r for data, _ in small for r in pa.parquet.read_table(pa.BufferReader(data)).to_pylist()] == tables[
        "t"
    ].to_pylist()


def test_nothing_is_written_over(tables: quire.Lake, tmp_path: Path, engine: Any) -> None:
    assert export(tables, str(tmp_path / "out"), tables=["t"], engine=engine) == {"t": 15}
    with pytest.raises(AlreadyExists, match="not empty"):
        export(tables, str(tmp_path / "out"), tables=["t"], engine=engine)
    (tmp_path / "out/_export.json").unlink()
    with pytest.raises(AlreadyExists, match="may have been interrupted"):
        tables.export(tmp_path / "out", engine=engine)
    with pytest.raises(TableNotFound):
        tables.export(tmp_path / "other", tables=["nix"], engine=engine)
    with pytest.raises(InvalidInput):
        tables.export(tmp_path / "other", format="xls", engine=engine)
    assert not (tmp_path / "other").exists()


def test_an_export_that_fails_is_not_whole(tables: quire.Lake, tmp_path: Path, engine: Any) -> None:
    for file in (Path(tables.uri) / tables["t"].describe()["location"] / "data").iterdir():
        file.write_bytes(b"")
    fresh = quire.open(tables.uri, read_only=True)
    with pytest.raises(StorageError):
        fresh.export(tmp_path / "out", engine=engine)
    assert not (tmp_path / "out/_export.json").exists()


def test_blobs_are_bytes(tmp_path: Path, engine: Any) -> None:
    graph = quire.Graph(quire.create(tmp_path / "lake"))
    graph.apply_schema("node File { name: String @key  data: Blob? }")
    graph.mutate('query m($b: Blob) { insert File { name: "a", data: $b } insert File { name: "b" } }', b=b"hello")
    [name] = [t for t in graph.lake.tables() if t.endswith("File")]
    graph.lake.export(tmp_path / "out", tables=[name], engine=engine)
    found = ds.dataset(tmp_path / "out" / name.replace(":", "%3A"), format="parquet").to_table()
    assert sorted(zip(found["name"].to_pylist(), found["data"].to_pylist(), strict=True)) == [
        ("a", b"hello"),
        ("b", None),
    ]


def test_auto_and_memory(tables: quire.Lake, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    answers = module.answers
    monkeypatch.setattr(module, "answers", lambda s, p: used.append(len(p)) or answers(s, p))
    tables.export(tmp_path / "a", engine="auto")
    assert used == []
    monkeypatch.setattr(engines, "AUTO_BYTES", 1)
    tables.export(tmp_path / "b", engine="auto")
    assert used == [2]
    with pytest.raises(Unsupported, match="other processes cannot write to it"):
        tables.export("memory://export", engine=spark)
    memory = quire.create("memory://export-of-memory")
    memory.create_table("t", [{"id": 1}])
    assert memory.export(tmp_path / "c").rows == 1
    with pytest.raises(Unsupported, match="other processes cannot read it"):
        memory.export(tmp_path / "d", engine=spark)


# -- a bucket ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
def test_a_bucket_is_written_with_the_options_of_the_lake(s3: SeaweedFS, engine: Any, tmp_path: Path) -> None:
    place = s3.uri(f"export-{uuid.uuid4().hex}")
    lake = quire.create(f"{place}/lake", storage_options=s3.options)
    filled(lake)
    target = f"{place}/export"
    lake.export(target, engine=engine)
    store = Store.open(target, s3.options)
    assert json.loads(store.get("_export.json"))["tables"]["t"]["rows"] == 15
    table = pa.parquet.read_table(pa.BufferReader(store.get("t/part-00000-00.parquet")))
    assert table.to_pylist() == lake["t"].to_pylist()
    here = quire.create(tmp_path / "here")
    filled(here)
    other = f"{place}/other"
    here.export(other, tables=["t"], engine=engine, storage_options=s3.options)
    assert json.loads(Store.open(other, s3.options).get("_export.json"))["tables"]["t"]["rows"] == 15


def test_upkeep_in_a_bucket(s3: SeaweedFS, spark: Any) -> None:
    lake = quire.create(s3.uri("export-upkeep"), storage_options=s3.options)
    filled(lake)
    with lake.transaction() as tx:
        tx["t"].create_index("id", engine=spark)
    done = lake.optimize(engine=spark, deleted=0.0)
    assert done["t"].outcome == "optimized"
    assert [r["id"] for r in lake["t"].scan(filter="id between 7 and 13").to_pylist()] == [8, 10, 12]
    assert lake.diff("1.0", engine=spark).to_dict() == lake.diff("1.0").to_dict()
    found = lake.verify(deep=True, engine=spark)
    assert found.ok
    assert found.to_dict() == lake.verify(deep=True).to_dict()


def test_delta_tables(tables: quire.Lake, tmp_path: Path, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table of the commit is a plain Delta table, for its own clients and to be registered again."""
    from deltalake import DeltaTable, write_deltalake

    monkeypatch.setattr(module, "PART_ROWS", 12)
    with tables.transaction() as tx:
        tx.create_table("typed", schema=pa.schema([("n", pa.uint64()), ("at", pa.timestamp("us"))]))
        tx["typed"].append([{"n": 1 << 63, "at": dt.datetime(2026, 11, 1, 10)}])
    out = tmp_path / "out"
    done = tables.export(out, format="delta", engine=engine)
    assert {name: table.rows for name, table in done.tables.items()} == {"node:X": 0, "t": 15, "typed": 1}
    assert sorted(done.tables["t"].files) == ["t/part-00000-00.parquet", "t/part-00001-00.parquet"]
    plain = DeltaTable(out / "t")
    assert plain.to_pyarrow_table(filters=[("id", ">", 20)]).num_rows == 4
    assert len(plain.file_uris(partition_filters=None)) == 2
    write_deltalake(out / "t", pa.table({"id": [99], "v": pa.array([None], pa.list_(pa.float64()))}), mode="append")
    assert DeltaTable(out / done.tables["node:X"].folder).to_pyarrow_table().num_rows == 0
    with tables.transaction() as tx:
        tx.register_table("again", str(out / "t"), key="id", format="delta")
        tx.register_table("typed_again", str(out / "typed"), format="delta")
    now = tables.snapshot()
    assert sorted(row["id"] for row in now["again"].to_pylist()) == [*range(0, 30, 2), 99]
    assert now["typed_again"].to_arrow() == now["typed"].to_arrow()


def test_a_column_that_delta_cannot_hold_is_told_before_anything_is_written(lake: quire.Lake, tmp_path: Path) -> None:
    with lake.transaction() as tx:
        tx.create_table("t", {"id": pa.array([1], pa.duration("us"))})
    with pytest.raises(SchemaMismatch, match="'id'"):
        lake.export(tmp_path / "out", format="delta")
    assert not list((tmp_path / "out").glob("*"))
