"""The stage of the state machine: processes that can die, a clock that nobody waits for, and faulty publishes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from tests.lake.modelled import Line, Program, Sheet, Statement, listed

import quire
from quire import errors
from quire.store import Outcome, clock
from quire.store.conditional_put import Created

SLOT = re.compile(r"_quire/log/[^/]+/\d{20}")
FAULTS = ("killed before", "killed after", "unknown before", "unknown after")


def must(condition: object, detail: object) -> None:
    """An assertion about an error that was caught."""
    if not condition:
        raise AssertionError(detail) from (detail if isinstance(detail, BaseException) else None)


class Quiet(clock.World):
    """Nothing runs by itself, and nobody waits: a sleep only moves the clock."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.skipped

    def sleep(self, seconds: float) -> None:
        self.skipped += seconds

    def start(self, work: Callable[[], object], name: str) -> clock.Thread:
        return _NoThread()


class _NoThread:
    def is_alive(self) -> bool:
        return False

    def join(self, timeout: float | None = None) -> None:
        pass


happened: Counter[str] = Counter()
"""What the histories of this run met: one in which something never happened proves nothing about it."""


class Killed(BaseException):
    """The process is gone at this very request."""


@dataclass(eq=False)
class Handle:
    """One process: its lake, the branches it has open, and at most one transaction."""

    lake: quire.Lake
    main: Line
    epochs: dict[Line, int] = field(default_factory=dict)
    lakes: dict[Line, quire.Lake] = field(default_factory=dict)
    program: Program | None = None

    def on(self, line: Line) -> quire.Lake:
        if line not in self.lakes:
            self.lakes[line] = self.lake if line is self.main else self.lake.branch(line.name)
            self.epochs[line] = line.epoch
        return self.lakes[line]

    def refused(self, line: Line, error: Exception) -> bool:
        """Whether a writer must give up here whatever it does."""
        fenced = isinstance(error, errors.Fenced) and self.epochs[line] < line.epoch
        return fenced or (isinstance(error, errors.BranchClosed) and line.closed)

    def barred(self, line: Line) -> bool:
        return line.closed or self.epochs.get(line, line.epoch) < line.epoch

    def work(self) -> None:
        """Do what is queued for the background. A failure is reported there, never raised."""
        waiting, self.lake._background._tasks = self.lake._background._tasks, {}
        for _, task in waiting.values():
            try:
                task()
            except errors.QuireError as error:
                note(f"background: {error}")

    def die(self) -> None:
        """What is queued is never done, and a note stays where it is."""
        self.lake._background._tasks.clear()
        writers = self.lake._core.writers
        if writers._background is not None:
            writers._background._tasks.clear()


@contextmanager
def fault(lake: quire.Lake, how: str | None) -> Iterator[list[str]]:
    """The next publish meets a fault: its answer is lost, or its process, before or after the slot was written."""
    store, fired = lake._core.store, list[str]()
    create = store.create

    def faulty(key: str, data: bytes, **options: Any) -> Created:
        if how is None or fired or SLOT.fullmatch(key) is None:
            return create(key, data, **options)
        if how.endswith("after"):
            created = create(key, data, **options)
            if created.outcome is not Outcome.COMMITTED:
                return created
        fired.append(how)
        if how.startswith("killed"):
            raise Killed
        return Created(Outcome.UNKNOWN)

    store.create = faulty  # type: ignore[method-assign]
    try:
        yield fired
    finally:
        del store.__dict__["create"]


def rows_of(verb: str, most: int = 3, low: int = 0, high: int = 7) -> st.SearchStrategy[Statement]:
    row = st.tuples(st.integers(low, high), st.integers(100, 109), st.integers(100, 109))
    unique: Any = None if verb == "append" else (lambda r: r[0])
    return st.lists(row, min_size=1, max_size=most, unique_by=unique).map(lambda rows: Statement(verb, tuple(rows)))


def where_of(verb: str) -> st.SearchStrategy[Statement]:
    return st.tuples(st.integers(0, 7), st.integers(1, 3)).map(lambda r: Statement(verb, low=r[0], high=sum(r)))


# Overwrites conflict with everything, so they are rare: most races are about rows and keys.
_common = [rows_of("append"), rows_of("upsert"), where_of("update"), where_of("delete"), rows_of("patch")]
statements = st.one_of(*_common, rows_of("upsert"), rows_of("append"), where_of("update"), rows_of("overwrite"))
fresh = st.one_of(*(rows_of(verb, 2, 8, 10) for verb in ("append", "append", "upsert", "patch")))
"""Rows that are often new, and then the same for two writers."""


def same(table: Any, sheet: Sheet) -> None:
    """A table of the lake, or a plain one, holds exactly the model's rows; also where an index is asked."""
    rows = table.to_arrow() if hasattr(table, "to_arrow") else table.to_table()
    assert tuple(rows.schema.names) == sheet.columns
    expected = listed(sheet.rows)
    assert listed(dict(enumerate(rows.to_pylist()))) == expected
    if hasattr(table, "count"):
        assert table.count() == len(expected)
        assert table.count("v >= 104") == sum((row["v"] or 0) >= 104 for row in sheet.rows.values())
