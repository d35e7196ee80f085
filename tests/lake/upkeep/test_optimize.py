"""Optimize beside live writers: it changes no answer, fails nobody, and gets somewhere."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.lake.conftest import rows
from tests.system.processes import Start, together

import quire
from quire.errors import Conflict, ReadOnly, TableNotFound, ValidatorMissing
from quire.lake.commit import validators
from quire.lake.upkeep.optimize import Optimized, TableOptimized, optimize
from quire.store import metering
from quire.testing import memory
from quire.testing.s3 import SeaweedFS


def commit(lake: quire.Lake, name: str, statement: Callable[[Any], Any]) -> None:
    with lake.transaction() as tx:
        statement(tx[name])


def scatter(lake: quire.Lake, name: str, count: int = 5, *, key: str | None = None) -> None:
    """A table of `count` fragments with two rows each, ids from 0."""
    lake.create_table(name, rows(0, 1), key=key)
    for i in range(1, count):
        commit(lake, name, lambda t, i=i: t.append(rows(2 * i, 2 * i + 1)))


def content(lake: quire.Lake, name: str = "t") -> list[tuple[int, int]]:
    with quire.open(lake.uri, read_only=True) as fresh:
        found = fresh[name].to_arrow()
    return sorted((r["id"], r["v"]) for r in found.to_pylist())


def fragments(lake: quire.Lake, name: str = "t") -> int:
    state = lake.snapshot()._state.by_name(name)
    assert state is not None
    return len(dataset(lake, name).get_fragments())


def dataset(lake: quire.Lake, name: str = "t") -> lance.LanceDataset:
    state = lake.snapshot()._state.by_name(name)
    assert state is not None
    return lance.dataset(f"{lake.uri}/{state.pin.location}", version=int(state.pin.version))


def files(lake: quire.Lake) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in Path(lake.uri).rglob("*") if p.is_file()}


@pytest.fixture
def rival(lake: quire.Lake) -> Iterator[quire.Lake]:
    """Another handle on the lake, opened apart."""
    with quire.open(lake.uri, backfill=False, author="rival") as other:
        yield other


def just_before_commit(act: Callable[[], Any], *, times: int = 1) -> Callable[[str, int, int], None]:
    """Let somebody else act when all of the work is done and only the commit is left."""
    left = [times]

    def progress(what: str, done: int, total: int) -> None:
        if what == "commit" and done == 0 and left[0]:
            left[0] -= 1
            act()

    return progress


# -- alone ------------------------------------------------------------------------------------------------------------


def test_small_tables_are_optimized_in_one_commit(lake: quire.Lake) -> None:
    scatter(lake, "a")
    scatter(lake, "b", 3)
    lake.create_table("c", rows(1))
    before, head = {n: content(lake, n) for n in "abc"}, lake.head

    found = optimize(lake)

    assert [(t.table, t.outcome, t.fragments_before, t.fragments_after, t.rows) for t in found.tables] == [
        ("a", "optimized", 5, 1, 10),
        ("b", "optimized", 3, 1, 6),
        ("c", "nothing", 1, 1, 0),
    ]
    [entry] = found.commits
    assert lake.head == entry
    assert lake.show(entry).message.startswith("optimize ")
    assert {n: t.ops for n, t in lake.show(entry).tables.items()} == {"a": ("compact",), "b": ("compact",)}
    assert {n: content(lake, n) for n in "abc"} == before
    assert {n: fragments(lake, n) for n in "abc"} == {"a": 1, "b": 1, "c": 1}
    old = lake.at(commit=head)
    assert sorted((r["id"], r["v"]) for r in old["a"].to_pylist()) == before["a"], "time travel goes past it"
    assert lake.diff(head)["a"].to_dict()["added"] == 0
    assert lake.verify().findings == []


def test_large_tables_have_a_commit_each(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quire.lake.upkeep.optimize.GROUP_BYTES", 1)
    scatter(lake, "a", 2)
    scatter(lake, "b", 2)
    assert len(optimize(lake).commits) == 2


def test_indexes_are_extended_where_nothing_is_to_be_merged(lake: quire.Lake) -> None:
    scatter(lake, "t", 2)
    commit(lake, "t", lambda t: t.create_index("id"))
    commit(lake, "t", lambda t: t.append(rows(100, 101)))
    found = optimize(lake, target_rows=2)
    assert (found["t"].outcome, found["t"].indexes, found["t"].rows) == ("optimized", ("id_idx",), 0)
    assert lake.show(found.commits[0]).tables["t"].ops == ("index",)
    [index] = lake["t"].indexes()
    assert index["rows_unindexed"] == 0
    assert optimize(lake, target_rows=2)["t"].outcome == "nothing"


def test_a_second_run_finds_nothing_and_commits_nothing(lake: quire.Lake) -> None:
    scatter(lake, "t")
    first = optimize(lake)
    second = optimize(lake)
    assert [t.outcome for t in second.tables] == ["nothing"]
    assert second.commits == ()
    assert lake.head == first.commits[0]


def test_the_ledger_is_checkpointed(lake: quire.Lake) -> None:
    scatter(lake, "t", 12)
    before = lake.verify().checkpoints
    found = optimize(lake)
    assert found.checkpoint == lake.head
    assert lake._live.state.behind == 0
    assert lake.verify().checkpoints == before + 1
    assert optimize(lake).checkpoint == lake.head


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(lake: quire.Lake) -> None:
    scatter(lake, "t")
    commit(lake, "t", lambda t: t.create_index("id"))
    commit(lake, "t", lambda t: t.append(rows(100)))
    lake.flush()
    there = files(lake)
    with quire.open(lake.uri, read_only=True) as reader:
        planned = optimize(reader, dry_run=True)
        with pytest.raises(ReadOnly):
            optimize(reader)
    assert files(lake) == there
    assert planned.dry_run
    assert planned.checkpoint is None
    did = optimize(lake)
    [p], [d] = planned.tables, did.tables
    assert (p.outcome, d.outcome) == ("planned", "optimized")
    same = ("fragments_before", "fragments_after", "rows", "bytes", "indexes")
    assert [getattr(p, n) for n in same] == [getattr(d, n) for n in same]
    assert (d.indexes, d.rows) == (("id_idx",), 11)


def test_what_it_did_can_be_printed_as_json(lake: quire.Lake) -> None:
    scatter(lake, "t", 2)
    told = optimize(lake).to_dict()
    assert told["commits"] == [lake.head]
    assert told["tables"][0]["indexes"] == []
    assert set(told["tables"][0]) == set(TableOptimized.__dataclass_fields__)


def test_tables_are_chosen_by_name(lake: quire.Lake) -> None:
    scatter(lake, "a", 2)
    scatter(lake, "b", 2)
    found = optimize(lake, ["b"])
    assert [t.table for t in found.tables] == ["b"]
    assert (fragments(lake, "a"), fragments(lake, "b")) == (2, 1)
    assert found["b"].outcome == "optimized"
    with pytest.raises(TableNotFound):
        optimize(lake, ["nope"])


def test_progress_counts_up_for_every_step(lake: quire.Lake) -> None:
    scatter(lake, "t", 6)
    commit(lake, "t", lambda t: t.create_index("id"))
    told: list[tuple[str, int, int]] = []
    optimize(lake, target_rows=4, progress=lambda *step: told.append(step))
    steps = {what: [done for w, done, _ in told if w == what] for what, _, _ in told}
    assert list(steps) == ["look", "compact t", "index t", "commit", "checkpoint"]
    assert steps["compact t"] == [1, 2, 3]
    assert all(done <= total for _, done, total in told)


def test_a_table_whose_validator_is_not_installed_can_be_optimized(lake: quire.Lake) -> None:
    """No row changes, so there is nothing to validate."""
    validators.install("rules of a test", lambda tx, tables: None)
    try:
        lake.create_table("t", rows(1), validator="rules of a test")
        commit(lake, "t", lambda t: t.append(rows(2)))
    finally:
        del validators._installed["rules of a test"]
    with pytest.raises(ValidatorMissing):
        commit(lake, "t", lambda t: t.append(rows(3)))
    assert optimize(lake)["t"].outcome == "optimized"


def test_it_can_be_reverted_and_done_again(lake: quire.Lake) -> None:
    scatter(lake, "t")
    commit(lake, "t", lambda t: t.create_index("id"))
    [done] = optimize(lake).commits
    lake.revert(done)
    assert fragments(lake) == 5
    commit(lake, "t", lambda t: t.append(rows(100)))
    assert optimize(lake)["t"].fragments_before == 6
    assert content(lake) == [*((i, 10 * i) for i in range(10)), (100, 1000)]
    for i in (0, 9, 100):
        assert dataset(lake).to_table(filter=f"id = {i}").to_pylist() == [{"id": i, "v": 10 * i}]


def test_a_branch_is_optimized_apart_from_main(lake: quire.Lake) -> None:
    scatter(lake, "t")
    side = lake.create_branch("side")
    assert optimize(side)["t"].outcome == "optimized"
    assert (fragments(side), fragments(lake)) == (1, 5)
    commit(lake, "t", lambda t: t.append(rows(100)))
    commit(side, "t", lambda t: t.append(rows(200)))
    assert sorted(r["id"] for r in side["t"].to_pylist()) == [*range(10), 200]
    assert [i for i, _ in content(lake)] == [*range(10), 100]


def test_a_registered_table_is_optimized_where_it_lies(lake: quire.Lake, tmp_path: Path) -> None:
    uri = str(tmp_path / "plain.lance")
    lance.write_dataset(rows(*range(10)), uri, max_rows_per_file=2)
    with lake.transaction() as tx:
        tx.register_table("t", uri)
    assert optimize(lake)["t"].fragments_after == 1
    assert content(lake) == [(i, 10 * i) for i in range(10)]
    lake.backfill()
    plain = lance.dataset(uri)
    assert len(plain.get_fragments()) == 1
    assert sorted(plain.to_table()["id"].to_pylist()) == list(range(10))


def test_plain_readers_get_the_compacted_table_and_its_indexes(lake: quire.Lake) -> None:
    scatter(lake, "t")
    commit(lake, "t", lambda t: t.create_index("id"))
    commit(lake, "t", lambda t: t.append(rows(100)))
    optimize(lake)
    lake.backfill()
    state = lake.snapshot()._state.by_name("t")
    assert state is not None
    plain = lance.dataset(f"{lake.uri}/{state.pin.location}")
    assert len(plain.get_fragments()) == 1
    assert "ScalarIndexQuery" in plain.scanner(filter="id = 100").explain_plan()
    assert plain.to_table(filter="id = 100").to_pylist() == [{"id": 100, "v": 1000}]
    late = lance.write_dataset(rows(101), plain.uri, mode="append")
    assert sorted(late.to_table(filter="id >= 100")["id"].to_pylist()) == [100, 101]


def test_it_goes_on_after_a_table_that_cannot_be_read(lake: quire.Lake) -> None:
    scatter(lake, "bad")
    scatter(lake, "good")
    state = lake.snapshot()._state.by_name("bad")
    assert state is not None
    for file in (Path(lake.uri) / state.pin.location / "data").iterdir():
        file.write_bytes(b"not a data file")
    found = optimize(lake)
    assert (found["bad"].outcome, found["good"].outcome) == ("failed", "optimized")
    assert found["bad"].detail


def test_tables_that_were_not_touched_are_not_opened(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        for i in range(20):
            tx.create_table(f"t{i:02}", rows(i))
    commit(lake, "t07", lambda t: t.append(rows(100)))
    optimize(lake)
    with quire.open(lake.uri, backfill=False) as fresh:
        found = optimize(fresh, dry_run=True)
        assert {t.outcome for t in found.tables} == {"nothing"}
        assert not fresh._core.format("lance")._session._handles  # type: ignore[attr-defined]
        commit(fresh, "t03", lambda t: t.delete("true"))
        assert optimize(fresh, dry_run=True)["t03"].outcome == "nothing"


# -- beside others ----------------------------------------------------------------------------------------------------

THEIRS: dict[str, Callable[[Any], Any]] = {
    "append": lambda t: t.append(rows(100)),
    "upsert": lambda t: t.upsert(rows(3, 100, times=7), on="id"),
    "update": lambda t: t.update({"v": "v + 1"}, where="id < 4"),
    "delete": lambda t: t.delete("id in (0, 1, 5)"),
}


@pytest.mark.parametrize("theirs", THEIRS)
def test_it_follows_writers_that_were_faster(lake: quire.Lake, rival: quire.Lake, theirs: str) -> None:
    scatter(lake, "t")
    commit(lake, "t", lambda t: t.create_index("id"))
    rival.refresh()
    found = optimize(lake, progress=just_before_commit(lambda: commit(rival, "t", THEIRS[theirs])))
    assert (found["t"].outcome, found["t"].tries) == ("optimized", 1)
    model = {i: 10 * i for i in range(10)}
    if theirs == "append":
        model[100] = 1000
    elif theirs == "upsert":
        model.update({3: 21, 100: 700})
    elif theirs == "update":
        model.update({i: 10 * i + 1 for i in range(4)})
    else:
        for i in (0, 1, 5):
            del model[i]
    assert content(lake) == sorted(model.items())
    handle = dataset(lake)
    assert len(handle.get_fragments()) == (1 if theirs == "delete" else 2)
    for i in (0, 3, 5, 100):
        assert [r["v"] for r in handle.to_table(filter=f"id = {i}").to_pylist()] == [
            v for k, v in model.items() if k == i
        ]
    assert lake.verify().findings == []


def test_it_begins_again_when_all_rows_were_replaced(lake: quire.Lake, rival: quire.Lake) -> None:
    scatter(lake, "t")
    rival.refresh()

    def replace_all() -> None:
        commit(rival, "t", lambda t: t.overwrite(rows(50)))
        commit(rival, "t", lambda t: t.append(rows(51)))

    found = optimize(lake, progress=just_before_commit(replace_all))
    assert (found["t"].outcome, found["t"].tries, found["t"].fragments_before) == ("optimized", 2, 2)
    assert content(lake) == [(50, 500), (51, 510)]


def test_it_gives_up_after_a_few_tries_without_a_commit_or_an_error(lake: quire.Lake, rival: quire.Lake) -> None:
    scatter(lake, "t")

    def replace_all() -> None:
        rival.refresh()
        commit(rival, "t", lambda t: t.overwrite(rows(50)))
        commit(rival, "t", lambda t: t.append(rows(51)))

    found = optimize(lake, progress=just_before_commit(replace_all, times=100))
    assert (found["t"].outcome, found["t"].tries) == ("busy", 3)
    assert found["t"].detail
    assert found.commits == ()
    assert not any(c.message.startswith("optimize") for c in lake.log())


def test_what_others_replaced_row_by_row_is_given_up_quietly(lake: quire.Lake, rival: quire.Lake) -> None:
    scatter(lake, "a")
    scatter(lake, "b")
    rival.refresh()
    everything = rows(*range(10), times=7)
    found = optimize(
        lake, ["b"], progress=just_before_commit(lambda: commit(rival, "b", lambda t: t.upsert(everything, on="id")))
    )
    assert (found["b"].outcome, found.commits) == ("nothing", ())
    assert not any(c.message.startswith("optimize") for c in lake.log()), "nothing was left, so there is no commit"

    commit(lake, "b", lambda t: t.append(rows(100)))
    rival.refresh()
    everything = rows(*range(10), 100, times=8)
    found = optimize(
        lake, progress=just_before_commit(lambda: commit(rival, "b", lambda t: t.upsert(everything, on="id")))
    )
    assert (found["a"].outcome, found["a"].tries, found["b"].outcome) == ("optimized", 1, "nothing")
    assert list(lake.show(found.commits[0]).tables) == ["a"], "what is left of a group is committed"
    assert content(lake, "b") == [(i, 8 * i) for i in (*range(10), 100)]


def test_two_at_once_do_the_work_once(lake: quire.Lake, rival: quire.Lake) -> None:
    scatter(lake, "t")
    other: list[Optimized] = []
    found = optimize(lake, progress=just_before_commit(lambda: other.append(optimize(rival))))
    assert other[0]["t"].outcome == "optimized"
    assert (found["t"].outcome, found["t"].tries) == ("nothing", 2)
    assert content(lake) == [(i, 10 * i) for i in range(10)]


def test_a_table_that_is_lost_does_not_cost_the_others_of_its_group(lake: quire.Lake, rival: quire.Lake) -> None:
    scatter(lake, "a")
    scatter(lake, "b")
    scatter(lake, "c")
    rival.refresh()

    def act() -> None:
        commit(rival, "b", lambda t: t.overwrite(rows(1)))
        rival.refresh()
        with rival.transaction() as tx:
            tx.drop_table("c")

    found = optimize(lake, progress=just_before_commit(act))
    assert [(t.table, t.outcome) for t in found.tables] == [("a", "optimized"), ("b", "nothing"), ("c", "nothing")]
    assert (fragments(lake, "a"), content(lake, "b")) == (1, [(1, 10)])


def test_a_crash_in_the_middle_leaves_nothing_to_see_or_repair(lake: quire.Lake) -> None:
    scatter(lake, "t")
    commit(lake, "t", lambda t: t.create_index("id"))
    commit(lake, "t", lambda t: t.append(rows(100)))
    before, head = content(lake), lake.head
    for step in ("compact t", "index t", "commit"):
        script = (
            "import os, sys, quire; from quire.lake.upkeep.optimize import optimize\n"
            f"optimize(quire.open({lake.uri!r}), progress=lambda w, d, t: os._exit(7) if w == {step!r} else None)"
        )
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7
        assert (lake.refresh(), content(lake)) == (head, before)
        assert lake.verify().findings == []
    assert optimize(lake)["t"].outcome == "optimized"
    assert content(lake) == before


# -- what it does to writers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [False, True], ids=["blind", "has read"])
@pytest.mark.parametrize("mine", ["upsert", "update", "delete"])
def test_a_writer_whose_rows_were_moved_is_moved_along(
    lake: quire.Lake, rival: quire.Lake, mine: str, reads: bool
) -> None:
    scatter(lake, "t")
    rival.refresh()
    tx = rival.transaction()
    if reads:
        assert tx["t"].count() == 10
    THEIRS[mine](tx["t"])
    assert optimize(lake)["t"].outcome == "optimized"
    tx.commit()
    expected = {"upsert": (3, 21), "update": (3, 31), "delete": (3, 30)}[mine]
    assert expected in content(lake)
    assert len(content(lake)) == {"upsert": 11, "update": 10, "delete": 7}[mine]


@pytest.mark.parametrize("reads", [False, True], ids=["blind", "has read"])
def test_a_condition_takes_no_row_that_came_since_wherever_its_own_were_moved(
    lake: quire.Lake, rival: quire.Lake, reads: bool
) -> None:
    scatter(lake, "t")
    rival.refresh()
    tx = rival.transaction()
    if reads:
        assert tx["t"].count() == 10
    assert tx["t"].delete("id < 4 or id = 100") == 4
    commit(lake, "t", lambda t: t.append(rows(100)))
    optimize(lake)
    commit(lake, "t", lambda t: t.append(rows(2)))
    assert optimize(lake)["t"].outcome == "optimized"
    assert tx.commit().replayed == 0
    assert content(lake) == [(2, 20), *((i, 10 * i) for i in range(4, 10)), (100, 1000)]


def test_a_queue_that_is_emptied_beside_producers_and_upkeep_loses_no_job(lake: quire.Lake, rival: quire.Lake) -> None:
    """`delete("true")` takes the jobs that it has counted, and no other."""
    lake.create_table("t", rows(0))
    made, taken = 1, 0
    for turn in range(6):
        rival.refresh()
        tx = rival.transaction()
        taken += tx["t"].delete("true")
        for _ in range(turn % 3):
            commit(lake, "t", lambda t, made=made: t.append(rows(made)))
            made += 1
        if turn % 2:
            optimize(lake)
        tx.commit()
        commit(lake, "t", lambda t, made=made: t.append(rows(made, made + 1)))
        made += 2
        lake.refresh()
    assert taken + lake["t"].count() == made


@pytest.mark.parametrize("order", ["before", "after", "both"])
def test_updates_and_deletes_are_moved_over_a_compaction_among_other_changes(
    lake: quire.Lake, rival: quire.Lake, order: str
) -> None:
    """Which rows a rival changed is told one step after the other, where all at once it cannot be told any more."""
    scatter(lake, "t", key="id")
    rival.refresh()
    tx = rival.transaction()
    tx["t"].update({"v": "v + 1"}, where="id < 4")
    other = rival.transaction()
    other["t"].delete("id < 4")
    if order != "after":
        commit(lake, "t", lambda t: t.upsert(rows(8, times=7)))
    assert optimize(lake)["t"].outcome == "optimized"
    if order != "before":
        commit(lake, "t", lambda t: t.upsert(rows(9, times=7)))
    tx.commit()
    changed = {**{i: 10 * i for i in range(10)}, **{i: 10 * i + 1 for i in range(4)}}
    changed.update({8: 56} if order != "after" else {})
    changed.update({9: 63} if order != "before" else {})
    assert content(lake) == sorted(changed.items())
    with pytest.raises(Conflict):
        other.commit()  # the rows that it deleted were updated
    assert content(lake) == sorted(changed.items())


def test_a_row_in_dispute_is_a_conflict_on_either_side_of_a_compaction(lake: quire.Lake, rival: quire.Lake) -> None:
    scatter(lake, "t", key="id")
    rival.refresh()
    early, late = rival.transaction(), rival.transaction()
    early["t"].delete("id = 8")
    late["t"].delete("id = 9")
    commit(lake, "t", lambda t: t.upsert(rows(8, times=7)))
    optimize(lake)
    commit(lake, "t", lambda t: t.upsert(rows(9, times=7)))
    for tx in (early, late):
        with pytest.raises(Conflict):
            tx.commit()
    assert [r for r in content(lake) if r[0] > 7] == [(8, 56), (9, 63)]


WRITERS = 4
ROUNDS = 8


def write(lake: quire.Lake, number: int, rounds: int) -> dict[int, int]:
    """Every verb on rows of one's own, without a retry; what is there afterwards."""
    base, model = 1000 * (number + 1), {}
    for i in range(rounds):
        commit(lake, "log", lambda t, i=i: t.append(rows(base + i)))
        mine = [base + i, base + i // 2]
        commit(lake, "t", lambda t, i=i, mine=mine: t.upsert(rows(*sorted(set(mine)), times=i)))
        model.update({k: k * i for k in mine})
        one = base + i // 3
        commit(lake, "t", lambda t, one=one: t.update({"v": "v + 1"}, where=f"id = {one}"))
        model[one] += 1
        commit(lake, "t", lambda t, i=i: t.insert(rows(base + 500 + i)))
        if i % 3 == 2:
            commit(lake, "t", lambda t, i=i: t.delete(f"id in ({base + i}, {base + 500 + i})"))
            del model[base + i]
        else:
            model[base + 500 + i] = 10 * (base + 500 + i)
    return model


def prepare(lake: quire.Lake) -> None:
    lake.create_table("t", rows(*range(20)), key="id")
    lake.create_table("log", rows(0))
    with lake.transaction() as tx:
        tx["t"].create_index("id")
        tx["log"].create_index("v")


def check(lake: quire.Lake, models: list[dict[int, int]], rounds: int) -> None:
    expected = {i: 10 * i for i in range(20)}
    for model in models:
        expected.update(model)
    assert content(lake) == sorted(expected.items())
    appended = [0, *(1000 * (n + 1) + i for n in range(len(models)) for i in range(rounds))]
    assert [i for i, _ in content(lake, "log")] == appended
    handle = dataset(lake)
    for key, value in list(expected.items())[::7]:
        assert handle.to_table(filter=f"id = {key}").to_pylist() == [{"id": key, "v": value}]
    assert lake.verify().findings == []


def test_threads_write_beside_a_continuous_optimize_and_none_fails(lake: quire.Lake) -> None:
    prepare(lake)
    models: dict[int, dict[int, int]] = {}
    errors: list[BaseException] = []
    writing = threading.Event()

    def writer(number: int) -> None:
        try:
            with quire.open(lake.uri, backfill=False) as own:
                models[number] = write(own, number, ROUNDS)
        except BaseException as error:
            errors.append(error)

    runs: list[Optimized] = []

    def optimizer() -> None:
        try:
            with quire.open(lake.uri, backfill=False) as own:
                while not writing.is_set():
                    runs.append(optimize(own))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(WRITERS)]
    upkeep = threading.Thread(target=optimizer)
    for thread in (upkeep, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    writing.set()
    upkeep.join()
    assert errors == []
    check(lake, [models[n] for n in range(WRITERS)], ROUNDS)
    outcomes = [t.outcome for run in runs for t in run.tables]
    assert "failed" not in outcomes
    assert outcomes.count("optimized") >= 3, "it gets somewhere"
    optimize(lake)
    assert fragments(lake) == 1


def write_in_process(start: Start, uri: str, number: int, rounds: int) -> Any:
    with quire.open(uri, backfill=number == 1) as lake:
        start.wait()
        if number >= 0:
            return write(lake, number, rounds)
        outcomes: list[str] = []
        while lake["log"].count() < rounds * 3:
            outcomes += [t.outcome for t in optimize(lake).tables]
        return outcomes


def test_processes_write_beside_a_continuous_optimize_and_none_fails(lake: quire.Lake) -> None:
    prepare(lake)
    rounds = 4
    found = together(write_in_process, [(lake.uri, n, rounds) for n in (-1, 0, 1, 2)])
    lake.refresh()
    check(lake, [f.result for f in found[1:]], rounds)
    assert found[0].result.count("optimized") >= 2
    assert "failed" not in found[0].result


# -- cost -------------------------------------------------------------------------------------------------------------


def cost(s3: SeaweedFS, *, fragments: int, others: int = 0) -> tuple[int, dict[str, int]]:
    """Requests of one optimize of a table with so many fragments: Lance's, and Quire's by kind."""
    lake = quire.create(s3.uri(f"optimize-{uuid.uuid4().hex}"), storage_options=s3.options, backfill=False)
    with lake.transaction() as tx:
        tx.create_table("t", rows(0))
        for i in range(others):
            tx.create_table(f"other{i}", rows(0))
    for i in range(1, fragments):
        commit(lake, "t", lambda t, i=i: t.append(rows(i)))
    lake.flush()
    with metering() as meter:
        assert optimize(lake)["t"].fragments_after == 1
    lake.close()
    return meter.external["lance"], meter.requests


@pytest.mark.s3
def test_requests_follow_the_fragments_and_nothing_else(s3: SeaweedFS) -> None:
    few, quire_few = cost(s3, fragments=4)
    many, quire_many = cost(s3, fragments=24)
    assert many - few <= 2 * 20, "at most two more for every fragment more"
    assert few <= 2 * 4 + 4
    crowded, quire_crowded = cost(s3, fragments=4, others=30)
    assert crowded == few
    assert sum(quire_crowded.values()) == sum(quire_few.values()) + 1, "one look at the commit that made the others"
    assert "list" not in quire_many
    assert sum(quire_many.values()) <= 8


@pytest.mark.parametrize("format", ["lance", "memory"])
def test_the_bytes_of_new_columns_count_before_and_after(tmp_path: Path, format: str) -> None:
    memory.install()
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.transact(lambda tx: tx.create_table("t", [{"id": i} for i in range(20)], key="id", format=format) and None)
        lake.transact(lambda tx: tx["t"].insert([{"id": i} for i in range(20, 40)]) and None)
        before = lake["t"].bytes
        lake.transact(lambda tx: tx["t"].add_columns({"c": "concat('c', cast(id as varchar), repeat('x', 500))"}))
        grown = lake["t"].bytes
        assert grown > before + 100
        lake.optimize()
        assert lake["t"].bytes > 0
        assert lake["t"].bytes > grown / 4
