"""Batches of Parquet and Arrow files, of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from quire.rowfiles.shares import Share

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 65_536
"""Rows of a batch at most."""
BYTES = 32 << 20
"""And about so many bytes of Parquet: rows may hold documents and images."""


def parquet(stream: IO[bytes], share: Share | None) -> Iterator[pa.RecordBatch]:
    """The rows of a file of Parquet, or of some of its row groups. The first batch, without rows, has the columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(stream) as file:
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
        widest = max((g.total_byte_size / g.num_rows for g in groups if g.num_rows), default=0.0)
        size = max(1, min(ROWS, int(BYTES / max(widest, 1.0))))
        mine = None if share is None else list(range(share.start, share.end))
        yield pa.RecordBatch.from_pylist([], file.schema_arrow.remove_metadata())
        for batch in file.iter_batches(batch_size=size, row_groups=mine):
            yield batch.replace_schema_metadata(None)


def arrow(stream: Any, path: str | None) -> Iterator[pa.RecordBatch]:
    """The rows of an Arrow file or stream; of a file on disk, whose `path` is given, without reading it into memory."""
    import pyarrow as pa

    if path is not None:
        with open(path, "rb") as file:
            if file.read(6) == b"ARROW1":
                stream = pa.memory_map(path)
    if hasattr(stream, "seekable") and stream.seekable():
        whole = stream.read(6) == b"ARROW1"
        stream.seek(0)
        if whole:
            stored = pa.ipc.open_file(stream)
            yield from _sliced(stored.schema, (stored.get_batch(n) for n in range(stored.num_record_batches)))
            return
    opened = pa.ipc.open_stream(stream)
    yield from _sliced(opened.schema, opened)


def _sliced(schema: pa.Schema, batches: Any) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    yield pa.RecordBatch.from_pylist([], schema.remove_metadata())
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS):
            yield batch.slice(start, ROWS).replace_schema_metadata(None)
