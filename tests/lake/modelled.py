"""A lake as plain Python sees it: rows by table by commit by branch. The state machine holds the real one against it.

Rows have an identity that is never used again, so that the model can tell "the same row, changed" from "another row
with the same values". A transaction's net effect is moved onto the newest state when no row or key is in dispute, its
statements are run again when there are only upserts, which then count what they have told, and it conflicts otherwise.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from quire.errors import Conflict, KeyConflict, NameConflict, NotFastForward, QuireError, TableExists

Row = dict[str, int | None]
Rows = dict[int, Row]
"""Rows by identity."""

FIRST = ("id", "v", "w")
EXCLUSIVE = {"overwrite", "schema", "drop", "create", "restore", "rename"}
UPKEEP = {"index", "compact"}

identities = itertools.count()


def listed(rows: Rows) -> list[tuple[Any, ...]]:
    """All rows as values, in an order that values alone decide."""
    return sorted((tuple(row.values()) for row in rows.values()), key=lambda r: tuple((x is None, x or 0) for x in r))


@dataclass(frozen=True)
class Sheet:
    """One table at one commit."""

    name: str
    keyed: bool
    rows: Rows
    columns: tuple[str, ...] = FIRST


State = dict[int, Sheet]
"""Tables by an identity of the model's own."""


@dataclass(frozen=True)
class Statement:
    """One writing verb with its rows, `(id, v, w)`, or its range of ids."""

    verb: str
    rows: tuple[tuple[int, int, int], ...] = ()
    low: int = 0
    high: int = 0

    @property
    def keys(self) -> set[int | None]:
        return {r[0] for r in self.rows} if self.verb in ("insert", "upsert", "patch") else set()

    @property
    def op(self) -> str:
        return "upsert" if self.verb == "patch" else self.verb

    def full(self, columns: tuple[str, ...]) -> list[Row]:
        """The given rows; columns that were added since hold their number."""
        return [{**dict.fromkeys(columns, len(columns)), "id": i, "v": v, "w": w} for i, v, w in self.rows]

    def run(self, table: Any, columns: tuple[str, ...]) -> None:
        """Do it to a table of the lake."""
        where = f"id >= {self.low} and id < {self.high}"
        data = pa.Table.from_pylist(self.full(columns), schema=pa.schema([(c, pa.int64()) for c in columns]))
        if self.verb == "patch":
            table.upsert([{"id": i, "w": w} for i, _, w in self.rows], on="id")
        elif self.verb == "upsert":
            table.upsert(data, on="id")
        elif self.verb == "update":
            table.update({"v": "v + 1"}, where=where)
        elif self.verb == "delete":
            table.delete(where)
        else:
            getattr(table, self.verb)(data)

    def finds(self, sheet: Sheet) -> int:
        """How many of its keys have a row."""
        keys = self.keys if self.verb in ("upsert", "patch") else set()
        return len({row["id"] for row in sheet.rows.values()} & keys)

    def apply(self, sheet: Sheet) -> Sheet:
        """The table afterwards, or `KeyConflict`."""
        rows = dict(sheet.rows)
        hit = {r for r, row in rows.items() if row["id"] in self.keys}
        matched = {r for r, row in rows.items() if self.low <= (row["id"] or 0) < self.high}
        added, gone = self.full(sheet.columns), set[int]()
        if self.verb == "insert" and hit:
            raise KeyConflict("taken")
        if self.verb == "upsert":
            gone = hit
        elif self.verb == "patch":
            old = {rows[r]["id"]: rows[r] for r in hit}
            if len(old) != len(hit):
                raise KeyConflict("several rows")
            nothing: Row = dict.fromkeys(sheet.columns)
            gone, added = hit, [{**old.get(i, {**nothing, "id": i}), "w": w} for i, _, w in self.rows]
        elif self.verb == "update":
            gone = matched
            added = [{**rows[r], "v": None if (v := rows[r]["v"]) is None else v + 1} for r in matched]
        elif self.verb == "delete":
            gone = matched
        elif self.verb == "overwrite":
            gone = set(rows)
        for identity in gone:
            del rows[identity]
        rows.update((next(identities), row) for row in added)
        return replace(sheet, rows=rows)


@dataclass
class Draft:
    """What one transaction has done to one table so far. `base` is None when it creates the table."""

    base: Sheet | None
    view: Sheet
    ops: set[str] = field(default_factory=set)
    statements: list[Statement] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    """What each statement has returned of the rows that it found."""
    by_predicate: set[int] = field(default_factory=set)
    wrote: bool = False
    dropped: bool = False

    @property
    def touched(self) -> bool:
        """Whether there is anything to commit. A statement that matched nothing leaves nothing."""
        return self.wrote or self.dropped or self.base is None or self.base.name != self.view.name

    def run(self, statement: Statement) -> None:
        before, told = set(self.view.rows), statement.finds(self.view)
        self.view = statement.apply(self.view)
        self.statements.append(statement)
        self.told.append(told)
        self.ops.add(statement.op)
        self.wrote |= before != set(self.view.rows) or statement.verb == "overwrite"
        if statement.verb in ("update", "delete") and self.base is not None:
            self.by_predicate |= (before - set(self.view.rows)) & set(self.base.rows)

    def onto(self, now: Sheet | None, rivals: list[set[str]], *, has_read: bool) -> Sheet | None:
        """The table after this commit (None: dropped), or `Conflict`."""
        if self.base is None:
            return self.view
        if now is None:
            raise Conflict("dropped")
        theirs = set[str]().union(*rivals)
        if rivals and (self.ops & EXCLUSIVE or theirs & (EXCLUSIVE - {"rename"})):
            raise Conflict("exclusive")
        if self.ops & UPKEEP and theirs & UPKEEP:
            raise Conflict("upkeep twice")
        if self.dropped:
            return None
        view = replace(self.view, name=self.view.name if "rename" in self.ops else now.name)
        return view if not rivals else replace(view, rows=self._rows(now, has_read))

    def _rows(self, now: Sheet, has_read: bool) -> Rows:
        assert self.base is not None
        base, view, newest = self.base.rows, self.view.rows, set(now.rows)
        removed = set(base) - set(view)
        new_keys = {row["id"] for r, row in now.rows.items() if r not in base}
        if not self.by_predicate <= newest:
            raise Conflict("rows chosen by a condition were changed")
        if not removed <= newest:
            return self._again(now, has_read)
        if any(s.verb == "insert" and s.keys & new_keys for s in self.statements):
            raise KeyConflict("the same key")
        if any(s.keys & new_keys for s in self.statements):
            return self._again(now, has_read)
        came = {r: row for r, row in view.items() if r not in base}
        return {**{r: row for r, row in now.rows.items() if r not in removed}, **came}

    def _again(self, now: Sheet, has_read: bool) -> Rows:
        if has_read:
            raise Conflict("has read")
        for statement, told in zip(self.statements, self.told, strict=True):
            if statement.finds(now) != told:
                raise Conflict("another count was told")
            now = statement.apply(now)
        return now.rows


@dataclass(eq=False)
class Done:
    """A commit that is in the log."""

    line: Line
    slot: int
    message: str
    state: State
    ops: dict[int, set[str]]
    floors: int
    """How many floors its branch had seen by then."""
    adopts: Done | None = None
    gone: bool = False
    """Whether cleanup has certainly removed it."""

    @property
    def id(self) -> str:
        return f"{self.slot}.0"

    def number(self, name: str) -> int | None:
        return next((n for n, sheet in self.state.items() if sheet.name == name), None)


@dataclass(eq=False)
class Line:
    """A branch: its commits, those before its start included."""

    name: str
    commits: list[Done] = field(default_factory=list)
    start: Done | None = None
    floor: int = 0
    floors: int = 0
    epoch: int = 0
    closed: bool = False

    @property
    def head(self) -> Done:
        return self.commits[-1]

    @property
    def own(self) -> Iterator[Done]:
        return (c for c in self.commits if c.line is self)

    def add(
        self, commit: str, message: str, state: State, ops: dict[int, set[str]], adopts: Done | None = None
    ) -> Done:
        slot = int(commit.partition(".")[0])
        assert not self.commits or slot > self.head.slot, "a commit came before the one that it follows"
        self.commits.append(Done(self, slot, message, state, ops, self.floors, adopts))
        return self.head

    def fork(self, name: str, at: Done) -> Line:
        return Line(name, self.commits[: self.commits.index(at) + 1], at)

    # -- what other verbs make of it --------------------------------------------------------------------------

    def reverted(self, target: Done) -> State:
        """The state after a revert of one of its commits, or `Conflict`."""
        at = self.commits.index(target)
        before, after, now = self.commits[at - 1].state, target.state, dict(self.head.state)
        for number in target.ops:
            was, became, present = before.get(number), after.get(number), now.get(number)
            latest = next(c for c in reversed(self.commits) if number in c.ops) is target
            if was is None:
                if present is not None and not latest and present != became:
                    raise Conflict("the table was changed since")  # a revert of a revert leaves it as it was
                now.pop(number, None)
            elif became is None:
                now.setdefault(number, was)
            elif present is None:
                raise Conflict("the table was dropped since")
            else:
                now[number] = was if latest else _undone(was, became, present)
        if len({sheet.name for sheet in now.values()}) < len(now):
            raise NameConflict("the name is taken")
        return now

    def fast_forwarded(self, source: Line) -> State | None:
        """The state of `source`, None when there is nothing to do, or `NotFastForward`."""
        known = self.head.adopts or self.head
        if known is source.head or source.head in self.commits:
            return None
        if known not in source.commits and self.head not in source.commits:
            raise NotFastForward("diverged")
        return source.head.state


def _undone(was: Sheet, became: Sheet, present: Sheet) -> Sheet:
    """The rows that came go, the rows that went come back, all by value."""
    if was.columns != present.columns or became.columns != present.columns:
        raise Conflict("the columns are others")
    came = [row for r, row in became.rows.items() if r not in was.rows]
    went = [row for r, row in was.rows.items() if r not in became.rows]
    rows = dict(present.rows)
    for row in came:
        holder = next((r for r, other in rows.items() if other == row), None)
        if holder is None:
            raise Conflict("a row was changed since")
        del rows[holder]
    rows.update((next(identities), row) for row in went)
    keys = Counter(row["id"] for row in rows.values())
    if present.keyed and max(keys.values(), default=0) > 1:
        raise KeyConflict("the key is taken")
    return replace(present, rows=rows)


@dataclass
class Program:
    """One open transaction, in the lake and in the model."""

    tx: Any
    line: Line
    base: Done
    drafts: dict[int, Draft] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    has_read: bool = False

    def __post_init__(self) -> None:
        self.names = {sheet.name: number for number, sheet in self.base.state.items()}

    def draft(self, name: str) -> Draft:
        number = self.names[name]
        sheet = self.base.state.get(number)
        if number not in self.drafts:
            assert sheet is not None
            self.drafts[number] = Draft(sheet, sheet)
        return self.drafts[number]

    def create(self, name: str, keyed: bool, statement: Statement) -> None:
        if name in self.names:
            raise TableExists("the name is taken")
        sheet = Statement("append", statement.rows).apply(Sheet(name, keyed, {}))
        number = self.names[name] = next(identities)
        self.drafts[number] = Draft(None, sheet, {"create"})

    def drop(self, name: str) -> None:
        draft = self.draft(name)
        number = self.names.pop(name)
        if draft.base is None:
            del self.drafts[number]
        else:
            self.drafts[number] = Draft(draft.base, draft.base, {"drop"}, dropped=True)

    def rename(self, old: str, new: str) -> None:
        draft = self.draft(old)
        if new in self.names:
            raise TableExists("the name is taken")
        draft.view = replace(draft.view, name=new)
        if draft.base is not None:
            draft.ops.add("rename")
        self.names[new] = self.names.pop(old)

    def add_column(self, name: str) -> None:
        draft = self.draft(name)
        column = f"x{len(draft.view.columns)}"
        rows = {r: {**row, column: None if row["id"] is None else row["id"] * 2} for r, row in draft.view.rows.items()}
        draft.view = replace(draft.view, columns=(*draft.view.columns, column), rows=rows)
        draft.ops.add("schema")
        draft.wrote = True

    @property
    def chose(self) -> bool:
        """Whether it was told how many rows a condition chose."""
        return any(s.verb in ("update", "delete") for draft in self.drafts.values() for s in draft.statements)

    @property
    def touched(self) -> dict[int, Draft]:
        return {number: draft for number, draft in self.drafts.items() if draft.touched}

    def rivals(self, number: int) -> list[set[str]]:
        since = self.line.commits[self.line.commits.index(self.base) + 1 :]
        return [done.ops[number] for done in since if number in done.ops]

    @property
    def certain(self) -> bool:
        """Whether it must commit if the rows allow it: neither compaction, index nor cleanup came between."""
        mixed = any(
            self.rivals(n) and (d.ops | set[str]().union(*self.rivals(n))) & UPKEEP for n, d in self.touched.items()
        )
        return not (mixed or self.slept)

    @property
    def slept(self) -> bool:
        """Whether a cleanup came since its base was the newest commit."""
        return self.line.floors > (self.base.floors if self.base.line is self.line else 0)

    def after(self, *, has_read: bool) -> State:
        """The lake after this commit, or `Conflict`."""
        state = dict(self.line.head.state)
        for number, draft in self.touched.items():
            sheet = draft.onto(state.get(number), self.rivals(number), has_read=has_read or self.chose)
            state.pop(number, None)
            if sheet is not None:
                state[number] = sheet
        if len({sheet.name for sheet in state.values()}) < len(state):
            raise NameConflict("the name is taken")
        return state

    @property
    def ops(self) -> dict[int, set[str]]:
        return {number: set(draft.ops) for number, draft in self.touched.items()}


def agree(model: Any, lake: Any) -> QuireError | None:
    """Do the same thing in both: both succeed, or both fail alike."""
    try:
        model()
    except QuireError as expected:
        try:
            lake()
        except type(expected) as error:
            return error
        raise AssertionError(f"the lake did what the model refuses: {expected}") from None
    lake()
    return None
