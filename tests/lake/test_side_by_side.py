"""Upkeep looks at tables, versions and branches side by side: its hops do not follow their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import quire
from quire.store import Meter, metering


def made(where: Path, *, tables: int = 1, commits: int = 1, branches: int = 0) -> quire.Lake:
    lake = quire.create(where, backfill=False)
    with lake.transaction() as tx:
        for number in range(tables):
            tx.create_table(f"t{number}", [{"id": 0}])
    for number in range(commits):
        with lake.transaction() as tx:
            tx["t0"].append([{"id": number}])
        lake.backfill()
    for number in range(branches):
        lake.create_branch(f"b{number}")
    lake.flush()
    return lake


def spent(lake: quire.Lake, verb: str, **options: Any) -> Meter:
    with quire.open(lake.uri, backfill=False) as fresh, metering() as meter:
        getattr(fresh, verb)(**options)
    return meter


def test_recovery_looks_at_tables_side_by_side(tmp_path: Path) -> None:
    few, many = (spent(made(tmp_path / str(n), tables=n), "recover") for n in (2, 12))
    assert many.total >= few.total + 20
    assert many.hops <= few.hops


def test_cleanup_looks_at_branches_side_by_side(tmp_path: Path) -> None:
    few, many = (spent(made(tmp_path / str(n), branches=n), "cleanup", dry_run=True) for n in (2, 12))
    assert many.total >= few.total + 20
    assert many.hops <= few.hops


def test_cleanup_reads_every_version_once_and_side_by_side(tmp_path: Path) -> None:
    few, many = (spent(made(tmp_path / str(n), commits=n), "cleanup", dry_run=True) for n in (4, 20))
    assert many.hops <= few.hops + 2, "the log is read in growing batches"
    # For each commit its record, which is met on three ways, and once its staged version and its plain version.
    assert many.total - few.total <= 5 * (20 - 4)
    assert not many.external, "Lance asks the store for nothing"


def test_a_revert_is_billed_for_what_it_reads_and_reads_it_once(tmp_path: Path) -> None:
    lake = made(tmp_path / "lake", commits=3)
    with metering() as meter:
        receipt = lake.revert(lake.head)
    assert receipt.cost is not None
    assert receipt.cost["requests"] == meter.requests
    # The commit is slot 4. Is there a slot 5? Then the one before it, 3, and what leads to that: 0 to 2.
    assert meter.requests == {"get": 5, "create": 1}
    assert lake["t0"].count() == 3
