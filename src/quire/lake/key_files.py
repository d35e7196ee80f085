"""Keys that lie in data files: whether they are distinct, and which rows of a table have them. Tasks read them all.

Up to `FEW` keys, every task reads them whole and compares them with its part of the table. More are shuffled, by an
engine that can, or taken in rounds, a share of them in each; so no process ever holds all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.conversion import held
from quire.errors import DuplicateKeys
from quire.formats import MatchedRows, Place, task_table, tasks
from quire.formats import keys as keylib
from quire.formats.row_bitmap import Marks, by_fragment, merged, packed, unpacked
from quire.lake import engines

FEW = 1_000_000
"""Up to this many keys are read whole by every task."""
TASK_ROWS = 2_000_000
"""Rows of a table, keys only, that one task looks through."""
EXAMPLES = 20


@dataclass(frozen=True)
class KeyFiles:
    """The keys of one statement, in data files that no manifest names."""

    session: Any | None
    """Whose tasks look for them; None for this process."""
    place: Place
    paths: tuple[str, ...]
    on: tuple[str, ...]
    rows: int
    table: str
    unique: bool
    """Whether the table has at most one row per key."""
    few: int = FEW

    def check_distinct(self) -> None:
        """Refuse keys that occur twice. That none is null was checked when they were written."""
        if self.rows < 2:
            return
        shuffled = self._shuffled()
        twice = self._twice() if shuffled is None else shuffled.twice(self)
        if twice:
            raise keylib.repeated(twice, self.table)

    def seek(self, at: Place, fragments: Sequence[int] | None) -> MatchedRows:
        """Rows of the table at another place that have one of these keys."""
        if self.rows == 0:
            return MatchedRows({}, 0)
        wanted = None if fragments is None else set(fragments)
        sizes = [(n, rows) for n, rows in task_table(at).parts() if wanted is None or n in wanted]
        parts = tasks.grouped(sizes, TASK_ROWS)
        if not parts:
            return MatchedRows({}, 0)
        shuffled = self._shuffled()
        if shuffled is None:
            return self._seek(at, parts)
        found: MatchedRows = shuffled.seek(self, at, parts, sum(rows for _, rows in sizes))
        return found

    def _shuffled(self) -> Any | None:
        """Who shuffles them, if they are many."""
        return engines.shuffles(self.session, "shuffled_keys") if self.rows > self.few else None

    @property
    def _rounds(self) -> int:
        return max(1, -(-self.rows // max(1, self.few)))

    def _twice(self) -> list[dict[str, Any]]:
        try:
            engines.tasks_on(self.session)(self._rounds, _Distinct(self.here(), self._rounds))
        except DuplicateKeys as error:
            return list(error.keys)
        return []

    def _seek(self, at: Place, parts: list[list[int]]) -> MatchedRows:
        work = _Seek(self.here(), self._rounds, at, tuple(map(tuple, parts)))
        answers = engines.tasks_on(self.session)(len(parts) * self._rounds, work)
        found = merged(unpacked(body[: head["rows"]]) for head, body in answers)
        matched = total(found)
        if not self.unique:
            matched = total(merged(unpacked(body[head["rows"] :]) for head, body in answers))
        examples = [row for head, _ in answers for row in head["examples"]]
        return MatchedRows(found, matched, tuple(examples[:EXAMPLES]))

    def here(self) -> KeyFiles:
        """The same as it is sent to tasks."""
        return KeyFiles(None, self.place, self.paths, self.on, self.rows, self.table, self.unique, self.few)


@dataclass(frozen=True)
class _Distinct:
    """Looks for keys that occur twice in one share of them."""

    keys: KeyFiles
    rounds: int

    def __call__(self, number: int) -> engines.Answer:
        keys = self.keys
        some = tasks.all_keys(keys.place, keys.paths, keys.on, number, self.rounds)
        keylib.check_distinct(some, keys.on, keys.table)
        return {}, b""


@dataclass(frozen=True)
class _Seek:
    """Looks for one share of the keys in one part of the table."""

    keys: KeyFiles
    rounds: int
    at: Place
    parts: tuple[tuple[int, ...], ...]

    def __call__(self, number: int) -> engines.Answer:
        part, share = divmod(number, self.rounds)
        on = self.keys.on
        keys = tasks.all_keys(self.keys.place, self.keys.paths, on, share, self.rounds)
        addresses, positions = task_table(self.at).find_keys(self.parts[part], on, keys)
        some = held.rows(keys.take(positions[:EXAMPLES]))
        shown = [{k: keylib.shown(v) for k, v in row.items()} for row in some]
        rows = packed(by_fragment(addresses))
        which = b"" if self.keys.unique else packed({share: Marks.of(positions)})
        return {"examples": shown, "rows": len(rows)}, rows + which


def total(rows: dict[int, Marks]) -> int:
    """How many rows there are in all fragments."""
    return sum(len(marks) for marks in rows.values())
