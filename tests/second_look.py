"""A failed test of `make test` is looked at a second time, and both outcomes are reported.

Two cores that other programs use too disturb a few tests in ten thousand: a server that answers late, a process that is
not given its turn. Such a test passes the second time. What is wrong with the code fails again: searches keep the
example that failed, and try it first. A run with unsteady tests prints their first failure, so that their cause is
found, and fails when there are more than a few of them.
"""

from __future__ import annotations

from typing import Any

import pytest

UNSTEADY = 3
"""How many tests of a run may need their second look."""


def unsteady(stats: dict[str, list[Any]]) -> list[Any]:
    """The reports of tests that failed first and passed then."""
    failed = {report.nodeid for kind in ("failed", "error") for report in stats.get(kind, ())}
    return [report for report in stats.get("rerun", ()) if report.nodeid not in failed]


class SecondLook:
    """Reports the unsteady tests of all workers."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for report in unsteady(terminalreporter.stats):
            terminalreporter.section(f"unsteady: {report.nodeid} ({report.when})", sep="_", yellow=True)
            terminalreporter.write_line(report.longreprtext)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        if session.exitstatus == pytest.ExitCode.OK and len(unsteady(reporter.stats)) > UNSTEADY:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondLook(), "quire-second-look")
