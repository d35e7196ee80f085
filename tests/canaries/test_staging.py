"""Detached commits: how Quire stages a table version that nobody sees before its commit is published."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments

from .conftest import append, create, delete, fragment_ids, ids, overwrite, records, rows, stage


def test_detached_commit_is_invisible_to_head_and_versions(uri: str) -> None:
    """Staging relies on it: an unpublished write must not reach a plain reader.

    When it fails: stop. Staging by detached commits leaks; stage through a namespace with managed versioning instead.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))

    head = lance.dataset(uri)
    assert staged.version >= 2**63
    assert ids(staged) == [1, 2]
    assert (head.version, head.latest_version, ids(head)) == (1, 1, [1])
    assert [version["version"] for version in head.versions()] == [1]


def test_detached_manifest_is_named_d_and_the_version(uri: str) -> None:
    """Backfill, scratch manifests and cleanup address a staged version by this path.

    When it fails: change the one place that builds the path, and keep reading the old name for staged versions that
    exist already.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    assert (Path(uri) / "_versions" / f"d{staged.version}.manifest").is_file()


def test_detached_version_opens_by_its_number(uri: str) -> None:
    """A pin holds a version number; every snapshot opens its tables this way, backfilled or not.

    When it fails: pins have to hold manifest paths, and snapshots have to open tables through a namespace.
    """
    base = create(uri, 1)
    version = stage(base, append(base, 2)).version
    assert records(lance.dataset(uri, version=version)) == [{"id": 1, "v": 10}, {"id": 2, "v": 20}]


def test_detached_commits_chain(uri: str) -> None:
    """A transaction that writes one table several times stages each write on the one before.

    When it fails: fuse the writes of one table into one operation before staging.
    """
    base = create(uri, 1, 2)
    first = stage(base, append(base, 3))
    second = stage(first, delete(first, 0, 0))
    third = stage(second, append(second, 4))
    assert ids(lance.dataset(uri, version=third.version)) == [2, 3, 4]
    assert ids(lance.dataset(uri, version=first.version)) == [1, 2, 3]
    assert ids(lance.dataset(uri)) == [1, 2]


def test_chained_detached_commits_poison_row_versions(uri: str) -> None:
    """Why stable row ids are off by default, and why diff, merge and change feed go by key.

    When it fails (row versions came out small): Lance's own change feed may have become usable; check values first.
    """
    base = lance.write_dataset(rows(1), uri, enable_stable_row_ids=True)
    first = stage(base, append(base, 2))
    second = stage(first, append(first, 3))
    created = second.to_table(columns=["_row_created_at_version"])["_row_created_at_version"].to_pylist()
    assert created == [1, 2, first.version + 1]


def test_detached_commit_on_pinned_handle_stays_on_its_base(uri: str) -> None:
    """Staging passes a handle pinned at the snapshot, so that later commits of others do not leak in.

    When it fails: staged versions mix with foreign commits; refuse the new pylance.
    """
    base = create(uri, 0, 1, 2)
    operation = delete(base, 0, 0)
    lance.write_dataset(rows(100), uri, mode="append")
    pinned = lance.dataset(uri, version=1)
    assert ids(stage(pinned, operation)) == [1, 2]


def test_detached_commit_on_uri_applies_to_head_and_resurrects_rows(uri: str) -> None:
    """Why staging never passes a URI: the read version is ignored and no conflict is looked for.

    When it fails (an error, or [1, 100]): detached commits now check for conflicts. Good news; the rule to pass a
    pinned handle may stay.
    """
    base = create(uri, 0, 1, 2)
    transaction = Transaction(read_version=base.version, operation=delete(base, 0, 0))
    lance.write_dataset(rows(100), uri, mode="append")
    lance.dataset(uri).delete("id = 2")
    assert ids(lance.dataset(uri)) == [0, 1, 100]
    assert ids(LanceDataset.commit(uri, transaction, detached=True)) == [1, 2, 100]


ORDINARY_VERBS: dict[str, Callable[[LanceDataset], object]] = {
    "append": lambda table: lance.write_dataset(rows(9), table, mode="append"),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"v": "0"}),
    "merge_insert": lambda table: table.merge_insert("id").when_not_matched_insert_all().execute(rows(9)),
    "create_scalar_index": lambda table: table.create_scalar_index("id", "BTREE"),
    "add_columns": lambda table: table.add_columns({"n": "id * 2"}),
    "drop_columns": lambda table: table.drop_columns(["v"]),
    "alter_columns": lambda table: table.alter_columns({"path": "v", "name": "w"}),
    "compact_files": lambda table: table.optimize.compact_files(),
    "linear_commit": lambda table: LanceDataset.commit(table, append(table, 9), read_version=table.version),
}


@pytest.mark.parametrize("verb", ORDINARY_VERBS)
def test_ordinary_verb_refuses_on_detached_handle(uri: str, verb: str) -> None:
    """A staged handle that escapes to user code cannot move HEAD by accident; Quire spells every verb as an operation.

    When it fails: see where the write went. If it stayed detached, the verb may be used directly and Quire's own
    spelling of it dropped; if it reached HEAD, hand out read-only wrappers.
    """
    base = create(uri, 1, 2)
    staged = stage(base, append(base, 3))
    with pytest.raises((OSError, RuntimeError), match="detached"):
        ORDINARY_VERBS[verb](staged)
    head = lance.dataset(uri)
    assert (head.version, head.schema.names, records(head)) == (1, ["id", "v"], rows(1, 2).to_pylist())
    assert ids(lance.dataset(uri, version=staged.version)) == [1, 2, 3]


def test_transaction_properties_survive_detached_commit(uri: str) -> None:
    """Every Lance commit of Quire names its lake and commit there; that tells Quire's own versions from foreign ones.

    When it fails: only the ledger can tell whose a version is; look every version up there.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2), {"lake": "L", "commit": "5.0"})
    reopened = lance.dataset(uri).read_transaction(staged.version)
    assert reopened.transaction_properties == {"lake": "L", "commit": "5.0"}
    assert reopened.read_version == 1


def test_transaction_properties_survive_restore(uri: str) -> None:
    """A backfilled HEAD names the commit it stands for, so that nobody takes it for foreign or backfills it twice.

    When it fails: recovery cannot tell a backfilled HEAD from a foreign one; compare the restored version number, or
    keep a record of backfills.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2), {"commit": "5.0"})
    restore = LanceOperation.Restore(staged.version)
    promoted = LanceDataset.commit(
        uri, Transaction(read_version=1, operation=restore, transaction_properties={"backfilled": "5.0"})
    )
    assert (promoted.version, ids(promoted)) == (2, [1, 2])
    transaction = lance.dataset(uri).read_transaction(2)
    assert transaction.transaction_properties == {"backfilled": "5.0"}
    assert transaction.operation.version == staged.version
    assert lance.dataset(uri).read_transaction(staged.version).transaction_properties == {"commit": "5.0"}


def test_separate_transaction_file_is_still_written(uri: str) -> None:
    """Cost: a staged write is data, transaction file and manifest, which makes 3T+1 requests for T tables.

    When it fails: good news. Staging may drop to 2T+1 requests; lower the asserted request counts and the tables in
    the documentation, and drop the transaction files from cleanup.
    """
    base = create(uri, 1)
    transaction = write_fragments(rows(2), base, mode="append", return_transaction=True)
    base.io_stats_incremental()
    LanceDataset.commit(base, transaction, detached=True)
    assert base.io_stats_incremental().write_iops == 2
    assert (Path(uri) / "_transactions" / f"1-{transaction.uuid}.txn").is_file()


def test_commit_has_no_switch_for_the_transaction_file(uri: str) -> None:
    """The switch that upstream is asked for would most likely be a new argument of `commit`.

    When it fails: read what the new argument does. If it turns the separate transaction file off, use it when staging
    (2T+1 requests instead of 3T+1); either way add the name here.
    """
    assert set(inspect.signature(LanceDataset.commit).parameters) == {
        "base_uri",
        "operation",
        "read_version",
        "commit_lock",
        "storage_options",
        "enable_v2_manifest_paths",
        "detached",
        "max_retries",
        "commit_message",
        "enable_stable_row_ids",
        "namespace_client",
        "table_id",
        "namespace_client_managed_versioning",
        "base_store_params",
        "commit_timeout",
    }


def test_manifest_carries_the_transaction_inline(uri: str) -> None:
    """Scratch tables copy manifests only, and cleanup may delete the transaction files of staged versions.

    When it fails: keep the transaction files as long as their versions, and copy them along.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2), {"commit": "5.0"})
    for file in (Path(uri) / "_transactions").iterdir():
        file.unlink()
    assert lance.dataset(uri).read_transaction(staged.version).transaction_properties == {"commit": "5.0"}
    assert ids(LanceDataset.commit(uri, LanceOperation.Restore(staged.version))) == [1, 2]


def test_delete_rows_takes_physical_offsets(uri: str) -> None:
    """Quire finds rows by row address; the low half of an address is the offset `delete_rows` wants.

    When it fails: wrong rows get deleted. Refuse the new pylance until offsets are mapped.
    """
    base = create(uri, *range(6))
    first = stage(base, delete(base, 0, 0, 1))
    assert ids(first) == [2, 3, 4, 5]
    addresses = first.to_table(columns=["id"], filter="id = 4", with_row_address=True)["_rowaddr"].to_pylist()
    assert addresses == [4]
    assert ids(stage(first, delete(first, 0, *addresses))) == [2, 3, 5]


def test_delete_rows_unions_with_existing_deletions(uri: str) -> None:
    """Chained deletes on one fragment pass only the new offsets.

    When it fails: earlier deletes come back; pass the union of old and new offsets.
    """
    base = create(uri, *range(6))
    first = stage(base, delete(base, 0, 0, 1))
    assert ids(stage(first, delete(first, 0, 3))) == [2, 4, 5]
    assert ids(stage(first, delete(first, 0, 1, 5))) == [2, 3, 4]


def test_delete_rows_returns_none_when_the_fragment_becomes_empty(uri: str) -> None:
    """Then the fragment goes to `deleted_fragment_ids`; a fragment without rows must not stay in the manifest.

    When it fails: decide by row counts which fragments to remove.
    """
    base = create(uri, *range(4), rows_per_file=2)
    half = stage(base, delete(base, 0, 0))
    assert half.get_fragment(0).delete_rows([1]) is None
    assert base.get_fragment(0).delete_rows([0]).num_deletions == 1
    emptied = stage(half, LanceOperation.Delete([], [0], "by offset"))
    assert (fragment_ids(emptied), ids(emptied)) == ([1], [2, 3])


def test_update_takes_removed_updated_and_new_fragments_at_once(uri: str) -> None:
    """An upsert is staged as one `Update`: emptied fragments, fragments with deletions and the new rows together.

    When it fails: stage the delete and the append as two chained commits.
    """
    base = create(uri, *range(6), rows_per_file=2)
    operation = LanceOperation.Update(
        removed_fragment_ids=[0],
        updated_fragments=[base.get_fragment(1).delete_rows([0])],
        new_fragments=write_fragments(rows(100, 101), base, mode="append"),
        fields_modified=[],
        fields_for_preserving_frag_bitmap=[],
    )
    staged = stage(base, operation)
    assert fragment_ids(staged) == [1, 2, 3]
    assert records(staged) == rows(3, 4, 5, 100, 101).to_pylist()


def test_write_fragments_given_a_handle_writes_into_that_table(uri: str) -> None:
    """Writers pass the pinned handle, also a detached one, and the rows land beside the data of that table.

    When it fails: pass the table's URI and check the schema before writing.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    (fragment,) = write_fragments(rows(3), staged, mode="append")
    assert (Path(uri) / "data" / fragment.files[0].path).is_file()
    assert ids(stage(staged, LanceOperation.Append([fragment]))) == [1, 2, 3]
    with pytest.raises(OSError, match="schema"):
        write_fragments(pa.table({"other": ["x"]}), staged, mode="append")


def test_returned_transaction_reads_the_detached_version(uri: str) -> None:
    """A transaction built on a staged handle names that handle as its base.

    When it fails: build `Transaction` by hand with the handle's version.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    transaction = write_fragments(rows(3), staged, mode="append", return_transaction=True)
    assert transaction.read_version == staged.version
    assert ids(LanceDataset.commit(staged, transaction, detached=True)) == [1, 2, 3]


def test_commit_batch_fuses_appends_on_the_base_of_the_handle(uri: str) -> None:
    """Several appends of one transaction become one detached version.

    When it fails: collect the fragments and stage one `Append`.
    """
    base = create(uri, 1)
    batch = [write_fragments(rows(i), base, mode="append", return_transaction=True) for i in (2, 3)]
    lance.write_dataset(rows(100), uri, mode="append")
    fused = LanceDataset.commit_batch(lance.dataset(uri, version=1), batch, detached=True)["dataset"]
    assert (fused.version >= 2**63, ids(fused), ids(lance.dataset(uri))) == (True, [1, 2, 3], [1, 100])


def test_default_cleanup_spares_fresh_staged_data(uri: str) -> None:
    """A foreign `cleanup_old_versions()` with its defaults leaves writes in flight alone for seven days.

    When it fails: a foreign cleanup can destroy any staged write; say so in the documentation.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    removed = base.cleanup_old_versions(older_than=timedelta(0))
    assert removed.data_files_removed == 0
    assert ids(lance.dataset(uri, version=staged.version)) == [1, 2]


def test_cleanup_with_delete_unverified_destroys_staged_data(uri: str) -> None:
    """Why Quire has its own cleanup and never calls Lance's: detached manifests do not count as references.

    When it fails (the staged rows survive): detached versions became references; plain maintenance on Quire's tables
    may be supported, and Quire's own cleanup may shrink.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    removed = base.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert removed.data_files_removed == 1
    assert (Path(uri) / "_versions" / f"d{staged.version}.manifest").is_file()
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        ids(lance.dataset(uri, version=staged.version))


def test_cleanup_after_compaction_destroys_the_base_under_a_staged_version(uri: str) -> None:
    """Why plain maintenance on Quire's tables is unsupported: compaction and default cleanup destroy pinned versions.

    When it fails (the staged rows survive): plain maintenance may be supported; revise the documentation.
    """
    base = create(uri, *range(4), rows_per_file=2)
    staged = stage(base, append(base, 9))
    base.optimize.compact_files()
    assert lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0)).data_files_removed == 2
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        ids(lance.dataset(uri, version=staged.version))


def test_tag_on_the_base_protects_the_files_under_a_staged_version(uri: str) -> None:
    """The one protection against a foreign cleanup that can be recommended: a Lance tag on the base.

    When it fails: stop recommending it; only keeping foreign cleanups away helps.
    """
    base = create(uri, *range(4), rows_per_file=2)
    staged = stage(base, append(base, 9))
    base.tags.create("base", 1)
    base.optimize.compact_files()
    removed = lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    assert removed.data_files_removed == 0
    assert ids(lance.dataset(uri, version=staged.version)) == [0, 1, 2, 3, 9]


def test_detached_commit_cannot_create_a_dataset(uri: str, tmp_path: Path) -> None:
    """Why a new table is an ordinary write at a fresh location, which exists for nobody until a commit pins it.

    When it fails: good news. Creating a table may be staged like every other write, without a special case.
    """
    base = create(str(tmp_path / "other.lance"), 1)
    operation = overwrite(base, 1)
    with pytest.raises(OSError, match="cannot currently be used to create new datasets"):
        LanceDataset.commit(uri, operation, detached=True)
    assert not Path(uri).exists()
