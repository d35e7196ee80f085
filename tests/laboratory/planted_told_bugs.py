"""Bugs by which a program is told one thing and another is done: counts, conditions, names, versions, fences."""

from __future__ import annotations

import contextlib
from typing import Any

from quire.formats import Overlap
from quire.lake.commit import detached, preconditions
from quire.lake.commit import rebase as moving
from quire.lake.commit.preconditions import Epochs
from quire.lake.commit.transaction import Transaction
from quire.lake.commit.transaction_table import TransactionTable
from quire.lake.publish import slot_members
from quire.testing.memory.net import Net, Rebase
from quire.testing.memory.work import MemoryWork
from quire.testing.simulation.planting import Patch, bug, swap
from quire.testing.simulation.vanishing_lakes import SimulatedDisk


@bug
def _counts_not_compared() -> Patch:
    """An upsert is run again although it replaces other rows than it has told."""
    replay = MemoryWork.replay

    def whatever(self: MemoryWork, onto: Any, *, told: bool = True) -> Overlap | None:
        return replay(self, onto, told=False)

    return swap(MemoryWork, "replay", whatever)


@bug
def _refusals_not_read() -> Patch:
    """A statement that was refused has told the program nothing."""
    guarded = Transaction._guarded
    return swap(Transaction, "_guarded", lambda self, *, read=False, on=None: guarded(self, read=read))


def _again(self: MemoryWork, onto: Any, theirs: Any) -> Overlap | None:
    """A rebase after which conditions are run again like keys."""
    overlap = _rebase(self, onto, theirs)
    return Overlap(overlap.kind, overlap.items) if overlap is not None and overlap.kind == "rows" else overlap


_rebase = MemoryWork.rebase


@bug
def _conditions_run_again() -> Patch:
    """A condition is run again beside keys, and where its rows were moved, and chooses among rows that came since."""

    def do(self: TransactionTable, op: str, statement: Any) -> int:
        return int(self._do(op, statement))

    stack = contextlib.ExitStack()
    stack.enter_context(swap(MemoryWork, "rebase", _again))
    stack.enter_context(swap(TransactionTable, "_chosen", do))
    stack.enter_context(swap(Rebase, "_follow", lambda self: self._rows()))
    return stack


@bug
def _moved_rows_forgotten() -> Patch:
    """What a transaction removed is not removed where a compaction has put it."""

    def lose(self: Rebase) -> None:
        kept = {key: rows for key, rows in self.net.deleted.items() if self._kept(key) is not None}
        self.moved = Net(kept, {key: rows for key, rows in self.net.hard.items() if key in kept}, self.net.added)

    return swap(Rebase, "_follow", lose)


@bug
def _names_not_read() -> Patch:
    """What a serializable transaction was told of names is not looked at again."""
    stack = contextlib.ExitStack()
    stack.enter_context(swap(moving, "_check_read_names", lambda tx, seen: None))
    stack.enter_context(swap(slot_members, "_names", lambda edit: set()))
    return stack


@bug
def _version_of_any_table() -> Patch:
    """A version is expected of a name, whatever table has it."""
    bound = preconditions.bound

    def unbound(expect: Any, base: Any) -> Any:
        return [preconditions.Expected(one.name, one.version, None) for one in bound(expect, base)]

    return swap(preconditions, "bound", unbound)


@bug
def _loss_not_noticed() -> Patch:
    """On a disk a commit is created whether or not the log that it extends is still there."""
    return swap(SimulatedDisk, "extend", lambda self, key, data, follows: self.create(key, data))


@bug
def _derived_handle_is_new() -> Patch:
    """A handle that is made from an old one belongs to the epoch in which it was made."""
    return swap(Epochs, "of", lambda self, log, now: now)


@bug
def _work_is_as_old_as_who_commits_it() -> Patch:
    """Work that began before a claim is committed by a handle that was opened after it."""
    resume = detached.resume

    def renewed(lake: Any, begun: Any, message: str, **options: Any) -> Transaction:
        tx = resume(lake, begun, message, **options)
        tx.epoch = lake._live.epoch
        return tx

    return swap(detached, "resume", renewed)
