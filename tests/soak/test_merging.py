"""Teams merge their branches while they write, beside upkeep, and all are killed: nothing lost, nothing half merged."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from tests.soak import merging
from tests.soak.children import Children

import quire
from quire.errors import SnapshotExpired
from quire.testing.processes import context


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_teams_that_merge_and_are_killed_lose_nothing_and_leave_nothing_half_merged(
    tmp_path: Path, seconds: float
) -> None:
    place = merging.Place(str(tmp_path / "lake"), str(tmp_path))
    merging.create(place)
    kills = run(place, seconds)

    told = [merging.notes(place, team) for team in range(merging.TEAMS)]
    merged = [{line["seq"] for line in lines if line["what"] == "merged"} for lines in told]
    lives = sum(line["what"] == "life" for lines in told for line in lines)
    print(f"\n{kills} kills, {lives} lives, merges acknowledged: {list(map(len, merged))}")
    with quire.open(place.uri, author="afterwards") as lake:
        lake.recover()
        here = {table: merging.ids(lake, table) for table in merging.TABLES}
        for team, seqs in enumerate(merged):
            assert {merging.marker(team, s) for s in seqs} <= set(here["one"]), "a merge that was acknowledged is lost"
        looked = check_that_no_commit_is_half_merged(lake)
        for team, lines in enumerate(told):
            own = lake.branch(f"team{team}")
            written = {line["seq"] for line in lines if line["what"] == "written"}
            assert {merging.marker(team, s) for s in written} <= set(merging.ids(own, "one"))
            own.close()
            lake.merge(f"team{team}")
        check_the_end(lake)
        verified = lake.verify()
    assert verified.ok, verified.findings
    assert kills >= seconds / 4
    assert min(map(len, merged)) >= 1
    assert looked >= 2


def run(place: merging.Place, seconds: float) -> int:
    """Kill and start teams and upkeep until time is up; how many kills there were."""
    kills, chance, start = 0, random.Random(), context("tests.soak.merging")
    with (
        Children(start, merging.work, [(place,)] * merging.TEAMS) as teams,
        Children(start, merging.tidy, [(place,)]) as upkeep,
    ):
        began = time.monotonic()
        while time.monotonic() < began + seconds or (
            time.monotonic() < began + 60 + 10 * seconds and not has_worked(place)
        ):
            time.sleep(chance.uniform(0.3, 1.5))
            victims, number = (upkeep, 0) if chance.random() < 0.2 else (teams, chance.randrange(merging.TEAMS))
            if victims is teams and chance.random() < 0.7 and is_new(place, number):
                continue
            kills += victims.kill(number)
            victims.start(number)
        place.path("stop").touch()
        for children in (teams, upkeep):
            children.join(120)
        assert teams.failed + upkeep.failed == []
    return kills


def is_new(place: merging.Place, team: int) -> bool:
    """Whether this life of a team has not merged yet: most may, also where a process takes seconds to start."""
    lives = [line["what"] for line in merging.notes(place, team) if line["what"] in ("life", "merged")]
    return not lives or lives[-1] == "life"


def has_worked(place: merging.Place) -> bool:
    return all(any(line["what"] == "merged" for line in merging.notes(place, t)) for t in range(merging.TEAMS))


def check_that_no_commit_is_half_merged(lake: quire.Lake) -> int:
    """Both tables hold the same markers, each once, at every commit of main that is kept; how many there are."""
    looked = 0
    for entry in lake.log():
        if entry.id == "0.0":
            continue
        try:
            past = lake.at(commit=entry.id)
            one, two = (past[t].scan(columns=["id"]).to_arrow()["id"].to_pylist() for t in merging.TABLES)
        except SnapshotExpired:
            continue
        assert sorted(one) == sorted(two), entry
        assert len(one) == len(set(one)), entry
        looked += 1
    return looked


def check_the_end(lake: quire.Lake) -> None:
    """All markers, without a gap, and in the shared rows the last value that each team wrote to its column."""
    found = merging.ids(lake, "one")
    assert sorted(found) == sorted(merging.ids(lake, "two"))
    shared = {row["id"]: row for row in lake["shared"].to_pylist()}
    assert sorted(shared) == list(range(merging.SHARED))
    for team in range(merging.TEAMS):
        seqs = sorted(i % 1_000_000 for i in found if i >= 0 and i // 1_000_000 == team)
        assert seqs == list(range(len(seqs))), "a marker in between is lost"
        for i, row in shared.items():
            assert row[f"c{team}"] == max((s for s in seqs if s % merging.SHARED == i), default=-1)
