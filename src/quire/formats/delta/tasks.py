"""What tasks in other processes do at one state of a Delta table."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from quire.conversion.source import Source
from quire.filters import Condition
from quire.formats import ROW_ADDRESS, NewFile, Parts, Place, Span, View
from quire.formats.delta.files import parquet as data_files
from quire.formats.delta.files.schema import schema_text
from quire.formats.delta.files.told import decoded, encoded
from quire.formats.delta.find_rows import numbered, where_key
from quire.formats.delta.folder import Folder, States, gone
from quire.formats.delta.log.state import DataFile
from quire.formats.delta.staging.net import lost
from quire.formats.delta.view import DeltaView
from quire.formats.patch import patched
from quire.formats.row_bitmap import Marks
from quire.formats.table_files import TableFiles
from quire.ledger import new_id
from quire.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class DeltaTaskTable:
    """A place as a task opens it. What it writes goes straight to the store."""

    def __init__(self, place: Place) -> None:
        store = Store.open(place.uri, dict(place.options))
        self._folder = Folder(store, "", TableFiles(store), States())
        self._name = place.version
        self._state = self._folder.state(place.version)

    @property
    def schema(self) -> pa.Schema:
        return self._state.schema

    def view(self, table: str) -> View:
        return DeltaView(self._folder, self._state, table, self._name)

    def parts(self) -> Parts:
        return DeltaView(self._folder, self._state, "").parts()

    def _some(self, parts: Sequence[int] | None) -> tuple[DataFile, ...]:
        held = self._state.files
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
        files = self._some(parts)
        if span is not None:
            [file] = files
            files = (self._within(file, span),)
        some = self._state.change(files=files)
        yield from DeltaView(self._folder, some, "").scan(columns=columns, filter=filter)

    def _within(self, file: DataFile, span: Span) -> DataFile:
        """The file as if the rows beside a span of it were gone. Row groups without a row are not read."""
        others = np.ones(file.rows, bool)
        others[self._folder.living(file)[slice(*span)]] = False
        return file.with_deleted(Marks.of(np.flatnonzero(others)))

    def addressed_rows(self, parts: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for file, offsets, batch in self._folder.rows(self._state, list(columns), self._some(parts)):
            addresses = pa.array(numbered(self._state, [(file.path, offsets)]))
            yield pa.RecordBatch.from_arrays([*batch.columns, addresses], names=[*columns, ROW_ADDRESS])

    def gone_rows(self, after: Place, part: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        [file] = self._some([part])
        left = lost(self._folder, file, DeltaTaskTable(after)._state)
        if left.alive:
            yield from DeltaView(self._folder, self._state, "").of([left], list(columns))

    def find_keys(
        self, parts: Sequence[int] | None, on: Sequence[str], keys: pa.Table
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        found = where_key(self._folder, self._state, on, keys, self._some(parts))
        return numbered(self._state, found.files), found.positions

    def patched(
        self, given: pa.RecordBatch, keep: Mapping[str, Any], addresses: NDArray[np.uint64], positions: Any
    ) -> pa.Table:
        import pyarrow as pa

        wanted = [*(n for n in self.schema.names if n not in given.schema.names), *keep]
        view = DeltaView(self._folder, self._state, "")
        old = view.take(addresses, wanted) if len(addresses) and wanted else None
        return patched(self.schema, pa.Table.from_batches([given]), keep, old, positions)

    # -- writing ----------------------------------------------------------------------------------------------

    def stored(self, rows: Source, schema: pa.Schema) -> Source:
        return rows

    def write(self, rows: Source, *, mode: Literal["append", "overwrite"]) -> list[str]:
        state = self._state
        if mode == "overwrite":
            metadata = msgspec.structs.replace(state.metadata, schema_string=schema_text(rows.schema, ""))
            state = state.change(metadata=metadata)
        made = []
        for file, body in data_files.written(rows, state):
            self._folder.files.write("", file.path, body)
            made.append(file)
        return encoded(made)

    def new_files(self, fragments: Iterable[str]) -> list[NewFile]:
        told = list(fragments)
        # Columns of the partition are not in the file: its description takes the place of its path.
        return [
            NewFile(text if file.partition else file.path, file.rows)
            for text, file in zip(told, decoded(told), strict=True)
        ]

    def write_beside(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema | None = None) -> str:
        import pyarrow as pa

        held = list(batches)
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, held[0].schema if schema is None else schema) as writer:
            for batch in held:
                writer.write_batch(batch)
        path = f"data/rows-{new_id()}.arrow"
        self._folder.files.write("", path, sink.getvalue())
        return path

    def read_files(self, paths: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for path in paths:
            partition: dict[str, str | None] = {}
            if path.startswith("{"):
                [file] = decoded([path])
                path, partition = file.path, dict(file.partition)
            body = self._folder.files.of("").get_or_none(path)
            if body is None:
                raise gone("", path)
            if path.endswith(".arrow"):
                rows = pa.ipc.open_stream(body).read_all()
                yield from rows.select(list(columns)).to_batches()
                continue
            rows = pa.Table.from_batches(data_files.batches(pa.BufferReader(body)))
            for name, value in partition.items():
                kind = self._state.stored.field(name).type
                rows = rows.append_column(name, data_files.constant(value, kind, rows.num_rows, path))
            yield from self._as_shown(rows.select(list(columns))).to_batches()

    def _as_shown(self, rows: pa.Table) -> pa.Table:
        import pyarrow as pa

        fields = []
        for field in rows.schema:
            at = self.schema.get_field_index(field.name)
            same = at >= 0 and self._state.stored.field(at).type == field.type
            fields.append(self.schema.field(at) if same else field)
        return rows.cast(pa.schema([f.with_nullable(True) for f in fields]))
