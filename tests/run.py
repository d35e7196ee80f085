"""What `make test` and `make test-all` run: lint, layers, types, and the tests with the documentation.

The type checks run beside the tests. Pytest says how long the tests of each folder took, and the last lines how long
each part did, and how much of what is promised that is.

    python tests/run.py --workers 2             # the default tier (tests/budget.py)
    python tests/run.py --workers 2 --full      # everything
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

BIN = Path(sysconfig.get_path("scripts"))
PROMISED = 15 * 60
"""Seconds that the default tier may take on two cores, with what comes before it in a fresh clone."""


class Part:
    """A check: its commands, run one after the other until one fails."""

    def __init__(self, name: str, *commands: list[str]) -> None:
        self.name, self.commands = name, commands
        self.seconds = 0.0
        self.ok = False

    def run(self, *, quiet: bool = True) -> bool:
        """Whether everything is well; when `quiet`, only what failed is printed."""
        began = time.monotonic()
        for program, *arguments in self.commands:
            ran = subprocess.run([BIN / program, *arguments], capture_output=quiet, text=True)
            self.ok = ran.returncode == 0
            if not self.ok:
                if quiet:
                    print(f"{ran.stdout}{ran.stderr}\n{self.name}: FAILED", flush=True)
                break
        self.seconds = time.monotonic() - began
        return self.ok


def warning(seconds: float) -> str:
    """What is said of a run that took too long. It does not fail: the clock also counts what other programs do, and a
    test that grows fails by its CPU seconds (tests/durations.py)."""
    if seconds <= PROMISED:
        return ""
    cores, load = os.cpu_count() or 1, os.getloadavg()[2]
    return f"slow: {seconds:.0f} s, and {PROMISED} are promised on two idle cores; load {load:.1f} on {cores} cores\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run everything that a change must pass.")
    parser.add_argument("--workers", default="2", help="test processes (default 2)")
    parser.add_argument("--full", action="store_true", help="everything, not just the default tier")
    options = parser.parse_args()
    if options.full:
        os.environ["QUIRE_TESTS"] = "full"

    began = time.monotonic()
    lint = Part("lint", ["ruff", "check", "."], ["ruff", "format", "--check", "."])
    layers = Part("layers", ["lint-imports"])
    types = Part("types", ["mypy"])
    tests = Part("tests", ["python", "-m", "pytest", "-n", options.workers, "--reruns", "1"])
    if not (lint.run() and layers.run()):
        return 1
    beside = threading.Thread(target=types.run)
    beside.start()
    tests.run(quiet=False)
    beside.join()

    parts = ", ".join(f"{part.name} {part.seconds:.0f}" for part in (lint, layers, types, tests))
    print(f"\nseconds: {parts}; in all {time.monotonic() - began:.0f}" + ("" if options.full else f" of {PROMISED}"))
    print(warning(time.monotonic() - began) if not options.full else "", end="")
    failed = [part.name for part in (types, tests) if not part.ok]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
