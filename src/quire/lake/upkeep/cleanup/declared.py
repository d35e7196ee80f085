"""Tables that clients were promised and that have no version yet: their folders are not cleaned up.

A namespace keeps them as rows of an ordinary table, by the columns named here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quire.lake.context import Core
    from quire.ledger import State

DIRECTORY = "_lance:namespace"
"""The table in which a namespace keeps what is no table of the lake."""
KIND, NAME, TABLE = "kind", "name", "table"
DECLARED = "declared"


def declared(core: Core, state: State) -> set[str]:
    """Folders of declared tables."""
    found = state.by_name(DIRECTORY)
    if found is None:
        return set()
    place = core.format(found.pin.format)
    rows = place.open(found.pin, DIRECTORY).scan(columns=[KIND, TABLE]).read_all().to_pylist()
    return {place.location(row[TABLE]) for row in rows if row[KIND] == DECLARED and row[TABLE]}
