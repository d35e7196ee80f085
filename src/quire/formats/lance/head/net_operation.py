"""The operation by which a plain writer would have led from one state of a table to another.

A plain handle that was opened before is rebased by what a version says of itself: over an append, a delete, or an
update of other rows it goes on, and over a restore it fails. So a restore is what is said only where nothing else is
true: where the schema, an index or a setting changed, where rows came back, and where the table was overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from quire.formats.lance.head.manifest_fields import Fields

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

FEW = 64
"""So many fragments are asked for one by one."""


def net_operation(head: LanceDataset, pin: LanceDataset, before: Fields, after: Fields) -> Any:
    """What leads from `head` to `pin`, as far as their fragments tell; None where that is nothing but a restore."""
    from lance import LanceOperation as Op

    old, new = before.fragments, after.fragments
    removed = sorted(old.keys() - new.keys())
    was = _metadata(head, (n for n, stored in old.items() if n in new and new[n] != stored))
    became = _metadata(pin, (n for n, stored in new.items() if old.get(n) != stored))
    added = [became[n] for n in sorted(became.keys() - old.keys())]
    updated = [became[n] for n in sorted(was)]
    if any(int(f.id) <= before.highest for f in added):
        return None  # to plain writers the number may mean other rows
    if not all(_lost_rows(was[int(f.id)], f) for f in updated):
        return None
    transaction = pin.read_transaction(pin.version)
    last = None if transaction is None else transaction.operation
    if len(removed) == len(old) and (removed or added) and not _seen_by(last, removed, added):
        return None
    if isinstance(last, Op.Rewrite) and not updated and _is_all(last, removed, added):
        return last
    if added and not removed and not updated:
        return Op.Append(added)
    if not added:
        return Op.Delete(updated, removed, "quire")
    return Op.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=added,
        fields_modified=[],
        fields_for_preserving_frag_bitmap=[],
    )


def _metadata(handle: LanceDataset, numbers: Iterable[int]) -> dict[int, FragmentMetadata]:
    wanted = set(numbers)
    if len(wanted) < FEW:
        return {n: fragment.metadata for n in wanted if (fragment := handle.get_fragment(n)) is not None}
    return {int(f.fragment_id): f.metadata for f in handle.get_fragments() if int(f.fragment_id) in wanted}


def _lost_rows(was: FragmentMetadata, became: FragmentMetadata) -> bool:
    """Whether a fragment differs by rows that were deleted, and by nothing else that its counts show."""
    return was.files == became.files and (was.num_deletions or 0) < (became.num_deletions or 0)


def _seen_by(last: Any, removed: Sequence[int], added: Sequence[FragmentMetadata]) -> bool:
    """Whether the last operation before a state still saw an earlier one, of which nothing is left.

    If not, the table may have been overwritten in between. An overwrite leaves no fragment to a later operation.
    """
    from lance import LanceOperation as Op

    match last:
        case Op.Append():
            return not removed and _paths(last.fragments) == _paths(added)
        case Op.Delete():
            return not set(removed).isdisjoint(last.deleted_fragment_ids)
        case Op.Update():
            return not set(removed).isdisjoint(last.removed_fragment_ids)
        case Op.Rewrite():
            return not set(removed).isdisjoint(f.id for group in last.groups for f in group.old_fragments)
    return False


def _is_all(rewrite: Any, removed: Sequence[int], added: Sequence[FragmentMetadata]) -> bool:
    """Whether a compaction is all that happened."""
    old = [int(f.id) for group in rewrite.groups for f in group.old_fragments]
    return sorted(old) == removed and _paths(f for group in rewrite.groups for f in group.new_fragments) == _paths(
        added
    )


def _paths(fragments: Iterable[FragmentMetadata]) -> list[str]:
    return sorted(str(file.path) for fragment in fragments for file in fragment.files)
