"""A load takes memory for the keys of its rows and for a bounded part of the rows, not for all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.graph.scale import loads

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")]

PEOPLE, FRIENDS = 200_000, 3
BOUND = 700 << 20


def grown(way: str, file: Path, lake: Path) -> int:
    """Bytes by which a process grows that loads a file, at most."""
    command = [sys.executable, loads.__file__, way, str(file), str(lake)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def test_a_load_of_800_000_rows_stays_within_a_bound_that_rows_in_memory_break(tmp_path: Path) -> None:
    file = tmp_path / "people.jsonl"
    loads.write(file, PEOPLE, FRIENDS)
    assert grown("quire", file, tmp_path / "a") < BOUND
    assert grown("naive", file, tmp_path / "b") > BOUND
