"""Compaction: small fragments of the base in fewer, without a change to any row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quire.errors import InvalidInput
from quire.formats import Compacted, Upkeep
from quire.testing.memory.files import Folder, Fragment, Version
from quire.testing.memory.net import locate, same


@dataclass(frozen=True)
class Group:
    """Fragments as they were when their rows were copied, in that order, and what they became."""

    old: tuple[Fragment, ...]
    new: tuple[Fragment, ...]


@dataclass(frozen=True)
class Compaction:
    groups: tuple[Group, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups)

    @property
    def growth(self) -> int:
        """By how many bytes the table's data files grow; mostly negative."""
        return sum(sum(f.bytes for f in g.new) - sum(f.bytes for f in g.old) for g in self.groups)

    @property
    def files(self) -> list[str]:
        return [path for g in self.groups for f in g.new for path in f.paths]

    def on(self, state: Version) -> Version:
        if not self:
            return state
        gone = {f.key for g in self.groups for f in g.old}
        kept = [f for f in state.fragments if f.key not in gone]
        return state.change(fragments=(*kept, *(f for g in self.groups for f in g.new)))

    def moved(self, head: Version) -> Compaction:
        """What is left of it on a newer state: what rivals deleted is deleted here too."""
        return Compaction(tuple(found for g in self.groups if (found := _follow(g, head)) is not None))


def _follow(group: Group, head: Version) -> Group | None:
    there = [same(f, head) for f in group.old]
    changed = any(now is None and f.key in head.by_key for f, now in zip(group.old, there, strict=True))
    if changed or not any(there):
        return None
    gone: list[bool] = []
    for fragment, now in zip(group.old, there, strict=True):
        living = set(now.living()) if now is not None else set()
        gone.extend(offset not in living for offset in fragment.living())
    new, start = [], 0
    for fragment in group.new:
        part = gone[start : start + fragment.rows]
        new.append(Fragment(fragment.files, fragment.rows, tuple(i for i, dead in enumerate(part) if dead)))
        start += fragment.rows
    return Group(group.old, tuple(new))


def plan(state: Version, how: Upkeep) -> list[tuple[Fragment, ...]]:
    """Groups worth rewriting: small fragments up to the wanted number of rows, and ones with many rows deleted."""
    if how.target_rows < 1 or not 0 <= how.deleted <= 1:
        raise InvalidInput("A fragment has at least one row.", next="Give a larger target; `deleted` is a share.")
    groups: list[list[Fragment]] = [[]]
    for fragment in state.fragments:
        if fragment.alive < how.target_rows or _worn(fragment, how):
            groups[-1].append(fragment)
            if sum(f.alive for f in groups[-1]) >= how.target_rows:
                groups.append([])
    return [tuple(g) for g in groups if g and (_pieces(g, how) < len(g) or any(_worn(f, how) for f in g))]


def _worn(fragment: Fragment, how: Upkeep) -> bool:
    return len(fragment.deleted) > how.deleted * fragment.rows


def _pieces(group: Iterable[Fragment], how: Upkeep) -> int:
    return -(-sum(f.alive for f in group) // how.target_rows)


def execute(
    folder: Folder, state: Version, groups: Sequence[tuple[Fragment, ...]], how: Upkeep, table: str
) -> Compaction:
    """Write the rows of each group anew. Nothing refers to the files yet."""
    done = []
    for old in groups:
        found = locate(folder, state, [f.name for f in state.fields], old, table)
        new = []
        for start in range(0, found.rows, how.target_rows):
            part = slice(start, start + how.target_rows)
            values = {f.id: found.columns[f.name][part] for f in state.fields}
            written = folder.write_columns(values, len(found.addresses[part]))
            assert written is not None
            new.append(written)
        done.append(Group(old, tuple(new)))
    return Compaction(tuple(done))


def summary(state: Version, groups: Sequence[tuple[Fragment, ...]], how: Upkeep) -> Compacted:
    merged = [f for g in groups for f in g]
    return Compacted(
        fragments_before=len(state.fragments),
        fragments_after=len(state.fragments) - len(merged) + sum(_pieces(g, how) for g in groups),
        rows=sum(f.alive for f in merged),
        bytes=sum(f.bytes for f in merged),
    )
