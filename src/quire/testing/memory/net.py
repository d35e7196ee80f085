"""The net effect of a transaction, and whether it can be moved onto a newer state as it is.

The same rules as for Lance tables (docs/design/002-rebase.md), over fragments that are told apart by their files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.formats import Overlap
from quire.formats import keys as keylib
from quire.ledger import Change, Keys
from quire.testing.memory.files import Fragment, Place, Version

if TYPE_CHECKING:
    import pyarrow as pa

Address = tuple[str, int]
"""Fragment and offset: where a row lies for as long as its file is there."""

ROW_OPS = frozenset({"upsert", "update", "delete", "restore", "adopt"})
"""What may remove rows that were there before."""
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

    def add(self, fragment: Fragment | None) -> None:
        if fragment is not None:
            self.added.append(Added(fragment))

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
    place: Place, state: Version, names: Sequence[str], fragments: Sequence[Fragment] | None = None, table: str = ""
) -> Located:
    """The living rows of a state, or of some of its fragments, with these columns."""
    chosen = state.fragments if fragments is None else fragments
    numbers = [state.number(n) for n in names]
    found = Located([], {n: [] for n in names})
    for fragment, columns in zip(chosen, place.columns(chosen, numbers, table), strict=True):
        key, living = fragment.key, fragment.living()
        found.addresses.extend([(key, offset) for offset in living])
        for name, number in zip(names, numbers, strict=True):
            values = columns[number]
            found.columns[name].extend(values if not fragment.deleted else [values[i] for i in living])
    return found


def where_key(
    place: Place,
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
    found = locate(place, state, on, fragments, table)
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
    keys: pa.Table
    strict: bool


@dataclass
class Rebase:
    place: Place
    base: Version
    head: Version
    net: Net
    wrote: Sequence[Wrote]
    theirs: Sequence[Change]
    drifted: bool = False
    """Whether the base has rows that were not there when the statements ran."""

    def overlap(self) -> Overlap | None:
        """The first thing that stands against moving, or None."""
        return self._rows() or self._keys()

    def _rows(self) -> Overlap | None:
        ops = {op for change in self.theirs for op in change.ops}
        only_moved = "compact" in ops and ops <= MOVES_NO_ROW
        soft: Overlap | None = None
        for key, offsets in self.net.deleted.items():
            hard = self.net.hard.get(key)
            there = self._kept(key)
            if there is None:
                if hard is not None and not ("compact" in ops and not ops & ROW_OPS):
                    return Overlap("rows", hard=True)
                # Rows found by key are found again wherever upkeep put them. A predicate finds the same rows again only
                # among the same rows.
                again = only_moved and (hard is None or not self.drifted)
                soft = soft or Overlap("moved" if again else "rows")
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
            if self._records_prove_disjoint(mine):
                continue
            _, positions = where_key(self.place, self.head, mine.on, mine.keys, new)
            if not positions:
                continue
            items = tuple(mine.keys.select(list(mine.on)).take(positions).slice(0, 20).to_pylist())
            if mine.strict:
                return Overlap("keys", items, hard=True)
            soft = Overlap("keys", items)
        return soft

    def _records_prove_disjoint(self, mine: Wrote) -> bool:
        """Whether the rivals' records list all their keys, and none has a hash in common with mine."""
        theirs: list[Keys] = []
        for change in self.theirs:
            if not set(change.ops) <= {"insert", "upsert", "delete", *MOVES_NO_ROW}:
                return False
            if {"insert", "upsert"} & set(change.ops) and not change.keys:
                return False
            theirs.extend(change.keys)
        return keylib.disjoint(keylib.summarise(mine.on, mine.keys), theirs) is True
