"""Rows of a fragment by their places in it: read at their addresses while they are few, otherwise by a scan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quire.errors import NotFound
from quire.formats.lance.blobs import FEW, batches_of, blob_columns, read_at, with_bytes
from quire.formats.lance.metering import metered, reading, scanned, streamed
from quire.formats.lance.session import small_file, to_read, translate, translating
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import LanceFragment

SHARE = 0.05
"""Up to this share of a fragment's rows is read at the addresses; a scan reads more of them for less."""
AT_ONCE = 10_000
"""Rows that are taken at once."""

SIDE_BY_SIDE = 64
"""Deletion vectors that are read at once."""

Offsets = NDArray[np.uint32]


def deleted(handle: LanceDataset, fragment: LanceFragment) -> Offsets:
    """Places of the deleted rows of a fragment, in order. Nothing is read but its deletion vector."""
    if not fragment.metadata.num_deletions:
        return np.empty(0, np.uint32)
    found = _read(handle, fragment)
    if found is not None:
        return found
    dead = np.ones(int(fragment.physical_rows), bool)
    with scanned("scan", handle, [fragment]) as scan, translating(f"the deletion vector of {fragment.fragment_id}"):
        scanner = handle.scanner(columns=[], with_row_address=True, fragments=[fragment], **scan.options)
        for batch in scanner.to_reader():
            dead[_places(batch.column(0).to_numpy())] = False
    return np.flatnonzero(dead).astype(np.uint32)


def _read(handle: LanceDataset, fragment: LanceFragment) -> Offsets | None:
    """The same from the file, which is remembered then; None for one that lists no numbers, or lies elsewhere."""
    import pyarrow as pa

    said = deletion_file(fragment)
    if said["file_type"] != "array" or fragment.metadata.to_json()["deletion_file"].get("base_id") is not None:
        return None
    name = f"_deletions/{fragment.fragment_id}-{said['read_version']}-{said['id']}.arrow"
    try:
        body = small_file(handle, name)
    except NotFound as error:
        raise translate(FileNotFoundError(error.message), f"the deletion vector of {fragment.fragment_id}") from error
    if body is None:
        return None
    try:
        with pa.ipc.open_file(body) as file:
            numbers = file.read_all().column(0).to_numpy()
    except (pa.ArrowException, OSError, IndexError, ValueError):
        return None  # Lance says what is wrong with it
    if len(numbers) != said["num_deleted_rows"] or numbers.dtype != np.uint32:
        return None
    return np.sort(numbers)


def read_deleted(some: Iterable[tuple[LanceDataset, LanceFragment]]) -> None:
    """Read the deletion vectors of fragments side by side, so that each is known when it is asked for."""
    wanted = [(h, f) for h, f in some if f.metadata.num_deletions]
    for low in range(0, len(wanted), SIDE_BY_SIDE):
        run_parallel([partial(_read, handle, fragment) for handle, fragment in wanted[low : low + SIDE_BY_SIDE]])


def deletion_file(fragment: LanceFragment) -> Any:
    """What a version says of the deletion vector of a fragment: equal where the same rows are deleted."""
    found = fragment.metadata.to_json()["deletion_file"]
    # A handle to read by says in which table it lies.
    return found and {name: value for name, value in found.items() if name != "base_id"}


def rows_at(
    handle: LanceDataset, fragment: LanceFragment, places: Offsets, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Some living rows of a fragment, in order: whole with the bytes of blobs, or columns as a scan shows them."""
    if not len(places):
        return
    handle, fragment = _where_it_is(handle, fragment)
    names = list(handle.schema.names if columns is None else columns)
    shown = columns is not None and any(name in names for name in blob_columns(handle.schema))
    if shown or not names or len(places) > SHARE * fragment.physical_rows:
        yield from _scanned(handle, fragment, places, columns)
        return
    # Lance counts the living rows of a fragment.
    positions = places - np.searchsorted(deleted(handle, fragment), places).astype(np.uint32)
    most = FEW if blob_columns(handle.schema) and columns is None else AT_ONCE
    for low in range(0, len(places), most):
        yield _taken(handle, fragment, places[low : low + most], positions[low : low + most], names)


def _where_it_is(handle: LanceDataset, fragment: LanceFragment) -> tuple[LanceDataset, LanceFragment]:
    """A fragment by the handle that reads it: files of it may be on this machine alone."""
    if not getattr(handle, "is_aside", False):
        return handle, fragment
    reader = to_read(handle)
    found = reader.get_fragment(int(fragment.fragment_id))
    assert found is not None
    return reader, found


def _taken(
    handle: LanceDataset, fragment: LanceFragment, places: Offsets, positions: Offsets, names: Sequence[str]
) -> pa.RecordBatch:
    import pyarrow as pa

    beside = [name for name in blob_columns(handle.schema) if name in names]
    plain = [name for name in names if name not in beside]
    number = int(fragment.fragment_id)
    with metered("take", handle.uri, steps=1) as window, translating(f"rows of fragment {number}"):
        window.in_turn = False
        window.steps = reading(handle, [fragment])
        found: dict[str, Any] = {}
        if plain:
            rows = fragment.take(positions.tolist(), columns=plain).combine_chunks()
            found = {name: rows.column(name) for name in plain}
        addresses = ((np.uint64(number) << np.uint64(32)) | places.astype(np.uint64)).tolist() if beside else []
        found |= {name: read_at(handle, addresses, name, by="addresses") for name in beside}
    schema = pa.schema([handle.schema.field(name) for name in names])
    [batch] = pa.table([found[name] for name in names], schema=schema).combine_chunks().to_batches()
    return batch


def _scanned(
    handle: LanceDataset, fragment: LanceFragment, places: Offsets, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    wanted = np.zeros(int(fragment.physical_rows), bool)
    wanted[places] = True
    options: dict[str, Any] = with_bytes(handle.schema) if columns is None else {"columns": list(columns)}
    names = handle.schema.names if columns is None else list(columns)
    for batch in streamed(handle, {"fragments": [fragment], "with_row_address": True, **options}):
        at = _places(batch.column(batch.schema.get_field_index("_rowaddr")).to_numpy())
        chosen = np.flatnonzero(wanted[at])
        if len(chosen):
            rows = batch.take(chosen).select(names)
            yield from batches_of([rows], handle.schema) if columns is None else [rows]


def _places(addresses: Any) -> Offsets:
    return np.asarray(addresses & np.uint64(0xFFFFFFFF), np.uint32)
