"""What tasks in other processes do at one state of a Lance table."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quire.conversion.source import Source
from quire.filters import Condition
from quire.formats import NewFile, Parts, Place, Span, View
from quire.formats.lance import blobs, filtered_scan, span_scan
from quire.formats.lance.inspect.fragment_diff import gone_rows, parts_of
from quire.formats.lance.session import load, translating
from quire.formats.lance.staging import find_rows
from quire.formats.lance.task_handles import BATCH_ROWS, fragments, open_place
from quire.formats.lance.view import LanceView
from quire.formats.patch import patched

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from numpy.typing import NDArray


class LanceTaskTable:
    """A place, opened once in the process."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @property
    def _handle(self) -> LanceDataset:
        return open_place(self.place)

    @property
    def schema(self) -> pa.Schema:
        return self._handle.schema

    def view(self, table: str) -> View:
        nowhere: Any = None  # a session, which only tells others where the table lies
        return LanceView(nowhere, self._handle, table)

    def parts(self) -> Parts:
        return parts_of(self._handle)

    # -- reading ----------------------------------------------------------------------------------------------

    def read_rows(
        self,
        parts: Sequence[int],
        columns: Sequence[str] | None,
        filter: str | Condition | None = None,
        *,
        span: Span | None = None,
    ) -> Iterator[pa.RecordBatch]:
        handle = self._handle
        if span is not None:
            [number] = parts
            yield from span_scan.rows(handle, number, span, columns, filter)
            return
        found = filtered_scan.split(filter, handle.schema)
        yield from filtered_scan.scan(handle, found, columns, fragments=fragments(handle, parts))

    def addressed_rows(self, parts: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        handle = self._handle
        some = fragments(handle, parts)
        with translating(f"keys of {self.place.uri}"):
            yield from handle.scanner(columns=list(columns), with_row_address=True, fragments=some).to_reader()

    def gone_rows(self, after: Place, part: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return gone_rows(self._handle, open_place(after), part, columns)

    def find_keys(
        self, parts: Sequence[int] | None, on: Sequence[str], keys: pa.Table
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        handle = self._handle
        some = None if parts is None else fragments(handle, parts)
        addresses, _, positions = find_rows.where_key(handle, on, keys, some)
        return addresses, positions.to_numpy().astype(np.int64)

    def patched(
        self, given: pa.RecordBatch, keep: Mapping[str, Any], addresses: NDArray[np.uint64], positions: Any
    ) -> pa.Table:
        schema = self.schema
        rows = self.stored(Source(given.schema, [given], whole=True), schema).table()
        wanted = [*(n for n in schema.names if n not in rows.schema.names), *keep]
        old = find_rows.rows_at(self._handle, addresses, wanted) if len(addresses) and wanted else None
        return patched(schema, rows, keep, old, positions)

    # -- writing ----------------------------------------------------------------------------------------------

    def stored(self, rows: Source, schema: pa.Schema) -> Source:
        return blobs.stored(rows, schema)

    def write(self, rows: Source, *, mode: Literal["append", "overwrite"]) -> list[str]:
        from lance.fragment import write_fragments

        handle = self._handle
        with translating(f"data of {self.place.uri}"):
            made = rows.feed(
                lambda reader: write_fragments(
                    reader, handle, schema=rows.schema, mode=mode, max_bytes_per_file=1 << 30
                )
            )
        return [json.dumps(f.to_json()) for f in made]

    def new_files(self, fragments: Iterable[str]) -> list[NewFile]:
        described = (json.loads(text) for text in fragments)  # a new fragment has one data file
        return [NewFile(str(f["files"][0]["path"]), int(f["physical_rows"])) for f in described]

    def write_beside(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema | None = None) -> str:
        load()
        from lance.file import LanceFileWriter

        path = f"{uuid.uuid4()}.lance"
        options = self.place.options or None
        with (
            translating(f"a file beside {self.place.uri}"),
            LanceFileWriter(self._uri(path), schema, storage_options=options) as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
        return path

    def read_files(self, paths: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        load()
        from lance.file import LanceFileReader

        options, names = self.place.options or None, list(columns)
        with translating(f"keys in {self.place.uri}"):
            for path in paths:
                reader = LanceFileReader(self._uri(path), storage_options=options, columns=names)
                for batch in reader.read_all(batch_size=BATCH_ROWS).to_batches():
                    yield batch.select(names)

    def _uri(self, path: str) -> str:
        return f"{self.place.uri}/data/{path}"
