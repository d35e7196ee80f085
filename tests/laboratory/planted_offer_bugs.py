"""Bugs in the rules of offers: what a taker, an owner or the outcome of a commit forgets."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from quire.lake.commit import attempt, offering, outcome
from quire.lake.commit import rebase as moving
from quire.lake.commit.offering import Offering
from quire.lake.publish import offered, publish, slot_members
from quire.lake.publish.slot_members import Company
from quire.lake.upkeep.cleanup import writer_note
from quire.ledger import Record, offers
from quire.ledger.offers import Offer
from quire.store import Outcome
from quire.testing.simulation.planting import Patch, bug, swap

_takeable = offered.takeable


def _taker(change: Any) -> Patch:
    """A taker that is shown something else than there is."""

    def lenient(offer: Offer, seen: Any, since: Any, log: str, pages: Any = None) -> Any:
        offer, seen, since = change(offer, seen, since)
        return _takeable(offer, seen, since, log, pages)

    return swap(offered, "takeable", lenient)


@bug
def _taken_whatever_the_log_holds() -> Patch:
    """A taker does not look whether the commit that it takes along is in the log already."""

    class Forgetful(Record, frozen=True):
        def wrote(self, write: str) -> bool:
            return False

    def forget(offer: Offer, seen: Any, since: Any) -> Any:
        return offer, seen, [Forgetful(**{n: getattr(r, n) for n in r.__struct_fields__}) for r in since]

    stack = contextlib.ExitStack()
    stack.enter_context(_taker(forget))
    stack.enter_context(swap(offered, "_committed", lambda records: set()))
    return stack


@bug
def _taken_twice_into_one_slot() -> Patch:
    """A commit that is offered twice, or that is a member itself, is taken twice into one record."""

    def carry(self: Any, offer: Offer, grown: Any, work: Any) -> bool:
        known, self._writes = self._writes, set()
        try:
            return bool(_carry(self, offer, grown, work))
        finally:
            self._writes = known

    return swap(Company, "carry", carry)


_carry = Company.carry


@bug
def _taken_over_a_floor() -> Patch:
    """A taker takes an offer along that was made before a cleanup or a claim."""

    def blind(offer: Offer, seen: Any, since: Any) -> Any:
        plain = [msgspec.structs.replace(r, kind="commits", floor=None) if r.kind != "tombstone" else r for r in since]
        return msgspec.structs.replace(offer, epoch=seen.epoch, note=None), seen, plain

    return _taker(blind)


@bug
def _taken_after_its_end() -> Patch:
    """A taker takes an offer along whose last slot has passed: its writer may have moved on."""

    def late(offer: Offer, seen: Any, since: Any) -> Any:
        msgspec.structs.force_setattr(offer, "until", max(offer.until, seen.slot + 1))
        return offer, seen, since

    stack = contextlib.ExitStack()
    stack.enter_context(_taker(late))
    stack.enter_context(swap(offered, "living", _all_listed))
    stack.enter_context(swap(offering, "SPAN", 1))
    return stack


def _all_listed(store: Any, branch: str, head: int) -> Any:
    return _living(store, branch, max(0, head - 100))


_living = offers.living


@bug
def _needs_of_offers_not_compared() -> Patch:
    """A taker takes an offer along whatever others did to the tables that it needs."""

    def careless(offer: Offer, seen: Any, since: Any) -> Any:
        known = {t: seen.tables[t].pin for t in offer.needs if t in seen.tables}
        changes = tuple(
            msgspec.structs.replace(c, pin=msgspec.structs.replace(c.pin, counter=known[c.table].counter + 1))
            if c.pin is not None and c.table in known
            else c
            for c in offer.commit.changes
        )
        commit = msgspec.structs.replace(offer.commit, changes=changes)
        needs = {table: pin.version for table, pin in known.items()}
        bare = [msgspec.structs.replace(r, commits=tuple(_bare(c) for c in r.commits)) for r in since]
        msgspec.structs.force_setattr(offer, "commit", commit)
        msgspec.structs.force_setattr(offer, "needs", needs)
        return offer, seen, bare

    return _taker(careless)


def _bare(commit: Any) -> Any:
    return msgspec.structs.replace(commit, changes=())


@bug
def _members_before_an_offer_not_compared() -> Patch:
    """A taker does not compare what an offer needs with its own commits in the same slot."""

    def carry(self: Any, offer: Offer, grown: Any, work: Any) -> bool:
        known, self._moved = self._moved, {}
        try:
            return bool(_carry(self, offer, grown, work))
        finally:
            self._moved = {**known, **self._moved}

    return swap(Company, "carry", carry)


@bug
def _tokens_of_offers_not_compared() -> Patch:
    """A taker takes an offer along whose token was used since it was made."""

    def carry(self: Any, offer: Offer, grown: Any, work: Any) -> bool:
        known, self._tokens = self._tokens, set()
        try:
            return bool(_carry(self, offer, grown, work))
        finally:
            self._tokens |= known

    stack = contextlib.ExitStack()
    stack.enter_context(swap(offered, "_fresh", lambda stream, token, seen, pages: True))
    stack.enter_context(swap(Company, "carry", carry))
    return stack


@bug
def _owner_does_not_look() -> Patch:
    """A writer publishes its commit itself without looking whether somebody has taken its offer."""

    def nothing(tx: Any, records: Any) -> None:
        return None

    stack = contextlib.ExitStack()
    stack.enter_context(swap(moving, "taken_in", nothing))
    stack.enter_context(swap(offering, "taken_in", nothing))
    return stack


@bug
def _refused_while_offered() -> Patch:
    """A writer whose time has run out is told that nothing was committed, while others may take its offer."""
    return swap(Offering, "ended", lambda self, error, tired=False: error)


@bug
def _offered_when_acknowledged() -> Patch:
    """An offer whose write failed counts as not there, though it may land."""

    def make(self: Any) -> Any:
        until, put = self._tx.until, self._live.core.store.put
        sent: list[bool] = []

        def noted(key: str, data: bytes) -> None:
            put(key, data)
            sent.append(True)

        self._live.core.store.put = noted
        try:
            return _make(self)
        finally:
            vars(self._live.core.store).pop("put", None)  # another thread may have been here too
            if not sent:
                self._tx.until = until

    return swap(Offering, "_make", make)


_make = Offering._make


@bug
def _outcome_by_one_slot() -> Patch:
    """An unknown outcome is settled by the first slot that might have held the commit."""

    def settled(ledger: Any, log: str, slot: int, until: Any, write: str) -> Outcome:
        [record] = ledger.read(log, [slot])
        if record is None:
            return Outcome.UNKNOWN
        return Outcome.COMMITTED if record.wrote(write) else Outcome.CONFLICT

    stack = contextlib.ExitStack()
    stack.enter_context(swap(outcome, "settled", settled))
    stack.enter_context(swap(writer_note, "settled", settled))
    return stack


@bug
def _rows_before_an_offer_forgotten() -> Patch:
    """A taker takes an offer's table as it was staged, though others have added rows to it since."""

    def alone(live: Any, seen: Any, one: Any) -> None:
        one.commit = one.offer.commit

    return swap(publish, "_stage_carried", alone)


@bug
def _keys_of_offers_not_compared() -> Patch:
    """A taker takes an offer along that inserts a key which others have inserted since."""

    def room(self: Any, ops: Any, keys: Any) -> bool:
        return bool(list(ops) == self._ops)

    stack = contextlib.ExitStack()
    stack.enter_context(swap(slot_members.Additions, "have_room_for", room))
    return stack


@bug
def _taken_receipt_of_the_slot() -> Patch:
    """A writer whose offer was taken is told the first commit of the slot, which is another's."""
    carried = publish.carried

    def first(tx: Any, record: Any, index: int, *rest: Any) -> Any:
        return carried(tx, record, 0, *rest)

    return swap(attempt, "carried", first)
