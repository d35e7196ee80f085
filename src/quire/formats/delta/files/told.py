"""New data files as one process tells another of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from quire.formats.delta.log.state import DataFile
from quire.ledger.records import reader


class Told(msgspec.Struct, frozen=True):
    """A new data file as one process tells another of it."""

    path: str
    size: int
    rows: int
    partition: tuple[tuple[str, str | None], ...]
    stats: str
    modified: int


def encoded(files: Iterable[DataFile]) -> list[str]:
    return [msgspec.json.encode(told_of(file)).decode() for file in files]


def told_of(file: DataFile) -> Told:
    return Told(file.path, file.size, file.rows, file.partition, file.stats or "", file.modified)


def decoded(fragments: Sequence[str]) -> list[DataFile]:
    return [file_of(reader(Told).decode(text)) for text in fragments]


def file_of(told: Told) -> DataFile:
    return DataFile(told.path, told.size, told.rows, told.partition, told.stats or None, told.modified)
