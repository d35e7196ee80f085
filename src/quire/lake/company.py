"""Who can share a slot: members that need nothing of what those before them did.

Members are offered in order. One comes along when no table that it needs was moved by an earlier one, or when both only
add rows to it: then its rows are staged behind the earlier ones', on the same base. Everybody else waits for the next
slot, where the earlier ones are part of the log and the ordinary rules apply (`move`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from quire.formats import Work
from quire.formats.keys import hashes_of
from quire.lake.edits import Edit
from quire.lake.move import guarded, needs, read_tables
from quire.ledger import Commit, State, encode

if TYPE_CHECKING:
    from quire.lake.line import LiveBranch
    from quire.lake.transaction import Transaction

M = TypeVar("M")

FIRST_PARENT = 100
"""Bytes by which a commit grows when it gets its place in the log."""


def is_easy(tx: Transaction, seen: State) -> bool:
    """Whether moving a transaction onto a newer state takes no look at rows, so that others need not wait for it."""
    if seen.floor != tx.at.floor:
        return False
    for table in needs(tx):
        if tx.at.tables.get(table) == seen.tables.get(table):
            continue
        if table not in seen.tables or not _only_adds(tx, table):
            return False
    return True


def _only_adds(tx: Transaction, table: str) -> bool:
    """Whether all that a transaction has to do with a table is to add rows to it."""
    edit = tx.edits.get(table)
    if edit is None or edit.work is None or not edit.work.additive or guarded(tx):
        return False
    if edit.created or edit.renamed or edit.dropped or edit.pin is not None:
        return False
    searched = tx.isolation == "serializable" and table in read_tables(tx)
    return not searched and all(check.table != table for check in tx.checks)


@dataclass
class Entry(Generic[M]):
    """A member that comes along."""

    member: M
    tx: Transaction
    behind: dict[str, Sequence[Work]] = field(default_factory=dict)
    """By table: what earlier members add to it."""
    commit: Commit | None = None
    """What goes into the record, once it is staged."""


class Company(Generic[M]):
    """The members of one slot."""

    def __init__(self, live: LiveBranch, seen: State) -> None:
        self._live, self._seen = live, seen
        self.entries: list[Entry[M]] = []
        self._moved: dict[str, Additions | None] = {}
        """By table: what adds rows to it; None for any other change."""
        self._names: set[str] = set()
        """Names that a table was given or has given up."""
        self._tokens: set[str] = set()
        self._full = False

    def offer(self, member: M, tx: Transaction) -> bool:
        """Take a member in if it can follow those who are in already."""
        if self._full or (self.entries and (_is_loner(tx) or not self._can_follow(tx))):
            return False
        changed = {table: edit for table, edit in tx.edits.items() if edit.changed}
        before = {table: found for table in changed if (found := self._moved.get(table)) is not None}
        self.entries.append(Entry(member, tx, {table: tuple(found.works) for table, found in before.items()}))
        for table, edit in changed.items():
            self._names |= _names(edit)
            additions = before.get(table, Additions()) if _only_adds(tx, table) else None
            if additions is not None:
                additions.add(edit)
            self._moved[table] = additions
        self._tokens |= _tokens(tx)
        self._full = _is_loner(tx)
        return True

    def fitting(self, room: int) -> list[Entry[M]]:
        """The first of the entries, as many as a record has room for, and at least one."""
        used = 0
        for count, one in enumerate(self.entries):
            assert one.commit is not None
            used += len(encode(one.commit)) + FIRST_PARENT
            if used > room and count:
                return self.entries[:count]
        return self.entries

    def _can_follow(self, tx: Transaction) -> bool:
        if _tokens(tx) & self._tokens:
            return False
        if any(_names(edit) & self._names for edit in tx.edits.values() if edit.changed):
            return False
        moved = {self._seen.tables[t].info.name for t in self._moved if t in self._seen.tables} | self._names
        if moved & tx.expect.keys():
            return False
        return all(self._is_additive(tx, table) for table in needs(tx) if table in self._moved)

    def _is_additive(self, tx: Transaction, table: str) -> bool:
        """Whether a transaction adds rows to a table to which all before it only add rows, with other keys."""
        before = self._moved[table]
        if before is None or not _only_adds(tx, table):
            return False
        edit = tx.edits[table]
        assert edit.work is not None
        return edit.work.on(self._seen.tables[table].pin) and before.have_room_for(edit)


@dataclass
class Additions:
    """What members add to one table: rows without keys, or rows whose keys are all listed and distinct."""

    works: list[Work] = field(default_factory=list)
    _ops: list[str] = field(default_factory=list)
    _columns: tuple[str, ...] = ()
    _hashes: set[bytes] | None = field(default_factory=set)

    def add(self, edit: Edit) -> None:
        assert edit.work is not None
        self.works.append(edit.work)
        self._ops = edit.ops
        if edit.ops != ["append"]:
            columns, hashes = _listed(edit.work)
            self._columns = columns
            self._hashes = None if hashes is None or self._hashes is None else self._hashes | hashes

    def have_room_for(self, edit: Edit) -> bool:
        """Whether rows can come after these without a look at either."""
        assert edit.work is not None
        if edit.ops == ["append"] or self._ops == ["append"]:
            return edit.ops == self._ops
        columns, hashes = _listed(edit.work)
        if edit.ops != ["insert"] or self._ops != ["insert"] or hashes is None or self._hashes is None:
            return False
        return columns == self._columns and not hashes & self._hashes


def _listed(work: Work) -> tuple[tuple[str, ...], set[bytes] | None]:
    """The key columns and hashes of everything that a work inserts; no hashes when they are not all listed."""
    found = work.keys()
    if len(found) != 1:
        return (), None
    return found[0].columns, hashes_of(found[0])


def _is_loner(tx: Transaction) -> bool:
    """Whether a transaction is about the very head it finds, or brings states along that were made elsewhere."""
    brings = any(edit.created and edit.pin is not None for edit in tx.edits.values())
    return bool(brings or tx.if_head is not None or tx.adopts or tx.learnt or tx.parents)


def _names(edit: Edit) -> set[str]:
    if not (edit.created or edit.renamed or edit.dropped):
        return set()
    return {edit.info.name} | ({edit.base.info.name} if edit.base is not None else set())


def _tokens(tx: Transaction) -> set[str]:
    found = {f"stream {tx.stream.scope}"} if tx.stream is not None else set()
    return found | ({f"token {tx.token.id}"} if tx.token is not None else set())
