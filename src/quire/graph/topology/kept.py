"""Columns of tables that are kept in memory, fragment by fragment, so that a commit costs only what it changed.

An append adds fragments and reads those alone; fragments of which rows are gone are read again. What is kept belongs to
one `Graph` and is bounded; beyond the bound what was used longest ago goes, and is read when it is wanted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import Unsupported
from quire.formats import Parted, task_table
from quire.lake.handles import view_of

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.read.snapshot import Snapshot

MOST_BYTES = 512 << 20
"""What is kept by one graph at most."""


@dataclass
class _Held:
    """The columns of one table as one state has them."""

    view: Any
    fragments: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(table.nbytes for table in self.fragments.values())


class KeptColumns:
    """Reads columns of tables, and keeps them."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self.read_rows = 0
        """Rows that were read from tables so far."""
        self._held: OrderedDict[tuple[str, tuple[str, ...]], _Held] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, snapshot: Snapshot, table: str, columns: Sequence[str]) -> pa.Table:
        """Some columns of all rows of a table, in the order of its fragments."""
        import pyarrow as pa

        view = view_of(snapshot[table])
        if not isinstance(view, Parted):
            found = view.scan(columns=list(columns)).read_all()
            self.read_rows += found.num_rows
            return found
        key = table, tuple(columns)
        with self._lock:
            held = self._held.get(key)
            made = self._moved(held, view, columns)
            if made.bytes <= self.most:
                self._held[key] = made
                self._held.move_to_end(key)
                while sum(h.bytes for h in self._held.values()) > self.most:
                    self._held.popitem(last=False)
            else:
                self._held.pop(key, None)
        parts = list(made.fragments.values())
        return pa.concat_tables(parts) if parts else view.schema.empty_table().select(list(columns))

    def _moved(self, held: _Held | None, view: Any, columns: Sequence[str]) -> _Held:
        """What is held, brought to another state of the table."""
        if held is None or type(held.view) is not type(view):
            return _Held(view, self._fragments(view, [n for n, _ in view.parts()], columns))
        gone, new = view.parts_since(held.view)
        kept = {n: rows for n, rows in held.fragments.items() if n not in {number for number, _ in gone}}
        kept |= self._fragments(view, [n for n, _ in new], columns)
        numbers = {n for n, _ in view.parts()}
        if kept.keys() != numbers:  # states that do not follow each other
            kept = self._fragments(view, sorted(numbers), columns)
        return _Held(view, kept)

    def _fragments(self, view: Any, numbers: Sequence[int], columns: Sequence[str]) -> dict[int, pa.Table]:
        import pyarrow as pa

        schema, found = pa.schema([view.schema.field(c) for c in columns]), {}
        read = _reader(view, columns)
        for number in numbers:
            batches = [batch.select(list(columns)) for batch in read(number)]
            found[number] = pa.Table.from_batches([b.cast(schema) for b in batches], schema=schema)
            self.read_rows += found[number].num_rows
        return found


def _reader(view: Any, columns: Sequence[str]) -> Callable[[int], Iterable[pa.RecordBatch]]:
    """Reads a fragment, with at least these columns."""
    try:
        table = task_table(view.place())
    except Unsupported:  # a lake in memory, of which only whole rows are read in parts
        return lambda number: view.whole([number], here=True).batches()
    return lambda number: table.read_rows([number], list(columns))
