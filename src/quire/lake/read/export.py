"""Tables of one commit as files: every part of a table is read and written by itself, in this process or by tasks.

A file is put whole, under a name that follows from the part, so a part that is done twice leaves the same files. The
list of all of them, `_export.json`, is written last: where it is, everything it names is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from quire.errors import AlreadyExists, InvalidInput, QuireError, Unsupported
from quire.formats import Parted, WholeRows
from quire.lake.engines import Engine, answers, chosen, settled
from quire.progress import Progress
from quire.prompt import OneLine, counted
from quire.rowfiles.write import KINDS, FileKind, files
from quire.store import Store
from quire.store.forwarded_credentials import carried

if TYPE_CHECKING:
    from quire.lake.read.snapshot import Snapshot

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
    """Below the folder of the export: the table's name, written as in a URL."""
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


@dataclass(frozen=True)
class _Part:
    """Some rows of a table, and where they go. The options hold credentials and are never shown."""

    rows: WholeRows
    uri: str
    key: str
    format: FileKind
    most: int
    options: dict[str, str] = field(default_factory=dict, repr=False)

    def __call__(self) -> bytes:
        store = Store.open(self.uri, self.options)
        written = []
        for number, (data, rows) in enumerate(files(self.rows.batches(), self.rows.schema(), self.format, self.most)):
            key = f"{self.key}-{number:02}.{self.format}"
            store.put(key, data)
            written.append((key, rows, len(data)))
        return msgspec.json.encode(written)


def export(
    snapshot: Snapshot,
    folder: str | os.PathLike[str],
    *,
    tables: Sequence[str] | None = None,
    format: FileKind = "parquet",
    engine: Engine = "local",
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """See `Snapshot.export`. Under `engine="auto"` the size is that of the tables."""
    if format not in KINDS:
        raise InvalidInput(
            f"{format!r} is not a format of an export.", next=f"Use one of {', '.join(KINDS)}.", format=format
        )
    names = list(snapshot.tables() if tables is None else dict.fromkeys(tables))
    held = [snapshot[name] for name in names]
    session = chosen(engine, lambda: sum(table.bytes for table in held))
    elsewhere = storage_options is None and "://" in os.fspath(folder)
    given = snapshot._core.store.options if elsewhere else storage_options
    store = empty_target(folder, given, elsewhere=session is not None)
    options = store.options if session is None else carried(store.scheme, store.options)
    items: list[tuple[str, _Part]] = []
    for table in held:
        for number, rows in enumerate(_parts(table._view(), table.name, here=session is None)):
            key = f"{quote(table.name, safe='')}/part-{number:05}"
            items.append((table.name, _Part(rows, store.uri, key, format, FILE_BYTES, options)))
    told: Iterable[bytes | QuireError]
    if session is None:
        told = (part() for _, part in items)
    else:
        told = answers(session, [part for _, part in items])
    written: dict[str, list[tuple[str, int, int]]] = {name: [] for name in names}
    for done, ((name, _), answer) in enumerate(zip(items, told, strict=True), start=1):
        written[name] += msgspec.json.decode(settled(answer), type=list[tuple[str, int, int]])
        if progress is not None:
            progress(f"export {name}", done, len(items))
    done_tables = {name: _told(name, found) for name, found in written.items()}
    result = Exported(snapshot.commit, store.uri, format, done_tables)
    store.put(LIST, listed(snapshot, snapshot._core.store.uri, result, written))
    return result


def _told(name: str, found: Sequence[tuple[str, int, int]]) -> ExportedTable:
    keys = tuple(key for key, _, _ in found)
    return ExportedTable(quote(name, safe=""), sum(r for _, r, _ in found), sum(size for _, _, size in found), keys)


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
