"""The tools themselves: each kind of misbehaviour is told as a problem."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest
from tests.hostile.specimen import Specimen
from tests.laboratory.hostile import Told, attempt, damage, flip, forge, forgeries, seal, watched

from quire.errors import CorruptRecord
from quire.testing.processes import context

BODY = seal(b'{"format":1,"name":"x","list":[{"n":1},{"n":2}],"at":null}')


def raising(error: BaseException) -> object:
    raise error


def test_an_answer_is_no_problem() -> None:
    told = attempt(lambda: 7)
    assert (told.answer, told.error, told.problem) == (7, None, None)


def test_a_typed_error_that_says_what_to_do_is_no_problem() -> None:
    error = CorruptRecord("It is broken.", next="Mend it.")
    told = attempt(lambda: raising(error))
    assert (told.error, told.problem) == (error, None)


@pytest.mark.parametrize(
    "error", [CorruptRecord("It is broken."), KeyError("x"), RecursionError(), SystemExit(1), BaseException("panic")]
)
def test_any_other_error_is_a_problem(error: BaseException) -> None:
    assert attempt(lambda: raising(error)).problem


def test_a_hang_is_a_problem() -> None:
    told = attempt(lambda: time.sleep(30), seconds=1)
    assert told.problem is not None
    assert told.problem.startswith("Hang")


def test_memory_without_bound_is_a_problem() -> None:
    # In a process of its own: in this one another thread may give memory back between the look at it and the limit.
    with context().Pool(1) as process:
        too_much, enough = process.map(_allocate, [8 << 30, 8 << 20])
    assert too_much.problem is not None
    assert too_much.problem.startswith("MemoryError")
    assert enough.answer == 8 << 20


def _allocate(size: int) -> Told:
    return attempt(lambda: len(bytearray(size)))


def test_a_touch_beside_the_lake_is_seen(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "inside").write_text("x")
    (tmp_path / "outside").write_text("x")
    with watched(str(tmp_path), str(lake)) as touched:
        (lake / "inside").read_text()
        os.listdir(lake)
        assert touched == set()
        (tmp_path / "outside").read_text()
        (lake / ".." / "outside").read_text()
        assert touched == {str(tmp_path / "outside"), str(lake / ".." / "outside")}


def test_changes_have_names_of_their_own_and_change_something() -> None:
    for changes in (list(damage(BODY, flips=0)), list(forgeries(BODY))):
        assert len({c.name for c in changes}) == len(changes)
        assert all(c.body != BODY for c in changes)


def test_forgeries_are_json_objects_with_one_thing_changed() -> None:
    names = [c.name for c in forgeries(BODY)]
    assert 'name = "../outside"' in names
    assert "list.0.n = -1" in names
    assert "list.0.n left out" in names
    sound = [c for c in forgeries(BODY) if " = " in c.name and "list.0.n" in c.name and "Inf" not in c.name]
    assert all(json.loads(c.body)["name"] == "x" for c in sound[:20])


def test_forge_puts_values_where_they_are_wanted() -> None:
    forged = json.loads(forge(BODY, {"list.1.n": -5, "at": "now"}))
    assert (forged["list"], forged["at"]) == ([{"n": 1}, {"n": -5}], "now")


def test_a_flip_changes_one_bit() -> None:
    changed = flip(BODY, random.Random(1)).body
    assert sum((a ^ b).bit_count() for a, b in zip(changed, BODY, strict=True)) == 1


def test_a_sound_lake_passes_the_trial(specimen: Specimen) -> None:
    assert specimen.trial({}, right=True) == []


def test_the_trial_sees_a_wrong_answer_and_what_verify_missed(specimen: Specimen) -> None:
    """A record that tells another story, well made: nothing can tell but the comparison with the sound lake."""
    key = specimen.objects()["head slot"]
    told = forge(specimen.read(key), {"commits.0.author": "mallory"})
    problems = specimen.trial({key: told}, right=True)
    assert any(p.startswith("log: a wrong answer") for p in problems)
    assert any(p.startswith("verify finds nothing wrong") for p in problems)
    assert specimen.trial({key: told}, right=False) == []
