"""What a stored manifest says, against what Lance says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from tests.formats.lance.conftest import listed, rows

from quire.formats.lance.head.manifest_copy import Loose
from quire.formats.lance.head.manifest_fields import fields_of, told_by
from quire.formats.lance.session import manifest_name


def body(uri: str, version: int) -> bytes:
    return (Path(uri) / "_versions" / manifest_name(version)).read_bytes()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of 200 fragments in its second version, without the first of them."""
    where = str(tmp_path / "t")
    lance.write_dataset(rows(*range(200)), where, max_rows_per_file=1)
    lance.dataset(where).delete("id = 0")
    return where


def test_fragments_are_found_by_the_numbers_that_lance_gives_them(uri: str) -> None:
    found = fields_of(body(uri, 2))
    assert list(found.fragments) == [f.fragment_id for f in lance.dataset(uri).get_fragments()] == list(range(1, 200))
    assert found.highest == 199
    first = fields_of(body(uri, 1))
    assert list(first.fragments) == list(range(200))
    assert {n: f for n, f in first.fragments.items() if n} == found.fragments


def test_a_number_that_was_used_is_remembered(uri: str) -> None:
    lance.dataset(uri).delete("id > 100")
    found = fields_of(body(uri, 3))
    assert (max(found.fragments), found.highest) == (100, 199)


def test_a_table_that_never_had_rows_used_no_number(tmp_path: Path) -> None:
    lance.write_dataset(rows(), tmp_path / "t")
    found = fields_of(body(str(tmp_path / "t"), 1))
    assert (found.fragments, found.highest, found.indexes) == ({}, -1, [])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "rows": lambda h: lance.write_dataset(rows(900), h, mode="append"),
    "deleted rows": lambda h: h.delete("id = 7"),
    "an index": lambda h: h.create_scalar_index("id", "BTREE"),
    "a column": lambda h: h.add_columns({"w": "v + 1"}),
    "a name": lambda h: h.alter_columns({"path": "v", "name": "w"}),
    "nullability": lambda h: h.alter_columns({"path": "v", "nullable": False}),
    "configuration": lambda h: h.update_config({"a": "b"}),
    "metadata of the schema": lambda h: h.update_schema_metadata({"a": "b"}),
    "metadata of a column": lambda h: h.update_field_metadata({"v": {"a": "b"}}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_state_differs_by_whatever_changed(uri: str, change: str) -> None:
    before = fields_of(body(uri, 2)).state()
    handle = lance.dataset(uri)
    CHANGES[change](handle)
    assert fields_of(body(uri, lance.dataset(uri).version)).state() != before


def test_a_version_that_changes_nothing_is_in_the_same_state(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    handle = lance.dataset(uri)
    handle.update_field_metadata({"v": {f"key {n}": "value" for n in range(9)}})
    handle.update_config({f"key {n}": "value" for n in range(9)})
    handle = lance.dataset(uri)
    before = fields_of(body(uri, handle.version))
    assert len(before.indexes) == 1
    for _ in range(5):  # Lance writes maps in any order
        nothing = Transaction(handle.version, LanceOperation.Delete([], [], "false"), transaction_properties={"a": "b"})
        handle = LanceDataset.commit(handle, nothing)
        assert fields_of(body(uri, handle.version)).state() == before.state()


def test_numbers_of_stable_row_ids_are_part_of_a_state(tmp_path: Path) -> None:
    """Two states with the same rows may give the next row another id."""
    where = tmp_path / "t"
    handle = lance.write_dataset(rows(1), where, enable_stable_row_ids=True)
    before = fields_of(body(str(where), 1))
    lance.write_dataset(rows(2), where, mode="append")
    handle = lance.dataset(where)
    handle.delete("id = 2")
    after = fields_of(body(str(where), lance.dataset(where).version))
    assert before.fragments == after.fragments
    assert before.state() != after.state()


@pytest.mark.parametrize("damage", [b"", b"LANC", b"x" * 64])
def test_what_is_no_manifest_is_refused(damage: bytes) -> None:
    with pytest.raises(ValueError, match="manifest"):
        fields_of(damage)


def test_a_manifest_that_was_cut_or_shifted_is_refused(uri: str) -> None:
    whole = body(uri, 2)
    for shifted in (whole[:-1], whole[100:], whole[:100] + whole[-16:], b"\xff" * (len(whole) - 16) + whole[-16:]):
        with pytest.raises(ValueError, match="."):
            fields_of(shifted)


def test_pyarrow_types_of_every_depth_are_read(tmp_path: Path) -> None:
    nested = pa.table({"a": [{"b": [{"c": 1}]}], "d": [[1.0, 2.0]]})
    lance.write_dataset(nested, tmp_path / "t")
    assert fields_of(body(str(tmp_path / "t"), 1)).state()


@pytest.mark.parametrize("indexed", [False, True])
def test_one_manifest_is_told_by_the_transaction_of_another(uri: str, indexed: bool) -> None:
    if indexed:
        lance.dataset(uri).create_scalar_index("id", "BTREE")
    before = lance.dataset(uri).version
    lance.dataset(uri).delete("id = 5")
    made = []
    for operation in (LanceOperation.Restore(before), LanceOperation.Delete([], [1, 2], "id < 3")):
        with Loose() as loose:
            onto = loose.open(before + 1, body(uri, before + 1))
            loose.open(before, body(uri, before))
            made.append(loose.commit(onto, operation, "2f1f0a52-0b4a-4a5e-9a1c-5b7f0f6a0c11", {"a": "b" * 40}))
    restored, deleted = (m.manifest for m in made)
    manifest = told_by(restored, deleted)
    assert fields_of(manifest) == fields_of(restored) != fields_of(deleted)
    (Path(uri) / "_versions" / manifest_name(before + 2)).write_bytes(manifest)
    found = lance.dataset(uri)
    told = found.read_transaction(found.version)
    assert (found.version, told.read_version) == (before + 2, before + 1)
    assert told.operation == LanceOperation.Delete([], [1, 2], "id < 3")
    assert told.transaction_properties == {"a": "b" * 40}
    assert found.count_rows() == 199
    assert listed(found.to_table(filter="id = 5")) == [(5, 50)]


def test_a_manifest_without_a_transaction_before_its_fields_is_refused(uri: str) -> None:
    whole = body(uri, 2)
    for start in (whole[:16] + whole, whole[20:]):
        with pytest.raises(ValueError, match="."):
            told_by(start, whole)
