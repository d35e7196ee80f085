"""Indexes that other processes build: each writes the index of some fragments, and one puts them together.

The result is one segment, as if one process had built it. Where parts of an index cannot be put together, because each
would have learnt other codes, one process elsewhere builds all of it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.formats import IndexSpec, Place, Run
from quire.formats.lance.indexes.build import SCALAR, files_of, make, refusing, settled
from quire.formats.lance.metering import metered
from quire.formats.lance.session import translating
from quire.formats.lance.staging.stager import Stager
from quire.formats.lance.task_handles import open_alone
from quire.formats.tasks import grouped

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

PART_ROWS = 1 << 20
"""Rows that one process indexes, if they lie in several fragments."""
LEARNT = {"metric", "num_partitions", "num_sub_vectors", "sample_rate", "max_iters"}
"""Options of a vector index whose centroids and codes can be learnt apart from it."""
SAMPLE = 256
"""Rows for each centroid and each code from which they are learnt, as in Lance."""


@dataclass(frozen=True)
class Build:
    """Writes an index, or the part of one, over some fragments."""

    place: Place
    spec: IndexSpec
    fragments: tuple[int, ...]
    table: str
    model: bytes = b""

    def __call__(self) -> bytes:
        return pickle.dumps(make(open_alone(self.place), self.spec, self.fragments, self.table, **_opened(self.model)))


@dataclass(frozen=True)
class Merge:
    """Puts parts of an index together."""

    place: Place
    spec: IndexSpec
    parts: tuple[bytes, ...]
    table: str

    def __call__(self) -> bytes:
        own = open_alone(self.place)
        given = [pickle.loads(part) for part in self.parts]  # as `Build` wrote them for this very call
        with metered("index", own.uri, steps=2), translating(f"index {self.spec.name} of {self.table}"):
            return pickle.dumps(refusing(lambda: own.merge_existing_index_segments(given), self.spec, self.table)())


@dataclass(frozen=True)
class Learn:
    """Learns what the parts of a vector index must have in common: its centroids and, for IVF_PQ, its codes."""

    place: Place
    spec: IndexSpec
    table: str

    def __call__(self) -> bytes:
        from lance.indices import IndicesBuilder

        own, options = open_alone(self.place), self.spec.options
        how = {"sample_rate": options.get("sample_rate", SAMPLE), "max_iters": options.get("max_iters", 50)}

        def learn() -> dict[str, pa.Array]:
            builder = IndicesBuilder(own, self.spec.column)
            metric = str(options.get("metric", "l2")).lower()
            ivf = builder.train_ivf(options["num_partitions"], distance_type=metric, **how)
            if self.spec.kind == "IVF_FLAT":
                return {"ivf_centroids": ivf.centroids}
            codes = builder.train_pq(ivf, options["num_sub_vectors"], **how)
            return {"ivf_centroids": ivf.centroids, "pq_codebook": codes.codebook}

        with metered("index", own.uri, steps=2), translating(f"index {self.spec.name} of {self.table}"):
            return _closed(refusing(learn, self.spec, self.table)())


def build_by(run: Run, stager: Stager, handle: LanceDataset, spec: IndexSpec, table: str) -> Any:
    """An index over all rows of a version, built by others. No manifest names it yet."""
    place = stager.session.place(handle)
    fragments = [(int(f.fragment_id), int(f.metadata.num_rows)) for f in handle.get_fragments()]
    rows = sum(count for _, count in fragments)
    spec = settled(spec, handle, rows)
    groups = grouped(fragments, PART_ROWS)
    if len(groups) < 2 or not divisible(spec, rows):
        [told] = run([Build(place, spec, tuple(number for number, _ in fragments), table)])
    else:
        model = b"" if spec.kind in SCALAR else run([Learn(place, spec, table)])[0]
        parts = run([Build(place, spec, tuple(group), table, model) for group in groups])
        [told] = run([Merge(place, spec, tuple(parts), table)])
    index = pickle.loads(told)  # Lance has no other form for it; it comes from our own task
    stager.files.extend(files_of(index))
    return index


def divisible(spec: IndexSpec, rows: int) -> bool:
    """Whether parts of such an index can be built apart and be put together to what one process would have built."""
    if spec.kind in SCALAR:
        return True
    if spec.kind not in ("IVF_FLAT", "IVF_PQ") or not LEARNT.issuperset(spec.options):
        return False
    sample = int(spec.options.get("sample_rate", SAMPLE))
    fewest = sample * max(int(spec.options["num_partitions"]), 256 if spec.kind == "IVF_PQ" else 1)
    return rows >= fewest


def _closed(arrays: dict[str, pa.Array]) -> bytes:
    """Arrays of different lengths as bytes."""
    import pyarrow as pa

    parts: list[tuple[str, bytes]] = []
    for name, array in arrays.items():
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, pa.schema([(name, array.type)])) as writer:
            writer.write_batch(pa.record_batch([array], names=[name]))
        parts.append((name, sink.getvalue()))
    return pickle.dumps(parts)


def _opened(model: bytes) -> dict[str, Any]:
    import pyarrow as pa

    if not model:
        return {}
    parts: Sequence[tuple[str, bytes]] = pickle.loads(model)
    # Codes stay in the order of rows until the parts are together: only so can they be merged.
    return {
        **{name: pa.ipc.open_stream(data).read_all().column(0).combine_chunks() for name, data in parts},
        "skip_transpose": True,
    }
