"""Rules that a higher layer puts on tables.

A table's record names its validator. The lake knows only the name; when no validator of that name is installed,
writes to the table are refused. A validator is called before the publish, on the base the commit would land on, and
again when a table that the transaction writes, checks or has read was moved meanwhile. It may read through the
transaction, and must not commit. `Proposal` shows it more than the program of the transaction sees.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from quire.arguments import checked
from quire.errors import ValidatorMissing

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import Ran, View
    from quire.lake.commit.table_change import Edit, Mark
    from quire.lake.commit.transaction import Transaction
    from quire.lake.commit.transaction_table import Delta
    from quire.ledger import Pin, TableInfo

Validator = Callable[[Any, list[str]], None]
"""Called with the transaction and the names of the changed tables it guards; raises a `QuireError` to refuse."""


@dataclass(frozen=True)
class Breach:
    """A row that breaks a rule in what a transaction would leave."""

    table: str
    rule: Literal["orphan", "unique", "cardinality", "check", "null"]
    key: dict[str, Any] | None
    columns: tuple[str, ...]
    message: str
    partners: tuple[tuple[str, Any], ...] = ()
    """Table and key of rows that it breaks the rule with: of an orphan the node that is not there."""


class Merging(Protocol):
    """What a validator has to say of merges of its tables."""

    def breaches(self, tx: Any, tables: list[str], most: int) -> list[Breach]:
        """Rows that break a rule, the first so many of them."""
        ...

    def groups(self, info: TableInfo) -> list[tuple[str, ...]]:
        """Columns of a table that belong together: no merged row has some of one side and some of the other."""
        ...


_installed: dict[str, Validator] = {}
_merging: dict[str, Merging] = {}
_providers = {"graph": "quire.graph"}
"""Modules that install a validator, to be imported when the first table asks for it."""


@checked
def install(name: str, validator: Validator, merging: Merging | None = None) -> None:
    """Install who judges the tables of that name, and what it has to say of their merges."""
    _installed[name] = validator
    if merging is not None:
        _merging[name] = merging


def merging(name: str) -> Merging | None:
    """What a validator has to say of merges; None where it says nothing."""
    return _merging.get(name) if known(name) else None


def known(name: str) -> bool:
    return get(name) is not None


def missing(name: str, table: str) -> ValidatorMissing:
    return ValidatorMissing(
        f"The validator {name!r} of table {table!r} is not installed here.",
        next="Install the package that provides it. Reading works without it.",
        table=table,
        validator=name,
    )


def get(name: str) -> Validator | None:
    if name not in _installed and name in _providers:
        importlib.import_module(_providers[name])
    return _installed.get(name)


# -- what a validator sees ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proposal:
    """A transaction as it would leave the tables of its branch, for those who judge it or write on behalf of it.

    What is read here is no read of the program's: its statements may still be run again on a newer base.
    """

    tx: Transaction

    @property
    def names(self) -> Mapping[str, str]:
        """The ids of all tables, by name."""
        return self.tx._names

    def infos(self) -> list[TableInfo]:
        """The records of all tables."""
        edits, at = self.tx.edits, self.tx.at.tables
        return [edits[id].info if id in edits else at[id].info for id in self.tx._names.values()]

    def table(self, id: str) -> ProposedTable:
        """A table that the transaction does not drop, by its id."""
        return ProposedTable(self.tx, self.tx._edit(id))

    def changed(self) -> Iterator[ProposedTable]:
        """The tables that it changes, those too that it drops."""
        return (ProposedTable(self.tx, edit) for edit in list(self.tx.edits.values()) if edit.changed)

    def change_of(self, id: str) -> ProposedTable | None:
        """The same for one table; None when the transaction leaves it as it is."""
        edit = self.tx.edits.get(id)
        return ProposedTable(self.tx, edit) if edit is not None and edit.changed else None

    def pin(self, id: str) -> Pin | None:
        """The state of a table that the transaction stands on."""
        at = self.tx.at.tables.get(id)
        return None if at is None else at.pin

    def rest_on(self, id: str) -> None:
        """Be called again when this table moves before the commit lands."""
        self.tx.read_tables.add(id)

    @property
    def others_committed(self) -> bool:
        """Whether the transaction lands on another state than the one that its program began on."""
        return self.tx.begun != self.tx.at.head


@dataclass(frozen=True)
class ProposedTable:
    """One table as a transaction would leave it."""

    tx: Transaction
    edit: Edit

    @property
    def info(self) -> TableInfo:
        return self.edit.info

    @property
    def before(self) -> TableInfo | None:
        """Its record on the base; None for a table that the transaction creates."""
        return None if self.edit.base is None else self.edit.base.info

    @property
    def rows_before(self) -> int:
        return 0 if self.edit.base is None else self.edit.base.pin.rows

    @property
    def changed(self) -> bool:
        return self.edit.changed

    @property
    def dropped(self) -> bool:
        return self.edit.dropped

    @property
    def has_new_rows(self) -> bool:
        """Whether statements changed anything in it."""
        return self.edit.work is not None and self.edit.work.changed

    @property
    def replaced(self) -> bool:
        """Whether a statement was about the whole table: all rows, or the columns."""
        return self.edit.work is not None and self.edit.work.exclusive

    def stands_on(self) -> object:
        """What a statement of the transaction would start from."""
        return self.edit.base, self.edit.pin, self.edit.dropped

    def ran(self) -> Ran | None:
        """The statements that ran on it; None where there was none."""
        return None if self.edit.work is None else self.edit.work.ran()

    def upserted(self) -> tuple[int, int] | None:
        """Rows that its upserts added and replaced, as it stands now."""
        return None if self.edit.work is None else self.edit.work.rows.upserted()

    def view(self) -> View:
        """The table as the transaction leaves it. What it wrote is staged for that."""
        return self.tx._view(self.edit, note=False)

    def base(self) -> View:
        """The table as it is on the base, without what the transaction does to it."""
        base = self.edit.base
        assert base is not None
        return self.tx.live.core.format(base.pin.format).open(base.pin, self.edit.info.name)

    def schema(self) -> pa.Schema:
        """Its columns. Rows that are written change none, and are not staged for it."""
        rows_only = self.edit.base is not None and self.edit.work is not None and not self.replaced
        return (self.base() if rows_only else self.view()).schema

    def delta(self, columns: Sequence[str] | None = None) -> Delta:
        """What the transaction does to its rows."""
        return self.tx[self.edit.info.name]._delta(columns)

    def mark(self) -> Mark:
        """Where it stands, for `take_back`."""
        return self.edit.mark()

    def take_back(self, mark: Mark) -> None:
        """Undo the statements since a mark, as if they had never run. They must have changed nothing but rows."""
        self.edit.take_back(mark)
