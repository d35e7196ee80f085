"""Rows of a load that have one key: among themselves, or with a row that the table has.

The keys lie in the data files that were just written. Tasks read them there, each those of one bucket of hashes, so no
process holds more of them than it can. What comes back are positions of rows, and no more of them than may be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from quire import duckdb_engines
from quire.formats import Place, task_table, tasks
from quire.formats import keys as keylib
from quire.formats.row_hashes import comparable, comparable_type
from quire.lake.engines import Answer, Tasks

if TYPE_CHECKING:
    import pyarrow as pa

BUCKET = 4_000_000
"""Keys that one task holds."""
FEW = 1_000_000
"""Up to this many keys are first counted as they are: mostly none is there twice, and nothing has to be sorted."""

Why = Literal["twice", "exists"]


@dataclass(frozen=True)
class Keys:
    """The keys of the rows for one table."""

    table: str
    place: Place
    paths: tuple[str, ...]
    on: tuple[str, ...]
    rows: int
    old: tuple[tuple[int, int], ...] = ()
    """Fragments of the table with their rows, if the keys must be new."""

    @property
    def buckets(self) -> int:
        return 1 + (self.rows + sum(rows for _, rows in self.old)) // BUCKET


@dataclass(frozen=True)
class Clash:
    """One row that cannot be there: the data file it is in, its position, and why."""

    path: int
    offset: int
    why: Why
    key: dict[str, Any]


def clashes(run: Tasks, all_keys: Sequence[Keys], most: int) -> list[tuple[int, list[Clash]]]:
    """For each of these, in one job: how many rows clash, and the first `most` of them.

    Of several rows with one key the first counts, in the order of files and lines.
    """
    wanted = [(number, bucket) for number, keys in enumerate(all_keys) for bucket in range(keys.buckets)]
    given = list(all_keys)

    def work(number: int) -> Answer:
        which, bucket = wanted[number]
        return _of_bucket(given[which], bucket, most), b""

    counts, found = [0] * len(given), [[] for _ in given]  # type: ignore[var-annotated]
    for (which, _), (head, _) in zip(wanted, run(len(wanted), work), strict=True):
        counts[which] += head["count"]
        found[which] += [Clash(*one) for one in head["clashes"]]
    return [(count, sorted(some, key=_place)[:most]) for count, some in zip(counts, found, strict=True)]


def _place(clash: Clash) -> tuple[int, int]:
    return clash.path, clash.offset


def _of_bucket(keys: Keys, bucket: int, most: int) -> dict[str, Any]:

    if not keys.old and keys.rows <= FEW:
        whole = tasks.all_keys(keys.place, keys.paths, keys.on)
        if keylib.are_distinct(whole, keys.on):
            return {"count": 0, "clashes": []}
    names = [f"k{n}" for n in range(len(keys.on))]
    listed = ", ".join(names)
    mine = f"WHERE hash({listed}) % {keys.buckets:d} = {bucket:d}" if keys.buckets > 1 else ""
    with duckdb_engines.connected(duckdb_engines.PLAIN) as connection:
        connection.register("new_rows", _new(keys, names))
        connection.execute(f"CREATE TEMP TABLE new AS SELECT * FROM new_rows {mine}").fetchall()
        query = (
            f"SELECT p, o, 'twice' AS why, {listed} FROM new "
            f"QUALIFY row_number() OVER (PARTITION BY {listed} ORDER BY p, o) > 1"
        )
        if keys.old:
            connection.register("old_rows", _old(keys, names))
            connection.execute(f"CREATE TEMP TABLE old AS SELECT DISTINCT {listed} FROM old_rows {mine}").fetchall()
            same = " AND ".join(f"o.{n} = new.{n}" for n in names)
            query = (
                f"SELECT p, o, CASE WHEN there THEN 'exists' ELSE 'twice' END AS why, {listed} FROM ("
                f"SELECT *, EXISTS (FROM old AS o WHERE {same}) AS there, "
                f"row_number() OVER (PARTITION BY {listed} ORDER BY p, o) AS n FROM new) WHERE there OR n > 1"
            )
        connection.execute(f"CREATE TEMP TABLE clashes AS {query}").fetchall()
        [[count]] = connection.execute("SELECT count(*) FROM clashes").fetchall()
        rows = connection.sql(f"SELECT * FROM clashes ORDER BY p, o LIMIT {most:d}").fetchall()
    shown = [(p, o, why, {n: keylib.shown(v) for n, v in zip(keys.on, key, strict=True)}) for p, o, why, *key in rows]
    return {"count": count, "clashes": shown}


def _new(keys: Keys, names: Sequence[str]) -> pa.RecordBatchReader:
    import numpy as np
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        for number, path in enumerate(keys.paths):
            at = 0
            for batch in task_table(keys.place).read_files([path], keys.on):
                where = [np.full(batch.num_rows, number, np.int32), np.arange(at, at + batch.num_rows)]
                at += batch.num_rows
                yield pa.RecordBatch.from_arrays([*batch.columns, *map(pa.array, where)], names=[*names, "p", "o"])

    return _reader(batches(), keys, names, [pa.field("p", pa.int32()), pa.field("o", pa.int64())])


def _old(keys: Keys, names: Sequence[str]) -> pa.RecordBatchReader:
    import pyarrow as pa

    fragments = [number for number, _ in keys.old]
    batches = (
        pa.RecordBatch.from_arrays([b.column(name) for name in keys.on], names=list(names))
        for b in task_table(keys.place).addressed_rows(fragments, keys.on)
    )
    return _reader(batches, keys, names, [])


def _reader(
    batches: Iterable[pa.RecordBatch], keys: Keys, names: Sequence[str], more: Sequence[Any]
) -> pa.RecordBatchReader:
    import pyarrow as pa

    kinds = map(comparable_type, tasks.key_schema(keys.place, keys.on).types)
    schema = pa.schema([*(pa.field(n, kind) for n, kind in zip(names, kinds, strict=True)), *more])
    compared = (pa.RecordBatch.from_arrays([comparable(c) for c in b.columns], names=schema.names) for b in batches)
    return pa.RecordBatchReader.from_batches(schema, (b.cast(schema) for b in compared))
