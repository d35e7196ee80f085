"""The change between two versions of a Lance table, brought onto a third one: the same data files, other vectors.

What lies in a fragment that both have is at the same place in both, so what is gone there is gone by address. Where a
compaction has put rows elsewhere they are found by their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quire.formats.equal_rows import first_of_each, grouped, matches
from quire.formats.key_sets import without
from quire.formats.lance.head.foreign import difference
from quire.formats.lance.inspect.addressed_rows import deleted, deletion_file, rows_at
from quire.formats.lance.inspect.row_diff import by_path, same_rows
from quire.formats.lance.metering import scanned
from quire.formats.lance.session import translating
from quire.formats.lance.staging import find_rows
from quire.formats.lance.staging.net_change import Added, written
from quire.formats.lance.staging.work import LanceWork
from quire.formats.row_bitmap import NONE, Marks, by_fragment

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import LanceFragment


def carry_over(
    work: LanceWork,
    before: LanceDataset,
    after: LanceDataset,
    key: Sequence[str],
    leave_out: pa.Table | None,
    others: Sequence[LanceDataset],
    *,
    moved: bool = True,
) -> None:
    """Take the rows away that are gone between two versions, and add the files that came."""
    draft = work.draft
    base, net = draft.base, difference(before, after, fresh_ids=True)
    here, numbers = by_path(base), {int(f.fragment_id): path for path, f in by_path(before).items()}
    stayed: dict[int, Marks] = {}
    elsewhere: dict[int, Marks] = {}

    def gone(fragment: LanceFragment, marks: Marks) -> Any:
        """Take rows of a fragment away; those that are gone already."""
        number = int(fragment.fragment_id)
        dead = np.intersect1d(np.asarray(marks), deleted(base, fragment), assume_unique=True)
        living = np.setdiff1d(np.asarray(marks), dead, assume_unique=True)
        if len(living):
            stayed[number] = stayed.get(number, NONE) | Marks.of(living)
        return dead

    # Where a file is missing, a row that is gone from another one may be there under its key, written again as it was.
    again = bool(key) and any(path not in here for path in numbers.values())
    for number, marks in net.deleted.items():
        old, now = before.get_fragment(number), here.get(numbers[number])
        if now is None or old is None or not same_rows(old, now):
            elsewhere[number] = marks
        else:
            dead = gone(now, marks)
            if again and len(dead):
                elsewhere[number] = Marks.of(dead)
    for other in others:  # what was in any of them, both sides had once
        there = {int(f.fragment_id): path for path, f in by_path(other).items()}
        for number, marks in difference(other, after).deleted.items():
            if there[number] in here:
                gone(here[there[number]], marks)
    known = {path for other in others for path in by_path(other)} - here.keys()
    fresh = [added for added in net.added if added.path not in here and added.path not in known]
    for added in net.added:
        if added.path in here and len(added.deleted):
            gone(here[added.path], added.deleted)  # it came here too, on another way
    draft.take_away(stayed)
    if moved and elsewhere and key:
        keys = _columns(before, elsewhere, key)
        take_away(work, key, keys if leave_out is None else without(keys, [leave_out]))
    elif moved and elsewhere:
        take_rows(work, _columns(before, elsewhere, before.schema.names))
    if leave_out is not None and leave_out.num_rows and fresh:
        _leave_out(after, fresh, key, leave_out)
    added_rows = [one for one in fresh if one.rows]
    draft.net.added.extend(added_rows)
    # They are not ours alone: a cleanup that comes between may have taken them for garbage.
    names = written([one.fragment for one in added_rows], base.schema)
    draft.stager.files.extend(name for name in names if not name.endswith("/"))
    draft.touch()


def _leave_out(after: LanceDataset, fresh: Sequence[Added], key: Sequence[str], keys: pa.Table) -> None:
    """Mark the rows with these keys in fragments that are about to be added."""
    there, named = by_path(after), {}
    for added in fresh:
        named[int(there[added.path].fragment_id)] = added
    addresses, _, _ = find_rows.where_key(after, key, keys, [there[added.path] for added in fresh])
    for number, marks in by_fragment(addresses).items():
        named[number].deleted = named[number].deleted | marks


def take_away(work: LanceWork, key: Sequence[str], keys: pa.Table) -> None:
    """Remove rows of the base by key."""
    addresses, _, _ = find_rows.where_key(work.draft.base, key, keys)
    work.draft.take_away(addresses)


def whole_rows(handle: LanceDataset, keys: pa.Table) -> pa.Table:
    """The rows of a version with these keys, blobs as bytes that can be written again."""
    addresses, _, _ = find_rows.where_key(handle, keys.schema.names, keys)
    return _columns(handle, dict(by_fragment(addresses)), None)


def take_rows(work: LanceWork, rows: pa.Table) -> None:
    """Remove one equal row of the base for each of these."""
    if rows.num_rows:
        wanted, counts = grouped(rows)
        addresses, positions = _equal(work.draft.base, wanted)
        work.draft.take_away(first_of_each(addresses, positions, counts).astype(np.uint64))


def count_rows(handle: LanceDataset, rows: pa.Table) -> list[int]:
    """How often a version has each of these rows."""
    _, positions = _equal(handle, rows)
    return [int(n) for n in np.bincount(positions, minlength=rows.num_rows)]


def _equal(handle: LanceDataset, wanted: pa.Table) -> tuple[NDArray[Any], NDArray[np.int64]]:
    with scanned("scan", handle, None) as scan, translating(f"rows of {handle.uri}"):
        options = {"columns": wanted.schema.names, "with_row_address": True, **scan.options}
        reader = handle.scanner(**options).to_reader()
        return matches(reader, reader.schema, wanted, "_rowaddr")


def share_new_files(before: LanceDataset, one: LanceDataset, other: LanceDataset) -> bool:
    """Whether two versions have a fragment in common that an earlier one has not."""
    return bool((by_path(one).keys() & by_path(other).keys()) - by_path(before).keys())


def holds_files_of(handle: LanceDataset, other: LanceDataset, *, moved: bool) -> bool:
    """Whether every fragment of a version is in another one too, rows that are gone apart, and no row is back."""
    here, there = by_path(handle), by_path(other)
    if not all(same_rows(f, here[path]) if path in here else not moved for path, f in there.items()):
        return False
    both = [(f, here[path]) for path, f in there.items() if path in here and f.metadata.num_deletions]
    return not any(_is_back(other, old, handle, new) for old, new in both)


def _is_back(before: LanceDataset, old: LanceFragment, after: LanceDataset, new: LanceFragment) -> bool:
    """Whether a row of a fragment was gone and lives now."""
    if deletion_file(old) == deletion_file(new):
        return False
    return bool(len(np.setdiff1d(deleted(before, old), deleted(after, new), assume_unique=True)))


def _columns(handle: LanceDataset, rows: dict[int, Marks], names: Sequence[str] | None) -> pa.Table:
    """Rows by their places; whole ones, with the bytes of blobs, where no names are given."""
    import pyarrow as pa

    schema = handle.schema if names is None else pa.schema([handle.schema.field(name) for name in names])
    chosen = None if names is None else list(names)
    batches = [
        batch
        for number, marks in rows.items()
        for batch in rows_at(handle, _fragment(handle, number), np.asarray(marks, np.uint32), chosen)
    ]
    return pa.Table.from_batches(batches, schema)


def _fragment(handle: LanceDataset, number: int) -> LanceFragment:
    found = handle.get_fragment(number)
    assert found is not None
    return found
