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
from quire.graph.integrity.changes import Changed, Looks, infos
from quire.graph.integrity.rules import check_rows
from quire.graph.integrity.sent import Sent, Type, sent, sent_type
from quire.graph.integrity.sets import ask_all
from quire.graph.integrity.violations import Found

if TYPE_CHECKING:
    from quire.lake.transaction import Transaction


class Judge(Protocol):
    """Looks at rows elsewhere, and adds what is wrong with them. It must not hold the transaction."""

    def __call__(self, sent: Sent, found: Found) -> None:
        """The rows of changed types together."""

    def alone(self, type: Type, columns: Sequence[str], found: Found) -> None:
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


def check_sets(catalog: Catalog, changed: Sequence[Changed], looks: Looks, found: Found) -> None:
    """Add what is wrong with the rows of all changed types together.

    What this transaction was found right with is not asked again while none of the tables has moved.
    """
    if _are_judged(looks.tx, changed):
        return
    count = found.count
    judge = _judges.get(looks.tx)
    if judge is None or any(one.all_together for one in changed):
        looks.follow(changed)
        ask_all(catalog, changed, looks, found)
    else:
        judge(sent(catalog, changed, looks), found)
    if found.count == count:
        asked = frozenset(one.entity.id for one in changed)
        seen = {id: _state(looks.tx, id) for id in {*looks.seen, *asked}}
        _judged[looks.tx] = Verdict(asked, _rules(looks.tx), seen)


def _are_judged(tx: Transaction, changed: Sequence[Changed]) -> bool:
    known = _judged.get(tx)
    if known is None or not known.asked.issuperset(one.entity.id for one in changed):
        return False
    return known.rules == _rules(tx) and all(state == _state(tx, id) for id, state in known.seen.items())


def _rules(tx: Transaction) -> State:
    """The definitions of all types: what is asked follows from them."""
    return State({info.id: info for info in infos(tx)})


def _state(tx: Transaction, table: str) -> State:
    edit = tx.edits.get(table)
    if edit is None or not edit.changed:
        at = tx.at.tables.get(table)
        return State(at.pin if at is not None else None)
    if tx in _judges and edit.work is not None and edit.work.exclusive and hasattr(edit.work, "base"):
        # What a view adds to this are indexes, which are staged anew whenever it is asked for.
        return State((edit.base, edit.work.base.version), tuple(getattr(edit.work, "statements", [object()])))
    if edit.work is None or edit.work.exclusive or edit.base is None:
        handle = getattr(tx._view(edit, note=False), "handle", None)
        return State((edit.base, handle.version) if handle is not None else object())
    return State(edit.base, tuple(getattr(edit.work, "statements", [object()])))


# -- rows by themselves -----------------------------------------------------------------------------------------------


def check_alone(one: Changed, columns: Sequence[str], found: Found) -> None:
    """Add what is wrong with the rows of a type that have to be looked at, each by itself."""
    judge = _judges.get(one.tx)
    blobs = {p.column for p in one.entity.defined.properties if p.type.base == "Blob"}
    if judge is not None and not one.all_rows and not blobs & set(columns):
        judge.alone(sent_type(one, Looks(one.tx)), columns, found)
        return
    for batch in one.rows(columns):
        check_rows(one.entity, batch, found)


def unwritten(tx: Transaction, tables: Sequence[str]) -> list[str]:
    """Those of some tables that hold no row of a transaction that still has to be looked at by itself.

    Ask before writing: of these, whoever checks all that it writes itself may `vouch` for afterwards.
    """
    found = []
    for name in tables:
        edit = tx.edits.get(tx._names[name])
        if edit is None or not edit.changed or _vouched.get(tx, {}).get(edit.info.id) == _written(tx, edit.info.id):
            found.append(name)
    return found


def vouch(tx: Transaction, tables: Sequence[str]) -> None:
    """Say that every row that a transaction wrote into these tables so far was checked by itself."""
    ids = [tx._names[name] for name in tables]
    _vouched.setdefault(tx, {}).update({id: _written(tx, id) for id in ids})


def is_vouched(one: Changed) -> bool:
    """Whether that was said of a type, and neither its rules nor the statements are others now."""
    known = _vouched.get(one.tx, {}).get(one.entity.id)
    return known is not None and not one.all_rows and known == _written(one.tx, one.entity.id)


def _written(tx: Transaction, table: str) -> State:
    """What was written, wherever it lands: rows that keep their own rules keep them on every base.

    Where the table was made anew, as by an overwrite, what the statements stand on was written too.
    """
    found = _state(tx, table)
    if not found.statements:
        return found
    edit = tx.edits[table]
    made = getattr(edit.work, "base", None) if edit.work is not None and edit.work.exclusive else None
    return State((edit.info.rules, getattr(made, "version", None)), found.statements)
