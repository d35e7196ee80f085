"""Reading the parts of a source in blocks of bounded size, each typed as it comes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import NotFound
from quire.formats.arrow import source as arrow_source
from quire.graph.catalog import Catalog, Entity
from quire.graph.embed.fill import Vectors
from quire.graph.integrity.violations import Violation
from quire.graph.load.gather import Gathering, Ids
from quire.graph.load.lines import Lines
from quire.graph.load.rejects import Rejects
from quire.graph.load.shares import lines_between
from quire.graph.load.sources import Numbered, Part, explained, opened
from quire.graph.load.typed import Rows, Typist
from quire.graph.load.utf8 import Checked
from quire.store.inputs import is_remote, open_input

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 65_536
"""Rows of one type that are typed together."""
BLOCK_BYTES = 32 << 20
"""And so many bytes of text, whatever they hold."""

Progress = Callable[[str, int], None]
"""Called with the name of what is being read, and how many of its rows were."""


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """One line of NDJSON."""

    type: str | None = None
    edge: str | None = None
    id: Any = None
    source: Any = msgspec.field(default=None, name="from")
    target: Any = msgspec.field(default=None, name="to")
    data: dict[str, Any] = msgspec.field(default_factory=dict)


@dataclass
class Reader:
    """Reads parts into a gathering."""

    catalog: Catalog
    into: Gathering
    rejects: Rejects
    progress: Progress | None = None
    vectors: Vectors = field(default_factory=Vectors)
    _pending: dict[str, Rows] = field(default_factory=dict)
    _kinds: dict[tuple[str, str], Entity] = field(default_factory=dict)
    _rows: int = 0

    def read(self, part: Part) -> None:
        self._rows = 0
        if part.entity is not None:
            self.into.touch(part.entity)  # also when it has no row: an overwrite leaves none then
        if part.format == "ndjson":
            with _opened_lines(part) as lines, explained(part.name or "<stream>"):
                self._lines(part, lines)
        elif part.format == "rows":
            self._objects(part)
        elif isinstance(part.data, Numbered):
            self._mapped(part, part.data)
        else:
            self._columns(part)
        self._tell(part, done=True)

    def _tell(self, part: Part, *, done: bool = False) -> None:
        if self.progress is not None and (done or self._rows % BLOCK == 0):
            self.progress(part.name or "<rows>", self._rows)

    # -- NDJSON and lists of rows -----------------------------------------------------------------------------

    def _lines(self, part: Part, lines: Iterable[bytes]) -> None:
        decode = msgspec.json.Decoder(Envelope).decode if part.entity is None else msgspec.json.Decoder(dict).decode
        taken = 0
        before = 0 if part.share is None else part.share.before
        for number, line in enumerate(lines, start=before + 1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if not line.strip():
                continue
            try:
                row = decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                self._reject(
                    part, number, "json", f"This is no line of NDJSON: {error}.", line.decode(errors="replace")
                )
            else:
                self._take(part, row, number)
            taken += len(line)
            if taken > BLOCK_BYTES:
                self._flush(part)
                taken = 0
        self._flush(part)

    def _objects(self, part: Part) -> None:
        taken = 0
        for number, row in enumerate(part.data, start=1):
            if taken > BLOCK_BYTES:
                self._flush(part)
                taken = 0
            if not isinstance(row, Mapping):
                self._reject(part, number, "json", f"A row is a dict, not a {type(row).__name__}.", str(row))
                continue
            taken += _weight(row)
            if part.entity is not None:
                self._take(part, dict(row), number)
                continue
            try:
                envelope = msgspec.convert(dict(row), Envelope)
            except (msgspec.ValidationError, RecursionError) as error:
                self._reject(part, number, "json", f"This is no row of a graph: {error}.", dict(row))
            else:
                self._take(part, envelope, number)
        self._flush(part)

    def _take(self, part: Part, row: Any, number: int) -> None:
        self._rows += 1
        self._tell(part)
        if isinstance(row, Envelope):
            entity = self._entity(part, row, number)
            if entity is None:
                return
            data, id, source, target = row.data, row.id, row.source, row.target
            if entity.kind == "node" and (source is not None or target is not None):
                self._reject(part, number, "json", "Only an edge has ends: from and to.", msgspec.to_builtins(row))
                return
        else:
            assert part.entity is not None
            entity = part.entity
            id = row.pop(entity.shown["id"], None)
            source, target, data = None, None, row
            if entity.kind == "edge":
                source, target = _end(entity, row, "from", "src"), _end(entity, row, "to", "dst")
        rows = self._pending.setdefault(entity.id, Rows())
        rows.data.append(data)
        rows.ids.append(id)
        rows.sources.append(source)
        rows.targets.append(target)
        rows.lines.append(number)
        if len(rows) >= BLOCK:
            self._flush_one(part, entity)

    def _entity(self, part: Part, row: Envelope, number: int) -> Entity | None:
        kind, name = ("edge", row.edge) if row.edge is not None else ("node", row.type)
        if name is None or (row.edge is not None and row.type is not None):
            said = 'A row says which type it has: {"type": …} for a node, {"edge": …} for an edge.'
            self._reject(part, number, "json", said, msgspec.to_builtins(row))
            return None
        if (kind, name) not in self._kinds:
            try:
                found = self.catalog.edge(name) if kind == "edge" else self.catalog.node(name)
            except NotFound as error:
                said = f"{error.message} {error.next}"
                self._reject(part, number, "unknown", said, msgspec.to_builtins(row), type=name)
                return None
            self._kinds[kind, name] = found
        return self._kinds[kind, name]

    def _flush(self, part: Part) -> None:
        for table in list(self._pending):
            self._flush_one(part, self.catalog.by_id(table))

    def _flush_one(self, part: Part, entity: Entity) -> None:
        rows = self._pending.pop(entity.id)
        typed = self._typist(part, entity).rows(rows)
        own = "id" in entity.properties
        lacking = sum(id is None and (own or "id" not in data) for id, data in zip(rows.ids, rows.data, strict=True))
        ids: Ids = "none" if lacking == len(rows) else "some" if lacking else "all"
        self.into.add(entity, typed, part.name, ids=ids)

    def _typist(self, part: Part, entity: Entity) -> Typist:
        return Typist(self.catalog, entity, self.rejects, part.name, self.vectors, merging=self.into.lacks)

    def _reject(self, part: Part, line: int, rule: str, said: str, row: Any, *, type: str = "") -> None:
        self.rejects.leave_out(type, 1)
        self.rejects.add(Violation(type, rule, said, file=part.name, line=line), row)

    # -- columns ----------------------------------------------------------------------------------------------

    def _columns(self, part: Part) -> None:
        entity = part.entity
        assert entity is not None
        self.into.touch(entity)
        typist = self._typist(part, entity)
        first = 1 if part.share is None else part.share.before + 1
        places = Lines() if part.format == "csv" else Lines(row=first, line=first)
        names: list[str] | None = None
        for batch in self._batches(part, places):
            if names is None:
                names = batch.schema.names
                wrong = typist.check_columns(names)
                if wrong is not None:
                    self._reject(part, 1, "property", wrong, names, type=entity.name)
                    return
            if part.format == "csv":
                batch, lines = places.of_text(batch)
            else:
                lines = places.of(batch.num_rows)
            self._rows += batch.num_rows
            typed = typist.columns(batch, lines, text=part.format == "csv")
            self.into.add(entity, typed, part.name, ids=_ids_in(entity, batch))
            if self.progress is not None:
                self.progress(part.name or "<rows>", self._rows)
        places.finish()

    def _mapped(self, part: Part, given: Numbered) -> None:
        """Columns that come with the lines of their rows."""
        entity = part.entity
        assert entity is not None
        typist = self._typist(part, entity)
        checked = False

        def reject(line: int, rule: str, said: str, row: Any) -> None:
            self._reject(part, line, rule, said, row, type=entity.name)

        for batch, lines in given.numbered(reject):
            if not checked and (wrong := typist.check_columns(batch.schema.names)) is not None:
                self._reject(part, 1, "property", wrong, batch.schema.names, type=entity.name)
                return
            checked = True
            [whole] = arrow_source(batch, table=entity.name).batches
            self._rows += batch.num_rows
            self.into.add(entity, typist.columns(whole, lines, text=True), part.name, ids=_ids_in(entity, whole))
            self._tell(part, done=True)

    def _batches(self, part: Part, lines: Lines) -> Iterator[pa.RecordBatch]:
        name = part.name or "<rows>"
        if part.format == "columns":
            for batch in arrow_source(part.data, table=part.entity.name if part.entity else "").batches:
                yield from _sliced(batch)
            return
        with explained(name), opened(part) as stream:
            if part.format == "parquet":
                yield from _parquet(part)
            elif part.format == "arrow":
                for batch in arrow_source(_ipc(part, stream)).batches:
                    yield from _sliced(batch)
            else:
                yield from self._csv(part, stream, lines)

    def _csv(self, part: Part, stream: Any, lines: Lines) -> Iterator[pa.RecordBatch]:
        def invalid(row: Any) -> str:
            said = f"This line has {row.actual_columns} fields, not {row.expected_columns}."
            lines.skip(row.number, row.text, lambda line: self._reject(part, line, "csv", said, row.text))
            return "skip"

        yield from open_csv(_replayed(stream, part), BLOCK_BYTES, invalid)


def open_csv(stream: Any, block: int, invalid: Callable[[Any], str]) -> Iterable[pa.RecordBatch]:
    """A file as text alone; an empty field is null, a quoted empty one is empty text.

    In one thread, so that it knows the number of a row that is wrong. Blank lines are rows, to be counted.
    """
    import pyarrow as pa
    import pyarrow.csv as csv

    found: Iterable[pa.RecordBatch] = csv.open_csv(
        pa.PythonFile(Checked(stream), mode="r"),
        read_options=csv.ReadOptions(block_size=block, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True, invalid_row_handler=invalid, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            default_column_type=pa.string(),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return found


def _weight(row: Mapping[Any, Any]) -> int:
    """About how many bytes of text and blobs a row holds."""
    found = 0
    for value in row.values():
        if isinstance(value, str | bytes | bytearray | list):
            found += len(value)
        elif isinstance(value, dict):
            found += _weight(value)
    return found


def _replayed(stream: Any, part: Part) -> Any:
    import pyarrow as pa

    return stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")


@contextmanager
def _opened_lines(part: Part) -> Iterator[Iterable[bytes]]:
    """The lines of a file, or of a share of it."""
    if part.share is None:
        with opened(part) as stream:
            yield _split(stream)
        return
    with explained(part.data), open_input(part.data, part.options) as file:
        blocks = lines_between(file, part.share.start, part.share.end)
        yield (line for block in blocks for line in io.BytesIO(block))


def _split(stream: Any) -> Iterable[bytes]:
    """Lines of a stream of bytes."""
    import pyarrow as pa

    if isinstance(stream, pa.NativeFile):
        return io.BufferedReader(stream, 1 << 20)
    return (line.encode() if isinstance(line, str) else line for line in stream)


def _end(entity: Entity, row: dict[str, Any], name: str, column: str) -> Any:
    """An end of an edge, by either of its names; a property may be called like the column."""
    if name in row or column in entity.properties:
        return row.pop(name, None)
    return row.pop(column, None)


def _ids_in(entity: Entity, batch: pa.RecordBatch) -> Ids:
    id = entity.shown["id"]
    if id not in batch.schema.names:
        return "none"
    return "some" if batch.column(id).null_count else "all"


def _sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, BLOCK):
        yield batch.slice(start, BLOCK)


def _parquet(part: Part) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(open_input(part.data, part.options) if isinstance(part.data, str) else part.data)
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    widest = max((g.total_byte_size / g.num_rows for g in groups if g.num_rows), default=0.0)
    # Rows may hold documents and images: then few of them are read at once.
    size = max(1, min(BLOCK, int(BLOCK_BYTES / max(widest, 1.0))))
    mine = None if part.share is None else list(range(part.share.start, part.share.end))
    for batch in file.iter_batches(batch_size=size, row_groups=mine):
        yield from arrow_source(batch).batches


def _ipc(part: Part, stream: Any) -> pa.RecordBatchReader:
    import pyarrow as pa

    if isinstance(part.data, str):
        with open_input(part.data, part.options) as file:
            seekable = file.read(6) == b"ARROW1"
        if seekable:
            stored = pa.ipc.open_file(
                open_input(part.data, part.options) if is_remote(part.data) else pa.memory_map(part.data)
            )
            batches = (stored.get_batch(i) for i in range(stored.num_record_batches))
            return pa.RecordBatchReader.from_batches(stored.schema, batches)
    return pa.ipc.open_stream(stream)
