"""Rows as a plain Delta table of their own, which every client of Delta reads and writes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quire.conversion.plain_types import plain_schema
from quire.conversion.source import Source
from quire.formats.delta.files import parquet
from quire.formats.delta.files.schema import schema_text
from quire.formats.delta.files.told import decoded, encoded
from quire.formats.delta.log.actions import Commit
from quire.formats.delta.log.names import published
from quire.formats.delta.log.state import EMPTY, Metadata, Protocol, State, now
from quire.formats.delta.staging.schema_change import with_features

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class DeltaExport:
    """A table that is being written. Its first version, which makes the files a table, is written last."""

    state: State

    @staticmethod
    def of(schema: pa.Schema, table: str) -> DeltaExport:
        metadata = Metadata(str(uuid.uuid4()), schema_text(plain_schema(schema), table), created_time=now())
        return DeltaExport(replace(EMPTY, metadata=metadata, protocol=with_features(Protocol(), metadata)))

    def files(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, stem: str
    ) -> Iterator[tuple[str, bytes, int, str]]:
        rows = Source(schema, batches, whole=False)
        for number, (file, body) in enumerate(parquet.written(rows, self.state)):
            named = replace(file, path=f"{stem}-{number:02}.parquet")
            yield named.path, body, named.rows, encoded([named])[0]

    def finish(self, told: Sequence[str]) -> Mapping[str, bytes]:
        added = [file.add(data_change=True) for file in decoded(told)]
        info = {"commitInfo": {"timestamp": now(), "operation": "CREATE TABLE AS SELECT", "operationParameters": {}}}
        actions = (info, self.state.protocol.action(), self.state.metadata.action(), *added)
        return {published(0): Commit(actions).encode()}
