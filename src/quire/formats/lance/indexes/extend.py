"""Letting indexes cover rows that came, or moved, after they were built.

An index is a set of segments. What no segment covers gets a segment of its own, which takes over the segments that are
not much larger, so that their number grows with the logarithm of the rows and so does what a row costs.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput
from quire.formats import IndexSpec, Part, Place
from quire.formats.lance.indexes.build import OPTIONS, VECTOR, build, coverage, files_of, normalise, settled
from quire.formats.lance.indexes.distributed import Build
from quire.formats.lance.staging.stager import Stager

if TYPE_CHECKING:
    from lance import LanceDataset

TIMES = 2
"""A new segment takes over those with up to this many times its rows."""
SEGMENTS = 8
"""No index keeps more."""


@dataclass(frozen=True)
class Extension:
    """A segment to build."""

    spec: IndexSpec
    fragments: tuple[int, ...]
    rows: int
    replaces: tuple[Any, ...]


@dataclass(frozen=True)
class Segment:
    """A segment that was built, with the data files it covers, to see whether it still fits a newer base."""

    name: str
    index: Any
    replaces: tuple[Any, ...]
    covers: Mapping[int, tuple[str, ...]]

    def fits(self, fragments: Mapping[int, tuple[str, ...]]) -> bool:
        return all(fragments.get(n) == paths for n, paths in self.covers.items())


def plan(handle: LanceDataset, rows: Mapping[int, int], leave: Collection[str] = ()) -> list[Extension]:
    """What is to be built so that every index covers the fragments `rows`, given with their numbers of rows."""
    found: list[Extension] = []
    for described, segments in coverage(handle):
        spec = spec_of(described)
        if spec is None or spec.name in leave:
            continue
        living = sorted(
            ((stored, ids & rows.keys()) for stored, ids in segments), key=lambda s: sum(rows[n] for n in s[1])
        )
        bare = set(rows).difference(*(ids for _, ids in living))
        size = sum(rows[n] for n in bare)
        if not size:
            continue
        replaces = []
        for i, (stored, ids) in enumerate(living):
            weight = sum(rows[n] for n in ids)
            if weight > TIMES * size and len(living) - i < SEGMENTS:
                break
            replaces.append(stored)
            bare |= ids
            size += weight
        if size >= _fewest(spec):
            found.append(Extension(spec, tuple(sorted(bare)), size, tuple(replaces)))
    return found


def carry_out(stager: Stager, handle: LanceDataset, extension: Extension, table: str) -> Segment | None:
    """Build one segment; None when Lance refuses to, as it may for an odd column."""
    try:
        index = build(stager, handle, extension.spec, extension.fragments, extension.rows, table)
    except InvalidInput:
        return None
    return _segment(handle, extension, index)


def part(place: Place, handle: LanceDataset, extension: Extension, table: str) -> Part:
    """The same for another process."""
    spec = settled(extension.spec, handle, extension.rows)
    return Attempt(Build(place, spec, extension.fragments, table))


@dataclass(frozen=True)
class Attempt:
    """Builds one segment, or answers with nothing when Lance refuses to."""

    build: Build

    def __call__(self) -> bytes:
        try:
            return self.build()
        except InvalidInput:
            return b""


def taken(stager: Stager, handle: LanceDataset, extension: Extension, answer: bytes) -> Segment | None:
    """What such a part built."""
    if not answer:
        return None
    index = pickle.loads(answer)
    stager.files.extend(files_of(index))
    return _segment(handle, extension, index)


def _segment(handle: LanceDataset, extension: Extension, index: Any) -> Segment:
    paths = {int(f.fragment_id): tuple(str(x.path) for x in f.metadata.files) for f in handle.get_fragments()}
    covers = {n: paths[n] for n in extension.fragments}
    return Segment(extension.spec.name, index, extension.replaces, covers)


def apply(stager: Stager, handle: LanceDataset, segments: Sequence[Segment]) -> LanceDataset:
    """A staged version: `handle` with the segments instead of those they replace."""
    from lance import LanceOperation as Op

    if not segments:
        return handle
    return stager.detach(handle, Op.CreateIndex([s.index for s in segments], [r for s in segments for r in s.replaces]))


def spec_of(described: Any) -> IndexSpec | None:
    """How a stored index was built; None for a kind that Quire does not build."""
    kind = str(described.index_type).upper()
    kind = {"LABELLIST": "LABEL_LIST"}.get(kind, kind)
    if len(described.field_names) != 1:
        return None
    try:
        kind = normalise(kind)
    except InvalidInput:
        return None
    return IndexSpec(str(described.field_names[0]), kind, str(described.name), _settings(kind, described.details or {}))


def _settings(kind: str, details: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "INVERTED":
        return {n: details[n] for n in OPTIONS["INVERTED"] if details.get(n) is not None}
    if kind not in VECTOR:
        return {}
    compression, graph = details.get("compression") or {}, details.get("hnsw") or {}
    known = {
        "metric": str(details.get("metric_type", "L2")).lower(),
        "num_bits": compression.get("num_bits"),
        "num_sub_vectors": compression.get("num_sub_vectors"),
        "m": graph.get("max_connections"),
        "ef_construction": graph.get("construction_ef"),
    }
    return {name: value for name, value in known.items() if value is not None}


def _fewest(spec: IndexSpec) -> int:
    """Rows that it takes to build an index: product quantisation learns its codes from at least as many."""
    return 1 << int(spec.options.get("num_bits", 8)) if spec.kind.endswith("PQ") else 1
