"""The objects of a table: immutable data files and versions, and how they are read and written.

tables/<id>.rows/data/<id>.json        columns of a number of rows, by field number
tables/<id>.rows/versions/<id>.json    a state of the table: schema, fragments with deleted offsets, indexes
tables/<id>.rows/head/<20 digits>.json plain versions, created if absent: the last one is the plain HEAD
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from quire.errors import FormatError, SchemaMismatch, SnapshotExpired, StorageError
from quire.formats import Place
from quire.formats.tasks import place_of
from quire.ledger import new_id
from quire.store import Outcome, Store

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_HEAD = re.compile(r"head/(\d{20})\.json")

Columns = dict[int, list[Any]]
"""Values by field number."""


class Field(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column. Its number never changes, its name may; a column of another type is another column."""

    id: int
    name: str
    type: str
    nullable: bool = True


class DataFile(msgspec.Struct, frozen=True):
    path: str
    fields: tuple[int, ...]
    size: int


class Fragment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows in one data file, or in several that hold different columns of the same rows."""

    files: tuple[DataFile, ...]
    rows: int
    deleted: tuple[int, ...] = ()
    """Offsets of rows that are gone, ascending."""

    @property
    def key(self) -> str:
        """What tells a fragment from all others, at any place and time: its first file."""
        return self.files[0].path

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(f.path for f in self.files)

    @property
    def alive(self) -> int:
        return self.rows - len(self.deleted)

    @property
    def bytes(self) -> int:
        return sum(f.size for f in self.files)

    def living(self) -> Sequence[int]:
        """Offsets of the rows that are not deleted."""
        if not self.deleted:
            return range(self.rows)
        gone = set(self.deleted)
        return [i for i in range(self.rows) if i not in gone]

    def without(self, offsets: Iterable[int]) -> Fragment:
        return msgspec.structs.replace(self, deleted=tuple(sorted({*self.deleted, *map(int, offsets)})))


class Index(msgspec.Struct, frozen=True):
    """An index in name only: it is listed, extended and dropped like a real one, and answers nothing faster."""

    name: str
    kind: str
    field: int
    covers: tuple[str, ...] = ()
    """Keys of the fragments whose rows it holds."""


class Version(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """One state of the table. Immutable; `id` is empty while it was not written."""

    fields: tuple[Field, ...]
    fragments: tuple[Fragment, ...] = ()
    indexes: tuple[Index, ...] = ()
    id: str = ""
    next_field: int = 0
    properties: dict[str, str] = {}
    config: dict[str, str] = {}

    @property
    def schema(self) -> pa.Schema:
        return _schema(self.fields)

    @cached_property
    def by_key(self) -> dict[str, Fragment]:
        return {f.key: f for f in self.fragments}

    @property
    def rows(self) -> int:
        return sum(f.alive for f in self.fragments)

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self.fragments)

    def field(self, name: str) -> Field | None:
        return next((f for f in self.fields if f.name == name), None)

    def number(self, name: str) -> int:
        found = self.field(name)
        assert found is not None, name
        return found.id

    def change(self, **parts: Any) -> Version:
        """This state with some parts changed, not yet written. Fragments without a row are left out."""
        if "fragments" in parts:
            parts["fragments"] = tuple(f for f in parts["fragments"] if f.alive)
        return msgspec.structs.replace(self, id="", **parts)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One plain version: which state it is, and whose. A plain writer knows nothing of the last four."""

    version: str
    op: str = "append"
    lake: str = ""
    commit: str | None = None
    counter: int | None = None
    write: str = ""


class Folder:
    """The folder of one table. Every byte goes through the lake's store, or through one of the same kind."""

    def __init__(self, store: Store, location: str, cached: int = 0) -> None:
        absolute = "://" in location or location.startswith("/")
        self.location = location
        self._store = Store.open(location, store.options) if absolute else store
        self._prefix = "" if absolute or not location else f"{location}/"
        self._cached = cached
        self._cache: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    # -- versions ---------------------------------------------------------------------------------------------

    def version(self, name: str, table: str = "") -> Version:
        found = self._kept(version_path(name))
        if found is None:
            body = self._store.get_or_none(self._prefix + version_path(name))
            if body is None:
                raise gone(table or self.location, version_path(name))
            found = self._keep(version_path(name), _decode(body, Version, version_path(name)))
        assert isinstance(found, Version)
        return found

    def write_version(self, state: Version, properties: dict[str, str]) -> Version:
        """Write a state under a new name. Nothing refers to it yet."""
        made = msgspec.structs.replace(state, id=new_id(), properties=properties)
        self._create(version_path(made.id), msgspec.json.encode(made))
        self._keep(version_path(made.id), made)
        return made

    # -- data -------------------------------------------------------------------------------------------------

    def write_columns(self, columns: Columns, rows: int, fields: Sequence[Field] = ()) -> Fragment | None:
        """A data file that no version names yet; None for no rows. With its `fields` it can be read by itself."""
        if not rows:
            return None
        path = f"data/{new_id()}.json"
        held: dict[str, Any] = {"rows": rows, "columns": columns}
        if fields:
            held["fields"] = [(f.id, f.name, f.type) for f in fields]
        body = json.dumps(held, separators=(",", ":"), default=_bytes).encode()
        self._create(path, body)
        self._keep(path, columns)
        return Fragment((DataFile(path, tuple(columns), len(body)),), rows)

    def columns(self, fragments: Sequence[Fragment], fields: Iterable[int], table: str = "") -> list[Columns]:
        """All rows, deleted ones included, of some columns of these fragments. Missing files are read in parallel.

        A column that no file of a fragment has is null there.
        """
        wanted = set(fields)
        needed = [f for fragment in fragments for f in fragment.files if wanted.intersection(f.fields)]
        there: dict[str, Columns] = {}
        for file in needed:
            held = self._kept(file.path)
            if held is not None:
                there[file.path] = held
        absent = [f.path for f in needed if f.path not in there]
        bodies = self._store.get_many([self._prefix + path for path in absent]) if absent else []
        for path, body in zip(absent, bodies, strict=True):
            if body is None:
                raise gone(table or self.location, path)
            there[path] = self._keep(path, _columns(body, path))
        result: list[Columns] = []
        for fragment in fragments:
            merged: Columns = {}
            for file in fragment.files:
                for number in wanted.intersection(file.fields):
                    merged[number] = there[file.path][number]
            for number in wanted - merged.keys():
                merged[number] = [None] * fragment.rows  # its rows came from a line without this column
            result.append(merged)
        return result

    # -- for other processes ----------------------------------------------------------------------------------

    def at(self, state: Version, properties: dict[str, str]) -> Place:
        """A state as others open it; one that was not written is, for them."""
        named = state if state.id else self.write_version(state, properties)
        return place_of(self._store, "memory", self._store.reach.address(self.location), named.id)

    def write_beside(self, rows: pa.Table) -> str:
        """Rows of no table, in a file of their own."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        path = f"data/{new_id()}.arrow"
        self._create(path, sink.getvalue().to_pybytes())
        return path

    def read_file(self, path: str) -> pa.Table:
        """The rows of a file that a task has written."""
        import pyarrow as pa

        body = self._store.get_or_none(self._prefix + path)
        if body is None:
            raise gone(self.location, path)
        if path.endswith(".arrow"):
            return pa.ipc.open_stream(body).read_all()
        held = json.loads(body, object_hook=_read_bytes)
        named = {name: pa.array(held["columns"][str(id)], parse_type(kind)) for id, name, kind in held["fields"]}
        return pa.table(named)

    # -- the plain HEAD ---------------------------------------------------------------------------------------

    def entries(self) -> dict[int, Any]:
        """Plain versions that are there, with what the store says about each, oldest first."""
        found = {}
        for entry in self._store.list(f"{self._prefix}head"):
            name = _HEAD.fullmatch(entry.key.removeprefix(self._prefix))
            if name is not None:
                found[int(name[1])] = entry
        return found

    def entry(self, number: int, table: str = "") -> Entry:
        body = self._store.get_or_none(self._prefix + head_path(number))
        if body is None:
            raise gone(table or self.location, head_path(number))
        return _decode(body, Entry, head_path(number))

    def create_entry(self, number: int, entry: Entry) -> Outcome:
        """Create plain version `number` if it is absent. The write id tells whose it is."""
        body = msgspec.json.encode(entry)
        return self._store.create(self._prefix + head_path(number), body, mine=lambda found: found == body).outcome

    # -- plumbing ---------------------------------------------------------------------------------------------

    def _create(self, path: str, body: bytes) -> None:
        made = self._store.create(self._prefix + path, body, mine=lambda found: found == body)
        if made.outcome is not Outcome.COMMITTED:
            raise StorageError(
                f"The store did not say whether {path!r} of {self.location} was written.",
                next="Run the transaction again; nothing was committed.",
                key=path,
            )

    def _kept(self, path: str) -> Any:
        with self._lock:
            found = self._cache.get(path)
            if found is not None:
                self._cache.move_to_end(path)
            return found

    def _keep(self, path: str, value: T) -> T:
        if self._cached:
            with self._lock:
                self._cache[path] = value
                while len(self._cache) > self._cached:
                    self._cache.popitem(last=False)
        return value


def version_path(name: str) -> str:
    return f"versions/{name}.json"


def head_path(number: int) -> str:
    return f"head/{number:020d}.json"


def gone(table: str, path: str) -> SnapshotExpired:
    return SnapshotExpired(
        f"Table {table!r}: {path} is no longer there; cleanup has removed this state.",
        next="Read a newer snapshot.",
        table=table,
    )


def _bytes(value: bytes) -> dict[str, str]:
    """JSON has no bytes: they are written as an object, which no other value is."""
    return {"base64": base64.b64encode(value).decode()}


def _read_bytes(found: dict[str, Any]) -> Any:
    return base64.b64decode(found["base64"]) if found.keys() == {"base64"} else found


def _columns(body: bytes, path: str) -> Columns:
    try:
        held: Mapping[str, list[Any]] = json.loads(body, object_hook=_read_bytes)["columns"]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is not a data file ({error}).", next="Restore it from a copy.", key=path) from None
    return {int(number): values for number, values in held.items()}


def _decode(body: bytes, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(
            f"{path} is not a {kind.__name__.lower()} ({error}).", next="Restore it from a copy.", key=path
        ) from None


# -- types ------------------------------------------------------------------------------------------------------------

_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "string", "large_string", "large_binary"),
)


@lru_cache(maxsize=1024)
def _schema(fields: tuple[Field, ...]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(f.name, parse_type(f.type), f.nullable) for f in fields])


@lru_cache(maxsize=1)
def _single() -> dict[pa.DataType, str]:
    return {parse_type(name): name for name in _NAMES}


def type_name(kind: pa.DataType, column: str, table: str) -> str:
    """A type as it is stored, or `SchemaMismatch`: single values of the simple kinds, and lists of numbers."""
    import pyarrow.types as t

    single = _single()
    if kind in single:
        return single[kind]
    if t.is_list(kind) and kind.value_type in single:
        return f"list:{single[kind.value_type]}"
    if t.is_fixed_size_list(kind) and kind.value_type in single:
        return f"list:{single[kind.value_type]}:{kind.list_size}"
    raise SchemaMismatch(
        f"Column {column!r} of table {table!r} is {kind}, which memory tables cannot hold.",
        next="Use numbers, text, booleans, large binary or lists of them.",
        table=table,
        column=column,
        actual=str(kind),
    )


def parse_type(text: str) -> pa.DataType:
    import pyarrow as pa

    name, *rest = text.split(":")
    if name == "list":
        return pa.list_(parse_type(rest[0]), int(rest[1]) if len(rest) > 1 else -1)
    if name not in _NAMES:
        raise FormatError(f"{text!r} is not a type of a memory table.", next="Upgrade Quire.")
    made: pa.DataType = getattr(pa, "bool_" if name == "bool" else name)()
    return made
