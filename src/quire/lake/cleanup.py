"""Cleanup: delete what no kept commit, tag, branch, lease or writer needs. The order makes it safe.

plan      the horizon, a floor for every branch, and what lies there now
publish   a floor record on every branch, which every later writer reads before it takes a slot
protect   list notes, leases, tags and branches: whoever wrote itself down later has read the floor
gather    read the heads again, and every state that is kept, with the files it needs
bury      slots become tombstones, and their checkpoints go: nothing is shown whose files are gone
sweep     delete files, then the notes and leases that are over. It can stop anywhere and be run again.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import BranchClosed, FormatError, InvalidInput, StorageError
from quire.lake import retention as kept_by
from quire.lake.marks import mark
from quire.lake.retention import Horizon, Kept, Log, Retention
from quire.ledger import FORMAT, Floor, History, Line, Point, Record, checkpoint_key, decode, encode, new_id
from quire.ledger.protectors import MARGIN, store_time
from quire.ledger.records import Slot, Stored, readable
from quire.store import Entry, Store, clock, run_parallel

if TYPE_CHECKING:
    from quire.lake.lake import Lake
    from quire.lake.line import LiveBranch

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

CHUNK = 64
TRIES = 3
_TABLE = re.compile(r"(tables/[0-9a-f]{16}\.[a-z]+)/(.+)")
_CHECKPOINT = re.compile(r"checkpoint-(\d{20})")
_SIDE = re.compile(r"side-((.*?)(?:-[^-]*)?)")
"""With the id of the write that it belongs to: all of the rest, or all but its end."""


@dataclass
class Cleaned:
    """What cleanup removed, or with `dry_run` would remove."""

    dry_run: bool
    horizon: datetime | None = None
    files: int = 0
    bytes: int = 0
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    """Files and bytes by table folder."""
    slots: int = 0
    checkpoints: int = 0
    floors: dict[str, int] = field(default_factory=dict)
    """By branch: the first slot that is kept."""
    revoked: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Tables that were left alone, and why."""
    kept: int = 0
    """Commits that are kept."""
    names: list[str] = field(default_factory=list)
    """The files, for a dry run."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run,
            "horizon": self.horizon.isoformat() if self.horizon else None,
            "files": self.files,
            "bytes": self.bytes,
            "tables": self.tables,
            "slots": self.slots,
            "checkpoints": self.checkpoints,
            "floors": self.floors,
            "revoked": self.revoked,
            "skipped": self.skipped,
            "kept": self.kept,
            "names": self.names,
        }


@dataclass(frozen=True)
class Burial:
    """What became of one log below its floor."""

    slots: int = 0
    checkpoints: int = 0
    refused: str = ""


class Buried(Stored, frozen=True):
    """How far a log has been buried, so that it is not read again from its start every time."""

    format: int
    upto: Slot = 0
    left: tuple[Slot, ...] = ()
    """Slots before that which something still needed."""


readable(Buried)


class Collector:
    """One run of cleanup."""

    def __init__(self, lake: Lake, retention: Retention, *, dry_run: bool, progress: Progress | None) -> None:
        _check(retention)
        self._lake = lake
        self._core = lake._core
        self._store: Store = lake._core.store
        self._retention = retention
        self._dry = dry_run
        self._tell = progress or (lambda what, done, total: None)
        self._telling = clock.lock()
        self._looked: set[tuple[str, str]] = set()
        self._needed_by_pins: dict[str, set[str]] = {}
        self.done = Cleaned(dry_run)

    def _progress(self, what: str, done: int, total: int) -> None:
        with self._telling:  # what is told comes from several threads
            self._tell(what, done, total)

    def run(self) -> Cleaned:
        """Clean up. A run that finds itself overtaken by another begins again; it has deleted nothing by then."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(kept_by.Overtaken):
                return self._run()
        try:
            return self._run()
        except kept_by.Overtaken:
            raise StorageError(
                f"Other cleanups of {self._store.uri} were faster {TRIES} times in a row.",
                next="One at a time is enough; run it again when the others are done.",
            ) from None

    def _run(self) -> Cleaned:
        self.done = Cleaned(self._dry)
        times = kept_by.horizon(self._core, self._retention, self._now())
        folders = kept_by.log_folders(self._core)
        every, points = kept_by.logs(self._core, times.horizon)
        kept_by.check_complete(folders, every)
        lives = [log.live for log in every if log.live is not None]
        lowest = kept_by.side_by_side([partial(kept_by.floor_of, live, self._retention, times) for live in lives])
        floors = dict(zip((live.line.branch for live in lives), lowest, strict=True))
        listed = [e for e in self._store.list("tables") if e.modified < times.horizon]
        leased, over = kept_by.leased(self._core, times.now)
        kept = kept_by.gather(self._core, every, [*points, *leased], floors)
        rubbish = self._rubbish(listed, kept, times)
        if rubbish:  # what lies in tables that cannot be touched is no reason to publish anything
            left = self._followed(floors)
            rubbish = [e for e in rubbish if _folder(e) not in left]
        self.done.horizon = times.horizon
        self.done.floors = {log.name: floors[log.line.branch] for log in every if log.live is not None}
        higher = any(log.live and floors[log.line.branch] > log.live.state.floor for log in every)
        publish = bool(rubbish or higher or times.dead)
        if self._dry or not (publish or over or self._unfinished(every, floors)):
            return self._report(rubbish, kept, times)
        if publish:
            self._publish(every, floors, times)
        # A state may be given up only by a floor that was there before protectors were listed: another collector's
        # floor that comes later was not seen by those who wrote themselves down in between.
        for live, state in zip(lives, kept_by.side_by_side([live.refresh for live in lives]), strict=True):
            floors[live.line.branch] = max(floors[live.line.branch], state.floor)
        # Only now: whoever is not seen here wrote itself down later, and has read the floor or will.
        times = kept_by.narrowed(self._core, times)
        every, points = kept_by.logs(self._core, times.horizon)
        leased, over = kept_by.leased(self._core, times.now)
        # Only now the heads: a writer that was seen above may have published since.
        kept = kept_by.gather(self._core, every, [*points, *leased], floors)
        left = self._followed(floors)
        rubbish = [e for e in self._rubbish(listed, kept, times, left) if e.modified < times.horizon] if publish else []
        # First the log, so that nothing is shown whose files are gone. A branch before the one it started from, which
        # leads to its first states.
        for _, level in itertools.groupby(reversed(every), key=lambda log: len(log.line.inherited)):
            self._bury_all(list(level), floors, kept, times.horizon)
        self._sweep([e.key for e in rubbish], "deleting files")
        self._sweep([found.key for found in times.dead] + [found.key for found in over], "removing protectors")
        self._tidy(times)
        return self._report(rubbish, kept, times)

    def _unfinished(self, every: Sequence[Log], floors: dict[str, int]) -> bool:
        """Whether an earlier run ended before it had buried everything below a floor."""
        wanted = {
            log.line.branch: floor
            for log in every
            if (floor := floors.get(log.line.branch, log.line.start)) > log.line.start
        }
        found = kept_by.side_by_side([partial(self._buried, branch) for branch in wanted])
        return any(buried.upto < floor for buried, floor in zip(found, wanted.values(), strict=True))

    def _now(self) -> datetime:
        """The time by the store's clock; a dry run, which writes nothing, takes our own for it."""
        return clock.now() if self._dry else store_time(self._store, f"now-{new_id()}")

    # -- what is not needed -----------------------------------------------------------------------------------

    def _followed(self, floors: dict[str, int]) -> set[str]:
        """Bring plain HEADs to a state that is kept, so that no slow backfill can move one to a state that is not.

        Returns the folders of tables for which that cannot be done: they are left alone.
        """
        if self._store.scheme == "memory":
            return set()
        main = self._lake._main()
        if self._lake._backfill and not self._dry:
            main.backfill(every=True)
        oldest = kept_by.still_there(main.history, floors[main.line.branch])
        left = set()
        self.done.skipped = {}
        tables = [t for t in oldest.tables.values() if _TABLE.fullmatch(f"{t.pin.location}/x")]
        heads = kept_by.side_by_side([partial(self._core.format(t.pin.format).head, t.pin) for t in tables])
        for table, head in zip(tables, heads, strict=True):
            if head.counter is not None and head.counter < table.pin.counter and str(head.version) != table.pin.version:
                left.add(table.pin.location)
                said = f"its plain HEAD is at version {head.counter}, before the floor: run `quire backfill`"
                self.done.skipped[table.info.name] = said
        return left

    def _rubbish(
        self, listed: Sequence[Entry], kept: Kept, times: Horizon, left: set[str] | None = None
    ) -> list[Entry]:
        """Files of tables that nothing needs."""
        needed = self._needed(kept, times)
        found = []
        for entry in listed:
            parts = _TABLE.fullmatch(entry.key)
            if left and _folder(entry) in left:
                continue
            if parts is not None and not _covers(needed.get(parts[1], frozenset()), parts[2]):
                found.append(entry)
        return found

    def _needed(self, kept: Kept, times: Horizon) -> dict[str, set[str]]:
        """By table folder: everything that a kept state or a plain client needs."""
        ours = {key: pin for key, pin in kept.pins.items() if _TABLE.fullmatch(f"{key[0]}/x")}
        missing = [item for item in ours.items() if item[0] not in self._looked]

        def look(item: Any) -> set[str]:
            _, (pin, name) = item
            return self._core.format(pin.format).kept(pin, name)

        for low in range(0, len(missing), CHUNK):
            chunk = missing[low : low + CHUNK]
            for (key, _), names in zip(chunk, run_parallel([partial(look, i) for i in chunk]), strict=True):
                self._looked.add(key)
                self._needed_by_pins.setdefault(key[0], set()).update(names)
            self._progress("looking at kept states", low + len(chunk), len(missing))
        # Of what was looked at before and is kept no more, a little more than needed stays: until the next run.
        needed = {location: set(self._needed_by_pins[location]) for location, _ in ours}
        if self._store.scheme != "memory":
            plain = [(k, location) for k, location in sorted(kept.locations()) if _TABLE.fullmatch(f"{location}/x")]
            looks = [partial(self._core.format(k).plain_files, location, times.cutoff) for k, location in plain]
            for (_, location), names in zip(plain, kept_by.side_by_side(looks), strict=True):
                needed[location] |= names
        return needed

    def _report(self, rubbish: Sequence[Entry], kept: Kept, times: Horizon) -> Cleaned:
        done = self.done
        done.kept = kept.states
        done.revoked = [n.what.id for n in times.dead]
        for entry in rubbish:
            match = _TABLE.fullmatch(entry.key)
            assert match is not None
            counts = done.tables.setdefault(match[1], {"files": 0, "bytes": 0})
            counts["files"] += 1
            counts["bytes"] += entry.size
        done.files, done.bytes = len(rubbish), sum(e.size for e in rubbish)
        if self._dry:
            done.names = [e.key for e in rubbish]
        return done

    # -- the floor --------------------------------------------------------------------------------------------

    def _publish(self, every: Sequence[Log], floors: dict[str, int], times: Horizon) -> None:
        revoked = tuple(n.what.id for n in times.dead)
        lives = [log.live for log in every if log.live is not None]

        def one(live: LiveBranch) -> None:
            slot = floors[live.line.branch]
            self._checkpoint_before(live.line, slot)
            with live.publishing:
                floor = Floor(slot=slot, horizon=times.horizon, revoked=revoked)
                before = Point(branch=live.line.branch, slot=slot - 1) if slot > live.line.start else None
                with contextlib.suppress(BranchClosed):  # deleted since: it counts as still there
                    live.checkpoint()  # before the mark, which names it: marks alone must not make opening dearer
                    mark(live, "floor", floor, checkpoint=before)
                    with contextlib.suppress(StorageError):
                        live.hint()

        done = 0
        for _, level in itertools.groupby(lives, key=lambda live: len(live.line.inherited)):  # parents first
            for _ in kept_by.side_by_side([partial(one, live) for live in level]):
                done += 1
                self._progress("publishing floors", done, len(lives))

    def _checkpoint_before(self, line: Line, slot: int) -> None:
        """Make the state at a slot reachable without what lies before it."""
        if slot <= line.start or self._store.stat(checkpoint_key(Point(branch=line.branch, slot=slot - 1))) is not None:
            return
        history = History(self._core.store, self._core.ledger, line)
        history.write_checkpoint(kept_by.still_there(history, slot - 1))

    # -- deleting ---------------------------------------------------------------------------------------------

    def _sweep(self, keys: Sequence[str], what: str) -> None:
        for low in range(0, len(keys), CHUNK):
            run_parallel([partial(self._store.delete, key) for key in keys[low : low + CHUNK]])
            self._progress(what, min(low + CHUNK, len(keys)), len(keys))

    def _bury_all(self, logs: Sequence[Log], floors: dict[str, int], kept: Kept, horizon: datetime) -> None:
        for log, burial in zip(
            logs, kept_by.side_by_side([partial(self._bury, log, floors, kept, horizon) for log in logs]), strict=True
        ):
            self.done.slots += burial.slots
            self.done.checkpoints += burial.checkpoints
            if burial.refused:
                self.done.skipped[f"log of branch {log.name!r}"] = f"not buried: {burial.refused}"

    def _bury(self, log: Log, floors: dict[str, int], kept: Kept, horizon: datetime) -> Burial:
        """Turn the slots below a log's floor into tombstones, and delete checkpoints and side objects nobody needs."""
        branch, ledger = log.line.branch, self._core.ledger
        if log.live is None:
            floor = ledger.head(branch, log.line.start, log.line.start)  # the record that closed it stays
        else:
            floor = floors.get(branch, log.line.start)
        if floor <= log.line.start:
            return Burial()
        stay = {slot for slot in kept.slots.get(branch, set()) if slot < floor}
        try:
            for _ in kept_by.side_by_side([partial(self._checkpoint_before, log.line, s) for s in (*stay, floor)]):
                pass
        except kept_by.Overtaken as error:
            # Another collector is further, and does the same; or a checkpoint was lost.
            return Burial(refused=str(error))
        before = self._buried(branch)
        if before.upto == floor and set(before.left) <= stay:
            return Burial()
        names = {e.key.rpartition("/")[2]: e for e in self._store.list(f"_quire/log/{branch}")}
        again = [s for s in before.left if log.line.start <= s < floor]
        fresh = range(max(log.line.start, before.upto), floor)
        # Whatever is kept is reached from the slot before it, so those go first: the run may end anywhere.
        leading = {floor - 1, *(s - 1 for s in stay)}
        wanted = sorted((s for s in (*again, *fresh) if s not in stay), key=lambda s: (s not in leading, s))
        buried = 0
        for low in _chunks(wanted, sum(s in leading for s in wanted)):
            records = [r for r in ledger.read(branch, wanted[low]) if r is not None and not r.buried]
            at = Point(branch=branch, slot=floor - 1)
            run_parallel([partial(ledger.bury, _tombstone(r, at)) for r in records])
            buried += len(records)
            self._progress("burying slots", low.stop, len(wanted))
        left = tuple(sorted(stay))
        self._store.put(_buried_key(branch), encode(Buried(format=FORMAT, upto=floor, left=left)))
        # A checkpoint that tombstones name goes only with its slot, whose own tombstone leads on from there.
        keep = {floor - 1, *stay, *(s - 1 for s in stay)}
        old = [n for n in names if (m := _CHECKPOINT.fullmatch(n)) and int(m[1]) < floor and int(m[1]) not in keep]
        # Side objects of records that are buried now, and of those that never got their slot: whoever wrote one before
        # the horizon wanted a slot that a floor has taken since, and writes another for the next.
        sides = [
            name
            for name, entry in names.items()
            if (m := _SIDE.fullmatch(name)) and entry.modified < horizon and kept.writes.isdisjoint((m[1], m[2]))
        ]
        self._sweep([f"_quire/log/{branch}/{n}" for n in (*sides, *old)], "deleting checkpoints")
        return Burial(buried, len(old))

    def _buried(self, branch: str) -> Buried:
        """What earlier runs have buried. Best effort: what it does not know is looked at again."""
        key = _buried_key(branch)
        body = self._store.get_or_none(key)
        try:
            return decode(body, Buried, key) if body is not None else Buried(format=FORMAT)
        except FormatError:
            return Buried(format=FORMAT)

    def _tidy(self, times: Horizon) -> None:
        """Old probes, reports of recoveries long ago, and what processes that were killed had half written."""
        old = [e.key for e in self._store.list("_quire/probe") if e.modified < times.horizon]
        old += [e.key for e in self._store.list("_quire/recovery") if e.modified < times.cutoff]
        self._sweep(old, "tidying")
        self._store.sweep(times.horizon)


def _folder(entry: Entry) -> str:
    """The folder of the table that a file belongs to; "" for one of no table."""
    parts = _TABLE.fullmatch(entry.key)
    return parts[1] if parts is not None else ""


def _chunks(items: Sequence[Any], first: int) -> list[slice]:
    """The first so many one after the other, the rest side by side."""
    cuts = [*range(first), *range(first, len(items), CHUNK), len(items)]
    return [slice(low, high) for low, high in itertools.pairwise(cuts) if low < high]


def _buried_key(branch: str) -> str:
    return f"_quire/log/{branch}/buried"


def _tombstone(record: Record, checkpoint: Point) -> Record:
    """What stays of a record: its place in the chain, and where to go on."""
    return msgspec.structs.replace(
        record,
        format=FORMAT,
        kind="tombstone",
        commits=(),
        side=None,
        floor=None,
        checkpoint=checkpoint,
        writes=tuple(commit.write for commit in record.commits) if len(record.commits) > 1 else (),
    )


def _covers(needed: set[str] | frozenset[str], name: str) -> bool:
    """Whether a file, or a folder above it, is among the needed names."""
    if name in needed:
        return True
    parts = name.split("/")
    return any("/".join(parts[:n]) + "/" in needed for n in range(1, len(parts)))


def _check(retention: Retention) -> None:
    if retention.keep < 1:
        raise InvalidInput("Cleanup keeps at least the newest commit.", next="keep=1 or more (`--keep`).")
    for name in ("older_than", "grace", "dead_after"):
        if getattr(retention, name) < timedelta(0):
            raise InvalidInput(f"{name} cannot be negative.", next="Give a length of time.")
    if retention.dead_after < MARGIN * 6:
        raise InvalidInput(
            "A writer renews its note every 10 seconds; dead_after must allow for some that come late.",
            next=f"dead_after of {MARGIN.seconds * 6} seconds or more.",
        )
