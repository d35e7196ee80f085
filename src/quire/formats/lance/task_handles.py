"""States of tables as another process opens them, by their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from quire.errors import NotFound
from quire.formats import Place
from quire.formats.lance import blobs
from quire.formats.lance.metering import streamed
from quire.formats.lance.session import is_remote, load, manifest_name, translate, translating
from quire.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

    from quire.formats.lance.reading_copy import Copies

BATCH_ROWS = 65_536
"""Rows that are read from a file at once."""


def open_place(place: Place) -> LanceDataset:
    """The table at this very state."""
    return _opened(place.uri, place.version, tuple(sorted(place.options.items())))


def open_alone(place: Place) -> LanceDataset:
    """The same on a handle of one's own: some verbs borrow it exclusively."""
    load()
    import lance

    with translating(f"version {place.version} of {place.uri}"):
        return lance.dataset(place.uri, version=int(place.version), storage_options=place.options or None)


@lru_cache(maxsize=64)
def _opened(uri: str, version: str, options: tuple[tuple[str, str], ...]) -> LanceDataset:
    place = Place("lance", uri, version, dict(options))
    if not is_remote(uri):
        return open_alone(place)
    load()
    from quire.formats.lance.reading_copy import open_bytes

    number, what, given = int(version), f"version {version} of {uri}", {"storage_options": place.options or None}
    try:
        body = Store.open(uri, place.options).get(f"_versions/{manifest_name(number)}")
    except NotFound as error:
        raise translate(FileNotFoundError(error.message), what) from error
    with translating(what):
        return open_bytes(uri, number, body, what, given, lambda: _copies().open(body, number, uri, given))


@cache
def _copies() -> Copies:
    from quire.formats.lance.reading_copy import Copies

    return Copies()


@dataclass(frozen=True)
class Whole:
    """Whole rows of some fragments of a state, blobs as bytes."""

    place: Place | None
    fragments: tuple[int, ...]
    handle: LanceDataset | None = None
    """For this process: the handle to read them by."""

    def schema(self) -> pa.Schema:
        return blobs.given(self._opened().schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        handle, schema = self._opened(), self.schema()
        if not self.fragments:
            return
        options = {"fragments": fragments(handle, self.fragments), **blobs.with_bytes(handle.schema)}
        with translating(f"rows of {handle.uri}"):
            for batch in streamed(handle, options):
                yield batch if batch.schema.equals(schema) else batch.cast(schema)

    def _opened(self) -> LanceDataset:
        if self.handle is not None:
            return self.handle
        assert self.place is not None
        return open_place(self.place)


def fragments(handle: LanceDataset, numbers: Sequence[int]) -> list[Any]:
    found = [handle.get_fragment(number) for number in numbers]
    assert all(f is not None for f in found)
    return found
