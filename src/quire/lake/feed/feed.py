"""Reading the change feed: from where, up to the newest commit, and then waiting for more.

A feed goes through the commits of a branch in the order of its log. It keeps nothing in the lake: where a reader stands
is in its cursor. What cleanup has removed is a gap, which is an error with a way on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from quire.arguments import bounded
from quire.errors import FeedGap, InvalidInput, SnapshotExpired
from quire.lake.feed.blocks import OPS, Asked, ChangeBlock, Differences, Header, Images, TableChanges
from quire.lake.feed.cursor import Scope, is_cursor, sequence
from quire.lake.feed.follow import wait_for_news
from quire.lake.names import closed
from quire.lake.receipt import CommitInfo
from quire.lake.resolve import resolve
from quire.ledger import Change, Point, Record, State, fold
from quire.prompt import PublicNames, one_line
from quire.store import clock

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.context import Core

AT_ONCE = 64
"""Records that are read together."""


class Feed(PublicNames):
    """The changes of a branch, a commit at a time. Iterate over it; `cursor` tells where it stands."""

    def __init__(
        self,
        core: Core,
        live: LiveBranch,
        since: str,
        *,
        tables: Sequence[str] | None,
        ops: Sequence[str] | None,
        images: str,
        net: bool,
        follow: bool,
        poll: float,
        timeout: float | None,
        held: bool = False,
    ) -> None:
        wrong = sorted(set(ops or ()) - set(OPS))
        if wrong or images not in ("after", "both", "none"):
            said = f"{wrong[0]!r} is not a kind of change" if wrong else f"{images!r} is not one of the images"
            raise InvalidInput(f"{said}.", next='ops: insert, update, delete. images: "after", "both" or "none".')
        if net and follow:
            raise InvalidInput(
                "The net change has an end, so it cannot be followed.",
                next="Ask for net=True again, from its cursor, when there is something new.",
            )
        self._core, self._live = core, live
        self._asked = Asked(
            None if tables is None else frozenset(tables),
            frozenset(OPS if ops is None else ops),
            cast("Images", images),
        )
        self._scope = Scope.of(core.about.lake, live.line.branch, tables, ops, images)
        self._net, self._follow = net, follow
        self._held = held
        """Whether a consumer holds what it reads: also below the floor, as long as it is there."""
        self._poll = bounded("poll", poll, 0.01)
        self._timeout = bounded("timeout", timeout, 0, math.inf)
        self._differences = Differences(core, self._asked, self._expired)
        self._baseline = since == "baseline"
        self._at = self._start(since)

    @property
    def cursor(self) -> str:
        """Where it stands: after the last block that was read. Pass it as `since=` to go on later, or elsewhere."""
        return self._scope.cursor(self._at)

    def __repr__(self) -> str:
        return one_line(f"<Feed of {self._live.name!r} after {self._at.commit}>")

    def __iter__(self) -> Iterator[ChangeBlock]:
        if self._baseline:
            self._baseline = False
            block = self._whole(self._live.refresh())
            yield block
        if self._net:
            yield from self._together()
            return
        waited = clock.monotonic()
        while True:
            head = self._live.refresh()
            for block in self._blocks(head):
                yield block
                waited = clock.monotonic()
            if not self._follow:
                return
            if head.closed:
                raise closed(self._live.name)
            if not wait_for_news(self._core, self._live, head, self._poll, _left(self._timeout, waited)):
                return

    # -- where it begins ----------------------------------------------------------------------------------------

    def _start(self, since: str) -> Point:
        if since in ("now", "baseline"):
            return self._live.refresh().head
        if since == "beginning":
            return Point(branch=self._live.line.owner(0), slot=0)
        if is_cursor(since):
            at = self._scope.parse(since)
        else:
            at = resolve(self._core, self._live, since).point
        head = self._live.state if at.slot <= self._live.state.slot else self._live.refresh()
        if not self._live.line.contains(at) or (at.slot, at.index) > (head.head.slot, head.head.index):
            raise self._live.history.no_commit(at.commit)
        return at

    # -- blocks -------------------------------------------------------------------------------------------------

    def _blocks(self, head: State) -> Iterator[ChangeBlock]:
        """A block for every commit after where the feed stands."""
        if (self._at.slot, self._at.index) >= (head.head.slot, head.head.index):
            return
        history = self._live.history
        state = self._state_here(head)
        [record] = self._records(self._at.slot, self._at.slot)
        for index in range(self._at.index + 1, self._end(record)):
            after = history.at_slot(record.slot, index)  # it stands inside a group, of which the rest comes now
            yield self._block(record, index, state, after)
            state = after
        for low in range(record.slot + 1, head.slot + 1, AT_ONCE):
            for record in self._records(low, min(low + AT_ONCE - 1, head.slot)):
                before = state
                for index in range(self._end(record)):
                    after = fold(before, record, upto=index)
                    yield self._block(record, index, state, after)
                    state = after
                state = fold(before, record, upto=self._live.line.limit(record.slot))

    def _records(self, first: int, last: int) -> list[Record]:
        """Slots of the branch. One that was cleaned up is a gap."""
        found = self._live.history.between(first - 1, last)
        for record in found:
            if record.buried:
                raise self._gap(f"slot {record.slot} was cleaned up")
        return found

    def _end(self, record: Record) -> int:
        """How many commits of a slot belong to the branch: it may have begun inside a group."""
        limit = self._live.line.limit(record.slot)
        return len(record.commits) if limit is None else min(limit + 1, len(record.commits))

    def _state_here(self, head: State) -> State:
        """The state in which the feed stands."""
        self._check_floor(head)
        try:
            return self._live.history.at(self._at)
        except SnapshotExpired as error:
            raise self._expired(error) from error

    def _block(self, record: Record, index: int, old: State, new: State) -> ChangeBlock:
        commit = record.commits[index]
        at = Point(branch=record.branch, slot=record.slot, index=index)
        header = self._header(CommitInfo.of(at, self._core.told(commit), self._live.name))
        found = [self._changes(header, change, old, new) for change in commit.changes]
        self._at = at
        return self._made(header, found, at)

    def _changes(self, header: Header, change: Change, old: State, new: State) -> TableChanges | None:
        before = self._core.narrow_table(old.tables.get(change.table))
        after = self._core.narrow_table(new.tables.get(change.table))
        if before is None and after is None:
            return None
        return self._differences.of(header, before, after, change.ops)

    def _header(self, info: CommitInfo) -> Header:
        return Header(
            info.id, sequence(info.point), info.parents, info.author, info.message, info.time, dict(info.metadata)
        )

    def _made(
        self, header: Header, found: Sequence[TableChanges | None], at: Point, *, baseline: bool = False
    ) -> ChangeBlock:
        tables = {table.name: table for table in sorted(filter(None, found), key=lambda table: table.name)}
        return ChangeBlock(
            commit=header.commit,
            sequence=header.sequence,
            parents=header.parents,
            author=header.author,
            message=header.message,
            time=header.time,
            metadata=header.metadata,
            tables=tables,
            cursor=self._scope.cursor(at),
            baseline=baseline,
        )

    def _whole(self, head: State) -> ChangeBlock:
        """All rows of the newest commit, as if they had just been inserted."""
        at = head.head
        header = self._header(CommitInfo.of(at, self._core.told(self._live.history.commit(at)), self._live.name))
        head = self._core.narrow(head)
        found = [self._differences.of(header, None, table, ("create",)) for table in head.tables.values()]
        self._at = at
        return self._made(header, found, at, baseline=True)

    def _together(self) -> Iterator[ChangeBlock]:
        """One block that leads from where the feed stands to the newest commit."""
        head = self._live.refresh()
        if (self._at.slot, self._at.index) >= (head.head.slot, head.head.index):
            return
        old, at = self._core.narrow(self._state_here(head)), head.head
        header = self._header(CommitInfo.of(at, self._core.told(self._live.history.commit(at)), self._live.name))
        head = self._core.narrow(head)
        found = []
        for table in sorted(old.tables.keys() | head.tables.keys()):
            before, after = old.tables.get(table), head.tables.get(table)
            if before and after and before.pin.version == after.pin.version and before.info == after.info:
                continue
            found.append(self._differences.of(header, before, after, ("overwrite",)))
        self._at = at
        yield self._made(header, found, at)

    # -- gaps ---------------------------------------------------------------------------------------------------

    def _check_kept(self) -> None:
        """Refuse what lies below the floor where it stands, whoever holds it: a cleanup has not seen that."""
        self._held = False
        self._check_floor(self._live.refresh())
        self._live.history.at(self._at)

    def _check_floor(self, head: State) -> None:
        """Refuse to begin below the floor: what is needed to tell the changes may be going just now."""
        if not self._held and self._at.branch == self._live.line.branch and self._at.slot < head.floor:
            raise self._gap(f"cleanup has kept slot {head.floor} and what came later")

    def _expired(self, error: SnapshotExpired) -> FeedGap:
        return self._gap(error.message.rstrip("."))

    def _gap(self, why: str) -> FeedGap:
        first = self._first_usable()
        return FeedGap(
            f"The changes after commit {self._at.commit} of branch {self._live.name!r} are not kept any more: {why}.",
            next='Read everything anew with since="baseline"; or go on from the first commit that is kept, whose cursor'
            " is in this error, and do without what came before.",
            branch=self._live.name,
            commit=self._at.commit,
            first=first.commit,
            cursor=self._scope.cursor(first),
        )

    def _first_usable(self) -> Point:
        """The first commit after which the changes are kept."""
        head, line = self._live.refresh(), self._live.line
        if line.inherited and head.floor < line.start:
            last = line.inherited[-1]
            return Point(branch=last.branch, slot=last.slot, index=last.index)
        return min(
            (at for at, _ in self._live.history.commits(head, after=head.floor - 1)),
            default=head.head,
            key=lambda at: (at.slot, at.index),
        )


def _left(timeout: float | None, since: float) -> float | None:
    return None if timeout is None else max(0.0, since + timeout - clock.monotonic())
