"""The graph out of the lake: all of it as NDJSON, and single blobs."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from quire.cli.graph_arguments import typed
from quire.cli.options import Session, command
from quire.errors import InvalidInput, NotFound
from quire.rowfiles.kinds import STANDARD, explained
from quire.rowfiles.write import whole

if TYPE_CHECKING:
    import quire
    from quire.graph.reading.blobs import Blob

CHUNK = 8 << 20
_RANGE = re.compile(r"(\d+):(\d*)")


@command("dump", at=True)
def dump(
    session: Session,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to write; it must not exist; .gz compresses; - is stdout.")
    ],
    type: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only this type; for node types, also the edges between them."),
    ] = None,
) -> None:
    """Write the graph of one commit as NDJSON. `quire load` reads it. The file appears when it is complete."""
    if file == STANDARD and session.output.as_json:
        raise InvalidInput("A dump and a JSON answer cannot share stdout.", next="Name a file.")
    graph, snap = session.graph_at()
    if file == STANDARD:
        _dump(graph, snap, type)
        return
    rows = graph.export(file, type or None, at=snap)
    if session.output.as_json:
        session.output.document({"commit": snap.commit, "file": file, "rows": sum(rows.values()), "types": rows})
        return
    session.output.table(("type", "rows"), list(rows.items()))
    session.output.line(f"wrote {sum(rows.values())} rows to {file}")


def _dump(graph: quire.Graph, snap: quire.Snapshot, types: list[str] | None) -> None:
    """Print when all is there: a dump that fails half-way must not look like a whole one."""
    with tempfile.TemporaryDirectory(prefix="quire-dump-") as folder:
        path = Path(folder, "graph.ndjson")
        graph.export(path, types or None, at=snap)
        with path.open("rb") as whole:
            sys.stdout.flush()
            shutil.copyfileobj(whole, sys.stdout.buffer, CHUNK)
            sys.stdout.buffer.flush()


@command("blob", at=True)
def blob(
    session: Session,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="A node or edge type.")],
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The key of the node (several columns: a JSON list), or its id.")
    ],
    property: Annotated[str, typer.Argument(metavar="PROPERTY", help="A property of type Blob.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file. Default: stdout.")
    ] = None,
    range: Annotated[str | None, typer.Option("--range", metavar="START:LENGTH", help="Read only these bytes.")] = None,
) -> None:
    """Write the bytes of a blob, or of a part of it."""
    to_file = output is not None and output != STANDARD
    if not to_file and session.output.as_json:
        raise InvalidInput("A blob and a JSON answer cannot share stdout.", next="Name a file with --output.")
    if not to_file and sys.stdout.isatty():
        raise InvalidInput("A blob is not written to a terminal.", next="Name a file with --output, or use a pipe.")
    graph, snap = session.graph_at()
    found = graph.blob(type, _key(graph, snap, type, key), property, at=snap)
    if found is None:
        raise NotFound(
            f"{type} {key!r} has no {property}.", next="Nothing is stored there.", type=type, property=property
        )
    start, length = _range(range, found.size)
    if output is None or output == STANDARD:
        _copy(found, start, length, sys.stdout.buffer)
        return
    with explained(output), whole(Path(output)) as file:
        count = _copy(found, start, length, file)
    if session.output.as_json:
        session.output.document({"commit": snap.commit, "file": output, "size": found.size, "bytes": count})
    else:
        session.output.line(f"wrote {count} bytes to {output}")


def _key(graph: quire.Graph, snap: quire.Snapshot, type: str, text: str) -> Any:
    """The values of a key as their properties read them."""
    entities = {e.name: e for e in graph.catalog(snap).entities}
    names = entities[type].defined.key if type in entities else ()
    if len(names) == 1:
        return typed(text, entities[type].property(names[0]).type)
    return text if not names else _values(text)


def _values(text: str) -> list[Any]:
    import msgspec

    try:
        found: list[Any] = msgspec.json.decode(text, type=list)
        return found
    except msgspec.MsgspecError:
        raise InvalidInput(f"{text!r} is not a JSON list.", next='Write a key of several values as ["a", 1].') from None


def _range(text: str | None, size: int) -> tuple[int, int]:
    if text is None:
        return 0, size
    found = _RANGE.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{text!r} is not a byte range.", next="Write START:LENGTH, such as 0:100, or START:.")
    start = int(found[1])
    return start, min(int(found[2]) if found[2] else size, max(0, size - start))


def _copy(blob: Blob, start: int, length: int, sink: IO[bytes]) -> int:
    done = 0
    while done < length:
        part = blob.read_range(start + done, min(CHUNK, length - done))
        sink.write(part)
        done += len(part)
    return done
