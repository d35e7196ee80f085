"""What whoever holds some credentials could do to a table past the lake, found out by trying with files of no meaning.

    rights = tried(Store.open(lake.uri, told_to_clients), "tables/0a1b.lance")
    rights.deletes                     # it can destroy versions that commits rest on

What is written is removed again, as far as the credentials or those of the lake allow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from quire.errors import PermissionDenied, QuireError
from quire.store import clock
from quire.store.create_probe import FOLDER
from quire.store.store import Store


@dataclass(frozen=True)
class ClientRights:
    """What credentials allow below the folder of a table, and in the records of the lake."""

    stages: bool
    """Put files that nobody sees before they are published: what a client of a namespace needs to write."""
    moves: bool
    """Put versions that plain readers see: a commit past the lake."""
    deletes: bool
    """Remove files: also those of versions that commits rest on."""
    records: bool
    """Put or remove records of the lake: all of it can be lost."""


def tried(theirs: Store, folder: str, ours: Store | None = None) -> ClientRights:
    """Try each of it once. `ours` removes what they may not remove."""
    name = f"quire-doctor-{clock.token(16)}"
    data, version = f"{folder}/data/{name}", f"{folder}/_versions/{name}.manifest"
    record = f"{FOLDER}/{name}"
    try:
        stages = _may(lambda: theirs.put(data, b""))
        moves = _may(lambda: theirs.put(version, b""))
        records = _may(lambda: theirs.put(record, b""))
        if theirs.is_local:  # where a file that is not there may be removed by anybody
            deletes = stages
        else:
            deletes = _may(lambda: theirs.delete(data))
            records = _may(lambda: theirs.delete(record)) or records
        return ClientRights(stages, moves, deletes, records)
    finally:
        for store in (theirs, *((ours,) if ours is not None else ())):
            for key in (data, version, record):
                with contextlib.suppress(QuireError):
                    store.delete(key)


def _may(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except PermissionDenied:
        return False
    return True
