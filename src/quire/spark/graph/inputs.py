"""What a load on Spark reads: files, each by a task of its own, and frames, of which every partition is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from quire.errors import InvalidInput
from quire.graph.catalog import Catalog, Entity
from quire.graph.load.shares import SHARE, byte_ranges, count_lines, row_groups
from quire.graph.load.sources import Format, Numbered, Part, explained, parts
from quire.spark import jobs
from quire.store import run_parallel
from quire.store.inputs import open_input, size_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Rows(Protocol):
    """Makes rows of a type of the rows of a frame, in the tasks that read them: what a pipeline maps."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that they have then."""
        ...

    @property
    def name(self) -> str:
        """How the frame is called in errors."""
        ...

    def of(self, batches: Iterable[pa.RecordBatch]) -> Numbered: ...


@dataclass(frozen=True)
class Framed:
    """A frame whose rows are not yet those of a type."""

    frame: DataFrame
    rows: Rows


@dataclass(frozen=True)
class Input:
    """Files, or a frame with its type."""

    parts: tuple[Part, ...] = ()
    frame: DataFrame | None = None
    entity: Entity | None = None
    rows: Rows | None = None
    """What makes its rows those of the type; None where they are."""

    @property
    def columns(self) -> list[str]:
        """The columns of a frame as the type meets them."""
        assert self.frame is not None
        return list(self.frame.columns if self.rows is None else self.rows.columns)


def inputs_of(
    source: Any,
    catalog: Catalog,
    type: str | None = None,
    edge: str | None = None,
    format: Format | None = None,
    options: Mapping[str, str] | None = None,
) -> list[Input]:
    """Everything that a source consists of, in order. `options` are those of the store that files in buckets lie in."""
    if not catalog:
        raise InvalidInput("There is no graph here yet.", next="Apply a schema first.")
    if _is_frame(source):
        given = catalog.node(type) if type is not None else catalog.edge(edge) if edge is not None else None
        if given is None:
            raise InvalidInput("Columns do not say which type they hold.", next='Say type="…" or edge="…".')
        if getattr(source, "isStreaming", False):
            raise InvalidInput(
                "A streaming DataFrame has no end, so it is not one load.",
                next="Load its batches: stream.writeStream.foreachBatch(lambda batch, n: graph.load(batch, …)).",
            )
        return [Input(frame=source, entity=given)]
    if isinstance(source, Mapping):
        return [one for name, some in source.items() for one in _of_type(name, some, catalog, format, options)]
    if isinstance(source, list | tuple) and any(_is_frame(one) for one in source):
        return [found for one in source for found in inputs_of(one, catalog, type, edge, format, options)]
    named = parts(source, catalog, type, edge, format, options)
    framed = [Input(frame=part.data, entity=part.entity) for part in named if _is_frame(part.data)]
    framed += [
        Input(frame=part.data.frame, entity=part.entity, rows=part.data.rows)
        for part in named
        if isinstance(part.data, Framed)
    ]
    named = [part for part in named if not _is_frame(part.data) and not isinstance(part.data, Framed)]
    if any(not isinstance(part.data, str | Numbered) for part in named):
        raise InvalidInput(
            "On Spark rows come from files or from frames of Spark.",
            next="Make a frame with spark.createDataFrame, or load them in this process.",
        )
    # A worker may be in another directory. In errors a file is called as it was given.
    files = tuple(replace(p, data=absolute(p.data)) if isinstance(p.data, str) else p for p in named)
    return [*([Input(parts=files)] if files else []), *framed]


def _is_frame(source: Any) -> bool:
    return hasattr(source, "mapInArrow")


def _of_type(
    name: str, source: Any, catalog: Catalog, format: Format | None, options: Mapping[str, str] | None
) -> list[Input]:
    kinds = [e.kind for e in catalog.entities if e.name == name]
    if not kinds:
        known = ", ".join(e.name for e in catalog.entities)
        raise InvalidInput(f"There is no type {name!r}.", next=f"Types are {known}.")
    if len(kinds) > 1:
        raise InvalidInput(f"{name!r} is a node type and an edge type.", next="Load it alone, with type= or edge=.")
    if kinds[0] == "node":
        return inputs_of(source, catalog, name, None, format, options)
    return inputs_of(source, catalog, None, name, format, options)


def taken_apart(spark: Any, given: Sequence[Part]) -> list[Part]:
    """The same parts, large files of Parquet and of lines as shares that several tasks read.

    Tasks count the lines before each share first, so that every row is told of by its line in the file.
    """
    sizes = run_parallel([partial(_size, part) for part in given])
    found: list[list[Part]] = []
    for part, size in zip(given, sizes, strict=True):
        if size <= SHARE:
            found.append([part])
            continue
        if part.format == "parquet":
            with explained(part.data), open_input(part.data, part.options) as stream:
                shares = row_groups(stream, SHARE)
        else:
            shares = byte_ranges(size, SHARE)
        found.append([replace(part, share=share) for share in shares] or [part])
    _number(spark, [some for some in found if some[0].format == "ndjson" and some[0].share is not None])
    return [part for some in found for part in some]


def _size(part: Part) -> int:
    """Bytes of a file that can be taken apart; 0 for everything else."""
    if not isinstance(part.data, str) or part.format not in ("parquet", "ndjson") or part.compressed:
        return 0
    return size_of(part.data, part.options)


def _number(spark: Any, files: Sequence[list[Part]]) -> None:
    """Tell the shares of each file how many lines come before them."""
    every = [part for parts_ in files for part in parts_[:-1]]

    def count(number: int) -> jobs.Answer:
        part = every[number]
        assert part.share is not None
        with explained(part.data), open_input(part.data, part.options) as stream:
            return {"lines": count_lines(stream, part.share.start, part.share.end)}, b""

    counted = iter([head["lines"] for head, _ in jobs.on_numbers(spark, len(every), count)])
    for parts_ in files:
        before = 0
        for position, part in enumerate(parts_):
            assert part.share is not None
            parts_[position] = replace(part, share=replace(part.share, before=before))
            before += next(counted) if position + 1 < len(parts_) else 0


def absolute(path: str) -> str:
    """A path that means the same to every process of this machine."""
    return path if "://" in path else os.path.abspath(path)


def entities_of(catalog: Catalog, inputs: Sequence[Input]) -> list[Entity]:
    """The types that inputs may hold: all of them where rows say it themselves."""
    named: dict[str, Entity] = {}
    for one in inputs:
        for entity in (one.entity, *(part.entity for part in one.parts)):
            if entity is not None:
                named[entity.id] = entity
        if any(part.entity is None for part in one.parts):
            return list(catalog.entities)
    return list(named.values())
