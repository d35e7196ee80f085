"""Copies of manifests on this machine read as the table does, and stay what they are: to be read by, gone with it."""

from __future__ import annotations

import gc
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, blob_array, blob_field
from lance.fragment import write_fragments

from quire.formats.lance.manifest_bytes import FOOTER, fields, parse, section
from quire.formats.lance.reading_copy import Copies, Indexed, Unlike, on_base
from quire.formats.lance.session import manifest_name

VECTOR = pa.list_(pa.float32(), 4)


def rows(first: int, count: int) -> pa.Table:
    random = np.random.default_rng(first)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.random(4 * count, np.float32)), 4)
    ids = list(range(first, first + count))
    texts = [f"word{n % 5} common" for n in ids]
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("v", VECTOR), blob_field("b")])
    return pa.table([pa.array(ids), texts, vectors, blob_array([b"%d" % n for n in ids])], schema=schema)


def body_of(handle: LanceDataset) -> bytes:
    return (Path(handle.uri) / "_versions" / manifest_name(handle.version)).read_bytes()


def with_field(body: bytes, more: bytes) -> bytes:
    """The file of a manifest whose fragments have one more field."""
    position = FOOTER.unpack_from(body, len(body) - FOOTER.size)[0]
    parts = list(fields(section(body, position)))
    said = b"".join(bytes([18, len(v + more)]) + v + more if n == 2 else raw for n, v, raw in parts)
    return body[:position] + struct.pack("<I", len(said)) + said + body[-FOOTER.size :]


def made(uri: str, *, stable: bool = False, linear: bool = False) -> LanceDataset:
    """Indexed rows, rows that came later, and some that are deleted."""
    table: Any = lance.write_dataset(
        rows(0, 300), uri, max_rows_per_file=100, enable_stable_row_ids=stable, data_storage_version="2.2"
    )
    table.create_scalar_index("id", "BTREE")
    table = lance.dataset(uri)
    table.create_scalar_index("text", "INVERTED")
    table = lance.dataset(uri)
    table.create_index("v", "IVF_FLAT", num_partitions=2, metric="l2")
    if linear:
        table = lance.write_dataset(rows(1000, 5), uri, mode="append")
        table.delete("id in (3, 150)")
        return lance.dataset(uri)
    table = lance.dataset(uri)
    late = LanceOperation.Append(write_fragments(rows(1000, 5), table, mode="append"))
    table = LanceDataset.commit(table, late, read_version=table.version, detached=True)
    some = [table.get_fragment(0).delete_rows([3]), table.get_fragment(1).delete_rows([50])]
    gone = LanceOperation.Delete(some, [], "some")
    return LanceDataset.commit(table, gone, read_version=table.version, detached=True)


ASKED: dict[str, Callable[[LanceDataset], Any]] = {
    "version": lambda h: h.version,
    "schema": lambda h: h.schema,
    "count": lambda h: h.count_rows(),
    "rows": lambda h: h.to_table(columns=["id", "text", "v"]).sort_by("id"),
    "ids of rows": lambda h: h.to_table(columns=["id"], with_row_id=True, with_row_address=True).sort_by("id"),
    "by an index": lambda h: h.to_table(columns=["id", "text"], filter="id in (3, 7, 250, 1003)").sort_by("id"),
    "that it is by one": lambda h: "ScalarIndexQuery" in h.scanner(filter="id = 7").explain_plan(),
    "by words": lambda h: h.to_table(columns=["id", "_score"], full_text_query="word3", limit=400).sort_by("id"),
    "by a vector": lambda h: h.to_table(
        columns=["id", "_distance"], nearest={"column": "v", "q": np.zeros(4, np.float32), "k": 9, "nprobes": 2}
    ).sort_by("id"),
    "indexes": lambda h: [(d.name, d.index_type, d.field_names, d.num_rows_indexed) for d in h.describe_indices()],
    "fragments": lambda h: [(f.fragment_id, f.count_rows(), f.to_table(columns=["id"])) for f in h.get_fragments()],
    "some": lambda h: h._take_rows([7, 1 << 32 | 3], columns=["id"]) if not h.has_stable_row_ids else None,
    "blobs": lambda h: h.read_blobs("b", addresses=[5, 1 << 32 | 7], preserve_order=True),
    "settings": lambda h: h.config(),
    "paths": lambda h: [file.path for f in h.get_fragments() for file in f.data_files()],
}


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("stable", [False, True])
def test_a_copy_reads_as_the_table_does(tmp_path: Path, stable: bool, linear: bool) -> None:
    table = made(str(tmp_path / "t"), stable=stable, linear=linear)
    wanted = lance.dataset(table.uri, version=table.version)
    copies = Copies()
    copy = copies.open(body_of(table), table.version, table.uri, {})
    for what, ask in ASKED.items():
        assert ask(copy) == ask(wanted), what
    assert copy.uri == table.uri


def test_a_deletion_vector_that_this_process_has_is_read_here(tmp_path: Path) -> None:
    table = made(str(tmp_path / "t"))
    body, folder = body_of(table), Path(table.uri)
    wanted = {what: ask(lance.dataset(table.uri, version=table.version)) for what, ask in ASKED.items()}
    vectors = {f"_deletions/{file.name}": file.read_bytes() for file in (folder / "_deletions").iterdir()}
    assert len(vectors) == 2
    (folder / "_deletions").rename(tmp_path / "aside")
    copies = Copies()
    copy = copies.open(body, table.version, table.uri, {}, vectors.get)
    for what in ("rows", "by an index", "count", "fragments", "ids of rows"):
        assert ASKED[what](copy) == wanted[what], what
    (tmp_path / "aside").rename(folder / "_deletions")
    one = copies.open(body, table.version, table.uri + "/", {}, {n: d for n, d in vectors.items() if "/0-" in n}.get)
    assert ASKED["rows"](one) == wanted["rows"], "the other one is read where the table lies"


@pytest.mark.parametrize("version", [0, 1])
def test_a_deletion_vector_goes_with_the_last_copy_that_needs_it(tmp_path: Path, version: int) -> None:
    first = made(str(tmp_path / "t"))
    late = LanceOperation.Append(write_fragments(rows(3000, 1), first, mode="append"))
    second = LanceDataset.commit(first, late, read_version=first.version, detached=True)
    vectors = {f"_deletions/{file.name}": file.read_bytes() for file in (Path(first.uri) / "_deletions").iterdir()}
    copies = Copies()
    held = [copies.open(body_of(h), h.version, first.uri, {}, vectors.get) for h in (first, second)]
    folder = copies._folder(first.uri) / "_deletions"
    assert {f"_deletions/{file.name}" for file in folder.iterdir()} == set(vectors)
    held.pop(version)
    gc.collect()
    copies._forget_vectors()
    assert ASKED["by an index"](held[0]).num_rows == 3
    assert len(list(folder.iterdir())) == 2
    held.clear()
    gc.collect()
    copies._forget_vectors()
    assert list(folder.iterdir()) == []


def test_a_handle_with_indexes_reads_by_its_copy_and_stages_on_itself(tmp_path: Path) -> None:
    table = made(str(tmp_path / "t"))
    body, version = body_of(table), table.version
    wanted = lance.dataset(table.uri, version=version)
    handle = Indexed(table.uri, version, serialized_manifest=parse(body, version, "t").message)
    copies = Copies()
    handle.copied = lambda: copies.open(body, version, table.uri, {})
    (Path(table.uri) / "_versions" / manifest_name(version)).rename(tmp_path / "aside")
    for what, ask in ASKED.items():
        assert ask(handle) == ask(wanted), what
    some = [handle.get_fragment(1)]
    assert handle.scanner(columns=["id"], filter="id < 102", fragments=some).to_table()["id"].to_pylist() == [100, 101]
    assert all(file.base_id is None for f in handle.get_fragments() for file in f.data_files())
    (tmp_path / "aside").rename(Path(table.uri) / "_versions" / manifest_name(version))
    late = LanceOperation.Append(write_fragments(rows(2000, 1), handle, mode="append"))
    staged = LanceDataset.commit(handle, late, read_version=version, detached=True)
    assert lance.dataset(table.uri, version=staged.version).to_table(filter="id = 2000").num_rows == 1


def test_a_clone_keeps_the_bases_that_it_has(tmp_path: Path) -> None:
    first: Any = made(str(tmp_path / "t"), linear=True)
    first.shallow_clone(str(tmp_path / "clone"), first.version)
    lance.write_dataset(rows(5000, 2), str(tmp_path / "clone"), mode="append")
    clone = lance.dataset(str(tmp_path / "clone"))
    copy = Copies().open(body_of(clone), clone.version, clone.uri, {})
    for what in ("rows", "by an index", "indexes", "fragments", "by words"):
        assert ASKED[what](copy) == ASKED[what](clone), what


def test_what_is_not_known_to_be_all_is_not_copied(tmp_path: Path) -> None:
    table: Any = lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "t"))
    body = body_of(table)
    for strange in (b"\x32\x01x", b"\x42\x01x", b"\x5a\x01x"):  # row ids in another file, and what nobody knows yet
        with pytest.raises(Unlike):
            on_base(with_field(body, strange), "s3://somewhere")
    with pytest.raises(Unlike):
        Copies().open(b"\0" * 64, table.version, table.uri, {})


def test_a_copy_is_made_once_and_goes_with_its_last_handle(tmp_path: Path) -> None:
    table = made(str(tmp_path / "t"))
    copies = Copies()
    first = copies.open(body_of(table), table.version, table.uri, {})
    second = copies.open(body_of(table), table.version, table.uri, {})
    assert first is second
    [folder] = copies._folders.values()
    assert os.listdir(folder / "_versions") == [manifest_name(table.version)]
    assert (folder.stat().st_mode | folder.parent.stat().st_mode) & 0o077 == 0
    del first, second
    gc.collect()
    assert os.listdir(folder / "_versions") == []
    del copies
    gc.collect()
    assert not folder.exists()


def test_a_folder_that_was_tidied_away_is_made_again(tmp_path: Path) -> None:
    table = made(str(tmp_path / "t"))
    copies = Copies()
    first = copies.open(body_of(table), table.version, table.uri, {})
    [folder] = copies._folders.values()
    del first
    gc.collect()
    (folder / "_versions").rmdir()
    folder.rmdir()
    again = copies.open(body_of(table), table.version, table.uri, {})
    assert ASKED["by an index"](again).num_rows == 3


def test_threads_that_open_and_let_go_of_a_copy_never_see_half_of_one(tmp_path: Path) -> None:
    table = made(str(tmp_path / "t"))
    body, copies = body_of(table), Copies()
    options = {"session": lance.Session(index_cache_size_bytes=1)}  # the list of indexes is read again every time
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(60):
                copy = copies.open(body, table.version, table.uri, options)
                assert len(copy.describe_indices()) == 3
                del copy
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
