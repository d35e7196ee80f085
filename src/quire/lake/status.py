"""Where a lake stands, in one dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.lake.commit import back_pressure, tokens
from quire.ledger.offers import living
from quire.store import is_outside

if TYPE_CHECKING:
    from quire.lake.lake import Lake

SCATTERED = 100
"""From more fragments on a table is named: a statement whose condition no index or key answers reads each of them."""


def status(lake: Lake) -> dict[str, Any]:
    """See `Lake.status`."""
    core, live = lake._core, lake._live
    state = live.refresh()
    pending = [state.tables[i].info.name for i in live.pending() if i in state.tables]
    return {
        "uri": lake.uri,
        "lake": core.about.lake,
        "branch": live.name,
        "head": state.head.commit,
        "time": state.time.isoformat(),
        "tables": len(state.tables),
        "rows": sum(t.pin.rows for t in state.tables.values()),
        "bytes": sum(t.pin.bytes for t in state.tables.values()),
        "checkpoint": state.checkpoint.slot if state.checkpoint else None,
        "uncheckpointed": state.slot - (state.checkpoint.slot if state.checkpoint else -1),
        "pending_backfill": sorted(pending) if live.is_main else [],
        "floor": state.floor,
        "outside": {
            t.info.name: {"location": t.pin.location, "writable": core.store.reach.allows(t.pin.location)}
            for t in state.tables.values()
            if is_outside(t.pin.location)
        },
        "offers": {
            "on": live.offers.on,
            "waiting": len(living(core.store, live.line.branch, state.slot)) if live.offers.on else 0,
        },
        "tokens": tokens.remembered(state),
        "load": {
            bound: {"now": now, "bound": getattr(core.bounds, bound), "table": where or None}
            for bound, (now, where) in back_pressure.load(live).items()
        },
        "scattered": {
            t.info.name: {"fragments": t.pin.fragments, "next": "quire optimize"}
            for t in state.tables.values()
            if t.pin.fragments > SCATTERED
        },
        "background_failures": list(lake._background.failures),
    }
