"""Cleanup on a lake that is damaged: it may refuse, but it deletes nothing that the sound lake needs.

Each case spoils one object, runs the most eager cleanup there is, puts the object back, and reads everything.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.conftest import EVERY, FUZZ
from tests.hostile.specimen import Specimen, put
from tests.laboratory.hostile import attempt, damage, forge, watched

import quire
from quire.ledger.records import NEWEST

READS = ("read", "at tag", "branch", "show")


def eager(lake: quire.Lake) -> Any:
    return lake.cleanup(keep=1000, older_than=0, grace=0, dead_after=30)


def survives(specimen: Specimen, key: str, body: bytes | None) -> list[str]:
    """What is wrong after a cleanup that met this instead of the sound object, and after the sound one is back."""
    with specimen.copied() as place:
        sound = specimen.read(key)
        age(place)
        put(place, key, body)
        old(place / key)
        with watched(str(specimen.scratch), str(place)) as touched:
            told = attempt(lambda: _cleaned(place))
        put(place, key, sound)
        problems = [told.problem] if told.problem else []
        problems += [f"touched {path}" for path in sorted(touched)]
        lake = quire.open(place, read_only=True)
        for name in READS:
            found = attempt(lambda name=name: specimen.reads[name](lake))  # type: ignore[misc]
            if found.answer != specimen.answers[name]:
                problems.append(f"{name} afterwards: {found.error or found.problem or 'a wrong answer'}")
        return problems


def _cleaned(place: Path) -> None:
    with quire.open(place, backfill=False) as lake:
        eager(lake)


def age(place: Path) -> None:
    """Make everything old enough to be deleted. Copies share their files, so each gets its own first."""
    for path in place.rglob("*"):
        if path.is_file():
            body = path.read_bytes()
            path.unlink()
            path.write_bytes(body)
            old(path)


def old(path: Path, seconds: float = 100_000) -> None:
    if path.exists():
        then = time.time() - seconds
        os.utime(path, (then, then))


@pytest.mark.parametrize("kind", EVERY)
def test_cleanup_of_a_damaged_lake_deletes_nothing_that_is_needed(
    objects: dict[str, tuple[Specimen, str]], kind: str
) -> None:
    specimen, key = objects[kind]
    body = specimen.read(key)
    chosen = [c for c in damage(body, flips=20) if FUZZ or c.name == "first half"]
    found = {c.name: survives(specimen, key, c.body) for c in chosen}
    assert {name: problems for name, problems in found.items() if problems} == {}


SLOTS = ("genesis", "old slot", "side slot", "claim", "side", "format")


@pytest.mark.parametrize("kind", [*SLOTS, "hint", "checkpoint", "note", "lease", "first kept slot", "tombstone"])
def test_cleanup_of_a_lake_that_lost_an_object_deletes_nothing_that_is_needed(
    objects: dict[str, tuple[Specimen, str]], kind: str
) -> None:
    specimen, key = objects[kind]
    assert survives(specimen, key, None) == []


def test_cleanup_does_not_take_a_branch_that_lost_a_slot_for_a_shorter_one(specimen: Specimen) -> None:
    """Without its first slot the branch looks as if nothing had ever been written to it."""
    assert survives(specimen, f"_quire/log/{specimen.branch_id}/{3:020d}", None) == []


def test_cleanup_does_not_take_the_log_of_a_branch_that_lost_its_ref_for_garbage(specimen: Specimen) -> None:
    assert survives(specimen, specimen.objects()["branch"], None) == []


@pytest.mark.parametrize("kind", ["note", "lease"])
def test_cleanup_heeds_protectors_that_it_cannot_read(specimen: Specimen, kind: str) -> None:
    """A newer Quire may protect in ways this one does not know: then nothing may be deleted."""
    key = specimen.objects()[kind]
    with specimen.copied() as place:
        age(place)
        stray = place / "tables" / f"{'a' * 16}.lance" / "data" / "staged.lance"
        stray.parent.mkdir(parents=True)
        stray.write_bytes(b"what a writer of the future has staged")
        old(stray, 50_000)
        put(place, key, forge(specimen.read(key), {"format": NEWEST + 1}))
        told = attempt(lambda: _cleaned(place))
        assert told.problem is None
        assert stray.exists() or kind == "lease"
        assert isinstance(told.error, quire.errors.NewerFormat)


HOSTILE: dict[str, tuple[str, dict[str, Any]]] = {
    "a lease that never ends": ("lease", {"seconds": 1e308}),
    "a lease of less than nothing": ("lease", {"seconds": -1e308}),
    "a lease of a commit that is not": ("lease", {"target.slot": 10**9}),
    "a lease of a commit of nobody": ("lease", {"target.branch": "../../outside"}),
    "a lease on a line that climbs out": ("lease", {"line.branch": "../../outside"}),
    "a note since the beginning of time": ("note", {"since": "0001-01-01T00:00:00Z"}),
    "a note since before the beginning of time": ("note", {"since": "0001-01-01T00:00:00+23:59"}),
    "a note since the end of time": ("note", {"since": "9999-12-31T23:59:59.999999-23:59"}),
    "a note of another writer": ("note", {"id": "../../outside"}),
    "a log that was buried beyond its end": ("buried", {"upto": 10**18, "left": [10**18]}),
    "a log of which everything was left": ("buried", {"upto": 0, "left": list(range(5000))}),
    "a floor with a horizon in the future": ("floor", {"floor.horizon": "9999-12-31T23:59:59.999999Z"}),
    "a floor that revokes thousands": ("floor", {"floor.revoked": ["x" * 16] * 10_000}),
    "a tombstone that leads to itself": ("tombstone", {"checkpoint.slot": 1}),
    "a tombstone that leads out": ("tombstone", {"checkpoint.branch": "../../outside"}),
    "a tombstone that leads nowhere": ("tombstone", {"checkpoint": None}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_protectors_and_floors_do_no_harm(objects: dict[str, tuple[Specimen, str]], name: str) -> None:
    kind, changes = HOSTILE[name]
    specimen, key = objects[kind]
    forged = forge(specimen.read(key), changes)
    assert survives(specimen, key, forged) == []
    assert specimen.trial({key: forged}, right=False, only={"read", "log", "at tag", "write: upkeep"}) == []
