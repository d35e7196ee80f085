"""The commit owner of the Delta tables of a lake: it ratifies versions, tells which there are, and publishes them.

The slot of the lake's log is what ratifies. So a version is committed for everybody at once, also beside tables of
other formats, and what became of one whose answer was lost is read from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.delta.convert import committed
from quire.errors import CommitUnknown, Conflict, InvalidInput, Unsupported
from quire.formats import Owned, OwnedCommit, Promotion
from quire.lake.commit.table_change import Edit
from quire.lake.commit.transaction import Transaction
from quire.lake.handles import newest_seen, state_of
from quire.lake.lake import Lake
from quire.lake.names import no_table
from quire.ledger import TableState

FORMAT = "delta"


@dataclass(frozen=True)
class Commits:
    """Ratified versions of a table that are not published yet, and the newest one that was ratified."""

    commits: tuple[OwnedCommit, ...]
    latest_table_version: int
    """-1 only where the owner has never ratified a version."""


class CommitOwner:
    """The owner of all Delta tables of a lake, on the branch of the handle."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def table(self, name: str) -> OwnedTable:
        """One table, by its name in the lake."""
        return OwnedTable(self._lake, name)


class OwnedTable:
    """What clients of one Delta table ask its owner."""

    def __init__(self, lake: Lake, name: str) -> None:
        self._lake = lake
        self.name = name

    def latest_version(self) -> int:
        """The newest version that was ratified; -1 only where none ever was."""
        return self._format().latest(self._now().pin)

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        *,
        message: str = "",
        token: str | None = None,
    ) -> OwnedCommit:
        """Ratify this version with these actions of the Delta protocol, if the one before it is the newest.

        The owner writes the commit file: it hands out the time, later than that of the version before, and puts
        `commitInfo` first. `Conflict` when the version exists; the client then computes its actions again on the newest
        one. New data files must be there, and keep the key of the table. With a `token` the same call can be
        repeated after an answer was lost.
        """
        lake = self._lake
        tx = lake.transaction(message or f"version {version} of {self.name}", token=token, fresh=True)
        try:
            seen = state_of(tx)
            now = self._entry(seen.by_name(self.name), seen.names())
            newest = self._format().newest(now.pin)
            if not isinstance(version, int) or version > newest + 1 or version < 1:
                raise InvalidInput(
                    f"Version {version} of table {self.name!r} cannot follow version {newest}.",
                    next=f"Commit version {newest + 1}.",
                    table=self.name,
                    latest=newest,
                )
            if version <= newest and token is None:
                raise _exists(self.name, version, newest)
            if version == newest + 1:
                lake._core.owners.writable(now.pin, now.info)
                edit = Edit(now.info, now)
                asked: dict[str, Any] = {"key": now.info.key, "write": tx.write, "table": self.name}
                edit.work, op = self._format().proposed(now.pin, actions, **asked)
                edit.did(op)
                tx.edits[now.info.id] = edit
        except BaseException:
            tx.discard()
            raise
        try:
            receipt = tx.commit()
        except CommitUnknown as unknown:
            if not committed(lake, unknown):
                raise
            lake.refresh()
        else:
            if version <= newest and not receipt.repeated:
                raise _exists(self.name, version, newest)
        return self._format().ratified(self._now().pin, version)

    def commit_staged(
        self, version: int, file: str, *, message: str = "", check: Callable[[], None] | None = None
    ) -> OwnedCommit:
        """Ratify a commit that the client has staged itself, in `_delta_log/_staged_commits/`, under this name.

        The file stays as it is, so it must begin with a `commitInfo` whose `inCommitTimestamp` is later than that of
        the version before. The same file again is answered as the first time. `check` is called before a new one is
        taken.
        """
        tx = self._lake.transaction(message or f"version {version} of {self.name}", fresh=True)
        try:
            seen = state_of(tx)
            now = self._entry(seen.by_name(self.name), seen.names())
            if self._format().is_ratified(now.pin, file):
                tx.discard()
                return self._format().ratified(now.pin, version)
            if check is not None:
                check()
            self.stage_into(tx, version, file)
        except BaseException:
            tx.discard()
            raise
        try:
            tx.commit()
        except CommitUnknown as unknown:
            if not committed(self._lake, unknown):
                raise
            self._lake.refresh()
        except Conflict as conflict:
            now = self._now()
            if self._format().is_ratified(now.pin, file):
                return self._format().ratified(now.pin, version)
            raise _exists(self.name, version, self._format().newest(now.pin)) from conflict
        return self._format().ratified(self._now().pin, version)

    def stage_into(self, tx: Transaction, version: int, file: str) -> None:
        """Make a commit that a client has staged a part of a transaction, which then ratifies it with all the rest.

        A table can be written so once in a transaction. The same file again changes nothing.
        """
        seen = state_of(tx)
        now = self._entry(seen.by_name(self.name), seen.names())
        before = tx.edits.get(now.info.id)
        if before is not None and before.changed:
            if before.client_file == file:
                return
            raise Conflict(
                f"Table {self.name!r} was written in this transaction already.",
                next="Commit the transaction, and write the table again in the next one.",
                table=self.name,
            )
        newest = self._format().newest(now.pin)
        if version != newest + 1:
            raise _exists(self.name, version, newest)
        self._lake._core.owners.writable(now.pin, now.info)
        edit = Edit(now.info, now, client_file=file)
        asked: dict[str, Any] = {"key": now.info.key, "write": tx.write, "table": self.name}
        edit.work, op = self._format().handed_over(now.pin, file, **asked)
        edit.did(op)
        tx.edits[now.info.id] = edit

    def get_commits(self, start_version: int = 0, end_version: int = -1) -> Commits:
        """Ratified versions between these two that are not published yet, in order and without a gap.

        An `end_version` of -1 is the newest. The first may be later than `start_version`: those before it are
        published, and lie in the log of the table.
        """
        now = self._now().pin
        last = end_version if end_version >= 0 else 1 << 62
        found = [c for c in self._format().unpublished(now) if start_version <= c.version <= last]
        return Commits(tuple(found), self._format().latest(now))

    def backfill_to_version(self, version: int) -> Promotion:
        """Publish all versions up to this one, in order: each a copy of its staged file, if nobody was there before."""
        now = self._now().pin
        newest = self._format().newest(now)
        if version > newest or version < 0:
            raise InvalidInput(
                f"Version {version} of table {self.name!r} was never ratified; the newest is {newest}.",
                next="Give a version that there is.",
                table=self.name,
                latest=newest,
            )
        self._lake._core.check_writable()
        return self._format().publish(now, version, table=self.name)

    # -- the state --------------------------------------------------------------------------------------------

    def _now(self) -> TableState:
        now = newest_seen(self._lake)
        return self._entry(now.by_name(self.name), now.names())

    def _entry(self, found: TableState | None, names: Mapping[str, str]) -> TableState:
        if found is None:
            raise no_table(self.name, names)
        if not isinstance(self._lake._core.format(found.pin.format), Owned):
            raise Unsupported(
                f"Table {self.name!r} is of format {found.pin.format!r}, which has no commit owner.",
                next="Name a Delta table.",
                table=self.name,
            )
        return found

    def _format(self) -> Owned:
        format = self._lake._core.format(FORMAT)
        assert isinstance(format, Owned)
        return format


def _exists(table: str, version: int, newest: int) -> Conflict:
    return Conflict(
        f"Version {version} of table {table!r} exists; the newest is {newest}.",
        next=f"Compute the actions again on version {newest}, and commit version {newest + 1}.",
        table=table,
        version=version,
        latest=newest,
    )
