"""Statements about columns, indexes and upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from quire.errors import InvalidInput
from quire.formats import Compacted, IndexSpec, Run, Upkeep
from quire.progress import Progress
from quire.testing.memory import columns
from quire.testing.memory.compact import execute, plan, summary
from quire.testing.memory.draft import Draft


class MemoryColumns:
    """Columns of one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def add(self, spec: Any) -> None:
        draft = self._draft
        draft.chain(columns.add(draft.folder, draft.settled(), spec, draft.table))

    def drop(self, names: Sequence[str]) -> None:
        draft = self._draft
        draft.chain(columns.drop(draft.settled(), names, draft.table))

    def rename(self, old: str, new: str) -> None:
        draft = self._draft
        draft.chain(columns.rename(draft.settled(), old, new, draft.table))

    def alter(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None:
        if type is None and nullable is None:
            raise InvalidInput("alter_column needs a type or nullable=.", next='alter_column("v", type=pa.float64()).')
        draft = self._draft
        state = draft.settled()
        if type is not None:
            state = columns.retype(draft.folder, state, name, type, draft.table)
        if nullable is not None:
            state = columns.set_nullable(draft.folder, state, name, nullable, draft.table)
        draft.chain(state)


class MemoryIndexes:
    """Indexes of one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def create(self, spec: IndexSpec, *, replace: bool, run: Run | None = None) -> None:
        draft = self._draft
        draft.indexes.want(draft.base, spec, replace=replace, table=draft.table)
        draft.staged = None

    def drop(self, name: str) -> None:
        self._draft.indexes.drop(self._draft.base, name, table=self._draft.table)
        self._draft.staged = None


class MemoryUpkeep:
    """Upkeep of one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def compact(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> Compacted:
        draft = self._draft
        draft.check_no_rows_changed()
        draft.check_no_upkeep()
        groups = plan(draft.base, how)
        if mode == "do":
            draft.compaction = execute(draft.folder, draft.base, groups, how, draft.table)
            draft.files.extend(draft.compaction.files)
            draft.staged = None
            if progress is not None:
                progress("compact", len(groups), len(groups))
        return summary(draft.base, groups, how)

    def extend_indexes(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> list[str]:
        draft = self._draft
        draft.check_no_rows_changed()
        if mode == "plan":
            rewritten = bool(plan(draft.base, how))
            return [i.name for i in draft.base.indexes] if rewritten else draft.indexes.short(draft.base)
        extended = draft.indexes.extend(draft.compaction.on(draft.base))
        draft.staged = None
        if progress is not None:
            progress("index", len(extended), len(extended))
        return extended
