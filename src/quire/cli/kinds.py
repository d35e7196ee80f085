"""The kinds of files that rows are read from and written to, and how a name tells which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import PurePath

from quire.errors import InvalidInput, NotFound, QuireError, StorageError

STANDARD = "-"
"""The name that means stdin or stdout."""


class Kind(StrEnum):
    """A file format."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"
    arrow = "arrow"


_SUFFIXES = {
    ".csv": Kind.csv,
    ".jsonl": Kind.jsonl,
    ".ndjson": Kind.jsonl,
    ".parquet": Kind.parquet,
    ".pq": Kind.parquet,
    ".arrow": Kind.arrow,
    ".arrows": Kind.arrow,
    ".feather": Kind.arrow,
    ".ipc": Kind.arrow,
}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def kind_of(path: str, given: Kind | None) -> Kind:
    """What `--format` says, else what the name says."""
    if given is not None:
        return given
    suffixes = [s.lower() for s in PurePath(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    found = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if found is None:
        where = "A stream has no name" if path == STANDARD else f"The name {path!r} does not say"
        raise InvalidInput(
            f"{where}, so its format is unknown." if path == STANDARD else f"{where} what format the file has.",
            next=f"Say --format: {', '.join(Kind)}.",
            file=path,
        )
    return found


def compression_of(path: str) -> str | None:
    return _COMPRESSED.get(PurePath(path).suffix.lower())


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what the file system and Arrow raise about a file into errors that say what to do."""
    import pyarrow as pa

    try:
        yield
    except (QuireError, BrokenPipeError):
        raise
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", next="Check the name.", file=path) from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a directory.", next="Name a file in it.", file=path) from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(
                f"{path}: {error.strerror or error}.",
                next="Check the permissions and the free space.",
                retryable=False,
                file=path,
            ) from None
        # About the contents: Arrow raises some of it as an OSError without a number.
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidInput(
            f"{path} cannot be read: {first.rstrip('.')}.",
            next="Check the file and --format; --schema gives the columns of a new table their types.",
            file=path,
        ) from None
