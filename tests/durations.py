"""How long tests take: `durations.toml` says what is slow, and a test that grows past its bound fails by name.

Seconds are CPU seconds of the test's own process and of the processes that it has started and waited for, so a busy
machine does not count. A bound is coarse, and relative to how fast this machine runs a small loop.

`make durations` writes the file after a run.
"""

from __future__ import annotations

import functools
import os
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from tests.budget import FULL

FILE = Path(__file__).with_name("durations.toml")
WRITE = os.environ.get("QUIRE_TESTS_DURATIONS") == "write"

BOUND = 20.0
"""CPU seconds for a test of the default tier that is not listed as slow."""
GROWTH = 3.0
"""How many times its listed seconds a slow test may take."""
SLOW = 5.0
"""CPU seconds from which a test function is listed by name."""
UNIT = 0.025
"""CPU seconds of `calibrate`'s loop on the machine where the bounds were set."""


# -- what is known ----------------------------------------------------------------------------------------------------


@functools.cache
def known() -> dict[str, dict[str, float]]:
    """The committed file: seconds by `files` (all tests together) and by `tests` (the slowest set of parameters)."""
    if not FILE.exists():
        return {"files": {}, "tests": {}}
    return tomllib.loads(FILE.read_text("utf-8"))


def seconds(name: str) -> float:
    """What a file, or the slowest test of a function, is known to take."""
    table = known()["tests" if "::" in name else "files"]
    return table.get(name, 0.0)


def bound(nodeid: str) -> float:
    return max(BOUND, GROWTH * seconds(nodeid.partition("[")[0])) * slowness()


@functools.cache
def slowness() -> float:
    """How many times slower than the reference this machine is, at least 1."""
    return max(1.0, min(calibrate() for _ in range(3)) / UNIT)


def calibrate() -> float:
    began, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number % 7
    return time.process_time() - began


# -- measuring --------------------------------------------------------------------------------------------------------


def cpu() -> float:
    """CPU seconds of this process, of its children and of the processes forked for it, once they have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + forked()


def forked() -> float:
    """Of processes that `quire.testing.processes` has started: they are children of a server."""
    server = getattr(forkserver._forkserver, "_forkserver_pid", None)  # type: ignore[attr-defined]
    try:
        stat = Path(f"/proc/{server}/stat").read_text() if server else ""
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


_PHASE = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[_PHASE] = cpu()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    item.stash[_PHASE] = cpu()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    item.stash[_PHASE] = cpu()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    report: Any = yield
    report.cpu = cpu() - item.stash[_PHASE]
    if call.when == "call" and report.passed and not FULL and not WRITE and report.cpu > bound(item.nodeid):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} took {report.cpu:.0f} s of CPU, and its bound is {bound(item.nodeid):.0f} s.\n"
            "Make it quicker, give its search a budget, or sample its parameters (CONTRIBUTING.md, Tiers). "
            "If it has to be slow: make durations."
        )
    return report


# -- telling ----------------------------------------------------------------------------------------------------------


@dataclass
class Sum:
    tests: int = 0
    wall: float = 0.0
    cpu: float = 0.0

    def add(self, report: Any) -> None:
        self.tests += report.when == "call"
        self.wall += report.duration
        self.cpu += getattr(report, "cpu", 0.0)  # the report of a worker that died has none


@dataclass(eq=False)
class Totals:
    """The reports of all workers, added up."""

    folders: dict[str, Sum] = field(default_factory=lambda: defaultdict(Sum))
    files: dict[str, Sum] = field(default_factory=lambda: defaultdict(Sum))
    tests: dict[str, Sum] = field(default_factory=lambda: defaultdict(Sum))

    def pytest_runtest_logreport(self, report: Any) -> None:
        file, _, _ = report.nodeid.partition("::")
        self.folders["/".join(file.split("/")[:2])].add(report)
        self.files[file].add(report)
        self.tests[report.nodeid].add(report)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.files) > 1:
            terminalreporter.section("seconds by folder")
            terminalreporter.write_line(f"{'':<24}{'tests':>7}{'wall':>9}{'CPU':>9}")
            for name, of in sorted(self.folders.items(), key=lambda named: -named[1].wall):
                terminalreporter.write_line(f"{name:<24}{of.tests:>7}{of.wall:>9.1f}{of.cpu:>9.1f}")
        if WRITE:
            FILE.write_text(self.listed(), "utf-8")

    def listed(self) -> str:
        """The contents of the committed file."""
        functions: dict[str, float] = defaultdict(float)
        for nodeid, of in self.tests.items():
            name = nodeid.partition("[")[0]
            functions[name] = max(functions[name], of.cpu)
        lines = ["# Written by `make durations`: CPU seconds of the default tier (tests/durations.py).", "", "[files]"]
        files = {name: of.cpu for name, of in self.files.items()}
        lines += [f'"{name}" = {value:.0f}' for name, value in sorted(files.items()) if value >= 1]
        lines += ["", "[tests]"]
        lines += [f'"{name}" = {value:.0f}' for name, value in sorted(functions.items()) if value >= SLOW]
        return "\n".join(lines) + "\n"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Totals(), "quire-totals")
