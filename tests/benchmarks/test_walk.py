"""The walk of a call is short: a reader who follows an append passes through few modules."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.walk import CALLS, append_two, main, measured, prepared, upsert_again, walk

import quire
from quire.arguments import bounded
from quire.store import clock

MODULES, CROSSINGS = 35, 260
"""At most so many for an append to two tables. Whoever makes the walk longer says here why it has to be.

What is only for tables in a cloud, for races that were lost, for upkeep that lags behind and for tables in which keys
are looked up is not on it. Every verb has its rule at its head (`lake/guard/verbs`), also where nobody is held to one.
"""

BESIDE = (
    *("compaction/", "indexes/", "handed_files", "used_inputs", "tokens", "owner_mark", "preconditions"),
    *("outbox", "scratch", "manifest_bytes", "fairness", "offer", "back_pressure", "background", "candidates"),
)
"""What a plain append has nothing to do with."""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with prepared(tmp_path) as made:
        yield made


def test_an_append_to_two_tables_walks_through_few_modules(lake: quire.Lake) -> None:
    # Once a second a transaction plans a look at the open ones, and threads of a busy machine may come late to help.
    found = min((measured(lake, append_two) for _ in range(4)), key=lambda walk: (len(walk.modules), walk.crossings))
    assert len(found.modules) <= MODULES, sorted(found.modules)
    assert found.crossings <= CROSSINGS
    assert [module for module in found.modules if any(part in module for part in BESIDE)] == []


def test_the_walk_has_the_modules_that_ran_on_this_thread(lake: quire.Lake) -> None:
    def call() -> None:
        bounded("number", 1, 0)
        other = threading.Thread(target=lake.snapshot)
        other.start()
        other.join()
        clock.monotonic()
        clock.monotonic()

    found = walk(call)
    assert set(found.modules) == {"arguments.py", "store/clock.py"}
    assert found.crossings == 3


def test_the_upsert_is_run_again(lake: quire.Lake) -> None:
    assert upsert_again(lake).replayed == 1


def test_every_call_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:26].rstrip() for line in lines] == ["call", *CALLS]
    for line in lines[1:]:
        modules, crossings = map(int, line[26:].split())
        assert 0 < modules <= crossings
