"""Ctrl-C, deadlines and forks: the program always knows whether it committed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.system import interrupted, ledgers
from tests.system.processes import together
from tests.system.writers import TABLES, rows

import quire

pytestmark = pytest.mark.slow

ADDED = dict.fromkeys(TABLES, 6 + 1001)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    place = str(tmp_path / "lake")
    ledgers.create(place)
    return place


def state(uri: str) -> tuple[str, dict[str, int]]:
    snapshot = quire.open(uri, read_only=True).snapshot()
    return snapshot.commit, ledgers.sums(snapshot)


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "point",
    ["stage: data files written", "stage: one of two tables staged", "stage: before the files are synced"],
)
def test_ctrl_c_while_staging_commits_nothing(uri: str, point: str) -> None:
    [ended] = together(interrupted.commit_and_interrupt, [(uri, point)])

    assert ended.result == interrupted.Ended("KeyboardInterrupt", "discarded")
    assert state(uri) == ("1.0", ledgers.NOTHING)


@pytest.mark.parametrize(
    "point",
    [
        "publish: before the slot is sent",
        "publish: slot written aside, not linked",
        "publish: slot created",
        "publish: outcome known",
    ],
)
def test_ctrl_c_while_publishing_is_raised_with_the_outcome_known(uri: str, point: str) -> None:
    [ended] = together(interrupted.commit_and_interrupt, [(uri, point)])

    assert ended.result == interrupted.Ended("KeyboardInterrupt", "committed", "2.0")
    assert state(uri) == ("2.0", ADDED)


def test_ctrl_c_stops_an_append_from_an_endless_iterator(uri: str) -> None:
    [ended] = together(interrupted.interrupt_an_endless_append, [(uri,)])

    assert ended.result == interrupted.Ended("KeyboardInterrupt", "discarded")
    assert state(uri) == ("1.0", ledgers.NOTHING)


def test_a_second_ctrl_c_while_the_outcome_is_awaited_leaves_it_unknown_until_it_is_settled(uri: str) -> None:
    [ended] = together(interrupted.interrupt_twice, [(uri,)])

    assert ended.result == ["CommitUnknown", "unknown", quire.Outcome.UNKNOWN, quire.Outcome.COMMITTED]
    assert state(uri) == ("2.0", ADDED)


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit", "SoftLimit"])
def test_a_signal_in_the_queue_takes_the_member_out_and_holds_up_nobody(uri: str, kind: str) -> None:
    [ended] = together(interrupted.interrupt_in_a_queue, [(uri, kind)])

    said, log = ended.result
    assert said == interrupted.Ended(kind, "discarded")
    assert log[:2] == ["afterwards", "leader"]
    assert "interrupted" not in log


# -- deadlines --------------------------------------------------------------------------------------------------------


def test_a_deadline_that_passes_while_rows_arrive_commits_nothing(uri: str) -> None:
    lake = quire.open(uri)
    tx = lake.transaction("slow input", timeout=0.2)

    def slow() -> Iterator[pa.RecordBatch]:
        yield rows(1, 0).to_batches()[0]
        while time.monotonic() <= tx.deadline:
            time.sleep(0.01)
        yield rows(1, 1).to_batches()[0]

    def program() -> None:
        with tx:
            for table in TABLES:
                tx[table].append(slow())

    with pytest.raises(quire.errors.DeadlineExceeded):
        program()

    assert tx.status == "discarded"
    assert state(uri) == ("1.0", ledgers.NOTHING)


def test_a_deadline_that_passes_before_commit_commits_nothing(uri: str) -> None:
    lake = quire.open(uri)
    tx = lake.transaction("slow program", timeout=0.2)
    for table in TABLES:
        tx[table].append(rows(1, 0))
    while time.monotonic() <= tx.deadline:
        time.sleep(0.01)

    with pytest.raises(quire.errors.DeadlineExceeded):
        tx.commit()

    assert state(uri) == ("1.0", ledgers.NOTHING)
    with lake.transaction("in time", timeout=60) as tx:
        for table in TABLES:
            tx[table].append(rows(1, 0))
    assert state(uri) == ("2.0", ADDED)


def test_transact_gives_up_at_its_deadline(uri: str) -> None:
    lake, rival = quire.open(uri), quire.open(uri)

    def always_beaten(tx: quire.Transaction) -> None:
        tx["debits"].update({"amount": "amount + 1"}, where="seq = 0")
        with rival.transaction("faster") as other:
            other["debits"].update({"amount": "amount + 1"}, where="seq = 0")

    with pytest.raises(quire.errors.DeadlineExceeded):
        lake.transact(always_beaten, retries=10_000, timeout=1.0)

    assert {c.message for c in lake.log()} == {"create lake", "tables", "faster"}


# -- forks ------------------------------------------------------------------------------------------------------------


def test_every_verb_is_refused_in_a_forked_child(uri: str) -> None:
    with quire.open(uri) as lake:
        lake.create_branch("other")
    before = state(uri)

    [ended] = together(interrupted.use_in_a_forked_child, [(uri,)])

    assert ended.result == dict.fromkeys(ended.result, "forked-process")
    assert state(uri) == before
    assert [b.name for b in quire.open(uri).branches()] == ["main", "other"]


def test_a_forked_child_that_ends_does_not_hang(uri: str) -> None:
    done = subprocess.run([sys.executable, "-c", interrupted.EXIT_OF_A_FORKED_CHILD, uri], timeout=120)

    assert done.returncode == 7
    assert state(uri) == ("2.0", ADDED)
