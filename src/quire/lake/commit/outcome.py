"""What became of a commit whose outcome the store did not report: one read of its slot tells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from quire.errors import CommitUnknown, InvalidInput
from quire.lake.branch import branches
from quire.lake.commit.transaction import Transaction
from quire.ledger.protocol import settled
from quire.store import Outcome

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.context import Core

MOST_SLOTS = 1_000
"""How many slots may hold a commit whose outcome is unknown, at most."""


def outcome(core: Core, live: LiveBranch, unsettled: CommitUnknown | Transaction | str) -> Outcome:
    """See `Lake.outcome`."""
    told: dict[str, Any] = {}
    if isinstance(unsettled, str):
        told = _parse_unknown(unsettled)
    elif isinstance(unsettled, Transaction):
        told = {
            "log": unsettled.live.line.branch,
            "slot": unsettled.slot,
            "until": unsettled.until,
            "write": unsettled.write,
        }
    else:
        told = unsettled.fields
    log, slot, write = (told.get(name) for name in ("log", "slot", "write"))
    if slot is None or write is None:
        raise InvalidInput(
            "This error names no slot of a log, so there is no commit to look for.",
            next="For a branch or a tag, list them; for a transaction, read its status.",
        )
    if log is None:
        log = branches.line_of(core, told.get("branch") or live.name).owner(slot)
    return settled(core.ledger, log, slot, told.get("until"), write)


def _parse_unknown(token: str) -> dict[str, Any]:
    """The commit that the token of a `CommitUnknown` names."""
    parts = re.fullmatch(r"([0-9A-Za-z_-]{1,64})/([0-9]{1,18})(?:-([0-9]{1,18}))?/([0-9A-Za-z_-]{1,64})", token)
    if parts is None or (parts[3] is not None and not 0 <= int(parts[3]) - int(parts[2]) <= MOST_SLOTS):
        raise InvalidInput(
            f"{token!r} is not the token of a commit with an unknown outcome.", next="Pass error.token unchanged."
        )
    until = int(parts[3]) if parts[3] is not None else None
    return {"log": parts[1], "slot": int(parts[2]), "until": until, "write": parts[4]}
