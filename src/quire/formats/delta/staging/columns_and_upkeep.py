"""Statements about columns, indexes and upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from quire.errors import InvalidInput, NotFound, Unsupported
from quire.formats import Compacted, IndexSpec, Run, Upkeep
from quire.formats.delta.files.schema import require
from quire.formats.delta.staging import schema_change as columns
from quire.formats.delta.staging.compaction import execute, plan, summary
from quire.formats.delta.staging.draft import Draft
from quire.progress import Progress


class DeltaColumns:
    """Columns of one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def add(self, spec: Any) -> None:
        self._draft.chain(columns.add(self._draft, spec))

    def drop(self, names: Sequence[str]) -> None:
        self._draft.chain(columns.drop(self._draft, names))

    def rename(self, old: str, new: str) -> None:
        self._draft.chain(columns.rename(self._draft, old, new))

    def alter(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None:
        if type is None and nullable is None:
            raise InvalidInput("alter_column needs a type or nullable=.", next='alter_column("v", type=pa.float64()).')
        draft = self._draft
        state = draft.settled()
        require(state.schema, [name], draft.table)
        if type is not None:
            state = columns.retype(draft, state, name, type)
        if nullable is not None:
            state = columns.set_nullable(draft, state, name, nullable)
        draft.chain(state)


class DeltaIndexes:
    """Delta tables have no indexes: their files are skipped by statistics."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def create(self, spec: IndexSpec, *, replace: bool, run: Run | None = None) -> None:
        require(self._draft.schema, [spec.column], self._draft.table)
        raise Unsupported(
            f"Table {self._draft.table!r} is a Delta table, and those have no indexes.",
            next="Leave the index out: files are skipped by their statistics. Or keep the rows in a Lance table.",
            table=self._draft.table,
            indexes="none",
        )

    def drop(self, name: str) -> None:
        raise NotFound(
            f"Table {self._draft.table!r} has no index {name!r}.",
            next="Delta tables have none.",
            table=self._draft.table,
            index=name,
        )


class DeltaUpkeep:
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
            draft.compaction = execute(draft.folder, draft.base, groups, how, draft.write)
            draft.staged = None
            if progress is not None:
                progress("compact", len(groups), len(groups))
        return summary(draft.base, groups, how)

    def extend_indexes(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> list[str]:
        self._draft.check_no_rows_changed()
        return []
