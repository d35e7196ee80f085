"""Schema changes on a staged version. Every test compares values: names can be right while the data is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from .conftest import records, stage

Verb = Callable[[LanceDataset], object]
Apply = Callable[[LanceDataset, Verb], LanceDataset]


def wide(*ids: int) -> pa.Table:
    """Three columns whose values tell the column and the row: `v` is 10 + id, `w` is 20 + id."""
    return pa.table({"id": list(ids), "v": [10 + i for i in ids], "w": [20 + i for i in ids]})


def pin(uri: str) -> LanceDataset:
    """A staged version with two fragments, the first of which has a deleted row: ids 0, 2 and 3 are there."""
    base = lance.write_dataset(wide(0, 1, 2), uri)
    appended = stage(base, LanceOperation.Append(write_fragments(wide(3), base, mode="append")))
    deletion = LanceOperation.Delete([appended.get_fragment(0).delete_rows([1])], [], "id = 1")
    return stage(appended, deletion)


def expected(**columns: int) -> list[dict[str, int]]:
    """What `records(pin)` gives when each named column is `id + offset`."""
    return [{"id": i} | {name: offset + i for name, offset in columns.items()} for i in (0, 2, 3)]


def append_row(base: LanceDataset, **row: int) -> LanceDataset:
    table = pa.Table.from_pylist([row])
    return stage(base, LanceOperation.Append(write_fragments(table, base, mode="append")))


@pytest.fixture(params=["unrelated table", "linear manifest of the table"])
def apply(request: Any, uri: str, tmp_path: Path) -> Apply:
    """Run a verb on a scratch copy of the pin's manifest, and stage the operation that comes out of it on the pin.

    The scratch needs some version 1 to exist: a tiny table of its own, or the table's own first manifest.
    """

    def run(pinned: LanceDataset, verb: Verb) -> LanceDataset:
        scratch = tmp_path / f"scratch-{pinned.version}"
        if request.param == "unrelated table":
            lance.write_dataset(pa.table({"unrelated": ["x"]}), str(scratch))
        else:
            (scratch / "_versions").mkdir(parents=True)
            shutil.copy(Path(uri) / "_versions" / f"{2**64 - 2}.manifest", scratch / "_versions")
        shutil.copy(Path(uri) / "_versions" / f"d{pinned.version}.manifest", scratch / "_versions")
        table = LanceDataset.commit(str(scratch), LanceOperation.Restore(pinned.version))
        verb(table)
        table = lance.dataset(str(scratch))
        return stage(pinned, table.read_transaction(table.version).operation)

    return run


def drop(name: str) -> Verb:
    return lambda table: table.drop_columns([name])


def rename(old: str, new: str) -> Verb:
    return lambda table: table.alter_columns({"path": old, "name": new})


def test_project_with_an_arrow_schema_returns_the_wrong_column(uri: str) -> None:
    """Why a column is never dropped by `Project(pa.schema)`: field ids are given out again, and `w` shows `v`'s data.

    When it fails (`w` is 20, 22, 23, or an error): Project takes Arrow schemas by name or refuses them; the way over
    a scratch manifest may be replaced after the other tests of this file pass with it.
    """
    staged = pin(uri)
    projected = stage(staged, LanceOperation.Project(pa.schema([("id", pa.int64()), ("w", pa.int64())])))
    assert records(projected) == expected(w=10)


def test_scratch_manifest_drops_a_column(uri: str, apply: Apply) -> None:
    """How `drop column` is staged. Only manifests are copied; the scratch never needs the data files.

    When it fails: do not stage drops with this pylance; refuse them with a clear error.
    """
    staged = pin(uri)
    dropped = apply(staged, drop("v"))
    assert records(dropped) == expected(w=20)
    assert records(lance.dataset(uri, version=staged.version)) == expected(v=10, w=20)
    assert records(append_row(dropped, id=4, w=24)) == [*expected(w=20), {"id": 4, "w": 24}]


def test_scratch_manifest_renames_a_column(uri: str, apply: Apply) -> None:
    """How `rename column` is staged.

    When it fails: do not stage renames with this pylance; refuse them with a clear error.
    """
    staged = pin(uri)
    renamed = apply(staged, rename("v", "value"))
    assert records(renamed) == expected(value=10, w=20)
    swapped = apply(apply(renamed, rename("w", "v")), rename("value", "w"))
    assert records(swapped) == expected(w=10, v=20)


def test_scratch_manifest_changes_chain_over_sparse_field_ids(uri: str, apply: Apply) -> None:
    """Drop, rename, add and drop again: after the first drop field ids have a hole, where renumbering would show.

    When it fails while the single changes pass: allow one schema change per table, and refuse the next.
    """
    renamed = apply(apply(pin(uri), drop("v")), rename("w", "last"))
    assert records(renamed) == expected(last=20)
    added = add_column(renamed, "twenty_more", "last + 20")
    assert records(added) == expected(last=20, twenty_more=40)
    dropped = apply(added, drop("last"))
    assert records(dropped) == expected(twenty_more=40)
    LanceDataset.commit(uri, LanceOperation.Restore(dropped.version))
    assert records(lance.dataset(uri)) == expected(twenty_more=40)


def test_scratch_table_made_from_the_schema_returns_the_wrong_column(uri: str, tmp_path: Path, apply: Apply) -> None:
    """Why the scratch is a copy of the manifest: an empty table made from the same schema renumbers the fields.

    When it fails (`last` is 20, 22, 23): an empty table keeps field ids, and the scratch needs no copied manifest.
    """
    sparse = apply(pin(uri), drop("v"))
    scratch = LanceDataset.commit(str(tmp_path / "empty"), LanceOperation.Overwrite(sparse.lance_schema, []))
    scratch.alter_columns({"path": "w", "name": "last"})
    renamed = stage(sparse, scratch.read_transaction(scratch.version).operation)
    assert records(renamed) == expected(last=10)


def add_column(base: LanceDataset, name: str, expression: str) -> LanceDataset:
    merged = [fragment.merge_columns({name: expression}) for fragment in base.get_fragments()]
    return stage(base, LanceOperation.Merge([fragment for fragment, _ in merged], merged[-1][1]))


def test_merge_columns_and_merge_add_a_column(uri: str) -> None:
    """How `add column` is staged: per fragment, so that it can run on workers, then one `Merge`.

    When it fails: do not stage new columns with this pylance; refuse them with a clear error.
    """
    staged = pin(uri)
    added = add_column(staged, "sum", "v + w - id")
    assert records(added) == expected(v=10, w=20, sum=30)
    assert lance.dataset(uri).schema.names == ["id", "v", "w"]
    row = {"id": 4, "v": 14, "w": 24, "sum": 34}
    assert records(append_row(added, **row)) == [*expected(v=10, w=20, sum=30), row]
