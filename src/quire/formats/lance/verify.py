"""What a version of a table consists of, for checking it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.formats.lance.columns import manifest_name
from quire.formats.lance.indexes import segments
from quire.formats.lance.net import deletion_path

if TYPE_CHECKING:
    from lance import LanceDataset


def needed(handle: LanceDataset) -> dict[str, int | None]:
    """Every file that this version needs, below the table's folder, with its size where the manifest says it."""
    found: dict[str, int | None] = {f"_versions/{manifest_name(handle.version)}": None}
    for fragment in handle.get_fragments():
        metadata = fragment.metadata
        for file in metadata.files:
            found[f"data/{file.path}"] = int(file.file_size_bytes) if file.file_size_bytes else None
        if metadata.to_json()["deletion_file"] is not None:
            found[deletion_path(int(fragment.fragment_id), metadata)] = None
    for index in segments(handle):
        found[f"_indices/{index}/"] = None
    return found


def difference_of(pinned: LanceDataset, head: LanceDataset) -> str | None:
    """In what two versions that should be the same differ."""
    if not pinned.schema.equals(head.schema):
        return "The plain HEAD has other columns than the commit it claims to be."
    if _fragments(pinned) != _fragments(head):
        return "The plain HEAD has other fragments than the commit it claims to be."
    return None


def _fragments(handle: LanceDataset) -> list[Any]:
    return sorted((f.metadata.to_json() for f in handle.get_fragments()), key=lambda m: int(m["id"]))
