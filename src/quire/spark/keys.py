"""Keys that lie in files: whether they are distinct, and which rows of a table have them. Executors read them all.

Up to `FEW` keys, every task reads them whole and compares them with its part of the table. More are shuffled by Spark,
or without it taken in rounds, a share of them in each; so no process ever holds all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import DuplicateKeys
from quire.formats import Found, Place
from quire.formats import keys as keylib
from quire.formats.alike import hashed
from quire.formats.lance import tasks
from quire.formats.lance.tasks import grouped as grouped
from quire.formats.marks import Marks, by_fragment, merged, packed, unpacked
from quire.spark import jobs, types

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FEW = 1_000_000
"""Up to this many keys are read whole by every task."""
TASK_ROWS = 2_000_000
"""Rows of a table, keys only, that one task looks through."""
EXAMPLES = 20


@dataclass(frozen=True)
class KeyFiles:
    """The keys of one statement, in data files that no manifest names."""

    spark: SparkSession | None
    """Who looks for them; None for this process."""
    place: Place
    paths: tuple[str, ...]
    on: tuple[str, ...]
    rows: int
    table: str
    unique: bool
    """Whether the table has at most one row per key."""
    few: int = FEW

    def check_distinct(self) -> None:
        """Refuse keys that occur twice. That none is null was checked when they were written."""
        if self.rows < 2:
            return
        twice = self._twice_shuffled() if self._many else self._twice_in_one_task()
        if twice:
            raise keylib.repeated(twice, self.table)

    def seek(self, at: Place, fragments: Sequence[int] | None) -> Found:
        """Rows of the table at another place that have one of these keys."""
        if self.rows == 0:
            return Found({}, 0)
        wanted = None if fragments is None else set(fragments)
        sizes = [(n, rows) for n, rows in tasks.fragments_of(at) if wanted is None or n in wanted]
        parts = grouped(sizes, TASK_ROWS)
        if not parts:
            return Found({}, 0)
        if not self._many:
            return self._seek_in_tasks(at, parts)
        return self._seek_shuffled(at, parts, sum(rows for _, rows in sizes))

    # -- few: every task reads all keys -----------------------------------------------------------------------

    @property
    def _rounds(self) -> int:
        return 1 if self.spark is not None else max(1, -(-self.rows // max(1, self.few)))

    def _twice_in_one_task(self) -> list[dict[str, Any]]:
        place, paths, on, table, rounds = self.place, self.paths, self.on, self.table, self._rounds

        def work(number: int) -> jobs.Answer:
            keylib.check_distinct(tasks.all_keys(place, paths, on, number, rounds), on, table)
            return {}, b""

        try:
            jobs.on_numbers(self.spark, rounds, work)
        except DuplicateKeys as error:
            return list(error.keys)
        return []

    def _seek_in_tasks(self, at: Place, parts: list[list[int]]) -> Found:
        place, paths, on, rounds, unique = self.place, self.paths, self.on, self._rounds, self.unique

        def work(number: int) -> jobs.Answer:
            part, share = divmod(number, rounds)
            keys = tasks.all_keys(place, paths, on, share, rounds)
            addresses, positions = tasks.find_keys(at, parts[part], on, keys)
            some = keys.take(positions[:EXAMPLES]).to_pylist()
            shown = [{k: keylib.shown(v) for k, v in row.items()} for row in some]
            rows = packed(by_fragment(addresses))
            which = b"" if unique else packed({share: Marks.of(positions)})
            return {"examples": shown, "rows": len(rows)}, rows + which

        answers = jobs.on_numbers(self.spark, len(parts) * rounds, work)
        found = merged(unpacked(body[: head["rows"]]) for head, body in answers)
        matched = _total(found)
        if not unique:
            matched = _total(merged(unpacked(body[head["rows"] :]) for head, body in answers))
        examples = [row for head, _ in answers for row in head["examples"]]
        return Found(found, matched, tuple(examples[:EXAMPLES]))

    # -- many: Spark shuffles them ----------------------------------------------------------------------------

    @property
    def _many(self) -> bool:
        return self.spark is not None and self.rows > self.few

    def _frame(self) -> DataFrame:
        """The keys as a frame, with columns k0, k1, …"""
        place, paths, on, table = self.place, self.paths, self.on, self.table
        target = types.readable(tasks.key_schema(place, on), table)

        def read(number: int) -> Iterator[pa.RecordBatch]:
            yield from types.converted(tasks.read_keys(place, [paths[number]], on), target, table)

        assert self.spark is not None
        return _neutral(jobs.source(self.spark, len(paths), read, types.spark_schema(target), self.rows), on)

    def _may_be_twice(self) -> bool:
        """By the hashes of the keys, of which fewer bytes travel: mostly all differ, and that proves it."""
        place, paths, on = self.place, self.paths, self.on

        def read(number: int) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            found = hashed(tasks.all_keys(place, [paths[number]], on), on).view("int64")
            yield from pa.table({"h": found}).to_batches(max_chunksize=jobs.BATCH)

        assert self.spark is not None
        frame = jobs.source(self.spark, len(paths), read, "h long", self.rows)
        return bool(frame.groupBy("h").count().where("count > 1").limit(1).count())

    def _twice_shuffled(self) -> list[dict[str, Any]]:
        if not self._may_be_twice():
            return []
        names = [f"k{i}" for i in range(len(self.on))]
        counted = self._frame().groupBy(*names).count()
        rows = jobs.collected(counted.where("count > 1").limit(5))
        return [{name: keylib.shown(row[f"k{i}"]) for i, name in enumerate(self.on)} for row in rows]

    def _seek_shuffled(self, at: Place, parts: list[list[int]], rows: int) -> Found:
        on, table = self.on, self.table
        target = types.readable(tasks.key_schema(at, on, address=True), table)

        def read(number: int) -> Iterator[pa.RecordBatch]:
            yield from types.converted(tasks.key_rows(at, parts[number], on), target, table)

        assert self.spark is not None
        there = _neutral(jobs.source(self.spark, len(parts), read, types.spark_schema(target), rows), on)
        names = [f"k{i}" for i in range(len(on))]
        both = there.join(self._frame().distinct(), names)
        # By fragment, so that each is told of by one task, and as a bit for each of its rows at most.
        placed = both.selectExpr("_rowaddr", "shiftright(_rowaddr, 32) as fragment").repartition("fragment")
        answers = jobs.on_rows(placed.select("_rowaddr"), _marked)
        found = merged(unpacked(body) for _, body in answers)
        matched = _total(found)
        if not self.unique and matched:
            matched = both.select(*names).distinct().count()
        return Found(found, matched, self._examples(at, found))

    def _examples(self, at: Place, found: dict[int, Marks]) -> tuple[dict[str, Any], ...]:
        """The keys of some of the rows, looked up by one task."""
        if not found:
            return ()
        on, fragment = self.on, min(found)
        some = Marks.of(np.asarray(found[fragment])[:EXAMPLES])

        def work(_: int) -> jobs.Answer:
            rows = tasks.keys_at(at, fragment, some, on)
            return {"examples": [{k: keylib.shown(v) for k, v in row.items()} for row in rows]}, b""

        [(head, _)] = jobs.on_numbers(self.spark, 1, work)
        return tuple(head["examples"])


def _marked(batches: Iterable[pa.RecordBatch]) -> jobs.Answer:
    """The rows of a few whole fragments, whose addresses come in any order."""
    return {}, packed(merged(by_fragment(b.column(0).to_numpy().astype(np.uint64)) for b in batches))


def _total(rows: dict[int, Marks]) -> int:
    return sum(len(marks) for marks in rows.values())


def _neutral(frame: DataFrame, on: Sequence[str]) -> DataFrame:
    for position, name in enumerate(on):
        frame = frame.withColumnRenamed(name, f"k{position}")
    return frame
