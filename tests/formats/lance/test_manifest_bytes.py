"""Manifest files as bytes: whole ones open, others are refused by name."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from quire.errors import CorruptRecord
from quire.formats.lance.manifest_bytes import Manifest, parse
from quire.formats.lance.session import DETACHED, LanceSession, manifest_name
from quire.store import Store

WHAT = "version 1 of people"


def body_of(uri: str, version: int) -> bytes:
    return (Path(uri) / "_versions" / manifest_name(version)).read_bytes()


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    """A linear version of two rows with an index."""
    made = lance.write_dataset(pa.table({"id": [1, 2]}), str(tmp_path / "tables" / "t"))
    made.create_scalar_index("id", "BTREE")
    return lance.dataset(made.uri)


def staged(table: LanceDataset) -> LanceDataset:
    rows = write_fragments(pa.table({"id": [3]}), table, mode="append")
    return LanceDataset.commit(table, LanceOperation.Append(rows), read_version=table.version, detached=True)


def test_a_whole_file_is_taken_apart(table: LanceDataset) -> None:
    first = lance.dataset(table.uri, version=1)
    assert parse(body_of(table.uri, 1), 1, WHAT) == Manifest(first._ds.serialized_manifest(), False)
    assert parse(body_of(table.uri, 2), 2, WHAT) == Manifest(table._ds.serialized_manifest(), True)
    found = staged(table)
    assert found.version & DETACHED
    body = body_of(table.uri, found.version)
    assert parse(body, found.version, WHAT) == Manifest(found._ds.serialized_manifest(), True)


def test_a_file_that_is_cut_anywhere_is_damaged(table: LanceDataset) -> None:
    body = body_of(table.uri, 2)
    for length in range(len(body)):
        with pytest.raises(CorruptRecord, match=f"The manifest of {WHAT} is damaged"):
            parse(body[:length], 2, WHAT)
    for start in range(1, len(body)):  # its beginning is lost
        with pytest.raises(CorruptRecord):
            parse(body[start:], 2, WHAT)


def test_a_file_of_another_version_is_damaged(table: LanceDataset) -> None:
    with pytest.raises(CorruptRecord, match="it holds version 2"):
        parse(body_of(table.uri, 2), 1, WHAT)


def test_a_byte_that_changed_is_never_an_error_without_a_type(table: LanceDataset, tmp_path: Path) -> None:
    session = LanceSession(Store.open(tmp_path))
    version = staged(table).version
    body = body_of(table.uri, version)
    told = []
    for at in range(len(body)):
        damaged = bytearray(body)
        damaged[at] ^= 0xFF
        try:
            session.remember_manifest("tables/t", version, bytes(damaged), "people")
        except CorruptRecord as error:
            told.append(error.message)
    assert len(told) > 100
    assert all(f"version {version} of people" in message for message in told)


def test_who_has_the_bytes_of_a_version_need_not_have_it_in_the_store(table: LanceDataset, tmp_path: Path) -> None:
    session = LanceSession(Store.open(tmp_path))
    found = staged(table)
    body = body_of(table.uri, found.version)
    (Path(table.uri) / "_versions" / manifest_name(found.version)).unlink()
    handle = session.remember_manifest("tables/t", found.version, body)
    assert handle.to_table()["id"].to_pylist() == [1, 2, 3]
    assert session.open_version("tables/t", found.version) is handle
