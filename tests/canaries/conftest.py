"""Small steps that the canaries share. They use public pylance calls only, and each is one call or two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where the test's table lives; nothing is there yet."""
    return str(tmp_path / "t.lance")


def rows(*ids: int) -> pa.Table:
    """Rows with the given ids and `v = 10 * id`, so that a value that wandered to another row or column shows."""
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([10 * i for i in ids], pa.int64())})


def create(uri: str, *ids: int, rows_per_file: int = 1_000) -> LanceDataset:
    """Version 1 of a table that holds `rows(*ids)`."""
    return lance.write_dataset(rows(*ids), uri, max_rows_per_file=rows_per_file)


def stage(
    base: LanceDataset, operation: LanceOperation.BaseOperation, properties: dict[str, str] | None = None
) -> LanceDataset:
    """Commit `operation` detached on the handle `base`."""
    transaction = Transaction(read_version=base.version, operation=operation, transaction_properties=properties or {})
    return LanceDataset.commit(base, transaction, detached=True)


def append(base: LanceDataset, *ids: int) -> LanceOperation.Append:
    """Write the rows as data files of `base`'s table; nothing is committed."""
    return LanceOperation.Append(write_fragments(rows(*ids), base, mode="append"))


def delete(base: LanceDataset, fragment_id: int, *offsets: int) -> LanceOperation.Delete:
    """Write a deletion file for some rows of one fragment; nothing is committed."""
    return LanceOperation.Delete([base.get_fragment(fragment_id).delete_rows(offsets)], [], "by offset")


def upsert(base: LanceDataset, table: pa.Table) -> LanceOperation.Update:
    """Write an upsert on `id`; nothing is committed."""
    builder = base.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    transaction, _ = builder.execute_uncommitted(table)
    return transaction.operation


def overwrite(base: LanceDataset, *ids: int) -> LanceOperation.Overwrite:
    """Write the rows as the whole new content of the table; nothing is committed."""
    return LanceOperation.Overwrite(base.lance_schema, write_fragments(rows(*ids), base, mode="overwrite"))


def index(base: LanceDataset, column: str, kind: str, **options: Any) -> Any:
    """Build an index called `ix` over every fragment of `base`; nothing is committed."""
    return base.create_index_uncommitted(column, kind, name="ix", fragment_ids=fragment_ids(base), **options)


def ids(dataset: LanceDataset, **scan: Any) -> list[int]:
    """The ids a scan returns, sorted."""
    return sorted(dataset.to_table(columns=["id"], **scan)["id"].to_pylist())


def records(dataset: LanceDataset) -> list[dict[str, Any]]:
    """Every row as a dict, in the order of `id`."""
    return sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"])


def fragment_ids(dataset: LanceDataset) -> list[int]:
    return [fragment.fragment_id for fragment in dataset.get_fragments()]
