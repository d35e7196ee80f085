"""The kinds of files that rows are read from and written to, and how a name tells which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import PurePath
from typing import Literal

from quire.errors import InvalidInput, NotFound, QuireError, StorageError

STANDARD = "-"
"""The name that means stdin or stdout."""


class NotText(OSError):
    """A file holds bytes that are no text. It has no number, since nothing is wrong with the disk."""


class Kind(StrEnum):
    """What a file holds: one word for each kind, everywhere."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"
    arrow = "arrow"


Format = Literal["jsonl", "csv", "parquet", "arrow", "ndjson"]
"""A kind as callers may say it: `ndjson` is another word for `jsonl`."""

_WORDS = {**{kind.value: kind for kind in Kind}, "ndjson": Kind.jsonl}
_SUFFIXES = {
    ".csv": Kind.csv,
    ".tsv": Kind.csv,
    ".jsonl": Kind.jsonl,
    ".ndjson": Kind.jsonl,
    ".json": Kind.jsonl,
    ".parquet": Kind.parquet,
    ".pq": Kind.parquet,
    ".arrow": Kind.arrow,
    ".arrows": Kind.arrow,
    ".feather": Kind.arrow,
    ".ipc": Kind.arrow,
}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}

SAY = f"Give format= (--format): {', '.join(Kind)}."


def kind_named(word: str) -> Kind:
    """The kind that a word says, or `InvalidInput`."""
    if word not in _WORDS:
        raise InvalidInput(f"{word!r} is not a format of row files.", next=f"Use one of {', '.join(Kind)}.")
    return _WORDS[word]


def kind_of(path: str, given: str | None = None) -> Kind:
    """The kind that was given, else what the name says."""
    if given is not None:
        return kind_named(given)
    ends = _ends(path)
    found = _SUFFIXES.get(ends[-1]) if ends else None
    if found is None:
        said = f"The name {path!r} has no known format."
        raise InvalidInput(
            "A stream has no name, so its format is unknown." if path == STANDARD else said, next=SAY, file=path
        )
    return found


def compression_of(path: str) -> str | None:
    """How Arrow calls the compression of a file, by its name."""
    return _COMPRESSED.get(PurePath(path).suffix.lower())


def is_tab_separated(path: str) -> bool:
    """Whether a name says that fields are separated by tabs."""
    return _ends(path)[-1:] == [".tsv"]


def _ends(path: str) -> list[str]:
    """The suffixes of a name, without that of its compression."""
    found = [s.lower() for s in PurePath(path).suffixes]
    return found[:-1] if found and found[-1] in _COMPRESSED else found


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what the file system and Arrow raise about a file into errors that say what to do."""
    import pyarrow as pa

    try:
        yield
    except (QuireError, BrokenPipeError):
        raise
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", next="Check the path.", file=path) from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a directory.", next="Name the files in it: DIR/*.csv.", file=path) from None
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(
                f"{path}: {error.strerror or error}.",
                next="Check the permissions and the free space.",
                retryable=False,
                file=path,
            ) from None
        # About the contents: Arrow raises some of it as an OSError without a number.
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        advice = "Check the file and its format (--format)."
        if isinstance(error, NotText):
            advice = "Give its encoding (--encoding latin-1), or convert it: iconv -f LATIN1 -t UTF-8."
        raise InvalidInput(f"{path} cannot be read: {first}.", next=advice, file=path) from None
