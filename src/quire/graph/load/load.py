"""Loading rows of many types in one commit.

read      every part of the source, typed and checked row by row, gathered by type        (readers, typed, gather)
write     each type into the transaction, by mode                                          (write)
check     what rows keep or break together, on the transaction; told with file and line    (integrity)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quire.errors import IntegrityError, InvalidInput
from quire.graph.catalog import Catalog, Entity
from quire.graph.embed.embedder import Embedder
from quire.graph.embed.fill import Vectors
from quire.graph.integrity import Found, check
from quire.graph.integrity.changes import catalog_of
from quire.graph.integrity.filters import is_in
from quire.graph.load import index
from quire.graph.load.gather import Gathering
from quire.graph.load.readers import Progress, Reader
from quire.graph.load.receipt import Loaded, LoadReceipt
from quire.graph.load.rejects import Rejects, as_given
from quire.graph.load.sources import Format, Part, options_of, parts
from quire.graph.load.write import TEXT, Mode, Writing

if TYPE_CHECKING:
    from quire.lake.transaction import Transaction

MODES: tuple[Mode, ...] = ("append", "merge", "overwrite")
EVERY = 1 << 30
AT_ONCE = 20_000
"""So many rejected rows are taken out by one statement."""
SHOWN = 20
"""So many violations are kept with the receipt."""

Culprit = tuple[Entity, tuple[str | None, int], dict[str, Any] | None]
"""A row that is to blame: its type, its file and line, and the row itself if rejects are written."""


def load(
    tx: Transaction,
    source: Any,
    mode: Mode = "append",
    *,
    type: str | None = None,
    edge: str | None = None,
    format: Format | None = None,
    dry_run: bool = False,
    max_errors: int = 20,
    rejects: str | os.PathLike[str] | None = None,
    skip_rejects: bool | int = False,
    progress: Progress | None = None,
    embedder: Embedder | None = None,
    complete: bool = False,
) -> LoadReceipt:
    """Load rows into a transaction; they are committed with it.

    `source` is a file, a pattern, rows, a frame, Arrow data, a dict of them by type, or a list of any of these. NDJSON
    and rows say their types themselves, unless `type` or `edge` does; files of columns may be named after their type.

    `append` inserts strictly. `merge` upserts: a row that is there gets the values that are given, and keeps those of
    properties that are absent; null is given as null, and a default is for a new row. `overwrite` replaces all rows of
    the types that the source holds.

    Rows that break a rule are collected, `max_errors` of them at most, and refuse the load with one `IntegrityError`
    that names file, line, type, property and rule. `rejects` is a file that they are written to; with `skip_rejects`
    the load goes on without them, or without so many of them at most. A merge goes on only without rows that are wrong
    by themselves: rows that it updated cannot be left out any more when they are found to break a rule together.

    `embedder` makes the vectors of `@embed` properties that are not given: once, however often the commit is moved.
    Without one a required vector is an error, and an optional one stays null and is counted as `unembedded`.

    A dry run finds everything that a load would find, asks no embedder, and discards the transaction. `complete` says
    that nothing follows in the transaction: then nodes with too few edges are told here, with file and line, and
    otherwise by the commit.
    """
    if mode not in MODES:
        raise InvalidInput(f"There is no mode {mode!r}.", next=f"Use one of {', '.join(MODES)}.")
    catalog = catalog_of(tx)
    if not catalog:
        raise InvalidInput("There is no graph here yet.", next="Apply a schema first.")
    found = parts(source, catalog, type, edge, format, options_of(tx))
    _check_apart(found, rejects)
    collected = Rejects(max_errors, rejects, skip_rejects)
    vectors = Vectors(embedder, progress, pretend=dry_run)
    try:
        with Gathering(lacks=mode == "merge") as gathering:
            reader = Reader(catalog, gathering, collected, progress, vectors)
            for part in found:
                reader.read(part)
            if collected.found and not collected.skips:
                raise collected.error()
            done = _Load(tx, catalog, mode, gathering, collected, complete or dry_run).run()
    finally:
        collected.close()
    if dry_run:
        tx.discard()
    return LoadReceipt(
        mode,
        _counted(done, collected, vectors),
        rejected=collected.rows,
        dry_run=dry_run,
        violations=tuple(collected.found.violations[:SHOWN]),
    )


def _check_apart(found: Sequence[Part], rejects: str | os.PathLike[str] | None) -> None:
    """The file of rejects is written while the source is read."""
    if rejects is None or not os.path.exists(rejects):
        return
    for part in found:
        if isinstance(part.data, str) and os.path.exists(part.data) and os.path.samefile(part.data, rejects):
            raise InvalidInput(
                f"{part.data} is loaded, so rejects cannot be written to it.", next="Give another file.", file=part.data
            )


def _counted(done: dict[str, Loaded], rejects: Rejects, vectors: Vectors) -> dict[str, Loaded]:
    """What was done to each type, with the rows that were left out and the texts that have no vector."""
    found = {name: done.get(name, Loaded()) for name in dict.fromkeys([*done, *rejects.by_type])}
    return {
        name: replace(one, rejected=rejects.by_type[name], unembedded=min(vectors.missing[name], one.written))
        for name, one in found.items()
    }


MERGED = (
    "Nothing was committed. A merge goes on only without rows that are wrong by themselves: these break a rule together"
    " with others (an end, a number of edges, what is unique) and may have replaced rows that were there. Correct them"
    " or take them out of the source."
)


@dataclass
class _Load:
    tx: Transaction
    catalog: Catalog
    mode: Mode
    gathering: Gathering
    rejects: Rejects
    complete: bool

    def run(self) -> dict[str, Loaded]:
        writing = Writing(self.tx, self.mode, self.gathering, self.rejects)
        done = {one.entity.name: writing.write(one) for one in self.gathering.types.values()}
        if self.rejects.found and not self.rejects.skips:
            raise self.rejects.error()
        tables = [one.entity.table for one in self.gathering.types.values()]
        # Rows that are skipped are found all at once: each round reads all that was written.
        most = EVERY if self.rejects.skips else self.rejects.found.most
        while found := self._wanted(check(self.tx, tables, most=most, rows=False)):
            self._tell(found, done)
        for one in self.gathering.types.values() if self.mode != "overwrite" else ():
            index.build(self.tx, one.entity, one.rows)
        return done

    def _wanted(self, found: Found) -> Found:
        """What is wrong already: a node may still get the edges that it needs, unless nothing follows."""
        if self.complete or not found:
            return found
        nodes = {e.name for e in self.catalog.nodes}
        wanted = Found(found.most)
        wanted.add(v for v in found.violations if not (v.rule == "card" and v.type in nodes))
        return wanted

    def _tell(self, found: Found, done: dict[str, Loaded]) -> None:
        """Reject the rows behind violations. Unless they may be skipped, or cannot be, that is the end of the load."""
        blamed: dict[Entity, set[str]] = {}
        together = Found(self.rejects.found.most)
        rows = self._culprits(found)
        for violation in found.violations:
            entity, place, original = rows.get((violation.type, violation.id), (None, None, None))
            if entity is None or place is None or violation.id is None:
                self.rejects.add(violation, None)
            elif violation.id not in blamed.setdefault(entity, set()):
                blamed[entity].add(violation.id)
                located = replace(violation, file=place[0], line=place[1])
                together.add([located])
                self.rejects.add(located, original)
        if self.rejects.skips and self.mode == "merge" and blamed:
            raise self._stuck(together)
        if not self.rejects.skips or not blamed:
            raise self.rejects.error()
        for entity, ids in blamed.items():
            removed = 0
            for some in _in_parts(sorted(ids)):
                removed += self.tx[entity.table].delete(is_in("id", TEXT, some))
            self.rejects.leave_out(entity.name, removed)
            before = done[entity.name]
            done[entity.name] = replace(before, inserted=before.inserted - removed)

    def _stuck(self, together: Found) -> IntegrityError:
        """The rows that a merge cannot go on without, apart from those that it could have left out."""
        whole, told = self.rejects.error(), together.error()
        told.next = MERGED
        if isinstance(whole, IntegrityError) and "rejects" in whole.fields:
            told.fields["rejects"] = whole.fields["rejects"]
        return told

    def _culprits(self, found: Found) -> dict[tuple[str, str | None], Culprit]:
        """The rows of this load that violations are about, by type and id: each type is looked through once."""
        ids: dict[str, list[str]] = {}
        for violation in found.violations:
            if violation.id is not None:
                ids.setdefault(violation.type, []).append(violation.id)
        rows: dict[tuple[str, str | None], Culprit] = {}
        for entity in self.catalog.entities:
            wanted = list(dict.fromkeys(ids.get(entity.name, ())))
            if not wanted or entity.id not in self.gathering.types:
                continue
            originals = self.gathering.originals(entity, wanted) if self.rejects.writes else {}
            given = not self.gathering.types[entity.id].generated
            for id, place in self.gathering.places(entity, "id", wanted).items():
                original = as_given(entity, originals[id], id=given) if id in originals else None
                rows[entity.name, id] = entity, place, original
        return rows


def _in_parts(ids: list[str]) -> Iterator[list[str]]:
    return (ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE))
