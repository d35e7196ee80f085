"""Columns of tables that are read again and again, kept in memory: fragment by fragment, so that a commit costs only
what it changed.

A column is kept when it is asked for the second time. What is kept is bounded; what was used longest ago goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import Unsupported
from quire.formats import Parted, task_table

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.read.table import Table

MOST_BYTES = 512 << 20
"""All that is kept by this process."""
MOST_ROWS = 20_000_000
"""Tables of more rows are read each time."""
BATCH = 65_536
"""Rows of a batch: engines share the work on a column by batches."""
ASKED = 4_096
"""Columns of which it is remembered that they were asked for."""

Key = tuple[str, str, str]


@dataclass
class _Held:
    """One column as one state of its table has it."""

    view: Any
    fragments: dict[int, pa.ChunkedArray]
    whole: pa.ChunkedArray
    """All of it, in batches of one size."""
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = self.whole.nbytes


class HotColumns:
    """The columns that one process keeps."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._asked: OrderedDict[Key, None] = OrderedDict()
        self._wanted: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._held: OrderedDict[Key, _Held] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def most(self) -> int:
        return MOST_BYTES if self._most is None else self._most

    def read(self, table: Table, columns: Sequence[str]) -> pa.Table | None:
        """Some columns of all rows of a table at its pin; None where they are not kept (yet)."""
        import pyarrow as pa

        view: Any = table._view()
        if not columns or not isinstance(view, Parted):
            return None
        if not all(_is_plain(table.schema.field(c).type) for c in columns):
            return None
        keys = [(table.id, table._state.pin.location, column) for column in columns]
        if not self._are_hot(keys) or table.count() > MOST_ROWS:
            return None
        with self._lock:
            known = [self._held.get(key) for key in keys]
        moved = _moved(view, dict(zip(columns, known, strict=True)))
        if moved is None or sum(held.bytes for held in moved.values()) > self.most:
            return None
        with self._lock:
            for key, held in zip(keys, moved.values(), strict=True):
                self._held[key] = held
                self._held.move_to_end(key)
            total = sum(held.bytes for held in self._held.values())
            while total > self.most:
                total -= self._held.popitem(last=False)[1].bytes
        return pa.table([held.whole for held in moved.values()], names=list(columns))

    def wants(self, table: Table, *, note: bool = True) -> bool:
        """Whether so much of a table was read before that it is better kept; with `note` it is from now on."""
        place = table.id, table._state.pin.location
        with self._lock:
            found = place in self._wanted
            if note:
                self._wanted[place] = None
                self._wanted.move_to_end(place)
                while len(self._wanted) > ASKED:
                    self._wanted.popitem(last=False)
        return found and isinstance(table._view(), Parted) and table.count() <= MOST_ROWS

    def _are_hot(self, keys: Sequence[Key]) -> bool:
        """Whether columns were asked for before; from now on they were."""
        with self._lock:
            found = keys[0][:2] in self._wanted or all(key in self._asked for key in keys)
            for key in keys:
                self._asked[key] = None
                self._asked.move_to_end(key)
            while len(self._asked) > ASKED:
                self._asked.popitem(last=False)
        return found


HOT = HotColumns()


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values of a type are small enough to be kept."""
    import pyarrow.types as t

    return not (t.is_nested(kind) or t.is_binary(kind) or t.is_large_binary(kind))


def _moved(view: Any, known: dict[str, _Held | None]) -> dict[str, _Held] | None:
    """Columns as a view has them, of which what is new is read; None where a fragment does not say what it holds."""
    parts = dict(view.parts())
    numbers = sorted(parts)
    found: dict[str, _Held] = {}
    lacking: dict[tuple[int, ...], list[str]] = {}
    kept: dict[str, dict[int, pa.ChunkedArray]] = {}
    for column, held in known.items():
        if held is not None and (held.view is view or _is_same(held.view, view)):
            found[column] = held
            continue
        kept[column] = {} if held is None else _still_there(view, held, parts)
        lacking.setdefault(tuple(n for n in numbers if n not in kept[column]), []).append(column)
    for some, columns in lacking.items():
        read = _read(view, some, columns, parts)
        if read is None:
            return None
        for column in columns:
            fragments = kept[column] | read[column]
            found[column] = _held(view, column, {n: fragments[n] for n in numbers})
    return {column: found[column] for column in known}


def _is_same(one: Any, other: Any) -> bool:
    """Whether two views show the same rows: nothing is gone since, and nothing is new."""
    if type(one) is not type(other):
        return False
    gone, new = other.parts_since(one)
    return not gone and not new and len(one.parts()) == len(other.parts())


def _still_there(view: Any, held: _Held, parts: dict[int, int]) -> dict[int, pa.ChunkedArray]:
    """The fragments that did not change."""
    if type(held.view) is not type(view):
        return {}
    gone, new = view.parts_since(held.view)
    changed = {n for n, _ in (*gone, *new)}
    return {n: rows for n, rows in held.fragments.items() if n in parts and n not in changed and len(rows) == parts[n]}


def _read(
    view: Any, numbers: Sequence[int], columns: Sequence[str], parts: dict[int, int]
) -> dict[str, dict[int, pa.ChunkedArray]] | None:
    """Columns of some fragments, each by itself. They are read together, in their order."""
    import pyarrow as pa

    schema = pa.schema([view.schema.field(c) for c in columns])
    try:
        batches = task_table(view.place()).read_rows(list(numbers), list(columns)) if numbers else []
    except Unsupported:  # a lake in memory
        batches = view.whole(list(numbers), here=True).batches()
    rows = pa.Table.from_batches([b.select(list(columns)).cast(schema) for b in batches], schema=schema)
    if rows.num_rows != sum(parts[n] for n in numbers):
        return None
    found: dict[str, dict[int, pa.ChunkedArray]] = {column: {} for column in columns}
    first = 0
    for number in numbers:
        for column in columns:
            found[column][number] = rows.column(column).slice(first, parts[number])
        first += parts[number]
    return found


def _held(view: Any, column: str, fragments: dict[int, pa.ChunkedArray]) -> _Held:
    import pyarrow as pa

    kind = view.schema.field(column).type
    chunks = [chunk for rows in fragments.values() for chunk in rows.chunks]
    whole = pa.concat_arrays(chunks) if chunks else pa.array([], kind)
    batches = [whole.slice(first, BATCH) for first in range(0, len(whole), BATCH)]
    made = pa.chunked_array(batches, kind)
    first, apart = 0, {}
    for number, rows in fragments.items():  # they share the memory of the whole
        apart[number] = pa.chunked_array([whole.slice(first, len(rows))], kind)
        first += len(rows)
    return _Held(view, apart, made)
