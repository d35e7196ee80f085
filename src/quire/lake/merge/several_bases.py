"""Two branches that have merged each other before have several bases: then a base row is itself the merge of rows.

For the rows in which ours and theirs differ, the rows of each base are looked up and merged as ours and theirs are,
with the bases of the bases before them, and so on. A cell in conflict there has no base value: where ours and theirs
differ in it, that is a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.filters import Condition
from quire.formats.key_sets import common, is_among, positions
from quire.lake.merge.alike import Mask
from quire.lake.merge.keyed import GONE, OPEN, OURS, THEIRS, UNDECIDED, KeyedMerge, Triples
from quire.lake.merge.touched import aligned, nullable, taken, together
from quire.ledger import Pin, TableState
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 1_000
"""Keys that are looked up at once."""


@dataclass(frozen=True)
class Ancestry:
    """A table at the base of a merge: a state of it, or several of which the base is the merge."""

    state: TableState | None
    """None where the table is not there, and where there are several."""
    parts: tuple[Ancestry, ...] = ()
    before: Ancestry | None = None
    """What the parts come from."""

    @property
    def states(self) -> list[TableState]:
        """Every state that it is made of."""
        if self.parts:
            return [state for part in self.parts for state in part.states]
        return [] if self.state is None else [self.state]

    @property
    def every_state(self) -> list[TableState]:
        """The same, with those that they come from."""
        below = self.before.every_state if self.before is not None else []
        return [*(s for part in self.parts for s in part.every_state), *below] if self.parts else self.states


NOWHERE = Ancestry(None)


def joined(before: Ancestry, one: Ancestry, other: Ancestry) -> Ancestry:
    """The base that two bases make, by their states where these decide it."""
    if not (before.parts or one.parts or other.parts):
        if same(one.state, other.state) or same(other.state, before.state):
            return one
        if same(one.state, before.state):
            return other
    return Ancestry(None, (one, other), before)


def same(a: TableState | None, b: TableState | None) -> bool:
    """Whether a table is the same in two states, its record included."""
    if a is None or b is None:
        return a is b
    return (a.pin.location, a.pin.version, a.info) == (b.pin.location, b.pin.version, b.info)


@dataclass(frozen=True)
class BaseRows:
    """Rows at a base in the order of some keys."""

    rows: pa.Table
    present: Mask
    unknown: dict[str, Mask]


def triples_of_differing(format: Any, base: Ancestry, ours: Pin, theirs: Pin, key: Sequence[str]) -> Triples:
    """All rows in which ours and theirs differ, with what they were at bases that may be several."""
    gone, come = format.changed_rows(ours, theirs)
    mine, its = gone.read_all(), come.read_all()
    names = list(key)
    keys = together(mine.select(names), its.select(names))
    keys = common(keys, keys, key)
    found = base_rows(format, base, keys, mine.schema)
    return replace(
        aligned(keys, mine.slice(0, 0), mine, its), base=found.rows, in_base=found.present, unknown=found.unknown
    )


def base_rows(format: Any, base: Ancestry, keys: pa.Table, schema: pa.Schema) -> BaseRows:
    """What rows were at a base."""
    if not base.parts:
        rows = schema.empty_table() if base.state is None else look_up(format, base.state.pin, keys)
        at = positions(keys, rows, keys.schema.names)
        return BaseRows(taken(rows, at), at >= 0, {})
    first, *others = base.parts
    found = base_rows(format, first, keys, schema)
    before = base_rows(format, base.before or NOWHERE, keys, schema)
    for other in others:
        found = _merged(keys, before, found, base_rows(format, other, keys, schema))
    return found


def _merged(keys: pa.Table, before: BaseRows, one: BaseRows, other: BaseRows) -> BaseRows:
    """Two versions of rows as one: what is in conflict is known to be nothing in particular."""
    import pyarrow as pa

    unknown = {n: m | other.unknown.get(n, False) for n, m in one.unknown.items()} | {
        n: m for n, m in other.unknown.items() if n not in one.unknown
    }
    given = Triples(keys, before.rows, one.rows, other.rows, before.present, one.present, other.present, before.unknown)
    columns = [n for n in one.rows.schema.names if n not in keys.schema.names]
    merged = KeyedMerge("", "", given, [[n] for n in columns], ("", ""))
    both = one.present & other.present
    lost = {n: unknown.get(n, np.zeros(len(both), bool)).copy() for n in columns}
    for name, cells in merged.cells.items():
        lost[name] |= both & (cells == UNDECIDED)
        cells[both & (cells == UNDECIDED)] = 1  # whichever; nobody looks at it
        lost[name] |= ~both & (merged.rows == OPEN)
    outcome = merged.rows.copy()
    alone = ~both & (outcome == OPEN)
    outcome[alone] = np.where(one.present[alone], OURS, THEIRS)
    merged.rows = outcome
    merged._settle(np.flatnonzero(both))
    outcome = merged.rows
    every_row = np.arange(len(both))
    mixed = merged.mixed(every_row)
    sides = [one.rows, other.rows, mixed]
    rows = pa.concat_tables([side.cast(nullable(one.rows.schema)) for side in sides])
    third = np.select([outcome == OURS, outcome == THEIRS], [0, 1], 2)
    place = every_row + third * len(both)
    return BaseRows(rows.take(pa.array(place)), outcome != GONE, {n: m for n, m in lost.items() if m.any()})


def look_up(format: Any, pin: Pin, keys: pa.Table) -> pa.Table:
    """The rows of a state that have one of the keys, and with keys of several columns maybe others."""
    import pyarrow as pa

    view = format.open(pin)
    if any(isinstance(kind, pa.BaseExtensionType) for kind in view.schema.types):
        found: pa.Table = format.whole_rows(pin, keys)  # a scan shows where a blob lies, and not its bytes
        return found
    parts = [keys.slice(low, AT_ONCE) for low in range(0, keys.num_rows, AT_ONCE)]
    if not parts:
        return view.schema.empty_table()
    return together(*run_parallel([partial(_scanned, view, is_among(part)) for part in parts]))


def _scanned(view: Any, filter: Condition) -> pa.Table:
    return view.scan(filter=filter).read_all()
