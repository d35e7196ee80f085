"""The sources of a pipeline that feed types of the graph: its own loader reads them, as they were mapped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput
from quire.graph import load as loading
from quire.graph.catalog import Catalog, Entity
from quire.graph.integrity.changes import catalog_of
from quire.graph.load.sources import Part
from quire.graph.load.staged.inputs import Framed
from quire.pipeline.map_rows import Mapper, explained, refuse_lacking
from quire.pipeline.mapping import Feed, Mode
from quire.pipeline.task import Batches, Mapped, Piece, exactly, local_batches, spark_frame
from quire.spark import types

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.load.receipt import LoadReceipt
    from quire.pipeline.run import PipelineRun


def in_order(feeds: Sequence[tuple[Mode, Feed]]) -> list[tuple[Mode, list[Feed]]]:
    """Feeds as they are loaded, those of one mode together: nodes before the edges between them, whatever the order.

    What is overwritten is so at once, nodes with edges: the edges that were there would lose their ends otherwise.
    """
    if len({mode for mode, _ in feeds}) < 2:
        groups = [feeds]
    else:
        kept = [(mode, feed) for mode, feed in feeds if mode != "overwrite"]
        groups = [
            [(mode, feed) for mode, feed in kept if feed.node is not None],
            [(mode, feed) for mode, feed in feeds if mode == "overwrite"],
            [(mode, feed) for mode, feed in kept if feed.node is None],
        ]
    found: list[tuple[Mode, list[Feed]]] = []
    for group in groups:
        for mode in dict.fromkeys(mode for mode, _ in group):
            found.append((mode, [feed for other, feed in group if other == mode]))
    return found


def load(
    run: PipelineRun,
    mode: Mode,
    feeds: Sequence[Feed],
    given: Sequence[tuple[Feed, Piece]],
    frames: Mapping[str, Any],
    number: int,
) -> LoadReceipt:
    """Load these feeds into the transaction of a run; `number` tells its rejects from those of other loads."""
    if mode == "insert":
        raise InvalidInput("Mode insert works for tables only.", next="Use append, merge or overwrite.")
    catalog = catalog_of(run.tx)
    parts = [(f, _part(f, p, _entity(f, catalog))) for f, p in given]
    for feed in feeds:
        if feed.frame is not None:
            parts.append((feed, _framed(run.session, feed, frames[feed.frame], _entity(feed, catalog))))
    name = f"graph-{mode}-{number}" if number else f"graph-{mode}"
    try:
        return _load(run, mode, [part for _, part in parts], name)
    finally:
        # Also when rows were rejected: a column that is nowhere explains all of them.
        refuse_lacking([(f, part.data.met) for f, part in parts if isinstance(part.data, Mapped)])


def _load(run: PipelineRun, mode: Any, sources: list[Any], name: str) -> LoadReceipt:
    care = run.care
    return loading.load(
        run.tx,
        sources,
        mode,
        max_errors=care.most,
        rejects=f"{care.folder.address}/" if care.folder.writes else None,  # a folder, whatever its name
        skip_rejects=care.skip,
        progress=_telling(run) if run.session is None else None,
        embedder=run.embedder,
        complete=True,
        session=run.session,
        label=name,
    )


def _telling(run: PipelineRun) -> Any:
    """Tells of files as they are read, each once it is begun."""
    begun: list[str] = []

    def tell(name: str, done: int, total: int | None) -> None:
        if not begun or begun[-1] != name:
            begun.append(name)
        run.bar.tell(f"read {os.path.basename(name)}", len(begun) - 1)

    return tell


def _part(feed: Feed, piece: Piece, entity: Entity) -> Part:
    """A piece of a file as a part of a load, mapped."""
    kinds = {prop.name: prop.type.arrow() for prop in entity.defined.properties}
    return Part(Mapped(feed, exactly(feed, piece, kinds)), piece.path, "columns", entity)


def _entity(feed: Feed, catalog: Catalog) -> Entity:
    return catalog.node(feed.node) if feed.node is not None else catalog.edge(str(feed.edge))


def _framed(session: Any | None, feed: Feed, frame: Any, entity: Entity) -> Part:
    """A frame as a part of a load, mapped."""
    name = f"frame {feed.frame}"
    if session is None:
        return Part(Mapped(feed, Batches(name, list(local_batches(frame, name)))), name, "columns", entity)
    given = spark_frame(frame, name)
    rows = FrameRows(feed, name, tuple(_columns(feed, given, name)))
    return Part(Framed(given, rows), name, "columns", entity)


@dataclass(frozen=True)
class FrameRows:
    """Makes rows of a type of those of a frame, in the tasks that read it."""

    feed: Feed
    name: str
    columns: tuple[str, ...]

    def of(self, batches: Iterable[pa.RecordBatch]) -> Mapped:
        return Mapped(self.feed, Batches(self.name, batches))


def _columns(feed: Feed, frame: Any, name: str) -> list[str]:
    """The columns that a frame has once it is mapped. Mistakes of the mapping are told here, before any task runs."""
    if feed.columns is None and feed.where is None:
        return list(frame.columns)
    import pyarrow as pa

    nothing = pa.RecordBatch.from_pylist([], types.arrow_schema(frame.schema))
    with explained(name), Mapper(feed, _ignore) as mapper:
        names = list(mapper.shape(nothing).names)
        mapper.finish()
    return names


def _ignore(line: int, rule: str, column: str | None, said: str, row: Any) -> None:
    """There are no rows to reject."""
