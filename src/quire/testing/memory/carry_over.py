"""The change between two states of a memory table, brought onto a third one: the same files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats.equal_rows import first_of_each, grouped, matches
from quire.formats.key_sets import without
from quire.testing.memory.files import Folder, Fragment, Version
from quire.testing.memory.net import Added, Address, difference, locate, where_key
from quire.testing.memory.work import MemoryWork

if TYPE_CHECKING:
    import pyarrow as pa


def carry_over(
    work: MemoryWork,
    before: Version,
    after: Version,
    key: Sequence[str],
    leave_out: pa.Table | None,
    others: Sequence[Version],
    *,
    moved: bool = True,
) -> None:
    """Take the rows away that are gone between two states, and add the files that came."""
    draft = work.draft
    here, net = draft.base.by_key, difference(before, after)
    elsewhere: list[Fragment] = []

    def gone(there: Fragment, offsets: set[int]) -> None:
        draft.take_away([(there.key, offset) for offset in sorted(offsets & set(there.living()))])

    # Where a file is missing, a row that is gone from another one may be there under its key, written again as it was.
    again = bool(key) and any(name not in here for name in before.by_key)
    for name, offsets in net.deleted.items():
        old, now = before.by_key[name], here.get(name)
        if now is None or not alike(old, now):
            elsewhere.append(old.without(set(old.living()) - offsets))
        else:
            gone(now, offsets)
            dead = offsets - set(now.living())
            if again and dead:
                elsewhere.append(old.without(set(old.living()) - dead))
    for other in others:  # what was in any of them, both sides had once
        for name, offsets in difference(other, after).deleted.items():
            if name in here:
                gone(here[name], offsets)
    known = {name for other in others for name in other.by_key} - here.keys()
    fresh = {a.fragment.key: a for a in net.added if a.fragment.key not in here and a.fragment.key not in known}
    for added in net.added:
        if added.fragment.key in here:
            gone(here[added.fragment.key], added.deleted)  # it came here too, on another way
    draft.take_away([])
    if moved and elsewhere and key:
        keys = _columns(work, before, key, elsewhere)
        take_away(work, key, keys if leave_out is None else without(keys, [leave_out]))
    elif moved and elsewhere:
        take_rows(work, _columns(work, before, before.schema.names, elsewhere))
    if leave_out is not None and leave_out.num_rows:
        some = [f for f in after.fragments if f.key in fresh]
        addresses, _ = where_key(draft.folder, after, key, leave_out, some, draft.table)
        for name, offset in addresses:
            fresh[name].deleted.add(offset)
    left = [Added(one.fragment, set(one.deleted)) for one in fresh.values() if one.rows]
    draft.net.added.extend(left)
    draft.files.extend(path for one in left for path in one.fragment.paths)
    draft.staged = None


def take_away(work: MemoryWork, key: Sequence[str], keys: pa.Table) -> None:
    """Remove rows of the base by key."""
    addresses, _ = where_key(work.draft.folder, work.draft.base, key, keys, table=work.draft.table)
    work.draft.take_away(addresses)


def take_rows(work: MemoryWork, rows: pa.Table) -> None:
    """Remove one equal row of the base for each of these."""
    if rows.num_rows:
        wanted, counts = grouped(rows)
        addresses, places, positions = _equal(work.draft.folder, work.draft.base, wanted)
        work.draft.take_away([addresses[int(place)] for place in first_of_each(places, positions, counts)])


def count_rows(folder: Folder, state: Version, rows: pa.Table) -> list[int]:
    """How often a state has each of these rows."""
    _, _, positions = _equal(folder, state, rows)
    return [int(n) for n in np.bincount(positions, minlength=rows.num_rows)]


def _equal(folder: Folder, state: Version, wanted: pa.Table) -> tuple[list[Address], Any, Any]:
    import pyarrow as pa

    found = locate(folder, state, wanted.schema.names)
    fields = [state.schema.field(name) for name in wanted.schema.names]
    arrays = [pa.array(found.columns[f.name], f.type) for f in fields]
    schema = pa.schema([*fields, pa.field("", pa.int64())])
    batch = pa.RecordBatch.from_arrays([*arrays, pa.array(range(found.rows), pa.int64())], schema=schema)
    return found.addresses, *matches([batch], schema, wanted, "")


def share_new_files(before: Version, one: Version, other: Version) -> bool:
    """Whether two states have a fragment in common that an earlier one has not."""
    return bool((one.by_key.keys() & other.by_key.keys()) - before.by_key.keys())


def holds_files_of(state: Version, other: Version, *, moved: bool) -> bool:
    """Whether every fragment of a state is in another one too, rows that are gone apart, and no row is back."""
    for old in other.fragments:
        new = state.by_key.get(old.key)
        if moved if new is None else not alike(old, new) or bool(set(old.deleted) - set(new.deleted)):
            return False
    return True


def alike(a: Fragment, b: Fragment) -> bool:
    """Whether two fragments hold the same rows, apart from columns that one of them does not have."""
    first, second = set(a.paths), set(b.paths)
    return first <= second or second <= first


def _columns(work: MemoryWork, state: Version, names: Sequence[str], fragments: Sequence[Fragment]) -> pa.Table:
    import pyarrow as pa

    found = locate(work.draft.folder, state, names, fragments, work.draft.table)
    schema = pa.schema([state.schema.field(name) for name in names])
    return pa.table([pa.array(found.columns[f.name], f.type) for f in schema], schema=schema)
