"""Data files that other processes wrote, taken over as a statement of this transaction."""

from __future__ import annotations

import msgspec

from quire.formats import Handed, Place
from quire.formats.delta.files.schema import schema_text
from quire.formats.delta.files.told import decoded
from quire.formats.delta.staging.draft import Draft
from quire.formats.delta.staging.run import run
from quire.formats.delta.staging.statements import Append, Sought
from quire.formats.row_bitmap import Marks


class DeltaFiles:
    """Where other processes contribute to one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def place(self) -> Place:
        self._draft.check_no_upkeep()
        return self._draft.place()[0]

    def hand_in(self, handed: Handed) -> int:
        draft = self._draft
        draft.check_no_upkeep()
        files = decoded(handed.fragments)
        without = {n: Marks.of(rows) for n, rows in handed.without.items()}
        draft.pinned_to_base = draft.pinned_to_base or handed.rests_on_base
        draft.files.extend(file.path for file in files)
        if handed.op == "overwrite":
            metadata = draft.base.metadata
            if handed.schema is not None:
                metadata = msgspec.structs.replace(metadata, schema_string=schema_text(handed.schema, draft.table))
            left = [file.with_deleted(without[n]) if n in without else file for n, file in enumerate(files)]
            return draft.replace(metadata, left)
        if handed.op == "append":
            run(draft, Append(files))
            return sum(f.rows for f in files)
        assert handed.seek is not None
        return run(draft, Sought(handed.op, files, handed.on, handed.seek, without, handed.build))
