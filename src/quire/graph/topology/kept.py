"""Columns of tables that are kept in memory, fragment by fragment, so that a commit costs only what it changed.

An append adds fragments and reads those alone; fragments of which rows are gone are read again. What is kept belongs to
one `Graph` and is bounded; beyond the bound what was used longest ago goes, and is read when it is wanted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from quire.formats import Parted
from quire.lake.handles import pinned, view_of
from quire.lake.read.fragments import brought_to, fragment_reader

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.read.snapshot import Snapshot

MOST_BYTES = 512 << 20
"""What is kept by one graph at most."""

T = TypeVar("T")


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
        self._made: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def once(self, snapshot: Snapshot, tables: Sequence[str], what: object, make: Callable[[], T]) -> T:
        """What is made of some tables as a snapshot pins them: the same again while the tables stand there.

        What is made says by `nbytes` how much memory it takes. That is bounded apart from the columns, by as much.
        """
        pins = []
        for name in tables:
            table = snapshot[name]
            if not isinstance(view_of(table), Parted):
                return make()  # an actor sees a part, which no other one may be given
            pins.append(pinned(table))
        key = what, tuple(pins)
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                known: T = self._made[key][0]
                return known
        made = make()
        size = int(getattr(made, "nbytes", 0))
        with self._lock:
            if size <= self.most:
                self._made[key] = made, size
            while sum(taken for _, taken in self._made.values()) > self.most:
                self._made.popitem(last=False)
        return made

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
        before, kept = (None, {}) if held is None else (held.view, held.fragments)
        return _Held(view, brought_to(view, before, kept, lambda some: self._fragments(view, some, columns)))

    def _fragments(self, view: Any, numbers: Sequence[int], columns: Sequence[str]) -> dict[int, pa.Table]:
        import pyarrow as pa

        schema, found = pa.schema([view.schema.field(c) for c in columns]), {}
        read = fragment_reader(view, columns)
        for number in numbers:
            batches = [batch.select(list(columns)) for batch in read(number)]
            found[number] = pa.Table.from_batches([b.cast(schema) for b in batches], schema=schema)
            self.read_rows += found[number].num_rows
        return found
