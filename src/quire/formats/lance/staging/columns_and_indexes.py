"""Statements about columns and indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.errors import InvalidInput
from quire.formats import IndexSpec, Run
from quire.formats.lance.indexes.build import normalise
from quire.formats.lance.lookups.candidates import EQUALITY
from quire.formats.lance.lookups.written import look_up_by
from quire.formats.lance.staging import schema_change
from quire.formats.lance.staging.draft import Draft


class LanceColumns:
    """Columns of one draft. Each statement stages a version, from which the next goes on."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def add(self, spec: Any) -> None:
        draft = self._draft
        draft.chain(schema_change.add(draft.stager, draft.settled(), spec, draft.table))

    def drop(self, names: Sequence[str]) -> None:
        draft = self._draft
        draft.chain(schema_change.drop(draft.stager, draft.settled(), names, draft.table))

    def rename(self, old: str, new: str) -> None:
        draft = self._draft
        draft.chain(schema_change.rename(draft.stager, draft.settled(), old, new, draft.table))

    def alter(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None:
        if type is None and nullable is None:
            raise InvalidInput("alter_column needs a type or nullable=.", next='alter_column("v", type=pa.float64()).')
        draft = self._draft
        handle = draft.settled()
        if type is not None:
            handle = schema_change.retype(draft.stager, handle, name, type, draft.table)
        if nullable is not None:
            handle = schema_change.set_nullable(draft.stager, handle, name, nullable, draft.table)
        draft.chain(handle)


class LanceIndexes:
    """Indexes of one draft. They are built when it is staged, over the rows that it has then."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def create(self, spec: IndexSpec, *, replace: bool, run: Run | None = None) -> None:
        draft = self._draft
        wanted = IndexSpec(spec.column, normalise(spec.kind), spec.name, spec.options)
        if run is not None:
            draft.session.place(draft.base)  # others must be able to read it
        draft.indexes.want(draft.base, wanted, replace=replace, table=draft.table, run=run)
        if wanted.kind in EQUALITY:
            look_up_by(draft.base, [wanted.column])
        draft.staged = None

    def drop(self, name: str) -> None:
        self._draft.indexes.drop(self._draft.base, name, table=self._draft.table)
        self._draft.staged = None
