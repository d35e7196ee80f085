"""Snapshots and tables behind a server. A snapshot is a commit: whatever is read of it later is of that commit."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from quire.arguments import bounded
from quire.client.transport import Transport, segment
from quire.errors import Unsupported
from quire.filters.ast import Condition
from quire.lake.names import no_table
from quire.lake.read.table import Rows
from quire.prompt import one_line

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from quire.lake.read.export import Exported
    from quire.progress import Progress
    from quire.rowfiles.write import FileKind


LONGEST = 2_000
"""Characters of a condition that goes into an address; a longer one goes into a body."""


class RemoteSnapshot:
    """All tables at one commit."""

    def __init__(self, transport: Transport, base: str, branch: str, told: dict[str, Any]) -> None:
        self._transport, self._base = transport, base
        self.branch = branch
        self.commit: str = told["commit"]
        self.time = datetime.fromisoformat(told["time"])
        self.cost: dict[str, Any] = {}
        self._tables: dict[str, dict[str, Any]] = {t["name"]: t for t in told["tables"]}

    def tables(self) -> list[str]:
        """Names of the tables, sorted."""
        return sorted(self._tables)

    def __getitem__(self, name: str) -> RemoteTable:
        if name not in self._tables:
            raise no_table(name, self.tables())
        return RemoteTable(self, self._tables[name])

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def __len__(self) -> int:
        return len(self._tables)

    def __bool__(self) -> bool:
        return True

    @property
    def lake(self) -> str:
        """The address of its lake."""
        return f"{self._transport.url}/{self._base.rpartition('/')[2]}"

    @property
    def at(self) -> dict[str, str]:
        """How a request names this commit."""
        return {"branch": self.branch, "at": self.commit}

    def sql(
        self,
        query: str,
        params: Sequence[Any] | dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        max_rows: int | None = None,
    ) -> Rows:
        """One SELECT over the tables of this commit, within the bounds of the server. Results stream."""
        given = params if params is None or isinstance(params, dict) else list(params)
        asked = {"query": query, "params": given, "timeout": timeout, "memory": memory, "max_rows": max_rows}
        return Rows(self._transport.rows("POST", f"{self._base}/sql", asked, query=self.at))

    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        tables: Sequence[str] | None = None,
        format: FileKind = "parquet",
        engine: Any = "local",
        storage_options: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Exported:
        """Write the tables of this commit as files of this machine, or of a bucket; see `Snapshot.export`."""
        from quire.client.exporting import export

        refuse_engine(engine)
        return export(self, folder, tables, format, storage_options, progress)

    def __repr__(self) -> str:
        return one_line(f"<Snapshot {self.commit} of {self.branch!r}: {len(self)} tables, by {self._transport.url}>")


class Readable:
    """What can be read of a table, wherever its rows come from."""

    name: str

    def _read(self, asked: dict[str, Any]) -> Rows:
        raise NotImplementedError

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
    ) -> Rows:
        """Stream rows; the filter is SQL text."""
        bounded("limit", limit, 0), bounded("offset", offset, 0)
        return self._read(
            {"columns": list(columns or ()), "filter": filter_text(filter), "limit": limit, "offset": offset or 0}
        )

    def head(self, n: int = 5, *, columns: Sequence[str] | None = None) -> Rows:
        """The first rows, in the order in which they are stored."""
        return self.scan(columns=columns, limit=n)

    def search(
        self,
        query: Any = None,
        *,
        vector: Any = None,
        text: str | None = None,
        limit: int = 10,
        filter: Any = None,
        columns: Sequence[str] | None = None,
        text_column: str | None = None,
        vector_column: str | None = None,
        metric: str | None = None,
    ) -> Rows:
        """Vector search, full-text search, or both."""
        if query is not None:
            vector, text = (None, query) if isinstance(query, str) else (query, None)
        asked: dict[str, Any] = {
            "columns": list(columns or ()),
            "filter": filter_text(filter),
            "limit": limit,
            "search": text,
            "text_column": text_column,
            "vector_column": vector_column,
            "metric": metric,
        }
        if vector is not None:
            asked["vector"] = "[" + ",".join(repr(float(v)) for v in vector) + "]"
        return self._read(asked)

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        return self.scan().to_arrow()

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        return self.scan().to_pylist()

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        return self.scan().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        return self.scan().to_polars()


class RemoteTable(Readable):
    """One table at one commit."""

    def __init__(self, owner: RemoteSnapshot, told: dict[str, Any]) -> None:
        self._owner, self._told = owner, told
        self.name: str = told["name"]
        self.id: str = told["id"]
        self.key: tuple[str, ...] = tuple(told["key"])
        self.version: int = told["version"]
        self.bytes: int = told["bytes"]
        self.commit: str = told["commit"]

    @property
    def _path(self) -> str:
        return f"{self._owner._base}/tables/{segment(self.name)}"

    def describe(self) -> dict[str, Any]:
        """Columns, key, indexes and size."""
        found: dict[str, Any] = self._owner._transport.ask("GET", self._path, query=self._owner.at).json
        return found

    @property
    def schema(self) -> pa.Schema:
        """Columns and their Arrow types."""
        return schema_of(self.describe()["schema"])

    def count(self, filter: Any = None) -> int:
        """The number of rows."""
        if filter is None:
            return int(self._told["rows"])
        asked = {**self._owner.at, "filter": filter_text(filter)}
        return int(self._owner._transport.ask("GET", f"{self._path}/count", query=asked).json["count"])

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True

    @property
    def indexes(self) -> list[dict[str, Any]]:
        """The indexes of the table, and how many rows they cover."""
        found: list[dict[str, Any]] = self.describe()["indexes"]
        return found

    def _read(self, asked: dict[str, Any]) -> Rows:
        given = {**self._owner.at, **asked}
        path, transport = f"{self._path}/rows", self._owner._transport
        if len(asked["filter"] or "") + len(asked.get("vector") or "") <= LONGEST:
            return Rows(transport.rows("GET", path, query=given))
        return Rows(transport.rows("POST", path, {k: v for k, v in given.items() if v is not None}))

    def __repr__(self) -> str:
        return one_line(f"<Table {self.name!r} version {self.version}, {self.count()} rows>")


def schema_of(text: str) -> pa.Schema:
    """A schema of Arrow from base64."""
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def filter_text(filter: Any) -> str | None:
    """A condition as text: that of the library's own kind, and of pyarrow where it has one in SQL."""
    if filter is None or isinstance(filter, str):
        return filter
    if isinstance(filter, Condition):
        return str(filter)
    raise Unsupported("A server takes conditions as text.", next='Write it as SQL: "age > 30".')


def refuse_engine(engine: Any) -> None:
    """The server does the work, so no engine of this process can."""
    if engine not in ("local", "auto", None):
        raise Unsupported("The server does this; an engine here cannot.", next="Leave engine= out, or open the lake.")
