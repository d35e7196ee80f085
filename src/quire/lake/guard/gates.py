"""What happens at the head of a verb when a lake has a guard, for each kind of handle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from quire.lake.guard.core import LAKE, GovernedCore
from quire.lake.guard.seen import SeenView
from quire.lake.guard.verbs import Rule
from quire.ledger import Pin, State, TableState

if TYPE_CHECKING:
    from quire.formats import View
    from quire.lake.commit.table_change import Edit
    from quire.lake.commit.transaction import Transaction
    from quire.lake.lake import Lake

Verb = Callable[..., Any]
WORDS = ("at", "commit", "base")
"""Parameters that name a commit, by its id, a tag or a branch."""


@dataclass(frozen=True)
class LakeGate:
    """Of lakes: a verb reads through what the actor sees, or is done as a whole once it is allowed."""

    core: GovernedCore

    def enter(self, lake: Lake, rule: Rule, verb: Verb, given: Mapping[str, Any], args: Any, named: Any) -> Any:
        core = self.core
        if rule.on == "lake":
            kind, name = "Lake", LAKE
        else:
            _, _, parameter = rule.on.partition(":")
            kind, name = "Branch", str(given.get(parameter) or core.branch) if parameter else core.branch
        core.check_known()
        if kind == "Branch" and (rule.action == "read" or rule.on == "branch"):
            core.see_branch(core.branch)
        if rule.action == "read":
            return verb(lake, *args, **named)
        source = given.get(rule.source)
        if rule.on == "branch:into" and name != core.branch and core.guard.active():
            there_is(core, name)
        context: dict[str, Any] = {"source": source} if isinstance(source, str) else {}
        if rule.action == "mergeInto":
            context["approvals"] = core.approvals
        there = core.on(name) if rule.on == "branch:into" else core
        there.allow(rule.action, kind, name, **context)  # type: ignore[arg-type]
        if isinstance(source, str):
            if rule.all_rows and not core.sees_branch(source):
                lake._live.refresh()  # as it is done before one that does not exist is found not to be there
            core.see_branch(source)
        if rule.whole and core.guard.active():
            _check_words(lake, given)
        if rule.all_rows:
            there.need_all(rule.action, _touched(lake, verb.__name__, given))
        if not rule.whole:
            return verb(lake, *args, **named)
        done = verb(_signed(lake), *args, **named)
        if rule.action == "tag":
            kind, name = "Tag", str(given["name"])
        core.did(verb.__name__, kind, name)
        return _again(done, core)


def _check_words(lake: Lake, given: Mapping[str, Any]) -> None:
    """Refuse a word for a commit that leads to what must not be told, as one that means nothing.

    The verb itself works on all of the lake, and would find it.
    """
    from quire.lake.resolve import resolve

    for parameter in WORDS:
        word = given.get(parameter)
        if isinstance(word, str):
            resolve(lake._core, lake._live, word)


def there_is(core: GovernedCore, branch: str) -> None:
    """Refuse a branch that must not be told and one that does not exist, both alike."""
    from quire.lake.branch.live import open_branch

    open_branch(core, branch)


def _signed(lake: Lake) -> Lake:
    """All of the lake, on the same branch; what it does is by the actor."""
    core = lake._core
    assert isinstance(core, GovernedCore)
    return type(lake)(core.signed(), lake._live, lake._background, lake._backfill, lake._cost)


def _again(done: Any, core: GovernedCore) -> Any:
    from quire.lake.lake import Lake

    if isinstance(done, Lake):
        return Lake(core.on(done._live.name), done._live, done._background, done._backfill, done._cost)
    return done


def _touched(lake: Lake, verb: str, given: Mapping[str, Any]) -> Iterator[TableState]:
    """The tables of which a verb tells, as they are on either side."""
    from quire.lake.branch.live import open_branch
    from quire.lake.resolve import resolve, state_of

    base, live = lake._core.base, lake._live
    if not lake._core.guard.active():
        return
    now = live.refresh()
    if verb in ("merge", "fast_forward"):
        target = open_branch(base, given["into"]).state if given.get("into") else now
        yield from _differing(target, open_branch(base, given["source"]).state)
    elif verb == "restore":
        from quire.lake.branch.restore import state_then

        yield from _differing(now, state_then(_signed(lake), given["at"], now)[1])
    else:
        found = resolve(base, live, given["commit"])
        [record] = base.ledger.read(found.point.branch, [found.point.slot])
        then = state_of(base, live, given["commit"])
        if record is None or found.point.index >= len(record.commits):
            return  # the verb says what is wrong with the commit
        for change in record.commits[found.point.index].changes:
            for state in (now, then):
                if change.table in state.tables:
                    yield state.tables[change.table]


def _differing(one: State, other: State) -> Iterator[TableState]:
    for id in sorted(one.tables.keys() | other.tables.keys()):
        pair = [state.tables[id] for state in (one, other) if id in state.tables]
        if len(pair) == 1 or pair[0].pin.version != pair[1].pin.version or pair[0].info != pair[1].info:
            yield from pair


@dataclass(frozen=True)
class SnapshotGate:
    """Of snapshots and their tables: they were narrowed when they were made, and show it only to their actor."""

    core: GovernedCore

    def enter(self, handle: Any, rule: Rule, verb: Verb, given: Mapping[str, Any], args: Any, named: Any) -> Any:
        self.core.check_known()
        if verb.__name__ == "export" and self.core.guard.active():
            tables: Sequence[str] = given.get("tables") or handle.tables()
            for name in tables:
                if name in handle:
                    self.core.allow("export", "Table", name)
        return verb(handle, *args, **named)

    def told_pin(self, pin: Pin, view: View) -> Pin | None:
        """What the log says of a table that is seen as a whole; None for one that is seen in part."""
        if isinstance(view, SeenView):
            return None
        return self.core.real_pin(pin)


@dataclass(frozen=True)
class TransactionGate:
    """Of transactions: each statement is judged when it is begun. What judges a commit reads past it."""

    core: GovernedCore

    def told_pin(self, pin: Pin, view: View) -> Pin | None:
        """The same as for snapshots; its views are wrapped, so it asks the rules."""
        return pin if not self.core.guard.active() else None

    def names_seen(self, tx: Transaction, names: Mapping[str, str]) -> Mapping[str, str]:
        """Tables that the actor may see, and those that it has made itself."""
        return {name: id for name, id in names.items() if self._sees(tx, name, id)}

    def sees(self, tx: Transaction, name: str) -> bool:
        """Whether a table that is there is there for the actor."""
        if self._sees(tx, name, tx._names[name]):
            return True
        self.core.guard.refused(self.core.who, "read", "Table", name, self.core.branch)
        return False

    def _sees(self, tx: Transaction, name: str, id: str) -> bool:
        if tx.committing or not self.core.guard.active():
            return True
        found = tx.at.tables.get(id)
        first = found.info.name if found is not None else name
        return (id in tx.edits and tx.edits[id].created) or self.core.sees_table(first)

    def narrowed(self, tx: Transaction) -> State:
        """The state that the transaction is based on, with the tables that the actor may see."""
        if tx.committing or not self.core.guard.active():
            return tx.at
        tables = {id: found for id, found in tx.at.tables.items() if self.core.sees_table(found.info.name)}
        return msgspec.structs.replace(tx.at, tables=tables)

    def seen(self, edit: Edit, view: View) -> View:
        """A table of the transaction as the actor sees it; one that it creates is its own."""
        if edit.created:
            return view
        before = edit.base.info.name if edit.base is not None else edit.info.name
        return self.core.seen(view, *dict.fromkeys((edit.info.name, before)))

    def enter(self, handle: Any, rule: Rule, verb: Verb, given: Mapping[str, Any], args: Any, named: Any) -> Any:
        core = self.core
        core.check_known()
        tx = getattr(handle, "_tx", handle)
        if tx.committing or not core.guard.active():
            return verb(handle, *args, **named)
        word, _, parameter = rule.on.partition(":")
        if word == "lake":
            core.allow(rule.action, "Lake", LAKE)
        elif parameter:
            name = str(given.get(parameter))
            if name in tx._names and not core.sees_table(name):
                core.missed([name])
            elif name in tx._names or verb.__name__ == "create_table":
                core.allow(rule.action, "Table", name)
            if verb.__name__ == "rename_table":
                core.allow(rule.action, "Table", str(given.get("new")))
        elif word == "table":
            self._table(handle, rule)
        return verb(handle, *args, **named)

    def need_rows(self, tx: Transaction, id: str, columns: Sequence[str], written: str) -> None:
        """Refuse to write to a table whose rules look at rows of another one that the actor does not see."""
        edit, found = tx.edits.get(id), tx.at.tables.get(id)
        if not self.core.guard.active() or found is None or (edit is not None and edit.created):
            return
        if not self.core.sees_rows(found, columns):
            raise self.core.denied("write", "Table", written)

    def _table(self, table: Any, rule: Rule) -> None:
        core, edit = self.core, table._edit
        if rule.action != "read":
            core.allow(rule.action, "Table", edit.info.name, ops=[rule.action])
        keyed = rule.action == "write" and bool(edit.info.key)
        if edit.base is not None and (rule.all_rows or keyed) and not core.sees_all(edit.base):
            raise core.denied(rule.action, "Table", edit.info.name)
