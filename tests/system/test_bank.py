"""A bank and some lists under several processes, with a zombie and cleanup: no anomaly, no money made or lost."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.system import bank
from tests.system.processes import Start, together

import quire
from quire.testing.history import Journal, Report, check, load
from quire.testing.s3 import SeaweedFS

WRITERS = 4
CLEANUP: dict[str, Any] = {"keep": 5, "older_than": 0, "grace": 0}
"""As greedy as it can be: beyond the last commits, only what is a few seconds old is safe."""


def process(start: Start, plan: bank.Plan, number: int) -> bank.Done:
    return bank.write(start, plan, number) if number < WRITERS else bank.watch(start, plan)


DELTA = ("savings", "middle", "right")
"""Tables that are Delta tables; the others are Lance tables."""


def play(plan: bank.Plan) -> tuple[Counter[str], Report]:
    """Run all processes, look once more at everything, and check the history."""
    bank.create(plan.uri, plan.options, DELTA)
    finished = together(process, [(plan, number) for number in range(WRITERS + 1)])
    ends: list[bank.Done] = [f.result for f in finished]
    assert [d.errors for d in ends] == [[]] * len(ends)

    last = bank.Done()
    journal = Journal(plan.flag("last.jsonl"), "last look")
    with quire.open(plan.uri, storage_options=plan.options) as lake:
        bank.look(lake, journal, "last look", last)
        bank.look(lake.branch(bank.SIDE), journal, "last look at the side", last, bank.SIDE)
        assert last.errors == []
        verified = lake.verify()
        assert verified.ok, verified.findings
    report = check(load(sorted(Path(plan.folder).glob("*.jsonl"))))
    counts = sum((d.counts for d in ends), Counter())
    print(f"\n{dict(counts)}\n{report}\n{check_strictly(plan)} anomalies if all had been serializable")
    return counts, report


def check_strictly(plan: bank.Plan) -> int:
    return len(check(load(sorted(Path(plan.folder).glob("*.jsonl"))), "serializable").anomalies)


def check_hard_work(plan: bank.Plan, counts: Counter[str], report: Report) -> None:
    """A run in which nothing met anything proves nothing."""
    count = WRITERS * plan.count
    assert counts["snapshot"] + counts["serializable"] + counts["conflict"] == count + 2 * plan.rounds
    assert counts["conflict"] <= count // 10
    assert counts["again"] > 0
    assert counts["looks"] >= 5
    assert counts["expired"] <= counts["looks"] // 10
    assert counts["claims"] == plan.rounds
    assert counts["fenced"] == 2 * plan.rounds
    assert all(report.edges[kind] >= count // 2 for kind in ("ww", "wr", "rw"))
    if plan.cleanup is not None:
        assert counts["cleanups"] > 0


@pytest.mark.slow
@pytest.mark.s3
def test_a_bank_on_s3_keeps_its_money_and_its_history_has_no_anomaly(s3: SeaweedFS, tmp_path: Path) -> None:
    plan = bank.Plan(s3.uri(uuid.uuid4().hex), s3.options, str(tmp_path), 10, pause=0.6, cleanup=CLEANUP)

    counts, report = play(plan)

    assert report.ok, str(report)
    check_hard_work(plan, counts, report)


@pytest.mark.full
@pytest.mark.slow
def test_a_crowded_bank_on_disk_keeps_its_money_and_its_history_has_no_anomaly(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    plan = bank.Plan(str(tmp_path / "lake"), None, str(tmp_path / "notes"), 20, pause=0.0, cleanup=CLEANUP)

    counts, report = play(plan)

    assert report.ok, str(report)
    check_hard_work(plan, counts, report)
