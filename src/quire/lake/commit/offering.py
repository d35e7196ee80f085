"""A transaction that keeps losing races offers its commit to whoever publishes next, and watches the log.

    offer   staged work becomes an object that others may take along (`ledger/offers`)
    watch   its write id in a record: committed, with that id; the log beyond `until` without it: certainly not
    lead    it may publish itself at any time, and does when its turn comes: nobody depends on a taker

On a quiet branch none of this happens: a transaction that loses once just tries again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from quire.errors import BranchClosed, CommitUnknown, Conflict, Fenced, IntegrityError, QuireError
from quire.lake.commit.rebase import Taken, guarded, needs, taken_in
from quire.lake.publish.offered import SILENT_ROUNDS, takeable
from quire.lake.publish.publish import entry_of, stage, unknown
from quire.lake.publish.slot_members import is_loner, only_adds
from quire.ledger import FORMAT
from quire.ledger.offers import ROW_OPS, SPAN, Offer, encode_offer
from quire.store import clock

if TYPE_CHECKING:
    from quire.formats import Staged
    from quire.lake.commit.transaction import Transaction

JUDGED = (Conflict, Fenced, BranchClosed, IntegrityError)
"""Errors whose reason lies in a record that every taker must have read, and for which it must leave the offer."""

LATE = 2
"""Slots that pass a writer by before it takes that as a reason to lead."""


class Offering:
    """One transaction's way to a slot where others compete for it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx, self._live, self._offers = tx, tx.live, tx.live.offers
        self._turn: float | None = None
        """When it leads by itself, if nobody has taken its commit by then."""
        self._news = 0.0
        """When somebody else was last seen to publish."""
        self._passed = 0
        """How often somebody did, and did not take it along."""
        self._offer: Offer | None = None
        self._keys: list[str] = []
        self._looked = 0
        self.losses = 0

    @property
    def waits(self) -> bool:
        """Whether it is to offer and to wait now, rather than to publish: others compete, and it is not its turn."""
        if not self._offers.contended or self._is_late():
            return False
        if self._turn is None:
            self._news, self._passed = clock.monotonic(), 0
            window = 0.0 if self._offers.leads else self._offers.window() / (1 + self.losses)
            self._turn = self._news + clock.uniform(0, window)
        return self._left(self._turn) > self._offers.hop

    def _left(self, turn: float) -> float:
        """Seconds until it leads: half of them for every few rounds in which nobody does, for then rivals have gone."""
        silent = clock.monotonic() - self._news
        rounds = silent / (SILENT_ROUNDS * self._offers.pace())
        left: float = max(0.0, turn - self._news) * 0.5 ** min(rounds, 64.0)
        return left - silent

    def _is_passed(self) -> None:
        """Somebody leads, and has not taken it along: perhaps it came late. Once or twice that is no reason to race."""
        self._news = clock.monotonic()
        self._passed += 1
        if self._turn is not None and self._passed <= LATE:
            self._turn = max(self._turn, self._news + self._offers.pace())

    def _is_late(self) -> bool:
        return self._tx.deadline is not None and clock.monotonic() >= self._tx.deadline

    def lost(self, others: int) -> None:
        """The slot went to somebody else, with so many commits.

        As many others compete as are in that slot, and as have been faster one after the other, each in its own.
        """
        self.losses += 1
        self._turn = None
        self._live.met_others()
        if self.losses > 1 or others > 1 or self._offers.contended:
            self._offers.met(max(others, self.losses))

    def wait(self) -> None:
        """Offer what is staged, and wait for it to be taken (`Taken`), for a reason to move, or for its turn."""
        tx = self._tx
        if self._offer is None or not self._is_good():
            self._offer = self._make()
        self._looked = tx.at.slot
        while self._turn is not None and (left := self._left(self._turn)) > 0:
            if self._is_late() or not self._offers.contended:
                return
            clock.sleep(min(left, self._offers.pause() * clock.uniform(0.5, 1.5)))
            seen = self._offers.watch()
            if seen.slot > self._looked:
                taken_in(tx, self._live.history.between(self._looked, seen.slot))
                self._looked = seen.slot
                self._is_passed()
                if self._offer is not None and not self._is_good():
                    return
        self._offers.call(tx.background)

    def _is_good(self) -> bool:
        """Whether the offer may still be taken after the newest state that is known."""
        offer, seen = self._offer, self._live.state
        if offer is None:
            return False
        since = self._live.history.between(offer.base, seen.slot)
        return takeable(offer, seen, since, self._live.line.branch, self._live.history.pages) is not None

    def _make(self) -> Offer | None:
        """Write an offer of the commit as it is staged; None when it is not of the kind that can be offered."""
        tx, live = self._tx, self._live
        resting = rests_on(tx)
        if resting is None:
            return None
        staged = stage(tx)
        note = live.core.writers.note
        offer = Offer(
            format=FORMAT,
            branch=live.line.branch,
            base=tx.at.slot,
            previous=tx.at.write,
            until=tx.at.slot + SPAN,
            epoch=tx.at.epoch,
            commit=entry_of(tx, staged),
            needs=dict(resting),
            additions=_additions(tx, staged),
            note=note.id if note is not None else None,
        )
        body = encode_offer(offer)
        if body is None and offer.additions:
            offer = msgspec.structs.replace(offer, additions={})
            body = encode_offer(offer)
        if body is None:
            return None
        tx.until = max(tx.until, offer.until)  # before it is sent: whatever comes of that, it may be there
        self._keys.append(offer.key)
        began = clock.monotonic()
        with contextlib.suppress(QuireError):
            live.core.store.put(offer.key, body)
        self._offers.took(clock.monotonic() - began)
        return offer

    def interrupted(self) -> None:
        """Somebody stopped this thread: what was offered may still be committed."""
        if self._tx.until > self._tx.at.slot and self._tx.status != "committed":
            self._tx.slot, self._tx.status = self._tx.at.slot + 1, "unknown"

    # -- its end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The transaction has ended: what it has offered can go, once that is of no use to anybody."""
        if self._tx.status != "unknown":
            self._offers.over(self._keys, self._tx.background)

    def ended(self, error: Exception, *, tired: bool = False) -> Exception:
        """What an error means for a transaction that has offered its commit; `Taken` when it was committed.

        As long as somebody may take the offer, "nothing was committed" can only be said for a reason that every taker
        knows too. That others were faster every time, of which it is `tired`, is none.
        """
        tx, live = self._tx, self._live
        if tx.until <= tx.at.slot or isinstance(error, Taken | CommitUnknown):
            return error
        known = live.state
        with contextlib.suppress(QuireError):
            known = live.refresh()
        try:
            with contextlib.suppress(QuireError):
                taken_in(tx, live.history.between(tx.at.slot, known.slot))
                if known.slot >= tx.until:
                    return error
        except Taken as taken:
            return taken
        if isinstance(error, JUDGED) and not tired:
            return error
        tx.slot, tx.status = tx.at.slot + 1, "unknown"
        found = unknown(tx)
        found.__cause__ = error
        return found


def rests_on(tx: Transaction) -> Mapping[str, str] | None:
    """What a commit needs to find as it is, as versions by table; None when it cannot be offered."""
    serializable = tx.isolation == "serializable"
    if is_loner(tx) or tx.reverts is not None or tx.joining is not None or (serializable and tx.listed_names):
        return None
    changed = [edit for edit in tx.edits.values() if edit.changed]
    for edit in changed:
        beside = edit.created or edit.dropped or edit.renamed or edit.pin is not None or edit.work is None
        if beside or edit.base is None or edit.info != edit.base.info or not ROW_OPS.issuperset(edit.ops):
            return None
    names = set(tx.expect) | (tx.read_names if serializable else set())
    found = {name: tx.at.by_name(name) for name in names}
    tables = needs(tx) | {state.info.id for state in found.values() if state is not None}
    if not changed or None in found.values() or not tables <= tx.at.tables.keys():
        return None
    return {table: tx.at.tables[table].pin.version for table in sorted(tables)}


def _additions(tx: Transaction, staged: Mapping[str, Staged]) -> dict[str, str]:
    """What it adds to tables to which it does nothing else, for those who stage it behind others' rows."""
    if guarded(tx):
        return {}
    found = {}
    expected = {state.info.id for name in tx.expect if (state := tx.at.by_name(name)) is not None}
    for table in staged:
        edit = tx.edits[table]
        if table in expected:
            continue  # it must stand as it stood
        if edit.work is not None and only_adds(tx, table) and edit.ops in (["append"], ["insert"]):
            told = tx.live.core.format(staged[table].pin.format).additions(edit.work)
            if told is not None:
                found[table] = told
    return found
