"""What handles ask for when they are made. What it takes is loaded when a lake has a guard, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quire.lake.context import Core
    from quire.lake.guard.protocol import Who
    from quire.lake.lake import Lake


def gate_of(core: Core) -> Any:
    """The gate of a lake with a guard."""
    from quire.lake.guard.core import GovernedCore
    from quire.lake.guard.gates import LakeGate

    assert isinstance(core, GovernedCore)
    return LakeGate(core)


def snapshot_gate(core: Core) -> Any:
    """The gate of what was read through a guard."""
    from quire.lake.guard.core import GovernedCore
    from quire.lake.guard.gates import SnapshotGate

    assert isinstance(core, GovernedCore)
    return SnapshotGate(core)


def transaction_gate(gate: Any) -> Any:
    """The gate of a transaction that a lake with this one began."""
    from quire.lake.guard.gates import TransactionGate

    return TransactionGate(gate.core)


def on_branch(core: Core, name: str) -> Core:
    """The same actor on another branch."""
    from quire.lake.guard.core import GovernedCore

    assert isinstance(core, GovernedCore)
    return core.on(name)


def acting(lake: Lake, who: Who) -> Lake:
    """A handle by which somebody acts. It shares all but that with the one at hand."""
    from quire.lake.guard.core import GovernedCore

    core = lake._core
    assert isinstance(core, GovernedCore)
    made = GovernedCore(core.base, core.guard, who, lake._live.name)
    return type(lake)(made, lake._live, lake._background, lake._backfill, lake._cost)


def approved(lake: Lake, approvals: int) -> Lake:
    """A handle that merges what so many have approved."""
    from quire.lake.guard.core import GovernedCore

    core = lake._core
    if not isinstance(core, GovernedCore):
        return lake
    made = core.on(lake._live.name)
    made.approvals = approvals
    return type(lake)(made, lake._live, lake._background, lake._backfill, lake._cost)


def governed(lake: Lake, guard: Any, who: Who, *, strict: bool = True) -> Lake:
    """A lake under a guard; what it has been until now stays as it is for whoever holds it."""
    from quire.lake.guard.core import GovernedCore

    made = GovernedCore(lake._core, guard, who, lake._live.name, strict=strict)
    return type(lake)(made, lake._live, lake._background, lake._backfill, lake._cost)
