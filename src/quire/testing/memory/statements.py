"""What a transaction was asked to do to a table, kept so that it can be done again on a newer base."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from quire.filters import Where
from quire.formats import Build, Seek
from quire.formats.keys import summarise
from quire.ledger import Keys
from quire.testing.memory.files import Fragment
from quire.testing.memory.net import Wrote

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Append:
    fragment: Fragment | None


@dataclass
class Keyed:
    """Strict insert or upsert of whole rows."""

    mode: Literal["insert", "upsert"]
    fragment: Fragment | None
    on: tuple[str, ...]
    keys: pa.Table
    matched: int = 0
    """How many of the rows replaced another, on the base that it was run on last."""
    told: int | None = None
    """The same on the first base: what the program knows."""

    @property
    def rows(self) -> int:
        return int(self.keys.num_rows)


@dataclass
class Sought:
    """Strict insert, upsert or delete by key whose keys lie in files, where other processes look for their rows."""

    mode: Literal["insert", "upsert", "delete"]
    fragments: Sequence[Fragment]
    on: tuple[str, ...]
    seek: Seek
    without: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    """By position among its fragments: rows of theirs that are left out."""
    build: Build | None = None
    """What makes the rows, on each base anew."""
    matched: int = 0
    told: int | None = None

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.fragments) - sum(map(len, self.without.values()))


@dataclass
class Patch:
    """Upsert of some values only: the new rows depend on the old ones, so they are built on each base."""

    source: pa.Table
    on: tuple[str, ...]
    keep: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """By column, a mask of the rows that keep the value of the row that is there."""
    matched: int = 0
    told: int | None = None

    @property
    def keys(self) -> pa.Table:
        return self.source.select(list(self.on))

    @property
    def rows(self) -> int:
        return int(self.source.num_rows)


@dataclass
class Update:
    exprs: dict[str, str]
    values: dict[str, Any]
    where: Where | None
    on: tuple[str, ...] = ()
    """Key columns that the update itself writes; the new keys must be free."""
    keys: pa.Table | None = None


@dataclass
class Delete:
    where: Where


StagedStatement = Append | Keyed | Sought | Patch | Update | Delete


def by_condition(statement: StagedStatement) -> bool:
    """Whether it is about the rows that were there when it ran, so that run later it could be about others."""
    return isinstance(statement, Update | Delete) or (isinstance(statement, Sought) and statement.mode == "delete")


def only_adds(statements: Sequence[StagedStatement]) -> bool:
    return all(isinstance(s, Append) or (isinstance(s, Keyed) and s.mode == "insert") for s in statements)


def upserted(statements: Sequence[StagedStatement]) -> tuple[int, int]:
    """Rows that the upserts among them added and replaced, on the base that they were run on last."""
    added = replaced = 0
    for statement in statements:
        if isinstance(statement, Patch) or (isinstance(statement, Keyed | Sought) and statement.mode == "upsert"):
            added, replaced = added + statement.rows - statement.matched, replaced + statement.matched
    return added, replaced


def told_otherwise(statements: Sequence[StagedStatement]) -> bool:
    """Whether the program knows a count of one of them, and it counted something else on its last base."""
    return any(isinstance(s, Keyed | Sought | Patch) and s.matched != s.told for s in statements)


def wrote(statements: Sequence[StagedStatement]) -> list[Wrote]:
    """The keys by which they wrote, as a rebase compares them with those of rivals."""
    listed = [
        Wrote(s.on, s.keys, isinstance(s, Update) or (isinstance(s, Keyed) and s.mode == "insert"))
        for s in statements
        if isinstance(s, Keyed | Patch | Update) and s.on and s.keys is not None
    ]
    sought = [s for s in statements if isinstance(s, Sought) and s.mode != "delete"]
    return listed + [Wrote(s.on, None, s.mode == "insert", s.seek) for s in sought]


def keys_of(statements: Sequence[StagedStatement]) -> tuple[Keys, ...]:
    """The keys of the rows that they write, for the record of the commit."""
    import pyarrow as pa

    by_columns: dict[tuple[str, ...], list[pa.Table]] = {}
    for statement in statements:
        if isinstance(statement, Keyed | Patch | Update) and statement.on and statement.keys is not None:
            by_columns.setdefault(tuple(statement.on), []).append(statement.keys.select(list(statement.on)))
    sought = [s for s in statements if isinstance(s, Sought) and s.mode != "delete"]
    unlisted = tuple(Keys(columns=s.on, count=s.rows) for s in sought)
    return unlisted + tuple(summarise(on, pa.concat_tables(parts)) for on, parts in by_columns.items())
