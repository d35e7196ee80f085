"""What a transaction may have done: its statements, run on a model of the rows.

A transaction is judged by its commit. Its effect was computed on some state between its begin and its commit, on rows
that nobody changed in between, and the state after the commit is the state before it with that effect: then no update
was lost, nothing was done twice, and no table was left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import quire
from quire.ledger import State
from quire.testing.simulation.model import CommitSlot, Model, TableRows

Verb = Literal["append", "insert", "upsert", "update", "delete", "overwrite", "create", "drop", "rename", "compact"]


@dataclass(frozen=True)
class Effect:
    """One statement on one table. `rows` are given rows; `where` and `change` act on those that are there."""

    table: str
    verb: Verb
    rows: tuple[dict[str, Any], ...] = ()
    where: Callable[[dict[str, Any]], bool] | None = None
    change: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    name: str = ""
    told: int | None = None
    """How many rows it found that were there, as its program was told."""


@dataclass
class Attempt:
    """One transaction that was tried, and what its caller was told."""

    id: str
    """Unique; it is the message of the commit."""
    log: str = ""
    base: CommitSlot = (0, 0)
    """The commit that it began on."""
    epoch: int = 0
    """Epoch of the handle that it began with."""
    has_read: bool = False
    serializable: bool = False
    read: set[str] = field(default_factory=set)
    """Ids of the tables that its program has read."""
    statements: list[Effect] = field(default_factory=list)
    token: object = None
    if_head: str | None = None
    expect: dict[str, int] = field(default_factory=dict)
    expects: str | None = None
    """Id of the table whose version is expected."""
    names: dict[str, str | None] = field(default_factory=dict)
    """Names that it has asked for, with the id of the table or None."""
    listed: dict[str, str] | None = None
    """All names with ids, if it has asked for them."""
    told: Literal["nothing", "committed", "refused", "unknown", "repeated"] = "nothing"
    commit: str | None = None
    error: str = ""
    settled: list[str] = field(default_factory=list)
    """What `lake.outcome` said about an unknown one."""

    def began(self, lake: quire.Lake, tx: quire.Transaction) -> None:
        """Its statements are run, maybe for the second time."""
        self.log, self.epoch = lake._live.line.branch, lake._live.epoch
        self.base = (tx.at.head.slot, tx.at.head.index)
        self.has_read = False
        self.read.clear()
        self.statements.clear()
        self.names.clear()
        self.listed = None

    @property
    def chose(self) -> bool:
        """Whether it changed rows by a condition: then it stands on the state on which it began, with all it did."""
        return any(s.verb in ("update", "delete") for s in self.statements)


class _Refused(Exception):
    pass


@dataclass
class _Outcome:
    changed: dict[int, dict[str, Any] | None] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)


def _run(statements: list[Effect], base: TableRows) -> _Outcome:
    """The effect of statements on one table."""
    now, effect = dict(base), _Outcome()
    for s in statements:
        if s.verb in ("append", "insert", "create"):
            for row in s.rows:
                key = next(iter(row.values()))
                if key in now:
                    raise _Refused
                now[key] = row
                effect.touched.add(key)
        elif s.verb == "upsert":
            for row in s.rows:
                key = next(iter(row.values()))
                now[key] = row
                effect.touched.add(key)
        elif s.verb == "overwrite":
            effect.touched |= now.keys()
            now = {next(iter(row.values())): row for row in s.rows}
            effect.touched |= now.keys()
        elif s.verb in ("update", "delete"):
            assert s.where is not None
            for key in [key for key, row in now.items() if s.where(row)]:
                effect.touched.add(key)
                if s.change is not None:
                    now[key] = s.change(now[key])
                else:
                    del now[key]
    for key in now.keys() | base.keys():
        if now.get(key) != base.get(key):
            effect.changed[key] = now.get(key)
    return effect


def explain(model: Model, attempt: Attempt, log: str, before: State, after: State) -> str | None:
    """Why this commit cannot be the doing of this attempt; None when it can."""
    begun = model.between(log, attempt.base, (before.head.slot, before.head.index))
    if not begun:
        return f"commit {attempt.base}, on which it began, is not one that came before it"
    by_table: dict[str, list[Effect]] = {}
    for statement in attempt.statements:
        by_table.setdefault(statement.table, []).append(statement)
    made = {t for t, s in by_table.items() if any(x.verb == "create" for x in s)}
    gone = {t for t, s in by_table.items() if any(x.verb == "drop" for x in s)}
    wanted = ((before.tables.keys() | made) - gone) | (made & gone & after.tables.keys())
    if after.tables.keys() != wanted:
        return f"there are tables {_names(after)}, expected ids {sorted(wanted)}"
    for table, now in after.tables.items():
        statements = by_table.get(table, [])
        known = before.tables.get(table)
        if not statements:
            if known is not None and known.pin != now.pin:
                return f"table {now.info.name} was moved, but the transaction did not touch it"
            continue
        names = [statement.name for statement in statements if statement.verb == "rename"]
        if names and now.info.name != names[-1]:
            return f"table {now.info.name} should have been renamed to {names[-1]}"
        bases = begun[:1] if attempt.has_read or attempt.chose else begun
        problem = _explain_table(model, bases, table, statements, before, after)
        if problem:
            return f"table {now.info.name}: {problem}"
    told = _told_otherwise(model, attempt, by_table, begun[0], before)
    return told or (_not_serializable(model, attempt, begun[0], before) if attempt.serializable else None)


def _told_otherwise(
    model: Model, attempt: Attempt, by_table: dict[str, list[Effect]], base: State, before: State
) -> str | None:
    """What statements returned is true of the state on which the transaction began.

    Unless it has chosen rows by a condition, it is true of the state that its commit found, too: its program could have
    begun there.
    """
    states = [base] if attempt.chose else [base, before]
    for table, statements in by_table.items():
        for state in states:
            there = state.tables.get(table)
            if there is None:
                continue  # one of its own
            counts = _counts(statements, model.rows(there.pin))
            for statement, count in zip(statements, counts, strict=True):
                if statement.told is not None and statement.told != count:
                    what = f"{statement.verb} of {there.info.name} was told of {statement.told} rows"
                    return f"its {what}, there were {count} at {state.head.commit}"
    return None


def _counts(statements: list[Effect], base: TableRows) -> list[int]:
    """How many rows each of some statements finds, one after the other."""
    found = []
    for index, s in enumerate(statements):
        try:
            changed = _run(statements[:index], base).changed
        except _Refused:
            changed = {}
        now = {**base, **{key: row for key, row in changed.items() if row is not None}}
        for key, row in changed.items():
            if row is None:
                now.pop(key, None)
        keys = {next(iter(row.values())) for row in s.rows}
        found.append(sum(map(s.where, now.values())) if s.where is not None else len(keys & now.keys()))
    return found


def _not_serializable(model: Model, attempt: Attempt, base: State, before: State) -> str | None:
    """What a serializable transaction has read or searched is the same when it commits, names too."""
    names = before.names()
    for name, meant in attempt.names.items():
        if names.get(name) != meant:
            return f"it is serializable, and was told that {name} is {meant}, but it was {names.get(name)}"
    if attempt.listed is not None and attempt.listed != names:
        return f"it is serializable, and was told of tables {sorted(attempt.listed)}, there were {sorted(names)}"
    searched = {s.table for s in attempt.statements if s.verb in ("insert", "upsert", "update", "delete")}
    for table in attempt.read | searched:
        then, now = (state.tables.get(table) for state in (base, before))
        if then is None:
            continue  # one of its own
        if now is None or model.rows(then.pin) != model.rows(now.pin):
            return f"it is serializable and has looked at table {then.info.name}, which was changed before it committed"
    return None


def _names(state: State) -> list[str]:
    return sorted(state.names())


def _explain_table(
    model: Model, bases: list[State], table: str, statements: list[Effect], before: State, after: State
) -> str | None:
    """Why the new state of one table does not follow from its statements on any of the bases."""
    now = model.rows(after.tables[table].pin)
    last = model.rows(before.tables[table].pin) if table in before.tables else {}
    if table not in before.tables:
        expected = {k: v for k, v in _run(statements, {}).changed.items() if v is not None}
        return None if now == expected else f"a new table holds {_short(now)}, expected {_short(expected)}"
    why = "it was not there when the transaction began"
    seen: set[str] = set()
    for base in bases:
        if table not in base.tables or base.tables[table].pin.version in seen:
            continue
        seen.add(base.tables[table].pin.version)
        rows = model.rows(base.tables[table].pin)
        try:
            effect = _run(statements, rows)
        except _Refused:
            why = "a key that it inserts was there"
            continue
        lost = [k for k in effect.touched if rows.get(k) != last.get(k)]
        if lost:
            why = f"rows {lost[:3]} were changed between its base {base.head.commit} and its commit: a lost update"
            continue
        expected = {**last, **{k: v for k, v in effect.changed.items() if v is not None}}
        for key, row in effect.changed.items():
            if row is None:
                expected.pop(key, None)
        if expected == now:
            return None
        why = f"from base {base.head.commit} rows should be {_difference(expected, now)}"
    return why


def _short(rows: TableRows) -> str:
    return str(dict(list(rows.items())[:4]))


def _difference(expected: TableRows, found: TableRows) -> str:
    keys = [k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k)]
    return ", ".join(f"{k}: {expected.get(k)} and not {found.get(k)}" for k in sorted(keys)[:4])
