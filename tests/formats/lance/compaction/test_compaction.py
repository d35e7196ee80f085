"""Compaction and longer indexes change no answer, cost what is new, and can be moved over what rivals did."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from tests.formats.lance.conftest import Tables, rows

from quire.errors import InvalidInput, Refused
from quire.formats import IndexSpec, Upkeep
from quire.formats.lance.compaction import plan
from quire.formats.lance.indexes import extend
from quire.ledger import Change, Pin

HOW = Upkeep()
Statement = Callable[[Any], Any]


def pieces(tables: Tables, *parts: Sequence[int]) -> Pin:
    """A table with one fragment per part."""
    pin = tables.create(rows(*parts[0]))
    for part in parts[1:]:
        pin = tables.append(pin, *part)
    return pin


def tidy(how: Upkeep = HOW) -> Statement:
    def both(work: Any) -> None:
        work.upkeep.compact(how)
        work.upkeep.extend_indexes(how)

    return both


def want(column: str, kind: str, name: str = "ix", **options: Any) -> Statement:
    return lambda w: w.indexes.create(IndexSpec(column, kind, name, options), replace=False)


def fragments(tables: Tables, pin: Pin) -> list[int]:
    """Rows of every fragment."""
    return [f.count_rows() for f in tables.handle(pin).get_fragments()]


def files(tables: Tables) -> set[str]:
    return {str(p.relative_to(tables.folder)) for p in tables.folder.rglob("*") if p.is_file()}


def change(*ops: Any) -> Change:
    return Change(table="t", name="t", ops=ops)


# -- compaction -------------------------------------------------------------------------------------------------------


def test_small_fragments_become_one_and_no_value_changes(tables: Tables) -> None:
    before = pieces(tables, [1, 2, 3], [4], [5, 6], [7])
    content = tables.content(before)
    work = tables.begin(before)
    done = work.upkeep.compact(HOW)
    after = work.stage().pin
    assert (done.fragments_before, done.fragments_after, done.rows) == (4, 1, 7)
    assert done.bytes == before.bytes
    assert (before.fragments, after.fragments, after.rows, after.counter) == (4, 1, 7, before.counter + 1)
    assert after.bytes == plan.data_bytes(f.metadata for f in tables.handle(after).get_fragments()) < before.bytes
    assert tables.content(after) == content
    assert tables.content(before) == content, "the state before is still there"
    assert not tables.begin(after).upkeep.compact(HOW).changed, "and there is nothing left to do"


def test_a_plan_tells_the_same_and_writes_nothing(tables: Tables) -> None:
    pin = tables.change(pieces(tables, [1, 2], [3], [4]), want("id", "BTREE"))
    pin = tables.append(pin, 5)
    there = files(tables)
    work = tables.begin(pin)
    planned = work.upkeep.compact(HOW, mode="plan"), work.upkeep.extend_indexes(HOW, mode="plan")
    assert not work.changed
    assert files(tables) == there
    assert planned == (work.upkeep.compact(HOW), work.upkeep.extend_indexes(HOW))
    assert files(tables) > there


def test_fragments_grow_up_to_the_target_and_large_ones_are_left(tables: Tables) -> None:
    pin = pieces(tables, range(10), [10, 11], [12], [13, 14, 15], [16], range(20, 32))
    kept = tables.handle(pin).get_fragments()[0].metadata.files[0].path
    after = tables.change(pin, lambda w: w.upkeep.compact(Upkeep(target_rows=5)))
    assert sorted(fragments(tables, after)) == [1, 6, 10, 12]
    assert kept in {f.metadata.files[0].path for f in tables.handle(after).get_fragments()}
    assert tables.content(after) == tables.content(pin)


def test_a_giant_is_not_rewritten_for_the_sake_of_a_few_rows(tables: Tables) -> None:
    pin = pieces(tables, range(plan.LARGE + 1), [70_001], [70_002])
    done = tables.begin(pin).upkeep.compact(HOW, mode="plan")
    assert (done.fragments_after, done.rows) == (2, 2)
    pin = tables.append(pin, *range(80_000, 80_000 + plan.LARGE // plan.TIMES))
    assert tables.begin(pin).upkeep.compact(HOW, mode="plan").fragments_after == 1


@pytest.mark.parametrize(("deleted", "rewritten"), [(10, False), (11, True)])
def test_deleted_rows_are_left_behind_once_they_are_many(tables: Tables, deleted: int, rewritten: bool) -> None:
    pin = tables.change(tables.create(rows(*range(100))), lambda w: w.rows.delete(f"id < {deleted}"))
    work = tables.begin(pin)
    assert work.upkeep.compact(HOW).changed is rewritten
    assert work.changed is rewritten
    if rewritten:
        after = work.stage().pin
        [fragment] = tables.handle(after).get_fragments()
        assert (fragment.num_deletions, fragment.physical_rows) == (0, 100 - deleted)
        assert tables.content(after) == tables.content(pin)


def test_tables_without_rows_have_nothing_to_compact(tables: Tables) -> None:
    empty = tables.create(schema=rows().schema)
    assert not tables.begin(empty).upkeep.compact(HOW).changed
    pin = tables.change(tables.append(empty, 1, 2), want("id", "BTREE"), tidy())
    gone = tables.change(pin, lambda w: w.rows.delete("true"))
    work = tables.begin(gone)
    assert not work.upkeep.compact(HOW).changed
    assert work.upkeep.extend_indexes(HOW) == []
    assert not work.changed


NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("blob", pa.large_binary()),
        ("vector", pa.list_(pa.float32(), 4)),
        ("inner", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
        ("when", pa.timestamp("us", "UTC")),
    ]
)


def nested(*ids: int) -> pa.Table:
    found = [
        {
            "id": i,
            "text": None if i % 3 == 0 else "é" * i,
            "blob": bytes([i % 256]) * i * 100,
            "vector": [float(i)] * 4,
            "inner": {"a": i, "b": ["x", None, str(i)]} if i % 2 else None,
            "when": i,
        }
        for i in ids
    ]
    return pa.Table.from_pylist(found, schema=NESTED)


def test_columns_of_every_shape_come_through(tables: Tables) -> None:
    pin = tables.create(nested(1, 2, 3))
    for i in range(4, 9):
        pin = tables.change(pin, lambda w, i=i: w.rows.append(nested(i), missing="error"))
    pin = tables.change(pin, lambda w: w.rows.delete("id = 5"))
    after = tables.change(pin, tidy())
    assert fragments(tables, after) == [7]
    assert tables.format.open(after).scan().read_all().sort_by("id").equals(nested(1, 2, 3, 4, 6, 7, 8))


@pytest.mark.parametrize("size", [100, 200_000])
def test_blobs_are_carried_along_inline_and_beside_the_file(tables: Tables, size: int) -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    uri = str(tables.folder / "plain")
    for i in range(3):
        part = pa.table({"id": [i], "b": [bytes([i]) * size]}, schema=schema)
        lance.write_dataset(part, uri, mode="append" if i else "create")
    pin, _ = tables.format.register(uri)
    work = tables.begin(pin)
    work.upkeep.compact(HOW)
    staged = work.stage()
    handle = lance.dataset(uri, version=int(staged.pin.version))
    assert [b.readall() for b in handle.take_blobs("b", indices=[0, 1, 2])] == [bytes([i]) * size for i in range(3)]
    beside = {str(p.parent.relative_to(uri)) + "/" for p in Path(uri).rglob("*.blob")}
    mine = {n for n in staged.files if n.endswith("/")}
    assert len(beside & mine) == (size > 100_000), "they are made durable like the data file"


def test_row_ids_and_row_versions_survive(tables: Tables) -> None:
    made = tables.format.create("tables/s", rows(1, 2, 3), schema=None, write="w", stable_row_ids=True, table="t")
    pin = tables.append(made.stage().pin, 4, 5)
    pin = tables.change(pin, want("id", "BTREE"), lambda w: w.rows.upsert(rows(2, times=7), ["id"]))

    def identities(pin: Pin) -> Any:
        columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        return tables.handle(pin).to_table(columns=columns).sort_by("id").to_pylist()

    after = tables.change(pin, tidy())
    assert identities(after) == identities(pin)
    assert len(fragments(tables, after)) < len(fragments(tables, pin))
    assert tables.handle(after).to_table(filter="id = 2").to_pylist() == [{"id": 2, "v": 14}]


def test_tasks_travel_as_text_and_run_anywhere(tables: Tables) -> None:
    pin = pieces(tables, [1, 2], [3], range(10, 20), [4], [5])
    how = Upkeep(target_rows=3)
    handle = tables.handle(pin)
    tasks = plan.plan(handle, how).tasks(handle, how)
    assert len(tasks) == 2
    results = [plan.run(tables.handle(pin), task) for task in tasks]
    found = plan.Rewriting(handle, results)
    assert sorted(i for g in found.groups for i in (f.num_rows for f in g.new)) == [2, 3]
    assert all(isinstance(x, str) for x in (*tasks, *results))


def test_rows_and_upkeep_of_one_table_do_not_share_a_transaction(tables: Tables) -> None:
    pin = pieces(tables, [1], [2])
    work = tables.begin(pin)
    work.rows.append(rows(3), missing="error")
    with pytest.raises(Refused):
        work.upkeep.compact(HOW)
    work = tables.begin(pin)
    work.upkeep.compact(HOW)
    statements: list[Statement] = [
        lambda w: w.rows.append(rows(3), missing="error"),
        lambda w: w.rows.upsert(rows(1), ["id"]),
        lambda w: w.rows.delete("true"),
        lambda w: w.rows.overwrite(rows(1), (), schema="keep"),
        lambda w: w.columns.drop(["v"]),
    ]
    for statement in statements:
        with pytest.raises(Refused):
            statement(work)
    assert tables.content(work.stage().pin) == [(1, 10), (2, 20)]


@pytest.mark.parametrize("how", [Upkeep(target_rows=0), Upkeep(deleted=1.5), Upkeep(deleted=-1)])
def test_impossible_targets_are_refused(tables: Tables, how: Upkeep) -> None:
    with pytest.raises(InvalidInput):
        tables.begin(pieces(tables, [1], [2])).upkeep.compact(how)


# -- indexes ----------------------------------------------------------------------------------------------------------


def documents(start: int, count: int) -> pa.Table:
    draw = random.Random(start)
    ids = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "kind": ["ab"[i % 2] for i in ids],
            "tags": pa.array([[f"t{i % 5}", f"u{i % 3}"] for i in ids], pa.list_(pa.string())),
            "text": [f"word{i} common k{i % 7}" for i in ids],
            "vector": pa.array(
                [[draw.random() for _ in range(8)] for _ in ids], pa.list_(pa.field("item", pa.float32()), 8)
            ),
        }
    )


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "BTREE": ("id", {}),
    "ZONEMAP": ("id", {}),
    "BITMAP": ("kind", {}),
    "LABEL_LIST": ("tags", {}),
    "NGRAM": ("text", {}),
    "INVERTED": ("text", {}),
    "IVF_FLAT": ("vector", {"num_partitions": 2}),
    "IVF_PQ": ("vector", {"num_partitions": 2, "num_sub_vectors": 4}),
    "IVF_SQ": ("vector", {"num_partitions": 2}),
    "IVF_HNSW_FLAT": ("vector", {"num_partitions": 2}),
    "IVF_HNSW_PQ": ("vector", {"num_partitions": 2, "num_sub_vectors": 4}),
    "IVF_HNSW_SQ": ("vector", {"num_partitions": 2}),
}


def questions(kind: str, found: list[dict[str, Any]]) -> list[tuple[dict[str, Any], list[int]]]:
    """Scans that an index of this kind answers, and what a look at every row says."""

    def where(keep: Callable[[dict[str, Any]], bool]) -> list[int]:
        return sorted(r["id"] for r in found if keep(r))

    if kind in ("BTREE", "ZONEMAP"):
        spans = [(low, low + 97) for low in range(0, 1000, 97)]
        asked = [({"filter": f"id >= {a} and id < {b}"}, where(lambda r, a=a, b=b: a <= r["id"] < b)) for a, b in spans]
        return asked + [({"filter": f"id = {i}"}, where(lambda r, i=i: r["id"] == i)) for i in (0, 405, 415, 640)]
    if kind == "BITMAP":
        return [({"filter": f"kind = '{k}'"}, where(lambda r, k=k: r["kind"] == k)) for k in "ab"]
    if kind == "LABEL_LIST":
        tags = [f"t{i}" for i in range(5)]
        return [({"filter": f"array_has_any(tags, ['{t}'])"}, where(lambda r, t=t: t in r["tags"])) for t in tags]
    if kind == "NGRAM":
        parts = ("word405", "word415", "ord45", "common", "word64")
        return [({"filter": f"contains(text, '{p}')"}, where(lambda r, p=p: p in r["text"])) for p in parts]
    if kind == "INVERTED":
        words = ("word405", "word415", "k3", "common", "word640")
        return [({"full_text_query": w, "limit": 5000}, where(lambda r, w=w: w in r["text"].split())) for w in words]
    points = np.array([r["vector"] for r in found], np.float32)
    ids = np.array([r["id"] for r in found])
    asked = []
    for i in range(0, len(ids), 53):
        nearest = ids[np.argsort(((points - points[i]) ** 2).sum(1), kind="stable")[:5]]
        query = {"column": "vector", "q": points[i], "k": 5, "nprobes": 64, "refine_factor": 100, "ef": 500}
        asked.append(({"nearest": query}, sorted(nearest.tolist())))
    return asked


def check_answers(tables: Tables, pin: Pin, kind: str) -> None:
    """Every answer that the index gives is what a look at every row gives, and the plan has the index in it."""
    handle = tables.handle(pin)
    for scan, expected in questions(kind, handle.to_table().to_pylist()):
        columns = ["id", *(["_score"] if "full_text_query" in scan else ["_distance"] if "nearest" in scan else [])]
        scanner = handle.scanner(columns=columns, **scan)
        used = ("ScalarIndexQuery", "MatchQuery", "ANNSubIndex")
        assert any(word in scanner.explain_plan() for word in used), scan
        assert sorted(scanner.to_table()["id"].to_pylist()) == expected, scan


def covered(tables: Tables, pin: Pin) -> dict[str, int]:
    return {ix["name"]: ix["rows_indexed"] for ix in tables.format.open(pin).indexes()}


def segments(tables: Tables, pin: Pin) -> list[tuple[str, set[int]]]:
    [found] = tables.handle(pin).describe_indices()
    return [(str(s.uuid), set(s.fragment_ids)) for s in found.segments]


@pytest.mark.sampled
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable row ids"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_index_answers_right_and_is_used(tables: Tables, kind: str, stable: bool) -> None:
    column, options = KINDS[kind]
    made = tables.format.create("tables/t", documents(0, 400), schema=None, write="w", stable_row_ids=stable, table="t")
    pin = tables.change(made.stage().pin, want(column, kind, **options))
    for i in range(4):
        pin = tables.change(pin, lambda w, i=i: w.rows.append(documents(400 + 150 * i, 150), missing="error"))
    pin = tables.change(pin, lambda w: w.rows.delete("id >= 410 and id < 425 or id = 7"))

    grown = tables.change(pin, lambda w: w.upkeep.extend_indexes(HOW))
    assert covered(tables, grown) == {"ix": 984}
    check_answers(tables, grown, kind)

    # What was indexed moves, what was not moves, and a fragment that stays has both as neighbours.
    whole = tables.change(pin, tidy())
    assert covered(tables, whole) == {"ix": 984}
    assert whole.fragments <= 2
    check_answers(tables, whole, kind)
    part = tables.change(grown, lambda w: w.upkeep.compact(Upkeep(target_rows=250)))
    assert part.fragments < grown.fragments
    check_answers(tables, part, kind)
    part = tables.change(part, lambda w: w.upkeep.extend_indexes(HOW))
    assert covered(tables, part) == {"ix": 984}
    check_answers(tables, part, kind)


def test_an_extension_costs_what_is_new(tables: Tables) -> None:
    pin = tables.change(tables.create(rows(*range(1000))), want("id", "BTREE"))
    [(old, _)] = segments(tables, pin)
    pin = tables.append(pin, 2000, 2001)
    after = tables.change(pin, lambda w: w.upkeep.extend_indexes(HOW))
    assert [ids for uuid, ids in segments(tables, after) if uuid == old] == [{0}], "the large part is as it was"
    assert len(segments(tables, after)) == 2
    assert tables.handle(after).to_table(filter="id in (5, 2001)")["id"].to_pylist() == [5, 2001]
    assert tables.begin(after).upkeep.extend_indexes(HOW) == []


def test_segments_stay_few_however_often_an_index_is_extended(tables: Tables) -> None:
    pin = tables.change(tables.create(rows(*range(1000))), want("id", "BTREE"))
    most = 0
    for i in range(24):
        pin = tables.change(tables.append(pin, 2000 + i), lambda w: w.upkeep.extend_indexes(HOW))
        most = max(most, len(segments(tables, pin)))
        assert covered(tables, pin) == {"ix": 1001 + i}
    assert most <= extend.SEGMENTS
    assert {0} in [ids for _, ids in segments(tables, pin)], "the large segment was never built again"
    assert tables.handle(pin).to_table(filter="id > 2000").num_rows == 23


def test_an_extension_keeps_how_the_index_was_made(tables: Tables) -> None:
    pin = tables.change(
        tables.create(documents(0, 300)),
        want("vector", "IVF_HNSW_SQ", "v", metric="cosine", m=12, num_partitions=1),
        want("text", "INVERTED", "t", with_position=True, stem=False, language="German"),
    )
    before = {d.name: d.details for d in tables.handle(pin).describe_indices()}
    pin = tables.change(pin, lambda w: w.rows.append(documents(300, 900), missing="error"))
    after = tables.change(pin, tidy())
    found = {d.name: d.details for d in tables.handle(after).describe_indices()}
    assert found["t"] == before["t"]
    assert found["v"]["metric_type"] == before["v"]["metric_type"] == "COSINE"
    assert found["v"]["hnsw"]["max_connections"] == 12
    handle = tables.handle(after)
    phrase = lance.query.PhraseQuery("word5 common", "text")
    assert handle.to_table(full_text_query=phrase)["id"].to_pylist() == [5]


def nearest(tables: Tables, pin: Pin, point: list[float]) -> list[int]:
    query = {"column": "vector", "q": point, "k": 1, "nprobes": 64, "refine_factor": 100}
    return list(tables.handle(pin).to_table(columns=["id", "_distance"], nearest=query)["id"].to_pylist())


def test_too_few_vectors_to_learn_from_are_left_to_a_scan(tables: Tables) -> None:
    pin = tables.change(tables.create(documents(0, 600)), want("vector", "IVF_PQ", num_partitions=1))
    pin = tables.change(pin, lambda w: w.rows.append(documents(600, 100), missing="error"))
    assert tables.begin(pin).upkeep.extend_indexes(Upkeep(target_rows=50), mode="plan") == []
    assert tables.begin(pin).upkeep.extend_indexes(HOW) == []
    assert nearest(tables, pin, documents(600, 100)["vector"][42].as_py()) == [642]
    grown = tables.change(pin, lambda w: w.rows.append(documents(700, 200), missing="error"))
    assert tables.begin(grown).upkeep.extend_indexes(HOW) == ["ix"]


def test_an_index_survives_a_time_in_which_it_has_no_rows(tables: Tables) -> None:
    pin = tables.change(tables.create(documents(0, 300)), want("vector", "IVF_PQ", num_partitions=1))
    pin = tables.change(pin, lambda w: w.rows.delete("id >= 100"))
    few = tables.change(pin, tidy())
    assert fragments(tables, few) == [100]
    assert covered(tables, few) == {"ix": 0}
    assert nearest(tables, few, documents(0, 300)["vector"][42].as_py()) == [42]
    grown = tables.change(few, lambda w: w.rows.append(documents(300, 300), missing="error"))
    again = tables.change(grown, tidy())
    assert covered(tables, again) == {"ix": 400}
    assert nearest(tables, again, documents(300, 300)["vector"][42].as_py()) == [342]


def test_an_index_that_cannot_be_built_does_not_hold_up_the_rows(tables: Tables) -> None:
    pin = tables.change(tables.create(documents(0, 1000)), want("vector", "IVF_PQ", num_partitions=1))
    for start in (1000, 1200):
        none = documents(start, 200).set_column(4, "vector", pa.nulls(200, pa.list_(pa.float32(), 8)))
        pin = tables.change(pin, lambda w, none=none: w.rows.append(none, missing="error"))
    work = tables.begin(pin)
    assert work.upkeep.compact(Upkeep(target_rows=400)).fragments_after == 2
    assert work.upkeep.extend_indexes(HOW) == [], "there is no vector to learn from"
    after = work.stage().pin
    assert (sorted(fragments(tables, after)), covered(tables, after)) == ([400, 1000], {"ix": 1000})
    assert nearest(tables, after, documents(0, 1000)["vector"][42].as_py()) == [42]


def test_an_index_statement_of_the_same_transaction_covers_the_compacted_rows(tables: Tables) -> None:
    pin = tables.change(pieces(tables, [1, 2], [3]), want("id", "BTREE", "old"))
    work = tables.begin(pin)
    work.upkeep.compact(HOW)
    work.indexes.drop("old")
    work.indexes.create(IndexSpec("v", "BTREE", "new"), replace=False)
    assert work.upkeep.extend_indexes(HOW) == []
    assert covered(tables, work.stage().pin) == {"new": 3}


def test_indexes_of_kinds_that_quire_does_not_build_are_left_alone(tables: Tables) -> None:
    uri = str(tables.folder / "plain")
    handle = lance.write_dataset(pa.table({"id": range(10), "s": [{"x": i} for i in range(10)]}), uri)
    handle.create_scalar_index("id", "BLOOMFILTER", name="odd")
    handle.create_scalar_index("s.x", "BTREE", name="inner")
    lance.write_dataset(pa.table({"id": [10], "s": [{"x": 10}]}), uri, mode="append")
    pin, _ = tables.format.register(uri)
    work = tables.begin(pin)
    work.upkeep.compact(HOW)
    assert work.upkeep.extend_indexes(HOW) == ["inner"]
    found = lance.dataset(uri, version=int(work.stage().pin.version))
    for condition in ("id = 10", "id = 3", "s.x = 10", "s.x = 3"):
        assert found.to_table(filter=condition)["id"].to_pylist() == [int(condition.split()[-1])]


# -- moving over rivals -----------------------------------------------------------------------------------------------


def race(tables: Tables, pin: Pin, theirs: Statement, *ops: Any, how: Upkeep = HOW) -> tuple[Any, Pin]:
    """My upkeep on `pin`, moved over what a rival did to it; my work, and the rival's pin."""
    work = tables.begin(pin)
    tidy(how)(work)
    work.stage()
    there = set((tables.folder / pin.location / "data").iterdir())
    after = tables.change(pin, theirs)
    written = set((tables.folder / pin.location / "data").iterdir()) - there
    assert work.rebase(after, [change(*ops)]) is None
    assert work.on(after)
    if work.changed:
        work.stage()
    assert set((tables.folder / pin.location / "data").iterdir()) - there == written, "no data file is written again"
    return work, after


@pytest.fixture
def indexed(tables: Tables) -> Pin:
    """Ids 1 to 12 in four fragments, two of which are covered by an index."""
    pin = tables.change(pieces(tables, [1, 2, 3], [4, 5, 6]), want("id", "BTREE"))
    return tables.append(tables.append(pin, 7, 8, 9), 10, 11, 12)


def check_moved(tables: Tables, work: Any, rival: Pin, *, indexed: int) -> Pin:
    after: Pin = work.stage().pin
    assert tables.content(after) == tables.content(rival)
    handle = tables.handle(after)
    for i in range(0, 16):
        assert (
            handle.to_table(filter=f"id = {i}").to_pylist()
            == tables.handle(rival).to_table(filter=f"id = {i}", use_scalar_index=False).to_pylist()
        )
    assert covered(tables, after) == {"ix": indexed}
    assert after.rows == rival.rows
    return after


def test_rows_that_a_rival_appended_stay_beside(tables: Tables, indexed: Pin) -> None:
    work, rival = race(tables, indexed, lambda w: w.rows.append(rows(13, 14), missing="error"), "append")
    after = check_moved(tables, work, rival, indexed=12)
    assert fragments(tables, after) == [2, 12]


@pytest.mark.parametrize(
    ("theirs", "op", "left"),
    [
        (lambda w: w.rows.delete("id in (2, 5, 12)"), "delete", 9),
        (lambda w: w.rows.delete("id <= 4"), "delete", 8),
        (lambda w: w.rows.upsert(rows(1, 6, 13, times=7), ["id"]), "upsert", 10),
        (lambda w: w.rows.update({"v": "v + 1"}, {}, "id % 2 = 0", ()), "update", 6),
    ],
    ids=["some rows", "a whole fragment", "upsert", "update"],
)
def test_rows_that_a_rival_removed_are_not_brought_back(
    tables: Tables, indexed: Pin, theirs: Statement, op: str, left: int
) -> None:
    work, rival = race(tables, indexed, theirs, op)
    after = check_moved(tables, work, rival, indexed=left)
    assert len(fragments(tables, after)) < len(fragments(tables, rival))


def test_several_rivals_after_each_other(tables: Tables, indexed: Pin) -> None:
    work, rival = race(tables, indexed, lambda w: w.rows.delete("id = 2"), "delete")
    for statement, op in (
        (lambda w: w.rows.append(rows(13), missing="error"), "append"),
        (lambda w: w.rows.delete("id in (3, 4)"), "delete"),
        (lambda w: w.rows.upsert(rows(5, times=3), ["id"]), "upsert"),
    ):
        rival = tables.change(rival, statement)
        assert work.rebase(rival, [change(op)]) is None
        work.stage()
    check_moved(tables, work, rival, indexed=8)


def test_only_groups_whose_files_a_rival_replaced_are_given_up(tables: Tables) -> None:
    pin = pieces(tables, [1, 2], [3], [4, 5], [6])
    work = tables.begin(pin)
    work.upkeep.compact(Upkeep(target_rows=3))
    # A plain client's column update: new data files for some fragments, under the same numbers.
    handle = tables.handle(pin)
    metadata, fields = handle.get_fragment(0).update_columns(pa.table({"id": [1], "v": [-1]}), left_on="id")
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=[metadata], new_fragments=[], fields_modified=fields
    )
    transaction = lance.Transaction(handle.version, operation)
    theirs = lance.LanceDataset.commit(handle, transaction, detached=True)
    rival = Pin(**{**{f: getattr(pin, f) for f in pin.__struct_fields__}, "version": str(theirs.version)})
    assert work.rebase(rival, [change("adopt")]) is None
    after = work.stage().pin
    assert tables.content(after) == [(1, -1), (2, 20), (3, 30), (4, 40), (5, 50), (6, 60)]
    assert sorted(fragments(tables, after)) == [1, 2, 3]


def test_nothing_is_left_when_a_rival_changed_the_columns_or_all_rows(tables: Tables, indexed: Pin) -> None:
    for theirs, op in (
        (lambda w: w.columns.add({"w": "id + 1"}), "schema"),
        (lambda w: w.rows.overwrite(rows(1, 2), (), schema="keep"), "overwrite"),
    ):
        work, _ = race(tables, indexed, theirs, op)
        assert not work.changed


def test_a_rival_that_takes_the_numbers_meant_for_new_fragments(tables: Tables, indexed: Pin) -> None:
    many = pa.concat_tables([rows(100 + i) for i in range(plan.GAP + 4)])

    def theirs(work: Any) -> None:
        for i in range(many.num_rows):
            work.rows.append(many.slice(i, 1), missing="error")

    work = tables.begin(indexed)
    work.upkeep.compact(HOW)
    assert work.upkeep.extend_indexes(HOW) == ["ix"]
    rival = tables.change(indexed, theirs)
    assert work.rebase(rival, [change("append")]) is None
    after = work.stage().pin
    assert tables.content(after) == tables.content(rival)
    handle = tables.handle(after)
    assert len({f.fragment_id for f in handle.get_fragments()}) == 1 + many.num_rows
    for i in (1, 12, 100, 100 + plan.GAP):
        assert handle.to_table(filter=f"id = {i}")["id"].to_pylist() == [i]
    again = tables.change(after, lambda w: w.upkeep.extend_indexes(HOW))
    assert covered(tables, again) == {"ix": after.rows}


def test_an_extension_alone_follows_a_rival(tables: Tables, indexed: Pin) -> None:
    work = tables.begin(indexed)
    assert work.upkeep.extend_indexes(HOW) == ["ix"]
    rival = tables.change(
        indexed, lambda w: w.rows.delete("id in (1, 7)"), lambda w: w.rows.append(rows(13), missing="error")
    )
    assert work.rebase(rival, [change("delete", "append")]) is None
    check_moved(tables, work, rival, indexed=10)


def test_numbers_that_a_segment_still_claims_are_not_used_again(tables: Tables) -> None:
    pin = tables.change(pieces(tables, [1], [2], [3]), want("id", "BTREE"))
    gone = tables.change(pin, lambda w: w.rows.delete("id > 1"))
    handle = tables.handle(gone)
    assert [f.fragment_id for f in handle.get_fragments()] == [0]
    assert plan.unused(handle) == 3
