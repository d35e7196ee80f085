"""Whether files of a Delta table hold what the states that need them say."""

from __future__ import annotations

import zlib

from quire.errors import QuireError
from quire.formats import Claim
from quire.formats.delta.files.parquet import batches
from quire.formats.delta.log.actions import decode, name_by_content
from quire.formats.delta.log.names import STATES
from quire.store import Store

LOGGED, ROWS = 0, 1
"""What is said of a file: that it is a part of the log, or how many rows it has."""
NAMED = (LOGGED, 1)
"""Of a commit that a client has staged: its name does not follow from its content."""


def unlike(store: Store, path: str, claim: Claim) -> str | None:
    """In what a file is not what was said of it, or None."""
    try:
        body = store.get(path)
        return _rows(body, claim[1]) if claim[0] == ROWS else _logged(body, path, by_content=len(claim) == 1)
    except QuireError as error:
        return error.message


def _logged(body: bytes, path: str, *, by_content: bool) -> str | None:
    if path.endswith(".follows"):
        return None  # the state that is read by it is compared as a whole
    if path.startswith(f"{STATES}/"):
        try:
            body = zlib.decompress(body, wbits=zlib.MAX_WBITS | 16)
        except zlib.error as error:
            return f"It is damaged ({error})."
        decode(body, path)
        return None
    decode(body, path)
    named = path.rsplit("/", 1)[1].split(".")
    if by_content and len(named) == 3 and name_by_content(body) != named[1]:
        return "It is not what was staged: its name does not fit its content."
    return None


def _rows(body: bytes, rows: int) -> str | None:
    import pyarrow as pa

    try:
        found = sum(batch.num_rows for batch in batches(pa.BufferReader(body)))
    except (pa.ArrowException, OSError) as error:
        return f"It cannot be read ({str(error).splitlines()[0]})."
    return None if found == rows else f"It has {found} rows instead of {rows}."
