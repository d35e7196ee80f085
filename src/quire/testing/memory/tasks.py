"""What tasks in other processes do at one state of a memory table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from quire.conversion.source import Source
from quire.filters import Condition
from quire.formats import ROW_ADDRESS, NewFile, Parts, Place, Span, View
from quire.formats.patch import patched
from quire.store import Store
from quire.testing.memory.columns import fields_of
from quire.testing.memory.files import Folder, Fragment
from quire.testing.memory.net import locate, lost, numbered, where_key
from quire.testing.memory.view import MemoryView

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class MemoryTaskTable:
    """A place, opened anew at every use: a file that is gone is noticed at once."""

    def __init__(self, place: Place) -> None:
        self._folder = Folder(Store.open(place.uri, dict(place.options)), "")
        self._state = self._folder.version(place.version)

    @property
    def schema(self) -> pa.Schema:
        return self._state.schema

    def view(self, table: str) -> View:
        return MemoryView(self._folder, self._state, table)

    def parts(self) -> Parts:
        return MemoryView(self._folder, self._state, "").parts()

    def _some(self, parts: Sequence[int] | None) -> tuple[Fragment, ...]:
        held = self._state.fragments
        return held if parts is None else tuple(held[number] for number in parts)

    # -- reading ----------------------------------------------------------------------------------------------

    def read_rows(
        self,
        parts: Sequence[int],
        columns: Sequence[str] | None,
        filter: str | Condition | None = None,
        *,
        span: Span | None = None,
    ) -> Iterator[pa.RecordBatch]:
        held = self._some(parts)
        if span is not None:
            [fragment] = held
            living = list(fragment.living())
            held = (fragment.without({*living} - {*living[slice(*span)]}),)
        some = self._state.change(fragments=held)
        yield from MemoryView(self._folder, some, "").scan(columns=columns, filter=filter)

    def addressed_rows(self, parts: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        found = locate(self._folder, self._state, columns, self._some(parts))
        named = {n: pa.array(found.columns[n], self.schema.field(n).type) for n in columns}
        named[ROW_ADDRESS] = pa.array(numbered(self._state, found.addresses))
        yield pa.RecordBatch.from_pydict(named)

    def gone_rows(self, after: Place, part: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        [fragment] = self._some([part])
        there = MemoryTaskTable(after)._state
        some = self._state.change(fragments=(lost(fragment, there),))
        yield from MemoryView(self._folder, some, "").scan(columns=columns)

    def find_keys(
        self, parts: Sequence[int] | None, on: Sequence[str], keys: pa.Table
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        addresses, positions = where_key(self._folder, self._state, on, keys, self._some(parts))
        return numbered(self._state, addresses), np.array(positions, np.int64)

    def patched(
        self, given: pa.RecordBatch, keep: Mapping[str, Any], addresses: NDArray[np.uint64], positions: Any
    ) -> pa.Table:
        import pyarrow as pa

        wanted = [*(n for n in self.schema.names if n not in given.schema.names), *keep]
        old = MemoryView(self._folder, self._state, "").take(addresses, wanted) if len(addresses) and wanted else None
        return patched(self.schema, pa.Table.from_batches([given]), keep, old, positions)

    # -- writing ----------------------------------------------------------------------------------------------

    def stored(self, rows: Source, schema: pa.Schema) -> Source:
        return rows

    def write(self, rows: Source, *, mode: Literal["append", "overwrite"]) -> list[str]:
        table, fields = rows.table(), self._state.fields
        if mode == "overwrite":
            fields = fields_of(table.schema, "", first=self._state.next_field)
        columns = {f.id: table.column(f.name).to_pylist() for f in fields}
        fragment = self._folder.write_columns(columns, table.num_rows, fields)
        return [] if fragment is None else [msgspec.json.encode(fragment).decode()]

    def new_files(self, fragments: Iterable[str]) -> list[NewFile]:
        described = (msgspec.json.decode(text, type=Fragment) for text in fragments)
        return [NewFile(fragment.key, fragment.rows) for fragment in described]

    def write_beside(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema | None = None) -> str:
        import pyarrow as pa

        return self._folder.write_beside(pa.Table.from_batches(list(batches), schema))

    def read_files(self, paths: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in paths:
            yield from self._folder.read_file(path).select(list(columns)).to_batches()
