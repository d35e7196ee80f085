"""The unenforced primary key: when two writers that insert one new key collide, and when both get through.

The ledger that is kept as a Lance table gives out its slots by such an insert, so a duplicate here is a lost commit
there. Every test lets two handles of one version insert the same key, with no retries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset

FLAG = "lance-schema:unenforced-primary-key"
POSITION = f"{FLAG}:position"

Result = tuple[str, list[int]]
BOTH: Result = ("accepted", [1, 2])
FIRST_ONLY: Result = ("refused", [1])


def create_keyed(uri: str, metadata: dict[str, dict[str, str]], columns: tuple[str, ...] = ("id",)) -> LanceDataset:
    """A table with one row, non-null string columns that carry the given field metadata, and a column `v`."""
    keys = [pa.field(name, pa.string(), nullable=False, metadata=metadata.get(name)) for name in columns]
    schema = pa.schema([*keys, pa.field("v", pa.int64())])
    return lance.write_dataset(pa.Table.from_pylist([dict.fromkeys(columns, "old") | {"v": 0}], schema=schema), uri)


def winners(dataset: LanceDataset) -> list[int]:
    """Who wrote a row of the new key."""
    return sorted(row["v"] for row in dataset.to_table().to_pylist() if "new" in row.values())


def race(
    uri: str,
    on: list[str],
    prepare: Callable[[Any], Any] = lambda builder: builder,
    execute: Callable[[Any, pa.Table], object] = lambda builder, table: builder.execute(table),
    retries: int = 0,
) -> Result:
    """Writers 1 and 2 upsert the new key from handles of one version.

    Says whether the second was accepted, and whose rows are there.
    """
    first, second = lance.dataset(uri), lance.dataset(uri)
    columns = [name for name in first.schema.names if name != "v"]

    def write(handle: LanceDataset, writer: int) -> None:
        builder = handle.merge_insert(on).when_matched_update_all().when_not_matched_insert_all()
        row = dict.fromkeys(columns, "new") | {"v": writer}
        execute(prepare(builder.conflict_retries(retries)), pa.Table.from_pylist([row], schema=first.schema))

    write(first, 1)
    try:
        write(second, 2)
        outcome = "accepted"
    except OSError:
        outcome = "refused"
    return outcome, winners(lance.dataset(uri))


def test_without_annotation_both_inserts_succeed(uri: str) -> None:
    """Why the ledger's key column is annotated.

    When it fails: Lance guards every `merge_insert`; the annotation costs nothing and may stay.
    """
    create_keyed(uri, {})
    assert race(uri, ["id"]) == BOTH


@pytest.mark.parametrize(
    "metadata",
    [{FLAG: "true"}, {FLAG: "1"}, {FLAG: "yes"}, {POSITION: "0"}, {POSITION: "1"}],
    ids=["true", "1", "yes", "position 0", "position 1"],
)
def test_annotated_key_refuses_the_second_insert(uri: str, metadata: dict[str, str]) -> None:
    """The compare-and-swap of the ledger that is kept as a Lance table.

    When it fails: that ledger loses commits. Refuse it with this pylance.
    """
    create_keyed(uri, {"id": metadata})
    assert race(uri, ["id"]) == FIRST_ONLY


def test_annotation_added_later_refuses_the_second_insert(uri: str) -> None:
    """A ledger table that exists already can be given its key.

    When it fails: create the ledger table anew instead.
    """
    create_keyed(uri, {}).update_field_metadata({"id": {FLAG: "true"}})
    assert race(uri, ["id"]) == FIRST_ONLY


def test_with_retries_the_second_insert_becomes_an_update(uri: str) -> None:
    """Why the ledger asks for no retries: a retried insert of a taken slot would replace the winner's record.

    When it fails: see what a retry does now before allowing any.
    """
    create_keyed(uri, {"id": {FLAG: "true"}})
    assert race(uri, ["id"], retries=5) == ("accepted", [2])


def test_append_then_insert_of_the_same_key_is_refused(uri: str) -> None:
    """A plain append beside the ledger's inserts is noticed.

    When it fails: the ledger table must be written by `merge_insert` alone.
    """
    stale = create_keyed(uri, {"id": {FLAG: "true"}})

    def row(v: int) -> pa.Table:
        return pa.Table.from_pylist([{"id": "new", "v": v}], schema=stale.schema)

    lance.write_dataset(row(1), uri, mode="append")
    with pytest.raises(OSError, match="concurrent writers"):
        stale.merge_insert("id").when_not_matched_insert_all().conflict_retries(0).execute(row(2))
    assert winners(lance.dataset(uri)) == [1]


def test_btree_on_the_key_loses_the_guard(uri: str) -> None:
    """Why the ledger table has no BTREE on its key, and passes `use_index(False)` in case somebody adds one.

    When it fails: the guard holds with an index, which makes the insert cheaper: use it.
    """
    create_keyed(uri, {"id": {FLAG: "true"}}).create_scalar_index("id", "BTREE")
    assert race(uri, ["id"]) == BOTH


def test_use_index_false_brings_the_guard_back(uri: str) -> None:
    """See above.

    When it fails: a BTREE on the ledger's key loses commits; check for one before every publish.
    """
    create_keyed(uri, {"id": {FLAG: "true"}}).create_scalar_index("id", "BTREE")
    assert race(uri, ["id"], prepare=lambda builder: builder.use_index(False)) == FIRST_ONLY


def test_execute_uncommitted_loses_the_guard(uri: str) -> None:
    """Why Quire checks keys itself when it publishes: the uncommitted form of an upsert does not carry them.

    When it fails: a staged upsert carries its keys; Lance may do a part of the key check.
    """
    create_keyed(uri, {"id": {FLAG: "true"}})

    def execute(builder: Any, table: pa.Table) -> None:
        transaction, _ = builder.execute_uncommitted(table)
        LanceDataset.commit(uri, transaction, max_retries=0)

    assert race(uri, ["id"], execute=execute) == BOTH


@pytest.mark.parametrize(
    ("on", "result"),
    [(["a", "b"], FIRST_ONLY), (["b", "a"], BOTH), (["a"], BOTH)],
    ids=["in key order", "in another order", "a part of the key"],
)
def test_composite_key_guards_only_in_its_order(uri: str, on: list[str], result: Result) -> None:
    """Whoever relies on a composite key must name its columns in the order of their positions.

    When it fails: if the other orders are refused as well, the order no longer matters; if the key order lets both
    in, do not rely on composite keys.
    """
    create_keyed(uri, {"a": {POSITION: "1"}, "b": {POSITION: "2"}}, columns=("a", "b"))
    assert race(uri, on) == result


def test_updates_of_one_existing_row_collide_without_a_key(uri: str) -> None:
    """Row-level conflicts of matched rows need no annotation: a record that exists cannot be replaced twice.

    When it fails: the last of two stale writers wins silently; do not update ledger rows.
    """
    create_keyed(uri, {})
    lance.dataset(uri).update({"id": "'new'"})
    assert winners(lance.dataset(uri)) == [0]
    assert race(uri, ["id"]) == FIRST_ONLY


def test_nullable_key_is_refused(uri: str) -> None:
    """The schema of the ledger table declares its key non-null.

    When it fails: see whether null keys are guarded before allowing them.
    """
    schema = pa.schema([pa.field("id", pa.string(), metadata={FLAG: "true"})])
    with pytest.raises(OSError, match="must not be nullable"):
        lance.write_dataset(pa.table({"id": ["x"]}, schema=schema), uri)
