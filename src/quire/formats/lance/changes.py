"""Rows that differ between two versions, reading only the fragments that do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quire.formats.lance import match
from quire.formats.lance.blobs import batches_of, with_bytes
from quire.formats.lance.metering import streamed
from quire.formats.lance.session import translating
from quire.formats.lance.tasks import open_place
from quire.formats.protocol import Place

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import LanceFragment

    from quire.formats.lance.net import Net

AT_ONCE = 50_000
"""Rows that are taken by address at once."""


def changed_rows(
    before: LanceDataset, after: LanceDataset, columns: Sequence[str] | None = None
) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
    """Rows of `before` that are gone, rows of `after` that are new. A row that was only moved appears in both.

    Whole rows come with the bytes of their blobs; of `columns`, those that are there, as a scan shows them.
    """
    old = {int(f.fragment_id): f for f in before.get_fragments()}
    new = {int(f.fragment_id): f for f in after.get_fragments()}
    gone: list[tuple[LanceFragment, Any]] = []
    come: list[tuple[LanceFragment, Any]] = []
    for number, where in differing(old, new):
        if where == "both":
            a, b = match.alive(before, number), match.alive(after, number)
            gone.append((old[number], np.setdiff1d(a, b)))
            come.append((new[number], np.setdiff1d(b, a)))
        elif where == "gone":
            gone.append((old[number], None))
        else:
            come.append((new[number], None))
    return _read(before, gone, columns), _read(after, come, columns)


Where = Literal["gone", "come", "both"]


def differing(old: dict[int, LanceFragment], new: dict[int, LanceFragment]) -> Iterator[tuple[int, Where]]:
    """Fragments in which two versions differ: those that one of them has, and those of which other rows are deleted."""
    for number, fragment in old.items():
        if number not in new or not same_rows(fragment, new[number]):
            yield number, "gone"
        elif _deletions(fragment) != _deletions(new[number]):
            yield number, "both"
    for number, fragment in new.items():
        if number not in old or not same_rows(old[number], fragment):
            yield number, "come"


@dataclass(frozen=True)
class Changes:
    """The same, for other processes: a part is a fragment, or two that differ in what is deleted."""

    before: Place
    after: Place
    parts: tuple[tuple[int, Where, int], ...]

    @staticmethod
    def of(before: LanceDataset, after: LanceDataset, places: tuple[Place, Place]) -> Changes:
        old = {int(f.fragment_id): f for f in before.get_fragments()}
        new = {int(f.fragment_id): f for f in after.get_fragments()}

        def most(number: int, where: Where) -> int:
            sides = {"gone": [old], "come": [new], "both": [old, new]}[where]
            return sum(int(side[number].metadata.num_rows) for side in sides)

        return Changes(*places, tuple((n, where, most(n, where)) for n, where in differing(old, new)))

    @property
    def rows(self) -> Sequence[int]:
        return [rows for _, _, rows in self.parts]

    def read(self, part: int) -> Iterator[tuple[bool, pa.RecordBatch]]:
        number, where, _ = self.parts[part]
        before, after = open_place(self.before), open_place(self.after)
        sides: list[tuple[bool, LanceDataset, Any]]
        if where == "both":
            a, b = match.alive(before, number), match.alive(after, number)
            sides = [(False, before, np.setdiff1d(a, b)), (True, after, np.setdiff1d(b, a))]
        else:
            sides = [(where == "come", after if where == "come" else before, None)]
        for new, handle, offsets in sides:
            fragment = handle.get_fragment(number)
            assert fragment is not None
            for batch in _read(handle, [(fragment, offsets)], None):
                yield new, batch


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
                yield from (batch.select(names) for batch in _some(base, fragment, offsets, _whole(base)))
                continue
            first = np.uint64(number) << np.uint64(32)
            for low in range(0, len(offsets), AT_ONCE):
                rowids = first + offsets[low : low + AT_ONCE].astype(np.uint64)
                yield from match.rows_at(base, rowids, names).cast(schema).to_batches()

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


def _deletions(fragment: LanceFragment) -> Any:
    return fragment.metadata.to_json()["deletion_file"]


def _whole(handle: LanceDataset) -> dict[str, Any]:
    """Options of a scan of whole rows."""
    return with_bytes(handle.schema)


def _read(
    handle: LanceDataset, parts: list[tuple[LanceFragment, Any]], columns: Sequence[str] | None
) -> pa.RecordBatchReader:
    import pyarrow as pa

    options = _whole(handle)
    if columns is not None:
        options = {"columns": [name for name in handle.schema.names if name in columns]}
    shown = handle.schema if columns is None else handle.scanner(**options).projected_schema

    def batches() -> Iterator[pa.RecordBatch]:
        with translating(f"rows of version {handle.version}"):
            for fragment, offsets in parts:
                if offsets is None:
                    yield from batches_of(streamed(handle, {"fragments": [fragment], **options}), shown)
                elif len(offsets):
                    yield from _some(handle, fragment, offsets, options)

    return pa.RecordBatchReader.from_batches(shown, batches())


def _some(handle: LanceDataset, fragment: LanceFragment, offsets: Any, options: dict[str, Any]) -> Iterator[Any]:
    names = options.get("columns", handle.schema.names)
    for batch in streamed(handle, {"fragments": [fragment], "with_row_address": True, **options}):
        position = batch.schema.get_field_index("_rowaddr")
        low = (batch.column(position).to_numpy() & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        chosen = np.flatnonzero(np.isin(low, offsets))
        if len(chosen):
            rows = batch.take(chosen).select(names)
            yield from batches_of([rows], handle.schema) if "columns" not in options else [rows]
