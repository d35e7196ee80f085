"""Whether staged work can be moved onto a newer version of the table as it is.

A re-commit of the same operation is right only when no fragment it names was changed in a way that matters. Everything
else silently resurrects rows or duplicates keys, so each case is looked at by rows and by keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.conversion import held
from quire.formats import Overlap, Place
from quire.formats import keys as keylib
from quire.formats.lance.compaction.moved_rows import Moved
from quire.formats.lance.staging import find_rows
from quire.formats.lance.staging.net_change import Net
from quire.formats.lance.staging.statements import Keyed, Patch, Sought, StagedStatement, Update
from quire.formats.row_bitmap import Marks
from quire.ledger import Change, Keys

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import LanceFragment

MOVES_NO_ROW = frozenset({"compact", "index", "rename"})
"""What leaves every row as it is, though perhaps elsewhere."""


class Rebase:
    def __init__(
        self,
        base: LanceDataset,
        head: LanceDataset,
        net: Net,
        statements: Sequence[StagedStatement],
        theirs: Sequence[Change],
        *,
        place: Place | None = None,
    ) -> None:
        self.base, self.head, self.net = base, head, net
        self.place = place
        """Where other processes find `head`, when they have to look for keys in it."""
        self.statements, self.theirs = statements, theirs
        self.moved: Net | None = None
        """The net effect by the rows' new places, once `overlap` has found that they were moved and nothing else."""

    def overlap(self) -> Overlap | None:
        """The first thing that stands against moving, or None."""
        if MOVES_NO_ROW.issuperset(op for change in self.theirs for op in change.ops):
            return self._follow()
        return self._rows() or self._keys()

    # -- rows that were put elsewhere -------------------------------------------------------------------------

    def _follow(self) -> Overlap | None:
        """Where every row is as it was, those that I removed are found again wherever they were put."""
        lost = [number for number in self.net.deleted if number not in self._kept]
        if not lost:
            return None
        if sum("compact" in change.ops for change in self.theirs) == 1:
            gone = [f for f in self.base.get_fragments() if int(f.fragment_id) not in self._kept]
            way = Moved(self.base, gone, self.head, self._new_fragments)
            deleted, hard = self._moved(way, self.net.deleted), self._moved(way, self.net.hard)
            if deleted is not None and hard is not None:
                self.moved = Net(deleted, hard, self.net.added)
                return None
        return Overlap("rows", hard=any(number in self.net.hard for number in lost))

    def _moved(self, way: Moved, rows: dict[int, Marks]) -> dict[int, Marks] | None:
        stayed = {n: marks for n, marks in rows.items() if n in self._kept}
        went = way.follow({n: m for n, m in rows.items() if n not in self._kept}) if way.known else None
        return None if went is None else {**stayed, **went}

    # -- rows of the base that I removed ----------------------------------------------------------------------

    def _rows(self) -> Overlap | None:
        if not self.net.deleted:
            return None
        soft: Overlap | None = None
        for number, offsets in self.net.deleted.items():
            hard = self.net.hard.get(number)
            if number not in self._kept:
                if hard is not None:
                    return Overlap("rows", hard=True)  # the rows are not told apart any more
                soft = Overlap("rows")
                continue
            if not self._deletions_differ(number):
                continue
            living = find_rows.alive(self.head, number)
            if hard is not None and not np.isin(hard, living).all():
                return Overlap("rows", hard=True)
            if not np.isin(offsets, living).all():
                soft = Overlap("rows")
        return soft

    @cached_property
    def _kept(self) -> dict[int, tuple[LanceFragment, LanceFragment]]:
        """Fragments that still hold the same data files."""
        old = {int(f.fragment_id): f for f in self.base.get_fragments()}
        return {
            number: (old[number], f)
            for f in self.head.get_fragments()
            if (number := int(f.fragment_id)) in old and files(f) == files(old[number])
        }

    def _deletions_differ(self, number: int) -> bool:
        before, after = self._kept[number]
        return bool(before.metadata.to_json()["deletion_file"] != after.metadata.to_json()["deletion_file"])

    # -- keys that a rival wrote ------------------------------------------------------------------------------

    def _keys(self) -> Overlap | None:
        soft: Overlap | None = None
        for statement in self.statements:
            if isinstance(statement, Sought):
                found = self._sought(statement)
                if found is not None and found.hard:
                    return found
                soft = found or soft
                continue
            if not isinstance(statement, Keyed | Patch | Update) or not statement.on or statement.keys is None:
                continue
            if self._records_prove_disjoint(statement.on, statement.keys):
                continue
            _, _, positions = find_rows.where_key(self.head, statement.on, statement.keys, self._new_fragments)
            if not len(positions):
                continue
            items = tuple(held.rows(statement.keys.select(list(statement.on)).take(positions).slice(0, 20)))
            strict = isinstance(statement, Update) or (isinstance(statement, Keyed) and statement.mode == "insert")
            if strict:
                return Overlap("keys", items, hard=True)
            soft = Overlap("keys", items)
        return soft

    def _sought(self, statement: Sought) -> Overlap | None:
        """Keys that lie in files are looked for among the rivals' new rows. A delete by key came before those."""
        if statement.mode == "delete" or not self._new_fragments:
            return None
        assert self.place is not None
        found = statement.seek(self.place, [int(f.fragment_id) for f in self._new_fragments])
        if not len(found.addresses):
            return None
        return Overlap("keys", found.examples, hard=statement.mode == "insert")

    def _records_prove_disjoint(self, on: Sequence[str], keys: Any) -> bool:
        """Whether the rivals' records list all their keys, and none has a hash in common with mine."""
        theirs: list[Keys] = []
        for change in self.theirs:
            if not set(change.ops) <= {"insert", "upsert", "delete", *MOVES_NO_ROW}:
                return False
            if {"insert", "upsert"} & set(change.ops) and not change.keys:
                return False
            theirs.extend(change.keys)
        return keylib.disjoint(keylib.summarise(on, keys), theirs) is True

    @cached_property
    def _new_fragments(self) -> list[LanceFragment]:
        return [f for f in self.head.get_fragments() if int(f.fragment_id) not in self._kept]


def files(fragment: LanceFragment) -> tuple[str, ...]:
    return tuple(str(f.path) for f in fragment.metadata.files)
