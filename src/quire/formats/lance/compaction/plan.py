"""Compaction: a plan, tasks that any process can run, and one operation made of their results.

Lance's own commit of a compaction is never called: on a staged version it fails and deletes what was written. Neither
is its planner, which keeps apart what different segments of an index cover; here segments are built anew for whatever
is rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from quire.formats import Compacted, Place, Upkeep
from quire.formats.lance.indexes.build import coverage
from quire.formats.lance.metering import Scan, metered, sending
from quire.formats.lance.session import translating
from quire.formats.lance.staging import find_rows
from quire.formats.lance.staging.net_change import Offsets, data_bytes, written
from quire.formats.lance.staging.rebase import files
from quire.formats.lance.staging.stager import Stager
from quire.formats.lance.task_handles import open_place

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

GAP = 256
"""Fragment numbers left free for what others append meanwhile, so that new fragments keep theirs on a newer base."""
LARGE = 1 << 16
TIMES = 4
"""A fragment of more than `LARGE` rows is merged only when what it is merged with has a quarter of its rows: a row is
then rewritten a few times in its life, however often small writes and compactions alternate."""


# -- planning ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Which fragments are to become one, by group. Made from the manifest alone."""

    bins: tuple[tuple[FragmentMetadata, ...], ...]
    compacted: Compacted

    def tasks(self, handle: LanceDataset, how: Upkeep) -> list[str]:
        """One task per group, as text, for any process that can open the same version."""
        options = {**_options(), "data_storage_version": handle.data_storage_version}

        def task(bin: Sequence[FragmentMetadata]) -> dict[str, Any]:
            each = max(1, -(-sum(f.num_rows for f in bin) // max(1, _pieces(bin, how))))
            return {
                "task": {"fragments": [f.to_json() for f in bin]},
                "read_version": handle.version,
                "options": {**options, "target_rows_per_fragment": each},
            }

        return [json.dumps(task(bin)) for bin in self.bins]


def plan(handle: LanceDataset, how: Upkeep) -> Plan:
    every = [f.metadata for f in handle.get_fragments()]
    chosen = [f for f in every if f.num_rows < how.target_rows or _worn(f, how)]
    chosen = _without_giants(chosen, how)
    bins = [bin for part in _apart(handle, chosen) for bin in _bins(part, how)]
    rows = sum(f.num_rows for bin in bins for f in bin)
    after = len(every) - sum(map(len, bins)) + sum(_pieces(bin, how) for bin in bins)
    size = data_bytes(f for bin in bins for f in bin)
    return Plan(tuple(bins), Compacted(len(every), after, rows, size))


def _worn(fragment: FragmentMetadata, how: Upkeep) -> bool:
    return bool(fragment.num_deletions > how.deleted * fragment.physical_rows)


def _without_giants(chosen: list[FragmentMetadata], how: Upkeep) -> list[FragmentMetadata]:
    """Leave out large fragments that would be rewritten for the sake of a few rows."""
    left = sorted(chosen, key=lambda f: f.num_rows)
    kept = [f for f in left if _worn(f, how)]
    rest = [f for f in left if not _worn(f, how)]
    small = sum(f.num_rows for f in left)
    while rest and rest[-1].num_rows > LARGE and rest[-1].num_rows > TIMES * (small - rest[-1].num_rows):
        small -= rest.pop().num_rows
    return sorted([*kept, *rest], key=lambda f: f.id)


def _apart(handle: LanceDataset, chosen: list[FragmentMetadata]) -> Iterable[list[FragmentMetadata]]:
    """With stable row ids an index follows its rows, and Lance refuses a group that it covers in part."""
    if not handle.has_stable_row_ids:
        return [chosen]
    covered = [ids for _, segments in coverage(handle) for _, ids in segments]
    parts: dict[tuple[int, ...], list[FragmentMetadata]] = {}
    for fragment in chosen:
        parts.setdefault(tuple(i for i, ids in enumerate(covered) if fragment.id in ids), []).append(fragment)
    return parts.values()


def _bins(chosen: Sequence[FragmentMetadata], how: Upkeep) -> Iterable[tuple[FragmentMetadata, ...]]:
    found: list[FragmentMetadata] = []
    rows = 0
    for fragment in chosen:
        found.append(fragment)
        rows += fragment.num_rows
        if rows >= how.target_rows:
            yield from _worthwhile(found, how)
            found, rows = [], 0
    yield from _worthwhile(found, how)


def _worthwhile(found: list[FragmentMetadata], how: Upkeep) -> Iterable[tuple[FragmentMetadata, ...]]:
    if found and (_pieces(found, how) < len(found) or any(_worn(f, how) for f in found)):
        yield tuple(found)


def _pieces(bin: Sequence[FragmentMetadata], how: Upkeep) -> int:
    """How many fragments a group becomes: none has fewer rows than the target, unless all the rows do not reach it."""
    rows = sum(f.num_rows for f in bin)
    return max(rows // how.target_rows, rows > 0)


@cache
def _options() -> dict[str, Any]:
    """Lance's settings of a task as it spells them itself: its planner is asked about a table that needs compaction."""
    import lance
    import pyarrow as pa
    from lance.optimize import Compaction

    two = lance.write_dataset(pa.table({"x": [0, 0]}), "memory://", max_rows_per_file=1)
    [task] = Compaction.plan(two, {}).tasks
    found: dict[str, Any] = json.loads(task.json())["options"]  # type: ignore[attr-defined]
    return found


# -- a task -----------------------------------------------------------------------------------------------------------


def run(handle: LanceDataset, task: str) -> str:
    """Write the data files of one task; its result as text. Nothing names the files yet."""
    from lance.optimize import CompactionTask

    made: Any = CompactionTask.from_json(task)  # type: ignore[attr-defined]
    merged = {int(f["id"]) for f in json.loads(task)["task"]["fragments"]}
    scan = Scan(handle, [f for f in handle.get_fragments() if int(f.fragment_id) in merged])
    with metered("compact", handle.uri, steps=2) as window:
        window.in_turn = False
        result = str(made.execute(handle).json())
        new = map(_fragment, json.loads(result)["new_fragments"])
        window.steps = scan.steps + sending(file for f in new for file in f.files)[0]
    return result


@dataclass(frozen=True)
class Compaction:
    """One task, for another process."""

    place: Place
    task: str
    table: str

    def __call__(self) -> bytes:
        with translating(f"compaction of {self.table}"):
            return run(open_place(self.place), self.task).encode()


# -- the results, on whatever base -------------------------------------------------------------------------------------


@dataclass
class Group:
    """Fragments that were merged, and what they became."""

    merged: list[FragmentMetadata]
    """As they were when their rows were copied, in that order."""
    old: list[FragmentMetadata]
    """As they are on the base that this is applied to."""
    new: list[FragmentMetadata]
    deleted: dict[int, Offsets] = field(default_factory=dict)
    """Rows of the new fragments that rivals removed from the old ones meanwhile, by fragment."""


class Rewriting:
    """The groups of one compaction, numbered beyond everything that its base has or had."""

    def __init__(self, origin: LanceDataset, results: Sequence[str]) -> None:
        self.origin = origin
        self.groups: list[Group] = []
        for text in results:
            found = json.loads(text)
            old = sorted(map(_fragment, found["original_fragments"]), key=lambda f: int(f.id))
            self.groups.append(Group(old, old, [_fragment(f) for f in found["new_fragments"]]))
        self._number(origin)

    def _number(self, base: LanceDataset) -> None:
        number = unused(base) + GAP
        for group in self.groups:
            renamed = {int(f.id): number + i for i, f in enumerate(group.new)}
            group.new = [_fragment({**f.to_json(), "id": renamed[int(f.id)]}) for f in group.new]
            group.deleted = {renamed[n]: offsets for n, offsets in group.deleted.items()}
            number += len(group.new)

    def __bool__(self) -> bool:
        return bool(self.groups)

    @property
    def growth(self) -> int:
        """By how many bytes the table's data files grow; mostly negative."""
        return sum(data_bytes(g.new) - data_bytes(g.old) for g in self.groups)

    @property
    def files(self) -> list[str]:
        return written([f for g in self.groups for f in g.new], self.origin.schema)

    def apply(self, stager: Stager, base: LanceDataset) -> LanceDataset:
        """A staged version: `base` with the groups rewritten."""
        from lance import LanceOperation as Op

        rewrite = Op.Rewrite([Op.RewriteGroup(g.old, g.new) for g in self.groups], [])
        handle = stager.detach(base, rewrite)
        deleted = {number: offsets for g in self.groups for number, offsets in g.deleted.items()}
        if not deleted:
            return handle
        updated, removed = stager.remove_rows(handle, deleted)
        return stager.detach(handle, Op.Delete(updated, removed, "quire"))

    def fragments(self, base: LanceDataset) -> dict[int, tuple[str, ...]]:
        """Data files by fragment, as they are once this was applied to `base`."""
        found = {int(f.fragment_id): files(f) for f in base.get_fragments()}
        for group in self.groups:
            for fragment in group.old:
                del found[int(fragment.id)]
            found.update({int(f.id): _paths(f) for f in group.new})
        return found

    # -- moving to a newer base -------------------------------------------------------------------------------

    def move(self, head: LanceDataset) -> None:
        """Keep the groups whose data files are still the table's; what rivals deleted there is deleted here too."""
        now = {int(f.fragment_id): f.metadata for f in head.get_fragments()}
        same = head.schema == self.origin.schema
        self.groups = [g for g in self.groups if same and self._follows(g, head, now)]
        if any(int(f.id) in now for g in self.groups for f in g.new):
            self._number(head)

    def _follows(self, group: Group, head: LanceDataset, now: dict[int, FragmentMetadata]) -> bool:
        there = [f for f in group.merged if int(f.id) in now]
        if not there or any(_paths(f) != _paths(now[int(f.id)]) for f in there):
            return False
        gone = np.concatenate([self._gone(f, head, now) for f in group.merged])
        if len(gone) != sum(int(f.physical_rows) for f in group.new):
            return False
        group.old = [now[int(f.id)] for f in there]
        group.deleted = _spread(gone, group.new)
        return True

    def _gone(self, fragment: FragmentMetadata, head: LanceDataset, now: dict[int, FragmentMetadata]) -> Any:
        """Which of the rows that were copied from a fragment have been removed since."""
        number, rows = int(fragment.id), int(fragment.num_rows)
        if number not in now:
            return np.ones(rows, bool)
        if _vector(fragment) == _vector(now[number]):
            return np.zeros(rows, bool)
        return ~np.isin(find_rows.alive(self.origin, number), find_rows.alive(head, number))


def _spread(gone: Any, new: Sequence[FragmentMetadata]) -> dict[int, Offsets]:
    """Removed rows by new fragment: rows were copied in order, and so fill the new fragments in order."""
    found: dict[int, Offsets] = {}
    start = 0
    for fragment in new:
        part = gone[start : start + int(fragment.physical_rows)]
        start += int(fragment.physical_rows)
        if part.any():
            found[int(fragment.id)] = np.flatnonzero(part).astype(np.uint32)
    return found


def unused(handle: LanceDataset) -> int:
    """A fragment number that the table has not used and that no index claims to cover."""
    present = [int(f.fragment_id) for f in handle.get_fragments()]
    claimed = [max(ids) for _, segments in coverage(handle) for _, ids in segments if ids]
    return max([*present, *claimed], default=-1) + 1


def _fragment(described: dict[str, Any]) -> FragmentMetadata:
    from lance.fragment import FragmentMetadata

    return FragmentMetadata.from_json(json.dumps(described))


def _paths(fragment: FragmentMetadata) -> tuple[str, ...]:
    return tuple(str(f.path) for f in fragment.files)


def _vector(fragment: FragmentMetadata) -> Any:
    return fragment.to_json()["deletion_file"]
