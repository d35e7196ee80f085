"""The sources of a pipeline that feed types of the graph: its own loader reads them, as they were mapped."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.graph import load as loading
from quire.graph.catalog import Catalog, Entity
from quire.graph.integrity.changes import catalog_of
from quire.graph.load.sources import Part
from quire.pipeline.files import Piece
from quire.pipeline.frames import local_batches, spark_frame
from quire.pipeline.mapping import Feed, Mode
from quire.pipeline.parts import Batches, Mapped
from quire.pipeline.rows import Mapper
from quire.spark import jobs, types
from quire.spark.graph import load_into
from quire.spark.graph.inputs import inputs_of
from quire.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.load.receipt import LoadReceipt
    from quire.pipeline.run import _Run


def load(
    run: _Run, mode: Mode, feeds: Sequence[Feed], given: Sequence[tuple[Feed, Piece]], frames: Mapping[str, Any]
) -> LoadReceipt:
    """Load these feeds into the transaction of a run."""
    assert mode != "insert"
    catalog = catalog_of(run.tx)
    sources: list[Any] = [Part(Mapped(f, p), p.path, "columns", _entity(f, catalog)) for f, p in given]
    for feed in feeds:
        if feed.frame is not None:
            sources.append(_framed(run.session, feed, frames[feed.frame], _entity(feed, catalog)))
    care = run.care
    how: dict[str, Any] = {"max_errors": care.most, "skip_rejects": care.skip, "embedder": run.embedder}
    if run.session is not None:
        return load_into(run.session, run.tx, inputs_of(sources, catalog), mode, rejects=care.place, **how)
    if care.place is None:
        return loading.load(run.tx, sources, mode, complete=True, progress=_telling(run), **how)
    with tempfile.TemporaryDirectory(prefix="quire-rejects-") as folder:
        path = Path(folder, "graph.ndjson")
        try:
            return loading.load(run.tx, sources, mode, complete=True, progress=_telling(run), rejects=path, **how)
        finally:
            if path.exists() and path.stat().st_size:
                place = Store.open(care.place, care.options)
                place.put(f"{care.run}-graph-{mode}.ndjson", path.read_bytes())


def _telling(run: _Run) -> Any:
    """Tells of files as they are read, each once it is begun."""
    begun: list[str] = []

    def tell(name: str, rows: int) -> None:
        if not begun or begun[-1] != name:
            begun.append(name)
        run.bar.tell(f"read {os.path.basename(name)}", len(begun) - 1)

    return tell


def _entity(feed: Feed, catalog: Catalog) -> Entity:
    return catalog.node(feed.node) if feed.node is not None else catalog.edge(str(feed.edge))


def _framed(session: Any | None, feed: Feed, frame: Any, entity: Entity) -> Part:
    """A frame as a part of a load, mapped."""
    name = f"frame {feed.frame}"
    if session is None:
        return Part(Mapped(feed, Batches(name, list(local_batches(frame, name)))), name, "columns", entity)
    return Part(_mapped_frame(feed, spark_frame(frame, name)), name, "columns", entity)


def _mapped_frame(feed: Feed, frame: Any) -> Any:
    """A frame of Spark whose rows a feed has mapped."""
    if feed.columns is None and feed.where is None:
        return frame
    empty = types.arrow_schema(frame.schema).empty_table().to_batches()
    schema = types.arrow_schema(frame.schema)
    import pyarrow as pa

    nothing = empty[0] if empty else pa.RecordBatch.from_pylist([], schema)
    with Mapper(feed, _refuse) as mapper:
        target = types.readable(mapper.shape(nothing), feed.target)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np

        with Mapper(feed, _refuse) as mapper:
            for batch in batches:
                for found, _ in mapper(batch, np.arange(batch.num_rows)):
                    yield from types.converted([found], target, feed.target)

    return jobs.mapped(frame, work, types.spark_schema(target))


def _refuse(line: int, rule: str, column: str | None, said: str, row: Any) -> None:
    from quire.errors import InvalidInput

    raise InvalidInput(said, next="Correct the frame or the mapping.", column=column)
