"""The owner of a table that lies outside `tables/`: the one lake that may write to it.

Two lakes that register one table would each take the other's commits for foreign writes, and each would move its HEAD
away under the other. So a table that is registered gets a mark, a small object beside its versions, which is created
only if there is none. The mark names the lake by its id and, for a table outside the lake's folder, by its address: a
copy of a lake has the id of the original, and must leave the original's tables alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.errors import CommitUnknown, FormatError, InvalidInput, NotOwner, Refused
from quire.lake.names import no_table
from quire.ledger import FORMAT, Pin, State, TableInfo, decode, encode
from quire.ledger.records import Moment, Stored, readable
from quire.store import Outcome, Store, clock, is_outside, run_parallel

if TYPE_CHECKING:
    from quire.lake.context import Core

MARK = "_quire_owner.json"
LEDGER = "_quire/format.json"
OWN = "tables/"


class Owner(Stored, frozen=True):
    """What a mark says."""

    format: int
    lake: str
    table: str
    since: Moment
    uri: str = ""
    """Where the lake lies; empty for a table in the lake's own folder, which is copied and moved with it."""
    by: str = ""


readable(Owner)


class Owners:
    """The marks that one open lake has read. A table is looked at once; its owner changes by `take_over` alone."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ours: dict[str, str] = {}
        """By location: which table it is."""
        self._taking: set[str] = set()

    def writable(self, pin: Pin, info: TableInfo) -> None:
        """Raise unless this lake may write to a table. One that nobody owns yet is ours from then on."""
        self._core.store.reach.writable(pin.location)
        if pin.location.startswith(OWN) or self._core.store.scheme == "memory" or self._core.is_aside:
            return
        if self._ours.get(pin.location) == info.id:
            return
        if pin.location in self._taking:
            files, mine = self._files(pin.location), self._mark(pin, info)
            found = self._read_if_whole(files)
            if found is not None and _same(found, mine):
                _check_table(found, mine, files.uri)  # taken over by another transaction of this lake
            self.take_over(pin, info)
        else:
            self.claim(pin, info)

    def will_take_over(self, location: str) -> None:
        """Take a table over when its registration is about to be committed."""
        self._taking.add(location)

    def claim(self, pin: Pin, info: TableInfo) -> None:
        """Make a registered table ours, or find out whose it is."""
        files, mine = self._files(pin.location), self._mark(pin, info)
        found = self._read(files)
        if found is None:
            body = encode(mine)
            created = files.create(MARK, body, mine=lambda held: held == body)
            if created.outcome is Outcome.UNKNOWN:
                raise CommitUnknown(
                    f"The store did not confirm that {files.uri}/{MARK} was written.",
                    next="Run it again; this is safe.",
                    uri=files.uri,
                )
            found = mine if created.outcome is Outcome.COMMITTED else self._read(files)
        if found is not None and not _same(found, mine):
            raise _of_another(found, files.uri)
        if found is not None:
            _check_table(found, mine, files.uri)
        self._ours[pin.location] = info.id

    def check(self, location: str, *, take_over: bool) -> str:
        """Raise when a table that is to be registered belongs to another lake. It changes nothing.

        The id that the table has in this lake, if it was registered here before; else nothing.
        """
        files = self._files(location)
        read = partial(self._read_if_whole if take_over else self._read, files)
        looks: list[Callable[[], Any]] = [read, partial(self._inside_of, location)]
        found, lake = run_parallel(looks)
        if lake is not None:
            raise Refused(
                f"{files.uri} is among the tables of the lake at {lake}, and the cleanup of that lake may delete its "
                "files.",
                next="Copy the table to another place and register the copy, or read it through that lake.",
                uri=files.uri,
                lake=lake,
            )
        if found is None:
            return ""
        same = _same(found, self._mark_at(location))
        if not same and not take_over:
            raise _of_another(found, files.uri)
        return str(found.table) if same else ""

    def take_over(self, pin: Pin, info: TableInfo) -> None:
        """Make a registered table ours whoever owned it. Handles of the other lake go on until they look again."""
        self._core.store.reach.writable(pin.location)
        self._files(pin.location).put(MARK, encode(self._mark(pin, info)))
        self._ours[pin.location] = info.id

    def _files(self, location: str) -> Store:
        return Store.open(self._core.store.reach.address(location), self._core.store.options)

    def _read(self, files: Store) -> Owner | None:
        body = files.get_or_none(MARK)
        if body is None:
            return None
        try:
            return decode(body, Owner, f"{files.uri}/{MARK}")
        except FormatError as error:
            raise NotOwner(
                f"The owner of the table {files.uri} cannot be read: {error.message}",
                next="If no other lake uses the table, take it over: lake.take_over(table), `quire take-over`.",
                uri=files.uri,
            ) from None

    def _read_if_whole(self, files: Store) -> Owner | None:
        """The same for whoever takes over a table whose mark nobody can read."""
        try:
            return self._read(files)
        except NotOwner:
            return None

    def _mark(self, pin: Pin, info: TableInfo) -> Owner:
        return self._mark_at(pin.location, info.id)

    def _mark_at(self, location: str, table: str = "") -> Owner:
        store = self._core.store
        uri = os.path.realpath(store.uri) if store.is_local else store.uri
        return Owner(
            FORMAT,
            self._core.about.lake,
            table,
            clock.now(),
            uri=uri if is_outside(location) else "",
            by=self._core.author,
        )

    def _inside_of(self, location: str) -> str | None:
        """The other lake among whose own tables a location lies."""
        root = self._core.store.reach.address(location)
        if self._core.store.is_local and "://" not in root:
            root = os.path.realpath(root)
        for part in ("/tables/", "/_quire/"):
            at = root.find(part)
            while at > 0:
                above = Store.open(root[:at], self._core.store.options)
                if above.uri != self._core.store.uri and above.stat(LEDGER) is not None:
                    return above.uri
                at = root.find(part, at + 1)
        return None


def _same(found: Owner, mine: Owner) -> bool:
    """Whether two marks are of one lake."""
    return (found.lake, found.uri) == (mine.lake, mine.uri)


def _check_table(found: Owner, mine: Owner, uri: str) -> None:
    """In one lake a location is one table: two would each move its HEAD away under the other."""
    if found.table and found.table != mine.table:
        raise NotOwner(
            f"The table at {uri} is registered in this lake already, as another table, with the id {found.table}.",
            next="Use that table; `describe()` tells the id of each. One that was dropped comes back when it is "
            "registered again.",
            uri=uri,
            owner=found.uri,
            lake=found.lake,
        )


def _of_another(found: Owner, uri: str) -> NotOwner:
    return NotOwner(
        f"The table at {uri} belongs to the lake {found.uri or found.lake}, and only its owner may write to it.",
        next="Write through that lake. If that lake is gone, or if it is this lake at its former place, take the "
        "table over: lake.take_over(table), `quire take-over`, or take_over=True (`--take-over`) when you "
        "register it.",
        uri=uri,
        owner=found.uri,
        lake=found.lake,
    )


def take_over(core: Core, state: State, table: str) -> None:
    """Make this lake the owner of a table of a state, whatever the table's mark says."""
    found = state.by_name(table)
    if found is None:
        raise no_table(table, state.names())
    if found.pin.location.startswith(OWN):
        raise InvalidInput(
            f"Table {table!r} is inside the lake, which owns it.", next="Nothing needs to be done.", table=table
        )
    core.owners.take_over(found.pin, found.info)
