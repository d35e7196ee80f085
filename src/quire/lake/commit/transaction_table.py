"""A table inside a transaction: the writing verbs, and reads that see the transaction's own writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import msgspec

from quire.arguments import checks_arguments
from quire.conversion import held
from quire.conversion.fit import Missing
from quire.conversion.source import empty
from quire.errors import InvalidInput, Refused, TransactionClosed, Unsupported, shown
from quire.filters import Condition, Where
from quire.formats import Handed, HandedFiles, IndexSpec, Place, View, Work
from quire.formats.index_options import IndexOptions
from quire.formats.keys import check_columns
from quire.lake import display
from quire.lake.commit import record_values, validators
from quire.lake.commit.insert_or_ignore import NewKeys
from quire.lake.commit.preconditions import TableVersion
from quire.lake.commit.table_change import Check, Edit, values_table
from quire.lake.engines import Engine, chosen, run_by
from quire.lake.guard.verbs import TRANSACTION_TABLE, guarded
from quire.lake.names import as_columns, no_table
from quire.lake.read.table import Table
from quire.lake.register.owner_mark import OWN
from quire.ledger import Pin, TableState
from quire.prompt import one_line
from quire.store import attached, phase

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.commit.transaction import Transaction


@dataclass(frozen=True)
class Delta:
    """Rows that a transaction adds to a table, and rows that it removes from it."""

    added: pa.RecordBatchReader
    removed: pa.RecordBatchReader


@guarded(TRANSACTION_TABLE)
@checks_arguments
class TransactionTable(Table):
    """A table inside a transaction.

    Everything a `Table` can, seeing the transaction's own writes, and the writing verbs.
    """

    _settled = False
    _unlisted = frozenset({"identified_by", "target", "hand_in", "delta", "rules", "set_rules", "dropped"})

    def __init__(self, tx: Transaction, edit: Edit) -> None:
        self._tx, self._edit = tx, edit
        self._given: Any = None
        """What the statement that runs was given, where that is rows."""
        state = edit.base or TableState(info=edit.info, pin=_no_pin(edit), commit=tx.at.head)
        super().__init__(state, lambda: tx._view(edit), owner=tx)

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
        self._tx.read_columns.add(self._edit.info.id)
        return self._tx._view(self._edit, note=False).schema

    @property
    def version(self) -> TableVersion:
        self._rests_on()
        return super().version

    @property
    def bytes(self) -> int:
        self._rests_on()
        return super().bytes

    @property
    def commit(self) -> str:
        self._rests_on()
        return super().commit

    def _rests_on(self) -> None:
        """Note a read of the program's. What validators look at during the commit is no such read."""
        if not self._tx.committing:
            self._tx._rests_on(self._edit)

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

        What is given is what is stored: rows are taken before the call returns, so their memory may be used again. Few
        are copied and written in the background, so that several tables are written side by side; more than 64 MiB are
        written before it returns. A value that does not fit its column is a `SchemaMismatch` with column and row.
        """
        if self.key:
            return self.insert(data, missing=missing)
        return int(self._do("append", lambda w: w.rows.append(self._once(data), missing=missing)))

    @overload
    def insert(
        self,
        data: Any,
        *,
        on: str | Sequence[str] | None = None,
        missing: Missing = "error",
        exists: Literal["error"] = "error",
    ) -> int: ...
    @overload
    def insert(
        self,
        data: Any,
        *,
        on: str | Sequence[str] | None = None,
        missing: Missing = "error",
        exists: Literal["ignore"],
    ) -> dict[str, int]: ...
    def insert(
        self,
        data: Any,
        *,
        on: str | Sequence[str] | None = None,
        missing: Missing = "error",
        exists: Literal["error", "ignore"] = "error",
    ) -> int | dict[str, int]:
        """Add rows whose keys must be new: a key that exists is a `KeyConflict`. Returns their number.

        With `exists="ignore"` rows whose key exists are left out, and of several rows with one key all but the first;
        returns how many were `inserted` and `ignored`. Rows that are there are never changed. A rival that adds or
        removes one of these keys first is a conflict that `lake.transact` resolves.
        """
        columns = self.identified_by(on)
        if exists == "error":
            return int(self._do("insert", lambda w: w.rows.insert(self._once(data), columns, missing=missing)))
        return self._insert_new(data, columns, missing)

    def _insert_new(self, data: Any, columns: tuple[str, ...], missing: Missing) -> dict[str, int]:
        """Look the keys up, insert the rest strictly, and rely on it that the keys found stay there."""
        edit = self._edit
        changed = edit.work is not None and edit.work.changed

        def statement(work: Work) -> NewKeys:
            check_columns(columns, work.view().schema, self.name)
            new = NewKeys(columns, work.view())
            work.rows.insert(new.through(work.rows.fitted(self._once(data), missing=missing)), columns, missing="error")
            return new

        new: NewKeys = self._do("insert", statement)
        edit.leaves_out = True
        found, base = new.found, edit.base
        if found is not None and base is not None:
            if changed:  # some of them may be rows that this transaction added itself
                with attached(self._tx.meter), phase("statements"):
                    found = self._tx.live.core.format(base.pin.format).open(base.pin, self.name).has(columns, found)
            if found.num_rows:
                self._tx.checks.append(Check("key-exists", edit.info.id, columns, found, retryable=True))
        return {"inserted": new.inserted, "ignored": new.ignored}

    def upsert(
        self, data: Any, *, on: str | Sequence[str] | None = None, keep: Mapping[str, Sequence[bool]] | None = None
    ) -> dict[str, int]:
        """Replace the rows with these keys, add the others. Columns that are not given keep their values.

        `keep` says it row by row: for a column, which rows keep the value they have, if they are there already.
        Returns how many rows were `inserted` and `updated`.
        """
        columns = self.identified_by(on)
        inserted, updated = self._do("upsert", lambda w: w.rows.upsert(self._once(data), columns, keep=keep))
        return {"inserted": inserted, "updated": updated}

    def update(
        self,
        exprs: Mapping[str, Any] | None = None,
        *,
        where: Where | None = None,
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
        twice = sorted(given.keys() & dict(values or {}).keys())
        if twice:
            raise InvalidInput(
                f"Column {twice[0]!r} is set twice: to an expression and to a value.",
                next="Set it once.",
                table=self.name,
                column=twice[0],
            )
        literal = {**{n: v for n, v in given.items() if not isinstance(v, str)}, **dict(values or {})}
        sql_exprs = {n: v for n, v in given.items() if isinstance(v, str)}
        return self._chosen("update", lambda w: w.rows.update(sql_exprs, literal, where, self.key))

    def delete(self, where: Where) -> int:
        """Delete the rows for which the condition holds; `delete("true")` deletes all."""
        if not isinstance(where, str | Condition) or not str(where).strip():
            raise InvalidInput("delete needs a condition.", next='To delete every row, pass delete("true").')
        return self._chosen("delete", lambda w: w.rows.delete(where))

    def _chosen(self, op: str, statement: Any) -> int:
        """Run a statement on the rows that a condition chooses. Their number is something that the program has read."""
        count = int(self._do(op, statement))
        self._tx.has_read = True
        return count

    def overwrite(self, data: Any, *, schema: Literal["keep", "replace"] = "keep") -> int:
        """Replace all rows.

        With `schema="replace"` also the columns. Indexes are dropped with the rows they covered.
        """
        return int(self._do("overwrite", lambda w: w.rows.overwrite(self._once(data), self.key, schema=schema)))

    # -- files that other processes wrote ---------------------------------------------------------------------

    def target(self) -> Place:
        """Where other processes write data files for this table, to be taken over by `hand_in`. It changes nothing."""
        self._check()
        with self._tx._guarded():
            return self._files_of(self._begun()).place()

    def hand_in(self, handed: Handed) -> int:
        """Run a statement whose data files were written elsewhere for `target()`; they become part of the commit.

        Returns how many keys had a row already, or for an append or overwrite the number of rows.
        """
        if handed.op == "delete":
            return self._chosen("delete", lambda w: self._files_of(w).hand_in(handed))
        return int(self._do(handed.op, lambda w: self._files_of(w).hand_in(handed)))

    def _files_of(self, work: Work) -> HandedFiles:
        if work.files is None:
            raise Unsupported(
                f"Table {self.name!r} cannot be written by other processes.",
                next='Write to it in this process: engine="local".',
                table=self.name,
            )
        return work.files

    # -- columns ----------------------------------------------------------------------------------------------

    def add_columns(self, columns: Any) -> None:
        """Add columns: a pyarrow field or schema (nulls), or names with types or SQL expressions."""
        for name in columns if isinstance(columns, Mapping) else ():
            record_values.text("name of a column", name, record_values.MESSAGE)
        self._do("schema", lambda w: w.columns.add(columns))

    def drop_columns(self, names: str | Sequence[str]) -> None:
        """Drop columns. Earlier commits still show them."""
        wanted = [names] if isinstance(names, str) else list(names)
        self._not_key(wanted)
        self._do("schema", lambda w: w.columns.drop(wanted))

    def rename_column(self, old: str, new: str) -> None:
        """Rename a column; its data and indexes stay, and so does its part in the key."""
        self._do("schema", lambda w: w.columns.rename(old, new))
        if old in self.key:
            key = tuple(new if c == old else c for c in self.key)
            self._edit.info = msgspec.structs.replace(self._edit.info, key=key)

    def alter_column(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None:
        """Change a column's type (values are cast; the column moves to the end) or whether it may be null."""
        if type is not None:
            import pyarrow as pa

            if not isinstance(type, pa.DataType):
                raise InvalidInput(f"{shown(type)} is not a type.", next="Pass a pyarrow type, such as pa.float64().")
            self._not_key([name])
        self._do("schema", lambda w: w.columns.alter(name, type=type, nullable=nullable))

    def _not_key(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.key:
                raise Refused(
                    f"Column {name!r} is part of the key of table {self.name!r}.",
                    next="Create a new table with the key you want, and copy the rows.",
                    table=self.name,
                    column=name,
                )

    def set_rules(self, rules: str) -> None:
        """Replace what the table's validator goes by. It conflicts with every other change of the table."""
        self._check()
        self._edit.info = msgspec.structs.replace(self._edit.info, rules=record_values.rules(rules))
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
        **options: Unpack[IndexOptions],
    ) -> str:
        """Build an index with this commit: BTREE, BITMAP, INVERTED (full text), IVF_PQ, IVF_FLAT, IVF_HNSW_SQ, …

        Rows written later are found without it. On a Spark session as `engine`, its executors build it. Returns the
        index name.
        """
        spec = IndexSpec(column, kind, name or f"{column}_idx", dict(options))
        session = chosen(engine, lambda: self._state.pin.bytes)
        run = None if session is None else run_by(session)
        self._do("index", lambda w: w.indexes.create(spec, replace=replace, run=run))
        return spec.name

    def drop_index(self, name: str) -> None:
        """Drop an index by name."""
        self._do("index", lambda w: w.indexes.drop(name))

    # -- what was changed -------------------------------------------------------------------------------------

    def delta(self, columns: Sequence[str] | None = None) -> Delta:
        """What this transaction does to the rows of the table, on the base that it stands on now.

        A row that was replaced is among the removed and among the added. Cheap for small changes: rows that are still
        in memory are not read again.
        """
        self._rests_on()
        return self._delta(columns)

    def _delta(self, columns: Sequence[str] | None) -> Delta:
        """The same for those who only judge it."""
        tx, edit = self._tx, self._edit
        tx._check_open()
        with attached(tx.meter), phase("statements"):
            if edit.work is not None and edit.base is not None and edit.pin is not None and not edit.dropped:
                # It stands on a state that this transaction brings, not on the one that is there.
                place, staged = tx.live.core.format(edit.pin.format), edit.work.stage()
                removed, added = place.changed_rows(edit.base.pin, staged.pin, columns)
                return Delta(added, removed)
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
        with self._tx._guarded(read=True, on=self._edit):
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
        if base is None or not values.num_rows:
            return values.slice(0, 0)
        if work is not None and work.changed:
            view = self._tx.live.core.format(base.pin.format).open(base.pin, self.name)
        there = {tuple(row.values()) for row in held.rows(view.has(tuple(columns), values))}
        wanted = [(tuple(row.values()) in there) == (kind == "key-exists") for row in held.rows(values)]
        return values.filter(wanted)

    # -- plumbing ---------------------------------------------------------------------------------------------

    def identified_by(self, on: str | Sequence[str] | None) -> tuple[str, ...]:
        """The columns by which a statement finds its rows: the key of the table or, when it has none, `on`."""
        columns = as_columns(on) or self.key
        if not columns:
            raise InvalidInput(
                f"Table {self.name!r} has no key.",
                next='Name the columns that identify a row, such as on="id".',
                table=self.name,
            )
        if self.key and columns != self.key:
            raise InvalidInput(
                f"Table {self.name!r} has the key {', '.join(self.key)}, not {', '.join(columns)}.",
                next="Leave out on=.",
                table=self.name,
            )
        return columns

    def __repr__(self) -> str:
        # Its rows are not shown: reading them is something that a transaction remembers.
        return one_line(f"<Table {self.name!r} inside a transaction>")

    def _repr_html_(self) -> str:
        def columns() -> str:
            return display.html_table(("column", "type"), [(f.name, f.type) for f in self.schema])

        return display.shown(f"<b>{escape(self.name)}</b> inside a transaction", columns, html=True)

    def __reduce__(self) -> Any:
        raise Unsupported(
            "A table inside a transaction cannot be pickled.",
            next="Commit, and pickle a table of lake.snapshot() instead.",
        )

    def _check(self) -> None:
        """Raise when the table cannot be changed here."""
        tx, edit = self._tx, self._edit
        tx._check_open()
        if tx.committing:
            raise TransactionClosed(
                "This transaction is being committed, so no statement can be added.", next="Begin a new transaction."
            )
        if edit.dropped:
            raise no_table(self.name, tx.tables())
        if edit.info.validator is not None and not validators.known(edit.info.validator):
            raise validators.missing(edit.info.validator, self.name)

    def _do(self, op: str, statement: Any) -> Any:
        self._check()
        tx, edit = self._tx, self._edit
        self._given = None
        with tx._guarded(on=edit):
            result = statement(self._begun())
            if not _is_held(self._given):
                tx._inputs.gave(self._given, _rows_of(result), self.name)
        edit.did(op)
        return result

    def _once(self, data: Any) -> Any:
        """Rows that are given, if they were not read before."""
        self._given = data
        return data if _is_held(data) else self._tx._inputs.take(data, self.name)

    def _begun(self) -> Work:
        tx, edit = self._tx, self._edit
        if edit.work is None:
            pin = edit.pin or (edit.base.pin if edit.base else None)
            assert pin is not None
            if pin.location.startswith(OWN):
                tx.live.core.store.reach.writable(pin.location)
            else:
                tx.live.core.owners.writable(pin, edit.info)
            edit.work = tx.live.core.format(pin.format).begin(pin, write=tx.write, table=edit.info.name)
        return edit.work


def _no_pin(edit: Edit) -> Pin:
    return edit.pin or Pin(format="", location="", version="0", counter=0)


def _is_held(data: Any) -> bool:
    """Whether the rows of an input lie in memory, so that it can be read again and again; so does nothing at all."""
    return data is None or (hasattr(data, "__len__") and not isinstance(data, Iterator | Mapping))


def _rows_of(result: Any) -> int:
    """How many rows a statement was given, as its result tells it."""
    if isinstance(result, NewKeys):
        return result.inserted + result.ignored
    return sum(result) if isinstance(result, tuple) else int(result or 0)
