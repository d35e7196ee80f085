"""Rows of many types on their way into one commit: kept per type in memory while they are few, in files when not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from quire.graph.catalog import Entity

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = 128 << 20
"""So many bytes of all types together stay in memory."""
FILE, LINE = "__file", "__line"
"""Where a row comes from: beside its columns, and never stored."""
LACKS = "__lacks"
"""Under merge, which properties a row does not give (`quire.graph.load.merge`): beside its columns too."""


Ids = Literal["all", "some", "none"]
"""Which rows came with an id of their own."""


@dataclass(frozen=True)
class Typed:
    """Rows in the shape of a type's table, each with the line that it comes from and, under merge, what it lacks."""

    batch: pa.RecordBatch
    lines: Any
    lacks: Sequence[str] = ()


@dataclass
class Gathered:
    """The rows of one type, in the order in which they came."""

    entity: Entity
    schema: pa.Schema
    rows: int = 0
    bytes: int = 0
    generated: bool = True
    """Whether all ids were made here, so that none of them can be there already."""
    lacking: bool = False
    """Whether any row came without an id."""
    partial: bool = False
    """Whether any row came without a property."""
    batches: list[pa.RecordBatch] = field(default_factory=list)
    path: str | None = None
    _writer: Any = None

    def spill(self, folder: str, number: int) -> None:
        """Move what is in memory to a file."""
        import pyarrow as pa

        if self._writer is None:
            self.path = os.path.join(folder, f"{number}.arrow")
            self._writer = pa.ipc.new_file(self.path, self.schema)
        for batch in self.batches:
            self._writer.write_batch(batch)
        self.batches, self.bytes = [], 0

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of all rows, as often as it is asked for. No row can be added after the first time."""
        import pyarrow as pa

        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self.path is not None:
            chosen = [self.schema.get_field_index(name) for name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=chosen)
            with pa.memory_map(self.path) as mapped:
                file = pa.ipc.open_file(mapped, options=options)
                for number in range(file.num_record_batches):
                    yield file.get_batch(number).select(list(columns))
        for batch in self.batches:
            yield batch.select(list(columns))

    def table(self, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches(self.read(columns), schema=schema)


class Gathering:
    """All types of a load. A context manager: its files are gone afterwards.

    With `lacks` it keeps what each row does not give.
    """

    def __init__(self, *, lacks: bool = False) -> None:
        self.lacks = lacks
        self.types: dict[str, Gathered] = {}
        self.files: list[str | None] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Gathering:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Remove its files."""
        if self._folder is not None:
            self._folder.cleanup()

    def touch(self, entity: Entity) -> Gathered:
        """The rows of a type, which counts as touched from here on."""
        import pyarrow as pa

        if entity.id not in self.types:
            system = [pa.field(FILE, pa.int32()), pa.field(LINE, pa.int64())]
            if self.lacks:
                system.append(pa.field(LACKS, pa.string()))
            self.types[entity.id] = Gathered(entity, pa.schema([*entity.schema(), *system]))
        return self.types[entity.id]

    def add(self, entity: Entity, typed: Typed, file: str | None, *, ids: Ids) -> None:
        """Rows in the shape of the type's table, with the lines that they come from."""
        import numpy as np
        import pyarrow as pa

        into, batch = self.touch(entity), typed.batch
        if not batch.num_rows:
            return
        if not self.files or self.files[-1] != file:
            self.files.append(file)
        number = np.full(batch.num_rows, len(self.files) - 1, np.int32)
        arrays = [*batch.columns, pa.array(number), pa.array(typed.lines)]
        if self.lacks:
            arrays.append(pa.array(typed.lacks, pa.string()))
            into.partial = into.partial or any(typed.lacks)
        into.batches.append(pa.RecordBatch.from_arrays(arrays, schema=into.schema))
        into.rows += batch.num_rows
        into.bytes += batch.nbytes
        into.generated = into.generated and ids == "none"
        into.lacking = into.lacking or ids != "all"
        while sum(one.bytes for one in self.types.values()) > MEMORY:
            self._spill(max(self.types.values(), key=lambda one: one.bytes))

    def _spill(self, one: Gathered) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="quire-load-")
        one.spill(self._folder.name, list(self.types).index(one.entity.id))
