"""What a version of a table consists of, for checking it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.formats import Claim
from quire.formats.lance.indexes.build import segments
from quire.formats.lance.session import first_line, manifest_name
from quire.formats.lance.staging import find_rows
from quire.formats.lance.staging.net_change import deletion_path
from quire.formats.lance.task_handles import BATCH_ROWS

if TYPE_CHECKING:
    from lance import LanceDataset


def needed(handle: LanceDataset, *, bare: bool = False) -> dict[str, int | None]:
    """Every file that this version needs, below the table's folder, with its size where the manifest says it.

    With `bare`, folders of indexes that cover nothing, too: they may be empty, and what is in them belongs to it.
    """
    found: dict[str, int | None] = {f"_versions/{manifest_name(handle.version)}": None}
    for fragment in handle.get_fragments():
        metadata = fragment.metadata
        for file in metadata.files:
            found[f"data/{file.path}"] = int(file.file_size_bytes) if file.file_size_bytes else None
        if metadata.to_json()["deletion_file"] is not None:
            found[deletion_path(int(fragment.fragment_id), metadata)] = None
    for index, size in segments(handle, bare=bare).items():
        found[f"_indices/{index}/"] = size
    return found


# -- reading every file -----------------------------------------------------------------------------------------------

LEGACY = 2
"""Files of an older kind are only read as part of their table, and so are not looked at one by one."""


def claims(handle: LanceDataset, rows: int, *, deep: bool) -> tuple[dict[str, Claim], str | None]:
    """What a version says of its files: of a deletion vector where it belongs to and how many rows are left; if `deep`,
    of a data file rows and columns.

    It also says how many rows it has in all, which a pin knows.
    """
    found: dict[str, Claim] = {}
    living = 0
    for fragment in handle.get_fragments():
        metadata = fragment.metadata
        living += int(metadata.num_rows)
        for file in metadata.files:
            if deep and file.file_major_version >= LEGACY:
                columns = sum(index >= 0 for index in file.column_indices)
                found[f"data/{file.path}"] = (int(metadata.physical_rows), columns)
        if metadata.to_json()["deletion_file"] is not None:
            number = int(fragment.fragment_id)
            found[deletion_path(number, metadata)] = (int(handle.version), number, int(metadata.num_rows))
    wrong = None if living == rows else f"Its fragments hold {living} rows instead of {rows}."
    return found, wrong


def unlike_data(uri: str, options: dict[str, str] | None, rows: int, columns: int) -> str | None:
    """Read a data file from end to end."""
    from lance.file import LanceFileReader

    try:
        reader = LanceFileReader(uri, storage_options=options)
        stored = len(reader.metadata().columns)
        count = sum(batch.num_rows for batch in reader.read_all(batch_size=BATCH_ROWS).to_batches())
    except BaseException as error:
        if not _of_the_file(error):
            raise
        return f"It cannot be read: {first_line(error)}."
    if count != rows:
        return f"It has {count} rows instead of {rows}."
    return None if stored == columns else f"It has {stored} columns instead of {columns}."


def unlike_deletions(handle: LanceDataset, number: int, rows: int) -> str | None:
    """Read a deletion vector."""
    try:
        count = len(find_rows.alive(handle, number))
    except BaseException as error:
        if not _of_the_file(error):
            raise
        return f"It cannot be read: {first_line(error)}."
    return None if count == rows else f"It leaves {count} rows instead of {rows}."


def _of_the_file(error: BaseException) -> bool:
    """Whether an error is about what is in a file. Damage can make Lance panic, which is no ordinary exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def difference_of(pinned: LanceDataset, head: LanceDataset) -> str | None:
    """In what two versions that should be the same differ."""
    if not pinned.schema.equals(head.schema):
        return "The plain HEAD has other columns than the commit it claims to be."
    if _fragments(pinned) != _fragments(head):
        return "The plain HEAD has other fragments than the commit it claims to be."
    return None


def _fragments(handle: LanceDataset) -> list[Any]:
    return sorted((f.metadata.to_json() for f in handle.get_fragments()), key=lambda m: int(m["id"]))
