"""A change of one line of a table, done again in another line with the same data files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import MatchedRows
from quire.formats.delta.find_rows import RowsByFile, numbered, unnumbered, where_key
from quire.formats.delta.folder import Folder
from quire.formats.delta.log.state import DataFile, State
from quire.formats.delta.staging.net import Added, difference
from quire.formats.delta.staging.work import DeltaWork
from quire.formats.equal_rows import first_of_each, grouped, matches
from quire.formats.key_sets import without
from quire.formats.row_bitmap import NONE, Marks

if TYPE_CHECKING:
    import pyarrow as pa


def carry_over(
    work: DeltaWork,
    before: State,
    after: State,
    key: Sequence[str],
    leave_out: pa.Table | None,
    others: Sequence[State],
    *,
    moved: bool,
) -> None:
    """Take the rows away that are gone between two states, and add the files that came."""
    draft = work.draft
    here, net = draft.base.by_path, difference(draft.folder, before, after)
    elsewhere: list[DataFile] = []
    found: RowsByFile = {}

    def gone(there: DataFile, rows: Marks) -> None:
        living = Marks.of(np.intersect1d(np.asarray(rows), draft.folder.living(there)))
        found[there.path] = found.get(there.path, NONE) | living

    # Where a file is missing, a row that is gone from another one may be there under its key, written again as it was.
    again = bool(key) and any(path not in here for path in before.by_path)
    for path, rows in net.deleted.items():
        if path in here:
            gone(here[path], rows)
            dead = np.setdiff1d(np.asarray(rows), draft.folder.living(here[path])) if again else ()
            if len(dead):
                elsewhere.append(_only(before.by_path[path], Marks.of(dead)))
        else:
            elsewhere.append(_only(before.by_path[path], rows))
    for other in others:  # what was in any of them, both sides had once
        for path, rows in difference(draft.folder, other, after).deleted.items():
            if path in here:
                gone(here[path], rows)
    known = {path for other in others for path in other.by_path} - here.keys()
    fresh = {a.file.path: a for a in net.added if a.file.path not in here and a.file.path not in known}
    for added in net.added:
        if added.file.path in here:
            gone(here[added.file.path], added.deleted)  # it came here too, on another way
    draft.take_away(found)
    if moved and elsewhere and key:
        keys = _columns(work, before, key, elsewhere)
        take_away(work, key, keys if leave_out is None else without(keys, [leave_out]))
    elif moved and elsewhere:
        take_rows(work, _columns(work, before, before.schema.names, elsewhere))
    if leave_out is not None and leave_out.num_rows:
        met = where_key(draft.folder, after, key, leave_out, [f for f in after.files if f.path in fresh])
        for path, rows in met.rows.items():
            fresh[path].deleted = fresh[path].deleted | rows
    left = [Added(_whole(one.file), one.deleted) for one in fresh.values() if one.rows]
    draft.net.added.extend(left)
    draft.files.extend(one.file.path for one in left)
    draft.staged = None


def _whole(file: DataFile) -> DataFile:
    """The file as it was written: what is gone of it is told apart."""
    return file.with_deleted(Marks.of(()))


def _only(file: DataFile, rows: Marks) -> DataFile:
    """A file as if only these of its rows were there."""
    everything = np.arange(file.rows, dtype=np.uint32)
    return file.with_deleted(Marks.of(np.setdiff1d(everything, np.asarray(rows))))


def take_away(work: DeltaWork, key: Sequence[str], keys: pa.Table) -> None:
    """Remove rows of the base by key."""
    draft = work.draft
    draft.take_away(where_key(draft.folder, draft.base, key, keys).rows)


def take_rows(work: DeltaWork, rows: pa.Table) -> None:
    """Remove one equal row of the base for each of these."""
    if rows.num_rows:
        wanted, counts = grouped(rows)
        places, positions = _equal(work.draft.folder, work.draft.base, wanted)
        chosen = np.asarray(first_of_each(places, positions, counts)).astype(np.uint64)
        work.draft.take_away(unnumbered(work.draft.base, MatchedRows(chosen, len(chosen))))


def count_rows(folder: Folder, state: State, rows: pa.Table) -> list[int]:
    """How often a state has each of these rows."""
    _, positions = _equal(folder, state, rows)
    return [int(n) for n in np.bincount(positions, minlength=rows.num_rows)]


def _equal(folder: Folder, state: State, wanted: pa.Table) -> tuple[Any, Any]:
    """Addresses of the rows that are like one of these, and which."""
    import pyarrow as pa

    names = wanted.schema.names
    schema = pa.schema([*(state.schema.field(name) for name in names), pa.field("", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for file, offsets, batch in folder.rows(state, names):
            at = pa.array(numbered(state, [(file.path, offsets)]).astype(np.int64))
            yield pa.RecordBatch.from_arrays([*batch.columns, at], schema=schema)

    return matches(batches(), schema, wanted, "")


def share_new_files(before: State, one: State, other: State) -> bool:
    """Whether two states have a file in common that an earlier one has not."""
    return bool((one.by_path.keys() & other.by_path.keys()) - before.by_path.keys())


def holds_files_of(folder: Folder, state: State, other: State, *, moved: bool) -> bool:
    """Whether every file of a state is in another one too, rows that are gone apart, and no row is back."""
    here = state.by_path
    if moved and not all(file.path in here for file in other.files):
        return False
    return not any(_is_back(folder, f, here[f.path]) for f in other.files if f.gone and f.path in here)


def _is_back(folder: Folder, before: DataFile, after: DataFile) -> bool:
    """Whether a row of a file was gone and lives now."""
    if before.vector == after.vector and before.deleted is None and after.deleted is None:
        return False
    gone, living = np.asarray(folder.marks(before)), folder.living(after)
    return bool(len(np.intersect1d(gone, living, assume_unique=True)))


def column_ids(state: State) -> dict[str, int]:
    """Columns have no ids but their names: one that is renamed is another one."""
    digests = {name: hashlib.sha256(name.encode()).digest() for name in state.schema.names}
    return {name: int.from_bytes(digest[:6], "big") for name, digest in digests.items()}


def _columns(work: DeltaWork, state: State, names: Sequence[str], files: Sequence[DataFile]) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema([state.schema.field(name) for name in names])
    return pa.Table.from_batches([b for _, _, b in work.draft.folder.rows(state, list(names), files)], schema=schema)
