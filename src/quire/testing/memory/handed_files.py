"""Data files that other processes wrote, taken over as a statement of this transaction."""

from __future__ import annotations

from quire.formats import Handed, Place
from quire.testing.memory import columns
from quire.testing.memory.draft import Draft
from quire.testing.memory.run import decoded, run
from quire.testing.memory.statements import Append, Sought


class MemoryFiles:
    """Where other processes contribute to one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def place(self) -> Place:
        draft = self._draft
        draft.check_no_upkeep()
        return draft.folder.at(draft.base, draft.properties)

    def hand_in(self, handed: Handed) -> int:
        draft = self._draft
        draft.check_no_upkeep()
        fragments = decoded(handed.fragments)
        draft.pinned_to_base = draft.pinned_to_base or handed.rests_on_base
        draft.files.extend(path for f in fragments for path in f.paths)
        if handed.op == "overwrite":
            schema = handed.schema or draft.schema
            fields = columns.fields_of(schema, draft.table, first=draft.base.next_field)
            return draft.replace(fields, [f.without(handed.without.get(i, ())) for i, f in enumerate(fragments)])
        if handed.op == "append":
            for fragment in fragments:
                run(draft, Append(fragment))
            return sum(f.rows for f in fragments)
        assert handed.seek is not None
        return run(draft, Sought(handed.op, fragments, handed.on, handed.seek, handed.without, handed.build))
