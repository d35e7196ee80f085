"""Many processes write at once: nothing is lost, nothing is doubled, nobody starves, no conflict reaches a caller."""

from __future__ import annotations

import statistics
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from tests.budget import budget
from tests.system import writers
from tests.system.processes import Finished, together

import quire
from quire.testing.s3 import SeaweedFS

PROCESSES = budget(6, full=12)


@pytest.fixture(
    params=[
        pytest.param(("local", budget(4, full=50)), id="local"),
        pytest.param(("s3", budget(2, full=5)), id="s3", marks=pytest.mark.s3),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str] | None, int]:
    """A free place for a lake, its storage options, and how many transactions a writer should make there."""
    kind, count = request.param
    if kind == "local":
        return str(tmp_path / "lake"), None, count
    s3: SeaweedFS = request.getfixturevalue("s3")
    return s3.uri(uuid.uuid4().hex), s3.options, count


def run(
    writer: Callable[..., Any], uri: str, options: dict[str, str] | None, processes: int, count: int
) -> list[Finished]:
    return together(writer, [(uri, options, number, count) for number in range(processes)])


@pytest.mark.slow
def test_processes_that_append_to_the_same_two_tables_all_succeed(
    place: tuple[str, dict[str, str] | None, int],
) -> None:
    uri, options, count = place
    with quire.create(uri, storage_options=options) as lake:
        with lake.transaction("tables") as tx:
            for table in writers.TABLES:
                tx.create_table(table, schema=writers.SCHEMA)

    finished = run(writers.append_to_both, uri, options, PROCESSES, count)

    written: list[writers.Written] = [f.result for f in finished]
    assert [w.errors for w in written] == [[]] * PROCESSES
    acknowledged = {c: f"{w.writer}/{seq}" for w in written for seq, c in enumerate(w.commits)}
    assert len(acknowledged) == PROCESSES * count

    with quire.open(uri, storage_options=options, read_only=True) as lake:
        log = list(lake.log())
        assert {c.id: c.message for c in log if c.author.startswith("writer ")} == acknowledged
        check_every_commit(lake, [c.id for c in reversed(log)][2:], acknowledged)

    seconds = sorted(f.seconds for f in finished)
    attempts = [a for w in written for a in w.attempts]
    print(f"finish times {[round(s, 1) for s in seconds]}")
    print(f"attempts: {statistics.mean(attempts):.2f} on average, {max(attempts)} at most")
    assert max(seconds) <= 3 * statistics.median(seconds), seconds


def check_every_commit(lake: quire.Lake, commits: list[str], acknowledged: dict[str, str]) -> None:
    """At every commit both tables hold as many rows as there were commits; the rows themselves are read at some.

    Reading all rows at all commits takes time with the square of the commits.
    """
    expected: Counter[tuple[int, int]] = Counter()
    total = 0
    for number, commit in enumerate(commits, 1):
        writer, seq = map(int, acknowledged[commit].split("/"))
        expected[writer, seq] += 1
        total += writers.amount(writer, seq)
        snapshot = lake.at(commit=commit)
        counts = {t: snapshot[t].count() for t in writers.TABLES}
        assert counts == dict.fromkeys(writers.TABLES, number), commit
        if number % 10 in (0, 1):
            sums = {
                t: pc.sum(snapshot[t].scan(columns=["amount"]).to_arrow()["amount"]).as_py() for t in writers.TABLES
            }
            assert sums == dict.fromkeys(writers.TABLES, total), commit
    for table in writers.TABLES:
        found = lake.snapshot()[table].to_arrow()
        assert Counter(zip(found["writer"].to_pylist(), found["seq"].to_pylist(), strict=True)) == expected


@pytest.mark.slow
def test_processes_that_write_different_tables_never_conflict(tmp_path: Path) -> None:
    uri, processes, count = str(tmp_path / "lake"), 4, budget(5, full=10)
    with quire.create(uri) as lake, lake.transaction("tables") as tx:
        for number in range(processes):
            tx.create_table(f"own_{number}", schema=writers.SCHEMA)

    run(writers.append_to_own_table, uri, None, processes, count)

    snapshot = quire.open(uri, read_only=True).snapshot()
    for number in range(processes):
        found = snapshot[f"own_{number}"].to_arrow()
        assert sorted(found["amount"].to_pylist()) == [writers.amount(number, seq) for seq in range(count)]
        assert set(found["writer"].to_pylist()) == {number}


@pytest.mark.slow
def test_processes_that_upsert_different_keys_of_one_table_never_conflict(tmp_path: Path) -> None:
    uri, processes, count = str(tmp_path / "lake"), 4, budget(4, full=8)
    with quire.create(uri) as lake, lake.transaction("tables") as tx:
        tx.create_table("accounts", [{"id": "everybody", "amount": 0}], key="id")

    run(writers.upsert_own_keys, uri, None, processes, count)

    found = quire.open(uri, read_only=True).snapshot()["accounts"].to_pylist()
    expected = {"everybody": 0}
    for number in range(processes):
        expected |= {f"{number}/{seq}": -writers.amount(number, seq) for seq in range(count - 1)}
        expected[f"{number}/{count - 1}"] = writers.amount(number, count - 1)
    assert len(found) == len(expected)
    assert {row["id"]: row["amount"] for row in found} == expected
