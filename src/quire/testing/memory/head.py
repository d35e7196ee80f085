"""The plain HEAD: linear versions, created if absent, as a client without Quire reads and writes them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from quire.conversion.fit import fit
from quire.conversion.inputs import source
from quire.errors import Conflict
from quire.formats import Foreign, Head, Promotion
from quire.ledger import Pin, new_id
from quire.store import Outcome, Store
from quire.testing.memory import sql
from quire.testing.memory.files import Entry, Folder, Version, gone, head_path, version_path
from quire.testing.memory.net import Net, locate

CLEANS = "auto_cleanup"
"""A setting of the table by which it would delete its own old versions."""


def inspect(folder: Folder, lake: str, table: str = "") -> tuple[int, Entry, Head]:
    """The newest plain version and whose it is."""
    listed = folder.entries()
    if not listed:
        raise gone(table or folder.location, "head")
    number = max(listed)
    entry = folder.entry(number, table)
    return number, entry, head_of(number, entry, lake)


def head_of(number: int, entry: Entry, lake: str) -> Head:
    ours = entry.lake == lake and entry.counter is not None
    return Head(number, entry.counter if ours else None, entry.commit if ours else None)


def is_itself(pin: Pin, entry: Entry) -> bool:
    """Whether a pin names this very plain version: the first one of a table, a registered or an adopted one."""
    return pin.version == entry.version and entry.commit is None


def promote(folder: Folder, pin: Pin, *, lake: str, commit: str, table: str) -> Promotion:
    """Make `pin` the plain HEAD unless HEAD is already there or further, or somebody else wrote in between."""
    number, entry, head = inspect(folder, lake, table)
    if is_itself(pin, entry) or (head.counter is not None and head.counter >= pin.counter):
        return Promotion(table, "current", number)
    if head.counter is None and number > pin.head:
        return Promotion(table, "foreign", number, f"version {number} was written by a plain client")
    if CLEANS in folder.version(pin.version, table).config:
        return Promotion(table, "blocked", number, f"the table deletes its own old versions ({CLEANS})")
    mine = Entry(pin.version, op="restore", lake=lake, commit=commit, counter=pin.counter, write=new_id())
    outcome = folder.create_entry(number + 1, mine)
    if outcome is Outcome.COMMITTED:
        return Promotion(table, "promoted", number + 1)
    if outcome is Outcome.UNKNOWN:
        return Promotion(table, "behind", number, "the store did not say whether the version was created")
    number, _, now = inspect(folder, lake, table)
    if now.counter is not None and now.counter >= pin.counter:
        return Promotion(table, "current", number)
    detail = f"version {number} was created by somebody else"
    return Promotion(table, "foreign" if now.counter is None else "behind", number, detail)


def trace(folder: Folder, pin: Pin, head: int, lake: str) -> Foreign:
    """The foreign versions up to `head`, back to the newest version that is Quire's own or was adopted."""
    ops: list[str] = []
    number = head
    while number > 0:
        entry = folder.entry(number)
        if number <= pin.head or is_itself(pin, entry) or head_of(number, entry, lake).counter is not None:
            break
        ops.append(entry.op)
        number -= 1
    ops.reverse()
    return Foreign(number, head, tuple(ops), tuple(f"version {number + i}: {op}" for i, op in enumerate(ops, 1)))


def difference_of(pinned: Version, head: Version) -> str | None:
    """In what two states that should be the same differ."""
    if pinned.id == head.id:
        return None
    if not pinned.schema.equals(head.schema):
        return "The plain HEAD has other columns than the commit it claims to be."
    if pinned.fragments != head.fragments:
        return "The plain HEAD has other fragments than the commit it claims to be."
    return None


def plain_files(folder: Folder, since: datetime, lake: str, known: int) -> set[str]:
    """What plain clients need: HEAD, a plain writer's versions after Quire's last one, and what was HEAD lately."""
    listed = folder.entries()
    needed: set[str] = set()
    superseded: datetime | None = None
    theirs = True
    for number in sorted(listed, reverse=True):
        if theirs or (superseded is not None and superseded >= since):
            entry = folder.entry(number)
            needed.add(head_path(number))
            needed |= needed_by(folder.version(entry.version)).keys()
            theirs = theirs and number > known and head_of(number, entry, lake).counter is None
        superseded = listed[number].modified
    return needed


def needed_by(state: Version) -> dict[str, int | None]:
    """Every file of a state, with its size where it is known."""
    return {version_path(state.id): None} | {file.path: file.size for f in state.fragments for file in f.files}


class PlainTable:
    """The table as a client without Quire has it: it moves HEAD by itself, and knows nothing of commits.

    plain = PlainTable(Store.open("./lake"), "tables/x.rows")
    plain.append([{"id": 7}])
    """

    def __init__(self, store: Store, location: str) -> None:
        self._folder = Folder(store, location)

    @property
    def version(self) -> int:
        return max(self._folder.entries())

    def state(self, number: int | None = None) -> Version:
        entry = self._folder.entry(self.version if number is None else number)
        return self._folder.version(entry.version)

    def rows(self, number: int | None = None) -> list[dict[str, Any]]:
        """The rows of a plain version, of HEAD if none is given."""
        state = self.state(number)
        found = locate(self._folder, state, state.schema.names)
        return [dict(zip(found.columns, values, strict=True)) for values in found.tuples(list(found.columns))]

    def append(self, data: Any) -> int:
        state = self.state()
        rows = fit(source(data, state.schema), state.schema, table=self._folder.location).table()
        columns = {f.id: c.to_pylist() for f, c in zip(state.fields, rows.columns, strict=True)}
        net = Net()
        net.add(self._folder.write_columns(columns, rows.num_rows))
        return self._commit(net.on(state), "append")

    def delete(self, where: str) -> int:
        state = self.state()
        found = locate(self._folder, state, state.schema.names)
        net = Net()
        chosen = sql.matches(where, state.schema, found.columns, found.rows)
        net.remove([found.addresses[i] for i in chosen], hard=True)
        return self._commit(net.on(state), "delete")

    def configure(self, **settings: str) -> int:
        state = self.state()
        return self._commit(state.change(config={**state.config, **settings}), "schema")

    def overwrite(self, data: Any) -> int:
        state = self.state().change(fragments=())
        rows = fit(source(data, state.schema), state.schema, table=self._folder.location).table()
        columns = {f.id: c.to_pylist() for f, c in zip(state.fields, rows.columns, strict=True)}
        net = Net()
        net.add(self._folder.write_columns(columns, rows.num_rows))
        return self._commit(net.on(state), "overwrite")

    def _commit(self, state: Version, op: str) -> int:
        number = self.version + 1
        made = self._folder.write_version(state, {})
        if self._folder.create_entry(number, Entry(made.id, op=op, write=new_id())) is not Outcome.COMMITTED:
            raise Conflict(f"Version {number} was created by somebody else.", next="Try again.")
        return number
