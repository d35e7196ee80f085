"""The upkeep of one table in one transaction: rows are moved together and indexes extended; no row changes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

from quire.errors import InvalidInput
from quire.formats import Compacted, Split, Upkeep
from quire.formats.lance.compaction import plan
from quire.formats.lance.compaction.plan import Plan
from quire.formats.lance.indexes import extend
from quire.formats.lance.indexes.extend import Segment
from quire.formats.lance.session import translating
from quire.formats.lance.staging.rebase import files
from quire.formats.lance.staging.stager import Stager
from quire.progress import Count, Progress, silent
from quire.store import run_parallel

if TYPE_CHECKING:
    from lance import LanceDataset

    from quire.formats.lance.staging.draft import Draft

T = TypeVar("T")

WORKERS = max(1, min(4, os.cpu_count() or 1))
"""Tasks that run at once. Lance uses all cores within each, so this bounds memory more than it adds speed."""


class LanceUpkeep:
    """Upkeep of one draft, done here or in parts by other processes."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def compact(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> Compacted:
        draft = self._draft
        draft.check_no_rows_changed()
        draft.check_no_upkeep()
        found = draft.upkeep.compact(draft.base, how, mode, progress)
        draft.touch()
        return found

    def extend_indexes(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> list[str]:
        draft = self._draft
        draft.check_no_rows_changed()
        leave = draft.indexes.names
        if mode == "plan":
            return draft.upkeep.would_extend(draft.base, how, leave)
        draft.staged = None
        return draft.upkeep.extend(draft.current()[0], leave, progress)

    def compacting(self, how: Upkeep) -> Split[Compacted]:
        draft = self._draft
        draft.check_no_rows_changed()
        draft.check_no_upkeep()
        found = draft.upkeep.compacting(draft.base, how)

        def take(answers: Sequence[bytes]) -> Compacted:
            draft.touch()
            return found.take(answers)

        return Split(found.parts, take)

    def extending(self) -> Split[list[str]]:
        draft = self._draft
        draft.check_no_rows_changed()
        draft.staged = None
        return draft.upkeep.extending(draft.current()[0], draft.indexes.names)


class Tidying:
    """What was written for a compaction and an extension of indexes, and how it is staged on a base."""

    def __init__(self, stager: Stager, table: str) -> None:
        self.stager, self.table = stager, table
        self.rewriting: plan.Rewriting | None = None
        self.segments: list[extend.Segment] = []

    def __bool__(self) -> bool:
        return bool(self.rewriting or self.segments)

    @property
    def growth(self) -> int:
        return self.rewriting.growth if self.rewriting else 0

    def compact(
        self, base: LanceDataset, how: Upkeep, mode: Literal["do", "plan"], progress: Progress | None
    ) -> Compacted:
        found = _planned(base, how)
        if mode == "plan" or not found.bins:
            return found.compacted
        calls = [lambda task=task: self._run(base, task) for task in found.tasks(base, how)]
        return self._taken(base, found, side_by_side("compact", calls, progress))

    def compacting(self, base: LanceDataset, how: Upkeep) -> Split[Compacted]:
        """The same for others to do; the results are taken by this one."""
        found = _planned(base, how)
        if not found.bins:
            return Split((), lambda answers: found.compacted)
        place = self.stager.session.place(base)
        parts = [plan.Compaction(place, task, self.table) for task in found.tasks(base, how)]
        return Split(parts, lambda answers: self._taken(base, found, [answer.decode() for answer in answers]))

    def _taken(self, base: LanceDataset, found: Plan, results: Sequence[str]) -> Compacted:
        made = self.take(base, results)
        after = found.compacted.fragments_before - sum(map(len, found.bins)) + made
        return replace(found.compacted, fragments_after=after)

    def _run(self, base: LanceDataset, task: str) -> str:
        with translating(f"compaction of {self.table}"):
            return plan.run(base, task)

    def take(self, base: LanceDataset, results: Sequence[str]) -> int:
        """Take what the tasks of a plan wrote, wherever they ran; the number of new fragments."""
        self.rewriting = plan.Rewriting(base, results)
        self.stager.files.extend(self.rewriting.files)
        return sum(len(g.new) for g in self.rewriting.groups)

    def would_extend(self, base: LanceDataset, how: Upkeep, leave: Collection[str]) -> list[str]:
        """Names of the indexes that would be extended after a compaction."""
        rows = _rows_of(base)
        for i, bin in enumerate(plan.plan(base, how).bins):
            rows[-1 - i] = sum(rows.pop(int(f.id)) for f in bin)
        return [e.spec.name for e in extend.plan(base, rows, leave)]

    def extend(self, handle: LanceDataset, leave: Collection[str], progress: Progress | None) -> list[str]:
        """Build what the indexes lack on `handle`, which is the base with the compaction so far."""
        wanted = extend.plan(handle, _rows_of(handle), leave)
        calls = [lambda e=e: extend.carry_out(self.stager, handle, e, self.table) for e in wanted]
        return self._extended(side_by_side("index", calls, progress))

    def extending(self, handle: LanceDataset, leave: Collection[str]) -> Split[list[str]]:
        """The same for others to do; each builds one segment."""
        wanted = extend.plan(handle, _rows_of(handle), leave)
        if not wanted:
            return Split((), lambda answers: [])
        place = self.stager.session.place(handle)
        parts = [extend.part(place, handle, e, self.table) for e in wanted]

        def take(answers: Sequence[bytes]) -> list[str]:
            pairs = zip(wanted, answers, strict=True)
            return self._extended([extend.taken(self.stager, handle, e, answer) for e, answer in pairs])

        return Split(parts, take)

    def _extended(self, segments: Sequence[Segment | None]) -> list[str]:
        self.segments = [s for s in segments if s is not None]
        return [s.name for s in self.segments]

    # -- staging ----------------------------------------------------------------------------------------------

    def rows(self, base: LanceDataset) -> LanceDataset:
        return self.rewriting.apply(self.stager, base) if self.rewriting else base

    def indexes(self, handle: LanceDataset, leave: Collection[str]) -> LanceDataset:
        return extend.apply(self.stager, handle, [s for s in self.segments if s.name not in leave])

    def move(self, head: LanceDataset) -> None:
        """Keep what fits a newer base. Nothing is built here: what is dropped is left for the next time."""
        if not self:
            return
        if self.rewriting:
            self.rewriting.move(head)
            fragments = self.rewriting.fragments(head)
        else:
            fragments = {int(f.fragment_id): files(f) for f in head.get_fragments()}
        self.segments = [s for s in self.segments if s.fits(fragments)]


def _planned(base: LanceDataset, how: Upkeep) -> Plan:
    if how.target_rows < 1 or not 0 <= how.deleted <= 1:
        raise InvalidInput("A fragment has at least one row.", next="Give a larger target; `deleted` is a share.")
    return plan.plan(base, how)


def _rows_of(handle: LanceDataset) -> dict[int, int]:
    return {int(f.fragment_id): int(f.metadata.num_rows) for f in handle.get_fragments()}


def side_by_side(what: str, calls: Sequence[Callable[[], T]], progress: Progress | None) -> list[T]:
    """Run calls on a few threads at once, and report how many are done."""
    count = Count(progress or silent, what, len(calls))
    results: dict[int, T] = {}
    waiting = deque(range(len(calls)))

    def worker() -> None:
        while True:
            try:
                i = waiting.popleft()
            except IndexError:
                return
            results[i] = calls[i]()
            count.add()

    run_parallel([worker] * min(WORKERS, len(calls)))
    return [results[i] for i in range(len(calls))]
