"""What one side did to its tables since the base, as far as its log can say it."""

from __future__ import annotations

from collections.abc import Sequence

from quire.errors import SnapshotExpired
from quire.formats.keys import hashes_of
from quire.lake.commit.conflicts import KINDS
from quire.lake.merge.heads import Tip
from quire.ledger import Change, Pin, Point
from quire.ledger.version_vector import Vector, contains

KEYED_ONLY = frozenset({"insert", "upsert"})
"""What touches rows by the keys that its record lists, and no others."""
MOVES_NO_ROW = frozenset({"index", "rename"})


class ChangesSince:
    """The changes that one side made since the base, or the earliest of several, newest first.

    `known` has the version vectors of the bases, so the base may lie in any log. All bases lie after slot `after`.
    """

    def __init__(self, tip: Tip, known: Sequence[Vector], *, descends: bool, after: int = -1) -> None:
        self._by_table: dict[str, list[Change]] = {}
        self._points: dict[str, list[Point]] = {}
        self._tip = tip
        self._below: Point | None = None
        """The commit of the log that all bases descend from, or are."""
        self.complete = False
        """Whether this is everything that lies between. It is not where cleanup was below the head, or where the log
        does not lead there from the base: what was merged from another log may have been decided otherwise."""
        walk = tip.history.commits(tip.state, after=after, recent=True)
        while True:
            try:
                point, commit = next(walk)
            except StopIteration as end:
                if descends and end.value:
                    self.complete = True  # to the base, and nothing of it was cleaned up
                break
            if all(contains(vector, point) for vector in known):
                self.complete, self._below = True, point
                break
            for change in commit.changes:
                self._by_table.setdefault(change.table, []).append(change)
                self._points.setdefault(change.table, []).append(point)
            self.complete = point.slot == 0
        self.reached = self.complete
        """Whether it leads back to what the bases have, on whatever way they came here."""
        self.complete = self.complete and descends

    def steps(self, table: str) -> list[tuple[Point, Change]]:
        """What was done to a table, newest first, and by which commits."""
        return list(zip(self._points.get(table, ()), self._by_table.get(table, ()), strict=True))

    def ops(self, table: str) -> set[str]:
        """Everything that was done to a table."""
        return {op for change in self._by_table.get(table, ()) for op in change.ops}

    def written_keys(self, table: str, key: Sequence[str]) -> set[bytes] | None:
        """Hashes of the keys of all rows that were written and removed, if the log tells all of them."""
        found: set[bytes] = set()
        for change in self._by_table.get(table, ()) if self.complete else ():
            ops = set(change.ops)
            if ops <= MOVES_NO_ROW:
                continue
            listed = [hashes_of(keys) if keys.columns == tuple(key) else None for keys in change.keys]
            if not ops <= KEYED_ONLY | MOVES_NO_ROW or not listed:
                return None
            for some in listed:
                if some is None:
                    return None
                found |= some
        return found if self.complete else None

    def tended_from(self, table: str) -> set[tuple[str, str]]:
        """States that the table has been in with the rows that it has now: before it was compacted and indexed."""
        found = set()
        for change in self._by_table.get(table, ()):
            if change.pin is not None:
                found.add((change.pin.location, change.pin.version))
                if not all(KINDS[op] == "upkeep" for op in change.ops):
                    break
        return found

    def only_upkeep(self, table: str, base: Pin) -> bool:
        """Whether the table holds what it held at the base, in other files or with other indexes.

        A commit that took the state of the base over, such as a fast-forward, is as far as it looks.
        """
        found = self._by_table.get(table, [])
        for change in found:
            if change.pin is None:
                continue  # a new name, which is looked at apart
            if (change.pin.location, change.pin.version) == (base.location, base.version):
                return True
            if not all(KINDS[op] == "upkeep" for op in change.ops):
                return False
        if not found or not self.reached:
            return False
        return self.complete or self._began_with(table, base)

    def _began_with(self, table: str, base: Pin) -> bool:
        """Whether the log had the state of the base where the walk along it ended."""
        if self._below is None:
            return False
        try:
            then = self._tip.history.at(self._below).tables.get(table)
        except SnapshotExpired:
            return False
        return then is not None and (then.pin.location, then.pin.version) == (base.location, base.version)
