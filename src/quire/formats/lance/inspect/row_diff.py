"""Rows that differ between two versions, reading only the fragments that do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from quire.formats import Place
from quire.formats.lance.blobs import batches_of, blob_columns, with_bytes
from quire.formats.lance.inspect.addressed_rows import (
    SHARE,
    SIDE_BY_SIDE,
    Offsets,
    deleted,
    deletion_file,
    read_deleted,
    rows_at,
)
from quire.formats.lance.metering import streamed
from quire.formats.lance.session import translating
from quire.formats.lance.staging import find_rows
from quire.formats.lance.task_handles import open_place
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import LanceFragment

    from quire.formats.lance.staging.net_change import Net

AT_ONCE = 50_000
"""Rows that are taken by address at once."""


def changed_rows(
    before: LanceDataset, after: LanceDataset, columns: Sequence[str] | None = None
) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
    """Rows of `before` that are gone, rows of `after` that are new. A row that was only moved appears in both.

    Whole rows come with the bytes of their blobs; of `columns`, those that are there, as a scan shows them.
    """
    # By file: on another line a fragment may have another number.
    old, new = by_path(before), by_path(after)
    gone: list[Some] = []
    come: list[Some] = []
    found = list(differing(old, new))
    both = [number for number, where in found if where == "both"]
    read_deleted(pair for number in both for pair in ((before, old[number]), (after, new[number])))
    for number, where in found:
        if where == "both":
            went, came = _apart(before, old[number], after, new[number])
            gone.append((old[number], went))
            come.append((new[number], came))
        elif where == "gone":
            gone.append((old[number], None))
        else:
            come.append((new[number], None))
    return _read(before, gone, columns), _read(after, come, columns)


Some = tuple["LanceFragment", "Offsets | None"]
"""Rows of a fragment by their places; None for all that live."""


def by_path(handle: LanceDataset) -> dict[str, LanceFragment]:
    """Fragments by their first data file, which they keep whatever number they have."""
    return {str(f.metadata.files[0].path): f for f in handle.get_fragments()}


def _apart(
    before: LanceDataset, old: LanceFragment, after: LanceDataset, new: LanceFragment
) -> tuple[Offsets, Offsets]:
    """Of one fragment in two versions, the places of rows that live only before, and only after."""
    a, b = deleted(before, old), deleted(after, new)
    return np.setdiff1d(b, a, assume_unique=True), np.setdiff1d(a, b, assume_unique=True)


Where = Literal["gone", "come", "both"]
N = TypeVar("N", int, str)


def differing(old: dict[N, LanceFragment], new: dict[N, LanceFragment]) -> Iterator[tuple[N, Where]]:
    """Fragments in which two versions differ: those that one of them has, and those of which other rows are deleted."""
    for number, fragment in old.items():
        if number not in new or not same_rows(fragment, new[number]):
            yield number, "gone"
        elif deletion_file(fragment) != deletion_file(new[number]):
            yield number, "both"
    for number, fragment in new.items():
        if number not in old or not same_rows(old[number], fragment):
            yield number, "come"


@dataclass(frozen=True)
class Changes:
    """The same, for other processes: a part is a fragment, or two that differ in what is deleted."""

    before: Place
    after: Place
    parts: tuple[tuple[int | None, int | None, int], ...]
    """The numbers of the fragment before and after, which may differ on another line, and how many rows it is about."""

    @staticmethod
    def of(before: LanceDataset, after: LanceDataset, places: tuple[Place, Place]) -> Changes:
        old, new = by_path(before), by_path(after)

        def most(path: str, where: Where) -> int:
            rows = [int(side[path].metadata.num_rows) for side in (old, new) if path in side]
            if where != "both":
                return rows[0] if where == "gone" else rows[-1]
            few = abs(rows[0] - rows[1])
            return few if 0 < few <= SHARE * old[path].physical_rows else sum(rows)

        def number(side: dict[str, LanceFragment], path: str, there: bool) -> int | None:
            return int(side[path].fragment_id) if there else None

        return Changes(
            *places,
            tuple(
                (number(old, path, where != "come"), number(new, path, where != "gone"), most(path, where))
                for path, where in differing(old, new)
            ),
        )

    @property
    def rows(self) -> Sequence[int]:
        return [rows for _, _, rows in self.parts]

    def read(self, part: int) -> Iterator[tuple[bool, pa.RecordBatch]]:
        first, last, _ = self.parts[part]
        before, after = open_place(self.before), open_place(self.after)
        old = None if first is None else before.get_fragment(first)
        new = None if last is None else after.get_fragment(last)
        went, came = (None, None) if old is None or new is None else _apart(before, old, after, new)
        for is_new, handle, fragment, offsets in ((False, before, old, went), (True, after, new, came)):
            if fragment is None:
                continue
            for batch in _read(handle, [(fragment, offsets)], None):
                yield is_new, batch


def removed_rows(base: LanceDataset, net: Net, columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """Rows of the base that a net effect removes."""
    import pyarrow as pa

    names = [n for n in base.schema.names if columns is None or n in columns]
    schema = pa.schema([base.schema.field(n) for n in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for number in sorted(net.deleted):
            offsets = np.asarray(net.deleted[number])
            if base.has_stable_row_ids:
                fragment = base.get_fragment(number)
                assert fragment is not None
                chosen = None if set(names) & set(blob_columns(base.schema)) else names
                rows = rows_at(base, fragment, offsets.astype(np.uint32), chosen)
                yield from (batch.select(names) for batch in rows)
                continue
            first = np.uint64(number) << np.uint64(32)
            for low in range(0, len(offsets), AT_ONCE):
                rowids = first + offsets[low : low + AT_ONCE].astype(np.uint64)
                yield from find_rows.rows_at(base, rowids, names).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def rows_of(handle: LanceDataset, fragments: Sequence[int], columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """The rows of some fragments of a version."""
    import pyarrow as pa

    names = [n for n in handle.schema.names if columns is None or n in columns]
    if not fragments:
        return pa.RecordBatchReader.from_batches(pa.schema([handle.schema.field(n) for n in names]), [])
    some = [handle.get_fragment(number) for number in fragments]
    with translating(f"rows of version {handle.version}"):
        return streamed(handle, {"fragments": some, "columns": names})


def same_rows(a: LanceFragment, b: LanceFragment) -> bool:
    """Whether two fragments hold the same rows, apart from columns that one of them does not have."""
    first = {str(f.path): tuple(f.fields) for f in a.metadata.files}
    second = {str(f.path): tuple(f.fields) for f in b.metadata.files}
    common = first.keys() & second.keys()
    nested = first.keys() <= second.keys() or second.keys() <= first.keys()
    return bool(common) and nested and all(first[p] == second[p] for p in common)


def _read(handle: LanceDataset, parts: list[Some], columns: Sequence[str] | None) -> pa.RecordBatchReader:
    import pyarrow as pa

    names = None if columns is None else [name for name in handle.schema.names if name in columns]
    options: dict[str, Any] = with_bytes(handle.schema) if names is None else {"columns": names}
    shown = handle.schema if names is None else handle.scanner(columns=names).projected_schema

    def batches() -> Iterator[pa.RecordBatch]:
        with translating(f"rows of version {handle.version}"):
            for some in _side_by_side(parts):
                if some[0][1] is None:
                    fragments = [fragment for fragment, _ in some]
                    yield from batches_of(streamed(handle, {"fragments": fragments, **options}), shown)
                elif len(some) == 1:
                    yield from rows_at(handle, some[0][0], some[0][1], names)
                else:
                    reads = [partial(_listed, handle, fragment, places, names) for fragment, places in some]
                    for batches in run_parallel(reads):
                        yield from batches

    return pa.RecordBatchReader.from_batches(shown, batches())


def _side_by_side(parts: list[Some]) -> Iterator[list[Some]]:
    """Parts that are read together, in their order: whole fragments by one scan, few rows of several at once."""
    some: list[Some] = []
    rows = 0
    for part in parts:
        places = part[1]
        whole = bool(some) and some[0][1] is None
        full = len(some) >= SIDE_BY_SIDE or (not whole and rows + len(places if places is not None else ()) > AT_ONCE)
        if some and (full or whole != (places is None)):
            yield some
            some, rows = [], 0
        some.append(part)
        rows += 0 if places is None else len(places)
    if some:
        yield some


def _listed(
    handle: LanceDataset, fragment: LanceFragment, places: Offsets | None, names: Sequence[str] | None
) -> list[pa.RecordBatch]:
    assert places is not None
    with translating(f"rows of version {handle.version}"):
        return list(rows_at(handle, fragment, places, names))
