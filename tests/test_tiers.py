"""The default tier leaves out what is marked for it, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests import durations, run, tiers

CODE = """
import pytest

def test_plain(): pass

@pytest.mark.full
def test_long(): pass

@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", range(5))
def test_some(n): pass

@pytest.mark.sampled()
@pytest.mark.parametrize("a", ["x", "y", "z"])
@pytest.mark.parametrize("b", [1, 2, 3])
def test_pairs(a, b): pass
"""


@pytest.fixture
def items(tmp_path: Path, request: pytest.FixtureRequest) -> list[pytest.Item]:
    """The tests of a file, as pytest has found them."""
    file = tmp_path / "test_given.py"
    file.write_text(CODE, "utf-8")
    module: pytest.Module = pytest.Module.from_parent(request.session, path=file)
    return [item for item in request.session.genitems(module) if isinstance(item, pytest.Item)]


def names(items: list[pytest.Item] | set[pytest.Item]) -> list[str]:
    return sorted(item.name for item in items)


def test_every_function_but_those_of_the_full_tier_runs(items: list[pytest.Item]) -> None:
    kept = tiers.chosen(items)
    assert {name.partition("[")[0] for name in names(kept)} == {"test_plain", "test_some", "test_pairs"}
    assert sum(name.startswith("test_some") for name in names(kept)) == 2


def test_without_a_count_every_value_is_taken_once(items: list[pytest.Item]) -> None:
    pairs = [item for item in items if item.name.startswith("test_pairs")]
    taken = tiers.cover(pairs, seed="today")
    assert {value for item in taken for value in tiers.values(item)} == {v for i in pairs for v in tiers.values(i)}
    assert 3 <= len(taken) <= 5


def test_another_seed_takes_others_and_the_same_seed_the_same(items: list[pytest.Item]) -> None:
    some = [item for item in items if item.name.startswith("test_some")]
    days = [frozenset(names(tiers.cover(some, 2, seed=f"day {day}"))) for day in range(40)]
    assert set().union(*days) == set(names(some)), "in time all of them come"
    assert [frozenset(names(tiers.cover(some, 2, seed=f"day {day}"))) for day in range(40)] == days


def test_a_test_that_outgrows_its_bound_fails_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "slowness", lambda: 2.0)
    monkeypatch.setattr(durations, "known", lambda: {"files": {}, "tests": {"tests/a.py::test_listed": 30.0}})
    assert durations.bound("tests/a.py::test_new[7]") == 2 * durations.BOUND
    assert durations.bound("tests/a.py::test_listed[7]") == 2 * durations.GROWTH * 30.0


def test_a_run_that_takes_too_long_says_so() -> None:
    assert run.warning(run.PROMISED) == ""
    assert run.warning(run.PROMISED + 118).startswith(f"slow: {run.PROMISED + 118} s, and {run.PROMISED} are promised")


def test_bytecode_is_kept_for_every_process_of_a_run() -> None:
    code = "import sys; print(sys.dont_write_bytecode)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
