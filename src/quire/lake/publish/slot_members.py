"""Who can share a slot: members that need nothing of what those before them did.

Members are offered in order. One comes along when no table that it needs was moved by an earlier one, or when both only
add rows to it: then its rows are staged behind the earlier ones', on the same base. Everybody else waits for the next
slot, where the earlier ones are part of the log and the ordinary rules apply (`move`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from quire.formats import Work
from quire.formats.keys import hashes_of
from quire.lake.commit.rebase import guarded, needs, read_tables
from quire.lake.commit.table_change import Edit
from quire.ledger import Commit, Keys, OpaqueToken, State, StreamToken
from quire.ledger.offers import Offer
from quire.ledger.records import raw

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.commit.transaction import Transaction

M = TypeVar("M")

Later = Callable[[], Work]
"""A work, made when it is needed."""

MAX_COMMITS = 128
"""Commits of one slot, those of other processes included."""

FIRST_PARENT = 100
"""Bytes by which a commit grows when it gets its place in the log."""


def is_easy(tx: Transaction, seen: State) -> bool:
    """Whether moving a transaction onto a newer state takes no look at rows, so that others need not wait for it."""
    if seen.floor != tx.at.floor:
        return False
    for table in needs(tx):
        if tx.at.tables.get(table) == seen.tables.get(table):
            continue
        if table not in seen.tables or not only_adds(tx, table):
            return False
    return True


def only_adds(tx: Transaction, table: str) -> bool:
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
    behind: dict[str, Sequence[Later]] = field(default_factory=dict)
    """By table: what earlier members add to it."""
    commit: Commit | None = None
    """What goes into the record, once it is staged."""

    def works(self) -> dict[str, Sequence[Work]]:
        """By table: what earlier members add to it."""
        return {table: [work() for work in works] for table, works in self.behind.items()}


@dataclass
class Carried:
    """An offered commit of another process that comes along."""

    offer: Offer
    works: dict[str, Later]
    """By table to which it adds rows: that, on the state that the slot follows."""
    behind: dict[str, Sequence[Later]]
    """By table that has to be staged anew: what earlier members add to it."""
    commit: Commit | None = None
    """What goes into the record; None until it is staged, and when it cannot be."""


class Company(Generic[M]):
    """The members of one slot."""

    def __init__(self, live: LiveBranch, seen: State) -> None:
        self._live, self._seen = live, seen
        self.entries: list[Entry[M]] = []
        self.carried: list[Carried] = []
        self._writes: set[str] = set()
        self._moved: dict[str, Additions | None] = {}
        """By table: what adds rows to it; None for any other change."""
        self._names: set[str] = set()
        """Names that a table was given or has given up."""
        self._tokens: set[str] = set()
        self._full = False

    def offer(self, member: M, tx: Transaction) -> bool:
        """Take a member in if it can follow those who are in already."""
        if self._full or (self.entries and (is_loner(tx) or not self._can_follow(tx))):
            return False
        self._writes.add(tx.write)
        changed = {table: edit for table, edit in tx.edits.items() if edit.changed}
        before = {table: found for table in changed if (found := self._moved.get(table)) is not None}
        self.entries.append(Entry(member, tx, {table: tuple(found.works) for table, found in before.items()}))
        for table, edit in changed.items():
            self._names |= _names(edit)
            additions = before.get(table, Additions()) if only_adds(tx, table) else None
            if additions is not None and edit.work is not None:
                additions.add(edit.ops, _keys(edit), partial(_itself, edit.work))
            self._moved[table] = additions
        self._tokens |= _tokens(tx.stream, tx.token)
        self._full = is_loner(tx)
        return True

    def carry(self, offer: Offer, grown: Collection[str], work: Callable[[str], Work]) -> bool:
        """Take an offered commit along if it can follow those who are in already.

        Where nobody of them changes what it needs, it is as good as on the state that the slot follows. `grown` are its
        tables to which others have added rows since it was staged, and `work` makes of a table what it adds there.
        """
        commit = offer.commit
        tokens = _tokens(commit.stream, commit.token)
        full = self._full or len(self.entries) + len(self.carried) >= MAX_COMMITS
        if full or commit.write in self._writes or tokens & self._tokens:
            return False
        changes = {change.table: change for change in commit.changes}
        again = set(grown)
        for table in offer.needs.keys() & self._moved.keys():
            before = self._moved[table]
            if before is None or table not in offer.additions:
                return False
            if not before.have_room_for(changes[table].ops, changes[table].keys):
                return False
            again.add(table)
        works: dict[str, Later] = {table: _once(partial(work, table)) for table in offer.additions}
        behind: dict[str, Sequence[Later]] = {
            t: tuple(found.works) if (found := self._moved.get(t)) is not None else () for t in again
        }
        self.carried.append(Carried(offer, works, behind))
        for table, change in changes.items():
            additions = None
            if table in works:
                additions = self._moved.get(table) or Additions()
                additions.add(change.ops, change.keys, works[table])
            self._moved[table] = additions
        self._tokens |= tokens
        self._writes.add(commit.write)
        return True

    def fitting(self, room: int) -> tuple[list[Entry[M]], list[Carried]]:
        """The first of the entries, as many as a record has room for, and at least one; then those of others."""
        used = 0
        every: list[Entry[M] | Carried] = [*self.entries, *self.carried]
        for count, one in enumerate(every):
            assert one.commit is not None
            used += len(raw(one.commit)) + FIRST_PARENT
            if used > room and count:
                own = len(self.entries)
                return self.entries[:count], self.carried[: max(0, count - own)]
        return self.entries, self.carried

    def _can_follow(self, tx: Transaction) -> bool:
        if _tokens(tx.stream, tx.token) & self._tokens:
            return False
        if any(_names(edit) & self._names for edit in tx.edits.values() if edit.changed):
            return False
        if tx.isolation == "serializable" and self._names & (self._names if tx.listed_names else tx.read_names):
            return False
        moved = {self._seen.tables[t].info.name for t in self._moved if t in self._seen.tables} | self._names
        if moved & tx.expect.keys():
            return False
        return all(self._is_additive(tx, table) for table in needs(tx) if table in self._moved)

    def _is_additive(self, tx: Transaction, table: str) -> bool:
        """Whether a transaction adds rows to a table to which all before it only add rows, with other keys."""
        before = self._moved[table]
        if before is None or not only_adds(tx, table):
            return False
        edit = tx.edits[table]
        assert edit.work is not None
        return edit.work.on(self._seen.tables[table].pin) and before.have_room_for(edit.ops, _keys(edit))


@dataclass
class Additions:
    """What members add to one table: rows without keys, or rows whose keys are all listed and distinct."""

    works: list[Later] = field(default_factory=list)
    _ops: list[str] = field(default_factory=list)
    _columns: tuple[str, ...] = ()
    _hashes: set[bytes] | None = field(default_factory=set)

    def add(self, ops: Sequence[str], keys: Sequence[Keys], work: Later | None = None) -> None:
        if work is not None:
            self.works.append(work)
        self._ops = list(ops)
        if self._ops != ["append"]:
            columns, hashes = _listed(keys)
            self._columns = columns
            self._hashes = None if hashes is None or self._hashes is None else self._hashes | hashes

    def have_room_for(self, ops: Sequence[str], keys: Sequence[Keys]) -> bool:
        """Whether rows can come after these without a look at either."""
        if list(ops) == ["append"] or self._ops == ["append"]:
            return list(ops) == self._ops
        columns, hashes = _listed(keys)
        if list(ops) != ["insert"] or self._ops != ["insert"] or hashes is None or self._hashes is None:
            return False
        return columns == self._columns and not hashes & self._hashes


def _itself(work: Work) -> Work:
    return work


def _once(make: Later) -> Later:
    """The same work for all who come behind it: with many offers for one table, each is behind all before it."""
    made: list[Work] = []

    def get() -> Work:
        if not made:
            made.append(make())  # two threads may make it; either will do
        return made[0]

    return get


def _keys(edit: Edit) -> Sequence[Keys]:
    """The keys of the rows that are written, where they matter."""
    return () if edit.work is None or edit.ops == ["append"] else edit.work.keys()


def _listed(found: Sequence[Keys]) -> tuple[tuple[str, ...], set[bytes] | None]:
    """The key columns and hashes of everything that is inserted; no hashes when they are not all listed."""
    if len(found) != 1:
        return (), None
    return found[0].columns, hashes_of(found[0])


def is_loner(tx: Transaction) -> bool:
    """Whether a transaction is about the very head it finds, or brings states along that were made elsewhere."""
    brings = any(edit.created and edit.pin is not None for edit in tx.edits.values())
    return bool(brings or tx.if_head is not None or tx.adopts or tx.learnt or tx.parents)


def _names(edit: Edit) -> set[str]:
    if not (edit.created or edit.renamed or edit.dropped):
        return set()
    return {edit.info.name} | ({edit.base.info.name} if edit.base is not None else set())


def _tokens(stream: StreamToken | None, token: OpaqueToken | None) -> set[str]:
    found = {f"stream {stream.scope}"} if stream is not None else set()
    return found | ({f"token {token.id}"} if token is not None else set())
