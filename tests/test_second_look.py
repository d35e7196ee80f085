"""Tests that fail once are reported and go on; what fails twice fails the run, and so do many that fail once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import second_look

CODE = """
import pytest
from pathlib import Path

TRIED = Path(__file__).parent / "tried"

@pytest.mark.parametrize("n", range({unsteady}))
def test_unsteady(n):
    tried = Path(f"{{TRIED}}-{{n}}")
    again = tried.exists()
    tried.touch()
    assert again, "the first look"

def test_steady(): pass

def test_wrong():
    assert {right}, "at every look"
"""


def ran(folder: Path, *options: str, unsteady: int = 1, right: bool = True) -> subprocess.CompletedProcess[str]:
    (folder / "test_given.py").write_text(CODE.format(unsteady=unsteady, right=right), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    root = Path(__file__).parent.parent
    command = [sys.executable, "-m", "pytest", "-p", "tests.second_look", "-p", "no:cacheprovider", "--reruns", "1"]
    command += [*options, "test_given.py"]
    env = os.environ | {"PYTHONPATH": str(root)}
    env.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_a_test_that_passes_the_second_time_is_reported(tmp_path: Path, options: tuple[str, ...]) -> None:
    run = ran(tmp_path, *options)
    assert run.returncode == 0, run.stdout
    assert "unsteady: test_given.py::test_unsteady[0] (call)" in run.stdout
    assert "the first look" in run.stdout
    assert "3 passed, 1 rerun" in run.stdout


def test_what_fails_twice_fails_the_run(tmp_path: Path) -> None:
    run = ran(tmp_path, right=False)
    assert run.returncode == 1
    assert "FAILED test_given.py::test_wrong" in run.stdout
    assert "unsteady: test_given.py::test_wrong" not in run.stdout


@pytest.mark.parametrize("more", [0, 1])
def test_more_than_a_few_unsteady_tests_fail_the_run(tmp_path: Path, more: int) -> None:
    run = ran(tmp_path, unsteady=second_look.UNSTEADY + more)
    assert run.returncode == more, run.stdout
