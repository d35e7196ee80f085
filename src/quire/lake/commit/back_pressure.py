"""Back-pressure: when upkeep lags behind, writers are slowed a little and told why.

Nothing is refused. The delay grows with the excess and is bounded, so that upkeep, which is slowed by nothing, catches
up before reads and opens become slow.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.errors import QuireError
from quire.ledger import CHECKPOINT_EVERY
from quire.store import clock

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.commit.transaction import Transaction

log = logging.getLogger("quire")

LONGEST = 1.0
"""The longest delay of one commit, in seconds."""
TELL_EVERY = 60.0
ROWS = 1 << 20
"""Rows that a fragment may well hold; what is beyond the number of fragments needed for that counts as small."""


@dataclass(frozen=True)
class Bounds:
    """Beyond these writers are slowed."""

    small_fragments: int = 1000
    """Per table: fragments that compaction would do away with."""
    unbackfilled: int = 1000
    """Per table: versions that plain readers do not see yet."""
    uncheckpointed: int = 8 * CHECKPOINT_EVERY
    """Commits after the newest checkpoint."""

    def to_dict(self) -> dict[str, int]:
        return {
            "small_fragments": self.small_fragments,
            "unbackfilled": self.unbackfilled,
            "uncheckpointed": self.uncheckpointed,
        }


BOUNDS = Bounds()


@dataclass(frozen=True)
class Slowed:
    """That a commit was slowed, and why."""

    seconds: float
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"seconds": self.seconds, "reasons": list(self.reasons)}


def small_fragments(rows: int, fragments: int) -> int:
    """How many fragments are more than the rows need."""
    return max(0, fragments - max(1, -(-rows // ROWS)))


def load(live: LiveBranch, tables: list[str] | None = None) -> dict[str, tuple[int, str]]:
    """The present load by bound: the worst number, and where it is. Costs no request."""
    state = live.state
    worst = {"small_fragments": (0, ""), "unbackfilled": (0, ""), "uncheckpointed": (state.behind, "")}
    for name in tables if tables is not None else list(state.tables):
        table = state.tables.get(name)
        if table is None:
            continue
        found = {
            "small_fragments": small_fragments(table.pin.rows, table.pin.fragments),
            "unbackfilled": live.unbackfilled(name),
        }
        for bound, number in found.items():
            if number > worst[bound][0]:
                worst[bound] = (number, table.info.name)
    return worst


def slow_down(tx: Transaction) -> Slowed | None:
    """Before a commit: wait a little when a bound is passed for one of its tables."""
    live = tx.live
    touched = [i for i, edit in tx.edits.items() if edit.changed and "compact" not in edit.ops]
    if not touched:
        return None
    reasons, excess = [], 0.0
    found = load(live, touched)
    if found["unbackfilled"][0] > live.core.bounds.unbackfilled:
        _look_again(live)
        found = load(live, touched)
    for bound, (number, where) in found.items():
        limit = getattr(live.core.bounds, bound)
        if number <= limit:
            continue
        excess = max(excess, number / limit - 1)
        place = f" of table {where!r}" if where else f" of branch {live.name!r}"
        advice = {
            "small_fragments": "run `quire optimize`",
            "unbackfilled": "run `quire recover`",
            "uncheckpointed": "run `quire optimize`",
        }[bound]
        reasons.append(f"{number} {bound.replace('_', ' ')}{place}, more than {limit}: {advice}")
    if not reasons:
        return None
    seconds = min(LONGEST, 0.02 + 0.2 * excess)
    if tx.deadline is not None:
        seconds = max(0.0, min(seconds, (tx.deadline - clock.monotonic()) / 2))
    _tell(live, reasons)
    clock.sleep(seconds)
    return Slowed(seconds, tuple(reasons))


def _look_again(live: LiveBranch) -> None:
    """Somebody else may have backfilled since: ask, but not at every commit."""
    now = clock.monotonic()
    if now - live.looked >= TELL_EVERY:
        live.looked = now
        with contextlib.suppress(QuireError):
            live.look_at_hint()


def _tell(live: LiveBranch, reasons: list[str]) -> None:
    now = clock.monotonic()
    if now - live.told_slow >= TELL_EVERY:
        live.told_slow = now
        log.warning("commits on branch %r are slowed: %s", live.name, "; ".join(reasons))
