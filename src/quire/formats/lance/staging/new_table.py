"""The first version of a table, at a fresh location where nobody looks before a commit pins it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.conversion.source import Source
from quire.errors import StorageError
from quire.formats.lance.metering import metered, sending
from quire.formats.lance.session import LanceSession, translating
from quire.formats.lance.staging import scratch_table
from quire.formats.lance.staging.stager import first_rows
from quire.formats.outbox import AT_ONCE

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

FIRST = 1
"""The version that Lance begins with."""


def new_table(
    session: LanceSession, location: str, rows: Source, table: str, **options: Any
) -> tuple[LanceDataset, dict[str, bytes]]:
    """Make a table of rows: its handle, and the files that are still to be sent. Many rows are written at once.

    With files to be sent, the handle knows what the version is made of and cannot read it.
    """

    def made_of(reader: pa.RecordBatchReader) -> tuple[LanceDataset, dict[str, bytes]]:
        few = None
        if session.is_remote(location):
            few, reader = first_rows(reader, AT_ONCE)
        found = None if few is None else _apart(session, location, rows.schema, few, table, options)
        return found or (_in_place(session, location, rows.schema, reader, table, options), {})

    return rows.feed(made_of)


def _apart(
    session: LanceSession, location: str, schema: pa.Schema, rows: list[Any], table: str, options: dict[str, Any]
) -> tuple[LanceDataset, dict[str, bytes]] | None:
    """Make it on this machine; None where that does not work."""
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_batches(rows[0].schema if rows else schema, rows)
    try:
        with scratch_table.fresh(2 * sum(batch.nbytes for batch in rows)) as scratch:
            handle = _write(reader, scratch.uri, schema, table, session=scratch_table.session(), **options)
            made = scratch.made()
    except StorageError:
        return None  # whatever it is, writing to the table's own place will tell
    return handle, made


def _in_place(
    session: LanceSession, location: str, schema: pa.Schema, reader: Any, table: str, options: dict[str, Any]
) -> LanceDataset:
    uri = session.uri(location)
    with metered("create", uri, steps=4) as window:
        handle = _write(reader, uri, schema, table, storage_options=session.options, session=session.session, **options)
        steps, window.in_turn = sending(file for f in handle.get_fragments() for file in f.data_files())
        window.steps = 4 + steps
    return session.remember(location, handle)


def _write(reader: Any, uri: str, schema: pa.Schema, table: str, **options: Any) -> LanceDataset:
    import lance

    with translating(f"creation of table {table!r}"):
        return lance.write_dataset(reader, uri, schema=schema, mode="create", max_bytes_per_file=1 << 30, **options)
