"""Checkpoints for clients of Delta: the whole state of a published version in one file, so that a long log opens fast.

Quire itself does not read them. They are written for published versions only, after versions were published, and a
table whose features ask for checkpoints of version 2 gets such ones. Which files were removed lately is not in them:
those who delete files of a lake's tables are told by the lake.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import StorageError
from quire.formats.delta.files.parquet import file_of_records
from quire.formats.delta.log.actions import Action, name_by_content
from quire.formats.delta.log.names import LOG
from quire.formats.delta.log.state import State, everything
from quire.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

EVERY = 32
"""Versions after which there is another one: so many commits a client reads at most beside it."""
LAST = f"{LOG}/_last_checkpoint"
V2 = "v2Checkpoint"


def is_due(before: int, now: int) -> bool:
    """Whether a multiple came since the newest version that was published before."""
    return now // EVERY > max(before, 0) // EVERY


def write(store: Store, state: State) -> None:
    """Write a checkpoint of a published version. One that cannot be written now is written later."""
    rows = list(_rows(state))
    body = file_of_records(rows, _schema(V2 in state.protocol.features))
    stem = f"{LOG}/{state.version:020d}.checkpoint"
    path = f"{stem}.{name_by_content(body)}.parquet" if V2 in state.protocol.features else f"{stem}.parquet"
    told = {"version": state.version, "size": len(rows), "sizeInBytes": len(body), "numOfAddFiles": len(state.files)}
    with contextlib.suppress(StorageError):
        store.put(path, body)
        store.put(LAST, msgspec.json.encode(told))


def _rows(state: State) -> Iterator[Action]:
    if V2 in state.protocol.features:
        yield {"checkpointMetadata": {"version": state.version}}
    for action in everything(state):
        yield {kind: _maps(told) for kind, told in action.items()}


def _maps(value: Any) -> Any:
    """An action as Arrow takes it: objects with free names as lists of pairs."""
    found = dict(value)
    for name in ("partitionValues", "configuration"):
        if isinstance(found.get(name), dict):
            found[name] = list(found[name].items())
    if "format" in found:
        found["format"] = {**found["format"], "options": list(found["format"].get("options", {}).items())}
    return found


def _schema(version_2: bool) -> pa.Schema:
    import pyarrow as pa

    text, number, small = pa.string(), pa.int64(), pa.int32()
    texts, mapped = pa.list_(text), pa.map_(text, text)

    def part(name: str, /, **fields: Any) -> pa.Field:
        return pa.field(name, pa.struct([pa.field(n, t) for n, t in fields.items()]))

    vector = part(
        "deletionVector", storageType=text, pathOrInlineDv=text, offset=small, sizeInBytes=small, cardinality=number
    ).type
    layout = part("format", provider=text, options=mapped).type
    parts = [
        part("txn", appId=text, version=number, lastUpdated=number),
        part(
            "add",
            path=text,
            partitionValues=mapped,
            size=number,
            modificationTime=number,
            dataChange=pa.bool_(),
            stats=text,
            deletionVector=vector,
        ),
        part("remove", path=text, deletionTimestamp=number, dataChange=pa.bool_()),
        part(
            "metaData",
            id=text,
            name=text,
            description=text,
            format=layout,
            schemaString=text,
            partitionColumns=texts,
            configuration=mapped,
            createdTime=number,
        ),
        part("protocol", minReaderVersion=small, minWriterVersion=small, readerFeatures=texts, writerFeatures=texts),
        part("domainMetadata", domain=text, configuration=text, removed=pa.bool_()),
    ]
    if version_2:
        parts.append(part("checkpointMetadata", version=number))
    return pa.schema(parts)
