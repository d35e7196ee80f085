"""One state of a Delta table: what its log says up to a version, and how two states differ as actions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from quire.errors import FormatError, Unsupported
from quire.formats.delta.files.deletion_vectors import Vector
from quire.formats.delta.files.schema import shown_schema, stored_schema
from quire.formats.delta.log.actions import Action, Commit, only
from quire.formats.row_bitmap import NONE, Marks
from quire.ledger.records import readable

if TYPE_CHECKING:
    import pyarrow as pa

READS = frozenset({"catalogManaged", "vacuumProtocolCheck", "deletionVectors", "timestampNtz", "v2Checkpoint"})
"""Features of tables that Quire reads."""
WRITES = READS | {"inCommitTimestamp", "managedCommit", "appendOnly", "invariants", "domainMetadata"}
"""Features of tables that Quire writes to. Tables that use the last three are refused when they make use of them."""
VECTORS = "delta.enableDeletionVectors"
TIMES = "delta.enableInCommitTimestamps"


class Protocol(msgspec.Struct, frozen=True, rename="camel"):
    """What a client must know to read or write the table."""

    min_reader_version: int = 1
    min_writer_version: int = 2
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @property
    def features(self) -> frozenset[str]:
        return frozenset((*(self.reader_features or ()), *(self.writer_features or ())))

    def action(self) -> Action:
        return {"protocol": {key: value for key, value in msgspec.to_builtins(self).items() if value is not None}}


class Layout(msgspec.Struct, frozen=True):
    provider: str = "parquet"
    options: dict[str, str] = {}


class Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the log says of the table as a whole."""

    id: str
    schema_string: str
    name: str | None = None
    description: str | None = None
    format: Layout = msgspec.field(default_factory=Layout)
    partition_columns: tuple[str, ...] = ()
    configuration: dict[str, str] = {}
    created_time: int | None = None

    def action(self) -> Action:
        told = {"format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {}}
        return {"metaData": {**told, **msgspec.to_builtins(self)}}


readable(Protocol, Metadata, Vector)


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of the table, and which of its rows are gone."""

    path: str
    size: int
    rows: int
    """All of them, with those that are gone."""
    partition: tuple[tuple[str, str | None], ...] = ()
    stats: str | None = None
    modified: int = 0
    vector: Vector | None = None
    """Where the rows that are gone are written down."""
    deleted: Marks | None = field(default=None, compare=False)
    """The same in memory: always there when they were not written down yet."""
    spelled: str = field(default="", compare=False)
    """The path as the log has it, when another client wrote it: clients tell files apart by that text."""

    @property
    def gone(self) -> int:
        if self.deleted is not None:
            return len(self.deleted)
        return self.vector.cardinality if self.vector is not None else 0

    @property
    def alive(self) -> int:
        return self.rows - self.gone

    @property
    def unwritten(self) -> bool:
        """Whether rows are gone of which no file says so."""
        return self.vector is None and self.gone > 0

    def with_deleted(self, rows: Marks) -> DataFile:
        return replace(self, vector=None, deleted=rows) if len(rows) else replace(self, vector=None, deleted=NONE)

    def add(self, *, data_change: bool) -> Action:
        told: dict[str, Any] = {
            "path": self.spelled or quote(self.path),
            "partitionValues": dict(self.partition),
            "size": self.size,
            "modificationTime": self.modified,
            "dataChange": data_change,
        }
        stats = self.stats
        if self.vector is not None and stats is not None:
            loose = msgspec.json.decode(stats)
            stats = msgspec.json.encode({**loose, "tightBounds": False}).decode()
        if stats is not None:
            told["stats"] = stats
        if self.vector is not None:
            told["deletionVector"] = msgspec.to_builtins(self.vector)
        return {"add": told}

    def remove(self, when: int, *, data_change: bool) -> Action:
        told: dict[str, Any] = {
            "path": self.spelled or quote(self.path),
            "deletionTimestamp": when,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": dict(self.partition),
            "size": self.size,
        }
        if self.vector is not None:
            told["deletionVector"] = msgspec.to_builtins(self.vector)
        return {"remove": told}


@dataclass(frozen=True)
class State:
    """Everything that the log says, up to one version. Immutable."""

    version: int
    protocol: Protocol
    metadata: Metadata
    files: tuple[DataFile, ...] = ()
    time: int = 0
    """The in-commit timestamp of the version, in milliseconds."""
    transactions: Mapping[str, Action] = field(default_factory=dict)
    domains: Mapping[str, Action] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns as Quire shows them."""
        return shown_schema(self.metadata.schema_string)

    @property
    def stored(self) -> pa.Schema:
        """The columns in the types in which files hold them, those of the partition too."""
        return stored_schema(self.metadata.schema_string)

    @property
    def partition(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @cached_property
    def by_path(self) -> dict[str, DataFile]:
        return {f.path: f for f in self.files}

    @property
    def rows(self) -> int:
        return sum(f.alive for f in self.files)

    @property
    def bytes(self) -> int:
        return sum(f.size for f in self.files)

    @property
    def marks_rows(self) -> bool:
        """Whether rows are deleted by marks; otherwise their files are written anew."""
        on = self.metadata.configuration.get(VECTORS) == "true"
        return on and "deletionVectors" in self.protocol.features

    def change(self, **parts: Any) -> State:
        """This state with some parts changed. Files without a row are left out."""
        if "files" in parts:
            parts["files"] = tuple(f for f in parts["files"] if f.alive)
        return replace(self, **parts)


EMPTY = State(-1, Protocol(), Metadata("", '{"type":"struct","fields":[]}'))
"""Before the first commit."""


def replay(state: State, commits: Iterable[Commit], path: str) -> State:
    """The state after some commits, one version each."""
    files = dict(state.by_path)
    transactions, domains = dict(state.transactions), dict(state.domains)
    protocol, metadata, time_, version = state.protocol, state.metadata, state.time, state.version
    try:
        for commit in commits:
            version, time_ = version + 1, commit.time
            gone: set[str] = set()
            for action in commit.actions:
                for kind, told in action.items():
                    if kind == "remove":
                        _remove(files, told, gone)
                    elif kind == "protocol":
                        protocol = msgspec.convert(told, Protocol)
                    elif kind == "metaData":
                        metadata = msgspec.convert(told, Metadata)
                    elif kind == "txn":
                        transactions[told["appId"]] = action
                    elif kind == "domainMetadata":
                        domains[told["domain"]] = action
            # A file that is removed with one deletion vector and added with another keeps its place.
            for told in only(commit.actions, "add"):
                added = file_of(told)
                files[added.path] = added
                gone.discard(added.path)
            for path in gone:
                del files[path]
    except (msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path} is no commit of a Delta table ({error}).", next="Restore it from a copy.") from None
    return State(version, protocol, metadata, tuple(files.values()), time_, transactions, domains)


def _remove(files: Mapping[str, DataFile], told: Mapping[str, Any], gone: set[str]) -> None:
    path = unquote(told["path"])
    there = files.get(path)
    if there is None:
        return
    vector = told.get("deletionVector")
    mine = None if vector is None else msgspec.convert(vector, Vector).id
    if mine == (there.vector.id if there.vector is not None else None):
        gone.add(path)


def file_of(told: Mapping[str, Any]) -> DataFile:
    """A file as an `add` tells of it."""
    vector = told.get("deletionVector")
    stats = told.get("stats")
    rows = msgspec.json.decode(stats).get("numRecords") if stats else None
    return DataFile(
        path=unquote(told["path"]),
        spelled=told["path"],
        size=told["size"],
        rows=-1 if rows is None else rows,
        partition=tuple((told.get("partitionValues") or {}).items()),
        stats=stats,
        modified=told.get("modificationTime", 0),
        vector=None if vector is None else msgspec.convert(vector, Vector),
    )


def differences(before: State, after: State, *, when: int, rearranged: bool = False) -> Iterator[Action]:
    """The actions that lead from one state to another; `rearranged` says that no row differs."""
    if after.protocol != before.protocol:
        yield after.protocol.action()
    if after.metadata != before.metadata:
        yield after.metadata.action()
    for file in before.files:
        there = after.by_path.get(file.path)
        if there is None or there.vector != file.vector:
            yield file.remove(when, data_change=not rearranged)
    for file in after.files:
        there = before.by_path.get(file.path)
        if there is None or there.vector != file.vector:
            yield file.add(data_change=not rearranged)


def everything(state: State) -> list[Action]:
    """The whole state as actions."""
    return [
        state.protocol.action(),
        state.metadata.action(),
        *state.transactions.values(),
        *state.domains.values(),
        *(f.add(data_change=False) for f in state.files),
    ]


def check_readable(state: State, location: str) -> State:
    """The state, if this version of Quire knows all that a reader must know of it."""
    protocol = state.protocol
    unknown = sorted(set(protocol.reader_features or ()) - READS)
    if protocol.min_reader_version > 3 or unknown:
        raise _unsupported(location, unknown, f"reader version {protocol.min_reader_version}")
    if state.metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
        raise _unsupported(location, ["columnMapping"], "")
    return state


def check_writable(state: State, location: str) -> None:
    """Refuse what this version of Quire does not know how to write."""
    protocol = state.protocol
    unknown = sorted(set(protocol.writer_features or ()) - WRITES)
    if protocol.min_writer_version > 7 or unknown or 2 < protocol.min_writer_version < 7:
        raise _unsupported(location, unknown, f"writer version {protocol.min_writer_version}")
    if state.metadata.configuration.get("delta.appendOnly") == "true":
        raise _unsupported(location, ["appendOnly"], "")
    if any(marker in state.metadata.schema_string for marker in ("delta.invariants", "delta.generationExpression")):
        raise _unsupported(location, ["invariants"], "")


def _unsupported(location: str, features: Sequence[str], version: str) -> Unsupported:
    what = f"the features {', '.join(features)}" if features else version
    return Unsupported(
        f"The Delta table at {location} uses {what}, which this version of Quire does not support.",
        next="Drop them with the client that added them, or upgrade Quire.",
        features=list(features),
    )


def now() -> int:
    """Milliseconds, as Delta counts time."""
    return int(time.time() * 1000)
