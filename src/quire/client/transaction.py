"""A transaction that is kept open on the server. Each statement is a request; the commit can be asked for again."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from quire.client.reading import Readable, filter_text, refuse_engine, schema_of
from quire.client.told import receipt_of
from quire.client.transport import Transport, segment
from quire.conversion.inputs import source
from quire.errors import Conflict, InvalidInput, QuireError, Refused, ServerUnavailable, TransactionClosed, Unsupported
from quire.lake.commit.tokens import token as new_token
from quire.lake.names import as_columns, no_table
from quire.lake.read.table import Rows
from quire.lake.receipt import Receipt
from quire.prompt import one_line
from quire.rowfiles.write import to_json

if TYPE_CHECKING:
    import pyarrow as pa


class RemoteTransaction:
    """Changes several tables in one commit. As a context manager it commits on exit and discards on an exception."""

    def __init__(self, transport: Transport, base: str, branch: str, wanted: dict[str, Any], key: str | None) -> None:
        self._transport, self._lake, self._branch, self._wanted = transport, base, branch, wanted
        self._key = key or new_token()
        """By which the commit happens once, whatever is sent again."""
        self.counts_told = True
        self._receipt: Receipt | None = None
        self.status = "open"
        self._path = ""
        self._begin()

    def _begin(self) -> None:
        headers = {"idempotency-key": self._key}
        path = f"{self._lake}/transactions"
        begun = self._transport.ask("POST", path, self._wanted, headers=headers, again=True).json
        if begun["receipt"] is not None:
            self._receipt, self.status = receipt_of(begun["receipt"]), "committed"
            return
        self._path = f"{path}/{begun['id']}"

    # -- life -------------------------------------------------------------------------------------------------

    def __enter__(self) -> RemoteTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            if self.status == "open":
                self.commit()
            return False
        repeated = self.status == "committed" and self._receipt is not None and self._receipt.repeated
        self.discard()
        return repeated and isinstance(error, QuireError)

    def commit(self) -> Receipt:
        """Publish. An answer that is lost is asked for again, also from a server that was started anew."""
        self._check_open()
        self.status = "publishing"
        try:
            told = self._transport.ask("POST", f"{self._path}/commit", again=True).json
            self._receipt = receipt_of(told)
        except (ServerUnavailable, TransactionClosed):
            self._receipt = self._settle()
        except QuireError:
            self.status = "discarded"
            raise
        self.status = "committed"
        return self._receipt

    def _settle(self) -> Receipt:
        """Whether it was committed, when the server that knew it is gone: its token is in the log, or it is not."""
        self.status = "unknown"
        path = f"{self._lake}/transactions"
        headers = {"idempotency-key": self._key}
        begun = self._transport.ask("POST", path, self._wanted, headers=headers, again=True).json
        if begun["receipt"] is not None:
            return receipt_of(begun["receipt"])
        self._transport.ask("DELETE", f"{path}/{begun['id']}", again=True)
        self.status = "discarded"
        raise Conflict(
            "The server was started again before the commit. Nothing was committed.",
            next="Run the transaction again with the same token; lake.transact does this by itself.",
            retryable=True,
        )

    def discard(self) -> None:
        """Forget everything."""
        if self.status == "open":
            self.status = "discarded"
            try:
                self._transport.ask("DELETE", self._path)
            except QuireError:
                pass  # the server discards it by itself

    @property
    def receipt(self) -> Receipt:
        """What the commit did; there is none before it."""
        if self._receipt is None:
            raise Refused(
                f"The transaction is {self.status}, so it has no receipt.",
                next="Read the receipt after a commit.",
                status=self.status,
            )
        return self._receipt

    def repeated(self) -> Receipt | None:
        """The receipt of the first time, when the token was committed before."""
        return self._receipt if self._receipt is not None and self._receipt.repeated else None

    def _check_open(self) -> None:
        if self.status != "open":
            raise TransactionClosed(
                f"This transaction is {self.status}.",
                next="Begin a new one with lake.transaction().",
                status=self.status,
            )

    def run(self, operation: dict[str, Any], data: Any = None, schema: pa.Schema | None = None) -> Any:
        """One statement, with rows beside it as a stream of Arrow."""
        self._check_open()
        statement = {name: value for name, value in operation.items() if value is not None}
        path = f"{self._path}/operations"
        if data is None:
            body = to_json({"operations": [statement]})
            reply = self._transport.ask("POST", path, body=body, headers={"content-type": "application/json"})
        else:
            statement["part"] = "rows"
            rows = _arrow(data, schema, str(operation["table"]))
            mark = f"quire-{secrets.token_hex(12)}"
            body = _multipart(mark, to_json({"operations": [statement]}), rows)
            kind = f"multipart/form-data; boundary={mark}"
            reply = self._transport.ask("POST", path, body=body, headers={"content-type": kind})
        return reply.json["results"][0]

    # -- tables -----------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Names of the tables as this transaction sees them."""
        self._check_open()
        found: list[str] = self._transport.ask("GET", f"{self._path}/tables").json["tables"]
        return found

    def __getitem__(self, name: str) -> RemoteTransactionTable:
        if name not in self.tables():
            raise no_table(name, self.tables())
        return RemoteTransactionTable(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self.tables()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def create_table(
        self,
        name: str,
        data: Any = None,
        *,
        schema: Any = None,
        key: str | Sequence[str] | None = None,
        stable_row_ids: bool = False,
        validator: str | None = None,
        rules: str = "",
        format: str = "lance",
        options: Mapping[str, Any] | None = None,
    ) -> RemoteTransactionTable:
        """Create a table from data, or from a schema alone."""
        import base64

        text = None if schema is None else base64.b64encode(schema.serialize().to_pybytes()).decode()
        if validator is not None or rules:
            raise Unsupported(
                "A validator is not chosen through a server.",
                next="Apply a schema of the graph, or open the lake itself.",
            )
        operation: dict[str, Any] = {"op": "create_table", "table": name, "schema": text, "key": list(as_columns(key))}
        operation |= {"stable_row_ids": stable_row_ids or None, "format": format}
        operation |= {"options": dict(options) if options else None}
        self.run(operation, data, schema)
        return RemoteTransactionTable(self, name)

    def register_table(self, *_: Any, **__: Any) -> None:
        """Refused: clients of a server name no addresses."""
        raise Unsupported(
            "Tables are not registered through a server: its clients name no addresses.",
            next="Open the lake itself with quire.open().",
        )

    def drop_table(self, name: str) -> None:
        """Drop a table."""
        self.run({"op": "drop_table", "table": name})

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table."""
        self.run({"op": "rename_table", "table": old, "to": new})

    def sql(self, query: str, params: Sequence[Any] | dict[str, Any] | None = None) -> Rows:
        """A SELECT over all tables as this transaction sees them."""
        self._check_open()
        asked = {"query": query, "params": params if params is None or isinstance(params, dict) else list(params)}
        return Rows(self._transport.rows("POST", f"{self._path}/sql", asked))

    def __repr__(self) -> str:
        return one_line(f"<Transaction on {self._branch!r} by {self._transport.url}, {self.status}>")


class RemoteTransactionTable(Readable):
    """A table inside a transaction: the writing verbs, and reads that see its own writes."""

    def __init__(self, tx: RemoteTransaction, name: str) -> None:
        self._tx, self.name = tx, name

    @property
    def _path(self) -> str:
        return f"{self._tx._path}/tables/{segment(self.name)}"

    def _told(self) -> dict[str, Any]:
        self._tx._check_open()
        found: dict[str, Any] = self._tx._transport.ask("GET", self._path).json
        return found

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns, or ()."""
        return tuple(self._told()["key"])

    @property
    def schema(self) -> pa.Schema:
        """Columns and their Arrow types."""
        return schema_of(self._told()["schema"])

    def count(self, filter: Any = None) -> int:
        """The number of rows."""
        if filter is None:
            return int(self._told()["rows"])
        return int(self.scan(filter=filter).to_arrow().num_rows)

    def _read(self, asked: dict[str, Any]) -> Rows:
        self._tx._check_open()
        return Rows(self._tx._transport.rows("GET", f"{self._path}/rows", query=asked))

    def _put(self, op: str, data: Any, **more: Any) -> Any:
        return self._tx.run({"op": op, "table": self.name, **more}, data, self.schema)

    def append(self, data: Any, *, missing: str = "error") -> int:
        """Add rows; on a table with a key they must be new."""
        return int(self._put("append", data, missing=missing))

    def insert(
        self, data: Any, *, on: str | Sequence[str] | None = None, missing: str = "error", exists: str = "error"
    ) -> Any:
        """Add rows whose keys must be new, or with `exists="ignore"` those that are."""
        return self._put("insert", data, on=list(as_columns(on)), missing=missing, exists=exists)

    def upsert(self, data: Any, *, on: str | Sequence[str] | None = None) -> dict[str, int]:
        """Replace the rows with these keys, add the others."""
        found: dict[str, int] = self._put("upsert", data, on=list(as_columns(on)))
        return found

    def overwrite(self, data: Any, *, schema: str = "keep") -> int:
        """Replace all rows; with `schema="replace"` also the columns."""
        operation = {"op": "overwrite", "table": self.name, "schema": schema}
        return int(self._tx.run(operation, data, self.schema if schema == "keep" else None))

    def update(
        self, exprs: Mapping[str, Any] | None = None, *, where: Any = None, values: Mapping[str, Any] | None = None
    ) -> int:
        """Set columns where a condition holds: text in `exprs` is SQL over the row, `values` are values."""
        given = dict(exprs or {})
        literal = {**{n: v for n, v in given.items() if not isinstance(v, str)}, **dict(values or {})}
        expressions = {n: v for n, v in given.items() if isinstance(v, str)}
        condition = filter_text(where)
        return int(
            self._tx.run(
                {"op": "update", "table": self.name, "set": expressions, "values": _plain(literal), "where": condition}
            )
        )

    def delete(self, where: Any) -> int:
        """Delete the rows for which the condition holds."""
        if where is None or not str(where).strip():
            raise InvalidInput("delete needs a condition.", next='To delete every row, pass delete("true").')
        return int(self._tx.run({"op": "delete", "table": self.name, "where": filter_text(where)}))

    def add_columns(self, columns: Mapping[str, Any]) -> None:
        """Add columns: names with pyarrow types (nulls) or SQL expressions."""
        types = {name: str(kind) for name, kind in columns.items() if not isinstance(kind, str)}
        texts = {name: kind for name, kind in columns.items() if isinstance(kind, str)}
        self._tx.run({"op": "add_columns", "table": self.name, "types": types, "expressions": texts})

    def drop_columns(self, names: str | Sequence[str]) -> None:
        """Drop columns."""
        wanted = [names] if isinstance(names, str) else list(names)
        self._tx.run({"op": "drop_columns", "table": self.name, "columns": wanted})

    def rename_column(self, old: str, new: str) -> None:
        """Rename a column."""
        self._tx.run({"op": "rename_column", "table": self.name, "column": old, "to": new})

    def alter_column(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None:
        """Change a column's type, or whether it may be null."""
        kind = None if type is None else str(type)
        self._tx.run({"op": "alter_column", "table": self.name, "column": name, "type": kind, "nullable": nullable})

    def create_index(
        self,
        column: str,
        kind: str = "BTREE",
        *,
        name: str | None = None,
        replace: bool = False,
        engine: Any = "local",
        **options: Any,
    ) -> str:
        """Build an index; its name. The server builds it."""
        refuse_engine(engine)
        operation = {"op": "create_index", "table": self.name, "column": column, "kind": kind, "name": name}
        return str(self._tx.run({**operation, "replace": replace, "options": options}))

    def drop_index(self, name: str) -> None:
        """Drop an index by name."""
        self._tx.run({"op": "drop_index", "table": self.name, "name": name})


def _arrow(data: Any, schema: pa.Schema | None, table: str) -> bytes:
    """Rows as a stream of Arrow. Where Python values carry no types, the table's columns have them."""
    import pyarrow as pa

    given = source(data, schema, table=table)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, given.schema) as writer:
        for batch in given.batches:
            writer.write_batch(batch)
    return sink.getvalue()


def _multipart(mark: str, statements: bytes, rows: bytes) -> bytes:
    head = f'--{mark}\r\nContent-Disposition: form-data; name="'.encode()
    parts = [
        head,
        b'commit"\r\n\r\n',
        statements,
        b"\r\n",
        head,
        b'rows"\r\n\r\n',
        rows,
        f"\r\n--{mark}--\r\n".encode(),
    ]
    return b"".join(parts)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON has them: NaN and the infinities are their names."""
    names = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    return {n: names.get(repr(v), v) if isinstance(v, float) else v for n, v in values.items()}
