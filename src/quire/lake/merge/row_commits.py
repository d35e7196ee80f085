"""Which commit of a side touched a row last: asked only of rows that are in conflict.

The log of the side tells which commits moved the table since the base, and of many of them the keys. Of the others the
keys of the rows that they changed are read, newest first, down to the oldest, which has touched what no later one has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import SnapshotExpired
from quire.formats.key_sets import positions
from quire.formats.keys import hashes, hashes_of
from quire.lake.commit.conflicts import KINDS
from quire.lake.merge.changes_since import KEYED_ONLY, ChangesSince
from quire.lake.merge.touched import touched
from quire.ledger import Change, Pin, TableState
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

AT_ONCE = 16
"""Commits whose keys are read side by side."""


@dataclass(frozen=True)
class _Step:
    commit: str
    change: Change
    before: Pin | None
    """The state of the table before it; None for the oldest."""


def last_commits(format: Any, done: ChangesSince, state: TableState, key: Sequence[str], keys: pa.Table) -> list[str]:
    """For each key the last commit of a side that touched its row, as far as its log is kept."""
    steps = _steps(done, state.info.id)
    found: list[str | None] = [None] * keys.num_rows
    for low in range(0, len(steps), AT_ONCE):
        if None not in found:
            break
        some = steps[low : low + AT_ONCE]
        for step, met in zip(some, run_parallel([partial(_met, format, s, key, keys) for s in some]), strict=True):
            found = [
                step.commit if commit is None and is_met else commit for commit, is_met in zip(found, met, strict=True)
            ]
    last = steps[-1].commit if steps else state.commit.commit
    return [last if commit is None else commit for commit in found]


def _steps(done: ChangesSince, table: str) -> list[_Step]:
    """The commits that changed rows of a table, newest first."""
    moved = [(point, change) for point, change in done.steps(table) if change.pin is not None]
    before = [*(change.pin for _, change in moved), None][1:]
    steps = [_Step(point.commit, change, older) for (point, change), older in zip(moved, before, strict=True)]
    return [s for s in steps if not all(KINDS[op] in ("upkeep", "neutral") for op in s.change.ops)]


def _met(format: Any, step: _Step, key: Sequence[str], keys: pa.Table) -> NDArray[np.bool_]:
    """Which rows a commit has touched."""
    listed = [hashes_of(some) if some.columns == tuple(key) else None for some in step.change.keys]
    if set(step.change.ops) <= KEYED_ONLY and listed and None not in listed:
        known = set().union(*(some for some in listed if some is not None))
        return np.array([one in known for one in hashes(key, keys)], bool)
    pin = step.change.pin
    if step.before is None or pin is None:
        return np.ones(keys.num_rows, bool)
    try:
        moved = not format.holds_files_of(pin, step.before)
        there = touched(format, step.before, pin, key, moved=moved)
    except SnapshotExpired:
        return np.ones(keys.num_rows, bool)
    return np.asarray(positions(keys, there.keys, key) >= 0, bool)
