"""The rows of a load in files that tasks of an engine write: the driver hands them in, and sees none of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from quire.errors import DuplicateKeys, KeyConflict
from quire.formats import Handed, MatchedRows, Place, tasks
from quire.graph.catalog import Catalog, Entity
from quire.graph.embed.embedder import Embedder
from quire.graph.integrity.task_judge import TaskJudge
from quire.graph.integrity.verdict_cache import appoint, unwritten, vouch
from quire.graph.integrity.violations import Violation
from quire.graph.load.build_indexes import build, rebuild
from quire.graph.load.receipt import Loaded
from quire.graph.load.rejects import Culprit, Rejects
from quire.graph.load.row_identity import Mode, goes_by
from quire.graph.load.sources import Part
from quire.graph.load.staged.clashes import Clashes
from quire.graph.load.staged.inputs import Input, RowMapper, entities_of, taken_apart
from quire.graph.load.staged.merging import Merging
from quire.graph.load.staged.read_task import How, Task, portable
from quire.graph.load.staged.rejected_rows import culprits, reject, without
from quire.graph.load.staged.staged_files import Piece, Written, handed
from quire.graph.load.typed import Typist
from quire.lake import engines
from quire.lake.commit.validators import Proposal, ProposedTable
from quire.lake.engines import Answer
from quire.lake.key_files import FEW, KeyFiles
from quire.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.commit.table_change import Mark
    from quire.lake.commit.transaction import Transaction


@dataclass
class Staged:
    """The rows of one load in files that tasks wrote, as the driver sees them."""

    session: Any | None
    tx: Transaction
    catalog: Catalog
    mode: Mode
    inputs: Sequence[Input]
    rejects: Rejects
    how: How
    progress: Progress | None = None
    embedder: Embedder | None = field(default=None, repr=False)
    dry_run: bool = False
    unembedded: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    marks: dict[str, Mark] = field(default_factory=dict)
    """By type, where its table stood before rows were merged into it."""
    written: dict[str, Written] = field(default_factory=dict)
    """What the tasks have written, by type."""

    few: ClassVar[int] = FEW
    """Up to this many rows are compared without a shuffle."""

    def __post_init__(self) -> None:
        self.embedder = portable(self.session, self.embedder)
        appoint(self.tx, TaskJudge(self.session, self.few))
        self._before = set(unwritten(self.tx, [entity.table for entity in self.catalog.entities]))

    @property
    def entities(self) -> list[Entity]:
        return [one.entity for one in self.written.values()]

    def _table(self, entity: Entity) -> ProposedTable:
        return Proposal(self.tx).table(entity.id)

    def close(self) -> None:
        """Nothing is held here: what no commit names is removed by cleanup."""

    def write(self, entity: Entity) -> Loaded:
        """Hand in what the tasks have written, but for rows that clash by their ids."""
        one = self.written[entity.id]
        if self.mode == "merge":
            return self._merge(one)
        merging = self._merging(one)
        merging.complete(one.pieces, "overwrite" if self.mode == "overwrite" else "append")
        if self.mode == "overwrite":
            return self._overwrite(one)
        if one.generated and not entity.defined.key:
            self._hand_in(one, "insert", one.pieces, made=True)
            return Loaded(inserted=one.rows)
        self._distinct(one, lambda: self._hand_in(one, "insert", one.pieces))
        return Loaded(inserted=one.rows)

    def write_without(self, entity: Entity, ids: Collection[str]) -> tuple[int, Loaded]:
        """Merge the rows of a type once more as if some had never come."""
        one = self.written[entity.id]
        left_out = without(self.session, one, ids)
        self._table(entity).take_back(self.marks[entity.id])
        return left_out, self._merge_in(one, distinct=True)

    def culprits(self, entity: Entity, wanted: Mapping[str, Violation], name: str) -> dict[str, Culprit]:
        """The rows of a type that are loaded under some ids; tasks write them to files of rejects of this name."""
        one = self.written[entity.id]
        return culprits(self.session, one, wanted, self.how.folder, f"{name}-{entity.id[:8]}")

    def finish(self, entity: Entity) -> None:
        """Build the indexes that wait for rows; tasks have looked at each of these by itself."""
        if self.mode == "overwrite":
            rebuild(self.tx, entity)
        else:
            build(self.tx, entity, self.written[entity.id].rows)
        if entity.table in self._before and self._table(entity).changed:
            vouch(self.tx, [entity.table])

    # -- reading ----------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Let tasks read and write everything; what is wrong with rows by themselves is collected."""
        names = [entity.name for entity in entities_of(self.catalog, self.inputs)]
        with engines.named_job(f"load {engines.listed(names)}", self.tx.meter):
            self._read()

    def _read(self) -> None:
        places: dict[str, Place] = {}
        schemas: dict[str, Any] = {}
        for entity in entities_of(self.catalog, self.inputs):
            table = self.tx[entity.table]
            places[entity.id] = table.target()
            schemas[entity.id] = tasks.picked(table.schema, entity.schema().names)
        task = Task(self.catalog, places, schemas, self.mode, self.how, self.dry_run, self.embedder)

        def touched(entity: Entity) -> Written:
            return self.written.setdefault(entity.id, Written(entity, places[entity.id], schemas[entity.id]))

        for number, one in enumerate(self.inputs):
            if one.entity is not None:
                touched(one.entity)
            for given, told in self._answers(one, task, number):
                if given is not None:
                    touched(given)  # also when it has no row: an overwrite leaves none then
                for piece in told["types"]:
                    touched(self.catalog.by_id(piece["type"])).add(piece)
                self._collect(told)

    def _collect(self, told: dict[str, Any]) -> None:
        self.rejects.rows += told["rejected"]
        self.rejects.by_type.update(told["by_type"])
        self.unembedded.update(told["unembedded"])
        if self.progress is not None:
            for name, rows in told["seen"].items():
                self.seen[name] += rows  # of all shares of a file
                self.progress(name, self.seen[name], None)
        self.rejects.tell([Violation(**v) for v in told["violations"]], told["count"])

    def _answers(self, one: Input, task: Task, number: int) -> list[tuple[Entity | None, dict[str, Any]]]:
        """What each part is declared to hold, and what was found in it."""
        if one.frame is None:
            given = taken_apart(self.session, one.parts)
            work = _ReadPart(task, given, number)
            answers = engines.tasks_on(self.session, self.progress)(len(given), work)
            for part, (head, _) in zip(given, answers, strict=True):
                if head["met"]:  # what the task's copy of the part has met
                    part.data.met.update(head["met"])
            return [(part.entity, head) for part, (head, _) in zip(given, answers, strict=True)]
        entity = one.entity
        assert entity is not None
        wrong = Typist(self.catalog, entity, self.rejects, None).check_columns(one.columns)
        if wrong is not None:
            self.rejects.leave_out(entity.name, 1)
            self.rejects.add(Violation(entity.name, "property", wrong, line=1), one.columns)
            return []
        work_on = partial(_read_partition, task, entity, number, one.rows)
        answers = engines.on_frame(self.session, one.frame, work_on)
        return [(entity, head) for head, _ in answers if head]

    # -- writing ----------------------------------------------------------------------------------------------

    def _merging(self, one: Written) -> Merging:
        return Merging(self.session, one.entity, one.place, one.schema, self.few)

    def _overwrite(self, one: Written) -> Loaded:
        table = self.tx[one.entity.table]
        before = table.count()
        self._distinct(one, lambda: 0)
        fragments, without = handed(one.place, one.pieces)
        table.hand_in(Handed("overwrite", fragments, schema=table.schema, without=without))
        return Loaded(inserted=one.rows, removed=before)

    def _merge(self, one: Written) -> Loaded:
        """Rows that give every property replace those that are there; the others are merged into them."""
        columns = goes_by(one.entity, lacking=one.lacking)
        if columns:
            self._merging(one).identify(one, columns)
        if columns or one.partial:
            self._reject(one)
        self.marks[one.entity.id] = self._table(one.entity).mark()
        return self._merge_in(one, distinct=bool(columns or one.partial))

    def _merge_in(self, one: Written, *, distinct: bool) -> Loaded:
        """Upsert all rows that are not left out."""
        merging = self._merging(one)
        whole, partial_ = _split(one.pieces)
        merging.complete(whole)
        if distinct:
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
        bad = Clashes(self.session, one.place, self.mode, self.few).find(one, self.rejects.room)
        clashed = [row for row in bad if row.said]
        for name, some in (("key", clashed), ("new", [row for row in bad if not row.said])):
            if some:
                reject(self.session, one, some, self.rejects, self.how.folder, f"{name}-{one.entity.id[:8]}")

    def _hand_in(
        self, one: Written, op: Literal["insert", "upsert"], pieces: Sequence[Piece], *, made: bool = False
    ) -> int:
        fragments, without = handed(one.place, pieces)
        if not fragments:
            return 0
        seek = _nothing if made else self._keys(one, pieces).seek
        return self.tx[one.entity.table].hand_in(Handed(op, fragments, ("id",), seek, without=without))

    def _keys(self, one: Written, pieces: Sequence[Piece]) -> KeyFiles:
        paths = tuple(path for piece in pieces for path in piece.key_paths(one.place))
        rows = sum(piece.rows - len(piece.left_out) for piece in pieces)
        return KeyFiles(self.session, one.place, paths, ("id",), rows, one.entity.table, True, self.few)


def _split(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    return [p for p in pieces if not p.partial], [p for p in pieces if p.partial]


@dataclass(frozen=True)
class _ReadPart:
    """Reads one of some parts."""

    task: Task
    parts: Sequence[Part]
    number: int
    """Which input they are; begins the names of their files of rejects."""

    def __call__(self, number: int) -> Answer:
        return self.task(self.parts[number], f"{self.number:03}-{number:05}")


def _read_partition(
    task: Task, entity: Entity, number: int, rows: RowMapper | None, batches: Iterator[pa.RecordBatch], partition: int
) -> Answer:
    import pyarrow as pa

    first = next(batches, None)
    if first is None:
        return {}, b""
    name = f"{number:03}-{partition:05}"
    if rows is not None:
        return task(Part(rows.of(_again(first, batches)), rows.name, "columns", entity), name)
    reader = pa.RecordBatchReader.from_batches(first.schema, _again(first, batches))
    return task(Part(reader, None, "columns", entity), name)


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _nothing(place: Place, fragments: Sequence[int] | None) -> MatchedRows:
    """Ids that were made for these rows are nowhere else."""
    return MatchedRows(np.empty(0, np.uint64), 0)
