"""A table inside a transaction: the writing verbs, and reads that see the transaction's own writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from quire.errors import InvalidInput, Refused, TransactionClosed, Unsupported
from quire.formats import Handed, IndexSpec, Place, Shared, View, Work
from quire.formats.arrow import Missing, empty
from quire.lake import validators
from quire.lake.edits import Check, Edit, values_table
from quire.lake.engines import Engine, chosen
from quire.lake.names import as_columns, no_table
from quire.lake.parts import run_by
from quire.lake.table import Table
from quire.ledger import Pin, TableState
from quire.store import attached, phase

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.transaction import Transaction


@dataclass(frozen=True)
class Delta:
    """Rows that a transaction adds to a table, and rows that it removes from it."""

    added: pa.RecordBatchReader
    removed: pa.RecordBatchReader


class TransactionTable(Table):
    """A table inside a transaction.

    Everything a `Table` can, seeing the transaction's own writes, and the writing verbs.
    """

    def __init__(self, tx: Transaction, edit: Edit) -> None:
        self._tx, self._edit = tx, edit
        state = edit.base or TableState(info=edit.info, pin=_no_pin(edit), commit=tx.at.head)
        super().__init__(state, lambda: tx._view(edit))

    @property
    def name(self) -> str:
        return self._edit.info.name

    @property
    def key(self) -> tuple[str, ...]:
        return self._edit.info.key

    @property
    def dropped(self) -> bool:
        """Whether this transaction drops it."""
        return self._edit.dropped

    @property
    def rules(self) -> str:
        """What its validator goes by."""
        return self._edit.info.rules

    @property
    def schema(self) -> Any:
        return self._tx._view(self._edit, note=False).schema

    def count(self, filter: Any = None) -> int:
        self._tx._check_open()
        return self._view().count(filter)

    def _view(self) -> View:
        self._tx._check_open()
        with self._tx._guarded(read=True):
            return self._open()

    # -- rows -------------------------------------------------------------------------------------------------

    def append(self, data: Any, *, missing: Missing = "error") -> int:
        """Add rows; on a table with a key this is a strict `insert`. Returns their number.

        Rows in memory are written in the background, so that several tables are written side by side.
        """
        if self.key:
            return self.insert(data, missing=missing)
        return int(self._do("append", lambda w: w.append(data, missing=missing)))

    def insert(self, data: Any, *, on: str | Sequence[str] | None = None, missing: Missing = "error") -> int:
        """Add rows whose keys must be new: a key that exists is a `KeyConflict`."""
        columns = self.identified_by(on)
        return int(self._do("insert", lambda w: w.insert(data, columns, missing=missing)))

    def upsert(
        self, data: Any, *, on: str | Sequence[str] | None = None, keep: Mapping[str, Sequence[bool]] | None = None
    ) -> dict[str, int]:
        """Replace the rows with these keys, add the others. Columns that are not given keep their values.

        `keep` says it row by row: for a column, which rows keep the value they have, if they are there already.
        Returns how many rows were `inserted` and `updated`.
        """
        columns = self.identified_by(on)
        inserted, updated = self._do("upsert", lambda w: w.upsert(data, columns, keep=keep))
        return {"inserted": inserted, "updated": updated}

    def update(
        self,
        exprs: Mapping[str, Any] | None = None,
        *,
        where: str | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> int:
        """Set columns where a condition holds: text in `exprs` is SQL over the row, everything in `values` is a value.

        >>> import quire
        >>> lake = quire.create("memory://update-example")
        >>> receipt = lake.create_table("t", [{"id": 7, "hits": 1, "name": "?"}])
        >>> with lake.transaction() as tx:
        ...     tx["t"].update({"hits": "hits + 1"}, values={"name": "Ada"}, where="id = 7")
        1
        >>> lake["t"].to_pylist()
        [{'id': 7, 'hits': 2, 'name': 'Ada'}]
        """
        given = dict(exprs or {})
        literal = {**{n: v for n, v in given.items() if not isinstance(v, str)}, **dict(values or {})}
        sql_exprs = {n: v for n, v in given.items() if isinstance(v, str)}
        return int(self._do("update", lambda w: w.update(sql_exprs, literal, where, self.key)))

    def delete(self, where: str) -> int:
        """Delete the rows for which the condition holds; `delete("true")` deletes all."""
        if not isinstance(where, str) or not where.strip():
            raise InvalidInput("delete needs a condition.", next='To delete every row, say delete("true").')
        return int(self._do("delete", lambda w: w.delete(where)))

    def overwrite(self, data: Any, *, schema: Literal["keep", "replace"] = "keep") -> int:
        """Replace all rows.

        With `schema="replace"` also the columns. Indexes are dropped with the rows they covered.
        """
        return int(self._do("overwrite", lambda w: w.overwrite(data, self.key, schema=schema)))

    # -- files that other processes wrote ---------------------------------------------------------------------

    def target(self) -> Place:
        """Where other processes write data files for this table, to be taken over by `hand_in`. It changes nothing."""
        self._check()
        with self._tx._guarded():
            return self._shared(self._begun()).place()

    def hand_in(self, handed: Handed) -> int:
        """Run a statement whose data files were written elsewhere for `target()`; they become part of the commit.

        Returns how many keys had a row already, or for an append or overwrite the number of rows.
        """
        return int(self._do(handed.op, lambda w: self._shared(w).hand_in(handed)))

    def _shared(self, work: Work) -> Shared:
        if not isinstance(work, Shared):
            raise Unsupported(
                f"Other processes cannot write to table {self.name!r}.",
                next='Write to it in this one: engine="local".',
                table=self.name,
            )
        return work

    # -- columns ----------------------------------------------------------------------------------------------

    def add_columns(self, columns: Any) -> None:
        """Add columns: a pyarrow field or schema (nulls), or names with types or SQL expressions."""
        self._do("schema", lambda w: w.add_columns(columns))

    def drop_columns(self, names: str | Sequence[str]) -> None:
        """Drop columns. Earlier commits still show them."""
        wanted = [names] if isinstance(names, str) else list(names)
        self._not_key(wanted)
        self._do("schema", lambda w: w.drop_columns(wanted))

    def rename_column(self, old: str, new: str) -> None:
        """Rename a column; its data and indexes stay, and so does its part in the key."""
        self._do("schema", lambda w: w.rename_column(old, new))
        if old in self.key:
            key = tuple(new if c == old else c for c in self.key)
            self._edit.info = msgspec.structs.replace(self._edit.info, key=key)

    def alter_column(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None:
        """Change a column's type (values are cast; the column moves to the end) or whether it may be null."""
        if type is not None:
            self._not_key([name])
        self._do("schema", lambda w: w.alter_column(name, type=type, nullable=nullable))

    def _not_key(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.key:
                raise Refused(
                    f"Column {name!r} is part of the key of table {self.name!r}.",
                    next="Create a new table with the key you want and copy the rows.",
                    table=self.name,
                    column=name,
                )

    def set_rules(self, rules: str) -> None:
        """Replace what the table's validator goes by. It conflicts with every other change of the table."""
        self._check()
        self._edit.info = msgspec.structs.replace(self._edit.info, rules=rules)
        self._edit.did("schema")

    # -- indexes ----------------------------------------------------------------------------------------------

    def create_index(
        self,
        column: str,
        kind: str = "BTREE",
        *,
        name: str | None = None,
        replace: bool = False,
        engine: Engine = "local",
        **options: Any,
    ) -> str:
        """Build an index with this commit: BTREE, BITMAP, INVERTED (full text), IVF_PQ, IVF_FLAT, IVF_HNSW_SQ, …

        Rows written later are found without it. On a Spark session as `engine`, its executors build it. Returns the
        index name.
        """
        spec = IndexSpec(column, kind, name or f"{column}_idx", options)
        session = chosen(engine, lambda: self.bytes)
        run = None if session is None else run_by(session)
        self._do("index", lambda w: w.create_index(spec, replace=replace, run=run))
        return spec.name

    def drop_index(self, name: str) -> None:
        """Drop an index by name."""
        self._do("index", lambda w: w.drop_index(name))

    # -- what was changed -------------------------------------------------------------------------------------

    def delta(self, columns: Sequence[str] | None = None) -> Delta:
        """What this transaction does to the rows of the table, on the base that it stands on now.

        A row that was replaced is among the removed and among the added. Cheap for small changes: rows that are still
        in memory are not read again.
        """
        tx, edit = self._tx, self._edit
        tx._check_open()
        with attached(tx.meter), phase("statements"):
            if edit.work is not None and not edit.dropped:
                removed, added = edit.work.delta(columns)
                return Delta(added, removed)
            base, now = edit.base, edit.pin
            format = tx.live.core.format((now or _no_pin(edit) if base is None else base.pin).format)
            if base is None:
                view = tx._view(edit, note=False)
                return Delta(view.scan(columns=columns), empty(view.schema, columns))
            view = format.open(base.pin, self.name)
            if edit.dropped:
                return Delta(empty(view.schema, columns), view.scan(columns=columns))
            if now is None:
                return Delta(empty(view.schema, columns), empty(view.schema, columns))
            removed, added = format.changed_rows(base.pin, now, columns)
            return Delta(added, removed)

    # -- reads that a decision rests on -----------------------------------------------------------------------

    def require_keys(self, values: Any, *, on: str | Sequence[str] | None = None) -> None:
        """These keys must exist, now and on whatever base the commit lands."""
        self._require("key-exists", values, self.identified_by(on))

    def require_absent(self, values: Any, *, on: str | Sequence[str] | None = None) -> None:
        """These keys must not exist, now and on whatever base the commit lands."""
        self._require("key-absent", values, self.identified_by(on))

    def require_none(self, column: str, values: Any) -> None:
        """No row may have one of these values in `column`, now and on whatever base the commit lands."""
        self._require("no-row", values, (column,))

    def _require(self, kind: Any, values: Any, columns: Sequence[str]) -> None:
        self._tx._check_open()
        with attached(self._tx.meter), phase("statements"):
            view = self._tx._view(self._edit, note=False)
            table = values_table(values, columns, view.schema, self.name)
            Check(kind, self._edit.info.id, tuple(columns), table).run(self.name, view)
            values = self._resting_on_base(kind, columns, table, view)
        if values.num_rows:
            self._tx.checks.append(Check(kind, self._edit.info.id, tuple(columns), values))

    def _resting_on_base(self, kind: str, columns: Sequence[str], values: Any, view: View) -> Any:
        """The values for which the answer came from the base rather than from this transaction's own writes.

        Only those can change under it, and only the base is asked again.
        """
        base, work = self._edit.base, self._edit.work
        if base is None:
            return values.slice(0, 0)
        if work is not None and work.changed:
            view = self._tx.live.core.format(base.pin.format).open(base.pin, self.name)
        there = {tuple(row.values()) for row in view.has(tuple(columns), values).to_pylist()}
        wanted = [(tuple(row.values()) in there) == (kind == "key-exists") for row in values.to_pylist()]
        return values.filter(wanted)

    # -- plumbing ---------------------------------------------------------------------------------------------

    def identified_by(self, on: str | Sequence[str] | None) -> tuple[str, ...]:
        """The columns by which a statement finds its rows: the key of the table or, when it has none, `on`."""
        columns = as_columns(on) or self.key
        if not columns:
            raise InvalidInput(
                f"Table {self.name!r} has no key.", next='Say which columns identify a row: on="id".', table=self.name
            )
        if self.key and columns != self.key:
            raise InvalidInput(
                f"Table {self.name!r} has the key {', '.join(self.key)}, not {', '.join(columns)}.",
                next="Leave on= out.",
                table=self.name,
            )
        return columns

    def __repr__(self) -> str:
        return f"<Table {self.name!r} inside a transaction>"

    def __reduce__(self) -> Any:
        raise Unsupported(
            "A table inside a transaction cannot be pickled.", next="Commit, and pickle a table of lake.snapshot()."
        )

    def _check(self) -> None:
        """Raise when the table cannot be changed here."""
        tx, edit = self._tx, self._edit
        tx._check_open()
        if tx.committing:
            raise TransactionClosed(
                "This transaction is being committed; nothing can be added to it.", next="Begin another one."
            )
        if edit.dropped:
            raise no_table(self.name, tx.tables())
        if edit.info.validator is not None and not validators.known(edit.info.validator):
            raise validators.missing(edit.info.validator, self.name)

    def _do(self, op: str, statement: Any) -> Any:
        self._check()
        tx, edit = self._tx, self._edit
        with tx._guarded():
            result = statement(self._begun())
        edit.did(op)
        return result

    def _begun(self) -> Work:
        tx, edit = self._tx, self._edit
        if edit.work is None:
            pin = edit.pin or (edit.base.pin if edit.base else None)
            assert pin is not None
            edit.work = tx.live.core.format(pin.format).begin(pin, write=tx.write, table=edit.info.name)
        return edit.work


def _no_pin(edit: Edit) -> Pin:
    return edit.pin or Pin(format="", location="", version="0", counter=0)
