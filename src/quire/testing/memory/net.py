"""The net effect of a transaction, and whether it can be moved onto a newer state as it is.

The same rules as for Lance tables (docs/design/002-rebase.md), over fragments that are told apart by their files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import MatchedRows, Overlap, Seek
from quire.formats import keys as keylib
from quire.formats.row_bitmap import by_fragment
from quire.ledger import Change, Keys
from quire.testing.memory.files import Folder, Fragment, Version

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

Address = tuple[str, int]
"""Fragment and offset: where a row lies for as long as its file is there."""

MOVES_NO_ROW = frozenset({"compact", "index", "rename"})
"""What leaves every row as it is, though perhaps elsewhere."""


@dataclass
class Added:
    """A new fragment, and which of its own rows a later statement removed."""

    fragment: Fragment
    deleted: set[int] = field(default_factory=set)

    @property
    def rows(self) -> int:
        return self.fragment.rows - len(self.deleted)


@dataclass
class Net:
    deleted: dict[str, set[int]] = field(default_factory=dict)
    hard: dict[str, set[int]] = field(default_factory=dict)
    """The part of `deleted` that was chosen by a predicate (update, delete) rather than by key."""
    added: list[Added] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.deleted or self.added)

    def copy(self) -> Net:
        return Net(
            {k: set(v) for k, v in self.deleted.items()},
            {k: set(v) for k, v in self.hard.items()},
            [Added(a.fragment, set(a.deleted)) for a in self.added],
        )

    def add(self, fragment: Fragment | None, without: Iterable[int] = ()) -> None:
        """Add a fragment, without those of its rows that are named by position."""
        if fragment is not None:
            self.added.append(Added(fragment, {int(offset) for offset in without}))

    def remove(self, addresses: Iterable[Address], *, hard: bool) -> None:
        own = {a.fragment.key: a for a in self.added}
        for key, offset in addresses:
            if key in own:
                own[key].deleted.add(offset)
                continue
            self.deleted.setdefault(key, set()).add(offset)
            if hard:
                self.hard.setdefault(key, set()).add(offset)

    @property
    def rows_added(self) -> int:
        return sum(a.rows for a in self.added)

    @property
    def rows_removed(self) -> int:
        return sum(len(offsets) for offsets in self.deleted.values())

    @property
    def bytes_added(self) -> int:
        return sum(a.fragment.bytes for a in self.added)

    def on(self, base: Version) -> Version:
        """`base` with this effect, not written."""
        if not self:
            return base
        kept = [f.without(self.deleted[f.key]) if f.key in self.deleted else f for f in base.fragments]
        return base.change(fragments=(*kept, *(a.fragment.without(a.deleted) for a in self.added)))


def difference(before: Version, after: Version) -> Net:
    """The net effect that leads from one state to another."""
    net = Net()
    for fragment in before.fragments:
        there = same(fragment, after)
        gone = set(fragment.living()) - (set(there.living()) if there else set())
        if gone:
            net.deleted[fragment.key], net.hard[fragment.key] = set(gone), set(gone)
    for fragment in after.fragments:
        if same(fragment, before) is None:
            net.added.append(Added(fragment.__class__(fragment.files, fragment.rows), set(fragment.deleted)))
    return net


def same(fragment: Fragment, state: Version) -> Fragment | None:
    """The fragment of a state that holds the same data files."""
    found = state.by_key.get(fragment.key)
    return found if found is not None and found.paths == fragment.paths else None


def lost(fragment: Fragment, other: Version) -> Fragment:
    """A fragment without the rows that another state has too. One that only got columns is the same."""
    there = other.by_key.get(fragment.key)
    if there is None or not _nested(fragment, there):
        return fragment
    return fragment.without(there.living())


def _nested(a: Fragment, b: Fragment) -> bool:
    first, second = set(a.paths), set(b.paths)
    return first <= second or second <= first


def numbered(state: Version, addresses: Sequence[Address]) -> NDArray[np.uint64]:
    """Addresses as other processes tell them: the fragment's number in the high half, the row's in the low."""
    number = {fragment.key: n for n, fragment in enumerate(state.fragments)}
    return np.array([(number[key] << 32) | offset for key, offset in addresses], np.uint64)


def unnumbered(state: Version, found: MatchedRows) -> list[Address]:
    """The same, the other way round."""
    rows = by_fragment(found.addresses)
    return [(state.fragments[n].key, offset) for n, marks in rows.items() for offset in marks.tolist()]


@dataclass
class Located:
    """Living rows: where they lie, and some of their columns."""

    addresses: list[Address]
    columns: dict[str, list[Any]]

    @property
    def rows(self) -> int:
        return len(self.addresses)

    def tuples(self, names: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        return zip(*(self.columns[n] for n in names), strict=True)


def locate(
    folder: Folder, state: Version, names: Sequence[str], fragments: Sequence[Fragment] | None = None, table: str = ""
) -> Located:
    """The living rows of a state, or of some of its fragments, with these columns."""
    chosen = state.fragments if fragments is None else fragments
    numbers = [state.number(n) for n in names]
    found = Located([], {n: [] for n in names})
    for fragment, columns in zip(chosen, folder.columns(chosen, numbers, table), strict=True):
        key, living = fragment.key, fragment.living()
        found.addresses.extend([(key, offset) for offset in living])
        for name, number in zip(names, numbers, strict=True):
            values = columns[number]
            found.columns[name].extend(values if not fragment.deleted else [values[i] for i in living])
    return found


def where_key(
    folder: Folder,
    state: Version,
    on: Sequence[str],
    keys: pa.Table,
    fragments: Sequence[Fragment] | None = None,
    table: str = "",
) -> tuple[list[Address], list[int]]:
    """Rows whose key is in `keys`: addresses, and for each row the position of its key. A null equals nothing."""
    if keys.num_rows == 0 or (fragments is not None and not fragments):
        return [], []
    columns = [keys.column(n).to_pylist() for n in on]
    wanted: dict[tuple[Any, ...], list[int]] = {}
    for position, values in enumerate(zip(*columns, strict=True)):
        if None not in values:
            wanted.setdefault(values, []).append(position)
    found = locate(folder, state, on, fragments, table)
    addresses: list[Address] = []
    positions: list[int] = []
    for address, values in zip(found.addresses, found.tuples(on), strict=True):
        for position in wanted.get(values, ()):
            addresses.append(address)
            positions.append(position)
    return addresses, positions


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
    base: Version
    head: Version
    net: Net
    wrote: Sequence[Wrote]
    theirs: Sequence[Change]
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
        lost = [key for key in self.net.deleted if self._kept(key) is None]
        if not lost:
            return None
        gone = [(f.key, i) for f in self.base.fragments if self._kept(f.key) is None for i in f.living()]
        came = [(f.key, i) for f in self.head.fragments if same(f, self.base) is None for i in f.living()]
        now = dict(zip(gone, came, strict=False))
        mine = {(key, i) for key in lost for i in self.net.deleted[key]}
        once = sum("compact" in change.ops for change in self.theirs) == 1
        if not once or len(gone) != len(came) or not mine <= now.keys():
            return Overlap("rows", hard=any(key in self.net.hard for key in lost))
        self.moved = Net(self._moved(self.net.deleted, now), self._moved(self.net.hard, now), self.net.added)
        return None

    def _moved(self, rows: dict[str, set[int]], now: dict[Address, Address]) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for key, offsets in rows.items():
            for offset in offsets:
                address = (key, offset) if self._kept(key) is not None else now[key, offset]
                found.setdefault(address[0], set()).add(address[1])
        return found

    def _rows(self) -> Overlap | None:
        soft: Overlap | None = None
        for key, offsets in self.net.deleted.items():
            hard = self.net.hard.get(key)
            there = self._kept(key)
            if there is None:
                if hard is not None:
                    return Overlap("rows", hard=True)  # the rows are not told apart any more
                soft = Overlap("rows")
                continue
            gone = set(there.deleted)
            if hard is not None and hard & gone:
                return Overlap("rows", hard=True)
            if offsets & gone:
                soft = Overlap("rows")
        return soft

    def _kept(self, key: str) -> Fragment | None:
        """The fragment in the new state, if it still holds the same data files."""
        old = self.base.by_key.get(key)
        return same(old, self.head) if old is not None else None

    def _keys(self) -> Overlap | None:
        soft: Overlap | None = None
        new = [f for f in self.head.fragments if same(f, self.base) is None]
        for mine in self.wrote:
            if mine.keys is None:
                found = self._sought(mine)
                if found is not None and found.hard:
                    return found
                soft = found or soft
                continue
            if self._records_prove_disjoint(mine.on, mine.keys):
                continue
            _, positions = where_key(self.folder, self.head, mine.on, mine.keys, new)
            if not positions:
                continue
            items = tuple(mine.keys.select(list(mine.on)).take(positions).slice(0, 20).to_pylist())
            if mine.strict:
                return Overlap("keys", items, hard=True)
            soft = Overlap("keys", items)
        return soft

    def _sought(self, mine: Wrote) -> Overlap | None:
        new = [n for n, f in enumerate(self.head.fragments) if same(f, self.base) is None]
        if mine.seek is None or not new:
            return None
        found = mine.seek(self.folder.at(self.head, {}), new)
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
