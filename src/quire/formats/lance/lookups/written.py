"""Keys are noted while rows are written, so that nobody has to read them again to look for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import fingerprints
from quire.formats.lance.lookups import known
from quire.formats.lance.lookups.candidates import EQUALITY
from quire.formats.lance.lookups.known import Fields
from quire.formats.lance.session import known_indexes, schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

MOST = 1 << 20
"""Of more rows that are written at once nothing is noted: an index is for those."""


def look_up_by(base: LanceDataset, columns: Sequence[str]) -> None:
    """Say that rows of a table are looked up by these columns, before rows are written to it."""
    owner, fields = known.owner_of(base), known.fields_of(base, columns)
    if owner is not None and fields is not None:
        owner.known.ask(owner.location, fields)


class Noting:
    """Notes the keys of rows on their way into new data files of a table.

    noting = Noting(base, reader)
    fragments = write(noting.reader)
    noting.take(fragments)             # from now on they are known
    """

    def __init__(self, base: LanceDataset, reader: Any) -> None:
        import pyarrow as pa

        self.reader = reader
        self._owner = known.owner_of(base)
        self._prints: dict[Fields, list[Any]] = {}
        self._columns: dict[Fields, list[str]] = {}
        if self._owner is None:
            return
        wanted = {*self._owner.known.asked(self._owner.location), *indexed(base)}
        for fields in wanted:
            names = known.names_of(base, fields)
            if names is not None and all(reader.schema.get_field_index(name) >= 0 for name in names):
                self._prints[fields], self._columns[fields] = [], names
        if self._prints:
            self.reader = pa.RecordBatchReader.from_batches(reader.schema, self._through(base, reader))

    def _through(self, base: LanceDataset, reader: Any) -> Iterator[pa.RecordBatch]:
        schema, rows = schema_of(base), 0
        for batch in reader:
            rows += batch.num_rows
            if rows > MOST:
                self._prints.clear()
            for fields, found in self._prints.items():
                names = self._columns[fields]
                prints = fingerprints.in_order([_typed(batch.column(n), schema.field(n).type) for n in names])
                assert prints is not None
                found.append(prints)
            yield batch

    def take(self, fragments: Sequence[FragmentMetadata]) -> None:
        """Learn in which files the rows lie now."""
        if self._owner is None:
            return
        for fields, found in self._prints.items():
            prints = np.concatenate(found) if found else np.empty(0, np.uint32)
            if len(prints) != sum(int(f.physical_rows) for f in fragments):
                continue  # not the rows that went by: better to know nothing
            start = 0
            for fragment in fragments:
                stop = start + int(fragment.physical_rows)
                part = known.part_of(fragment, fields, self._owner.location)
                if part is not None:
                    self._owner.known.put(part, fingerprints.distinct(prints[start:stop]))
                start = stop


def indexed(base: LanceDataset) -> list[Fields]:
    """Columns by whose indexes rows are found, as far as they were read: a write does not wait for them."""
    schema = schema_of(base)
    return [
        (int(index.fields[0]),)
        for index in known_indexes(base)
        if len(index.fields) == 1
        and str(index.index_type).upper() in EQUALITY
        and index.field_names[0] in schema.names
        and fingerprints.has_one(schema.field(index.field_names[0]).type)
    ]


def _typed(column: Any, kind: pa.DataType) -> Any:
    return column if column.type == kind else column.cast(kind)
