"""A transaction: statements on any number of tables, one commit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from quire.errors import (
    AlreadyExists,
    Conflict,
    DeadlineExceeded,
    InvalidInput,
    NotFound,
    QuireError,
    Refused,
    TableExists,
    TransactionClosed,
    Unsupported,
)
from quire.formats import IndexSpec, View
from quire.formats.arrow import Missing
from quire.lake import publish, sql, tokens, validators
from quire.lake.edits import Check, Edit, values_table
from quire.lake.names import check_table, no_table, parse_commit
from quire.lake.receipt import Receipt
from quire.lake.table import Rows, Table
from quire.ledger import Learnt, Point, State, TableInfo, TableState, new_id
from quire.store import Meter, attached

if TYPE_CHECKING:
    from quire.lake.background import Background
    from quire.lake.line import LiveBranch

Isolation = Literal["snapshot", "serializable"]
Status = Literal["open", "publishing", "committed", "discarded", "unknown"]


class Transaction:
    """Changes several tables in one commit. As a context manager it commits on exit and discards on an exception.

    >>> import quire
    >>> lake = quire.create("memory://transaction-example")
    >>> with lake.transaction("nightly ingest") as tx:
    ...     documents = tx.create_table("documents", [{"id": 1}])
    ...     chunks = tx.create_table("chunks", [{"id": 1, "text": "A lake holds still."}], key="id")
    ...     rows = documents.append([{"id": 2}])
    ...     counts = chunks.upsert([{"id": 1, "text": "A lake holds water."}])
    >>> counts
    {'inserted': 0, 'updated': 1}
    >>> tx.receipt.commit
    '1.0'
    """

    def __init__(
        self,
        live: LiveBranch,
        background: Background | None,
        *,
        message: str = "",
        author: str | None = None,
        token: tokens.Token | None = None,
        expect: Mapping[str, int] | None = None,
        if_head: str | None = None,
        isolation: Isolation = "snapshot",
        timeout: float | None = None,
        backfill: bool = True,
        base: State | None = None,
    ) -> None:
        if isolation not in ("snapshot", "serializable"):
            raise InvalidInput(f"There is no isolation {isolation!r}.", next='Use "snapshot" or "serializable".')
        for what, text in (("message", message), ("author", author or "")):
            _check_text(what, text)
        live.core.check_writable()
        self.live, self.background, self.backfill = live, background, backfill
        self.message, self.author = message, author or live.core.author
        self.stream, self.token = tokens.parse(token)
        self.expect = dict(expect or {})
        self.if_head = parse_commit(if_head) if if_head is not None else None
        self.isolation: Isolation = isolation
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.write = new_id()
        self.at = base or live.state
        """The state this transaction is based on; a rebase moves it forward."""
        self.edits: dict[str, Edit] = {}
        self.checks: list[Check] = []
        self.read_tables: set[str] = set()
        self.has_read = False
        self.reverts: Point | None = None
        self.adopts: Point | None = None
        self.learnt: Learnt | None = None
        self.parents: tuple[Point, ...] = ()
        self.status: Status = "open"
        self.slot: int | None = None
        self.receipt: Receipt | None = None
        self.meter = Meter()
        self.durable: set[str] = set()
        """Files already made durable on a local disk."""
        self._names = self.at.names()

    # -- life -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status != "open":
            return
        if error is None:
            self.commit()
        else:
            self.discard()

    def commit(self) -> Receipt:
        """Publish.

        Afterwards `receipt` holds the proof; on an error nothing was committed, except for `CommitUnknown`.
        """
        try:
            self._check_open()
            with attached(self.meter):
                self.receipt = publish.commit(self)
        finally:
            if self.status in ("open", "publishing"):
                self.status = "discarded" if self.status == "open" else "unknown"
        return self.receipt

    def discard(self) -> None:
        """Forget everything. What was staged is invisible and will be cleaned up."""
        if self.status == "open":
            self.status = "discarded"

    def _check_open(self) -> None:
        self.live.core.check_writable()
        if self.status != "open":
            raise TransactionClosed(
                f"This transaction is {self.status}.",
                next="Begin a new one with lake.transaction().",
                status=self.status,
            )
        self._check_deadline()

    def _check_deadline(self) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise DeadlineExceeded(
                "The transaction's time ran out before it was published; nothing was committed.",
                next="Give it a longer timeout, or make it smaller.",
            )

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Meter a step, and give the transaction up when the step may have stopped half-way.

        A refusal, and an exception of the program's own iterator, leave the transaction as it was before the step.
        """
        try:
            with attached(self.meter):
                yield
        except BaseException as error:
            refused = isinstance(error, InvalidInput | NotFound | AlreadyExists | Conflict | Refused)
            broken = isinstance(error, QuireError | MemoryError) or not isinstance(error, Exception)
            if broken and not refused:
                self.discard()
            raise

    # -- tables -----------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Names of the tables as this transaction sees them."""
        return sorted(self._names)

    def __getitem__(self, name: str) -> TransactionTable:
        self._check_open()
        if name not in self._names:
            raise no_table(name, self._names)
        return TransactionTable(self, self._edit(self._names[name]))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def _edit(self, table: str) -> Edit:
        if table not in self.edits:
            found = self.at.tables[table]
            self.edits[table] = Edit(found.info, found)
        return self.edits[table]

    def create_table(
        self,
        name: str,
        data: Any = None,
        *,
        schema: Any = None,
        key: str | Sequence[str] | None = None,
        stable_row_ids: bool = False,
        validator: str | None = None,
        format: str = "lance",
    ) -> TransactionTable:
        """Create a table from data, or from a schema alone. With a key, appends are strict inserts."""
        self._check_open()
        self._free(check_table(name))
        columns = (key,) if isinstance(key, str) else tuple(key or ())
        info = TableInfo(id=new_id(), name=name, key=columns, stable_row_ids=stable_row_ids, validator=validator)
        edit = Edit(info, None)
        with attached(self.meter):
            edit.work = publish.create_work(self, edit, data, schema, format)
        edit.did("create")
        self.edits[info.id] = edit
        self._names[name] = info.id
        return TransactionTable(self, edit)

    def register_table(
        self, name: str, uri: str, *, key: str | Sequence[str] | None = None, format: str = "lance"
    ) -> TransactionTable:
        """Take an existing table into the lake where it lies. Its files are not moved or copied."""
        self._check_open()
        self._free(check_table(name))
        columns = (key,) if isinstance(key, str) else tuple(key or ())
        with attached(self.meter):
            pin, _ = self.live.core.format(format).register(publish.registered_location(self, uri))
        taken = [s.info.name for s in self.at.tables.values() if s.pin.location == pin.location]
        taken += [e.info.name for e in self.edits.values() if e.created and e.pin and e.pin.location == pin.location]
        if taken:
            raise TableExists(
                f"The table at {uri} is already in this lake, as {taken[0]!r}.", next="Use that one.", table=taken[0]
            )
        if columns:
            with attached(self.meter):
                publish.check_key(self.live.core.format(format).open(pin, name), columns, name)
        info = TableInfo(id=new_id(), name=name, key=columns)
        edit = Edit(info, None, pin=pin)
        edit.did("register")
        self.edits[info.id] = edit
        self._names[name] = info.id
        return TransactionTable(self, edit)

    def drop_table(self, name: str) -> None:
        """Drop a table. Its files stay until cleanup, for time travel and revert."""
        edit = self[name]._edit
        del self._names[name]
        created, edit.dropped, edit.work, edit.pin = edit.created, True, None, None
        if created:
            del self.edits[edit.info.id]
            return
        edit.ops = ["drop"]

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table. Nothing is moved: its folder is named by its id."""
        edit = self[old]._edit
        self._free(check_table(new))
        edit.info = msgspec.structs.replace(edit.info, name=new)
        if not edit.created:
            edit.renamed = True
            edit.did("rename")
        self._names[new] = self._names.pop(old)

    def _free(self, name: str) -> None:
        if name in self._names:
            raise TableExists(
                f"There is already a table {name!r}.", next="Choose another name, or write to that table.", table=name
            )

    # -- reading ----------------------------------------------------------------------------------------------

    def sql(self, query: str, params: Sequence[Any] | dict[str, Any] | None = None) -> Rows:
        """A SELECT over all tables as this transaction sees them, its own writes included."""
        self._check_open()
        with self._guarded():
            return sql.run(query, params, self._names, lambda name: self[name]._view().dataset())

    def _view(self, edit: Edit, *, note: bool = True) -> View:
        """The table as this transaction sees it.

        A read by the user's program is noted: its decisions may rest on it.
        """
        if note:
            self.has_read = True
            self.read_tables.add(edit.info.id)
        if edit.work is not None:
            return edit.work.view()
        pin = edit.pin or (edit.base.pin if edit.base else None)
        assert pin is not None
        return self.live.core.format(pin.format).open(pin, edit.info.name)


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
    def schema(self) -> Any:
        return self._tx._view(self._edit, note=False).schema

    def count(self, filter: Any = None) -> int:
        self._tx._check_open()
        return self._view().count(filter)

    def _view(self) -> View:
        self._tx._check_open()
        with self._tx._guarded():
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
        columns = self._on(on)
        return int(self._do("insert", lambda w: w.insert(data, columns, missing=missing)))

    def upsert(self, data: Any, *, on: str | Sequence[str] | None = None) -> dict[str, int]:
        """Replace the rows with these keys, add the others. Columns that are not given keep their values.

        Returns how many rows were `inserted` and `updated`.
        """
        columns = self._on(on)
        inserted, updated = self._do("upsert", lambda w: w.upsert(data, columns))
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

    # -- indexes ----------------------------------------------------------------------------------------------

    def create_index(
        self, column: str, kind: str = "BTREE", *, name: str | None = None, replace: bool = False, **options: Any
    ) -> str:
        """Build an index with this commit: BTREE, BITMAP, INVERTED (full text), IVF_PQ, IVF_FLAT, IVF_HNSW_SQ, …

        Rows written later are found without it. Returns the index name.
        """
        spec = IndexSpec(column, kind, name or f"{column}_idx", options)
        self._do("index", lambda w: w.create_index(spec, replace=replace))
        return spec.name

    def drop_index(self, name: str) -> None:
        """Drop an index by name."""
        self._do("index", lambda w: w.drop_index(name))

    # -- reads that a decision rests on -----------------------------------------------------------------------

    def require_keys(self, values: Any, *, on: str | Sequence[str] | None = None) -> None:
        """These keys must exist, now and on whatever base the commit lands."""
        self._require("key-exists", values, self._on(on))

    def require_absent(self, values: Any, *, on: str | Sequence[str] | None = None) -> None:
        """These keys must not exist, now and on whatever base the commit lands."""
        self._require("key-absent", values, self._on(on))

    def require_none(self, column: str, values: Any) -> None:
        """No row may have one of these values in `column`, now and on whatever base the commit lands."""
        self._require("no-row", values, (column,))

    def _require(self, kind: Any, values: Any, columns: Sequence[str]) -> None:
        self._tx._check_open()
        with attached(self._tx.meter):
            view = self._tx._view(self._edit, note=False)
            table = values_table(values, columns, view.schema, self.name)
            check = Check(kind, self._edit.info.id, tuple(columns), table)
            check.run(self.name, view)
        self._tx.checks.append(check)

    # -- plumbing ---------------------------------------------------------------------------------------------

    def _on(self, on: str | Sequence[str] | None) -> tuple[str, ...]:
        columns = (on,) if isinstance(on, str) else tuple(on or self.key)
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

    def __reduce__(self) -> Any:
        raise Unsupported(
            "A table inside a transaction cannot be pickled.", next="Commit, and pickle a table of lake.snapshot()."
        )

    def _do(self, op: str, statement: Any) -> Any:
        tx, edit = self._tx, self._edit
        tx._check_open()
        if edit.dropped:
            raise no_table(self.name, tx.tables())
        if edit.info.validator is not None and not validators.known(edit.info.validator):
            raise validators.missing(edit.info.validator, self.name)
        with tx._guarded():
            if edit.work is None:
                pin = edit.pin or (edit.base.pin if edit.base else None)
                assert pin is not None
                edit.work = tx.live.core.format(pin.format).begin(pin, write=tx.write, table=edit.info.name)
            result = statement(edit.work)
        edit.did(op)
        return result


def _check_text(what: str, text: Any) -> None:
    try:
        text.encode()
    except (AttributeError, UnicodeEncodeError):
        raise InvalidInput(f"The {what} {text!r} is not text that can be stored.", next="Use plain text.") from None


def _no_pin(edit: Edit) -> Any:
    from quire.ledger import Pin

    return edit.pin or Pin(format="", location="", version="0", counter=0)
