"""Loading a graph on Spark, in one transaction: executors do everything that has to do with rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from quire.errors import DuplicateKeys, InvalidInput, KeyConflict
from quire.formats import Found as FoundRows
from quire.formats import Handed, Place
from quire.formats.lance import tasks
from quire.graph.catalog import Catalog, Entity
from quire.graph.graph import Graph
from quire.graph.integrity import Found, check
from quire.graph.integrity.changes import catalog_of
from quire.graph.integrity.filters import is_in
from quire.graph.integrity.verdicts import appoint, unwritten, vouch
from quire.graph.integrity.violations import Violation
from quire.graph.load import index
from quire.graph.load.clash import goes_by
from quire.graph.load.load import AT_ONCE, EVERY, MODES, SHOWN
from quire.graph.load.readers import Progress
from quire.graph.load.receipt import Loaded, LoadReceipt
from quire.graph.load.rejects import told_line
from quire.graph.load.sources import Format, Part, options_of
from quire.graph.load.typed import Typist
from quire.graph.load.write import TEXT, Mode
from quire.spark import jobs
from quire.spark.graph.clashes import Clashes
from quire.spark.graph.inputs import Input, Rows, absolute, entities_of, inputs_of, taken_apart
from quire.spark.graph.merging import Merging
from quire.spark.graph.reading import How, Task, portable
from quire.spark.graph.rejects import Folder, Told, culprits, reject
from quire.spark.graph.rules import Judge
from quire.spark.graph.written import Piece, Written, handed
from quire.spark.keys import FEW, KeyFiles
from quire.store.inputs import is_remote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from quire.lake.transaction import Transaction


def load(
    spark: SparkSession,
    graph: Graph,
    source: Any,
    mode: Mode = "append",
    *,
    type: str | None = None,
    edge: str | None = None,
    format: Format | None = None,
    dry_run: bool = False,
    max_errors: int = 20,
    rejects: str | None = None,
    skip_rejects: bool | int = False,
    progress: Progress | None = None,
    message: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> LoadReceipt:
    """What `graph.load` does, with executors: files, patterns, frames of Spark, or a dict of these by type.

    Files must be where the executors can read them. `rejects` is a folder or an address to which every task that left
    rows out writes a file of NDJSON. The embedder of the graph is sent to the tasks. Large files of Parquet and of
    lines are read by several. `progress` hears how many parts are read, and the rows of each when all are. Lines of a
    frame are counted in each of its partitions.
    """
    if mode not in MODES:
        raise InvalidInput(f"There is no mode {mode!r}.", next=f"Use one of {', '.join(MODES)}.")
    tx = graph.lake.transaction(message or f"load ({mode})", **{"fresh": True, **dict(options or {})})
    done = LoadReceipt(mode)  # if the token was used before, there is nothing to do
    with tx:
        given = inputs_of(source, catalog_of(tx), type, edge, format, options_of(tx))
        how: dict[str, Any] = {"max_errors": max_errors, "rejects": rejects, "skip_rejects": skip_rejects}
        done = load_into(spark, tx, given, mode, progress=progress, embedder=graph.embedder, dry_run=dry_run, **how)
        if dry_run:
            tx.discard()
    return replace(done, dry_run=True) if dry_run else done.committed(tx)


def load_into(
    spark: SparkSession,
    tx: Transaction,
    given: Sequence[Input],
    mode: Mode,
    *,
    max_errors: int = 20,
    rejects: str | None = None,
    skip_rejects: bool | int = False,
    progress: Progress | None = None,
    embedder: Any = None,
    dry_run: bool = False,
    label: str = "",
) -> LoadReceipt:
    """The same into a transaction, whose commit the rows wait for; `label` tells its rejects from those of others."""
    embedder = portable(embedder)
    place = None if rejects is None else absolute(str(rejects))
    remote = place is not None and is_remote(place)
    folder = Folder(place, f"{tx.write[:12]}-{label}" if label else tx.write[:12], options_of(tx) if remote else {})
    how = How(max_errors, skip_rejects, folder)
    return Load(spark, tx, mode, how, progress=progress, embedder=embedder, dry_run=dry_run).run(given)


@dataclass
class Load:
    """One load, as the driver sees it."""

    spark: SparkSession
    tx: Transaction
    mode: Mode
    how: How
    progress: Progress | None = None
    embedder: Any = field(default=None, repr=False)
    dry_run: bool = False
    unembedded: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    few: ClassVar[int] = FEW
    """Up to this many rows are compared without a shuffle."""

    def run(self, inputs: Sequence[Input]) -> LoadReceipt:
        catalog = catalog_of(self.tx)
        self.rejects = Told(self.how.most, self.how.skip, self.how.folder)
        appoint(self.tx, Judge(self.spark, self.few))
        before = set(unwritten(self.tx, [entity.table for entity in catalog.entities]))
        written = self._read(catalog, inputs)
        if self.rejects.found and not self.rejects.skips:
            raise self.rejects.error()
        done = {one.entity.name: self._write(one) for one in written}
        if self.rejects.found and not self.rejects.skips:
            raise self.rejects.error()
        self._judge(written, done)
        for one in written:
            if self.mode == "overwrite":
                index.rebuild(self.tx, one.entity)
            else:
                index.build(self.tx, one.entity, one.rows)
        mine = [one.entity for one in written if one.entity.table in before]
        vouch(self.tx, [entity.table for entity in mine if self.tx._edit(entity.id).changed])
        return LoadReceipt(
            self.mode,
            self._counted(done),
            rejected=self.rejects.rows,
            violations=tuple(self.rejects.found.violations[:SHOWN]),
        )

    def _counted(self, done: dict[str, Loaded]) -> dict[str, Loaded]:
        found = {name: done.get(name, Loaded()) for name in dict.fromkeys([*done, *self.rejects.by_type])}
        return {
            name: replace(one, rejected=self.rejects.by_type[name], unembedded=min(self.unembedded[name], one.written))
            for name, one in found.items()
        }

    # -- reading ----------------------------------------------------------------------------------------------

    def _read(self, catalog: Catalog, inputs: Sequence[Input]) -> list[Written]:
        """Let executors read and write everything; what is wrong with rows by themselves is collected."""
        found: dict[str, Written] = {}
        places: dict[str, Place] = {}
        schemas: dict[str, Any] = {}
        for entity in entities_of(catalog, inputs):
            table = self.tx[entity.table]
            places[entity.id] = table.target()
            schemas[entity.id] = tasks.picked(table.schema, entity.schema().names)
        task = Task(catalog, places, schemas, self.mode, self.how, self.dry_run, self.embedder)

        def touched(entity: Entity) -> Written:
            return found.setdefault(entity.id, Written(entity, places[entity.id], schemas[entity.id]))

        for number, one in enumerate(inputs):
            if one.entity is not None:
                touched(one.entity)
            for given, told in self._answers(catalog, one, task, number):
                if given is not None:
                    touched(given)  # also when it has no row: an overwrite leaves none then
                for piece in told["types"]:
                    touched(catalog.by_id(piece["type"])).add(piece)
                self._collect(told)
        return list(found.values())

    def _collect(self, told: dict[str, Any]) -> None:
        self.rejects.rows += told["rejected"]
        self.rejects.by_type.update(told["by_type"])
        self.unembedded.update(told["unembedded"])
        if self.progress is not None:
            for name, rows in told["seen"].items():
                self.seen[name] += rows  # of all shares of a file
                self.progress(name, self.seen[name])
        self.rejects.tell([Violation(**v) for v in told["violations"]], told["count"])

    def _answers(
        self, catalog: Catalog, one: Input, task: Task, number: int
    ) -> list[tuple[Entity | None, dict[str, Any]]]:
        """What each part is declared to hold, and what was found in it."""
        if one.frame is None:
            given = taken_apart(self.spark, one.parts)
            work = lambda n: task(given[n], f"{number:03}-{n:05}")  # noqa: E731 - a closure that is sent
            answers = jobs.on_numbers(self.spark, len(given), work, self._telling())
            for part, (head, _) in zip(given, answers, strict=True):
                if head["met"]:  # what the task's copy of the part has met
                    part.data.met.update(head["met"])
            return [(part.entity, head) for part, (head, _) in zip(given, answers, strict=True)]
        entity = one.entity
        assert entity is not None
        wrong = Typist(catalog, entity, self.rejects, None).check_columns(one.columns)
        if wrong is not None:
            self.rejects.leave_out(entity.name, 1)
            violation = Violation(entity.name, "property", wrong, line=1)
            self.how.folder.put(f"{number:03}-columns", told_line(violation, one.columns) + b"\n")
            self.rejects.add(violation, None)
            return []
        answers = jobs.on_rows(one.frame, partial(_read_partition, task, entity, number, one.rows))
        return [(entity, head) for head, _ in answers if head]

    def _telling(self) -> Any:
        """Says how many parts are read while tasks read them; how many rows they had is known afterwards."""
        tell = self.progress
        if tell is None:
            return None
        return lambda done, total: tell(f"{done} of {total} parts", 0)

    # -- writing ----------------------------------------------------------------------------------------------

    def _write(self, one: Written) -> Loaded:
        """Hand in what the tasks have written, but for rows that clash by their ids."""
        merging = Merging(self.spark, one.entity, one.place, one.schema, self.few)
        if self.mode == "merge":
            return self._merge(one, merging)
        merging.complete(one.pieces, "overwrite" if self.mode == "overwrite" else "append")
        if self.mode == "overwrite":
            return self._overwrite(one)
        if one.generated and not one.entity.defined.key:
            self._hand_in(one, "insert", one.pieces, made=True)
            return Loaded(inserted=one.rows)
        self._distinct(one, lambda: self._hand_in(one, "insert", one.pieces))
        return Loaded(inserted=one.rows)

    def _overwrite(self, one: Written) -> Loaded:
        table = self.tx[one.entity.table]
        before = table.count()
        self._distinct(one, lambda: 0)
        fragments, without = handed(one.pieces)
        table.hand_in(Handed("overwrite", fragments, schema=table.schema, without=without))
        return Loaded(inserted=one.rows, removed=before)

    def _merge(self, one: Written, merging: Merging) -> Loaded:
        """Rows that give every property replace those that are there; the others are merged into them."""
        columns = goes_by(one.entity, lacking=one.lacking)
        if columns:
            merging.identify(one, columns)
        if columns or one.partial:
            self._reject(one)
        whole, partial_ = _split(one.pieces)
        merging.complete(whole)
        if columns or one.partial:
            matched = self._hand_in(one, "upsert", whole)
        else:
            matched = self._distinct(one, lambda: self._hand_in(one, "upsert", whole))
        if partial_:
            keys = self._keys(one, partial_)
            build = partial(merging.build, tuple(partial_))
            matched += self.tx[one.entity.table].hand_in(Handed("upsert", (), ("id",), keys.seek, build=build))
        return Loaded(inserted=one.rows - matched, updated=matched)

    def _distinct(self, one: Written, hand_in: Any) -> int:
        """Hand rows in whose ids must be distinct and, in some modes, new; without those of which that is not so."""
        try:
            self._keys(one, one.pieces).check_distinct()
            return int(hand_in())
        except (DuplicateKeys, KeyConflict):
            self._reject(one)
        return int(hand_in())

    def _reject(self, one: Written) -> None:
        bad = Clashes(self.spark, one.place, self.mode, self.few).find(one, self.rejects.room)
        clashed = [row for row in bad if row.said]
        for name, some in (("key", clashed), ("new", [row for row in bad if not row.said])):
            if some:
                reject(self.spark, one, some, self.rejects, self.how.folder, f"{name}-{one.entity.id[:8]}")

    def _hand_in(
        self, one: Written, op: Literal["insert", "upsert"], pieces: Sequence[Piece], *, made: bool = False
    ) -> int:
        fragments, without = handed(pieces)
        if not fragments:
            return 0
        seek = _nothing if made else self._keys(one, pieces).seek
        return self.tx[one.entity.table].hand_in(Handed(op, fragments, ("id",), seek, without=without))

    def _keys(self, one: Written, pieces: Sequence[Piece]) -> KeyFiles:
        paths = tuple(path for piece in pieces for path in piece.key_paths())
        rows = sum(piece.rows - len(piece.left_out) for piece in pieces)
        return KeyFiles(self.spark, one.place, paths, ("id",), rows, one.entity.table, True, self.few)

    # -- what rows break together -----------------------------------------------------------------------------

    def _judge(self, written: Sequence[Written], done: dict[str, Loaded]) -> None:
        """Let executors look, and leave out what breaks a rule, or raise."""
        tables = [one.entity.table for one in written]
        rounds = 0
        while found := check(self.tx, tables, most=self._wanted(), rows=False):
            self._tell(found, written, done, rounds)
            rounds += 1

    def _wanted(self) -> int:
        """So many violations come to the driver: no more than decide; without a limit all, since their rows must go."""
        if not self.rejects.skips:
            return self.rejects.found.most
        return EVERY if self.rejects.room is None else self.rejects.room

    def _tell(self, found: Found, written: Sequence[Written], done: dict[str, Loaded], rounds: int) -> None:
        by_name = {one.entity.name: one for one in written}
        first: dict[str, dict[str, Violation]] = {}
        for v in found.violations:
            if v.id is not None and v.type in by_name:
                first.setdefault(v.type, {}).setdefault(v.id, v)
        folder = self.how.folder
        placed = {
            name: culprits(self.spark, by_name[name], ids, folder, f"set-{rounds:04}-{by_name[name].entity.id[:8]}")
            for name, ids in first.items()
        }
        self._add_all(found, placed, rounds)
        blamed = {name: ids for name, ids in placed.items() if ids}
        if not self.rejects.skips or self.mode == "merge" or not blamed:
            raise self.rejects.error()
        for name, ids in blamed.items():
            removed, wanted = 0, sorted(ids)
            for start in range(0, len(wanted), AT_ONCE):
                some = wanted[start : start + AT_ONCE]
                removed += self.tx[by_name[name].entity.table].delete(is_in("id", TEXT, some))
            self.rejects.leave_out(name, removed)
            done[name] = replace(done[name], inserted=done[name].inserted - removed)

    def _add_all(self, found: Found, placed: dict[str, dict[str, Violation]], rounds: int) -> None:
        """Tell every row once; what is no row of this load is told as it is."""
        told: set[tuple[str, str]] = set()
        homeless: list[Violation] = []
        try:
            for v in found.violations:
                row = placed.get(v.type, {}).get(v.id or "")
                if row is None:
                    homeless.append(v)
                    self.rejects.add(v, None)
                elif (v.type, row.id or "") not in told:
                    told.add((v.type, row.id or ""))
                    self.rejects.add(row, None)
        finally:
            body = b"".join(told_line(v, None) + b"\n" for v in homeless)
            self.how.folder.put(f"set-{rounds:04}-others", body)


def _split(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    return [p for p in pieces if not p.partial], [p for p in pieces if p.partial]


def _read_partition(
    task: Task, entity: Entity, number: int, rows: Rows | None, batches: Iterator[pa.RecordBatch]
) -> jobs.Answer:
    import pyarrow as pa
    from pyspark import TaskContext

    first = next(batches, None)
    if first is None:
        return {}, b""
    context = TaskContext.get()
    name = f"{number:03}-{context.partitionId() if context else 0:05}"
    if rows is not None:
        return task(Part(rows.of(_again(first, batches)), rows.name, "columns", entity), name)
    reader = pa.RecordBatchReader.from_batches(first.schema, _again(first, batches))
    return task(Part(reader, None, "columns", entity), name)


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _nothing(place: Place, fragments: Sequence[int] | None) -> FoundRows:
    """Ids that were made for these rows are nowhere else."""
    return FoundRows(np.empty(0, np.uint64), 0)
