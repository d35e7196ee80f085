"""A task that reads one part of a source, types its rows, and writes them as data files of their tables.

Rows that are only to be merged, or to be told apart by what is unique, cannot be written as they are: they go to a
file beside the table, and into the table later (`merging`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import IntegrityError, InvalidInput
from quire.formats import Place, task_table, tasks
from quire.graph.catalog import Catalog
from quire.graph.embed import OpenAIEmbedder
from quire.graph.embed.embedder import Embedder
from quire.graph.embed.fill import Vectors
from quire.graph.load.gather import LACKS, LINE, Gathered, Gathering
from quire.graph.load.merge import NEEDS
from quire.graph.load.readers import Reader
from quire.graph.load.rejects import Rejects
from quire.graph.load.row_identity import Mode, by_unique
from quire.graph.load.sources import Part
from quire.lake import engines
from quire.lake.engines import Answer
from quire.rowfiles.rejects import RejectFolder

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class How:
    """What is done with rows that break a rule."""

    most: int
    skip: bool | int
    folder: RejectFolder
    """Where they are written to."""


@dataclass(frozen=True)
class Task:
    """Reads a part, and writes what it holds. It is sent to other processes."""

    catalog: Catalog
    places: dict[str, Place]
    """By type: where its data files are written."""
    schemas: dict[str, Any]
    mode: Mode
    how: How
    dry_run: bool = False
    embedder: Embedder | None = field(default=None, repr=False)

    def __call__(self, part: Part, name: str) -> Answer:
        """What was written and what was wrong; `name` is that of the file of rejects."""
        merges = self.mode == "merge"
        with Gathering(lacks=merges) as gathering:
            rejects = Rejects(self.how.most, self.how.folder.sink(name), self.how.skip)
            seen: dict[str, int] = {}

            def tell(what: str, done: int, total: int | None) -> None:
                seen[what] = done

            vectors = Vectors(self.embedder, tell, pretend=self.dry_run)
            reader = Reader(self.catalog, gathering, rejects, tell, vectors)
            try:
                stopped = self._read(reader, part)
            finally:
                rejects.close()
            useless = stopped or (rejects.found and not rejects.skips)
            told = {
                "types": [] if useless else [self._write(one, part) for one in gathering.types.values()],
                "violations": [v.to_dict() for v in rejects.found.violations],
                "count": rejects.found.count,
                "rejected": rejects.rows,
                "by_type": dict(rejects.by_type),
                "unembedded": dict(vectors.missing),
                "seen": seen,
                "met": getattr(part.data, "met", None),
            }
            return told, b""

    def _read(self, reader: Reader, part: Part) -> bool:
        """Whether there was so much wrong that it stopped."""
        try:
            reader.read(part)
        except IntegrityError:
            return True
        return False

    def _write(self, one: Gathered, part: Part) -> dict[str, Any]:
        entity, place = one.entity, self.places[one.entity.id]
        names = entity.schema().names
        told: dict[str, Any] = {
            "type": entity.id,
            "rows": one.rows,
            "file": part.name,
            "generated": one.generated,
            "lacking": one.lacking,
            "partial": one.partial,
            "fragments": [],
            "raw": None,
            "beside": None,
            "needy": False,
        }
        if not one.rows:
            return told
        if self._is_raw(one):
            told["raw"] = task_table(place).write_beside(plain(one.read(names)))
        else:
            output = tasks.Output(place, entity.table, ("id",), mode=self._kind(), schema=self.schemas[entity.id])
            told["fragments"], _ = tasks.write_rows(output, one.read(names))
        beside = [LINE, LACKS] if self.mode == "merge" else [LINE]
        told["beside"] = task_table(place).write_beside(one.read(beside))
        if one.partial:
            told["needy"] = any(_needy(batch) for batch in one.read([LACKS]))
        return told

    def _is_raw(self, one: Gathered) -> bool:
        """Whether rows are not yet what is stored; or hold blobs that a file of rejects may have to show."""
        if one.partial or by_unique(one.entity, self.mode):
            return True
        return self.how.folder.writes and any(p.type.base == "Blob" for p in one.entity.defined.properties)

    def _kind(self) -> Any:
        return "overwrite" if self.mode == "overwrite" else "append"


def _needy(batch: pa.RecordBatch) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.starts_with(batch.column(0), NEEDS)).as_py())


def plain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in columns of no special kind: blobs are bytes."""
    import pyarrow as pa

    for batch in batches:
        fields = [pa.field(f.name, f.type) for f in batch.schema]
        yield pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def portable(session: Any | None, embedder: Embedder | None) -> Embedder | None:
    """The embedder as it can be sent to executors, or `InvalidInput` for one that cannot."""
    if isinstance(embedder, OpenAIEmbedder):
        return embedder.sent()
    try:
        engines.pickled(session, embedder)
    except (InvalidInput, pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        why = error.message if isinstance(error, InvalidInput) else f"{type(error).__name__}."
        raise InvalidInput(
            f"The embedder, a {type(embedder).__name__}, cannot be sent to executors: {why}",
            next="Give the graph one that can be pickled, or load in this process.",
        ) from None
    return embedder
