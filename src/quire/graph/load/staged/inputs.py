"""What tasks read for a load: files, each by a task of its own, and frames of Spark, of which every partition is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from quire.errors import InvalidInput
from quire.graph.catalog import Catalog, Entity
from quire.graph.load.sources import Numbered, Part, parts
from quire.lake import engines
from quire.rowfiles.files import RowFile
from quire.rowfiles.kinds import Format, Kind
from quire.rowfiles.rejects import absolute
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa


class RowMapper(Protocol):
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

    frame: Any
    rows: RowMapper


@dataclass(frozen=True)
class Input:
    """Files, or a frame with its type."""

    parts: tuple[Part, ...] = ()
    frame: Any = None
    entity: Entity | None = None
    rows: RowMapper | None = None
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
    if engines.is_distributed(source):
        given = catalog.node(type) if type is not None else catalog.edge(edge) if edge is not None else None
        if given is None:
            raise InvalidInput("The type of these columns is unknown.", next='Give type="…" or edge="…".')
        if getattr(source, "isStreaming", False):
            raise InvalidInput(
                "A streaming DataFrame cannot be loaded at once.",
                next="Load its batches: stream.writeStream.foreachBatch(lambda batch, n: graph.load(batch, …)).",
            )
        return [Input(frame=source, entity=given)]
    if isinstance(source, Mapping):
        return [one for name, some in source.items() for one in _of_type(name, some, catalog, format, options)]
    if isinstance(source, list | tuple) and any(engines.is_distributed(one) for one in source):
        return [found for one in source for found in inputs_of(one, catalog, type, edge, format, options)]
    named = parts(source, catalog, type, edge, format, options)
    framed = [Input(frame=part.data, entity=part.entity) for part in named if engines.is_distributed(part.data)]
    framed += [
        Input(frame=part.data.frame, entity=part.entity, rows=part.data.rows)
        for part in named
        if isinstance(part.data, Framed)
    ]
    named = [part for part in named if not engines.is_distributed(part.data) and not isinstance(part.data, Framed)]
    if any(part.path is None and not isinstance(part.data, Numbered) for part in named):
        raise InvalidInput(
            "On Spark, rows must come from files or Spark DataFrames.",
            next="Make a frame with spark.createDataFrame, or load them in this process.",
        )
    # A worker may be in another directory. In errors a file is called as it was given.
    files = tuple(p if p.path is None else replace(p, data=replace(p.data, path=absolute(p.path))) for p in named)
    return [*([Input(parts=files)] if files else []), *framed]


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


def taken_apart(session: Any | None, given: Sequence[Part]) -> list[Part]:
    """The same parts, large files of Parquet and of lines as shares that several tasks read.

    Tasks count the lines before each share first, so that every row is told of by its line in the file.
    """
    found: list[list[Part]] = [
        [replace(part, data=share) for share in shares] if shares else [part]
        for part, shares in zip(given, run_parallel([partial(_shares, part) for part in given]), strict=True)
    ]
    _number(session, [some for some in found if len(some) > 1 and some[0].data.kind is Kind.jsonl])
    return [part for some in found for part in some]


def _shares(part: Part) -> list[RowFile]:
    return part.data.shares() if isinstance(part.data, RowFile) else []


def _number(session: Any | None, files: Sequence[list[Part]]) -> None:
    """Tell the shares of each file how many lines come before them."""
    every = [part.data for parts_ in files for part in parts_[:-1]]
    if not every:
        return
    counted = iter([head["lines"] for head, _ in engines.tasks_on(session)(len(every), _CountLines(every))])
    for parts_ in files:
        before = 0
        for position, part in enumerate(parts_):
            share = replace(part.data.share, before=before)
            parts_[position] = replace(part, data=replace(part.data, share=share))
            before += next(counted) if position + 1 < len(parts_) else 0


@dataclass(frozen=True)
class _CountLines:
    """How many lines shares of files have."""

    files: Sequence[RowFile]

    def __call__(self, number: int) -> engines.Answer:
        return {"lines": self.files[number].count_lines()}, b""


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
