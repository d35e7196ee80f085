"""What a namespace holds beside tables: namespaces with properties, and tables that are declared but have no version.

They are rows of an ordinary table of the lake, so that they change in the same commits as tables do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.lake.upkeep.cleanup.declared import DECLARED, DIRECTORY, KIND, NAME, TABLE
from quire.lance.identifiers import SEPARATOR, Parts

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake import Snapshot, Transaction

PROPERTIES = "properties"
NAMESPACE = "namespace"


@dataclass(frozen=True)
class Directory:
    """The namespaces and declared tables of one state."""

    namespaces: Mapping[Parts, dict[str, str]] = field(default_factory=dict)
    declared: Mapping[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    """By name: the id that the table will have, and its properties."""

    @staticmethod
    def of(state: Snapshot | Transaction) -> Directory:
        if DIRECTORY not in state:
            return Directory()
        rows: list[dict[str, Any]] = state[DIRECTORY].to_arrow().to_pylist()
        found = Directory({}, {})
        for row in rows:
            told = json.loads(row[PROPERTIES] or "{}")
            if row[KIND] == NAMESPACE:
                found.namespaces[tuple(row[NAME].split(SEPARATOR))] = told  # type: ignore[index]
            elif row[KIND] == DECLARED:
                found.declared[row[NAME]] = (row[TABLE], told)  # type: ignore[index]
        return found


def schema() -> pa.Schema:
    import pyarrow as pa

    columns = [pa.field(name, pa.string(), nullable=False) for name in (KIND, NAME)]
    return pa.schema([*columns, pa.field(TABLE, pa.string()), pa.field(PROPERTIES, pa.string())])


def add(tx: Transaction, kind: str, name: str, properties: Mapping[str, str] | None, table: str | None = None) -> None:
    """Insert a namespace or a declared table; a `KeyConflict` if it is there."""
    if DIRECTORY not in tx:
        tx.create_table(DIRECTORY, schema=schema(), key=(KIND, NAME))
    row = {KIND: kind, NAME: name, TABLE: table, PROPERTIES: json.dumps(dict(properties or {}), sort_keys=True)}
    tx[DIRECTORY].insert([row])


def replace(tx: Transaction, name: str, properties: Mapping[str, str] | None) -> None:
    """Give a namespace other properties."""
    row = {KIND: NAMESPACE, NAME: name, TABLE: None, PROPERTIES: json.dumps(dict(properties or {}), sort_keys=True)}
    tx[DIRECTORY].upsert([row])


def remove(tx: Transaction, kind: str, name: str) -> int:
    """Remove a namespace or a declared table; how many there were."""
    if DIRECTORY not in tx:
        return 0
    return tx[DIRECTORY].delete(f"{KIND} = '{kind}' AND {NAME} = '{name}'")
