"""One seed, one history."""

import os
import subprocess
import sys

from quire.testing.simulation import run

SEEDS = range(900, 906)


def test_a_seed_gives_the_same_history_again() -> None:
    first = [run(seed, keep_trace=True) for seed in SEEDS]
    again = [run(seed, keep_trace=True) for seed in reversed(SEEDS)][::-1]
    for one, other in zip(first, again, strict=True):
        assert one.lines == other.lines
        assert (one.digest, one.counts) == (other.digest, other.counts)


def test_the_digest_does_not_depend_on_whether_the_trace_is_kept() -> None:
    assert run(SEEDS[0]).digest == run(SEEDS[0], keep_trace=True).digest


def test_seeds_differ() -> None:
    assert len({run(seed).digest for seed in SEEDS}) == len(SEEDS)


def test_another_process_replays_the_same_history() -> None:
    code = f"from quire.testing.simulation import run; print(*[run(s).digest for s in ({SEEDS[0]}, {SEEDS[1]})])"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(told) == 1, "the order of a set of names decides what happens"
