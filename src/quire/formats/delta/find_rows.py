"""Finding rows: by key, by condition. A row is told by its data file and its place in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quire.errors import InvalidExpression, InvalidInput
from quire.filters import Computing, Condition, Expression, arrow, duckdb_engine, read_filter
from quire.formats import MatchedRows
from quire.formats.delta.files.parquet import may_hold
from quire.formats.delta.files.skipping import worth_reading
from quire.formats.delta.folder import Folder
from quire.formats.delta.log.state import DataFile, State
from quire.formats.row_bitmap import NONE, Marks, by_fragment
from quire.formats.row_hashes import comparable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

RowsByFile = dict[str, Marks]
"""RowsByFile by data file."""


@dataclass
class KeyMatches:
    """RowsByFile in the order of the table: of each data file the offsets, and one position for each row."""

    files: list[tuple[str, NDArray[np.uint32]]]
    positions: NDArray[np.int64]

    @property
    def rows(self) -> RowsByFile:
        return rows_of(self.files)

    def __len__(self) -> int:
        return len(self.positions)


def rows_of(files: Iterable[tuple[str, NDArray[np.uint32]]]) -> RowsByFile:
    """RowsByFile by file, of which one may be named several times."""
    found: dict[str, list[NDArray[np.uint32]]] = {}
    for path, offsets in files:
        if len(offsets):
            found.setdefault(path, []).append(offsets)
    return {path: Marks.of(np.concatenate(parts)) for path, parts in found.items()}


def union(one: Mapping[str, Marks], other: Mapping[str, Marks]) -> RowsByFile:
    return {path: one.get(path, NONE) | other.get(path, NONE) for path in {**one, **other}}


def count(rows: Mapping[str, Marks]) -> int:
    return sum(map(len, rows.values()))


# -- by key ------------------------------------------------------------------------------------------------------------


def where_key(
    folder: Folder, state: State, on: Sequence[str], keys: pa.Table, files: Sequence[DataFile] | None = None
) -> KeyMatches:
    """RowsByFile whose key is in `keys`, and for each the position of its key. A null equals nothing."""
    none = KeyMatches([], np.empty(0, np.int64))
    chosen = state.files if files is None else files
    if keys.num_rows == 0 or not chosen:
        return none
    columns = [keys.column(name) for name in on]
    flat = [c.combine_chunks() if hasattr(c, "combine_chunks") else c for c in columns]
    some = [f for f in chosen if all(may_hold(f, name, column) for name, column in zip(on, flat, strict=True))]
    if not some:
        return none
    match = _Match(flat)
    found: list[tuple[str, NDArray[np.uint32]]] = []
    positions = [none.positions]
    with match:
        for file, offsets, batch in folder.rows(state, list(on), some):
            rows, which = match.of(batch.columns)
            if len(rows):
                found.append((file.path, offsets[rows]))
                positions.append(which)
    return KeyMatches(found, np.concatenate(positions))


class _Match:
    """Matches rows with keys."""

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        self._keys = keys
        self._plain = len(keys) == 1 and _is_plain(keys[0])
        self._connection: Any = None

    def __enter__(self) -> _Match:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.__exit__(None, None, None)

    def of(self, columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions of the rows that have a key, and of that key."""
        if self._plain and columns[0].type == self._keys[0].type:
            import pyarrow.compute as pc

            found = pc.index_in(columns[0], value_set=self._keys[0], skip_nulls=True)
            rows = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False)).astype(np.int64)
            return rows, found.drop_null().to_numpy().astype(np.int64)
        return self._joined(columns)

    def _joined(self, columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:

        if self._connection is None:
            self._connection = duckdb_engine.connected()
            self._open = self._connection.__enter__()
            self._open.register("wanted", _numbered(self._keys))
        self._open.register("given", _numbered(columns))
        condition = " and ".join(f"g.k{i} = w.k{i}" for i in range(len(columns)))
        query = f"select g.position, w.position from given g join wanted w on {condition} order by all"
        found: pa.Table = self._open.sql(query).to_arrow_table()
        self._open.unregister("given")
        return found.column(0).to_numpy().astype(np.int64), found.column(1).to_numpy().astype(np.int64)


def _numbered(columns: Sequence[pa.Array]) -> pa.Table:
    import pyarrow as pa

    names = [f"k{i}" for i in range(len(columns))]
    numbers = pa.array(np.arange(len(columns[0])))
    return pa.table([*(comparable(c) for c in columns), numbers], names=[*names, "position"])


def _is_plain(keys: pa.Array) -> bool:
    """Whether equal keys have equal bytes, and none occurs twice."""
    import pyarrow.compute as pc
    import pyarrow.types as t

    kind = keys.type
    simple = t.is_integer(kind) or t.is_string(kind) or t.is_binary(kind) or t.is_date(kind)
    return bool(simple and pc.count_distinct(keys, mode="all").as_py() == len(keys))


# -- by condition ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """A filter that was understood: which columns it reads, and which rows of a batch it keeps."""

    text: str = ""
    said: Expression | None = None
    expression: pc.Expression | None = None
    columns: tuple[str, ...] = ()
    condition: Condition | None = None
    """What readers can tell of it."""

    def mask(self, computing: Computing, batch: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa

        if self.said is not None:
            return computing.mask(self.said, batch)
        assert self.expression is not None
        try:
            return arrow.mask(self.expression, batch.select(list(self.columns)))
        except pa.ArrowException as error:
            raise _invalid(self.text, error, "") from None


def chosen_by(filter: Any, schema: pa.Schema, *, table: str, part: str = "filter") -> Chosen | None:
    """A filter as people or layers above give it: text, a condition or a pyarrow expression. None for none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if filter is None:
        return None
    if isinstance(filter, pc.Expression):
        try:
            arrow.mask(filter, schema.empty_table())
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise _invalid(str(filter), error, table) from None
        return Chosen(str(filter), None, filter, arrow.named(filter, schema), arrow.plain(filter, schema))
    if not isinstance(filter, str | Condition):
        raise InvalidInput(
            f"A {part} is SQL text or a pyarrow expression, not a {type(filter).__name__}.",
            next=f'For example {part}="year > 2020".',
        )
    found = read_filter(filter, schema, part=part, table=table)
    return Chosen(str(filter), found.whole, None, found.whole.columns, found.condition)


def _invalid(text: str, error: Exception, table: str) -> InvalidExpression:
    on = f" of table {table!r}" if table else ""
    return InvalidExpression(
        f"{text} cannot be computed on the rows{on}: {str(error).splitlines()[0]}.",
        next="Check the filter against the columns.",
        expression=text,
    )


def kept(
    folder: Folder, state: State, chosen: Chosen | None, names: Sequence[str], files: Sequence[DataFile] | None = None
) -> Iterator[tuple[DataFile, NDArray[np.uint32], pa.RecordBatch]]:
    """The rows that a filter keeps: where they lie, and these columns of them."""
    import pyarrow as pa

    if chosen is None:
        yield from folder.rows(state, names, files)
        return
    wanted = list(dict.fromkeys([*names, *chosen.columns]))
    some = worth_reading(state, chosen.condition, state.files if files is None else files)
    with Computing() as computing:
        for file, offsets, batch in folder.rows(state, wanted, some):
            mask = chosen.mask(computing, batch) if wanted else chosen.mask(computing, _some_column(batch))
            held = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            if len(held):
                rows = batch if len(held) == batch.num_rows else batch.take(pa.array(held))
                yield file, offsets[held], _select(rows, names, len(held))


def _some_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What a condition that reads no column is told of: as many rows."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], names=["_"])


def _select(batch: pa.RecordBatch, names: Sequence[str], rows: int) -> pa.RecordBatch:
    import pyarrow as pa

    if names:
        return batch.select(list(names))
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""]).select([])


# -- as other processes tell them --------------------------------------------------------------------------------------


def numbered(state: State, files: Iterable[tuple[str, NDArray[np.uint32]]]) -> NDArray[np.uint64]:
    """Addresses: the file's number in the high half, the row's in the low."""
    number = {file.path: n for n, file in enumerate(state.files)}
    parts = [(np.uint64(number[path]) << np.uint64(32)) | rows.astype(np.uint64) for path, rows in files]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def unnumbered(state: State, found: MatchedRows) -> RowsByFile:
    """The same, the other way round."""
    return {state.files[number].path: marks for number, marks in by_fragment(found.addresses).items()}
