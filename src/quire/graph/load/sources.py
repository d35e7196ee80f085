"""Where rows come from: files by name or pattern, frames, tables, readers and lists of rows, one or several at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from quire.errors import InvalidInput, NotFound, QuireError
from quire.graph.catalog import Catalog, Entity
from quire.graph.names import nearest
from quire.rowfiles import inputs
from quire.rowfiles.csv import CsvForm
from quire.rowfiles.files import RowFile, buffered
from quire.rowfiles.kinds import SAY, Format, Kind, kind_named, kind_of
from quire.store.forwarded_credentials import carried

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction

Reject = Callable[[int, str, str, Any], None]
"""Called with the line, the rule, what is wrong, and the row."""


@runtime_checkable
class Numbered(Protocol):
    """Columns whose rows know their lines: what a pipeline has mapped."""

    def numbered(self, reject: Reject) -> Iterator[tuple[Any, Any]]:
        """Batches with the line of every row."""
        ...


@dataclass(frozen=True)
class Part:
    """One file, or one thing in memory. Without `entity` every row says itself which type it has."""

    data: Any
    """A file of rows, or what is in memory."""
    name: str | None
    """How it is called in errors."""
    shape: Literal["file", "rows", "columns"]
    entity: Entity | None

    @property
    def path(self) -> str | None:
        """Where it is, if it is a file that has a name."""
        return self.data.path if isinstance(self.data, RowFile) and self.data.stream is None else None


def in_form(part: Part, form: CsvForm) -> Part:
    """The same part; a file of CSV is read in this form."""
    return replace(part, data=replace(part.data, form=form)) if isinstance(part.data, RowFile) else part


def options_of(tx: Transaction) -> dict[str, str]:
    """The storage options of a lake, with which files in buckets are read, and rejects written, in any process."""
    store = tx.live.core.store
    return carried(store.scheme, store.options) if not store.is_local else {}


def parts(
    source: Any,
    catalog: Catalog,
    type: str | None,
    edge: str | None,
    format: Format | None,
    options: Mapping[str, str] | None = None,
) -> list[Part]:
    """Everything that a source consists of, in order. `options` are those of the store that files in buckets lie in.

    A file that two of the names match is there once: nobody who lists overlapping patterns means its rows twice.
    """
    if type is not None and edge is not None:
        raise InvalidInput("type= and edge= were both given.", next="Give one of them (--type, --edge).")
    kind = None if format is None else kind_named(format)
    given = catalog.node(type) if type is not None else catalog.edge(edge) if edge is not None else None
    found = _once(_parts(source, catalog, given, kind, options or {}))
    if not found:
        raise InvalidInput("There is nothing to load.", next="Name at least one file, or give rows.")
    return found


def _once(found: Iterator[Part]) -> list[Part]:
    """Without files that came before for the same type."""
    kept: dict[Any, Part] = {}
    for number, part in enumerate(found):
        named = part.path if part.path is not None and part.data.share is None else None
        path = named if named is None or inputs.is_remote(named) else os.path.abspath(named)
        kept.setdefault(number if path is None else (path, part.entity.id if part.entity else None), part)
    return list(kept.values())


def _parts(
    source: Any, catalog: Catalog, given: Entity | None, format: Kind | None, options: Mapping[str, str]
) -> Iterator[Part]:
    if isinstance(source, Part):
        yield source
    elif isinstance(source, str | os.PathLike):
        for path in _expanded(os.fspath(source), options):
            kind = _kind_of(path, format)
            file = RowFile(path, kind, options=options if inputs.is_remote(path) else {})
            yield Part(file, path, "file", given or _named_after(path, kind, catalog))
    elif isinstance(source, Mapping) and all(isinstance(k, str) for k in source) and _is_by_type(source, catalog):
        for name, rows in source.items():
            yield from _parts(rows, catalog, _typed(name, catalog), format, options)
    elif given is None and isinstance(source, Mapping) and (wrong := _no_columns(source, catalog)) is not None:
        raise wrong
    elif _is_list_of_sources(source) and (source or given is None):
        for one in source:
            yield from _parts(one, catalog, given, format, options)
    elif hasattr(source, "read") and not hasattr(source, "schema"):
        if format is None:
            raise InvalidInput("An open file has no format.", next=SAY)
        name = str(getattr(source, "name", None) or "<stream>")
        yield Part(RowFile(name, format, stream=buffered(source)), name, "file", given)
    elif source is None or isinstance(source, int | float | bytes | bytearray):
        raise InvalidInput(
            f"Cannot load a value of type {type(source).__name__}: it is not a source of rows.",
            next="Give a file, a list of dicts, a frame, Arrow data, or a dict of them by type.",
        )
    elif _is_rows(source):
        yield Part(source, None, "rows", given)
    else:
        if given is None:
            raise InvalidInput(
                "The type of these columns is unknown.",
                next='Give type= or edge= (--type, --edge), or give a dict by type: {"…": columns}.',
            )
        yield Part(source, None, "columns", given)


def _is_rows(source: Any) -> bool:
    """Rows as Python has them: a list of dicts, or something that yields them."""
    if isinstance(source, list | tuple):
        return all(isinstance(row, Mapping) for row in source)
    plain = hasattr(source, "__next__") and not hasattr(source, "__arrow_c_stream__")
    return plain and not hasattr(source, "read_next_batch")


def _is_list_of_sources(source: Any) -> bool:
    if not isinstance(source, list | tuple):
        return False
    return not source or not all(isinstance(row, Mapping) for row in source)


def _is_by_type(source: Mapping[str, Any], catalog: Catalog) -> bool:
    """Whether a mapping is by type rather than by column: `{"Person": frame, "Knows": frame}`."""
    names = {e.name for e in catalog.entities}
    return bool(source) and all(name in names for name in source)


def _no_columns(source: Mapping[Any, Any], catalog: Catalog) -> QuireError | None:
    """What is wrong with a dict that holds neither columns nor rows by the names of types."""
    if any(isinstance(source.get(kind), str) for kind in ("type", "edge")):
        return InvalidInput("The source is a single row.", next="Give a list: [{…}].")
    names = {entity.name for entity in catalog.entities}
    by_type = names & source.keys() or all(_is_source(value) for value in source.values())
    unknown = [str(name) for name in source if name not in names]
    if not by_type or not unknown:
        return None
    return NotFound(
        f"The source has rows of type {unknown[0]!r}, which does not exist.",
        next=nearest(unknown[0], names) or f"There are {', '.join(sorted(names))}.",
        type=unknown[0],
    )


def _is_source(value: Any) -> bool:
    """Whether a value of a dict holds rows or columns itself, so that it is no column."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(row, Mapping) for row in value)
    return hasattr(value, "columns") or hasattr(value, "read_next_batch")


def _typed(name: str, catalog: Catalog) -> Entity:
    found = [e for e in catalog.entities if e.name == name]
    if len(found) > 1:
        raise InvalidInput(f"{name!r} is a node type and an edge type.", next="Load it alone, with type= or edge=.")
    return found[0]


def size_of(source: Any) -> int:
    """Bytes of the files of a source; what is in memory already counts nothing."""
    return sum(inputs.size_of(path) for name in files_of(source) for path in inputs.expand(name))


def files_of(source: Any, catalog: Catalog | None = None) -> Iterator[str]:
    """The names and patterns of files that a source consists of, as they were given. Who knows the types says so: then
    a dict of columns is told from one by type."""
    if isinstance(source, str | os.PathLike):
        yield os.fspath(source)
    elif isinstance(source, Part):
        if source.path is not None:
            yield source.path
    elif isinstance(source, Mapping):
        for one in source.values() if catalog is None or _is_by_type(source, catalog) else ():
            yield from files_of(one, catalog)
    elif _is_list_of_sources(source):
        for one in source:
            yield from files_of(one, catalog)


def _expanded(path: str, options: Mapping[str, str]) -> list[str]:
    found = inputs.expand(path, "", options)
    if not found:
        raise NotFound(f"No file matches {path!r}.", next="Check the pattern.", file=path)
    return found


def _kind_of(path: str, given: Kind | None) -> Kind:
    try:
        return kind_of(path, given)
    except InvalidInput:
        if inputs.is_remote(path) or os.path.exists(path):
            raise
        raise NotFound(
            f"There is no file {path!r}.", next="Check the name; rows are given as a list of dicts.", file=path
        ) from None


def _named_after(path: str, kind: Kind, catalog: Catalog) -> Entity | None:
    """The type that a file of columns is named after: `Person.csv`. A file of JSON lines says it row by row."""
    if kind is Kind.jsonl:
        return None
    stem = PurePath(path).name.split(".")[0]
    found = [e for e in catalog.entities if e.name == stem]
    if len(found) != 1:
        raise InvalidInput(
            f"The type of the rows in {path!r} is unknown.",
            next="Give type= or edge= (--type, --edge), or name the file after its type.",
            file=path,
        )
    return found[0]
