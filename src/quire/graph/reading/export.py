"""A graph, or a part of it, for other tools: frames, networkx, and the NDJSON that a load takes."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import gzip
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from quire.errors import AlreadyExists, InvalidInput, Unsupported, shown
from quire.graph.reading.neighbours import plain
from quire.graph.types import canonical
from quire.lake.handles import view_of
from quire.lake.read.table import Rows

if TYPE_CHECKING:
    import networkx

    from quire.graph.catalog import Catalog, Entity
    from quire.lake import Snapshot

ReadBlob = Callable[[Any, str, str], "bytes | None"]
"""Reads a blob by its type, property and the id of its row, where that is not done through the snapshot."""

KINDS = ("arrow", "pandas", "polars")


def chosen(catalog: Catalog, types: Collection[str] | None) -> list[Entity]:
    """The types to take: those named, or all; of edges, by default, those whose two ends are taken."""
    if types is None:
        return list(catalog.entities)
    if isinstance(types, str):
        raise InvalidInput(f"types is a list of names, not {types!r}.", next=f"Write [{types!r}].")
    names = set(types)
    known = {e.name: e for e in catalog.entities}
    found = [known[name] if name in known else catalog.node(name) for name in names]  # the latter says what is near
    nodes = {e.id for e in found if e.kind == "node"}
    if nodes == {e.id for e in found}:
        found += [e for e in catalog.edges if {e.defined.source, e.defined.target} <= nodes]
    return sorted(found, key=lambda e: (e.kind != "node", e.name))


def frames(snapshot: Snapshot, entities: list[Entity], kind: Literal["arrow", "pandas", "polars"]) -> dict[str, Any]:
    """Every type as one frame, by its name, with the columns that a load takes; blobs are left out."""
    if kind not in KINDS:
        raise InvalidInput(f"There are no frames of kind {kind!r}.", next=f"Use one of {', '.join(KINDS)}.")
    scans = {e.name: _named_rows(snapshot, e) for e in entities}
    return {name: getattr(rows, f"to_{kind}")() for name, rows in scans.items()}


def _named_rows(snapshot: Snapshot, entity: Entity) -> Rows:
    """All rows, by the names of the properties."""
    import pyarrow as pa

    rows, names = snapshot[entity.table].scan(columns=plain(entity)), entity.shown
    if all(column == name for column, name in names.items()):
        return rows
    schema = pa.schema([field.with_name(names[field.name]) for field in rows.schema])
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in rows)
    return Rows(pa.RecordBatchReader.from_batches(schema, batches), keep=rows)


def to_networkx(snapshot: Snapshot, catalog: Catalog, entities: list[Entity]) -> networkx.MultiDiGraph:
    """A directed graph with parallel edges. A node is `(type, id)`; the key of an edge is its id.

    Nodes and edges carry their `type` and their properties; a property of that name is under `property:type`.
    """
    try:
        import networkx
    except ImportError:
        raise Unsupported("networkx is not installed.", next="pip install networkx.", package="networkx") from None
    made = networkx.MultiDiGraph()
    for entity in entities:
        if entity.kind == "node":
            made.add_nodes_from(((entity.name, row["id"]), _carried(entity, row)) for row in _rows(snapshot, entity))
    for entity in entities:
        if entity.kind == "edge":
            source, target = catalog.source(entity).name, catalog.target(entity).name
            made.add_edges_from(
                ((source, row["src"]), (target, row["dst"]), row["id"], _carried(entity, row))
                for row in _rows(snapshot, entity)
            )
    return made


def _carried(entity: Entity, row: dict[str, Any]) -> dict[str, Any]:
    properties = {p.column: p.name for p in entity.defined.properties}
    own = {properties[column]: value for column, value in row.items() if column in properties}
    return {"type": entity.name, **{f"property:{n}" if n == "type" else n: value for n, value in own.items()}}


def _rows(snapshot: Snapshot, entity: Entity) -> Iterator[dict[str, Any]]:
    for batch in snapshot[entity.table].scan(columns=plain(entity)):
        yield from batch.to_pylist()


def write_ndjson(
    snapshot: Snapshot, entities: list[Entity], path: str | os.PathLike[str], blob: ReadBlob | None = None
) -> dict[str, int]:
    """Write a file that a load reads again, nodes first; rows by type. A name that ends in `.gz` is compressed.

    The file appears when it is whole. A node without a key and every edge keeps its id.
    """
    target = Path(path)
    if _exists(target):
        raise AlreadyExists(f"{str(target)!r} is there already.", next="Give another name, or remove it first.")
    unfinished = target.with_name(f".{target.name}.unfinished")
    counts = {}
    try:
        with _opened(unfinished, target.suffix == ".gz") as file:
            for entity in entities:
                counts[entity.name] = 0
                for line in _lines(snapshot, entity, blob):
                    file.write(line)
                    counts[entity.name] += 1
        os.replace(unfinished, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
    return counts


def _exists(path: Path) -> bool:
    try:
        path.parent.lstat()  # unlike exists(), lstat() says what is wrong with a name
        with contextlib.suppress(FileNotFoundError):
            path.lstat()
            return True
        return False
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{shown(str(path))} is not the name of a file: {getattr(error, 'strerror', None) or error}.",
            next="Give another name.",
        ) from None


def _opened(path: Path, compressed: bool) -> Any:
    try:
        return gzip.open(path, "wb") if compressed else path.open("wb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(
            f"{str(path.parent)!r} cannot be written to: {reason}.", next="Choose another place."
        ) from None


def _cell(snapshot: Snapshot, entity: Entity, column: str, id: str) -> bytes | None:
    """The bytes of a blob of a row."""
    import pyarrow as pa

    cell = view_of(snapshot[entity.table]).cell(column, ["id"], pa.table({"id": [id]}))
    return None if cell is None else cell.read(0, cell.size)


def _lines(snapshot: Snapshot, entity: Entity, blob: ReadBlob | None = None) -> Iterator[bytes]:
    columns = {p.column: p.name for p in entity.defined.properties}
    keep_id = entity.kind == "edge" or not entity.defined.key
    blobs = [p.column for p in entity.defined.properties if p.type.base == "Blob"]
    for batch in snapshot[entity.table].scan(columns=plain(entity)):
        for row in batch.to_pylist():
            for column in blobs:
                if blob is not None:
                    row[column] = blob(entity, columns[column], row["id"])
                else:
                    row[column] = _cell(snapshot, entity, column, row["id"])
            data = {name: _json(row[column]) for column, name in columns.items() if row[column] is not None}
            line: dict[str, Any]
            if entity.kind == "node":
                line = {"type": entity.name}
            else:
                line = {"edge": entity.name, "from": row["src"], "to": row["dst"]}
            if keep_id:
                line["id"] = row["id"]
            yield msgspec.json.encode({**line, "data": data}) + b"\n"


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"base64:{base64.b64encode(value).decode()}"
    if isinstance(value, list):
        return [_json(item) for item in value]
    return canonical(value) if isinstance(value, dt.date) else value
