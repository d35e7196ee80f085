"""Handles made of a manifest file's bytes: how Quire opens a version with one GET, or with none."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import lance
import pytest
from lance import LanceDataset, LanceOperation

from .conftest import append, create, delete, fragment_ids, ids, index, records, stage

LINEAR, STAGED, INDEXED = "linear", "staged", "staged, with an index and a deletion"
KINDS = (LINEAR, STAGED, INDEXED)


def version(uri: str, kind: str) -> int:
    base = create(uri, *range(6), rows_per_file=3)
    if kind == LINEAR:
        return int(base.version)
    staged = stage(base, append(base, 6, 7), {"who": "a canary"})
    if kind == STAGED:
        return int(staged.version)
    indexed = stage(staged, LanceOperation.CreateIndex([index(staged, "id", "BTREE")], []))
    return int(stage(indexed, delete(indexed, 0, 1), {"who": "a canary"}).version)


def file_of(uri: str, number: int) -> Path:
    name = f"d{number}.manifest" if number >> 63 else f"{2**64 - 1 - number:020d}.manifest"
    return Path(uri) / "_versions" / name


def message(body: bytes) -> bytes:
    """The footer's position, then the length there, then the message up to the footer."""
    position, _, _, magic = struct.unpack("<QHH4s", body[-16:])
    assert magic == b"LANC"
    (length,) = struct.unpack_from("<I", body, position)
    assert position + 4 + length == len(body) - 16
    return body[position + 4 : position + 4 + length]


def said(handle: LanceDataset) -> dict[str, Any]:
    """All that Quire asks of a handle."""
    transaction = handle.read_transaction(handle.version)
    return {
        "uri": handle.uri,
        "version": handle.version,
        "schema": handle.schema,
        "lance schema": str(handle.lance_schema),
        "rows": records(handle),
        "count": handle.count_rows(),
        "some": ids(handle, filter="id in (1, 2, 7)"),
        "fragments": [f.metadata.to_json() for f in handle.get_fragments()],
        "indexes": [(d.name, d.index_type, d.field_names, d.num_rows_indexed) for d in handle.describe_indices()],
        "plan": "ScalarIndexQuery" in handle.scanner(filter="id = 2").explain_plan(),
        "stable row ids": handle.has_stable_row_ids,
        "config": handle.config(),
        "operation": type(transaction.operation).__name__,
        "properties": transaction.transaction_properties,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_handle_made_of_bytes_is_the_handle_that_lance_opens(uri: str, kind: str) -> None:
    """Quire reads a manifest itself, with one request instead of two, or has it because it wrote it.

    When it fails: open pins by `lance.dataset(uri, version=)` again.
    """
    number = version(uri, kind)
    wanted = lance.dataset(uri, version=number)
    found = LanceDataset(uri, number, serialized_manifest=message(file_of(uri, number).read_bytes()))
    assert said(found) == said(wanted)
    assert found.has_index == (kind == INDEXED)


@pytest.mark.parametrize("kind", KINDS)
def test_the_message_is_what_lance_pickles(uri: str, kind: str) -> None:
    """That is what says that the bytes in the file are those that the parameter wants, whatever they mean.

    When it fails: the file holds the message in another form; read `serialized_manifest()` of an opened handle to see.
    """
    number = version(uri, kind)
    body = message(file_of(uri, number).read_bytes())
    assert lance.dataset(uri, version=number)._ds.serialized_manifest() == body
    again = pickle.loads(pickle.dumps(LanceDataset(uri, number, serialized_manifest=body)))
    assert said(again) == said(lance.dataset(uri, version=number))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_committed_on_such_a_handle_is_committed_on_its_version(uri: str, kind: str) -> None:
    """A transaction pins its tables by such handles and stages on them.

    When it fails: keep such handles for reading.
    """
    number = version(uri, kind)
    base = LanceDataset(uri, number, serialized_manifest=message(file_of(uri, number).read_bytes()))
    staged = stage(base, append(base, 100))
    wanted = [*ids(lance.dataset(uri, version=number)), 100]
    assert ids(lance.dataset(uri, version=staged.version)) == wanted
    assert ids(staged, filter="id = 100") == [100]
    assert len(staged.describe_indices()) == len(base.describe_indices())
    assert fragment_ids(staged)[:-1] == fragment_ids(base)


def test_a_staged_version_is_opened_without_asking_whether_it_is_there(uri: str) -> None:
    """Whoever staged a version has its handle before the manifest is sent.

    When it fails: send first, then open.
    """
    number = version(uri, STAGED)
    body = message(file_of(uri, number).read_bytes())
    file_of(uri, number).unlink()
    assert ids(LanceDataset(uri, number, serialized_manifest=body)) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_bytes_that_are_no_message_are_refused(uri: str) -> None:
    """Quire reports a damaged manifest by this error, after its own look at the file.

    When it fails with a crash: check more before Lance is given the bytes.
    """
    number = version(uri, STAGED)
    for damaged in (b"garbage", message(file_of(uri, number).read_bytes())[:-1]):
        with pytest.raises(OSError, match="Protobuf"):
            LanceDataset(uri, number, serialized_manifest=damaged)
