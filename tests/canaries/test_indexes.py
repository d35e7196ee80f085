"""Indexes and compaction as operations that can be staged: built uncommitted, committed detached, used by queries."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, write_fragments
from lance.optimize import Compaction, CompactionTask, RewriteResult

from .conftest import append, create, delete, fragment_ids, ids, index, records, rows, stage


def plan(dataset: LanceDataset, **scan: Any) -> str:
    return dataset.scanner(columns=["id"], **scan).explain_plan()


def documents(*entries: tuple[int, str, str]) -> pa.Table:
    id_, kind, text = zip(*entries, strict=True)
    return pa.table({"id": pa.array(id_, pa.int64()), "kind": kind, "text": text})


def create_documents(uri: str) -> LanceDataset:
    """Twenty documents in two fragments, of kinds a and b in turn."""
    table = documents(*((i, "ab"[i % 2], f"word{i} common") for i in range(20)))
    return lance.write_dataset(table, uri, max_rows_per_file=10)


SCALAR = {
    "BTREE": ("id", "id = 7", [7], [7, 7]),
    "BITMAP": ("kind", "kind = 'b'", list(range(1, 20, 2)), sorted([*range(1, 20, 2), 7])),
}


@pytest.mark.parametrize("kind", SCALAR)
def test_staged_scalar_index_is_used_and_right_with_unindexed_fragments(uri: str, kind: str) -> None:
    """Index builds are staged like any write, and later appends need not wait for the index to be extended.

    When it fails: if the plan lost the index, stage no index of this kind; if the answer is wrong, drop the index
    from the pin before staging rows on it.
    """
    column, condition, before, after = SCALAR[kind]
    base = create_documents(uri)
    indexed = stage(base, LanceOperation.CreateIndex([index(base, column, kind)], []))
    assert "ScalarIndexQuery" in plan(indexed, filter=condition)
    assert ids(indexed, filter=condition) == before

    late = write_fragments(documents((7, "b", "late"), (8, "a", "late")), indexed, mode="append")
    extended = stage(indexed, LanceOperation.Append(late))
    assert "ScalarIndexQuery" in plan(extended, filter=condition)
    assert ids(extended, filter=condition) == after
    assert "ScalarIndexQuery" not in plan(lance.dataset(uri), filter=condition)


def test_staged_scalar_index_honours_later_deletions(uri: str) -> None:
    """A delete staged on an indexed version does not rewrite the index.

    When it fails: deleted rows come back through the index; rebuild or drop it with every delete.
    """
    base = create(uri, *range(10))
    indexed = stage(base, LanceOperation.CreateIndex([index(base, "id", "BTREE")], []))
    deleted = stage(indexed, delete(indexed, 0, 7))
    assert "ScalarIndexQuery" in plan(deleted, filter="id IN (6, 7)")
    assert ids(deleted, filter="id IN (6, 7)") == [6]


def test_uncommitted_index_needs_fragment_ids(uri: str) -> None:
    """Quire always names every fragment of the pin.

    When it fails: fine; the argument may be left out.
    """
    base = create(uri, 1)
    with pytest.raises(ValueError, match="fragment_ids"):
        base.create_index_uncommitted("id", "BTREE", name="ix")


def test_second_build_under_one_name_needs_replace(uri: str) -> None:
    """An index is rebuilt with `replace=True` and staged with the old one named as removed.

    When it fails: see whether the old segment is still in the manifest and answers queries twice.
    """
    base = create(uri, *range(10))
    old = index(base, "id", "BTREE")
    indexed = stage(base, LanceOperation.CreateIndex([old], []))
    with pytest.raises(RuntimeError, match="already exists"):
        index(indexed, "id", "BTREE")
    grown = stage(indexed, append(indexed, 10, 11))
    new = index(grown, "id", "BTREE", replace=True)
    rebuilt = stage(grown, LanceOperation.CreateIndex([new], [old]))
    (description,) = rebuilt.describe_indices()
    assert (description.name, description.num_rows_indexed, len(description.segments)) == ("ix", 12, 1)
    assert ids(rebuilt, filter="id IN (3, 11)") == [3, 11]


def test_staged_index_survives_restore(uri: str) -> None:
    """Backfill brings the index to HEAD, for plain readers.

    When it fails: build the index again after backfill, or say that plain readers scan.
    """
    base = create(uri, *range(10))
    indexed = stage(base, LanceOperation.CreateIndex([index(base, "id", "BTREE")], []))
    LanceDataset.commit(uri, LanceOperation.Restore(indexed.version))
    head = lance.dataset(uri)
    assert "ScalarIndexQuery" in plan(head, filter="id = 7")
    assert ids(head, filter="id = 7") == [7]


def test_inverted_index_answers_after_its_segments_are_merged(uri: str) -> None:
    """A staged full-text index goes through `merge_existing_index_segments` first, then `CreateIndex`.

    When it fails: full-text indexes cannot be staged this way; refuse to build them.
    """
    base = create_documents(uri)
    merged = base.merge_existing_index_segments([index(base, "text", "INVERTED")])
    indexed = stage(base, LanceOperation.CreateIndex([merged], []))
    assert "MatchQuery" in plan(indexed, full_text_query="word7")
    assert ids(indexed, full_text_query="word7") == [7]
    assert ids(indexed, full_text_query="common") == list(range(20))

    late = write_fragments(documents((100, "a", "word7 late")), indexed, mode="append")
    extended = stage(indexed, LanceOperation.Append(late))
    assert ids(extended, full_text_query="word7") == [7, 100]
    assert ids(extended, full_text_query="late") == [100]


def test_inverted_index_without_merging_cannot_be_queried(uri: str) -> None:
    """Why the merge step is there.

    When it fails (the answer is right): the merge step may go.
    """
    base = create_documents(uri)
    indexed = stage(base, LanceOperation.CreateIndex([index(base, "text", "INVERTED")], []))
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        ids(indexed, full_text_query="word7")


def vectors(start: int, values: list[list[float]]) -> pa.Table:
    flat = pa.array([x for vector in values for x in vector], pa.float32())
    numbers = pa.array(range(start, start + len(values)), pa.int64())
    return pa.table({"id": numbers, "vector": pa.FixedSizeListArray.from_arrays(flat, len(values[0]))})


@pytest.mark.parametrize(
    ("kind", "options"),
    [("IVF_FLAT", {"num_partitions": 2}), ("IVF_PQ", {"num_partitions": 2, "num_sub_vectors": 4})],
    ids=["IVF_FLAT", "IVF_PQ"],
)
def test_staged_vector_index_is_used_and_right_with_unindexed_fragments(
    uri: str, kind: str, options: dict[str, int]
) -> None:
    """Vector indexes are staged like scalar ones; rows appended later are found beside the index.

    When it fails: as for scalar indexes, per kind.
    """
    draw = random.Random(0)
    points = [[draw.random() for _ in range(8)] for _ in range(512)]
    base = lance.write_dataset(vectors(0, points), uri, max_rows_per_file=256)
    indexed = stage(base, LanceOperation.CreateIndex([index(base, "vector", kind, **options)], []))

    # All partitions and a wide refinement make the answer exact, so that training cannot change it.
    def nearest(point: list[float]) -> dict[str, Any]:
        return {"column": "vector", "q": point, "k": 1, "nprobes": 2, "refine_factor": 100}

    assert "ANNSubIndex: name=ix" in plan(indexed, nearest=nearest(points[300]))
    assert ids(indexed, nearest=nearest(points[300])) == [300]

    far = [5.0] * 8
    extended = stage(indexed, LanceOperation.Append(write_fragments(vectors(9000, [far]), indexed, mode="append")))
    assert "ANNSubIndex: name=ix" in plan(extended, nearest=nearest(far))
    assert ids(extended, nearest=nearest(far)) == [9000]
    assert ids(extended, nearest=nearest(points[17])) == [17]
    assert "ANNSubIndex" not in plan(lance.dataset(uri), nearest=nearest(far))


def compact(base: LanceDataset) -> tuple[LanceOperation.Rewrite, list[RewriteResult]]:
    """Run the compaction tasks of `base` and spell the result as one operation, with unused fragment ids.

    Tasks and results travel as JSON, as they would to and from a worker.
    """
    tasks = Compaction.plan(base, {"target_rows_per_fragment": 1_000}).tasks
    results = [CompactionTask.from_json(task.json()).execute(base) for task in tasks]
    unused = max(fragment_ids(base)) + 1
    groups = []
    for result in results:
        content = json.loads(result.json())
        for fragment in content["new_fragments"]:
            fragment["id"], unused = unused, unused + 1
        old, new = (
            [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in content[which]]
            for which in ("original_fragments", "new_fragments")
        )
        groups.append(LanceOperation.RewriteGroup(old, new))
    return LanceOperation.Rewrite(groups=groups, rewritten_indices=[]), results


def test_compaction_is_one_rewrite_that_keeps_values(uri: str) -> None:
    """`optimize` compacts by plan, execute and one staged `Rewrite`.

    When it fails: do not compact with this pylance.
    """
    base = create(uri, *range(8), rows_per_file=2)
    deleted = stage(base, delete(base, 1, 1))
    rewrite, _ = compact(deleted)
    compacted = stage(deleted, rewrite)
    assert fragment_ids(compacted) == [4]
    assert compacted.get_fragment(4).num_deletions == 0
    assert records(compacted) == rows(0, 1, 2, 4, 5, 6, 7).to_pylist()
    assert records(lance.dataset(uri)) == rows(*range(8)).to_pylist()


def test_compaction_without_its_indexes_leaves_them_unused_but_answers_right(uri: str) -> None:
    """Why `optimize` rebuilds indexes in the same transaction: a `Rewrite` alone turns them off.

    When it fails: if the plan has the index and the answers are right, indexes are carried along and need no rebuild;
    if the answers are wrong, do not compact with this pylance.
    """
    base = create(uri, *range(8), rows_per_file=2)
    old = index(base, "id", "BTREE")
    indexed = stage(base, LanceOperation.CreateIndex([old], []))
    deleted = stage(indexed, delete(indexed, 1, 1))
    compacted = stage(deleted, compact(deleted)[0])
    assert "ScalarIndexQuery" not in plan(compacted, filter="id IN (3, 7)")
    assert ids(compacted, filter="id IN (3, 7)") == [7]

    new = index(compacted, "id", "BTREE", replace=True)
    rebuilt = stage(compacted, LanceOperation.CreateIndex([new], [old]))
    assert "ScalarIndexQuery" in plan(rebuilt, filter="id IN (3, 7)")
    assert ids(rebuilt, filter="id IN (3, 7)") == [7]


def test_refused_compaction_commit_deletes_the_compacted_files(uri: str) -> None:
    """Why `optimize` never tries `Compaction.commit` first: on a detached handle it fails and takes the files along.

    When it fails: if the call succeeded, it may replace the hand-made `Rewrite`; if the files stay, nothing to do.
    """
    base = create(uri, *range(4), rows_per_file=2)
    staged = stage(base, append(base, 9))
    before = set((Path(uri) / "data").iterdir())
    _, results = compact(staged)
    written = set((Path(uri) / "data").iterdir()) - before
    assert len(written) == 1
    with pytest.raises(OSError, match="detached"):
        Compaction.commit(staged, results)
    assert set((Path(uri) / "data").iterdir()) == before
    assert ids(lance.dataset(uri, version=staged.version)) == [0, 1, 2, 3, 9]
