"""The table as one transaction has it so far: a base, and the net change that stands on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quire.errors import Refused
from quire.formats import Staged
from quire.formats.tally import Tally
from quire.ledger import Pin
from quire.testing.memory.compact import Compaction
from quire.testing.memory.files import Field, Folder, Fragment, Version
from quire.testing.memory.indexes import Indexes
from quire.testing.memory.net import Address, Net
from quire.testing.memory.statements import StagedStatement

if TYPE_CHECKING:
    import pyarrow as pa

STANDING = ("pin", "base", "net", "tally")
"""What says on which base a draft stands, and what it does there."""


class Draft:
    """`base` plus `net`. Rows change the net; what changes more than rows becomes the next base.

    The statements that led here are kept, so that they can be run again on another base.
    """

    def __init__(
        self,
        folder: Folder,
        pin: Pin,
        base: Version,
        *,
        properties: dict[str, str],
        table: str,
        created: bool = False,
    ) -> None:
        self.folder = folder
        self.pin = pin
        self.base = base
        self.table = table
        self.created = created
        self.properties = properties
        self.statements: list[StagedStatement] = []
        self.net = Net()
        self.tally = Tally(pin.rows, pin.bytes, added=pin.rows if created else 0, owned=created)
        self.indexes = Indexes()
        self.compaction = Compaction()
        self.exclusive = False
        self.pinned_to_base = False
        """Whether something in the net means nothing on another base."""
        self.files: list[str] = []
        self.staged: Staged | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.base.schema

    # -- what is there ----------------------------------------------------------------------------------------

    def rows_so_far(self) -> Version:
        """The base with its rows as they are now, not written."""
        return self.net.on(self.base)

    def current(self) -> Version:
        """The base with everything done so far, not written."""
        return self.indexes.on(self.compaction.on(self.rows_so_far()))

    def settled(self) -> Version:
        """The current rows and indexes: a schema change goes on from there."""
        self.check_no_upkeep()
        return self.current()

    # -- what changes it --------------------------------------------------------------------------------------

    def write(self, rows: pa.Table, numbers: Sequence[int] | None = None) -> Fragment | None:
        numbers = [f.id for f in self.base.fields] if numbers is None else numbers
        columns = {number: column.to_pylist() for number, column in zip(numbers, rows.columns, strict=True)}
        return self.keep(self.folder.write_columns(columns, rows.num_rows))

    def keep(self, fragment: Fragment | None) -> Fragment | None:
        self.files.extend(() if fragment is None else fragment.paths)
        return fragment

    def take_away(self, addresses: Sequence[Address]) -> None:
        """Remove rows of the base by address, as a statement that cannot be run again elsewhere."""
        self.net.remove(addresses, hard=True)
        self.pinned_to_base = True
        self.staged = None

    def chain(self, state: Version) -> None:
        """Go on from a state that changed more than rows. From here on any rival change is a conflict."""
        more = state.bytes - self.base.bytes - self.net.bytes_added
        self.tally = self.tally.after(self.net).with_bytes(max(0, more))
        known = set(self.files)
        self.files.extend(p for f in state.fragments for p in f.paths if p not in known)
        self._start_from(state)

    def replace(self, fields: Sequence[Field], fragments: Sequence[Fragment]) -> int:
        """Go on from fragments of their own as all that the table holds; how many rows that is."""
        state = self.base.change(
            fields=tuple(fields),
            fragments=tuple(fragments),
            indexes=(),
            next_field=self.base.next_field + len(fields),
        )
        self.tally = Tally(state.rows, state.bytes, added=state.rows, removed=self.pin.rows, owned=True)
        self.statements = []
        self._start_from(state)
        return state.rows

    def _start_from(self, state: Version) -> None:
        self.base, self.net, self.indexes = state, Net(), Indexes()
        self.exclusive = True
        self.staged = None

    def rebind(self, onto: Pin, head: Version) -> None:
        """Stand on a newer base, with the same net."""
        self.pin, self.base = onto, head
        self.tally = Tally(onto.rows, onto.bytes, owned=self.tally.owned)
        # The versions staged on the old base are garbage now; data files are kept.
        self.files = [f for f in self.files if f.startswith("data/")]
        self.staged = None

    # -- rows and upkeep do not mix ---------------------------------------------------------------------------

    def check_no_rows_changed(self) -> None:
        if self.created or self.exclusive or self.net:
            raise self._apart()

    def check_no_upkeep(self) -> None:
        if self.compaction or self.indexes.extended:
            raise self._apart()

    def _apart(self) -> Refused:
        return Refused(
            f"A transaction that compacts table {self.table!r} or extends its indexes cannot change its rows too.",
            next="Use a transaction for each.",
            table=self.table,
        )
