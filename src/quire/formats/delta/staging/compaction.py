"""Compaction: small files of the base in fewer, without a change to any row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from quire.conversion.source import Source
from quire.errors import InvalidInput
from quire.formats import Compacted, Upkeep
from quire.formats.delta.folder import Folder
from quire.formats.delta.log.state import DataFile, State
from quire.formats.row_bitmap import Marks

Write = Callable[[Source, State], list[DataFile]]


@dataclass(frozen=True)
class Group:
    """Files as they were when their rows were copied, in that order, and what they became."""

    old: tuple[DataFile, ...]
    new: tuple[DataFile, ...]


@dataclass(frozen=True)
class Compaction:
    groups: tuple[Group, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups)

    def on(self, state: State) -> State:
        if not self:
            return state
        gone = {f.path for g in self.groups for f in g.old}
        kept = [f for f in state.files if f.path not in gone]
        return state.change(files=(*kept, *(f for g in self.groups for f in g.new)))

    def moved(self, folder: Folder, head: State) -> Compaction:
        """What is left of it on a newer state: what rivals deleted is deleted here too."""
        return Compaction(tuple(found for g in self.groups if (found := _follow(folder, g, head)) is not None))


def _follow(folder: Folder, group: Group, head: State) -> Group | None:
    there = [head.by_path.get(f.path) for f in group.old]
    if not any(there) or (not head.marks_rows and not all(there)):
        return None
    gone: list[bool] = []
    for file, now in zip(group.old, there, strict=True):
        living = folder.living(file)
        left = folder.living(now) if now is not None else np.empty(0, np.uint32)
        gone.extend((~np.isin(living, left)).tolist())
    new, start = [], 0
    for file in group.new:
        part = np.flatnonzero(gone[start : start + file.rows])
        new.append(file.with_deleted(Marks.of(part.astype(np.uint32))))
        start += file.rows
    return Group(group.old, tuple(new))


def plan(state: State, how: Upkeep) -> list[tuple[DataFile, ...]]:
    """Groups worth rewriting: small files up to the wanted number of rows, and ones with many rows deleted.

    Only files of one partition go together.
    """
    if how.target_rows < 1 or not 0 <= how.deleted <= 1:
        raise InvalidInput("A file has at least one row.", next="Give a larger target; `deleted` is a share.")
    groups: list[list[DataFile]] = []
    open_: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = {}
    for file in state.files:
        if file.alive < how.target_rows or _worn(file, how):
            group = open_.setdefault(file.partition, [])
            if not group:
                groups.append(group)
            group.append(file)
            if sum(f.alive for f in group) >= how.target_rows:
                open_.pop(file.partition)
    return [tuple(g) for g in groups if _pieces(g, how) < len(g) or any(_worn(f, how) for f in g)]


def _worn(file: DataFile, how: Upkeep) -> bool:
    return file.gone > how.deleted * file.rows


def _pieces(group: Iterable[DataFile], how: Upkeep) -> int:
    return -(-sum(f.alive for f in group) // how.target_rows)


def execute(
    folder: Folder, state: State, groups: Sequence[tuple[DataFile, ...]], how: Upkeep, write: Write
) -> Compaction:
    """Write the rows of each group anew, a part of them at a time. Nothing refers to the files yet."""
    done = []
    for old in groups:
        new: list[DataFile] = []
        batches = (batch for _, _, batch in folder.rows(state, state.schema.names, old))
        for part in _parts(Source(state.schema, batches, whole=False), how.target_rows):
            new += write(part, state)
        done.append(Group(old, tuple(new)))
    return Compaction(tuple(done))


def _parts(rows: Source, size: int) -> Iterable[Source]:
    """Rows in parts of a size."""
    held, count = [], 0
    for batch in rows.batches:
        while batch.num_rows:
            some = batch.slice(0, size - count)
            held.append(some)
            count += some.num_rows
            batch = batch.slice(some.num_rows)
            if count == size:
                yield Source(rows.schema, held, whole=True)
                held, count = [], 0
    if count:
        yield Source(rows.schema, held, whole=True)


def summary(state: State, groups: Sequence[tuple[DataFile, ...]], how: Upkeep) -> Compacted:
    merged = [f for g in groups for f in g]
    return Compacted(
        fragments_before=len(state.files),
        fragments_after=len(state.files) - len(merged) + sum(_pieces(g, how) for g in groups),
        rows=sum(f.alive for f in merged),
        bytes=sum(f.size for f in merged),
    )
