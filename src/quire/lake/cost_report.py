"""What commits and opens took: kept with the commit, and told to whoever watches this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from quire.ledger import Cost, State
from quire.store import Meter, metering, phase
from quire.store.address import shown
from quire.telemetry import Operation, operation

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.context import Core

F = TypeVar("F", State, "LiveBranch")


# -- commits -----------------------------------------------------------------------------------------------------------


def spent(meter: Meter) -> Cost:
    """What a transaction has taken so far, to be stored with its commit."""
    found = meter.to_dict()
    return Cost(
        requests=found["requests"],
        external=found["external"],
        hops=found["hops"],
        retries=found["retries"],
        bytes_in=found["bytes_in"],
        bytes_out=found["bytes_out"],
        elapsed=_micros(found["seconds"]),
        phases={name: _micros(seconds) for name, seconds in found["phases"].items()},
    )


def _micros(seconds: float) -> int:
    return max(0, round(seconds * 1_000_000))


def told_cost(stored: Cost | None, ledger: str, shared: int | None) -> dict[str, Any] | None:
    """A stored cost in the form of a receipt's; None where there is none.

    In the log the write of the slot is known to have been one create and one hop, so they are added. In a manifest
    ledger it was Lance's, and is not known.
    """
    if stored is None:
        return None
    requests, slot = dict(stored.requests), int(ledger == "log")
    if slot:
        requests["create"] = requests.get("create", 0) + slot
    return {
        "requests": requests,
        "total": sum(requests.values()),
        "external": dict(stored.external),
        "retries": stored.retries,
        "bytes_in": stored.bytes_in,
        "bytes_out": stored.bytes_out,
        "hops": stored.hops + slot,
        "seconds": stored.elapsed / 1_000_000,
        "phases": {name: micros / 1_000_000 for name, micros in stored.phases.items()},
        **({} if shared is None else {"shared": shared}),
    }


# -- opens -------------------------------------------------------------------------------------------------------------


class Opening:
    """A lake or a snapshot that is being opened."""

    def __init__(self, meter: Meter, told: Operation) -> None:
        self._meter, self._told = meter, told

    def found(self, core: Core, state: State) -> None:
        """It is open."""
        self._told.outcome = "opened"
        self._told.attributes |= {
            "quire.lake": core.store.uri,
            "quire.lake_id": core.about.lake,
            "quire.commit": state.head.commit,
            "quire.tables": len(state.tables),
        }

    @property
    def cost(self) -> dict[str, Any]:
        return self._meter.to_dict()


@contextlib.contextmanager
def opening(name: Literal["open", "snapshot"], uri: str | os.PathLike[str], branch: str) -> Iterator[Opening]:
    """Meter and report the block, which opens something."""
    about = {"quire.lake": shown(str(uri)), "quire.branch": branch}
    with metering() as meter, operation(name, meter, about) as told:
        yield Opening(meter, told)


def measured(
    core: Core, branch: str, name: Literal["open", "snapshot"], find: Callable[[], F]
) -> tuple[F, dict[str, Any]]:
    """A state or a branch that is looked up in an open lake, and what that took."""
    with opening(name, core.store.uri, branch) as it:
        with phase("log"):
            found = find()
        it.found(core, found if isinstance(found, State) else found.state)
    return found, it.cost
