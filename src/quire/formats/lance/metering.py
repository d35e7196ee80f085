"""Lance's own requests: how many a call made, and how many of them had to follow one another.

Lance counts for the whole process, so a call made what was counted between its beginning and its end. While no other
call is open that is exact, and a call that goes step by step took as many hops as requests. Calls that have company see
each other's requests, and some calls ask for several things at once; for those there is what they take by their
nature, so that nobody is charged for the hops of another.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quire.store import Meter, active_meters, on_behalf, record_external

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import DataFile, LanceFragment

Meters = tuple[tuple[Meter, Any], ...]

COUNTER = "lance_object_store_requests_total"
LOCAL = ("file", "memory")
RANGE = 1 << 60
"""Local files, memory and remote stores are counted apart: scratch work on this machine is no request to a bucket. Each
has a range of its own in one row of numbers."""
FRESH = 0.0005
"""Seconds for which a reading will do as the beginning of a call: reading the counter takes a while."""
AT_ONCE = 64 << 10
"""Lance reads the end of a data file first. A file that is not longer is read by that."""
WHOLE = 5 << 20
"""A longer file is sent in parts: one request before them, and one after them."""
KNOWN = 1 << 16
"""Files that are remembered as read."""

_recorder = threading.Lock()
_recording = False
_reading: tuple[float, dict[str, int]] = (float("-inf"), {})
_company = threading.Lock()
_open: set[Window] = set()
_read_by: weakref.WeakKeyDictionary[LanceDataset, set[str]] = weakref.WeakKeyDictionary()
_by_copy: weakref.WeakSet[LanceDataset] = weakref.WeakSet()


class Window:
    """The time of one call, from `begin` to `end`.

    `steps` is how many of its requests follow one another by its nature. A call that is `in_turn` never makes two at
    once, so when it was alone its hops are all its requests.
    """

    def __init__(self, kind: str, uri: str, steps: int) -> None:
        self.steps, self.in_turn = steps, True
        self._kind, self._line = kind, _line(uri)
        self._alone = True

    def begin(self, last: Window | None = None) -> Window:
        """Begin now; what was counted since the `last` one ended belongs to it too."""
        with _company:
            self._alone = not _open
            for other in _open:
                other._alone = False
            _open.add(self)
        self._before = _counts(FRESH)[self._line] if last is None else last._after
        self._start = time.perf_counter()
        return self

    def end(self) -> None:
        """Count it on the meters that are active here."""
        made = self.stop()
        self.charge(made if self._alone and self.in_turn else min(made, self.steps))

    def stop(self) -> int:
        """The requests it saw."""
        self._after, self._end = _counts(0.0)[self._line], time.perf_counter()
        with _company:
            _open.discard(self)
        return self._after - self._before

    def charge(self, hops: int) -> None:
        seen = self._before, self._after
        record_external("lance", self._kind, window=seen, hops=hops, start=self._start, end=self._end)


@contextmanager
def metered(kind: str, uri: str, *, steps: int) -> Iterator[Window]:
    """Count the requests of one call to the table at `uri`. Whatever the call learns about its steps can be set."""
    window = Window(kind, uri, steps).begin()
    try:
        yield window
    finally:
        window.end()


def no_request(kind: str) -> None:
    """Count a call of Lance's that is known to make no request: it is on the bill, with none."""
    now = time.perf_counter()
    record_external("lance", kind, window=(0, 0), hops=0, start=now, end=now)


# -- scans ------------------------------------------------------------------------------------------------------------


class Scan:
    """What a scan of a table, or of some fragments, has to wait for: indexes, deletion vectors, data, in this order.

    Give `options` to the scanner. What `steps` says is final when the scan is over.
    """

    def __init__(self, handle: LanceDataset, fragments: Sequence[LanceFragment] | None = None) -> None:
        self._handle, self._fragments = handle, fragments
        self._statistics: Any = None
        self._rows: tuple[int, int, int] | None = None

    def only(self, fragments: Sequence[LanceFragment] | None) -> dict[str, Any]:
        """Read these fragments alone, unless they are None: give the result to the scanner instead of `options`."""
        self._fragments = fragments
        return self.options if fragments is None else {"fragments": list(fragments), **self.options}

    @property
    def options(self) -> dict[str, Any]:
        def took(statistics: Any) -> None:
            self._statistics = statistics

        return {"scan_stats_callback": took}  # not a method: Lance may copy it, and what it belongs to

    @property
    def steps(self) -> int:
        if self._rows is None:
            some = self._handle.get_fragments() if self._fragments is None else self._fragments
            self._rows = len(some), deletions(self._handle, some), reading(self._handle, some)
        count, vectors, data = self._rows
        found = self._statistics
        if found is None:
            return vectors + data
        indexes = bool(found.indices_loaded) + bool(found.parts_loaded)
        # Wide columns are read after the filter's, for the rows that it leaves: fragments are then read once more.
        wide = found.all_counts.get("fragments_scanned", 0) > count
        # What such a handle reads is not told, only whether it looked into a fragment at all.
        reads = found.iops or (self._handle in _by_copy and found.all_counts.get("fragments_scanned", 1))
        return indexes + vectors + (data + wide if reads else 0)


@contextmanager
def scanned(kind: str, handle: LanceDataset, fragments: Sequence[LanceFragment] | None = None) -> Iterator[Scan]:
    """Count the requests of a scan that is over at the end of the block."""
    scan = Scan(handle, fragments)
    window = Window(kind, handle.uri, steps=0).begin()
    try:
        yield scan
    finally:
        made = window.stop()
        window.charge(min(made, scan.steps) if made else 0)


def streamed(
    handle: LanceDataset,
    options: dict[str, Any],
    meters: Meters = (),
    failed: Callable[[Exception], None] | None = None,
) -> pa.RecordBatchReader:
    """A reader over a scan, whoever reads it and wherever: its requests count on the meters that are active here.

    `meters` are for a caller that may be in a thread of somebody else, where none is; `failed` hears of an error that
    who reads may be told of as text alone.
    """
    import pyarrow as pa

    tally = _Tally(Scan(handle, options.get("fragments")), active_meters() or meters)
    with tally.taking(handle.uri):
        reader = handle.scanner(**options, **tally.scan.options).to_reader()

    def batches() -> Iterator[pa.RecordBatch]:
        while True:
            try:
                with tally.taking(handle.uri):
                    batch = next(reader, None)
            except Exception as error:
                if failed is not None:
                    failed(error)
                raise
            if batch is None:
                return
            yield batch

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


class _Tally:
    """What a scan has made so far. Lance reads ahead, so between two batches it goes on."""

    def __init__(self, scan: Scan, meters: Meters) -> None:
        self.scan = scan
        self._meters = meters
        self._made = self._charged = 0
        self._last: Window | None = None

    @contextmanager
    def taking(self, uri: str) -> Iterator[None]:
        window = Window("scan", uri, steps=0).begin(self._last)
        try:
            yield
        finally:
            self._made += window.stop()
            hops = max(self._charged, min(self._made, self.scan.steps)) if self._made else 0
            with on_behalf(self._meters):
                window.charge(hops - self._charged)
            self._charged, self._last = hops, window


def deletions(handle: LanceDataset, fragments: Iterable[LanceFragment]) -> int:
    """Steps until Lance has the deletion vectors of fragments. It keeps them, as it keeps what it learnt of files."""
    vectors = [(f.fragment_id, f.metadata.deletion_file) for f in fragments]
    return int(bool(_unread(handle, [vector.path(number) for number, vector in vectors if vector is not None])))


def reading(handle: LanceDataset, fragments: Iterable[LanceFragment], *, opened_first: bool = False) -> int:
    """Steps to read rows of fragments: a long file's end and what it says about pages come before the pages.

    Some readers open even a short file before they read it.
    """
    sizes = {str(file.path): file.file_size_bytes or 0 for f in fragments for file in f.data_files()}
    unread = _unread(handle, sizes)
    if any(sizes[path] > AT_ONCE for path in unread):
        return 3
    return 2 if unread and opened_first else 1


def sending(files: Iterable[DataFile]) -> tuple[int, bool]:
    """Steps to write data files, one after the other, and whether no two of the requests ran at once."""
    long = [(file.file_size_bytes or 0) >= WHOLE for file in files]
    return sum(3 if one else 1 for one in long), not any(long)


def opened_by(handle: LanceDataset, known: set[str], *, by_copy: bool = False) -> None:
    """Say which files were read by the session that a handle belongs to; it is added to.

    Of a handle that reads by a copy, Lance's statistics say nothing about what was read elsewhere.
    """
    _read_by[handle] = known
    if by_copy:
        _by_copy.add(handle)


def of_a_table(handle: LanceDataset) -> bool:
    """Whether a session opened it: what is asked of a copy on this machine is no request."""
    return handle in _read_by


def _unread(handle: LanceDataset, paths: Collection[str]) -> Collection[str]:
    """Those that the session has not read so far. From now on it has."""
    known = _read_by.get(handle)
    if known is None:
        return paths
    unread = [path for path in paths if path not in known]
    if len(known) + len(unread) > KNOWN:
        known.clear()
    known.update(unread)
    return unread


# -- the counter ------------------------------------------------------------------------------------------------------


def start_counting() -> None:
    """Only stores that Lance opens after this are counted."""
    global _recording
    with _recorder:
        if not _recording:
            import lance.lance as native

            native.register_lance_metrics_recorder()
            _recording = True


def _counts(age: float) -> dict[str, int]:
    """What the counter says, or said so many seconds ago at most."""
    global _reading
    now = time.perf_counter()
    taken, counts = _reading
    if now - taken <= age:
        return counts
    counts = _read()
    if now > _reading[0]:
        _reading = now, counts
    return counts


def _read() -> dict[str, int]:
    counts = {line: position * RANGE for position, line in enumerate((*LOCAL, ""))}
    if _recording:
        import lance.lance as native

        for point in native.snapshot_lance_metrics():
            if point.name == COUNTER:
                counts[_line(f"{point.attributes['base']}://")] += int(point.value or 0)
    return counts


def _line(uri: str) -> str:
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return "file"
    return scheme if scheme in LOCAL else ""
