"""Indexes of one line of a table, taken over into another one: by reference, as far as both have the same fragments.

A segment of an index names rows by fragment and place. Where the other line has the fragment with the same data, what
the segment says of it holds there too; of other fragments it is told not to speak, and `optimize` extends it to these.
What a segment is made of is in the list of the manifest, in the fields of `IndexMetadata` in Lance's `table.proto`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.formats.lance.head.manifest_fields import fields_of
from quire.formats.lance.inspect.row_diff import by_path, same_rows
from quire.formats.lance.manifest_bytes import by_number, varint
from quire.formats.lance.session import described

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.dataset import Index
    from lance.fragment import LanceFragment

UUID, COLUMNS, NAME, DATASET_VERSION, DETAILS, INDEX_VERSION, BASE = 1, 2, 3, 4, 6, 7, 9


@dataclass(frozen=True)
class Segments:
    """The segments of one index, with the version in which they are."""

    handle: LanceDataset
    stored: tuple[bytes, ...]

    def on(self, handle: LanceDataset) -> list[Index]:
        """The same for another version, about the fragments that it has, too; none if it has not the columns."""
        columns = _columns(self.handle, handle)
        here, there = by_path(handle), {int(f.fragment_id): f for f in self.handle.get_fragments()}
        covers = {str(s.uuid): s.fragment_ids for index in described(self.handle) for s in index.segments}
        found = []
        for raw in self.stored:
            told = by_number(raw)
            wanted = list(_numbers(told.get(COLUMNS, [])))
            if not all(n in columns for n in wanted):
                return []
            id = _id(told)
            covered = [int(n) for n in covers.get(id, ()) if int(n) in there and _is_in(there[int(n)], here, int(n))]
            found.append(_index(told, id, [columns[n] for n in wanted], sorted(covered)))
        return found


def segments_by_name(handle: LanceDataset, manifest: bytes) -> dict[str, Segments]:
    """All indexes of a version; none where its manifest is laid out in a way that is not known here."""
    try:
        listed: dict[str, list[bytes]] = {}
        for raw in fields_of(manifest).indexes:
            told = by_number(raw)
            if BASE not in told:  # of a clone: its files lie elsewhere
                listed.setdefault(_text(told[NAME][0]), []).append(raw)
    except (ValueError, KeyError):
        return {}
    return {name: Segments(handle, tuple(some)) for name, some in listed.items()}


def _id(told: Mapping[int, list[Any]]) -> str:
    [[stored]] = [by_number(found)[1] for found in told[UUID]]
    return str(uuid.UUID(bytes=bytes(stored)))


def _index(told: Mapping[int, list[Any]], id: str, columns: list[int], covered: list[int]) -> Index:
    from lance.dataset import Index

    details = by_number(told[DETAILS][0]) if DETAILS in told else {}
    return Index(
        uuid=id,
        name=_text(told[NAME][0]),
        fields=columns,
        dataset_version=int(told.get(DATASET_VERSION, [0])[0]),
        fragment_ids=covered,  # type: ignore[arg-type]
        index_version=int(told.get(INDEX_VERSION, [0])[0]),
        index_details=(_text(details[1][0]), bytes(details.get(2, [b""])[0])) if 1 in details else None,
    )


def _columns(one: LanceDataset, other: LanceDataset) -> dict[int, int]:
    """The numbers that columns of one version have in another, where both have a column of that name and type."""
    known, schemas = [], [handle.schema for handle in (one, other)]
    for handle in (one, other):
        schema: Any = handle.lance_schema
        known.append({str(field.name()): int(field.id()) for field in schema.fields()})
    alike = [n for n in known[0] if n in known[1] and schemas[0].field(n).type == schemas[1].field(n).type]
    return {known[0][n]: known[1][n] for n in alike}


def _is_in(fragment: LanceFragment, here: Mapping[str, LanceFragment], number: int) -> bool:
    """Whether a version has a fragment under the same number, with the same rows in the same files."""
    found = here.get(str(fragment.metadata.files[0].path))
    return found is not None and int(found.fragment_id) == number and same_rows(fragment, found)


def _numbers(values: list[Any]) -> Iterator[int]:
    """Whole numbers, which may be packed."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            yield number


def _text(value: Any) -> str:
    return bytes(value).decode()
