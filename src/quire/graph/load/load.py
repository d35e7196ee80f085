"""Loading rows of many types in one commit, in this process or by the tasks of an engine.

read      every part of the source, typed and checked row by row, gathered by type        (readers, typed)
write     each type into the transaction, by mode                                          (in_memory, staged)
check     what rows keep or break together, on the transaction; told with file and line    (integrity)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from quire.arguments import checked
from quire.errors import InvalidInput
from quire.graph.catalog import Catalog, Entity
from quire.graph.embed.embedder import Embedder
from quire.graph.embed.fill import Vectors
from quire.graph.integrity import Violations, check
from quire.graph.integrity.changes import catalog_of
from quire.graph.integrity.lookups import is_in
from quire.graph.integrity.violations import Violation
from quire.graph.load.in_memory import InMemory
from quire.graph.load.receipt import SHOWN, Loaded, LoadReceipt
from quire.graph.load.rejects import Culprit, Rejects
from quire.graph.load.row_identity import TEXT, Mode
from quire.graph.load.sources import files_of, in_form, options_of, parts
from quire.graph.load.staged.inputs import inputs_of
from quire.graph.load.staged.read_task import How
from quire.graph.load.staged.staging import Staged
from quire.graph.load.unchanged import Unchanged
from quire.progress import Progress
from quire.rowfiles import inputs
from quire.rowfiles.csv import CsvForm
from quire.rowfiles.kinds import Format
from quire.rowfiles.rejects import RejectsPlace, names_folder

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction

MODES: tuple[Mode, ...] = ("append", "merge", "overwrite")
A_ROUND = 100_000
"""So many rows that break rules together are looked for, and left out, at a time: their ids are in memory."""
AT_ONCE = 20_000
"""So many rejected rows are taken out by one statement."""


class Staging(Protocol):
    """Where the rows of a load are until its commit: gathered in this process, or in files that tasks have written."""

    @property
    def entities(self) -> Sequence[Entity]:
        """The types that the source holds, in the order in which they came."""

    @property
    def unembedded(self) -> Mapping[str, int]:
        """By type, the texts that have no vector."""

    def read(self) -> None:
        """Read and type every row; those that are wrong by themselves are rejected."""

    def write(self, entity: Entity) -> Loaded:
        """Write the rows of a type into the transaction, but for those that clash by their ids."""

    def write_without(self, entity: Entity, ids: Collection[str]) -> tuple[int, Loaded]:
        """Under merge, the same as if the rows with some ids had never come; how many these were."""

    def culprits(self, entity: Entity, wanted: Mapping[str, Violation], name: str) -> dict[str, Culprit]:
        """The written rows that violations are about, by id. `name` tells the files of rejects of each call apart."""

    def finish(self, entity: Entity) -> None:
        """What is left to do for a type when all its rows are right."""

    def close(self) -> None:
        """Remove what was kept for the load alone."""


@checked
def load(
    tx: Transaction,
    source: Any,
    mode: Mode = "append",
    *,
    type: str | None = None,
    edge: str | None = None,
    format: Format | None = None,
    csv: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    max_errors: int = 20,
    rejects: str | os.PathLike[str] | None = None,
    skip_rejects: bool | int = False,
    progress: Progress | None = None,
    embedder: Embedder | None = None,
    complete: bool = False,
    session: Any = None,
    label: str = "",
) -> LoadReceipt:
    """Load rows into a transaction; they are committed with it.

    `source` is a file, a pattern, rows, a frame, Arrow data, a dict of them by type, or a list of any of these. NDJSON
    and rows say their types themselves, unless `type` or `edge` does; files of columns may be named after their type.

    `append` inserts strictly. `merge` upserts: a row that is there gets the values that are given, and keeps those of
    properties that are absent; null is given as null, and a default is for a new row. `overwrite` replaces all rows of
    the types that the source holds.

    `csv` says how CSV files are written: `{"delimiter": ";", "quote": "'", "null": "NA", "encoding": "latin-1"}`.

    Rows that break a rule are collected, `max_errors` of them at most, and refuse the load with one `IntegrityError`
    that names file, line, type, property and rule. `rejects` is a file that they are written to, or a folder: one that
    is there, or a name without a suffix. With `skip_rejects` the load goes on without them, or without so many of them
    at most. A merge without some rows leaves those that were there as they were.

    `embedder` makes the vectors of `@embed` properties that are not given: once, however often the commit is moved.
    A merge in this process asks it for no text that is there unchanged, with a vector.
    Without one a required vector is an error, and an optional one stays null and is counted as `unembedded`.

    A dry run finds everything that a load would find, asks no embedder, and discards the transaction. `complete` says
    that nothing follows in the transaction: then nodes with too few edges are told here, with file and line, and
    otherwise by the commit.

    With a `session` its tasks read, type and write the rows (`quire.lake.engines`): of files where they can read them,
    large ones of Parquet and of lines by several, and of frames of Spark, whose lines are counted in each partition.
    `label` tells the files of rejects of one load in a transaction from those of another.
    """
    if mode not in MODES:
        raise InvalidInput(f"There is no mode {mode!r}.", next=f"Use one of {', '.join(MODES)}.")
    catalog = catalog_of(tx)
    if not catalog:
        raise InvalidInput("There is no graph here yet.", next="Apply a schema first.")
    name, options = f"{tx.write[:12]}-{label}" if label else tx.write[:12], options_of(tx)
    given = _given(source, catalog, type, edge, format, CsvForm.given(csv), options, session)
    _check_apart(source, catalog, rejects)
    to = RejectsPlace.of(rejects, name, options, tasks=session is not None)
    collected = Rejects(max_errors, to.sink, skip_rejects)
    staging: Staging
    if session is None:
        stored = Unchanged(tx) if mode == "merge" else None
        vectors = Vectors(embedder, progress, pretend=dry_run, stored=stored)
        staging = InMemory(tx, catalog, mode, given, collected, vectors, progress)
    else:
        how = How(max_errors, skip_rejects, to.folder)
        staging = Staged(session, tx, catalog, mode, given, collected, how, progress, embedder, dry_run)
    try:
        done = _Load(tx, catalog, mode, staging, collected, complete or dry_run).run()
    finally:
        staging.close()
        collected.close()
    collected.record(tx)
    if dry_run:
        tx.discard()
    return LoadReceipt(
        mode,
        _counted(done, collected, staging.unembedded),
        rejected=collected.rows,
        dry_run=dry_run,
        violations=tuple(collected.found.violations[:SHOWN]),
        violation_count=collected.found.count,
    )


def _given(
    source: Any,
    catalog: Catalog,
    type: str | None,
    edge: str | None,
    format: Format | None,
    form: CsvForm,
    options: dict[str, str],
    session: Any | None,
) -> list[Any]:
    """The parts that this process reads, or the inputs of tasks."""
    if session is None:
        return [in_form(part, form) for part in parts(source, catalog, type, edge, format, options)]
    found = inputs_of(source, catalog, type, edge, format, options)
    return [replace(one, parts=tuple(in_form(part, form) for part in one.parts)) for one in found]


def _check_apart(source: Any, catalog: Catalog, rejects: str | os.PathLike[str] | None) -> None:
    """The file of rejects is written while the source is read, and the next load would read it."""
    if rejects is None or names_folder(os.fspath(rejects)):
        return
    path = os.fspath(rejects)
    for name in files_of(source, catalog):
        if inputs.names(name, path):
            said = "is loaded" if inputs.names(path, name) else f"is matched by {name!r}, which is loaded"
            raise InvalidInput(
                f"{path} {said}, so rejects cannot be written to it.",
                next=f"Give another file: patterns leave out those that end in {inputs.REJECTS}.",
                file=path,
            )


def _counted(done: dict[str, Loaded], rejects: Rejects, unembedded: Mapping[str, int]) -> dict[str, Loaded]:
    """What was done to each type, with the rows that were left out and the texts that have no vector."""
    found = {name: done.get(name, Loaded()) for name in dict.fromkeys([*done, *rejects.by_type])}
    return {
        name: replace(one, rejected=rejects.by_type[name], unembedded=min(unembedded.get(name, 0), one.written))
        for name, one in found.items()
    }


@dataclass
class _Load:
    """One load: what is read and written by whom is the business of its staging."""

    tx: Transaction
    catalog: Catalog
    mode: Mode
    staging: Staging
    rejects: Rejects
    complete: bool

    def run(self) -> dict[str, Loaded]:
        self.staging.read()
        self._stop_if_wrong()
        entities = self.staging.entities
        done = {entity.name: self.staging.write(entity) for entity in entities}
        self._stop_if_wrong()
        self._check_together(entities, done)
        for entity in entities:
            self.staging.finish(entity)
        return done

    def _stop_if_wrong(self) -> None:
        if self.rejects.found and not self.rejects.skips:
            raise self.rejects.error()

    # -- what rows break together -----------------------------------------------------------------------------

    def _check_together(self, entities: Sequence[Entity], done: dict[str, Loaded]) -> None:
        """Leave out what breaks a rule together with others, until nothing does, or raise."""
        tables, rounds = [entity.table for entity in entities], 0
        while found := self._wanted(check(self.tx, tables, most=self._most(), rows=False)):
            self._tell(found, done, rounds)
            rounds += 1

    def _most(self) -> int:
        """So many violations are asked for at a time: each round reads all that was written, and memory holds them."""
        if not self.rejects.skips:
            return self.rejects.found.most
        # Some of those that are found may be none yet, while something follows.
        room = self.rejects.room if self.complete else None
        return A_ROUND if room is None else min(A_ROUND, room)

    def _wanted(self, found: Violations) -> Violations:
        """What is wrong already: a node may still get the edges that it needs, unless nothing follows."""
        if self.complete or not found:
            return found
        nodes = {e.name for e in self.catalog.nodes}
        wanted = Violations(found.most)
        wanted.add(v for v in found.violations if not (v.rule == "card" and v.type in nodes))
        return wanted

    def _tell(self, found: Violations, done: dict[str, Loaded], rounds: int) -> None:
        """Reject the rows behind violations. Unless they may be skipped, or cannot be, that is the end of the load."""
        by_name = {entity.name: entity for entity in self.staging.entities}
        first: dict[str, dict[str, Violation]] = {}
        for v in found.violations:
            if v.id is not None and v.type in by_name:
                first.setdefault(v.type, {}).setdefault(v.id, v)
        blamed = {name: self.staging.culprits(by_name[name], ids, f"set-{rounds:04}") for name, ids in first.items()}
        told: set[tuple[str, str | None]] = set()
        for v in found.violations:
            culprit = blamed.get(v.type, {}).get(v.id or "")
            if culprit is None:
                self.rejects.add(v, None)
            elif (v.type, v.id) not in told:
                told.add((v.type, v.id))
                self.rejects.blame(culprit)
        if not self.rejects.skips or not any(blamed.values()):
            raise self.rejects.error()
        for name, culprits in blamed.items():
            if culprits:
                self._leave_out(by_name[name], culprits, done)

    def _leave_out(self, entity: Entity, ids: Collection[str], done: dict[str, Loaded]) -> None:
        """A row that was merged may have replaced one that was there: what is left is merged anew, without it."""
        name = entity.name
        if self.mode == "merge":
            count, done[name] = self.staging.write_without(entity, ids)
            self.rejects.leave_out(name, count)
            return
        removed = 0
        for some in _in_parts(sorted(ids)):
            removed += self.tx[entity.table].delete(is_in("id", TEXT, some))
        self.rejects.leave_out(name, removed)
        done[name] = replace(done[name], inserted=done[name].inserted - removed)


def _in_parts(ids: list[str]) -> Iterator[list[str]]:
    return (ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE))
