"""Optimize and cleanup run all the time beside writers and long readers: no error, no missing file, and real work."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import pytest
from tests.budget import budget
from tests.soak import upkeep
from tests.system.processes import together

import quire
from quire.testing.s3 import SeaweedFS

PROCESSES = upkeep.WRITERS + upkeep.READERS + 2


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def plan(request: pytest.FixtureRequest, tmp_path: Path, seconds: float) -> upkeep.Plan:
    (tmp_path / "notes").mkdir()
    uri, options = str(tmp_path / "lake"), None
    if request.param == "s3":
        if seconds < 60:
            pytest.skip("in `make soak`")
        s3: SeaweedFS = request.getfixturevalue("s3")
        uri, options = s3.uri(uuid.uuid4().hex), s3.options
    long = seconds >= 60
    return upkeep.Plan(
        uri,
        options,
        str(tmp_path / "notes"),
        seconds,
        older_than=5.0 if long else 1.0,
        rewrites=20 if long else budget(8, full=20),
        deleted=500 if long else budget(8, full=20),
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_upkeep_beside_writers_and_long_readers_harms_nobody(plan: upkeep.Plan) -> None:
    upkeep.create(plan.uri, plan.options)

    ends: list[upkeep.Done] = [f.result for f in together(upkeep.process, [(plan, n) for n in range(PROCESSES)])]

    counts: Counter[str] = sum((d.counts for d in ends), Counter())
    print(f"\n{dict(counts)}")
    errors = [error for d in ends for error in d.errors]
    assert errors == [], "\n".join(errors)
    with quire.open(plan.uri, storage_options=plan.options) as lake:
        check_content(lake.snapshot(), ends[: upkeep.WRITERS])
        verified = lake.verify()
    print(verified.to_dict())
    assert verified.ok, verified.findings
    check_hard_work(counts, plan)


def check_content(snapshot: quire.Snapshot, writers: list[upkeep.Done]) -> None:
    """What every writer was told is there, and nothing else; an index finds what a scan finds."""
    events = sorted(snapshot["events"].to_arrow()["id"].to_pylist())
    assert events == sorted(id for w in writers for id in w.events)
    rows = {row["id"]: (row["count"], row["changes"]) for row in snapshot["counts"].to_pylist()}
    assert rows == {id: row for w in writers for id, row in w.rows.items()}
    assert snapshot["counts"].count() == len(rows)
    for id in events[:: max(1, len(events) // 20)]:
        assert snapshot["events"].count(f"id = '{id}'") == 1


def check_hard_work(counts: Counter[str], plan: upkeep.Plan) -> None:
    """A run in which nothing was rewritten or deleted proves nothing."""
    assert counts["rewrites"] >= plan.rewrites
    assert counts["deleted"] >= plan.deleted
    assert counts["commits"] >= plan.seconds / 4
    assert counts["leases"] >= 1
    assert counts["looks"] >= 10
    assert counts["too late"] <= counts["snapshots"] // 4
