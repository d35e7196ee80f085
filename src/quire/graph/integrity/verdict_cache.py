"""What a transaction was found right with, so that nobody looks twice while nothing has moved; and who looks.

Rows by themselves are vouched for by whoever has checked every one of them as it was written. Rows together are judged
on the very state that they land on: a verdict is good for the tables, the statements and the rules that it was made
with. When a rival moves one of them, it is made anew, by the same judge.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from quire.graph.catalog import Catalog
from quire.graph.integrity.changes import Changed, Looks
from quire.graph.integrity.distributed import Sent, Type, sent, sent_type
from quire.graph.integrity.row_rules import check_rows
from quire.graph.integrity.set_rules import ask_all
from quire.graph.integrity.violations import Violations
from quire.lake.commit.validators import Proposal

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction


class Judge(Protocol):
    """Looks at rows elsewhere, and adds what is wrong with them. It must not hold the transaction."""

    def __call__(self, sent: Sent, found: Violations) -> None:
        """The rows of changed types together."""

    def alone(self, type: Type, columns: Sequence[str], found: Violations) -> None:
        """The rows of a type that came, each by itself."""


_judges: weakref.WeakKeyDictionary[Transaction, Judge] = weakref.WeakKeyDictionary()
_vouched: weakref.WeakKeyDictionary[Transaction, dict[str, State]] = weakref.WeakKeyDictionary()
"""The tables whose rows of each transaction were looked at one by one."""
_judged: weakref.WeakKeyDictionary[Transaction, Verdict] = weakref.WeakKeyDictionary()
"""What each transaction was found right with last."""


class State:
    """What tells one state of a table from another: what it stands on, and the very statements on top of it."""

    def __init__(self, base: object, statements: tuple[object, ...] = ()) -> None:
        self.base, self.statements = base, statements

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State) or len(self.statements) != len(other.statements):
            return False
        same = all(a is b for a, b in zip(self.statements, other.statements, strict=True))
        return same and self.base == other.base

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Verdict:
    """That nothing is wrong with the changes of some types together.

    A table that was only looked at is not among `asked`: what the transaction does to it, or did to it before, has
    had no question of its own.
    """

    asked: frozenset[str]
    """Ids of the types whose own changes were asked about."""
    rules: State
    seen: dict[str, State]
    """Every table that an answer rests on, by id, as it was then."""


# -- rows together ----------------------------------------------------------------------------------------------------


def appoint(tx: Transaction, judge: Judge) -> None:
    """Let somebody else than this process look at what the rows of a transaction keep or break together."""
    _judges[tx] = judge


def check_sets(catalog: Catalog, changed: Sequence[Changed], looks: Looks, found: Violations) -> None:
    """Add what is wrong with the rows of all changed types together.

    What this transaction was found right with is not asked again while none of the tables has moved.
    """
    proposal = looks.proposal
    if _are_judged(proposal, changed):
        return
    count = found.count
    judge = _judges.get(proposal.tx)
    if judge is None or any(one.all_together for one in changed):
        looks.follow(changed)
        ask_all(catalog, changed, looks, found)
    else:
        judge(sent(catalog, changed, looks), found)
    if found.count == count:
        asked = frozenset(one.entity.id for one in changed)
        seen = {id: _state(proposal, id) for id in {*looks.seen, *asked}}
        _judged[proposal.tx] = Verdict(asked, _rules(proposal), seen)


def _are_judged(proposal: Proposal, changed: Sequence[Changed]) -> bool:
    known = _judged.get(proposal.tx)
    if known is None or not known.asked.issuperset(one.entity.id for one in changed):
        return False
    return known.rules == _rules(proposal) and all(state == _state(proposal, id) for id, state in known.seen.items())


def _rules(proposal: Proposal) -> State:
    """The definitions of all types: what is asked follows from them."""
    return State({info.id: info for info in proposal.infos()})


def _state(proposal: Proposal, id: str) -> State:
    table = proposal.change_of(id)
    if table is None:
        return State(proposal.pin(id))
    ran = table.ran()
    if ran is None:
        return State(table.stands_on())
    # What a view adds to what ran are indexes, which are staged anew whenever it is asked for.
    return State((table.stands_on(), ran.made), ran.statements)


# -- rows by themselves -----------------------------------------------------------------------------------------------


def check_alone(one: Changed, columns: Sequence[str], found: Violations) -> None:
    """Add what is wrong with the rows of a type that have to be looked at, each by itself."""
    judge = _judges.get(one.proposal.tx)
    blobs = {p.column for p in one.entity.defined.properties if p.type.base == "Blob"}
    if judge is not None and not one.all_rows and not blobs & set(columns):
        judge.alone(sent_type(one, Looks(one.proposal.tx)), columns, found)
        return
    for batch in one.rows(columns):
        check_rows(one.entity, batch, found)


def unwritten(tx: Transaction, tables: Sequence[str]) -> list[str]:
    """Those of some tables that hold no row of a transaction that still has to be looked at by itself.

    Ask before writing: of these, whoever checks all that it writes itself may `vouch` for afterwards.
    """
    proposal, known = Proposal(tx), _vouched.get(tx, {})
    ids = {name: proposal.names[name] for name in tables}
    return [n for n, id in ids.items() if proposal.change_of(id) is None or known.get(id) == _written(proposal, id)]


def vouch(tx: Transaction, tables: Sequence[str]) -> None:
    """Say that every row that a transaction wrote into these tables so far was checked by itself."""
    proposal = Proposal(tx)
    ids = [proposal.names[name] for name in tables]
    _vouched.setdefault(tx, {}).update({id: _written(proposal, id) for id in ids})


def is_vouched(one: Changed) -> bool:
    """Whether that was said of a type, and neither its rules nor the statements are others now."""
    known = _vouched.get(one.proposal.tx, {}).get(one.entity.id)
    return known is not None and not one.all_rows and known == _written(one.proposal, one.entity.id)


def _written(proposal: Proposal, id: str) -> State:
    """What was written, wherever it lands: rows that keep their own rules keep them on every base.

    Where the table was made anew, as by an overwrite, what the statements stand on was written too.
    """
    table = proposal.change_of(id)
    ran = None if table is None else table.ran()
    if table is None or ran is None or not ran.statements:
        return _state(proposal, id)
    return State((table.info.rules, ran.made), ran.statements)
