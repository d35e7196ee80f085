"""Versions made beside the table: how Quire stages what the store gets at once, without a transaction file.

When one fails: let `LanceSession.is_remote` say no, so that Lance writes to the table itself. That costs a request
and two hops more, and nothing else.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, blob_array, blob_field
from lance.fragment import write_fragments

from .conftest import append, create, delete, ids, index, records, rows, stage


def copied(uri: str, to: Path, *names: str) -> LanceDataset:
    """A folder with the newest manifest and these files alone, opened."""
    base = lance.dataset(uri)
    for name in (f"_versions/{2**64 - 1 - base.version:020d}.manifest", *names):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"{uri}/{name}", to / name)
    return LanceDataset(str(to), base.version, serialized_manifest=base._ds.serialized_manifest())


def brought(scratch: Path, uri: str, *folders: str) -> None:
    for folder in folders:
        shutil.copytree(scratch / folder, Path(uri) / folder, dirs_exist_ok=True)


def test_a_version_made_on_the_manifest_alone_is_a_version_of_the_table(uri: str, tmp_path: Path) -> None:
    base = create(uri, 1, 2)
    scratch = copied(uri, tmp_path / "scratch")
    made = stage(scratch, append(scratch, 3), {"who": "a canary"})
    brought(tmp_path / "scratch", uri, "data", "_versions")
    found = lance.dataset(uri, version=made.version)
    assert records(found) == [{"id": n, "v": 10 * n} for n in (1, 2, 3)]
    told = found.read_transaction(made.version)
    assert told.transaction_properties == {"who": "a canary"}
    assert told.read_version == base.version
    assert type(told.operation) is LanceOperation.Append


def test_nobody_misses_the_file_of_its_transaction(uri: str, tmp_path: Path) -> None:
    create(uri, 1, 2)
    scratch = copied(uri, tmp_path / "scratch")
    made = stage(scratch, append(scratch, 3))
    brought(tmp_path / "scratch", uri, "data", "_versions")
    shutil.rmtree(Path(uri) / "_transactions")
    later = stage(lance.dataset(uri, version=made.version), append(lance.dataset(uri), 4))
    LanceDataset.commit(uri, LanceOperation.Restore(later.version))
    assert ids(lance.dataset(uri)) == [1, 2, 3, 4]
    assert ids(lance.write_dataset(rows(5), uri, mode="append")) == [1, 2, 3, 4, 5]
    merged = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merged.execute(rows(5, 6))
    assert ids(lance.dataset(uri)) == [1, 2, 3, 4, 5, 6]
    assert len(lance.dataset(uri).versions()) >= 3


def test_a_manifest_file_has_all_that_an_indexed_table_needs_for_an_append(uri: str, tmp_path: Path) -> None:
    """Its index files are not there."""
    indexed = create(uri, *range(10))
    LanceDataset.commit(uri, LanceOperation.CreateIndex([index(indexed, "id", "BTREE")], []), read_version=1)
    scratch = copied(uri, tmp_path / "scratch")
    made = stage(scratch, append(scratch, 10))
    brought(tmp_path / "scratch", uri, "data", "_versions")
    found = lance.dataset(uri, version=made.version)
    assert ids(found, filter="id >= 9") == [9, 10]
    assert "ScalarIndexQuery" in found.scanner(filter="id = 9").explain_plan()


@pytest.mark.parametrize("before", [[], [0]], ids=["the first rows", "more rows"])
def test_rows_are_deleted_with_the_vector_that_is_there_and_no_data(
    uri: str, tmp_path: Path, before: list[int]
) -> None:
    base = create(uri, *range(6))
    if before:
        LanceDataset.commit(uri, delete(base, 0, *before), read_version=1)
    now = lance.dataset(uri)
    vectors = [f.metadata.deletion_file.path(f.fragment_id) for f in now.get_fragments() if before]
    scratch = copied(uri, tmp_path / "scratch", *vectors)
    fragment = scratch.get_fragment(0)._fragment.delete_rows(np.asarray([3], np.uint32).data).metadata()
    made = stage(scratch, LanceOperation.Delete([fragment], [], "a canary"))
    assert not (tmp_path / "scratch" / "data").exists()
    brought(tmp_path / "scratch", uri, "_deletions", "_versions")
    assert ids(lance.dataset(uri, version=made.version)) == [n for n in range(6) if n not in (*before, 3)]


def test_a_new_table_is_the_same_without_its_transaction_file_at_another_place(tmp_path: Path) -> None:
    lance.write_dataset(rows(1, 2), str(tmp_path / "scratch"), transaction_properties={"who": "a canary"})
    for folder in ("data", "_versions"):
        shutil.copytree(tmp_path / "scratch" / folder, tmp_path / "t.lance" / folder)
    shutil.rmtree(tmp_path / "scratch")
    found = lance.dataset(str(tmp_path / "t.lance"))
    assert (found.version, ids(found)) == (1, [1, 2])
    assert found.read_transaction(1).transaction_properties == {"who": "a canary"}
    assert ids(found.insert(rows(3)) or lance.dataset(found.uri)) == [1, 2, 3]


def test_large_blobs_lie_in_a_folder_beside_their_data_file(tmp_path: Path) -> None:
    """What is below `data` afterwards is what has to be sent."""
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("b")])
    large = pa.table({"id": [1], "b": blob_array([b"x" * 3_000_000])}, schema=schema)
    base = lance.write_dataset(large, str(tmp_path / "t"), data_storage_version="2.2")
    scratch = tmp_path / "scratch"
    (scratch / "_versions").mkdir(parents=True)
    like = LanceDataset(str(scratch), 1, serialized_manifest=base._ds.serialized_manifest())
    [fragment] = write_fragments(large, like, mode="append")
    made = [p.relative_to(scratch / "data") for p in (scratch / "data").rglob("*") if p.is_file()]
    [name] = [str(p) for p in made if len(p.parts) == 1]
    assert name == fragment.files[0].path
    assert {p.parts[0] for p in made if len(p.parts) == 2} == {name.removesuffix(".lance")}
