"""Rows as clients ask for them by `Accept`: a page of JSON, or a stream of JSON lines, CSV or Arrow in bounded memory.

A stream of Arrow ends with its end-of-stream marker, and JSON lines and CSV with the last chunk of HTTP. When something
fails on the way, the connection is closed before that, so a client can tell a part from the whole.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from quire.errors import InvalidInput, TooLarge
from quire.lake import Rows
from quire.rowfiles.write import as_jsonl, csv_bytes, distinct, json_rows
from quire.server.calls import JSON, Answer
from quire.server.problems import HttpRefusal

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["json", "ndjson", "csv", "arrow"]

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
CSV = "text/csv"

MEDIA: dict[str, Kind] = {
    JSON: "json",
    NDJSON: "ndjson",
    "application/jsonl": "ndjson",
    CSV: "csv",
    ARROW: "arrow",
}
STREAMS = (NDJSON, CSV, ARROW)
PIECE_ROWS = 16_384
"""Rows that are written at once, at most."""


def wanted(accept: str) -> Kind:
    """The form that an `Accept` header prefers; JSON when it takes anything."""
    found: list[tuple[float, int, Kind]] = []
    for place, part in enumerate(accept.lower().split(",") if accept.strip() else ["*/*"]):
        kind, *parameters = (word.strip() for word in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        meant: Kind | None = "json" if kind in ("*/*", "application/*") else MEDIA.get(kind)
        if kind == "text/*":
            meant = "csv"
        if meant is not None and weight > 0:
            found.append((-weight, place, meant))
    if not found:
        error = InvalidInput(
            "The rows cannot be given in a form that Accept names.", next=f"Accept one of {', '.join(MEDIA)}."
        )
        raise HttpRefusal(406, error)
    return min(found)[2]


def stream(rows: Rows, kind: Kind) -> Answer:
    """Rows as a stream."""
    if kind == "arrow":
        return Answer(stream=_arrow(rows), media_type=ARROW)
    if kind == "csv":
        return Answer(stream=_csv(rows), media_type=f"{CSV}; charset=utf-8; header=present")
    return Answer(stream=_ndjson(rows), media_type=NDJSON)


def page(rows: Rows, most: int) -> tuple[list[dict[str, Any]], bool]:
    """The first rows as values for JSON, and whether there are more."""
    found: list[dict[str, Any]] = []
    for batch in _pieces(rows):
        found += json_rows(_named_apart(batch))
        if len(found) > most:
            return found[:most], True
    return found, False


def whole(rows: Rows, kind: Kind, most: int) -> Answer:
    """Rows that are read now, of at most so many bytes."""
    found, size = [], 0
    for piece in stream(rows, kind).stream or ():
        found.append(piece)
        size += len(piece)
        if size > most:
            raise TooLarge(
                f"The rows take more than {most} bytes, and inside a transaction they are read at once.",
                next="Read fewer columns or rows, or read outside the transaction.",
                limit=most,
            )
    media = {"arrow": ARROW, "csv": CSV, "ndjson": NDJSON}[kind]
    return Answer(body=b"".join(found), media_type=media)


def schema_text(schema: pa.Schema) -> str:
    """A schema of Arrow as base64."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def columns_of(schema: pa.Schema) -> list[dict[str, Any]]:
    """Columns and their types as JSON says them."""
    return [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in schema]


def _pieces(rows: Rows) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        for start in range(0, batch.num_rows, PIECE_ROWS):
            yield batch.slice(start, PIECE_ROWS)


def _named_apart(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = distinct(batch.schema.names)
    return batch if names == batch.schema.names else batch.rename_columns(names)


def _arrow(rows: Rows) -> Iterator[bytes]:
    import pyarrow as pa

    sink = io.BytesIO()

    def taken() -> bytes:
        found = sink.getvalue()
        sink.seek(0)
        sink.truncate()
        return found

    writer = pa.ipc.new_stream(sink, rows.schema)
    first = taken()
    waiting = _pieces(rows)
    batch = next(waiting, None)  # before anything is sent, so that an error at the start has a status
    if first:
        yield first
    while batch is not None:
        writer.write_batch(batch)
        yield taken()
        batch = next(waiting, None)
    writer.close()
    yield taken()


def _csv(rows: Rows) -> Iterator[bytes]:
    import pyarrow as pa

    names = distinct(rows.schema.names)
    schema = pa.schema([field.with_name(name) for field, name in zip(rows.schema, names, strict=True)])
    first = True
    for batch in _pieces(rows):
        yield csv_bytes(pa.RecordBatch.from_arrays(batch.columns, schema=schema), schema, header=first)
        first = False
    if first:
        yield csv_bytes(schema.empty_table(), schema, header=True)


def _ndjson(rows: Rows) -> Iterator[bytes]:
    for batch in _pieces(rows):
        yield as_jsonl(_named_apart(batch))
