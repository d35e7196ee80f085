"""The net effect of a transaction on a Delta table, and whether it can be moved onto a newer state as it is.

The same rules as for Lance tables (docs/design/002-rebase.md), over data files that are told apart by their paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from quire.formats import Overlap, Place, Seek
from quire.formats import keys as keylib
from quire.formats.delta.find_rows import RowsByFile, union, where_key
from quire.formats.delta.folder import Folder
from quire.formats.delta.log.state import DataFile, State
from quire.formats.row_bitmap import NONE, Marks
from quire.ledger import Change, Keys

if TYPE_CHECKING:
    import pyarrow as pa

MOVES_NO_ROW = frozenset({"compact", "index", "rename"})
"""What leaves every row as it is, though perhaps elsewhere."""


@dataclass
class Added:
    """A new data file, and which of its own rows a later statement removed."""

    file: DataFile
    deleted: Marks = NONE

    @property
    def rows(self) -> int:
        return self.file.rows - len(self.deleted)


@dataclass
class Net:
    deleted: RowsByFile = field(default_factory=dict)
    hard: RowsByFile = field(default_factory=dict)
    """The part of `deleted` that was chosen by a predicate (update, delete) rather than by key."""
    added: list[Added] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.deleted or self.added)

    def copy(self) -> Net:
        return Net(dict(self.deleted), dict(self.hard), [Added(a.file, a.deleted) for a in self.added])

    def add(self, files: Iterable[DataFile], without: Mapping[int, Marks] | None = None) -> None:
        """Add files, without those of their rows that are named by position of the file."""
        for number, file in enumerate(files):
            self.added.append(Added(file, (without or {}).get(number, NONE)))

    def remove(self, rows: Mapping[str, Marks], *, hard: bool) -> None:
        own = {a.file.path: a for a in self.added}
        base = {path: marks for path, marks in rows.items() if path not in own and len(marks)}
        for path, marks in rows.items():
            if path in own:
                own[path].deleted = own[path].deleted | marks
        self.deleted = union(self.deleted, base)
        if hard:
            self.hard = union(self.hard, base)

    @property
    def rows_added(self) -> int:
        return sum(a.rows for a in self.added)

    @property
    def rows_removed(self) -> int:
        return sum(map(len, self.deleted.values()))

    @property
    def bytes_added(self) -> int:
        return sum(a.file.size for a in self.added)

    def on(self, base: State, folder: Folder) -> State:
        """`base` with this effect, not written."""
        if not self:
            return base
        files = list(base.files)
        if self.deleted:
            files = [_less(folder, f, self.deleted[f.path]) if f.path in self.deleted else f for f in files]
        return base.change(files=(*files, *(a.file.with_deleted(a.deleted) for a in self.added)))


def _less(folder: Folder, file: DataFile, rows: Marks) -> DataFile:
    return file.with_deleted(folder.marks(file) | rows)


def difference(folder: Folder, before: State, after: State) -> Net:
    """The net effect that leads from one state to another."""
    net = Net()
    for file in before.files:
        gone = lost(folder, file, after)
        if gone.alive:
            marks = Marks.of(folder.living(gone))
            net.deleted[file.path], net.hard[file.path] = marks, marks
    for file in after.files:
        if file.path not in before.by_path:
            net.added.append(Added(file, folder.marks(file)))
    return net


def lost(folder: Folder, file: DataFile, other: State) -> DataFile:
    """A file without the rows that another state has too."""
    there = other.by_path.get(file.path)
    if there is None:
        return file
    if there.vector == file.vector and there.deleted is None and file.deleted is None:
        return file.with_deleted(Marks.of(np.arange(file.rows, dtype=np.uint32)))
    return file.with_deleted(folder.marks(file) | Marks.of(folder.living(there)))


@dataclass
class Wrote:
    """Keys that a statement wrote. With `strict` a rival's row of the same key is a conflict, never a replay."""

    on: tuple[str, ...]
    keys: pa.Table | None
    """None where they lie in files, and `seek` looks for their rows."""
    strict: bool
    seek: Seek | None = None


@dataclass
class Rebase:
    folder: Folder
    base: State
    head: State
    net: Net
    wrote: Sequence[Wrote]
    theirs: Sequence[Change]
    place: Place | None = None
    """The new state as other processes open it, if a statement looks for keys there."""
    moved: Net | None = None
    """The net effect by the rows' new places, once `overlap` has found that they were moved and nothing else."""

    def overlap(self) -> Overlap | None:
        """The first thing that prevents moving, or None."""
        if MOVES_NO_ROW.issuperset(op for change in self.theirs for op in change.ops):
            return self._follow()
        return self._rows() or self._keys()

    def _follow(self) -> Overlap | None:
        """Where every row is as it was, those that I removed are found again wherever they were put.

        A compaction copies living rows in order, so the n-th of all that went is the n-th of all that came.
        """
        moved = [path for path in self.net.deleted if path not in self.head.by_path]
        if not moved:
            return None
        went = [f for f in self.base.files if f.path not in self.head.by_path]
        came = [f for f in self.head.files if f.path not in self.base.by_path]
        once = sum("compact" in change.ops for change in self.theirs) == 1
        if not once or sum(f.alive for f in went) != sum(f.alive for f in came):
            return Overlap("rows", hard=any(path in self.net.hard for path in moved))
        way = _Way(self.folder, went, came)
        if any(not way.knows(path, self.net.deleted[path]) for path in moved):
            return Overlap("rows", hard=any(path in self.net.hard for path in moved))
        self.moved = Net(way.of(self.net.deleted), way.of(self.net.hard), self.net.added)
        return None

    def _rows(self) -> Overlap | None:
        soft: Overlap | None = None
        for path, rows in self.net.deleted.items():
            hard = self.net.hard.get(path)
            there = self.head.by_path.get(path)
            if there is None:
                if hard is not None:
                    return Overlap("rows", hard=True)  # the rows are not told apart any more
                soft = Overlap("rows")
                continue
            if there.vector == self.base.by_path[path].vector:
                continue
            gone = self.folder.marks(there)
            if hard is not None and _meet(hard, gone):
                return Overlap("rows", hard=True)
            if _meet(rows, gone):
                soft = Overlap("rows")
        return soft

    def _keys(self) -> Overlap | None:
        soft: Overlap | None = None
        new = [f for f in self.head.files if f.path not in self.base.by_path]
        for mine in self.wrote:
            if mine.keys is None:
                found = self._sought(mine)
                if found is not None and found.hard:
                    return found
                soft = found or soft
                continue
            if self._records_prove_disjoint(mine.on, mine.keys):
                continue
            met = where_key(self.folder, self.head, mine.on, mine.keys, new)
            if not len(met):
                continue
            items = tuple(mine.keys.select(list(mine.on)).take(met.positions).slice(0, 20).to_pylist())
            if mine.strict:
                return Overlap("keys", items, hard=True)
            soft = Overlap("keys", items)
        return soft

    def _sought(self, mine: Wrote) -> Overlap | None:
        new = [n for n, f in enumerate(self.head.files) if f.path not in self.base.by_path]
        if mine.seek is None or not new:
            return None
        assert self.place is not None
        found = mine.seek(self.place, new)
        return Overlap("keys", found.examples, hard=mine.strict) if len(found.addresses) else None

    def _records_prove_disjoint(self, on: Sequence[str], keys: pa.Table) -> bool:
        """Whether the rivals' records list all their keys, and none has a hash in common with mine."""
        theirs: list[Keys] = []
        for change in self.theirs:
            if not set(change.ops) <= {"insert", "upsert", "delete", *MOVES_NO_ROW}:
                return False
            if {"insert", "upsert"} & set(change.ops) and not change.keys:
                return False
            theirs.extend(change.keys)
        return keylib.disjoint(keylib.summarise(on, keys), theirs) is True


def _meet(one: Marks, other: Marks) -> bool:
    return bool(len(np.intersect1d(np.asarray(one), np.asarray(other))))


class _Way:
    """Where a compaction put each living row of some files: the n-th row of all of them is the n-th of the new ones."""

    def __init__(self, folder: Folder, went: Sequence[DataFile], came: Sequence[DataFile]) -> None:
        self._old = {f.path: folder.living(f) for f in went}
        starts = np.cumsum([0, *(len(rows) for rows in self._old.values())])
        self._starts = dict(zip(self._old, starts[:-1].tolist(), strict=True))
        self._new = [(f.path, folder.living(f)) for f in came]
        self._ends = np.cumsum([len(rows) for _, rows in self._new])

    def knows(self, path: str, rows: Marks) -> bool:
        return path in self._old and bool(np.isin(np.asarray(rows), self._old[path]).all())

    def of(self, rows: Mapping[str, Marks]) -> RowsByFile:
        found: RowsByFile = {}
        for path, marks in rows.items():
            if path not in self._old:
                found = union(found, {path: marks})
                continue
            places = self._starts[path] + np.searchsorted(self._old[path], np.asarray(marks))
            for number in np.unique(np.searchsorted(self._ends, places, side="right")).tolist():
                name, offsets = self._new[number]
                first = self._ends[number] - len(offsets)
                mine = places[(places >= first) & (places < self._ends[number])] - first
                found = union(found, {name: Marks.of(offsets[mine])})
        return found
