"""The plan of a cleanup: what is kept, what goes, and why. Making it changes nothing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.lake.upkeep.cleanup import held as held_by
from quire.lake.upkeep.cleanup import retained as kept_by
from quire.lake.upkeep.cleanup.declared import declared
from quire.lake.upkeep.cleanup.joined import Rule
from quire.lake.upkeep.cleanup.retained import Horizon, Kept, Log, Retention
from quire.ledger.notes_and_leases import Lease, StoredProtector
from quire.store import Entry, run_parallel

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.lake import Lake

CHUNK = 64
"""Kept states that are looked at side by side."""
TABLE = re.compile(r"(tables/[0-9a-f]{16}\.[a-z]+)/(.+)")
"""A file of a table that lies in the lake: the table's folder, and the name below it."""

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """What one run of cleanup keeps, and what goes."""

    times: Horizon
    logs: Sequence[Log]
    floors: Mapping[str, int]
    """By log, of every open branch: the first slot that is kept. What lies before goes, but for what `kept` names."""
    kept: Kept
    """The states that are kept, by age and number, by tags, branches and leases."""
    listed: Sequence[Entry]
    """The files of tables that are old enough to go, as they lay there when the plan was begun."""
    files: Sequence[Entry]
    """Those of them that go, because no kept state and no plain client needs them."""
    leases: Sequence[StoredProtector[Lease]]
    """Leases that go, because they have run out. The notes of `times.dead` go too: their writers are taken for dead."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Tables that are left alone, and why."""

    @property
    def lives(self) -> list[LiveBranch]:
        return [log.live for log in self.logs if log.live is not None]

    @property
    def needs_floors(self) -> bool:
        """Whether anything goes that writers have to be told of first."""
        higher = any(self.floors[live.line.branch] > live.state.floor for live in self.lives)
        return bool(self.files or higher or self.times.dead)

    def levels(self) -> Iterator[list[Log]]:
        """Logs as they are given up: a branch before the one it started from, which leads to its first states."""
        for _, level in itertools.groupby(reversed(self.logs), key=lambda log: len(log.line.inherited)):
            yield list(level)

    def sparing(self, skipped: Mapping[str, tuple[str, str]]) -> Plan:
        """The same plan, which leaves tables alone: by folder, the name and the reason."""
        files = [entry for entry in self.files if folder_of(entry) not in skipped]
        return replace(self, files=files, skipped=dict(skipped.values()))


class Planner:
    """Makes the plans of one cleanup. What it has learnt of the files of a state it does not read again."""

    def __init__(self, lake: Lake, retention: Retention, tell: Tell) -> None:
        self._lake, self._core, self._store = lake, lake._core, lake._core.store
        self._retention, self._tell = retention, tell
        self._looked: set[tuple[str, str]] = set()
        self._needed_by_pins: dict[str, set[str]] = {}

    def first(self, now: datetime) -> Plan:
        """What would go as things are now."""
        times = kept_by.horizon(self._core, self._retention, now)
        folders = kept_by.log_folders(self._core)
        every, points = kept_by.logs(self._core, times.horizon)
        kept_by.check_complete(folders, every)
        lives = [log.live for log in every if log.live is not None]
        lowest = kept_by.side_by_side([partial(kept_by.floor_of, live, self._retention, times) for live in lives])
        floors = dict(zip((live.line.branch for live in lives), lowest, strict=True))
        held = held_by.held(self._core, times.now)
        floors = held_by.lowered(floors, {live.line.branch: live.state.floor for live in lives}, held)
        listed = [e for e in self._store.list("tables") if e.modified < times.horizon]
        leased, over = kept_by.leased(self._core, times.now)
        kept = kept_by.gather(self._core, every, [*points, *leased], floors, self._rule(times), held)
        return Plan(times, every, floors, kept, listed, self._unneeded(listed, kept, times), over)

    def second(self, plan: Plan) -> Plan:
        """The same once more, after the floors of the first plan were published: protectors first, then heads.

        Only now it is safe to go by: whoever is not seen here wrote itself down later, and has read the floor or will.
        No file goes that did not go by the first plan.
        """
        # A state may be given up only by a floor that was there before protectors were listed: another collector's
        # floor that comes later was not seen by those who wrote themselves down in between.
        floors, lives = dict(plan.floors), plan.lives
        for live, state in zip(lives, kept_by.side_by_side([live.refresh for live in lives]), strict=True):
            floors[live.line.branch] = max(floors[live.line.branch], state.floor)
        times = kept_by.narrowed(self._core, plan.times)
        every, points = kept_by.logs(self._core, times.horizon)
        leased, over = kept_by.leased(self._core, times.now)
        held = held_by.held(self._core, times.now)
        # Only now the heads: a writer that was seen above may have published since.
        kept = kept_by.gather(self._core, every, [*points, *leased], floors, self._rule(times), held)
        return replace(plan, times=times, logs=every, floors=floors, kept=kept, files=(), leases=over)

    def with_files(self, plan: Plan) -> Plan:
        """The second plan with the files that go by it."""
        listed = [entry for entry in plan.listed if entry.modified < plan.times.horizon]
        return replace(plan, files=self._unneeded(listed, plan.kept, plan.times))

    def behind(self, floors: Mapping[str, int]) -> dict[str, tuple[str, str]]:
        """Tables whose plain HEAD is not yet at a state that is kept: by folder, the name and what is wrong.

        They are left alone, so that no slow backfill can move a HEAD to a state that is gone.
        """
        if self._store.scheme == "memory":
            return {}
        main = self._lake._main()
        oldest = kept_by.still_there(main.history, floors[main.line.branch])
        tables = [t for t in oldest.tables.values() if TABLE.fullmatch(f"{t.pin.location}/x")]
        heads = kept_by.side_by_side([partial(self._core.format(t.pin.format).head, t.pin) for t in tables])
        found = {}
        for table, head in zip(tables, heads, strict=True):
            if head.counter is not None and head.counter < table.pin.counter and str(head.version) != table.pin.version:
                said = f"its plain HEAD is at version {head.counter}, which is before the floor: run `quire backfill`"
                found[table.pin.location] = table.info.name, said
        return found

    def _rule(self, times: Horizon) -> Rule:
        return Rule(self._retention.keep, times.cutoff)

    # -- files that nothing needs -----------------------------------------------------------------------------

    def _unneeded(self, listed: Sequence[Entry], kept: Kept, times: Horizon) -> list[Entry]:
        needed = self._needed(kept, times)
        promised = declared(self._core, self._lake._main().refresh())
        found = []
        for entry in listed:
            parts = TABLE.fullmatch(entry.key)
            if (
                parts is not None
                and parts[1] not in promised
                and not _covers(needed.get(parts[1], frozenset()), parts[2])
            ):
                found.append(entry)
        return found

    def _needed(self, kept: Kept, times: Horizon) -> dict[str, set[str]]:
        """By table folder: everything that a kept state or a plain client needs."""
        ours = {key: pin for key, pin in kept.pins.items() if TABLE.fullmatch(f"{key[0]}/x")}
        missing = [item for item in ours.items() if item[0] not in self._looked]

        def look(item: Any) -> set[str]:
            _, (pin, name) = item
            return self._core.format(pin.format).kept(pin, name)

        for low in range(0, len(missing), CHUNK):
            chunk = missing[low : low + CHUNK]
            for (key, _), names in zip(chunk, run_parallel([partial(look, i) for i in chunk]), strict=True):
                self._looked.add(key)
                self._needed_by_pins.setdefault(key[0], set()).update(names)
            self._tell("looking at kept states", low + len(chunk), len(missing))
        # Of what was looked at before and is kept no more, a little more than needed stays: until the next run.
        needed = {location: set(self._needed_by_pins[location]) for location, _ in ours}
        if self._store.scheme != "memory":
            plain = [(k, location) for k, location in sorted(kept.locations()) if TABLE.fullmatch(f"{location}/x")]
            known = kept.known()
            looks = [partial(self._core.format(k).plain_files, at, times.cutoff, known[at]) for k, at in plain]
            for (_, location), names in zip(plain, kept_by.side_by_side(looks), strict=True):
                needed[location] |= names
        return needed


def folder_of(entry: Entry) -> str:
    """The folder of the table that a file belongs to; "" for one of no table."""
    parts = TABLE.fullmatch(entry.key)
    return parts[1] if parts is not None else ""


def _covers(needed: set[str] | frozenset[str], name: str) -> bool:
    """Whether a file, or a folder above it, is among the needed names."""
    if name in needed:
        return True
    parts = name.split("/")
    return any("/".join(parts[:n]) + "/" in needed for n in range(1, len(parts)))
