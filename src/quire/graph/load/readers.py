"""Reading the parts of a source in blocks of bounded size, each typed as it comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from quire.conversion.inputs import source as arrow_source
from quire.errors import NotFound
from quire.graph.catalog import Catalog, Entity
from quire.graph.embed.fill import Vectors
from quire.graph.integrity.violations import Violation
from quire.graph.load.gather import Gathering, Ids
from quire.graph.load.rejects import Rejects
from quire.graph.load.sources import Numbered, Part
from quire.graph.load.typed import PendingRows, Typist
from quire.ledger.records import readable
from quire.progress import Progress
from quire.rowfiles.files import RowFile, doubts
from quire.rowfiles.jsonl import NoObject
from quire.rowfiles.kinds import Kind, explained
from quire.rowfiles.line_numbers import Lines

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 65_536
"""Rows of one type that are typed together."""
BLOCK_BYTES = 32 << 20
"""And so many bytes of text, whatever they hold."""


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """One line of NDJSON."""

    type: str | None = None
    edge: str | None = None
    id: Any = None
    source: Any = msgspec.field(default=None, name="from")
    target: Any = msgspec.field(default=None, name="to")
    data: dict[str, Any] = msgspec.field(default_factory=dict)


readable(Envelope)


UNTYPED = (
    'The row has no type: write {"type": "…", "data": {…}} for a node and {"edge": "…", …} for an edge, or give type='
    " or edge= (--type, --edge) for all rows."
)
BOTH = 'The row is both a node and an edge: write either "type" or "edge".'


def _misshapen(row: Any) -> str | None:
    """Why an object is no row of a graph, if that is known: it says no type, or has properties beside it."""
    if not isinstance(row, Mapping):
        return None
    if row.get("type") is None and row.get("edge") is None:
        return UNTYPED
    others = [str(name) for name in row if name not in FIELDS]
    kind = "type" if row.get("type") is not None else "edge"
    if not others or not isinstance(row[kind], str):
        return None
    named = ", ".join(map(repr, others[:3])) + (" and others" if len(others) > 3 else "")
    return f'Put properties inside "data", not beside "{kind}": {named}.'


def _object(line: str) -> Any:
    """What a line holds, if it is JSON."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(Envelope))


@dataclass
class Reader:
    """Reads parts into a gathering."""

    catalog: Catalog
    into: Gathering
    rejects: Rejects
    progress: Progress | None = None
    vectors: Vectors = field(default_factory=Vectors)
    _pending: dict[str, PendingRows] = field(default_factory=dict)
    _kinds: dict[tuple[str, str], Entity] = field(default_factory=dict)
    _rows: int = 0

    def read(self, part: Part) -> None:
        self._rows = 0
        if part.entity is not None:
            self.into.touch(part.entity)  # also when it has no row: an overwrite leaves none then
        if isinstance(part.data, RowFile) and part.data.kind is Kind.jsonl:
            self._lines(part, part.data)
        elif part.shape == "rows":
            self._objects(part)
        elif isinstance(part.data, Numbered):
            self._mapped(part, part.data)
        else:
            self._columns(part)
        self._tell(part, done=True)

    def _tell(self, part: Part, *, done: bool = False) -> None:
        if self.progress is not None and (done or self._rows % BLOCK == 0):
            self.progress(part.name or "<rows>", self._rows, None)

    # -- NDJSON and lists of rows -----------------------------------------------------------------------------

    def _lines(self, part: Part, file: RowFile) -> None:
        taken = 0
        for number, size, row in file.objects(Envelope if part.entity is None else dict[str, Any]):
            if isinstance(row, NoObject):
                said = _misshapen(_object(row.text)) if part.entity is None else None
                self._reject(part, number, "json", said or row.said, row.text)
            else:
                self._take(part, row, number)
            taken += size
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
                self._reject(part, number, "json", f"A row must be a dict, not a {type(row).__name__}.", str(row))
                continue
            taken += _weight(row)
            if part.entity is not None:
                self._take(part, dict(row), number)
                continue
            try:
                envelope = msgspec.convert(dict(row), Envelope)
            except (msgspec.ValidationError, RecursionError) as error:
                said = _misshapen(row) or f"Not a row of a graph: {error}."
                self._reject(part, number, "json", said, dict(row))
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
                self._reject(part, number, "json", "Only edges have ends, from and to.", msgspec.to_builtins(row))
                return
        else:
            assert part.entity is not None
            entity = part.entity
            id = row.pop(entity.shown["id"], None)
            source, target, data = None, None, row
            if entity.kind == "edge":
                source, target = _end(entity, row, "from", "src"), _end(entity, row, "to", "dst")
        rows = self._pending.setdefault(entity.id, PendingRows())
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
            self._reject(part, number, "json", UNTYPED if name is None else BOTH, msgspec.to_builtins(row))
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
        text = isinstance(part.data, RowFile)
        return Typist(self.catalog, entity, self.rejects, part.name, self.vectors, text, merging=self.into.lacks)

    def _reject(self, part: Part, line: int, rule: str, said: str, row: Any, *, type: str = "") -> None:
        self.rejects.leave_out(type, 1)
        self.rejects.add(Violation(type, rule, said, file=part.name, line=line), row)

    # -- columns ----------------------------------------------------------------------------------------------

    def _columns(self, part: Part) -> None:
        entity = part.entity
        assert entity is not None
        self.into.touch(entity)
        typist = self._typist(part, entity)
        text = isinstance(part.data, RowFile) and part.data.is_text
        checked = False
        for batch, lines in self._batches(part):
            if not checked and (wrong := typist.check_columns(batch.schema.names)) is not None:
                said = " ".join([wrong, *(f"{doubt}." for doubt in _doubts(part))])
                self._reject(part, 1, "property", said, batch.schema.names, type=entity.name)
                return
            checked = True
            if not batch.num_rows:
                continue
            [whole] = arrow_source(batch, table=entity.name).batches
            self._rows += batch.num_rows
            self.into.add(entity, typist.columns(whole, lines, text=text), part.name, ids=_ids_in(entity, whole))
            if self.progress is not None:
                self.progress(part.name or "<rows>", self._rows, None)

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

    def _batches(self, part: Part) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Rows of bounded size, and the line of each."""
        if isinstance(part.data, RowFile):

            def tell(line: int, rule: str, said: str, text: Any) -> None:
                self._reject(part, line, rule, said, text)

            yield from part.data.read(tell, block=BLOCK_BYTES)
            return
        lines = Lines(row=1, line=1)
        with explained(part.name or "<rows>"):
            for batch in arrow_source(part.data, table=part.entity.name if part.entity else "").batches:
                for some in _sliced(batch):
                    yield some, lines.of(some.num_rows)


def _doubts(part: Part) -> list[str]:
    """What makes a file look as if it were written in another form."""
    return list(doubts([part.data])) if isinstance(part.data, RowFile) and part.path is not None else []


def _weight(row: Mapping[Any, Any]) -> int:
    """About how many bytes of text and blobs a row holds."""
    found = 0
    for value in row.values():
        if isinstance(value, str | bytes | bytearray | list):
            found += len(value)
        elif isinstance(value, dict):
            found += _weight(value)
    return found


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
