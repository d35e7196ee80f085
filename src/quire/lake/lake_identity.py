"""A lake that went away: what tells a handle that its address leads to something else by now.

On a local disk every commit, and every look for news, proves that the log is the one that was read (`Store.create` with
`follows`, `Store.confirm`). An object store cannot be asked that without another request; there it shows as a record
that does not follow the last one that was read.
"""

from __future__ import annotations

from quire.errors import CorruptRecord, LakeLost, QuireError
from quire.lake.context import Core
from quire.lake.format_file import FORMAT_KEY
from quire.ledger import FormatFile, Line, State, decode


def told(core: Core, line: Line, seen: State, error: CorruptRecord) -> QuireError:
    """Why the log does not go on from a state that was read from it: the lake is another one, or the log is damaged."""
    reason = _reason(core, line, seen)
    if reason is None:
        return error
    return LakeLost(
        f"The lake at {core.store.uri} is gone since it was opened: {reason}.",
        next="Open it again, check what it holds (`quire log`), and run the work again.",
        uri=core.store.uri,
        reason=reason,
    )


def _reason(core: Core, line: Line, seen: State) -> str | None:
    body = core.store.get_or_none(FORMAT_KEY)
    if body is None:
        return f"{FORMAT_KEY} is gone"
    try:
        about = decode(body, FormatFile, FORMAT_KEY)
        [record] = core.ledger.read(line.owner(seen.slot), [seen.slot])
    except CorruptRecord:
        return None
    if about.lake != core.about.lake:
        return "another lake is at its address"
    if record is None or record.write != seen.write:
        return "another copy of it, with another log, is at its address"
    return None
