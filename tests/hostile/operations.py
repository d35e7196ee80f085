"""Every public operation on a lake, each with an answer that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import quire

DEAR = (
    "sql",
    "diff",
    "write: commit",
    "write: branch",
    "write: refs",
    "write: revert",
    "write: claim",
    "write: backfill",
    "write: upkeep",
    "write: race",
)
"""Operations that take long: a quick trial tries one of them, a thorough one tries all."""


def operations(about: Mapping[str, Any]) -> dict[str, Callable[[quire.Lake], Any]]:
    """Every public operation that reads, on an open lake; each gives something that can be compared."""
    middle, newest, then = about["middle"], about["newest"], about["time"]
    return {
        "snapshot": lambda lake: _state(lake.snapshot()),
        "read": lambda lake: {t: lake[t].to_pylist() for t in ("people", "events", "late")},
        "sql": lambda lake: lake.sql("select count(*) as n, sum(v) as v from events").to_pylist(),
        "describe": lambda lake: lake["people"].describe(),
        "log": lambda lake: [c.to_dict() for c in lake.log()],
        "show": lambda lake: [lake.show(c).to_dict() for c in (middle, newest)],
        "at commit": lambda lake: _rows(lake.at(commit=middle)),
        "at tag": lambda lake: _rows(lake.at(tag="v1")),
        "at time": lambda lake: _state(lake.at(time=then)),
        "branches": lambda lake: [b.to_dict() for b in lake.branches()],
        "tags": lambda lake: lake.tags(),
        "diff": lambda lake: lake.diff("v1").to_dict(),
        "branch": lambda lake: _rows(lake.branch("trial").snapshot()),
        "branch log": lambda lake: [c.to_dict() for c in lake.branch("trial").log()],
        "gone branch": lambda lake: _refused(lambda: lake.branch("gone"), quire.errors.QuireError),
        "status": lambda lake: {k: v for k, v in lake.status().items() if k in ("lake", "head", "tables", "rows")},
        "foreign": lambda lake: [p.table for p in lake.foreign()],
        "refresh": lambda lake: lake.refresh(),
        "recoveries": lambda lake: len(lake.recoveries()) <= 9,
        "html": lambda lake: len(lake._repr_html_()) > 0,
    }


def writes() -> dict[str, Callable[[quire.Lake], Any]]:
    """Operations that write, each on a lake of its own; they answer what can be seen afterwards."""

    def commit(lake: quire.Lake) -> Any:
        with lake.transaction("more", token=quire.token()) as tx:
            tx["events"].append([{"id": 99, "v": 9.0}])
            tx["people"].upsert([{"id": 3, "name": "again"}, {"id": 99, "name": "new"}])
        lake.flush()
        return _rows(lake.snapshot()), sorted(c.message[:20] for c in lake.log())

    def branch(lake: quire.Lake) -> Any:
        trial = lake.branch("trial")
        with trial.transaction("more") as tx:
            tx["events"].delete("id = 1")
        return _rows(trial.snapshot())

    def refs(lake: quire.Lake) -> Any:
        lake.tag("new", at="v1")
        lake.delete_tag("v1")
        lake.create_branch("gone", at="new")
        lake.delete_branch("trial")
        return sorted(lake.tags()), [b.name for b in lake.branches()]

    def revert(lake: quire.Lake) -> Any:
        lake.revert(lake.head)
        return _rows(lake.snapshot())

    def claim(lake: quire.Lake) -> Any:
        return lake.claim()

    def backfill(lake: quire.Lake) -> Any:
        done = [(p.table, p.outcome) for p in lake.backfill()]
        lake.flush()
        return done

    def upkeep(lake: quire.Lake) -> Any:
        lake.recover()
        lake.optimize()
        lake.cleanup(keep=1000, older_than=0, grace=0)
        return _rows(lake.snapshot())

    def race(lake: quire.Lake) -> Any:
        """A writer that loses and does not offer: only then is the seat of those who wait looked at."""
        with quire.open(lake.uri, backfill=False, offers=False) as slower:
            for number, writer in enumerate((lake, slower)):
                with writer.transaction("one of two") as tx:
                    tx["events"].append([{"id": 200 + number, "v": 9.0}])
        return _rows(lake.snapshot())

    every = (commit, branch, refs, revert, claim, backfill, upkeep, race)
    return {f"write: {verb.__name__}": verb for verb in every}


def _state(snapshot: quire.Snapshot) -> Any:
    return snapshot.commit, snapshot.time, {t: (snapshot[t].version, snapshot[t].count()) for t in snapshot.tables()}


def _rows(snapshot: quire.Snapshot) -> Any:
    return {t: sorted(map(str, snapshot[t].to_pylist())) for t in snapshot.tables()}


def _refused(call: Callable[[], Any], kind: type[quire.QuireError]) -> str:
    try:
        call()
    except kind:
        return "refused"
    return "not refused"
