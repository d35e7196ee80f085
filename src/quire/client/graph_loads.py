"""What a load sends to a server: rows from wherever they are, read here, in one of the forms that it takes."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quire.conversion.inputs import source as arrow_source
from quire.errors import InvalidInput, NotFound, Unsupported
from quire.rowfiles import inputs
from quire.rowfiles.kinds import SAY, Kind, kind_of
from quire.rowfiles.typed import read, row_files
from quire.rowfiles.write import to_json

PIECE = 1 << 20


def body_of(source: Any, format: Any) -> tuple[Iterable[bytes], str]:
    """The bytes to send, as they are read, and their form: jsonl, csv or arrow."""
    if isinstance(source, str | os.PathLike):
        return _files([os.fspath(source)], format)
    if isinstance(source, list | tuple) and source and all(isinstance(one, str | os.PathLike) for one in source):
        return _files([os.fspath(one) for one in source], format)
    if isinstance(source, list | tuple) and len(source) == 1 and not isinstance(source[0], Mapping):
        return body_of(source[0], format)
    if isinstance(source, list | tuple) and all(isinstance(one, Mapping) for one in source):
        return (to_json(one) + b"\n" for one in source), "jsonl"
    if hasattr(source, "read"):
        if format is None:
            raise InvalidInput("An open file has no format.", next=SAY)
        kind = str(format)
        kind = "jsonl" if kind == "ndjson" else kind
        if kind == "parquet":
            raise Unsupported("A stream of Parquet is not sent to a server.", next="Name a file, or send CSV or Arrow.")
        return _pieces(source), kind
    if isinstance(source, Mapping | list | tuple):
        raise Unsupported(
            "A server takes one source of rows at a time.", next="Load the types one after the other, with type=."
        )
    found = arrow_source(source, None, table="rows")
    return _columns(found), "arrow"


def _files(names: list[str], format: Any) -> tuple[Iterable[bytes], str]:
    paths = [path for name in names for path in inputs.expand(name)]
    if not paths:
        raise NotFound(f"No file matches {names[0]!r}.", next="Check the pattern.", file=names[0])
    given = None if format is None else Kind("jsonl" if format == "ndjson" else format)
    kinds = {kind_of(path, given) for path in paths}
    if len(kinds) > 1 or (kinds != {Kind.jsonl} and len(paths) > 1):
        raise Unsupported(
            "A server takes several files of JSON lines at once, and of other formats one.",
            next="Load them one after the other.",
        )
    [kind] = kinds
    if kind in (Kind.jsonl, Kind.csv):
        return _texts(paths), kind.value
    return _columns(read(row_files(paths, kind), None)), "arrow"


def _texts(paths: list[str]) -> Iterator[bytes]:
    for path in paths:
        with inputs.open_input(path) as file:
            last = b"\n"
            for piece in _pieces(gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file):
                yield piece
                last = piece[-1:]
            if last != b"\n":
                yield b"\n"


def _pieces(file: Any) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        if isinstance(piece, str):
            piece = piece.encode()
        yield piece


def _columns(found: Any) -> Iterator[bytes]:
    import pyarrow as pa

    batches = found.batches if hasattr(found, "batches") else found
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()
