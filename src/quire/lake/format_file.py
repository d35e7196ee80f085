"""The file that makes a place a lake: `_quire/format.json`, written last and never again.

A lake that has lost it is a damaged lake. It is not taken for an empty place: a new lake there would not see the tables
that are there, and its cleanup would delete them.
"""

from __future__ import annotations

from quire.errors import CorruptRecord, FormatError, LakeNotFound, QuireError, StorageError
from quire.ledger import Record, decode
from quire.store import Store

FORMAT_KEY = "_quire/format.json"
_FIRST_SLOT = f"{0:020}"
_ROWS = "_quire/__manifest.lance/data"


def holds_commits(store: Store) -> bool:
    """Whether a ledger lies here that somebody has committed to. What a crash left of `create` holds none."""
    if any(not entry.key.endswith(f"/{_FIRST_SLOT}") for entry in store.list("_quire/log")):
        return True
    return any(True for _ in store.list(_ROWS)) and _rows_hold_commits(store)


def _rows_hold_commits(store: Store) -> bool:
    from quire.ledger.manifest.ledger import ManifestLedger

    try:
        return any(decode(body, Record, where).slot > 0 for where, body in ManifestLedger(store).bodies())
    except FormatError:
        return True  # whatever it is, nobody made it just now


def no_lake(store: Store) -> QuireError:
    """What is wrong with a place that has no format file."""
    try:
        damaged = holds_commits(store)
    except StorageError:  # whoever may read objects may not be allowed to list them
        damaged = False
    if damaged:
        return without_format(store)
    return LakeNotFound(
        f"There is no lake at {store.uri}.",
        next="Check the address, or create a lake with quire.create (`quire init`).",
        uri=store.uri,
    )


def without_format(store: Store) -> CorruptRecord:
    return CorruptRecord(
        f"The lake at {store.uri} has lost {FORMAT_KEY}, so it cannot be opened. Its commits are still there.",
        next=f"Restore {FORMAT_KEY} from a backup or another copy of the lake; it has never changed since the lake was "
        "created. Do not create another lake there.",
        key=FORMAT_KEY,
    )
