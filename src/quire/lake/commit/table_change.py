"""What a transaction does to one table, and the reads that its decisions rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from quire.conversion import held
from quire.conversion.fit import fit
from quire.conversion.inputs import source
from quire.errors import ExpectationFailed, InvalidInput
from quire.formats import View, Work
from quire.formats.keys import check_columns, show
from quire.ledger import Pin, Read, TableInfo, TableState

if TYPE_CHECKING:
    import pyarrow as pa


AGAIN = "Run the transaction again on a fresh snapshot; lake.transact does this by itself."


@dataclass(frozen=True)
class Mark:
    """Where one table stood in one transaction."""

    work: Work | None
    at: object
    ops: tuple[str, ...]


@dataclass
class Edit:
    """One table in one transaction. `base` is None when the transaction creates it."""

    info: TableInfo
    base: TableState | None
    work: Work | None = None
    ops: list[str] = field(default_factory=list)
    dropped: bool = False
    renamed: bool = False
    leaves_out: bool = False
    """Whether rows were left out because their keys exist: a key that a rival adds first is then one more of them."""
    pin: Pin | None = None
    """A state to pin as it is, without staging: a registered table, a revert, a fast-forward."""

    client_file: str = ""
    """The file in which a client has staged what is done here, if one has."""

    def did(self, op: str) -> None:
        if op not in self.ops:
            self.ops.append(op)

    def mark(self) -> Mark:
        """Where the table stands in this transaction, for `take_back`."""
        return Mark(self.work, self.work.mark() if self.work is not None else None, tuple(self.ops))

    def take_back(self, mark: Mark) -> None:
        """Undo the statements since a mark, as if they had never run. They must have changed nothing but rows."""
        self.work, self.ops = mark.work, list(mark.ops)
        if self.work is not None:
            self.work.take_back(mark.at)

    @property
    def created(self) -> bool:
        return self.base is None

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit. A statement that matched no row changes nothing."""
        altered = self.base is not None and self.info != self.base.info
        return bool(self.dropped or self.pin or altered or (self.work is not None and self.work.changed))


@dataclass(frozen=True)
class Check:
    """A read that must still hold on the base the commit lands on."""

    kind: Literal["key-exists", "key-absent", "no-row"]
    table: str
    columns: tuple[str, ...]
    values: pa.Table
    retryable: bool = False
    """Whether the program may simply run again: a statement looked, and not the program."""

    def run(self, name: str, view: View) -> None:
        """Raise `ExpectationFailed` when the table says otherwise."""
        found = view.has(self.columns, self.values)
        if self.kind == "key-exists":
            if found.num_rows == self.values.num_rows:
                return
            there = {tuple(r.values()) for r in held.rows(found)}
            wrong = [r for r in held.rows(self.values) if tuple(r.values()) not in there]
            said = f"Table {name!r} has no row with {show(wrong)}"
        else:
            if found.num_rows == 0:
                return
            wrong = held.rows(found)
            said = f"Table {name!r} has a row with {show(wrong)}"
        raise ExpectationFailed(
            f"{said}, which this transaction relied on.",
            next=AGAIN if self.retryable else "Read the table again, and decide anew.",
            retryable=self.retryable,
            table=name,
            keys=wrong[:20],
        )

    def record(self) -> Read:
        return Read(kind=self.kind, table=self.table, columns=self.columns, count=self.values.num_rows)


def values_table(values: Any, columns: Sequence[str], schema: pa.Schema, table: str) -> pa.Table:
    """Keys as the user gives them (scalars, tuples, dicts, Arrow) as distinct typed rows."""
    check_columns(columns, schema, table)
    if isinstance(values, list | tuple | set):
        rows = []
        for value in values:
            if isinstance(value, dict):
                rows.append({c: value.get(c) for c in columns})
            elif len(columns) == 1:
                rows.append({columns[0]: value})
            elif isinstance(value, list | tuple) and len(value) == len(columns):
                rows.append(dict(zip(columns, value, strict=True)))
            else:
                raise InvalidInput(
                    f"{value!r} does not match the columns {', '.join(columns)}.",
                    next="Give one value for each column.",
                )
        values = rows
    import pyarrow as pa

    wanted = pa.schema([schema.field(c) for c in columns])
    if isinstance(values, list) and not values:
        return wanted.empty_table()
    given = fit(source(values, wanted, table=table), wanted, table=table).table()
    return given.group_by(list(columns), use_threads=False).aggregate([]).cast(wanted)
