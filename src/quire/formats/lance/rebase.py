"""Whether staged work can be moved onto a newer version of the table as it is.

A re-commit of the same operation is right only when no fragment it names was changed in a way that matters. Everything
else silently resurrects rows or duplicates keys, so each case is looked at by rows and by keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import keys as keylib
from quire.formats.lance import match
from quire.formats.lance.net import Net
from quire.formats.lance.statements import Keyed, Patch, Sought, Statement, Update
from quire.formats.protocol import Overlap, Place
from quire.ledger import Change, Keys

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import LanceFragment

ROW_OPS = frozenset({"upsert", "update", "delete", "restore", "adopt"})
"""What may remove rows that were there before."""
MOVES_NO_ROW = frozenset({"compact", "index", "rename"})
"""What leaves every row as it is, though perhaps elsewhere."""


class Rebase:
    def __init__(
        self,
        base: LanceDataset,
        head: LanceDataset,
        net: Net,
        statements: Sequence[Statement],
        theirs: Sequence[Change],
        *,
        place: Place | None = None,
        drifted: bool = False,
    ) -> None:
        self.base, self.head, self.net = base, head, net
        self.place = place
        """Where other processes find `head`, when they have to look for keys in it."""
        self.statements, self.theirs = statements, theirs
        self.drifted = drifted
        """Whether the base has rows that were not there when the statements ran."""

    def overlap(self) -> Overlap | None:
        """The first thing that stands against moving, or None."""
        return self._rows() or self._keys()

    # -- rows of the base that I removed ----------------------------------------------------------------------

    def _rows(self) -> Overlap | None:
        if not self.net.deleted:
            return None
        ops = {op for change in self.theirs for op in change.ops}
        only_moved = "compact" in ops and ops <= MOVES_NO_ROW
        soft: Overlap | None = None
        for number, offsets in self.net.deleted.items():
            hard = self.net.hard.get(number)
            if number not in self._kept:
                if hard is not None and not ("compact" in ops and not ops & ROW_OPS):
                    return Overlap("rows", hard=True)
                # Rows found by key are found again wherever upkeep put them. A predicate finds the same rows again only
                # among the same rows.
                again = only_moved and (hard is None or not self.drifted)
                soft = soft or Overlap("moved" if again else "rows")
                continue
            if not self._deletions_differ(number):
                continue
            living = match.alive(self.head, number)
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
            _, _, positions = match.where_key(self.head, statement.on, statement.keys, self._new_fragments)
            if not len(positions):
                continue
            items = tuple(statement.keys.select(list(statement.on)).take(positions).slice(0, 20).to_pylist())
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
