"""The benchmark of a commit's CPU measures commits that were made, and names the functions that made them."""

from __future__ import annotations

from benchmarks.commit_cpu import measure


def test_commits_are_measured_and_their_functions_named() -> None:
    found = measure(None, 2, 0.0, 0.3, profile=True, warm_up=0.1)
    assert 0 < found["cpu_ms"] < 1000
    assert found["rate"] > 0
    assert found["by_thread"]["writer"] > 0
    assert "lake/commit/attempt.py: commit" in found["profile"]
