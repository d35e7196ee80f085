"""Data files that other processes wrote, taken over as a statement of this transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quire.formats import Handed, Place
from quire.formats.lance.staging.draft import Draft
from quire.formats.lance.staging.net_change import Added, numbers, written
from quire.formats.lance.staging.run import run
from quire.formats.lance.staging.statements import Append, Sought, Staging, done

if TYPE_CHECKING:
    import pyarrow as pa
    from lance.fragment import FragmentMetadata


class LanceFiles:
    """Where other processes contribute to one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def place(self) -> Place:
        self._draft.check_no_upkeep()
        return self._draft.session.place(self._draft.readable(self._draft.base))

    def hand_in(self, handed: Handed) -> int:
        from lance.fragment import FragmentMetadata

        draft = self._draft
        draft.check_no_upkeep()
        fragments = [FragmentMetadata.from_json(text) for text in handed.fragments]
        rows = sum(int(f.physical_rows) for f in fragments)
        draft.pinned_to_base = draft.pinned_to_base or handed.rests_on_base
        schema = (handed.schema or draft.schema) if handed.op == "overwrite" else draft.schema
        draft.absorb()
        draft.stager.files.extend(written(fragments, schema))
        if handed.op == "overwrite":
            self._replace(fragments, schema, rows)
            return rows - self._leave_out(fragments, handed.without)
        staging = Staging(rows - sum(map(len, handed.without.values())), done(fragments))
        if handed.op == "append":
            run(draft, Append(staging))
            return rows
        assert handed.seek is not None
        return run(draft, Sought(handed.op, staging, handed.on, handed.seek, handed.without, handed.build))

    def _replace(self, fragments: list[FragmentMetadata], schema: pa.Schema, rows: int) -> None:
        """Go on from fragments of their own as all that the table holds."""
        from lance import LanceOperation
        from lance.schema import LanceSchema

        draft = self._draft
        operation = LanceOperation.Overwrite(LanceSchema.from_pyarrow(schema), fragments)
        draft.replace(draft.stager.detach(draft.base, operation), fragments, rows)

    def _leave_out(self, fragments: Sequence[FragmentMetadata], without: Mapping[int, Any]) -> int:
        """Take rows out of fragments that the table was just replaced with; how many."""
        draft = self._draft
        own = numbers(draft.base, [Added(f) for f in fragments])
        deleted = {number: without[i] for number, i in own.items() if i in without and len(without[i])}
        return draft.leave_out(deleted) if deleted else 0
