"""The Delta tables of a lake as a Unity Catalog describes them: what its clients are told, as values for JSON.

A view shows one state: the newest, one commit, or what a transaction began with. Versions of a transaction that is open
are in no list, because clients publish what they find in one.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from quire.delta.commit_owner import CommitOwner, OwnedTable
from quire.errors import Conflict, InvalidInput, NotFound, ReadOnly, TableExists, Unsupported
from quire.formats import OwnedCommit
from quire.lake import Lake, Snapshot, Transaction
from quire.lake.commit.table_change import Edit
from quire.lake.handles import state_of
from quire.lake.names import check_table
from quire.ledger import Pin, TableInfo, TableState
from quire.store import run_parallel

SCHEMA = "default"
"""The one schema of the catalog that a lake is."""
TABLE_ID = "io.unitycatalog.tableId"
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class Catalog:
    """One view of a lake."""

    lake: Lake
    at: Snapshot | Transaction
    fixed: bool = False
    """Whether it shows one commit for ever."""

    @property
    def _format(self) -> Any:
        return self.lake._core.format("delta")

    def names(self) -> list[str]:
        """The tables that clients of a catalog can open."""
        found = (t for t in state_of(self.at).tables.values() if self._is_shown(t))
        return sorted(t.info.name for t in found)

    def _is_shown(self, table: TableState) -> bool:
        return table.pin.format == "delta" and self._format.dialect(table.pin) == "catalogManaged"

    def _table(self, schema: str, name: str) -> TableState:
        found = state_of(self.at).by_name(name) if schema == SCHEMA else None
        if found is None or not self._is_shown(found):
            raise NotFound(
                f"There is no catalog-managed Delta table {name!r} in schema {schema!r}.",
                next=f"The schema is {SCHEMA!r}; tables of other kinds are read through the lake.",
                table=name,
            )
        return found

    # -- the catalog --------------------------------------------------------------------------------------------

    def schema(self, catalog: str) -> dict[str, Any]:
        return {"name": SCHEMA, "catalog_name": catalog, "full_name": f"{catalog}.{SCHEMA}"}

    def listed(self, catalog: str, name: str) -> dict[str, Any]:
        """A table in the words of the older interface of the catalog."""
        table = self._table(SCHEMA, name)
        told = self._format.described(table.pin)
        fields = json.loads(told["metaData"]["schemaString"])["fields"]
        return {
            "name": name,
            "catalog_name": catalog,
            "schema_name": SCHEMA,
            "table_type": "MANAGED",
            "data_source_format": "DELTA",
            "columns": [_column(field, number) for number, field in enumerate(fields)],
            "storage_location": _address(told["address"]),
            "properties": _properties(told),
            "table_id": _table_id(told),
            "created_at": told["metaData"].get("createdTime"),
            "updated_at": told["time"],
        }

    def loaded(self, schema: str, name: str) -> dict[str, Any]:
        """A table with the versions that are ratified and not published yet, the newest first."""
        table = self._table(schema, name)
        told = self._format.described(table.pin)
        meta = told["metaData"]
        if not (self.fixed or self.lake.read_only):
            self._format.make_room(table.pin)  # some clients expect the folder in which they stage
        waiting = self._format.unpublished(table.pin)
        return {
            "metadata": {
                "etag": _etag(told),
                "table-type": "MANAGED",
                "data-source-format": "DELTA",
                "table-uuid": _table_id(told),
                "location": _address(told["address"]),
                "created-time": meta.get("createdTime") or 0,
                "updated-time": told["time"],
                "columns": _hyphened(json.loads(meta["schemaString"])),
                "partition-columns": list(meta.get("partitionColumns", ())),
                "properties": _properties(told),
                "last-commit-version": told["version"],
                "last-commit-timestamp-ms": told["time"],
            },
            "commits": [_commit(one) for one in reversed(waiting)],
            "latest-table-version": told["version"],
        }

    # -- writing --------------------------------------------------------------------------------------------------

    def update(self, schema: str, name: str, wanted: Mapping[str, Any]) -> None:
        """Ratify what a client has staged. What it notes about published versions the owner sees for itself."""
        if self.fixed:
            raise ReadOnly("This address shows one commit.", next="Write below the address without /at/.")
        table = self._table(schema, name)
        check = partial(self._require, table, wanted.get("requirements") or [])
        done = False
        for update in wanted.get("updates") or []:
            action = update.get("action")
            if action == "add-commit":
                self._add(name, update.get("commit") or {}, check)
                done = True
            elif action not in ("set-latest-backfilled-version", *_TOLD_BY_COMMIT):
                raise Unsupported(f"{action!r} is no update that this catalog knows.", next="Commit it to the table.")
            elif action in _TOLD_BY_COMMIT and not done and not _has_commit(wanted):
                raise Unsupported(
                    f"{action!r} without a commit of the table changes nothing here: the log of the table says it.",
                    next="Send it with the commit that does it.",
                )
        if not done:
            check()

    def _add(self, name: str, commit: Mapping[str, Any], check: Any) -> None:
        version, file = commit.get("version"), commit.get("file-name")
        if not isinstance(version, int) or not isinstance(file, str):
            raise InvalidInput("A commit needs a version and a file-name.", next="Send both.")
        owned: OwnedTable = CommitOwner(self.lake).table(name)
        if isinstance(self.at, Transaction):
            check()
            owned.stage_into(self.at, version, file)
        else:
            owned.commit_staged(version, file, check=check)

    def _require(self, table: TableState, requirements: Any) -> None:
        told = self._format.described(table.pin)
        for one in requirements:
            kind = one.get("type")
            if kind == "assert-table-uuid" and one.get("uuid") != _table_id(told):
                raise Conflict(f"Table {table.info.name!r} is another table now.", next="Load it again.")
            if kind == "assert-etag" and one.get("etag") != _etag(told):
                raise Conflict(f"The columns or settings of table {table.info.name!r} changed.", next="Load it again.")

    def staged(self, schema: str, name: str) -> dict[str, Any]:
        """A place for a new table, which is nobody's until it is created."""
        self._check_free(schema, name)
        table = str(uuid.uuid4())
        reads, writes = ("catalogManaged", "vacuumProtocolCheck", "deletionVectors"), ("inCommitTimestamp",)
        protocol = {"min-reader-version": 3, "min-writer-version": 7}
        features = {"reader-features": list(reads), "writer-features": [*reads, *writes]}
        return {
            "table-id": table,
            "table-type": "MANAGED",
            "location": _address(self.lake._core.store.reach.address(_location(_short(table)))),
            "storage-credentials": [],
            "required-protocol": {**protocol, **features},
            "suggested-protocol": {**protocol, **features},
            "required-properties": {"delta.enableInCommitTimestamps": "true", TABLE_ID: table},
            "suggested-properties": {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "false"},
        }

    def create(self, schema: str, wanted: Mapping[str, Any]) -> None:
        """Commit a table whose first version a client has written where it was told to. The same again is the same."""
        name, location = wanted.get("name"), wanted.get("location")
        if not isinstance(name, str) or not isinstance(location, str):
            raise InvalidInput("A table needs a name and a location.", next="Send both.")
        found = _PLACE.search(location)
        address = "" if found is None else self.lake._core.store.reach.address(_location(found[1]))
        if found is None or location.removesuffix("/") not in (address, _address(address)):
            raise InvalidInput(
                "The location of a new table is not one that was given out.", next="Ask for one: POST staging-tables."
            )
        there = state_of(self.at).by_name(name)
        if there is not None and there.info.id == found[1]:
            return
        self._check_free(schema, name)
        pin = self._format.created(_location(found[1]), name)
        if isinstance(self.at, Transaction):
            self._create(self.at, name, found[1], pin)
            return
        with self.lake.transaction(f"create {name}", fresh=True) as tx:
            self._create(tx, name, found[1], pin)

    def _create(self, tx: Transaction, name: str, id: str, pin: Pin) -> None:
        if name in tx or id in tx.edits:
            raise _exists(name)
        tx.edits[id] = Edit(TableInfo(id=id, name=check_table(name)), None, ops=["create"], pin=pin)

    def _check_free(self, schema: str, name: str) -> None:
        if schema != SCHEMA:
            raise NotFound(f"There is no schema {schema!r}.", next=f"The schema is {SCHEMA!r}.")
        if self.fixed:
            raise ReadOnly("This address shows one commit.", next="Create it below the address without /at/.")
        if state_of(self.at).by_name(check_table(name)) is not None:
            raise _exists(name)

    def drop(self, name: str) -> None:
        """Drop a table; its files stay until cleanup."""
        if self.fixed:
            raise ReadOnly("This address shows one commit.", next="Drop it below the address without /at/.")
        self._table(SCHEMA, name)
        if isinstance(self.at, Transaction):
            self.at.drop_table(name)
            return
        with self.lake.transaction(f"drop {name}") as tx:
            tx.drop_table(name)

    def every(self, catalog: str) -> list[dict[str, Any]]:
        return run_parallel([partial(self.listed, catalog, name) for name in self.names()])


_PLACE = re.compile(r"/tables/([0-9a-f]{16})\.delta/?$")


def _short(table: str) -> str:
    """The id of a table in the lake, from its id in the catalog."""
    return table.replace("-", "")[:16]


def _location(id: str) -> str:
    return f"tables/{id}.delta"


def _exists(name: str) -> TableExists:
    return TableExists(f"There is a table {name!r} already.", next="Choose another name.", table=name)


_TOLD_BY_COMMIT = (
    "set-properties",
    "remove-properties",
    "set-protocol",
    "set-columns",
    "set-partition-columns",
    "set-table-comment",
    "set-domain-metadata",
    "remove-domain-metadata",
)
"""What a client tells of a commit that it has staged: the commit says it too, and is what counts."""


def _has_commit(wanted: Mapping[str, Any]) -> bool:
    return any(update.get("action") == "add-commit" for update in wanted.get("updates") or [])


def _commit(one: OwnedCommit) -> dict[str, Any]:
    return {
        "version": one.version,
        "timestamp": one.timestamp,
        "file-name": one.path.rsplit("/", 1)[1],
        "file-size": one.size,
        "file-modification-timestamp": one.timestamp,
    }


def _etag(told: Mapping[str, Any]) -> str:
    """The same until columns, settings or the protocol change: a client that only adds rows is in nobody's way."""
    body = json.dumps([told["metaData"], told["protocol"]], sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()[:32]


def _table_id(told: Mapping[str, Any]) -> str:
    """What the catalog knows the table by. Clients that create one note it, and give the table itself another."""
    meta = told["metaData"]
    return str(meta.get("configuration", {}).get(TABLE_ID, meta["id"]))


def _address(location: str) -> str:
    return location if "://" in location else f"file://{location}"


def _properties(told: Mapping[str, Any]) -> dict[str, str]:
    protocol = told["protocol"]
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    return {
        **told["metaData"].get("configuration", {}),
        TABLE_ID: _table_id(told),
        "delta.minReaderVersion": str(protocol["minReaderVersion"]),
        "delta.minWriterVersion": str(protocol["minWriterVersion"]),
        **{f"delta.feature.{name}": "supported" for name in sorted(features)},
    }


def _hyphened(kind: Any) -> Any:
    """A type of the log in the words of the catalog: `element-type` for `elementType`."""
    if isinstance(kind, list):
        return [_hyphened(one) for one in kind]
    if not isinstance(kind, dict):
        return kind
    if "name" in kind and "type" in kind and "fields" not in kind:
        return {**kind, "type": _hyphened(kind["type"])}
    return {_WORDS.sub("-", key).lower(): _hyphened(value) for key, value in kind.items()}


_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


def _column(field: Mapping[str, Any], number: int) -> dict[str, Any]:
    text = _text(field["type"])
    return {
        "name": field["name"],
        "type_text": text,
        "type_name": _NAMES.get(text, text).split("(")[0].split("<")[0].upper().replace("BIGINT", "LONG"),
        "type_json": json.dumps(field),
        "position": number,
        "nullable": field["nullable"],
    }


def _text(kind: Any) -> str:
    """A type as SQL writes it."""
    if isinstance(kind, str):
        return _NAMES.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_text(kind['keyType'])},{_text(kind['valueType'])}>"
    fields = (f"{field['name']}:{_text(field['type'])}" for field in kind["fields"])
    return f"struct<{','.join(fields)}>"
