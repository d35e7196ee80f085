"""Group commit: transactions of one process that are ready at the same moment share a slot.

    join     a transaction that is ready stands in the queue of its branch
    lead     whoever finds nobody publishing leads: it takes everybody who waits, in the order in which they came
    choose   who can follow those before it without their results; the others wait for the next slot (`company`)
    stage    what only the order decides: the rows of members that append to one table, each behind those before it
    publish  one record, one create-if-absent PUT; every member is told its own outcome

Nobody waits for company: a transaction that finds the branch idle publishes at once. Those that come while a slot is
on its way are the next group, so the number of commits per slot follows the load.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Literal

from quire.errors import CommitUnknown, Refused
from quire.lake.commit.rebase import needs
from quire.lake.publish.publish import lead, unknown
from quire.lake.receipt import Receipt
from quire.store import active_meters, awaited, clock, phase, submit

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.commit.transaction import Transaction

SETTLE_SECONDS = 15.0
MAX_MEMBERS = 128

_tickets = itertools.count(1)


def ticket() -> int:
    """A place in the order of those who wait."""
    return next(_tickets)


class Member:
    """A transaction at one try for a slot."""

    def __init__(self, tx: Transaction, counts: dict[str, int], attempt: int, ticket: int) -> None:
        self.tx, self.counts, self.attempt, self.ticket = tx, counts, attempt, ticket
        self.tables = needs(tx)
        self.meters = active_meters()
        self.receipt: Receipt | None = None
        self.error: Exception | None = None
        self.lost = False
        """Whether another process took the slot."""
        self.gone = False
        """Whether it must not be published any more: the caller has given up."""
        self.sent = False
        """Whether it is part of a record that is on its way to the store."""
        self._state: Literal["waiting", "leads", "settled"] = "waiting"
        self._changed = clock.condition()

    def settle(self, receipt: Receipt | None = None, error: Exception | None = None, *, lost: bool = False) -> bool:
        """Tell the member its outcome; neither receipt nor error means: try again. False when it was told before."""
        with self._changed:
            if self._state == "settled":
                return False
            self.receipt, self.error, self.lost = receipt, error, lost
            self._state = "settled"
            self._changed.notify_all()
            return True

    def tell_to_lead(self) -> None:
        with self._changed:
            if self._state == "waiting":
                self._state = "leads"
                self._changed.notify_all()

    @property
    def settled(self) -> bool:
        return self._state == "settled"

    @property
    def leads(self) -> bool:
        return self._state == "leads"

    def wait(self, until: float | None) -> bool:
        """Wait to be settled or told to lead. False when time ran out first."""
        with self._changed:
            while self._state == "waiting":
                left = None if until is None else until - clock.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
            return True

    def wait_settled(self, until: float) -> bool:
        """Wait for the outcome. False when it did not come, or only another Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt), self._changed:
            while self._state != "settled" and (left := until - clock.monotonic()) > 0:
                self._changed.wait(left)
        return self.settled

    def stop(self, error: Exception | None) -> None:
        """The leader broke down: what was sent has an outcome that nobody knows, everything else is tried again."""
        if self.tx.status == "publishing":
            self.give_up()
        else:
            self.settle(error=error)

    def give_up(self) -> None:
        """Nobody can wait any longer for what the store says."""
        if self.settle(error=unknown(self.tx)):
            self.tx.status = "unknown"

    def outcome(self) -> Receipt | None:
        if self.error is not None:
            raise self.error
        return self.receipt


class Group:
    """The queue of one branch in this process."""

    def __init__(self, live: LiveBranch) -> None:
        self._live = live
        self._lock = clock.lock()
        self._waiting: list[Member] = []
        self._taken: list[Member] = []
        self._eager: deque[Member] = deque()
        """Members that were passed over too often: each leads as soon as it can, and gets ready only then."""
        self._leader: Member | None = None
        self._leading: int | None = None
        """The thread that leads."""

    def is_busy(self, tables: set[str]) -> bool:
        """Whether somebody before us may still change one of these tables."""
        with self._lock:
            return any(tables & other.tables for other in (*self._waiting, *self._taken))

    def join(self, member: Member) -> Receipt | None:
        """Publish together with whoever else is ready. None: try again, on the newest state."""
        with phase("wait"):
            self._uninterrupted(member, lambda: self._join(member))
        return member.outcome()

    def join_first(self, member: Member, prepare: Callable[[], bool]) -> Receipt | None:
        """Lead, and let nobody of this process publish meanwhile: get ready, then publish before all who wait.

        When `prepare` says no, the member tries again.
        """
        with phase("wait"):
            self._uninterrupted(member, lambda: self._join_first(member, prepare))
        return member.outcome()

    def _join(self, member: Member) -> None:
        with self._lock:
            self._check_not_leading()
            if member.gone:
                return  # it was taken back before its thread came to run
            self._waiting.append(member)
            self._leader = self._leader or member
            leads = self._leader is member
        if leads or self._waits_to_lead(member):
            self._lead(member)

    def _join_first(self, member: Member, prepare: Callable[[], bool]) -> None:
        with self._lock:
            self._check_not_leading()
            if member.gone:
                return
            leads = self._leader is None
            if leads:
                self._leader = member
            else:
                self._eager.append(member)
        if leads or self._waits_to_lead(member):
            self._lead(member, prepare)

    def _check_not_leading(self) -> None:
        if self._leading == threading.get_ident():
            raise Refused(
                f"A validator tried to commit to branch {self._live.name!r} while that branch is being published.",
                next="Let the validator only read its transaction.",
                branch=self._live.name,
            )

    # -- waiting ----------------------------------------------------------------------------------------------

    def _waits_to_lead(self, member: Member) -> bool:
        """Wait for one's turn to lead; False when the member was settled by another."""
        try:
            if member.wait(member.tx.deadline):
                return member.leads
        except BaseException:  # something stopped this thread
            if not self._leave(member) and not member.settled:
                member.give_up()
            raise
        if self._leave(member):
            member.tx._check_deadline()
        elif not member.wait_settled(clock.monotonic() + SETTLE_SECONDS):
            member.give_up()
        return False

    def _leave(self, member: Member) -> bool:
        """Leave the queue, and let another lead if it was one's turn; False when it is too late for that."""
        if not self._withdraw(member):
            return False
        if self._leader is member:
            self._pass_on()
        return True

    def _withdraw(self, member: Member) -> bool:
        """Take a member back, so that it can never be published; False when it is on its way to the store."""
        with self._lock:
            if member.sent or member.settled:
                return False
            member.gone = True
            self._waiting = [other for other in self._waiting if other is not member]
            self._eager = deque(other for other in self._eager if other is not member)
            if self._leader is not member:
                member.settle()
            return True

    def send(self, members: list[Member]) -> bool:
        """From here on they can no longer be taken back; False when one of them was."""
        with self._lock:
            if any(member.gone for member in members):
                return False
            for member in members:
                member.sent = True
            return True

    def _uninterrupted(self, member: Member, work: Callable[[], None]) -> None:
        """Run it where no signal can part a request from its outcome: what they raise, the main thread alone gets."""
        if clock.simulated() or threading.current_thread() is not threading.main_thread():
            work()
            return
        awaited()
        future: Future[None] | None = None
        try:
            future = submit(work)
            future.result()
        except BaseException as error:
            if future is not None and future.done() and future.exception() is error:
                raise  # not from outside
            if self._withdraw(member):
                member.tx.status = "discarded"
                raise
            if not member.wait_settled(clock.monotonic() + SETTLE_SECONDS):
                member.give_up()
            if isinstance(member.error, CommitUnknown):
                raise member.error from None
            if member.tx.status == "open":
                member.tx.status = "discarded"
            raise

    # -- leading ----------------------------------------------------------------------------------------------

    def _lead(self, leader: Member, prepare: Callable[[], bool] | None = None) -> None:
        self._leading = threading.get_ident()
        try:
            if prepare is not None:
                if not prepare():
                    leader.settle()
                    return
                leader.ticket = 0
            members = self._take(leader)
            try:
                lead(self._live, members)
            except BaseException as error:
                for member in members:
                    member.stop(error if member is leader and isinstance(error, Exception) else None)
                if not isinstance(error, Exception):
                    raise
            finally:
                with self._lock:
                    self._taken = [other for other in self._taken if other not in members]
        finally:
            self._pass_on()

    def _take(self, leader: Member) -> list[Member]:
        """Those who come along, in the order in which they came."""
        with self._lock:
            if leader.gone:
                self._waiting = [other for other in self._waiting if other is not leader]
                return []
            others = [m for m in self._waiting if m is not leader] if self._live.core.grouped else []
            taken = sorted([leader, *others[: MAX_MEMBERS - 1]], key=_ticket)
            self._waiting = [other for other in self._waiting if other not in taken]
            self._taken += taken
            return taken

    def _pass_on(self) -> None:
        """Let the next one lead."""
        with self._lock:
            self._leading = None
            self._waiting = [other for other in self._waiting if other is not self._leader]
            following = self._eager.popleft() if self._eager else min(self._waiting, key=_ticket, default=None)
            self._leader = following
            if following is not None:
                following.tell_to_lead()


def _ticket(member: Member) -> int:
    return member.ticket
