"""The two ways in which a Delta table says that its commits are made through an owner.

`catalogManaged` is the feature of the Delta protocol: readers and writers ask the owner, and clients that only know the
folder refuse the table. `managedCommit` is the older proposal: writers must ask the owner, and readers of the folder
see what has been backfilled.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from quire.errors import FormatError, InvalidInput
from quire.formats.delta.log.state import TIMES, VECTORS, Metadata, Protocol, State

Dialect = Literal["catalogManaged", "managedCommit"]
DIALECTS: tuple[Dialect, ...] = ("catalogManaged", "managedCommit")
TABLE_ID = "io.unitycatalog.tableId"
OWNER = "delta.managedCommit.commitOwner"
OWNER_CONF = "delta.managedCommit.commitOwnerConf"
OURS = "quire"
TIMES_SINCE = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
_IMPLIED = ("appendOnly", "invariants")
"""What every table of writer version 2 may use, as names of features."""
_OWNERS = (TABLE_ID, OWNER, OWNER_CONF)
_READ = {"catalogManaged": ("catalogManaged", "vacuumProtocolCheck", "deletionVectors"), "managedCommit": ()}
_WRITE = {
    "catalogManaged": ("catalogManaged", "vacuumProtocolCheck", "deletionVectors", "inCommitTimestamp"),
    "managedCommit": ("managedCommit", "inCommitTimestamp"),
}


def chosen(name: Any) -> Dialect:
    """A dialect that somebody asked for."""
    for dialect in DIALECTS:
        if name == dialect:
            return dialect
    raise InvalidInput(f"{name!r} is no dialect of Delta tables.", next=f"Use one of {', '.join(DIALECTS)}.")


def protocol_of(dialect: Dialect) -> Protocol:
    """The protocol of a new table. Rows are deleted by vectors where every client that may read it knows them."""
    if dialect == "managedCommit":
        return Protocol(1, 7, None, _WRITE[dialect])
    return Protocol(3, 7, _READ[dialect], _WRITE[dialect])


def configured(metadata: Metadata, dialect: Dialect, lake: str) -> Metadata:
    """The metadata of a table whose commits the lake owns."""
    settings: dict[str, str] = {**metadata.configuration, TIMES: "true"}
    if dialect == "catalogManaged":
        settings |= {TABLE_ID: metadata.id, VECTORS: "true"}
    else:
        conf = msgspec.json.encode({"lake": lake}).decode()
        settings |= {OWNER: OURS, OWNER_CONF: conf}
    return msgspec.structs.replace(metadata, configuration=settings)


def dialect_of(state: State, table: str = "") -> Dialect | None:
    """Through what the commits of a table are made; None for a plain table."""
    features, settings = state.protocol.features, state.metadata.configuration
    managed = "managedCommit" in features
    if managed != (OWNER in settings):
        what = "the feature managedCommit" if managed else f"the property {OWNER}"
        raise FormatError(
            f"Delta table {table!r} has {what}, but not {f'the property {OWNER}' if managed else 'the feature'}.",
            next="Neither readers nor writers can trust it: restore the table, or set both.",
            table=table,
        )
    if managed:
        return "managedCommit"
    return "catalogManaged" if "catalogManaged" in features else None


def folder_of(state: State) -> str:
    """The kind of name that staged commits of the table have."""
    return "c" if dialect_of(state) == "managedCommit" else "s"


def owned(state: State, dialect: Dialect, lake: str, *, since: int) -> State:
    """A plain table as it is when the lake owns its commits, from the next version on, which is made at `since`."""
    protocol, wanted = state.protocol, protocol_of(dialect)
    known = protocol.writer_features
    written = known if known is not None else _IMPLIED if protocol.min_writer_version > 1 else ()
    reads = (*(protocol.reader_features or ()), *(wanted.reader_features or ()))
    writes = tuple(dict.fromkeys((*written, *(wanted.writer_features or ()))))
    reader = 3 if reads else protocol.min_reader_version
    features = tuple(dict.fromkeys(reads)) if reader == 3 else None
    metadata = configured(state.metadata, dialect, lake)
    if state.version >= 0 and state.metadata.configuration.get(TIMES) != "true":
        times = dict(zip(TIMES_SINCE, (str(state.version + 1), str(since)), strict=True))
        metadata = msgspec.structs.replace(metadata, configuration={**metadata.configuration, **times})
    return state.change(protocol=Protocol(reader, 7, features, writes), metadata=metadata)


def plain(state: State) -> State:
    """A table of the lake as it is when nobody owns its commits: every client may read and write it.

    Rows that are deleted by vectors are told of in memory, so that their files are written anew.
    """
    gone = {"catalogManaged", "vacuumProtocolCheck", "managedCommit", "inCommitTimestamp", "deletionVectors"}
    protocol, metadata = state.protocol, state.metadata
    settings = {k: v for k, v in metadata.configuration.items() if k not in (*_OWNERS, TIMES, VECTORS, *TIMES_SINCE)}
    reads = tuple(f for f in protocol.reader_features or () if f not in gone)
    writes = tuple(f for f in protocol.writer_features or () if f not in gone)
    if not reads and set(writes) <= set(_IMPLIED):
        after = Protocol(1, 2)
    else:
        after = Protocol(3 if reads else 1, 7, reads if reads else None, tuple(dict.fromkeys((*writes, *reads))))
    return state.change(protocol=after, metadata=msgspec.structs.replace(metadata, configuration=settings))
