"""Named consumers of the change feed: the lake knows how far each has come, and keeps for a while what it has not read.

A consumer is at least once: what it has read and not committed comes again. What it holds, cleanup leaves alone, for at
most `hold` seconds after its last commit; a consumer that stays away for longer finds a `FeedGap` if cleanup was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from quire.arguments import bounded, checks_arguments
from quire.errors import Conflict, ConsumerNotFound, FeedGap, InvalidInput, SnapshotExpired
from quire.lake.commit import record_time
from quire.lake.feed.blocks import ChangeBlock
from quire.lake.feed.cursor import Scope
from quire.lake.feed.feed import Feed
from quire.lake.names import check_ref
from quire.lake.upkeep.cleanup.protection import protect
from quire.ledger import FORMAT, Point, new_id
from quire.ledger.consumers import Generation, StoredConsumer, StoredConsumers
from quire.ledger.notes_and_leases import LONGEST
from quire.prompt import Escaped, PublicNames, one_line
from quire.store import clock

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.lake import Lake

SHORTEST = 30.0
"""Seconds of the shortest hold."""
CONSUMER = "Consumer"
"""What the audit calls a consumer."""
TRIES = 32

Op = Literal["insert", "update", "delete"]


@dataclass(frozen=True, repr=False)
class ConsumerInfo(Escaped):
    """A consumer in a listing: where it stands, and until when it keeps changes from cleanup."""

    name: str
    branch: str
    commit: str
    """The last commit that it is done with."""
    author: str
    changed: datetime
    hold: float
    holds: bool
    """Whether it holds the changes after that commit now."""
    baseline: bool
    """Whether it has yet to read all rows first."""

    def __repr__(self) -> str:
        held = f", holding for {self.hold:.0f} s" if self.holds else ", hold lost" if self.hold else ""
        return one_line(f"<Consumer {self.name!r} of {self.branch!r} after {self.commit}{held}>")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "name": self.name,
            "branch": self.branch,
            "commit": self.commit,
            "author": self.author,
            "changed": self.changed.isoformat(),
            "hold": self.hold,
            "holds": self.holds,
            "baseline": self.baseline,
        }


@checks_arguments
class Consumers(PublicNames):
    """The named consumers of a lake, as `lake.consumers`.

    >>> import quire
    >>> lake = quire.create("memory://consumers-example")
    >>> receipt = lake.create_table("t", [{"id": 1}])
    >>> consumer = lake.consumers.open("search", since="beginning", hold=86_400)
    >>> for block in consumer.changes():
    ...     consumer.commit(block)
    >>> lake.consumers.list()
    [<Consumer 'search' of 'main' after 1.0, holding for 86400 s>]
    """

    def __init__(self, lake: Lake) -> None:
        self._lake, self._core, self._live = lake, lake._core, lake._live
        self._stored = StoredConsumers(lake._core.store)

    def __repr__(self) -> str:
        return one_line(f"<Consumers of {self._lake.uri}>")

    def list(self) -> list[ConsumerInfo]:
        """Every consumer of the lake, by name."""
        now = clock.now() if (known := self._core.check().store.known_time()) is None else known
        return [_told(found, now) for found in self._stored.every() if not found.what.dropped]

    def open(
        self,
        name: str,
        *,
        since: str | None = None,
        tables: Sequence[str] | None = None,
        ops: Sequence[Op] | None = None,
        images: Literal["after", "both", "none"] | None = None,
        hold: float | None = None,
    ) -> Consumer:
        """The consumer of this name on this branch; a new one begins at `since`, by default with what comes now.

        `since`, `tables`, `ops` and `images` are as in `Lake.changes`. One that exists goes on where it stands; other
        tables, ops or images are refused. `hold` is how many seconds after each commit cleanup keeps what follows it;
        by default it keeps nothing.
        """
        self._core.check_writable()
        check_ref(name, "consumer")
        if hold:
            bounded("hold", hold, SHORTEST, LONGEST)
        for _ in range(TRIES):
            found = self._stored.get(name)
            if found is not None and not found.what.dropped:
                self._check_same(found.what, tables, ops, images)
                consumer = Consumer(self, self._live, found)
                if hold is not None and hold != found.what.hold:
                    consumer._renew(float(hold))
                return consumer
            fresh = self._fresh(name, since or "now", tables, ops, images or "after", float(hold or 0))
            number = found.number + 1 if found is not None else 0
            if self._make(fresh, number):
                made = self._stored.get(name)
                if made is not None and not made.what.dropped:
                    self._core.did("open", CONSUMER, name)
                    return Consumer(self, self._live, made)
        raise _busy(name)

    def drop(self, name: str) -> None:
        """Forget a consumer, and let go of what it holds."""
        author = self._core.check_writable().author
        for _ in range(TRIES):
            found = self._get(name)
            gone = msgspec.structs.replace(found.what, write=new_id(), author=author, dropped=True)
            if self._stored.create(gone, found.number + 1):
                self._stored.forget(name, [n for n in self._stored.written(name) if n <= found.number])
                self._core.did("drop", CONSUMER, name)
                return
        raise _busy(name)

    def _get(self, name: str) -> Generation:
        found = self._stored.get(name)
        if found is None or found.what.dropped:
            raise ConsumerNotFound(
                f"There is no consumer {name!r}.",
                next="`quire consumer list` shows them; lake.consumers.open makes one.",
                consumer=name,
            )
        return found

    def _check_same(self, known: StoredConsumer, tables: Any, ops: Any, images: Any) -> None:
        if known.line.branch != self._live.line.branch:
            raise InvalidInput(
                f"Consumer {known.name!r} follows branch {known.branch!r}, not {self._live.name!r}.",
                next="Open it on that branch, or use another name.",
                consumer=known.name,
            )
        for what, mine, its in (("tables", tables, known.tables), ("ops", ops, known.ops)):
            if mine is not None and sorted(set(mine)) != sorted(its or ()):
                raise self._another(known.name, what)
        if images is not None and images != known.images:
            raise self._another(known.name, "images")

    def _another(self, name: str, what: str) -> InvalidInput:
        return InvalidInput(
            f"Consumer {name!r} follows other {what}.",
            next=f"Leave out {what}, or drop the consumer and make it again.",
            consumer=name,
        )

    def _fresh(self, name: str, since: str, tables: Any, ops: Any, images: str, hold: float) -> StoredConsumer:
        filters: dict[str, Any] = {"tables": tables, "ops": ops, "images": images, "net": False, "follow": False}
        feed = Feed(self._core, self._live, since, poll=1.0, timeout=None, **filters)  # it checks all of them
        return StoredConsumer(
            format=FORMAT,
            write=new_id(),
            name=name,
            branch=self._live.name,
            line=self._live.line,
            at=feed._at,
            author=self._core.author,
            time=record_time.now(self._core.store),
            hold=hold,
            baseline=since == "baseline",
            tables=None if tables is None else tuple(sorted(set(tables))),
            ops=None if ops is None else tuple(sorted(set(ops))),
            images=images,
        )

    def _make(self, fresh: StoredConsumer, number: int) -> bool:
        """Write a consumer that holds nothing yet. `FeedGap` if it would hold what cleanup may have removed."""
        if not fresh.hold:
            return self._stored.create(fresh, number)

        def take_back(made: bool) -> None:
            if made:
                self._stored.create(msgspec.structs.replace(fresh, write=new_id(), dropped=True), number + 1)

        try:
            return protect(
                self._core, self._live, fresh.line, fresh.at, lambda: self._stored.create(fresh, number), take_back
            )
        except SnapshotExpired as error:
            raise self._feed(fresh)._expired(error) from error

    def _scope(self, what: StoredConsumer) -> Scope:
        """What its cursors are bound to."""
        return Scope.of(self._core.about.lake, what.line.branch, what.tables, what.ops, what.images)

    def _feed(self, what: StoredConsumer, **how: Any) -> Feed:
        asked: dict[str, Any] = {"tables": what.tables, "ops": what.ops, "images": what.images, "net": False}
        asked |= {"follow": False, "poll": 1.0, "timeout": None, **how}
        scope = self._scope(what)
        since = "baseline" if what.baseline else scope.cursor(what.at)
        return Feed(self._core, self._live, since, held=bool(what.hold), **asked)


@checks_arguments
class Consumer(PublicNames):
    """A named reader of changes. Read `changes()`, and `commit` each block when you are done with it."""

    def __init__(self, consumers: Consumers, live: LiveBranch, found: Generation) -> None:
        self._consumers, self._live, self._found = consumers, live, found
        self._stored = consumers._stored

    @property
    def name(self) -> str:
        """Its name."""
        return self._found.what.name

    @property
    def at(self) -> str:
        """The last commit that it is done with, as far as this handle knows."""
        return self._found.what.at.commit

    def __repr__(self) -> str:
        return one_line(f"<Consumer {self.name!r} of {self._found.what.branch!r} after {self.at}>")

    def changes(self, *, follow: bool = False, poll: float = 1.0, timeout: float | None = None) -> Feed:
        """What was committed since it was last here, whichever process that was; as `Lake.changes`."""
        self._found = self._consumers._get(self.name)
        return self._consumers._feed(self._found.what, follow=follow, poll=poll, timeout=timeout)

    def commit(self, upto: ChangeBlock | str) -> None:
        """It is done with a block, or with everything up to a cursor: the next `changes()` begins after it.

        Going back does nothing. `FeedGap` if its hold had run out and cleanup was there since.
        """
        self._consumers._core.check_writable()
        what = self._found.what
        scope = self._consumers._scope(what)
        cursor = upto if isinstance(upto, str) else upto.cursor
        self._step(scope.parse(cursor), None)

    def renew(self) -> None:
        """Let its hold run from now, without moving on."""
        self._consumers._core.check_writable()
        self._renew(None)

    def _renew(self, hold: float | None) -> None:
        self._step(None, hold)

    def reset(self, since: str) -> None:
        """Begin anew: at "baseline", "now", "beginning", a commit or a cursor. It may go back, and ends a `FeedGap`."""
        self._consumers._core.check_writable()
        for _ in range(TRIES):
            found = self._consumers._get(self.name)
            what = found.what
            fresh = self._consumers._fresh(self.name, since, what.tables, what.ops, what.images, what.hold)
            if self._consumers._make(fresh, found.number + 1):
                self._settled(found.number + 1)
                self._consumers._core.did("reset", CONSUMER, self.name)
                return
        raise _busy(self.name)

    def _step(self, to: Point | None, hold: float | None) -> None:
        found = self._found
        for _ in range(TRIES):
            what = found.what
            on = to is not None and (what.baseline or (to.slot, to.index) > (what.at.slot, what.at.index))
            if to is not None and not on:
                self._found = found
                return
            made = msgspec.structs.replace(
                what,
                write=new_id(),
                at=to if to is not None else what.at,
                baseline=what.baseline and to is None,
                hold=what.hold if hold is None else hold,
                author=self._consumers._core.author,
                time=record_time.now(self._consumers._core.store),
            )
            if self._stored.create(made, found.number + 1):
                self._found = Generation(found.number + 1, found.modified, made)
                self._consumers._core.did("commit", CONSUMER, self.name)
                self._check_held(found, self._settled(found.number + 1))
                return
            found = self._consumers._get(self.name)  # another process under this name
        raise _busy(self.name)

    def _settled(self, number: int) -> datetime | None:
        """Remove former generations; when this one was written."""
        written = self._stored.written(self.name)
        self._stored.forget(self.name, [n for n in written if n < number])
        return written.get(number)

    def _check_held(self, before: Generation, written: datetime | None) -> None:
        """Whether it has held all the time what it holds now, or there was no cleanup that would have taken it."""
        what = self._found.what
        if written is not None:
            self._found = Generation(self._found.number, written, what)
        if not what.hold:
            return
        lasting = timedelta(seconds=before.what.hold)
        if before.what.hold and written is not None and written - before.modified <= lasting:
            return
        state = self._live.refresh()
        at = what.at
        if at.branch == self._live.line.branch and at.slot >= state.floor:
            return
        feed = self._consumers._feed(what)
        try:
            feed._check_kept()
        except FeedGap:
            raise
        except SnapshotExpired as error:
            raise feed._expired(error) from error


def _told(found: Generation, now: datetime) -> ConsumerInfo:
    what = found.what
    return ConsumerInfo(
        name=what.name,
        branch=what.branch,
        commit=what.at.commit,
        author=what.author,
        changed=found.modified,
        hold=what.hold,
        holds=found.holds(now, timedelta(0)),
        baseline=what.baseline,
    )


def _busy(name: str) -> Conflict:
    return Conflict(
        f"Others moved consumer {name!r} {TRIES} times in a row.",
        next="Let one process at a time work under one name.",
        retryable=True,
        consumer=name,
    )
