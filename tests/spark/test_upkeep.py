"""Optimize and indexes by the tasks of a session: the same tables, answers and reports as by one process."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import quire
from quire.errors import AlreadyExists, ColumnNotFound, InvalidInput, Unsupported
from quire.formats.lance.indexes import build, distributed
from quire.lake import engines
from quire.lake import engines as parts_module

WORDS = ["lake", "river", "sea", "pond", "brook"]


def rows(low: int, high: int) -> pa.Table:
    ids = np.arange(low, high)
    vectors = np.random.default_rng(low).random((high - low) * 8).astype(np.float32)
    return pa.table(
        {
            "id": ids,
            "cat": [f"c{i % 5}" for i in ids],
            "tags": [[f"t{i % 3}", f"t{i % 4}"] for i in ids],
            "text": [f"{WORDS[i % 5]} number{i % 11}" for i in ids],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 8),
        }
    )


def filled(place: Path, tables: int = 3) -> quire.Lake:
    """Tables in many small fragments, some of whose rows are deleted, with indexes that lag behind."""
    lake = quire.create(place)
    with lake.transaction() as tx:
        for number in range(tables):
            tx.create_table(f"t{number}", rows(0, 40), key="id" if number else None)
            tx[f"t{number}"].create_index("id")
        tx["t0"].create_index("text", "INVERTED")
    for low in (40, 80, 120):
        with lake.transaction() as tx:
            for number in range(tables):
                tx[f"t{number}"].append(rows(low, low + 40))
    with lake.transaction() as tx:
        for number in range(tables):
            tx[f"t{number}"].delete(f"id % {number + 7} = 0")
    return lake


def sorted_rows(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


@pytest.fixture
def both(tmp_path: Path) -> tuple[quire.Lake, quire.Lake]:
    """Two lakes with the same history: one for each engine."""
    return filled(tmp_path / "one"), filled(tmp_path / "two")


def reported(done: Any) -> list[dict[str, Any]]:
    """A report without what differs between any two runs: the sizes of files that hold random ids."""
    return [{k: v for k, v in t.to_dict().items() if k != "bytes"} for t in done.tables]


# -- optimize ----------------------------------------------------------------------------------------------------------


def test_optimize_does_the_same_on_both_engines(both: tuple[quire.Lake, quire.Lake], spark: Any) -> None:
    here, there = both
    a, b = here.optimize(), there.optimize(engine=spark)
    assert reported(a) == reported(b)
    assert [t.outcome for t in b.tables] == ["optimized"] * 3
    assert b["t0"].indexes == ("id_idx", "text_idx")
    assert len(b.commits) == 1
    for name in here.tables():
        assert sorted_rows(here[name]) == sorted_rows(there[name])
        assert here[name].indexes() == there[name].indexes()
        assert here[name].parts()[1] == there[name].parts()[1]
    [mine, other] = [next(iter(lake.log())).to_dict() for lake in both]
    assert mine["tables"] == other["tables"]
    assert there.optimize(engine=spark).commits == ()
    assert there.verify().ok


def test_what_was_optimized_answers_from_its_indexes(both: tuple[quire.Lake, quire.Lake], engine: Any) -> None:
    _, there = both
    before = there.snapshot()
    there.optimize(engine=engine)
    for where in ("id = 77", "id between 30 and 50"):
        assert sorted_rows(there["t1"].scan(filter=where)) == sorted_rows(before["t1"].scan(filter=where))
    assert {r["id"] for r in there["t0"].search("river", limit=200).to_pylist()} == {
        i for i in range(160) if i % 5 == 1 and i % 7
    }
    with there.transaction() as tx:
        tx["t1"].upsert(rows(150, 170))
        tx["t1"].delete("id < 20")
    there.optimize(engine=engine, deleted=0.0)
    assert sorted(r["id"] for r in there["t1"].to_pylist()) == [i for i in range(20, 170) if i % 8 or i >= 150]
    assert all(ix["rows_unindexed"] == 0 for ix in there["t1"].indexes())


def test_the_driver_writes_no_data_or_index_file(
    both: tuple[quire.Lake, quire.Lake], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("the driver does the long work")

    monkeypatch.setattr(lance.LanceDataset, "create_index_uncommitted", never)
    monkeypatch.setattr("quire.formats.lance.compaction.plan.run", never)
    done = both[1].optimize(engine=spark)
    assert [t.outcome for t in done.tables] == ["optimized"] * 3
    with both[1].transaction() as tx:
        tx["t0"].create_index("cat", "BITMAP", engine=spark)
    assert both[1]["t0"].count("cat = 'c1'") == len([i for i in range(160) if i % 5 == 1 and i % 7])


def test_all_tables_are_one_job(tmp_path: Path, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = filled(tmp_path / "lake", tables=17)
    jobs: list[int] = []
    run = parts_module.tasks_on

    def counting(session: Any) -> Any:
        def tasks(count: int, work: Any) -> Any:
            jobs.append(count)
            return run(session)(count, work)

        return tasks

    monkeypatch.setattr(parts_module, "tasks_on", counting)
    done = lake.optimize(engine=engine)
    assert {t.outcome for t in done.tables} == {"optimized"}
    assert jobs == [17, 18]  # all fragments, then all indexes
    assert len(done.commits) == 2  # 16 tables share a commit, as ever


def test_a_dry_run_plans_and_writes_nothing(both: tuple[quire.Lake, quire.Lake], engine: Any) -> None:
    here, there = both
    assert reported(here.optimize(dry_run=True)) == reported(there.optimize(dry_run=True, engine=engine))
    assert len(list(there.log())) == 6


class Once:
    """Does something in the first call, wherever that is, and nothing later."""

    def __init__(self, marker: Path, what: Callable[[], None]) -> None:
        self.marker, self.what = marker, what

    def __call__(self) -> None:
        import os

        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        self.what()


def fail() -> None:
    raise RuntimeError("this attempt is over")


def die() -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", [fail, die])
def test_a_task_that_fails_after_it_wrote_is_run_again(
    both: tuple[quire.Lake, quire.Lake], spark: Any, tmp_path: Path, how: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = both
    marker = tmp_path / "failed"
    once = Once(marker, how)
    here.optimize()
    run = parts_module.tasks_on

    def tasks_on(session: Any) -> Any:
        def tasks(count: int, work: Any) -> Any:
            def then(number: int) -> Any:
                answer = work(number)
                once()
                return answer

            return run(session)(count, then)

        return tasks

    monkeypatch.setattr(parts_module, "tasks_on", tasks_on)
    done = there.optimize(engine=spark)
    assert marker.exists()
    assert [t.outcome for t in done.tables] == ["optimized"] * 3
    assert len(done.commits) == 1
    for name in here.tables():
        assert sorted_rows(here[name]) == sorted_rows(there[name])
    assert there.verify().ok


def test_a_table_that_fails_leaves_the_others_alone(both: tuple[quire.Lake, quire.Lake], engine: Any) -> None:
    here, there = both
    for lake in both:
        place = Path(lake.uri) / lake["t1"].describe()["location"] / "data"
        for file in place.iterdir():
            file.write_bytes(b"")
    a, b = here.optimize(), there.optimize(engine=engine)
    assert [t.outcome for t in a.tables] == [t.outcome for t in b.tables] == ["optimized", "failed", "optimized"]
    assert b["t1"].detail


def test_rows_that_rivals_write_meanwhile_are_kept(
    both: tuple[quire.Lake, quire.Lake], engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, lake = both
    other = quire.open(lake.uri)
    answers = parts_module.answers
    calls: list[int] = []

    def meanwhile(session: Any, parts: Any) -> Any:
        found = answers(session, parts)
        if not calls:
            with other.transaction("rival") as tx:
                tx["t0"].append(rows(500, 510))
                tx["t1"].upsert(rows(30, 50))
                tx["t2"].delete("id < 100")
        calls.append(len(parts))
        return found

    monkeypatch.setattr(parts_module, "answers", meanwhile)
    done = lake.optimize(engine=engine)
    assert {t.outcome for t in done.tables} <= {"optimized", "busy"}
    assert sorted(r["id"] for r in lake["t0"].to_pylist()) == [
        i for i in [*range(160), *range(500, 510)] if i % 7 or i >= 500
    ]
    assert sorted(r["id"] for r in lake["t1"].to_pylist()) == [i for i in range(160) if i % 8 or 30 <= i < 50]
    assert sorted(r["id"] for r in lake["t2"].to_pylist()) == [i for i in range(100, 160) if i % 9]
    assert lake["t2"].count("id = 101") == 1
    assert lake.verify().ok


@pytest.mark.full
def test_auto_goes_by_the_bytes_that_are_rewritten(
    both: tuple[quire.Lake, quire.Lake], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, lake = both
    used: list[int] = []
    answers = parts_module.answers
    monkeypatch.setattr(parts_module, "answers", lambda s, p: used.append(len(p)) or answers(s, p))
    planned = sum(t.bytes for t in lake.optimize(dry_run=True).tables)
    monkeypatch.setattr(engines, "AUTO_BYTES", planned + 1)
    assert lake.optimize(["t0"], engine="auto")["t0"].outcome == "optimized"
    assert used == []
    monkeypatch.setattr(engines, "AUTO_BYTES", 1)
    assert lake.optimize(engine="auto")["t1"].outcome == "optimized"
    assert used


def test_an_engine_that_is_none(both: tuple[quire.Lake, quire.Lake], engine: Any) -> None:
    with pytest.raises(InvalidInput, match="is not an engine"):
        both[0].optimize(engine="cluster")
    memory = quire.create("memory://no-upkeep-elsewhere")
    memory.create_table("t", rows(0, 3))
    with memory.transaction() as tx:
        tx["t"].append(rows(3, 6))
    assert memory.optimize(engine=engine)["t"].outcome == "failed"
    with pytest.raises(Unsupported, match="other processes cannot read it"), memory.transaction() as tx:
        tx["t"].create_index("id", engine=engine)


# -- indexes -----------------------------------------------------------------------------------------------------------

SCALAR = [
    ("id", "BTREE", "id = 1234 or id between 100 and 120"),
    ("cat", "BITMAP", "cat = 'c3'"),
    ("tags", "LABEL_LIST", "array_has_any(tags, ['t2'])"),
    ("text", "NGRAM", "contains(text, 'ver num')"),
    ("id", "ZONEMAP", "id between 2500 and 2520"),
]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of several fragments, with some rows deleted."""
    place = tmp_path_factory.mktemp("large") / "lake"
    lake = quire.create(place)
    lake.create_table("t", rows(0, 1000))
    for low in range(1000, 4000, 1000):
        with lake.transaction() as tx:
            tx["t"].append(rows(low, low + 1000))
    with lake.transaction() as tx:
        tx["t"].delete("id % 13 = 0")
    lake.flush()
    return place


@pytest.fixture
def branch(large: Path) -> quire.Lake:
    """A branch of its own for every test: the data is there once."""
    return quire.open(large).create_branch(f"b{random.randrange(1 << 40)}")


def used(lake: quire.Lake, where: str) -> bool:
    return "ScalarIndexQuery" in lake["t"]._view().handle.scanner(filter=where).explain_plan()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parts", [1, 4], ids=["whole", "parts"])
@pytest.mark.parametrize(("column", "kind", "where"), SCALAR)
def test_an_index_built_by_tasks_answers_as_without_it(
    branch: quire.Lake, engine: Any, column: str, kind: str, where: str, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "PART_ROWS", 4000 // parts)
    before = branch.snapshot()
    with branch.transaction() as tx:
        tx["t"].create_index(column, kind, engine=engine)
    assert tx.receipt is not None
    assert tx.receipt.tables["t"].ops == ("index",)
    assert used(branch, where)
    assert sorted_rows(branch["t"].scan(filter=where)) == sorted_rows(before["t"].scan(filter=where)) != []
    [found] = branch["t"].indexes()
    assert (found["rows_indexed"], found["rows_unindexed"]) == (before["t"].count(), 0)
    [described] = branch["t"]._view().handle.describe_indices()
    [segment] = described.segments  # one, as if one process had built it
    assert sorted(segment.fragment_ids) == [n for n, _ in branch["t"].parts()[1]]
    with branch.transaction() as tx:
        tx["t"].append(rows(4000, 4100))
    branch.optimize(engine=engine, target_rows=1500)
    expected = (
        before["t"].scan(filter=where).to_pylist() + branch["t"].scan(filter=f"id >= 4000 and ({where})").to_pylist()
    )
    assert sorted_rows(branch["t"].scan(filter=where)) == sorted(expected, key=lambda row: row["id"])
    assert branch["t"].indexes()[0]["rows_unindexed"] == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [{}, {"with_position": True, "stem": False}])
def test_full_text_built_in_parts(
    branch: quire.Lake, engine: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "PART_ROWS", 1000)
    with branch.transaction() as tx:
        tx["t"].create_index("text", "INVERTED", engine=engine, **options)
        tx["t"].create_index("text", "INVERTED", name="here", **options)
    found = {r["id"]: r["_score"] for r in branch["t"].search("number7", limit=4000).to_pylist()}
    assert set(found) == {i for i in range(4000) if i % 11 == 7 and i % 13}
    assert len(branch["t"]._view().handle.describe_indices()[0].segments) == 1


VECTOR = ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", VECTOR)
def test_a_vector_index_finds_the_nearest(
    branch: quire.Lake, engine: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "PART_ROWS", 1000)
    query = np.random.default_rng(7).random(8).astype(np.float32)
    exact = [r["id"] for r in branch["t"].search(query, limit=10).to_pylist()]
    asked: list[str] = []
    answers = parts_module.answers
    monkeypatch.setattr(
        parts_module, "answers", lambda s, p: asked.extend(type(x).__name__ for x in p) or answers(s, p)
    )
    sampled = {"sample_rate": 8} if kind in ("IVF_FLAT", "IVF_PQ") else {}
    subs = {"num_sub_vectors": 4} if kind.endswith("PQ") else {}
    with branch.transaction() as tx:
        tx["t"].create_index("v", kind, num_partitions=4, engine=engine, **sampled, **subs)
    apart = kind in ("IVF_FLAT", "IVF_PQ")
    assert asked == (["Learn", *["Build"] * 4, "Merge"] if apart else ["Build"])
    found = [r["id"] for r in branch["t"].search(query, limit=10, nprobes=4, refine=20).to_pylist()]
    assert len(set(exact) & set(found)) >= (10 if kind == "IVF_FLAT" else 8)
    [described] = branch["t"]._view().handle.describe_indices()
    assert str(described.index_type).upper() == kind
    assert len(described.segments) == 1
    assert branch["t"].indexes()[0]["rows_unindexed"] == 0


def test_an_index_covers_what_its_own_transaction_wrote(branch: quire.Lake, engine: Any) -> None:
    with branch.transaction() as tx:
        tx["t"].create_index("id", engine=engine)
        tx["t"].append(rows(4000, 4010))
        tx["t"].delete("id = 1")
    assert branch["t"].indexes()[0]["rows_unindexed"] == 0
    assert [branch["t"].count(f"id = {i}") for i in (1, 2, 4005)] == [0, 1, 1]


def test_an_index_that_a_rival_overtakes(branch: quire.Lake, engine: Any) -> None:
    tx = branch.transaction()
    tx["t"].create_index("id", engine=engine)
    tx["t"].count()  # builds it on this state
    assert tx["t"].indexes()[0]["name"] == "id_idx"
    with branch.transaction("rival") as other:
        other["t"].append(rows(5000, 5010))
        other["t"].delete("id = 2")
    tx.commit()
    assert [branch["t"].count(f"id = {i}") for i in (1, 2, 5005)] == [1, 0, 1]
    assert branch.verify().ok


def test_refusals_are_the_same(branch: quire.Lake, engine: Any) -> None:
    cases: list[tuple[type[Exception], tuple[Any, ...], dict[str, Any]]] = [
        (ColumnNotFound, ("nix",), {}),
        (InvalidInput, ("id", "TREE"), {}),
        (InvalidInput, ("id", "BTREE"), {"depth": 3}),
        (InvalidInput, ("text", "IVF_PQ"), {}),
        (InvalidInput, ("v", "BTREE"), {}),
    ]
    for error, given, options in cases:
        told = []
        for where in ("local", engine):
            with pytest.raises(error) as caught, branch.transaction() as tx:
                tx["t"].create_index(*given, engine=where, **options)
            told.append(caught.value.to_dict())  # type: ignore[attr-defined]
        assert told[0] == told[1]
    with branch.transaction() as tx:
        tx["t"].create_index("id", engine=engine)
    with pytest.raises(AlreadyExists), branch.transaction() as tx:
        tx["t"].create_index("id", engine=engine)
    with branch.transaction() as tx:
        tx["t"].create_index("id", replace=True, engine=engine)
    assert len(branch["t"].indexes()) == 1


def test_every_kind_is_known() -> None:
    assert {kind for _, kind, _ in SCALAR} | {"INVERTED"} == set(build.SCALAR)
    assert set(VECTOR) == set(build.VECTOR)
