"""Tables of one commit as files: every part of a table is read and written by itself, in this process or by tasks.

A file is put whole, under a name that follows from the part, so a part that is done twice leaves the same files. The
list of all of them, `_export.json`, is written last: where it is, everything it names is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote

import msgspec

from quire.errors import AlreadyExists, InvalidInput, QuireError, Unsupported, shown
from quire.formats import Exporting, Parted, TableExport, WholeRows
from quire.lake.engines import Engine, answers, chosen, settled
from quire.ledger.records import reader
from quire.progress import Progress
from quire.prompt import OneLine, counted
from quire.rowfiles.write import KINDS, FileKind, files
from quire.store import Store
from quire.store.forwarded_credentials import carried

if TYPE_CHECKING:
    from quire.lake.read.snapshot import Snapshot

ExportKind = Literal["parquet", "arrow", "csv", "jsonl", "delta"]
"""Kinds of files, and the format in which every table of an export is a table for others too."""
LIST = "_export.json"
"""The name of the file that is written last."""
PART_ROWS = 1_000_000
"""Rows that one task writes, when they lie in several fragments."""
FILE_BYTES = 128 << 20
"""A file that has so many bytes is closed, and the next one begun."""


@dataclass(frozen=True, repr=False)
class ExportedTable(OneLine):
    """The files of one table."""

    folder: str
    """Below the folder of the export: the table's name, written as in a URL (of Delta tables with `~` for `%`)."""
    rows: int
    bytes: int
    files: tuple[str, ...]

    def _facts(self) -> str:
        return f"{counted(self.rows, 'row')} in {counted(len(self.files), 'file')} of {self.folder}"


@dataclass(frozen=True, repr=False)
class Exported(OneLine):
    """What an export wrote, by table."""

    commit: str
    folder: str
    format: str
    tables: dict[str, ExportedTable]

    def _facts(self) -> str:
        rows, tables = counted(self.rows, "row"), counted(len(self.tables), "table")
        return f"{rows} of {tables} at {self.commit} as {self.format} in {self.folder}"

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(table.rows for table in self.tables.values())

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


_Written = tuple[str, int, int, str]
"""A file below the folder of the export, its rows and bytes, and what the table is told of it."""


@dataclass(frozen=True)
class _Part:
    """Some rows of a table, and where they go. The options hold credentials and are never shown."""

    rows: WholeRows
    uri: str
    folder: str
    stem: str
    shape: FileKind | TableExport
    most: int
    options: dict[str, str] = field(default_factory=dict, repr=False)

    def __call__(self) -> bytes:
        store = Store.open(self.uri, self.options)
        written: list[_Written] = []
        for path, data, rows, told in self._files():
            store.put(f"{self.folder}/{path}", data)
            written.append((f"{self.folder}/{path}", rows, len(data), told))
        return msgspec.json.encode(written)

    def _files(self) -> Iterator[tuple[str, bytes, int, str]]:
        batches, schema = self.rows.batches(), self.rows.schema()
        if not isinstance(self.shape, str):
            yield from self.shape.files(batches, schema, self.stem)
            return
        for number, (data, rows) in enumerate(files(batches, schema, self.shape, self.most)):
            yield f"{self.stem}-{number:02}.{self.shape}", data, rows, ""


def export(
    snapshot: Snapshot,
    folder: str | os.PathLike[str],
    *,
    tables: Sequence[str] | None = None,
    format: ExportKind = "parquet",
    engine: Engine = "local",
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """See `Snapshot.export`. Under `engine="auto"` the size is that of the tables."""
    kinds = get_args(ExportKind)
    if not isinstance(format, str) or format not in kinds:
        raise InvalidInput(
            f"{shown(format)} is not a format of an export.",
            next=f"Use one of {', '.join(kinds)}.",
            format=shown(format),
        )
    names = list(snapshot.tables() if tables is None else dict.fromkeys(tables))
    held = [snapshot[name] for name in names]
    session = chosen(engine, lambda: sum(table.bytes for table in held))
    elsewhere = storage_options is None and "://" in os.fspath(folder)
    given = snapshot._core.store.options if elsewhere else storage_options
    store = empty_target(folder, given, elsewhere=session is not None)
    options = store.options if session is None else carried(store.scheme, store.options)
    items: list[tuple[str, _Part]] = []
    shapes = {table.name: _shape(snapshot, table, format) for table in held}
    for table in held:
        for number, rows in enumerate(_parts(table._view(), table.name, here=session is None)):
            shape = shapes[table.name]
            where = (_folder(table.name, shape), f"part-{number:05}")
            items.append((table.name, _Part(rows, store.uri, *where, shape, FILE_BYTES, options)))
    told: Iterable[bytes | QuireError]
    if session is None:
        told = (part() for _, part in items)
    else:
        told = answers(session, [part for _, part in items])
    written: dict[str, list[_Written]] = {name: [] for name in names}
    for done, ((name, _), answer) in enumerate(zip(items, told, strict=True), start=1):
        written[name] += reader(list[_Written]).decode(settled(answer))
        if progress is not None:
            progress(f"export {name}", done, len(items))
    for name, shape in shapes.items():
        for path, body in {} if isinstance(shape, str) else shape.finish([told for *_, told in written[name]]).items():
            store.put(f"{_folder(name, shape)}/{path}", body)
    done_tables = {name: _told(_folder(name, shapes[name]), found) for name, found in written.items()}
    result = Exported(snapshot.commit, store.uri, format, done_tables)
    sizes = {name: [(key, rows, size) for key, rows, size, _ in found] for name, found in written.items()}
    store.put(LIST, listed(snapshot, snapshot._core.store.uri, result, sizes))
    return result


def _shape(snapshot: Snapshot, table: Any, format: ExportKind) -> FileKind | TableExport:
    if format in KINDS:
        return format
    made = snapshot._core.format(format)
    assert isinstance(made, Exporting)
    return made.exporting(table.schema, table=table.name)


def _folder(name: str, shape: FileKind | TableExport) -> str:
    """Clients take the address of a table for one with escapes, so the folder of a table has none."""
    return quote(name, safe="").replace("%", "%" if isinstance(shape, str) else "~")


def _told(folder: str, found: Sequence[_Written]) -> ExportedTable:
    keys = tuple(key for key, *_ in found)
    return ExportedTable(folder, sum(r for _, r, *_ in found), sum(f[2] for f in found), keys)


def _parts(view: Any, name: str, *, here: bool) -> Iterator[WholeRows]:
    if not isinstance(view, Parted):
        raise Unsupported(f"Table {name!r} cannot be read in parts.", next="Scan it instead.", table=name)
    group: list[int] = []
    rows = 0
    groups = [group]
    for number, count in view.parts():
        if group and rows + count > PART_ROWS:
            group, rows = [], 0
            groups.append(group)
        group.append(number)
        rows += count
    yield from (view.whole(numbers, here=here) for numbers in groups)


def empty_target(
    folder: str | os.PathLike[str], options: Mapping[str, str] | None, *, elsewhere: bool = False
) -> Store:
    """The folder, which must be empty. A worker may be in another directory, so the path is made absolute."""
    text = os.fspath(folder)
    store = Store.open(text if "://" in text else os.path.abspath(text), options)
    if elsewhere and store.scheme == "memory":
        raise Unsupported(
            f"{store.uri} is in memory, so other processes cannot write to it.",
            next="Use a directory or a bucket.",
        )
    there = next(iter(store.list("")), None)
    if there is not None:
        whole = store.stat(LIST) is not None
        raise AlreadyExists(
            f"{store.uri} is not empty{'' if whole else '; an export may have been interrupted'}.",
            next="Export to an empty folder.",
            path=store.uri,
        )
    return store


def listed(snapshot: Any, lake: str, result: Exported, written: Mapping[str, Sequence[tuple[str, int, int]]]) -> bytes:
    """What is in the folder, for whoever reads it later."""
    tables = {
        name: {
            "rows": table.rows,
            "bytes": table.bytes,
            "key": list(snapshot[name].key),
            "columns": [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in snapshot[name].schema],
            "files": [{"file": key, "rows": rows, "bytes": size} for key, rows, size in written[name]],
        }
        for name, table in result.tables.items()
    }
    told = {
        "lake": lake,
        "branch": snapshot.branch,
        "commit": snapshot.commit,
        "time": snapshot.time.isoformat(),
        "format": result.format,
        "tables": tables,
    }
    return msgspec.json.format(msgspec.json.encode(told), indent=2)
