"""A judge that lets tasks of an engine look at rows: at all of them together in one task, at each by itself in many.

Up to a million rows that came and went are looked at by one task, with the code that does it in one process and through
the indexes that are there. More are joined by an engine that shuffles. Either way the driver hears what is wrong, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.formats import Place, task_table
from quire.formats.tasks import grouped
from quire.graph.catalog import Entity
from quire.graph.integrity.distributed import Sent, Type
from quire.graph.integrity.row_rules import check_rows
from quire.graph.integrity.violations import Violation, Violations
from quire.lake import engines
from quire.lake.key_files import TASK_ROWS


@dataclass(frozen=True)
class TaskJudge:
    """Judges a transaction whose rows tasks have written, whenever it is asked."""

    session: Any | None
    few: int

    def __call__(self, sent: Sent, found: Violations) -> None:
        shuffled = engines.shuffles(self.session, "shuffled_rules") if sent.rows > self.few else None
        if shuffled is not None:
            shuffled.ask_all(self.session, sent, found)
            return
        self._hear(1, _Together(sent, max(1, found.room)), found)

    def alone(self, type: Type, columns: Sequence[str], found: Violations) -> None:
        """Rows that came, each by itself: every task looks at some of the fragments."""
        groups = grouped(type.came, TASK_ROWS)
        self._hear(len(groups), _Alone(type.now, type.entity, tuple(columns), groups, max(1, found.room)), found)

    def _hear(self, count: int, work: _Together | _Alone, found: Violations) -> None:
        for head, _ in engines.tasks_on(self.session)(count, work):
            found.add([Violation(**v) for v in head["violations"]], head["count"])


@dataclass(frozen=True)
class _Together:
    sent: Sent
    room: int

    def __call__(self, _: int) -> engines.Answer:
        return _answer(self.sent.check(self.room))


@dataclass(frozen=True)
class _Alone:
    now: Place
    entity: Entity
    names: tuple[str, ...]
    groups: list[list[int]]
    room: int

    def __call__(self, number: int) -> engines.Answer:
        told = Violations(self.room)
        for batch in task_table(self.now).read_rows(self.groups[number], list(self.names), None):
            check_rows(self.entity, batch, told)
        return _answer(told)


def _answer(told: Violations) -> engines.Answer:
    return {"violations": [v.to_dict() for v in told.violations], "count": told.count}, b""
