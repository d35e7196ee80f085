"""Where rows come from: files by name or pattern, frames, tables, readers and lists of rows, one or several at once."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from quire.errors import InvalidInput, NotFound, StorageError
from quire.graph.catalog import Catalog, Entity
from quire.graph.load.shares import Share
from quire.store import inputs
from quire.store.credentials import carried

if TYPE_CHECKING:
    from quire.lake.transaction import Transaction

Format = Literal["ndjson", "csv", "parquet", "arrow"]
FORMATS: tuple[Format, ...] = ("ndjson", "csv", "parquet", "arrow")

Reject = Callable[[int, str, str, Any], None]
"""Called with the line, the rule, what is wrong, and the row."""

_SUFFIXES: dict[str, Format] = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


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
    """A path, an open binary file, or what is in memory."""
    name: str | None
    """How it is called in errors."""
    format: Format | Literal["rows", "columns"]
    entity: Entity | None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the store that a file in a bucket lies in. They hold credentials and travel with it."""
    share: Share | None = None
    """What is read of a file that several tasks read."""

    @property
    def compressed(self) -> bool:
        return isinstance(self.data, str) and PurePath(self.data).suffix.lower() in _COMPRESSED


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
        raise InvalidInput(
            "Rows are of a node type or of an edge type.", next="Say type= or edge= (--type, --edge), not both."
        )
    if format is not None and format not in FORMATS:
        raise InvalidInput(f"There is no format {format!r}.", next=f"Use one of {', '.join(FORMATS)}.")
    given = catalog.node(type) if type is not None else catalog.edge(edge) if edge is not None else None
    found = _once(_parts(source, catalog, given, format, options or {}))
    if not found:
        raise InvalidInput("There is nothing to load.", next="Name at least one file, or give rows.")
    return found


def _once(found: Iterator[Part]) -> list[Part]:
    """Without files that came before for the same type."""
    kept: dict[Any, Part] = {}
    for number, part in enumerate(found):
        named = isinstance(part.data, str) and part.share is None
        path = part.data if not named or inputs.is_remote(part.data) else os.path.abspath(part.data)
        kept.setdefault((path, part.entity.id if part.entity else None) if named else number, part)
    return list(kept.values())


def _parts(
    source: Any, catalog: Catalog, given: Entity | None, format: Format | None, options: Mapping[str, str]
) -> Iterator[Part]:
    if isinstance(source, Part):
        yield source
    elif isinstance(source, str | os.PathLike):
        for path in _expanded(os.fspath(source), options):
            kind = format or _format_of(path)
            mine = options if inputs.is_remote(path) else {}
            yield Part(path, path, kind, given or _named_after(path, kind, catalog), mine)
    elif isinstance(source, Mapping) and all(isinstance(k, str) for k in source) and _is_by_type(source, catalog):
        for name, rows in source.items():
            yield from _parts(rows, catalog, _typed(name, catalog), format, options)
    elif _is_list_of_sources(source) and (source or given is None):
        for one in source:
            yield from _parts(one, catalog, given, format, options)
    elif hasattr(source, "read") and not hasattr(source, "schema"):
        if format is None:
            raise InvalidInput("An open file has no format.", next=f"Say format= (--format): {', '.join(FORMATS)}.")
        yield Part(_binary(source), str(getattr(source, "name", None) or "<stream>"), format, given)
    elif source is None or isinstance(source, int | float | bytes | bytearray):
        raise InvalidInput(
            f"A {type(source).__name__} holds no rows.",
            next="Give a file, a list of dicts, a frame, Arrow data, or a dict of them by type.",
        )
    elif _is_rows(source):
        yield Part(source, None, "rows", given)
    else:
        if given is None:
            raise InvalidInput("Columns do not say which type they hold.", next="Say type= or edge= (--type, --edge).")
        yield Part(source, None, "columns", given)


def _binary(stream: Any) -> Any:
    """An open file as bytes: one that was opened as text has them below, or gives them."""
    if not isinstance(stream, io.TextIOBase):
        return stream
    return getattr(stream, "buffer", None) or io.BytesIO(stream.read().encode())


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


def _typed(name: str, catalog: Catalog) -> Entity:
    found = [e for e in catalog.entities if e.name == name]
    if len(found) > 1:
        raise InvalidInput(f"{name!r} is a node type and an edge type.", next="Load it alone, with type= or edge=.")
    return found[0]


def size_of(source: Any) -> int:
    """Bytes of the files of a source; what is in memory already counts nothing."""
    if isinstance(source, str | os.PathLike):
        return sum(inputs.size_of(path) for path in inputs.expand(os.fspath(source)))
    if isinstance(source, Mapping):
        return sum(size_of(one) for one in source.values())
    return sum(size_of(one) for one in source) if _is_list_of_sources(source) else 0


def _expanded(path: str, options: Mapping[str, str]) -> list[str]:
    found = inputs.expand(path, "", options)
    if not found:
        raise NotFound(f"No file matches {path!r}.", next="Check the pattern.", file=path)
    return found


def _suffixes(path: str) -> list[str]:
    found = [s.lower() for s in PurePath(path).suffixes]
    return found[:-1] if found and found[-1] in _COMPRESSED else found


def _format_of(path: str) -> Format:
    suffixes = _suffixes(path)
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        raise InvalidInput(
            f"The name {path!r} does not say what format the file has.",
            next=f"Say format= (--format): {', '.join(FORMATS)}.",
            file=path,
        )
    return _SUFFIXES[suffixes[-1]]


def _named_after(path: str, format: Format, catalog: Catalog) -> Entity | None:
    """The type that a file of columns is named after: `Person.csv`. A file of NDJSON says it row by row."""
    if format == "ndjson":
        return None
    stem = PurePath(path).name.split(".")[0]
    found = [e for e in catalog.entities if e.name == stem]
    if len(found) != 1:
        raise InvalidInput(
            f"The name {path!r} does not say which type the rows have.",
            next="Say type= or edge= (--type, --edge), or name the file after its type.",
            file=path,
        )
    return found[0]


@contextlib.contextmanager
def opened(part: Part) -> Iterator[IO[bytes] | Any]:
    """The bytes of a file, decompressed by its name."""
    import pyarrow as pa

    if not isinstance(part.data, str):
        yield part.data
        return
    compression = _COMPRESSED.get(PurePath(part.data).suffix.lower())
    with explained(part.data):
        given = inputs.open_input(part.data, part.options) if inputs.is_remote(part.data) else part.data
        with pa.input_stream(given, compression=compression) as stream:
            yield stream


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what the file system and Arrow raise about a file into errors that say what to do."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", next="Check the name.", file=path) from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a directory.", next="Name the files in it: DIR/*.csv.", file=path) from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(
                f"{path}: {error.strerror or error}.", next="Check it.", retryable=False, file=path
            ) from None
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InvalidInput(
            f"{path} cannot be read: {first}.", next="Check the file and its format.", file=path
        ) from None
