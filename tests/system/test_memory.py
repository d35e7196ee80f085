"""Appending from an iterator takes the memory of a few batches, whatever the number of rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "memory_append.py"


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--directory", str(tmp_path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.mark.slow
def test_an_append_from_an_iterator_does_not_hold_its_rows_in_memory(tmp_path: Path) -> None:
    done = run(tmp_path, "--gb", "1", "--limit", "0.7")

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["lake_gb"] >= 0.9
    assert result["peak_resident_gb"] < 0.7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_benchmark_fails_when_the_promise_is_broken(tmp_path: Path) -> None:
    done = run(tmp_path, "--gb", "0.01", "--limit", "0.05")

    assert done.returncode == 1
    assert "peak memory" in done.stderr
