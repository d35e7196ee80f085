"""Whether a mapping fits the lake and the headers of the files: all of it is looked at before the first row is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.errors import ColumnNotFound, InvalidInput, QuireError
from quire.graph.integrity.changes import catalog_of
from quire.graph.load.rejects import Rejects
from quire.graph.load.typed import Typist
from quire.graph.names import nearest
from quire.pipeline.map_rows import Fitter, Mapper, explained
from quire.pipeline.mapping import Feed, Pipeline
from quire.pipeline.task import Piece
from quire.rowfiles import files

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake import Transaction


def check(tx: Transaction, plan: Pipeline, sources: Sequence[tuple[Feed, Piece]]) -> None:
    """Raise what does not fit, of all sources together. One file stands for all that feed the same."""
    first: dict[int, Piece] = {}
    for feed, piece in sources:
        first.setdefault(id(feed), piece)
    found = [(number, e) for number, feed in enumerate(plan.sources, 1) for e in _wrong(tx, feed, first.get(id(feed)))]
    if len(found) == 1:
        raise found[0][1]
    if found:
        told = [f"Source {number} ({plan.sources[number - 1].target}): {error}" for number, error in found]
        raise InvalidInput(
            f"The pipeline does not fit in {len(told)} places. {' '.join(told)}",
            next="Correct the mapping or the files; no row was read.",
            problems=told,
        )


def _wrong(tx: Transaction, feed: Feed, piece: Piece | None) -> Iterator[QuireError]:
    try:
        fits = _Graph(tx, feed) if feed.is_graph else _Table(tx, feed)
    except QuireError as error:  # there is no such table or type
        yield error
        return
    named = list(fits.named())
    yield from named
    header = None if piece is None or named else _header(piece)
    if piece is None or header is None:
        return
    try:
        with explained(piece.path), Mapper(feed, _ignore) as mapper:
            shape = mapper.shape(header)
            mapper.finish()
        fits.take(shape)
    except QuireError as error:
        error.message = " ".join([error.message, *(f"{doubt}." for doubt in files.doubts([piece]))])
        yield error


class _Table:
    def __init__(self, tx: Transaction, feed: Feed) -> None:
        self.feed, self.schema = feed, tx[feed.target].schema

    def named(self) -> Iterator[QuireError]:
        """Columns that the mapping names and the table does not have."""
        for name in dict.fromkeys([*(feed_columns(self.feed)), *(self.feed.keys or ())]):
            if name not in self.schema.names:
                yield ColumnNotFound(
                    f"Table {self.feed.target!r} has no column {name!r}.",
                    next=nearest(name, self.schema.names) or f"It has {', '.join(self.schema.names)}.",
                    table=self.feed.target,
                    column=name,
                )

    def take(self, shape: pa.Schema) -> None:
        """Whether columns like these can be written to the table at all."""
        fitter = Fitter(self.feed.target, self.schema, (), _ignore)
        list(fitter(_empty(shape), np.empty(0, np.int64)))


class _Graph:
    def __init__(self, tx: Transaction, feed: Feed) -> None:
        catalog = catalog_of(tx)
        self.entity = catalog.node(feed.node) if feed.node is not None else catalog.edge(str(feed.edge))
        self.typist = Typist(catalog, self.entity, Rejects(1, None, False), None)
        self.feed = feed

    def named(self) -> Iterator[QuireError]:
        if self.feed.columns is not None:
            yield from self._check(feed_columns(self.feed))

    def take(self, shape: pa.Schema) -> None:
        for error in self._check(list(shape.names)):
            raise error

    def _check(self, names: list[str]) -> Iterator[QuireError]:
        said = self.typist.check_columns(names)
        if said is not None:
            yield InvalidInput(said, next="Correct the mapping or the file.", target=self.feed.target)


def feed_columns(feed: Feed) -> list[str]:
    return list(feed.columns or ())


def _header(piece: Piece) -> pa.RecordBatch | None:
    """The columns of a file, without rows; what cannot be read is told when it is read."""
    with suppress(QuireError):
        return files.header(piece)
    return None


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema)


def _ignore(*_: Any) -> None:
    """There is no row to reject."""
