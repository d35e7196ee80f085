"""Who may be given the means to read the files of a table: whoever may see all that its folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quire.lake.handles import state_of, store_of
from quire.ledger import MAIN, TableState

if TYPE_CHECKING:
    from quire.lake.guard.core import GovernedCore
    from quire.lake.lake import Lake
    from quire.lake.read.snapshot import Snapshot


@dataclass(frozen=True)
class TableFiles:
    """Where a table lies, and which of its versions a commit has."""

    name: str
    format: str
    location: str
    version: str


def files_of(lake: Lake, snapshot: Snapshot, names: Sequence[str]) -> list[TableFiles]:
    """Where these tables of a snapshot lie, if whoever holds the handle may read their files itself.

    The folder of a table holds every row and column of it, on every branch and in every retained commit. So under a
    policy it takes the right to `vend` and sight of the whole table, on all branches that there are.
    """
    found = []
    for name in names:
        there = state_of(snapshot).tables[snapshot[name].id]
        if lake._core.guard is not None:
            may_vend(lake._core, there)  # type: ignore[arg-type]
        where = store_of(lake).reach.address(there.pin.location)
        found.append(TableFiles(name, there.pin.format, where, there.pin.version))
    return found


def may_vend(core: GovernedCore, table: TableState) -> None:
    """Refuse to tell how the files of a table are read to an actor that does not see all that they hold."""
    core.check_known()
    if not core.guard.active():
        return
    name = table.info.name
    columns = _columns(core, table)
    others = (ref.name for ref, _ in core.base.refs.every("branch"))
    for branch in dict.fromkeys((MAIN, *others)):
        there = core.on(branch)
        sees = there.sees_branch(branch) and there.sees_table(name)
        if not (sees and there.may("vend", "Table", name)):
            raise core.denied("vend", "Table", name)
        if not core.guard.sight(core.who, branch, name, columns).whole:
            raise core.denied("vend", "Table", name)


def _columns(core: GovernedCore, table: TableState) -> dict[str, object]:
    pin = core.real_pin(table.pin)
    schema = core.base.format(pin.format).open(pin, table.info.name).schema
    return dict(zip(schema.names, schema.types, strict=True))
