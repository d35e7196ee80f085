"""The folder of one Delta table: states by name, and data files, read through the lake's store.

A state is found in two rounds of requests at any depth of the log: its commit says which file holds an earlier state
and which commits came since, and all of those are read side by side.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from quire.errors import FormatError, NotFound, SnapshotExpired
from quire.formats.delta.files.parquet import constant, living_batches
from quire.formats.delta.log.actions import Commit, Follows, decode
from quire.formats.delta.log.names import Name, follows_path, state_path
from quire.formats.delta.log.state import EMPTY, DataFile, State, check_readable, everything, replay
from quire.formats.row_bitmap import NONE, Marks
from quire.formats.table_files import LARGEST, TableFiles
from quire.ledger.records import reader
from quire.store import Store, run_parallel

if TYPE_CHECKING:
    import pyarrow as pa

STATES = 64
"""States of tables that are kept in memory, in all."""
AT_ONCE = 8
"""Files that are read side by side."""
Unsent = Callable[[str], bytes | None]
"""The bytes of a file that the store does not have yet."""


class States:
    """States that were read or made lately, by location and name. Shared by all tables of a lake."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, str], tuple[State, Follows]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, location: str, name: str) -> tuple[State, Follows] | None:
        with self._lock:
            found = self._held.get((location, name))
            if found is not None:
                self._held.move_to_end((location, name))
            return found

    def keep(self, location: str, name: str, state: State, follows: Follows) -> None:
        with self._lock:
            self._held[location, name] = state, follows
            while len(self._held) > STATES:
                self._held.popitem(last=False)


def _nothing_unsent(path: str) -> bytes | None:
    return None


class Folder:
    """One table. With `unsent` it also reads what a transaction has not sent to the store yet."""

    def __init__(
        self,
        store: Store,
        location: str,
        files: TableFiles,
        states: States,
        *,
        table: str = "",
        unsent: Unsent = _nothing_unsent,
    ) -> None:
        self.store = store
        self.location = location
        self.files = files
        self.states = states
        self.table = table or location
        self._unsent = unsent

    def during(self, unsent: Unsent) -> Folder:
        """The same folder as a transaction sees it."""
        return Folder(self.store, self.location, self.files, self.states, table=self.table, unsent=unsent)

    # -- states -----------------------------------------------------------------------------------------------

    def state(self, name: str) -> State:
        return self.known(name)[0]

    def known(self, name: str) -> tuple[State, Follows]:
        """A state, and what a commit on top of it follows."""
        found = self.states.get(self.location, name)
        if found is None:
            found = self._read(Name.parse(name))
            self.states.keep(self.location, name, *found)
        return found

    def _read(self, name: Name) -> tuple[State, Follows]:
        if name.kind == "r":
            return self._whole(name), Follows(state=name.text)
        last = decode(self.read(name.path), name.path)
        follows = self.follows(name, last)
        paths = [Name.parse(text).path for text in follows.since]
        calls: list[Callable[[], Any]] = [partial(self._commit, path) for path in paths]
        if follows.state is not None:
            calls.append(partial(self._whole, Name.parse(follows.state)))
        read = run_parallel(calls)
        base: State = read.pop() if follows.state is not None else EMPTY
        state = check_readable(replay(base, [*read, last], name.path), self.location)
        if state.version != name.version:
            raise FormatError(
                f"{name.path} of table {self.table!r} follows {state.version} versions.", next="Restore it from a copy."
            )
        return state, Follows(follows.state, (*follows.since, name.text))

    def follows(self, name: Name, commit: Commit) -> Follows:
        """What a commit follows: it says so itself, or its owner says it beside it."""
        if name.kind == "u":
            path = follows_path(name)
            try:
                follows: Follows = reader(Follows).decode(self.read(path))
                return follows
            except msgspec.MsgspecError as error:
                raise FormatError(f"{path} is damaged ({error}).", next="Restore it from a copy.") from None
        if commit.made is None and name == Name(0):
            return Follows()  # a client has created the table
        if commit.made is None:
            raise FormatError(
                f"{name.path} of table {self.table!r} is no commit of this lake.", next="Restore it from a copy."
            )
        return commit.made.follows

    def _commit(self, path: str) -> Commit:
        return decode(self.read(path), path)

    def _whole(self, name: Name) -> State:
        """A state from its own file."""
        body = self.read(state_path(name))
        try:
            text = zlib.decompress(body, wbits=zlib.MAX_WBITS | 16)
        except zlib.error as error:
            raise FormatError(f"{state_path(name)} is damaged ({error}).", next="Restore it from a copy.") from None
        told = decode(text, state_path(name))
        return check_readable(replay(_before(name), [told], state_path(name)), self.location)

    @staticmethod
    def whole_file(state: State) -> bytes:
        """A state as a file of its own."""
        info = {"commitInfo": {"inCommitTimestamp": state.time}}
        packer = zlib.compressobj(level=3, wbits=zlib.MAX_WBITS | 16)
        return packer.compress(Commit((info, *everything(state))).encode()) + packer.flush()

    # -- bytes ------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        """A small file that never changes."""
        try:
            found = self._unsent(path)
            return found if found is not None else self.files.read(self.location, path)
        except NotFound:
            raise gone(self.table, path) from None

    def marks(self, file: DataFile) -> Marks:
        """The rows of a data file that are gone."""
        if file.deleted is not None:
            return file.deleted
        if file.vector is None:
            return NONE
        return file.vector.rows(None if file.vector.storage_type == "i" else self.read(file.vector.file()))

    def living(self, file: DataFile) -> NDArray[np.uint32]:
        """Offsets of the rows that are there."""
        gone = np.asarray(self.marks(file))
        flags = np.ones(file.rows, bool)
        flags[gone] = False
        return np.flatnonzero(flags).astype(np.uint32)

    # -- rows -------------------------------------------------------------------------------------------------

    def rows(
        self, state: State, names: Sequence[str], files: Sequence[DataFile] | None = None, *, stored: bool = False
    ) -> Iterator[tuple[DataFile, NDArray[np.uint32], pa.RecordBatch]]:
        """The living rows of a state, or of some of its files: where they lie, and these columns of them.

        Columns have the types that Quire shows, or the stored ones.
        """
        chosen = state.files if files is None else files
        for start in range(0, len(chosen), AT_ONCE):
            some = chosen[start : start + AT_ONCE]
            opened = run_parallel([partial(self._opened, file, state, names) for file in some])
            for file, (source, living) in zip(some, opened, strict=True):
                yield from self._of_file(file, source, living, state, names, stored)

    def _opened(self, file: DataFile, state: State, names: Sequence[str]) -> tuple[Any, NDArray[np.uint32]]:
        """A data file that is small enough to be read at once, or a way to read parts of it; and its living rows."""
        living = self.living(file)
        if not any(name not in state.partition for name in names):
            return None, living
        try:
            small = self._unsent(file.path)
            if small is None and file.size <= LARGEST:
                small = self.files.read(self.location, file.path)
        except NotFound:
            raise gone(self.table, file.path) from None
        return _InMemory(small) if small is not None else _InRanges(self, file), living

    def _of_file(
        self,
        file: DataFile,
        source: Any,
        living: NDArray[np.uint32],
        state: State,
        names: Sequence[str],
        stored: bool,
    ) -> Iterator[tuple[DataFile, NDArray[np.uint32], pa.RecordBatch]]:
        import pyarrow as pa

        fields = [(state.stored if stored else state.schema).field(name) for name in names]
        if source is None:
            columns = [self._column(None, field, file, state, len(living)) for field in fields]
            yield file, living, _batch(columns, fields, len(living))
            return
        at = 0
        try:
            for rows, batch in source.batches(list(names), living):
                last = at + rows
                first, end = np.searchsorted(living, [at, last])
                inside = living[first:end]
                if len(inside):
                    if len(inside) < rows:
                        batch = batch.take(pa.array(inside - np.uint32(at)))
                    columns = [self._column(batch, field, file, state, batch.num_rows) for field in fields]
                    yield file, inside, _batch(columns, fields, batch.num_rows)
                at = last
        except pa.ArrowException as error:
            raise FormatError(
                f"{file.path} of table {self.table!r} cannot be read ({error}).", next="Restore it from a copy."
            ) from None
        if at != file.rows:
            raise FormatError(
                f"{file.path} of table {self.table!r} has {at} rows instead of {file.rows}.",
                next="Restore it from a copy.",
            )

    def _column(self, batch: Any, field: pa.Field, file: DataFile, state: State, rows: int) -> pa.Array:
        import pyarrow as pa

        kind = state.stored.field(field.name).type
        if field.name in state.partition:
            found = constant(dict(file.partition).get(field.name), kind, rows, file.path)
        elif batch is None or batch.schema.get_field_index(field.name) < 0:
            found = pa.nulls(rows, kind)
        else:
            found = batch.column(field.name)
        if found.type != kind:
            found = found.cast(kind)
        return found if field.type == kind else found.cast(field.type)


def _before(name: Name) -> State:
    """What a file with a whole state is replayed on: it counts as one version."""
    from dataclasses import replace

    return replace(EMPTY, version=name.version - 1)


def _batch(columns: list[Any], fields: list[pa.Field], rows: int) -> pa.RecordBatch:
    """A batch that keeps its number of rows even without a column."""
    import pyarrow as pa

    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""]).select([])


class _InMemory:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def batches(self, names: list[str], living: NDArray[np.uint32]) -> Iterator[tuple[int, Any]]:
        import pyarrow as pa

        yield from living_batches(pa.BufferReader(self._body), names, living)


class _InRanges:
    """A large file, of which only the columns are read that somebody wants."""

    def __init__(self, folder: Folder, file: DataFile) -> None:
        self._folder, self._file = folder, file

    def batches(self, names: list[str], living: NDArray[np.uint32]) -> Iterator[tuple[int, Any]]:
        import pyarrow as pa

        try:
            source = pa.PythonFile(_Ranges(self._folder, self._file), mode="r")
            yield from living_batches(source, names, living)
        except NotFound:
            raise gone(self._folder.table, self._file.path) from None


class _Ranges:
    """As much of a file object as Arrow needs to read parts of it."""

    def __init__(self, folder: Folder, file: DataFile) -> None:
        self._folder, self._file, self._at = folder, file, 0
        self.closed = False

    def read(self, length: int = -1) -> bytes:
        left = self._file.size - self._at
        wanted = left if length is None or length < 0 else min(length, left)
        found = self._folder.files.read_range(self._folder.location, self._file.path, self._at, wanted)
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._file.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._file.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


def gone(table: str, path: str) -> SnapshotExpired:
    return SnapshotExpired(
        f"Table {table!r}: {path} is no longer there; cleanup has removed this state.",
        next="Read a newer snapshot.",
        table=table,
    )
