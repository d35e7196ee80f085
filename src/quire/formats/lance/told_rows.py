"""Rows that a transaction adds to a table, told to another process: which staged fragments hold them.

That process stages them behind rows of its own. It believes nothing but names of data files of the very table: what it
is told comes from the store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from quire.errors import CorruptRecord
from quire.formats.lance.staging.net_change import Added, Net

if TYPE_CHECKING:
    from lance import LanceDataset

_FILE = re.compile(r"[0-9A-Za-z_-]{1,128}\.lance")

Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _File(msgspec.Struct, frozen=True):
    path: str
    fields: tuple[Annotated[int, msgspec.Meta(ge=-2, le=2**31 - 1)], ...]
    column_indices: tuple[Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)], ...]
    file_major_version: Number
    file_minor_version: Number
    file_size_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class _Fragment(msgspec.Struct, frozen=True):
    files: tuple[_File, ...]
    physical_rows: Annotated[int, msgspec.Meta(ge=1, le=2**32)]


_reader = msgspec.json.Decoder(tuple[_Fragment, ...])


def tell(net: Net) -> str | None:
    """The fragments that a net effect adds; None when they are not plainly that."""
    told = []
    for added in net.added:
        described: dict[str, Any] = added.fragment.to_json()
        plain = all(not described.get(name) for name in ("deletion_file", "row_id_meta", "overlays"))
        if not plain or any(file.get("base_id") is not None for file in described["files"]):
            return None
        if added.rows:
            told.append({"files": described["files"], "physical_rows": described["physical_rows"]})
    text = json.dumps(told)
    try:
        return text if heard(text) else None
    except CorruptRecord:
        return None


def heard(text: str) -> tuple[_Fragment, ...]:
    """What another process has told; `CorruptRecord` for what no transaction can have staged."""
    try:
        found = _reader.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _wrong(str(error)) from None
    if not found or any(not f.files or any(not _FILE.fullmatch(file.path) for file in f.files) for f in found):
        raise _wrong("it names no data file of its table")
    return found


def net_of(text: str, base: LanceDataset) -> Net:
    """The net effect that was told, on a state of its table."""
    from lance.fragment import FragmentMetadata

    known = set(_leaves(base.lance_schema.fields()))
    added = []
    for fragment in heard(text):
        if any(len(file.fields) != len(file.column_indices) for file in fragment.files):
            raise _wrong("a data file has other columns than it says")
        if not {number for file in fragment.files for number in file.fields if number >= 0} >= known:
            raise _wrong("a data file lacks a column of its table")
        files = [{**msgspec.to_builtins(file), "base_id": None} for file in fragment.files]
        empty = dict.fromkeys(
            ("deletion_file", "row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")
        )
        described = {"id": 0, "files": files, "overlays": [], "physical_rows": fragment.physical_rows, **empty}
        added.append(Added(FragmentMetadata.from_json(json.dumps(described))))
    return Net(added=added)


def _leaves(fields: Any) -> Iterator[int]:
    """The numbers of the columns that have data of their own."""
    for field in fields:
        children = field.children()
        if children:
            yield from _leaves(children)
        else:
            yield field.id()


def _wrong(reason: str) -> CorruptRecord:
    return CorruptRecord(
        f"Rows of an offer cannot be used: {reason}.", next="Nothing is lost: their writer commits them itself."
    )
