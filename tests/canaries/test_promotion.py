"""Promotion of a staged version to the table's HEAD (backfill): the operations as which it is told, and the namespace
calls that make it conditional."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pytest
from lance import LanceDataset, LanceOperation, Transaction

from .conftest import append, create, fragment_ids, ids, overwrite, records, rows, stage, upsert

TABLE = ["t"]


def fields(request: Any) -> dict[str, Any]:
    """Requests made by Lance itself are dicts with `model_dump`, those made in Python are models."""
    return request.model_dump() if hasattr(request, "model_dump") else dict(request)


class LinearNamespace(ln.LanceNamespace):
    """One table whose linear head is `head`. It knows detached versions, and accepts exactly the version after `head`.

    `asked` and `offered` record the version numbers of the calls. `before_create` runs just before the put-if-absent.
    """

    def __init__(self, uri: str, head: int) -> None:
        self.uri, self.head = uri, head
        self.asked: list[int] = []
        self.offered: list[int] = []
        self.staged_path = ""
        self.before_create: Callable[[], object] = lambda: None

    def namespace_id(self) -> str:
        return f"linear:{self.uri}:{id(self)}"

    def canonical(self, version: int) -> str:
        return f"{self.uri}/_versions/{2**64 - 1 - version:020}.manifest"

    def entry(self, version: int) -> ln.TableVersion:
        return self.entry_at(version, self.canonical(version))

    def entry_at(self, version: int, path: str) -> ln.TableVersion:
        return ln.TableVersion(version=version, manifest_path=path.lstrip("/"), timestamp_millis=0)

    def describe_table(self, request: Any) -> ln.DescribeTableResponse:
        return ln.DescribeTableResponse(location=self.uri, managed_versioning=True)

    def list_table_versions(self, request: Any) -> ln.ListTableVersionsResponse:
        return ln.ListTableVersionsResponse(versions=[self.entry(self.head)])

    def describe_table_version(self, request: Any) -> ln.DescribeTableVersionResponse:
        version = fields(request)["version"]
        self.asked.append(version)
        if version < 0:
            path = f"{self.uri}/_versions/d{version % 2**64}.manifest"
            return ln.DescribeTableVersionResponse(version=self.entry_at(version % 2**63, path))
        if version == self.head:
            return ln.DescribeTableVersionResponse(version=self.entry(version))
        raise ln.TableVersionNotFoundError(str(version))

    def create_table_version(self, request: Any) -> ln.CreateTableVersionResponse:
        call = fields(request)
        version = call["version"]
        self.offered.append(version)
        self.staged_path = "/" + call["manifest_path"]
        self.before_create()
        if version != self.head + 1:
            raise ln.ConcurrentModificationError(str(version))
        try:
            os.link(self.staged_path, self.canonical(version))
        except FileExistsError:
            raise ln.ConcurrentModificationError(str(version)) from None
        self.head = version
        return ln.CreateTableVersionResponse(version=self.entry(version))


def promote(namespace: LinearNamespace, version: int, properties: dict[str, str] | None = None) -> LanceDataset:
    handle = lance.dataset(namespace_client=namespace, table_id=TABLE)
    restore = LanceOperation.Restore(version)
    return LanceDataset.commit(
        handle,
        Transaction(read_version=handle.version, operation=restore, transaction_properties=properties or {}),
        namespace_client=namespace,
        table_id=TABLE,
        namespace_client_managed_versioning=True,
        max_retries=0,
    )


def refused() -> Any:
    """The error type is all that counts: what happened is read from the table."""
    return pytest.raises(OSError, match="version")


def linear_versions(uri: str) -> list[int]:
    return [version["version"] for version in lance.dataset(uri).versions()]


def leftovers(uri: str) -> list[Path]:
    return sorted((Path(uri) / "_versions").glob("*.manifest-*"))


def test_promotion_lands_exactly_one_version_after_head(uri: str) -> None:
    """Backfill of any number of chained staged versions is one linear version, seen by plain readers.

    When it fails: plain readers get no backfilled state, or an unexpected history; do not backfill with this pylance.
    """
    base = create(uri, 1)
    first = stage(base, append(base, 2))
    second = stage(first, append(first, 3))
    namespace = LinearNamespace(uri, head=1)
    promoted = promote(namespace, second.version, {"commit": "5.0"})

    assert namespace.offered == [2]
    assert promoted.version == 2
    assert linear_versions(uri) == [1, 2]
    head = lance.dataset(uri)
    assert records(head) == rows(1, 2, 3).to_pylist()
    assert head.read_transaction(2).transaction_properties == {"commit": "5.0"}


def test_promoted_table_goes_on_linearly_and_detached(uri: str) -> None:
    """After backfill plain writers append as usual, and staging goes on from the promoted version.

    When it fails: a backfilled table is broken for plain writers; do not backfill with this pylance.
    """
    base = create(uri, 1)
    promoted = promote(LinearNamespace(uri, head=1), stage(base, append(base, 2)).version)
    assert ids(stage(lance.dataset(uri, version=promoted.version), append(promoted, 3))) == [1, 2, 3]
    plain = lance.write_dataset(rows(4), uri, mode="append")
    assert (plain.version, ids(plain)) == (3, [1, 2, 4])


def test_detached_version_reaches_the_namespace_as_a_negative_int64(uri: str) -> None:
    """Quire's namespace finds the staged manifest by undoing the wrap-around of the version number.

    When it fails: look at the number that arrives and translate it; promotion does not find its source otherwise.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    namespace = LinearNamespace(uri, head=1)
    promote(namespace, staged.version)
    assert set(namespace.asked) == {staged.version - 2**64}


def test_promotion_after_a_foreign_append_is_refused_and_the_row_stays(uri: str) -> None:
    """Backfill never overwrites a foreign version. Lance rebases past it, so the namespace must insist on head + 1.

    When it fails: if the offered version is 2, the rebase is gone and put-if-absent has to refuse alone; if the
    promotion went through, stop: backfill loses rows of plain writers.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    namespace = LinearNamespace(uri, head=1)
    lance.write_dataset(rows(99), uri, mode="append")
    with refused():
        promote(namespace, staged.version)
    assert namespace.offered == [3]
    assert (linear_versions(uri), ids(lance.dataset(uri))) == ([1, 2], [1, 99])
    assert ids(lance.dataset(uri, version=staged.version)) == [1, 2]


def test_promotion_is_refused_when_a_foreign_append_comes_at_the_last_moment(uri: str) -> None:
    """The put-if-absent of the canonical manifest is the compare-and-swap against plain writers.

    When it fails: stop. Lance no longer treats the refusal of a namespace as final; backfill loses rows.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    namespace = LinearNamespace(uri, head=1)
    namespace.before_create = lambda: lance.write_dataset(rows(99), uri, mode="append")
    with refused():
        promote(namespace, staged.version)
    assert namespace.offered == [2]
    assert (linear_versions(uri), ids(lance.dataset(uri))) == ([1, 2], [1, 99])


def test_promoting_twice_from_one_head_is_refused(uri: str) -> None:
    """Two processes may backfill the same commit; the second must not add a version.

    When it fails: backfill is not idempotent; take a look at HEAD's transaction properties right before promoting.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    promote(LinearNamespace(uri, head=1), staged.version)
    with refused():
        promote(LinearNamespace(uri, head=1), staged.version)
    assert (linear_versions(uri), ids(lance.dataset(uri))) == ([1, 2], [1, 2])


def test_writer_leaves_its_manifest_with_a_uuid_behind(uri: str) -> None:
    """Backfill deletes it, after success and after refusal: such names sort before HEAD and slow every open down.

    When it fails: Lance deletes it itself; drop the delete request from backfill.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    namespace = LinearNamespace(uri, head=1)
    promote(namespace, staged.version)
    assert leftovers(uri) == [Path(namespace.staged_path)]
    assert namespace.staged_path.startswith(namespace.canonical(2) + "-")

    late = LinearNamespace(uri, head=1)
    with refused():
        promote(late, staged.version)
    assert set(leftovers(uri)) == {Path(namespace.staged_path), Path(late.staged_path)}

    for file in leftovers(uri):
        file.unlink()
    assert ids(lance.dataset(uri)) == [1, 2]


def test_unconditional_restore_drops_a_foreign_append(uri: str) -> None:
    """Why backfill goes through a namespace: a plain `Restore` ignores its read version, even with no retries.

    When it fails (an error, and the foreign row is there): plain `Restore` became conditional, and backfill may use
    it without a namespace.
    """
    base = create(uri, 1)
    staged = stage(base, append(base, 2))
    lance.write_dataset(rows(99), uri, mode="append")
    restore = Transaction(read_version=1, operation=LanceOperation.Restore(staged.version))
    assert ids(LanceDataset.commit(uri, restore, max_retries=0)) == [1, 2]
    assert (linear_versions(uri), ids(lance.dataset(uri))) == ([1, 2, 3], [1, 2])


class PointingNamespace(LinearNamespace):
    """Takes every version as it comes and answers with `path` for its head: nothing is put at the canonical name."""

    path = ""

    def list_table_versions(self, request: Any) -> ln.ListTableVersionsResponse:
        entry = self.entry_at(self.head, self.path or self.canonical(self.head))
        return ln.ListTableVersionsResponse(versions=[entry])

    def create_table_version(self, request: Any) -> ln.CreateTableVersionResponse:
        call = fields(request)
        self.head, self.path = call["version"], "/" + call["manifest_path"]
        self.staged_path = self.path
        return ln.CreateTableVersionResponse(version=self.entry_at(self.head, self.path))


def test_reader_given_a_uuid_path_overwrites_a_foreign_version(uri: str) -> None:
    """Why a namespace of Quire never hands out a path that does not end in `.manifest`: reading it "finalises" it.

    When it fails (the foreign row survives): the trap is gone; the rule costs nothing and may stay.
    """
    create(uri, 1)
    namespace = PointingNamespace(uri, head=1)
    lance.write_dataset(rows(2), mode="append", namespace_client=namespace, table_id=TABLE)
    assert ids(lance.dataset(uri)) == [1]
    lance.write_dataset(rows(99), uri, mode="append")
    assert ids(lance.dataset(uri)) == [1, 99]

    assert ids(lance.dataset(namespace_client=namespace, table_id=TABLE)) == [1, 2]
    assert ids(lance.dataset(uri)) == [1, 2]


def test_reader_given_a_manifest_path_elsewhere_leaves_head_alone(uri: str) -> None:
    """A manifest kept anywhere under a name that ends in `.manifest` is read as it is: own writes, HEAD untouched.

    When it fails: unmodified clients cannot read staged versions through a namespace without moving HEAD.
    """
    create(uri, 1)
    namespace = PointingNamespace(uri, head=1)
    lance.write_dataset(rows(2), mode="append", namespace_client=namespace, table_id=TABLE)
    aside = Path(uri) / "_staged" / Path(namespace.canonical(2)).name
    aside.parent.mkdir()
    Path(namespace.staged_path).rename(aside)
    namespace.path = str(aside)

    assert ids(lance.dataset(namespace_client=namespace, table_id=TABLE)) == [1, 2]
    assert (linear_versions(uri), ids(lance.dataset(uri))) == ([1], [1])
    assert not Path(namespace.canonical(2)).exists()


def told(base: LanceDataset, staged: LanceDataset, make: Callable[[list[Any]], LanceOperation.BaseOperation]) -> Any:
    """A linear commit of an operation made from the fragments that a staged version has."""
    operation = make([fragment.metadata for fragment in staged.get_fragments()])
    return LanceDataset.commit(base, Transaction(read_version=base.version, operation=operation), max_retries=0)


def metadata(dataset: LanceDataset) -> list[dict[str, Any]]:
    return [fragment.metadata.to_json() for fragment in dataset.get_fragments()]


def test_fragments_that_have_a_number_keep_it_in_a_linear_commit(uri: str) -> None:
    """Backfill commits the fragments of a staged version as they are, also where numbers were left out.

    When it fails: the states differ, and every backfill is a `Restore` again, over which no stale plain handle writes.
    """
    base = create(uri, 1, 2)
    first = stage(base, append(base, 3))
    second = stage(stage(first, LanceOperation.Delete([], [1], "all")), append(first, 4))
    third = stage(second, upsert(second, rows(2, 5)))
    assert fragment_ids(third) == [0, 2, 3]
    appended = told(base, second, lambda fragments: LanceOperation.Append(fragments[1:]))
    assert metadata(appended) == metadata(second)
    updated = told(appended, third, lambda f: LanceOperation.Update([], f[:1], f[2:], [], []))
    assert metadata(updated) == metadata(third)
    assert records(updated) == records(third)
    assert fragment_ids(lance.write_dataset(rows(9), uri, mode="append")) == [0, 2, 3, 4]


STALE: dict[str, Callable[[LanceDataset], Any]] = {
    "append": lambda handle: lance.write_dataset(rows(9), handle, mode="append"),
    "merge": lambda handle: handle.merge_insert("id").when_not_matched_insert_all().execute(rows(9)),
    "delete": lambda handle: handle.delete("id = 1"),
}


@pytest.mark.parametrize("writer", STALE)
def test_a_stale_handle_is_rebased_over_an_update_and_fails_over_a_restore(tmp_path: Path, writer: str) -> None:
    """Why backfill tells the true operation.

    When it fails over the update: plain handles meet more conflicts. When it does not fail over the restore: stale
    handles are rebased over it too, and the search for the true operation can go.
    """
    for true in (True, False):
        uri = str(tmp_path / f"{true}.lance")
        stale = create(uri, 1, 2)
        staged = stage(stale, upsert(stale, rows(2, 5)))
        if true:
            told(stale, staged, lambda f: LanceOperation.Update([], f[:1], f[1:], [], []))
            STALE[writer](stale)
            assert ids(lance.dataset(uri)) == sorted({1, 2, 5} - {1} if writer == "delete" else {1, 2, 5, 9})
        else:
            LanceDataset.commit(uri, LanceOperation.Restore(staged.version))
            with pytest.raises(OSError, match="incompatible with concurrent transaction Restore"):
                STALE[writer](stale)


def test_a_stale_handle_is_rebased_over_an_update_that_overwrote_the_table(uri: str) -> None:
    """Why an overwrite is told as a restore: told as an update of all rows, a stale append would go through.

    When it fails: Lance refuses it; then nothing needs to be known of overwrites in between.
    """
    stale = create(uri, 1, 2)
    staged = stage(stale, overwrite(stale, 7))
    told(stale, staged, lambda fragments: LanceOperation.Update([0], [], fragments, [], []))
    assert ids(lance.write_dataset(rows(9), stale, mode="append")) == [7, 9]


def test_a_stale_handle_indexes_a_fragment_whose_number_was_given_again(uri: str) -> None:
    """Why a number is never given again but by a restore: an index of the old rows would be taken for one of the new.

    When it fails (the row is found): Lance compares more than the number, and such states can be told as updates.
    """
    create(uri, 1)
    stale = lance.write_dataset(rows(2), uri, mode="append")
    again = stage(lance.dataset(uri, version=1), append(stale, 50))
    assert fragment_ids(again) == [0, 1]
    told(stale, again, lambda fragments: LanceOperation.Update([1], [], fragments[1:], [], []))
    stale.create_scalar_index("id", "BTREE")
    assert ids(lance.dataset(uri)) == [1, 50]
    assert ids(lance.dataset(uri), filter="id = 50") == []


def test_restore_remembers_the_highest_number_of_a_fragment(uri: str) -> None:
    """After a restore of fewer fragments plain writers give no number again.

    When it fails: HEAD no longer knows which numbers were used; new fragments must be told as a restore.
    """
    create(uri, 1)
    lance.write_dataset(rows(2), uri, mode="append")
    LanceDataset.commit(uri, LanceOperation.Restore(1))
    assert fragment_ids(lance.write_dataset(rows(3), uri, mode="append")) == [0, 2]


def test_where_the_protobuf_lies_in_a_manifest(uri: str) -> None:
    """Backfill reads a manifest's fields from the file: at the place that its last 16 bytes name, after its length.

    When it fails: `quire.formats.lance.head.manifest_fields` must learn the new layout. Until then backfill restores.
    """
    handle = create(uri, 1)
    handle.create_scalar_index("id", "BTREE")
    handle = lance.dataset(uri)
    body = Path(LinearNamespace(uri, 2).canonical(2)).read_bytes()
    start, length = int.from_bytes(body[-16:-8], "little"), 4
    message = body[start + length : start + length + int.from_bytes(body[start : start + length], "little")]
    assert body[-4:] == b"LANC"
    assert start + length + len(message) == len(body) - 16
    assert message == bytes(handle._ds.serialized_manifest())
