"""Commits that other processes have offered, and which of them may come along into the next slot.

Whoever is about to publish and knows of rivals lists the offers of the branch. One may be taken when *nothing has to be
judged*: everything that it needs stands as it stood where it was staged, or others have only added rows to a table to
which it only adds rows. Its write id is in no record since, so a write enters a log at most once, whoever carries it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from quire.errors import QuireError
from quire.lake.commit import record_values, tokens
from quire.lake.commit.fairness import call
from quire.lake.publish.slot_members import Additions
from quire.ledger import Change, OpaqueToken, Pin, Record, State, StreamToken
from quire.ledger.offers import Named, Offer, living, read_offers
from quire.store import clock

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.upkeep.background import Background
    from quire.ledger.token_pages import TokenPages

CONTENDED_SECONDS = 1.0
"""How long rivals are expected after they were seen last, at least."""
ROUND_HOPS = 4
"""Requests in a row that it takes to publish with others' commits: list, read, stage, create."""
MOST_ROUNDS = 64.0
SHORTEST_ROUND, LONGEST_ROUND = 0.001, 5.0
"""Seconds that a round counts: one that takes longer has met an outage."""
SILENT_ROUNDS = 2.0
"""For so many rounds nobody has to have published before a writer's turn comes twice as soon."""
CALL_SECONDS = 1.0
TIDY_SECONDS = 1.0
MOST_READ = 256
"""Offers that are read for one slot."""
FIRST_HOP = 0.01
"""Seconds that a request takes, before one was seen."""

_VERSION = re.compile(r"[0-9A-Za-z]{1,64}")


class Offers:
    """What a handle knows of those who compete with it for the slots of a branch, and of what they offer."""

    def __init__(self, live: LiveBranch) -> None:
        self._live = live
        self._read: dict[str, Offer | None] = {}
        self._until = float("-inf")
        self._asked = float("-inf")
        self._over: list[str] = []
        self._called = float("-inf")
        self.hop = FIRST_HOP
        """Seconds that a request takes."""
        self._measured = False
        self.round = 0.0
        """Seconds that it took this handle to publish with others' commits."""
        self.rivals = 1.0
        """How many others compete, about."""
        self.led = -1
        """The newest slot that this handle has published."""

    @property
    def on(self) -> bool:
        """Whether this handle offers and takes. The log of objects alone knows offers."""
        return self._live.core.offers and self._live.core.ledger.name == "log"

    @property
    def contended(self) -> bool:
        """Whether others were seen to compete lately."""
        return self.on and clock.monotonic() < self._until

    def met(self, others: int) -> None:
        """Somebody else has published, or offered, just now."""
        self.rivals = max(float(others), self.rivals * 0.8, 1.0)
        self._until = clock.monotonic() + max(CONTENDED_SECONDS, 4 * self.window())
        if self.on:
            self._live.met_others()

    def alone(self) -> None:
        """Others were expected, and have offered nothing."""
        self.rivals = max(1.0, self.rivals / 2)
        self._until = min(self._until, clock.monotonic() + max(CONTENDED_SECONDS, 4 * self.window()))

    def pace(self) -> float:
        """Seconds that it takes to publish with others' commits."""
        return max(self.round, ROUND_HOPS * self.hop, SHORTEST_ROUND)

    def window(self) -> float:
        """Seconds over which rivals spread their turns, so that one of them leads at a time."""
        return min(MOST_ROUNDS, self.rivals) * self.pace()

    def took(self, seconds: float, *, round: bool = False) -> None:
        """Note how long a request, or a whole round, has taken."""
        if round:
            seconds = min(seconds, LONGEST_ROUND)
            self.round = seconds if not self.round else 0.7 * self.round + 0.3 * seconds
        else:
            self.hop = 0.8 * self.hop + 0.2 * seconds if self._measured else seconds
            self._measured = True

    @property
    def leads(self) -> bool:
        """Whether the newest slot is this handle's: then it goes on to lead, and the others can be taken along."""
        return self._live.state.slot == self.led

    # -- watching -----------------------------------------------------------------------------------------------

    def watch(self) -> State:
        """The newest state, asked for at most once in a while by all threads of the process together."""
        live = self._live
        began = clock.monotonic()
        if began - max(live.heard, self._asked) >= self.pause() / 2:
            self._asked = began
            with contextlib.suppress(QuireError):
                live.refresh()
                self.took(clock.monotonic() - began)
        return live.state

    def pause(self) -> float:
        """Seconds between two looks at the log: more, the more others look too."""
        return max(self.hop, 0.002 * self.rivals)

    def call(self, background: Background | None) -> None:
        """Tell those who never lose a race, and so look for no offers, that there are some. They look once a second."""
        live, now = self._live, clock.monotonic()
        if background is not None and now - self._called >= CALL_SECONDS:
            self._called = now
            background.submit(("call", live.name), partial(call, live.core.store, live.line.branch, live.seat))

    # -- what others offer --------------------------------------------------------------------------------------

    def takeable(self, seen: State) -> list[tuple[Offer, frozenset[str]]]:
        """The offers that may come along after `seen`, oldest first, and the tables that have to be staged anew."""
        live, slot = self._live, seen.slot
        with contextlib.suppress(QuireError):
            names = living(live.core.store, live.line.branch, slot)
            recent = live.history.between(min([slot, *(n.base for n in names if n.base <= slot)]), slot)
            known = _committed(recent)
            names = [n for n in names if n.base <= slot and n.write not in known]
            self._fetch(names)
            found = []
            for name in names:
                offer = self._read.get(name.key)
                if offer is not None:
                    since = [record for record in recent if record.slot > offer.base]
                    grown = takeable(offer, seen, since, live.line.branch, live.history.pages)
                    if grown is not None:
                        found.append((offer, grown))
            if names:
                self.met(len(names))
            else:
                self.alone()
            return found
        return []

    def _fetch(self, names: Sequence[Named]) -> None:
        """Read what was not read yet. Offers never change."""
        wanted = [name.key for name in names]
        self._read = {key: self._read[key] for key in wanted if key in self._read}
        unread = [key for key in wanted if key not in self._read][:MOST_READ]
        if unread:
            self._read.update(read_offers(self._live.core.store, unread))

    def ignore(self, offer: Offer) -> None:
        """An offer turned out to be of no use."""
        self._read[offer.key] = None

    # -- what is over -------------------------------------------------------------------------------------------

    def over(self, keys: Sequence[str], background: Background | None) -> None:
        """Offers of our own that nobody needs any more."""
        self._over += keys
        if keys and background is not None:
            background.submit(("offers", self._live.name), self.tidy, delay=TIDY_SECONDS)

    def tidy(self) -> None:
        """Remove offers of our own that are over, in the background. What is left behind, cleanup removes."""
        while self._over:
            self._live.core.store.delete(self._over.pop())


def _committed(records: Sequence[Record]) -> set[str]:
    """Every write id of these records."""
    return {write for r in records for write in (r.write, *r.writes, *(c.write for c in r.commits))}


def takeable(
    offer: Offer, seen: State, since: Sequence[Record], log: str, pages: TokenPages | None = None
) -> frozenset[str] | None:
    """Whether an offer may be taken into the slot after `seen`; of its tables, those that have to be staged anew.

    `since` are all records after its base. None: it may not, now or ever again.
    """
    commit = offer.commit
    if offer.branch != log or not offer.base <= seen.slot < offer.until or seen.closed or seen.partial:
        return None
    if [record.slot for record in since] != list(range(offer.base + 1, seen.slot + 1)):
        return None
    if (since[0].previous if since else seen.write) != offer.previous:
        return None  # it was made for another log, as one that was restored from a copy is
    if seen.epoch != offer.epoch or offer.note in seen.revoked:
        return None
    if any(record.kind != "commits" or record.wrote(commit.write) for record in since):
        return None  # a floor, a claim, or the commit itself
    if not _fresh(commit.stream, commit.token, seen, pages):
        return None
    rivals: dict[str, list[Change]] = {}
    for record in since:
        for other in record.commits:
            for change in other.changes:
                rivals.setdefault(change.table, []).append(change)
    grown = frozenset(rivals.keys() & offer.needs.keys())
    for table, version in offer.needs.items():
        now = seen.tables.get(table)
        if now is None:
            return None
        if table not in rivals:
            if now.pin.version != version:
                return None
        elif table not in offer.additions:
            return None
    for change in commit.changes:
        if not _fits(change, seen, rivals.get(change.table)):
            return None
    return grown if _told(offer) else None


def _fits(change: Change, seen: State, rivals: Sequence[Change] | None) -> bool:
    """Whether a change of an offered commit can be the next of its table."""
    now, pin = seen.tables[change.table], change.pin
    if pin is None or change.name != now.info.name or not _may_follow(pin, now.pin):
        return False
    if rivals is None:
        return pin.counter == now.pin.counter + 1
    return all(_adds_beside(rival, change) for rival in rivals)


def _adds_beside(rival: Change, change: Change) -> bool:
    """Whether both only add rows, with other keys."""
    if rival.info is not None or rival.pin is None:
        return False
    before = Additions()
    before.add(rival.ops, rival.keys)
    return before.have_room_for(change.ops, change.keys)


def _may_follow(pin: Pin, now: Pin) -> bool:
    """Whether a pin can be a later state of the same table, at its own place."""
    same = (pin.format, pin.location, pin.head) == (now.format, now.location, now.head)
    numbered = pin.version.isdecimal() or not now.version.isdecimal()
    return same and numbered and _VERSION.fullmatch(pin.version) is not None


def _fresh(stream: StreamToken | None, token: OpaqueToken | None, seen: State, pages: TokenPages | None) -> bool:
    """Whether a token was not used yet, as far as that can be told without a request."""
    if stream is None and token is None:
        return True
    if stream is not None and stream.scope not in seen.streams and seen.stream_pages:
        return False
    if token is not None and (any(ref.may_hold(token.minted) for ref in seen.token_pages) or pages is None):
        return False
    try:
        if token is not None and tokens.parse(token.id) != (None, token):
            return False
        return pages is not None and tokens.used(seen, stream, token, pages) is False
    except QuireError:
        return False


def _told(offer: Offer) -> bool:
    """Whether what its writer says of it could have been given by a caller."""
    commit = offer.commit
    try:
        record_values.author(commit.author)
        record_values.message(commit.message)
        record_values.metadata(commit.metadata)
    except QuireError:
        return False
    return True
