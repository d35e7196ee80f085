"""Which states of a lake are kept: by age, by number, and by tags, branches and leases."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from quire.arguments import bounded
from quire.errors import BranchClosed, InvalidInput, SnapshotExpired
from quire.lake.branch.live import LiveBranch, open_branch
from quire.lake.context import Core
from quire.lake.upkeep.cleanup import joined
from quire.lake.upkeep.cleanup.held import Stretch
from quire.ledger import MAIN, History, Line, Pin, Point, Record, Ref, State, TableState
from quire.ledger.notes_and_leases import MARGIN, Lease, Note, StoredProtector, leases, notes
from quire.ledger.records import corrupt
from quire.store import run_parallel

T = TypeVar("T")

BATCH = 256
"""Records read at once."""
TOGETHER = 64
"""Branches, tags, leases, versions or tables that are looked at side by side."""


def side_by_side(calls: Sequence[Callable[[], T]]) -> Iterator[T]:
    """The results of many calls, some at a time, so that what they read does not pile up."""
    for low in range(0, len(calls), TOGETHER):
        yield from run_parallel(calls[low : low + TOGETHER])


class Overtaken(Exception):
    """Another collector has given up what this one was about to look at."""


def still_there(history: History, slot: int, index: int | None = None) -> State:
    """The state at a slot, or at a commit of it, that was kept a moment ago."""
    try:
        return history.at_slot(slot, index)
    except SnapshotExpired as error:
        raise Overtaken(error.message) from None


@dataclass(frozen=True)
class Retention:
    """What is kept: a commit that was the newest within `older_than`, or is among the last `keep`."""

    keep: int = 10
    older_than: timedelta = timedelta(days=7)
    grace: timedelta = timedelta(hours=1)
    """What is younger than this is never deleted, whoever wrote it."""
    dead_after: timedelta = timedelta(days=1)
    """A writer that has not renewed its note for so long is revoked."""

    @staticmethod
    def of(keep: int, *lengths: timedelta | float) -> Retention:
        """From what callers give: `older_than`, `grace` and `dead_after` may be seconds."""
        return Retention(bounded("keep", keep, 1), *map(_length, lengths))


def _length(given: timedelta | float) -> timedelta:
    if isinstance(given, timedelta):
        return given
    try:
        return timedelta(seconds=given)
    except (TypeError, OverflowError, ValueError):
        raise InvalidInput(
            f"{given!r} is not a length of time.", next="Pass a timedelta or a number of seconds."
        ) from None


@dataclass(frozen=True)
class Horizon:
    """Store times that follow from a retention, the time now and the writers that are alive."""

    now: datetime
    horizon: datetime
    cutoff: datetime
    dead: tuple[StoredProtector[Note], ...]


def horizon(core: Core, retention: Retention, now: datetime) -> Horizon:
    """How far back nothing may be deleted, and which writers are taken for dead."""
    dead, since = [], []
    for note in notes(core.store):
        if now - note.modified > retention.dead_after:
            dead.append(note)
        else:
            since.append(note.what.since or note.modified)
    at = min([now - retention.grace, *since]) - MARGIN
    return Horizon(now, at, min(now - retention.older_than, at), tuple(dead))


def narrowed(core: Core, times: Horizon) -> Horizon:
    """The same after the floors were published: every writer that they did not revoke counts, however quiet it is."""
    revoked = {note.what.id for note in times.dead}
    since = [n.what.since or n.modified for n in notes(core.store) if n.what.id not in revoked]
    at = min([times.horizon, *(s - MARGIN for s in since)])
    return Horizon(times.now, at, min(times.cutoff, at), times.dead)


def floor_of(live: LiveBranch, retention: Retention, times: Horizon) -> int:
    """The first slot of the branch's own log that is kept. It never falls."""
    state, start = live.state, live.line.start
    if state.slot < start:
        return state.floor
    written = live.core.ledger.written(live.line.branch)
    if sorted(written) != list(range(start, start + len(written))) or live.refresh().slot < max(written):
        raise corrupt(f"log {live.line.branch} of branch {live.name!r}", "a slot in the middle of it is missing")
    recent = state.slot
    while recent > max(start, state.floor) and written.get(recent, times.cutoff) >= times.cutoff:
        recent -= 1  # what was the head until `recent` was written was seen after the cutoff
    seen = still_there(live.history, recent).head  # marks may lie after the commit that was the newest then
    if seen.branch == live.line.branch:
        recent = min(recent, seen.slot)
    wanted = max(1, retention.keep)
    last = list(itertools.islice(live.history.commits(state, after=start - 1), wanted))
    counted = last[-1][0].slot if len(last) == wanted else start
    return max(state.floor, min(recent, counted))


@dataclass
class Kept:
    """Pins of every state that is kept, and the slots below a floor that lead to some of them."""

    pins: dict[tuple[str, str], tuple[Pin, str]] = field(default_factory=dict)
    slots: dict[str, set[int]] = field(default_factory=dict)
    """By log: slots that must stay as they are though they lie below its floor."""
    writes: set[str] = field(default_factory=set)
    joined: set[Point] = field(default_factory=set)
    """Commits of other logs that kept commits merged or took over: they are shown as parents, and stay with them."""
    states: int = 0

    def add(self, state: State, *, counted: bool = False) -> None:
        """Keep a state, which may be `counted` already."""
        self.states += not counted
        for table in state.tables.values():
            self.add_table(table)

    def add_table(self, table: TableState) -> None:
        self.add_pin(table.pin, table.info.name)

    def add_pin(self, pin: Pin, name: str) -> None:
        self.pins.setdefault((pin.location, pin.version), (pin, name))

    def add_record(self, record: Record) -> None:
        """What every commit of a slot moved, also in the middle of a group."""
        self.states += len(record.commits)
        self.writes.add(record.write)
        for commit in record.commits:
            self.joined.update(p for p in commit.parents[1:] if p.branch != record.branch)
            for change in commit.changes:
                if change.pin is not None:
                    self.add_pin(change.pin, change.name)

    def join(self, other: Kept) -> None:
        """Keep what another one keeps, too."""
        for key, found in other.pins.items():
            self.pins.setdefault(key, found)
        for branch, slots in other.slots.items():
            self.slots.setdefault(branch, set()).update(slots)
        self.writes |= other.writes
        self.joined |= other.joined
        self.states += other.states

    def known(self) -> dict[str, int]:
        """By location: the newest plain version whose rows kept states have."""
        found: dict[str, int] = {}
        for (location, _), (pin, _) in self.pins.items():
            found[location] = max(pin.head, found.get(location, 0))
        return found

    def locations(self) -> set[tuple[str, str]]:
        """Where kept tables lie, with their format."""
        return {(pin.format, location) for (location, _), (pin, _) in self.pins.items()}


@dataclass(frozen=True)
class Log:
    """A branch's log as cleanup sees it. A closed one is kept only where something points into it."""

    name: str
    line: Line
    live: LiveBranch | None


def logs(core: Core, since: datetime) -> tuple[list[Log], list[tuple[Line, Point]]]:
    """Every log of the lake, and every commit that a tag or the start of a branch names.

    A tag or branch that was removed at or after store time `since` counts as still there.
    """
    main = Line(branch=core.about.main)
    found = [Log(MAIN, main, open_branch(core, MAIN))]
    points: list[tuple[Line, Point]] = []
    refs = [(ref, gone) for ref, gone in core.refs.every("branch") if ref.kind == "branch"]
    looks = [partial(_look, core, ref, ref.line, gone, since) for ref, gone in refs if ref.line is not None]
    for log, protected in side_by_side(looks):
        found.append(log)
        points += protected
    found.sort(key=lambda log: len(log.line.inherited))  # a branch comes after the one it started from
    for ref, gone in core.refs.every("tag"):
        if ref.kind == "tag" and ref.target is not None and (gone is None or gone >= since):
            points += _way_to(ref.line or main, ref.target)
    return found, points


def _look(
    core: Core, ref: Ref, line: Line, gone: datetime | None, since: datetime
) -> tuple[Log, list[tuple[Line, Point]]]:
    """A branch's log, and the commits that it protects."""
    live = None if _is_closed(core, line, gone) else _open(core, ref)
    log = Log(ref.name, line, live)
    if live is not None:
        return log, list(_starts(line))
    if gone is not None and gone < since:
        return log, []
    return log, [*_starts(line), *_last(core, line)]


def _open(core: Core, ref: Ref) -> LiveBranch | None:
    """A branch; None when it was deleted. Whatever else goes wrong is no reason to delete anything."""
    assert ref.line is not None
    try:
        return LiveBranch(core, ref.name, ref.line, ref.checkpoint, None)
    except BranchClosed:
        return None
    except SnapshotExpired as error:
        raise corrupt(f"branch {ref.name!r}", f"its start cannot be read ({error.message})") from None


def _is_closed(core: Core, line: Line, gone: datetime | None) -> bool:
    """Whether a log has ended, by its last record alone: what leads to it may be buried.

    A branch that was taken back as it was made has no slot at all.
    """
    last = core.ledger.head(line.branch, line.start, line.start)
    if last < line.start and gone is not None:
        return True
    [record] = core.ledger.read(line.branch, [last]) if last >= line.start else [None]
    return record is not None and record.kind == "closed"


def log_folders(core: Core) -> set[str]:
    """Ids of the logs that hold anything. To be listed before the refs: a ref is written before its log."""
    found: dict[str, set[str]] = {}
    for entry in core.store.list("_quire/log"):
        branch, _, name = entry.key.removeprefix("_quire/log/").partition("/")
        found.setdefault(branch, set()).add(name)
    # A first slot alone is left by a lake that somebody else created first.
    return {branch for branch, names in found.items() if names - {f"{0:020d}"}}


def check_complete(folders: set[str], every: list[Log]) -> None:
    """Refuse to clean up a lake in which a log belongs to nobody: a ref was lost, and with it what it protects."""
    for branch in sorted(folders - {log.line.branch for log in every}):
        raise corrupt(f"log {branch}", "no branch names it, so the ref of a branch was lost")


def _way_to(line: Line, target: Point) -> Iterator[tuple[Line, Point]]:
    """A commit, and where its line passes from log to log before it: the branch itself may be gone."""
    yield from (start for start in _starts(line) if start[1].slot < target.slot)
    yield line, target


def _first_way_to(line: Line, target: Point) -> Iterator[tuple[Line, Point]]:
    """A commit, and before the first one of a log what its state is made from."""
    if target.slot == line.start:
        yield from _starts(line)
    yield line, target


def _starts(line: Line) -> Iterator[tuple[Line, Point]]:
    """The commits at which a line passes from one log to the next."""
    for number, segment in enumerate(line.inherited):
        before = Line(branch=segment.branch, inherited=line.inherited[:number])
        yield before, Point(branch=segment.branch, slot=segment.slot, index=segment.index)


def _last(core: Core, line: Line) -> Iterator[tuple[Line, Point]]:
    """The last commit of a log that was closed lately: somebody may just be taking it over."""
    last = core.ledger.head(line.branch, line.start, line.start)
    if last < line.start:
        return  # it was taken back as it was made, and had none
    with contextlib.suppress(SnapshotExpired):
        yield line, History(core.store, core.ledger, line).at_slot(last).head


def leased(core: Core, now: datetime) -> tuple[list[tuple[Line, Point]], list[StoredProtector[Lease]]]:
    """Commits that are leased now, and leases that have run out."""
    points: list[tuple[Line, Point]] = []
    over = []
    for lease in leases(core.store):
        if now - lease.modified > timedelta(seconds=lease.what.seconds) + MARGIN:
            over.append(lease)
        else:
            points += _way_to(lease.what.line, lease.what.target)
    return points, over


def gather(
    core: Core,
    every: list[Log],
    points: list[tuple[Line, Point]],
    floors: dict[str, int],
    rule: joined.Rule,
    held: Sequence[Stretch],
) -> Kept:
    """Everything that is kept: all states from the floor to the head of every log, every point, and what they join.

    Below a floor what is `held` stays, too, as far as it was not given up before.
    """
    kept = Kept()
    looks: list[Callable[[], Kept]] = [
        partial(_of_log, log.live, floors.get(log.line.branch, log.line.start)) for log in every if log.live is not None
    ]
    looks += [partial(_of_point, core, line, point, floors) for line, point in dict.fromkeys(points)]
    for part in side_by_side(looks):
        kept.join(part)
    logs = {log.line.branch: log for log in every}
    for part in side_by_side([look for stretch in held for look in _of_held(core, logs, stretch, floors)]):
        kept.join(part)
    _keep_joined(core, logs, kept, {point for _, point in points}, floors, rule)
    ways = {way for p in joined.bases_of_open(core, every) for way in _first_way_to(logs[p.branch].line, p)}
    for part in side_by_side([partial(_of_point, core, *way, floors) for way in sorted(ways, key=lambda way: way[1])]):
        kept.join(part)
    return kept


def _keep_joined(
    core: Core, logs: dict[str, Log], kept: Kept, seen: set[Point], floors: dict[str, int], rule: joined.Rule
) -> None:
    """Keep the commits that kept ones merged, and of deleted branches those before them that the rule keeps."""
    counted = True
    done: set[Point] = set()
    while new := {p for p in kept.joined - done if p.branch in logs}:
        done |= new
        kept.joined = set()
        looks: list[Callable[[], Kept]] = []
        for branch in sorted({point.branch for point in new}):
            log, here = logs[branch], sorted(point for point in new if point.branch == branch)
            singly = [way for point in here for way in _first_way_to(log.line, point) if way[1] not in seen]
            if log.live is None:
                looks.append(partial(_of_deleted, core, log.line, here[-1], rule, floors, counted=counted))
                singly = [way for way in singly if way[1] != here[-1]]
            looks += [partial(_of_point, core, *way, floors, follow=False) for way in dict.fromkeys(singly)]
        for part in side_by_side(looks):
            kept.join(part)
        counted = False  # what these had merged in turn


def _of_deleted(
    core: Core, line: Line, upto: Point, rule: joined.Rule, floors: dict[str, int], *, counted: bool
) -> Kept:
    """What is kept of the log of a deleted branch up to a commit that was merged."""
    found = joined.stretch(core, line, upto, rule, counted=counted)
    if found is None:
        return Kept()  # it was gone before
    return _of_stretch(core, found, floors)


def _of_held(core: Core, logs: dict[str, Log], held: Stretch, floors: dict[str, int]) -> Iterator[Callable[[], Kept]]:
    """Looks at what a consumer holds below a floor, or in a log that has none."""
    log = logs.get(held.line.branch)
    last = held.last
    if log is not None and log.live is not None:
        below = floors.get(held.line.branch, held.first) - 1
        last = below if last is None else min(last, below)
    if log is not None and last is not None and held.first <= last:
        yield partial(_of_slots, core, held.line, held.first, last, floors)


def _of_slots(core: Core, line: Line, first: int, last: int, floors: dict[str, int]) -> Kept:
    found = joined.unburied(core, line, first, last)
    return _of_stretch(core, found, floors) if found is not None else Kept()


def _of_stretch(core: Core, found: joined.Stretch, floors: dict[str, int]) -> Kept:
    """Every state of some slots that follow each other. What young ones joined is kept, too."""
    kept, line = Kept(), found.line
    history = History(core.store, core.ledger, line)
    [first] = history.records([found.first])
    for table in still_there(history, found.first, 0 if first.commits else None).tables.values():
        kept.add_table(table)
    for way in _starts(line) if found.first == line.start else ():
        kept.join(_of_point(core, *way, floors, follow=False))
    followed: set[Point] = set()
    for low in range(found.first, found.last + 1, BATCH):
        for record in history.records(list(range(low, min(low + BATCH, found.last + 1)))):
            if record.buried:
                raise Overtaken(f"slot {record.slot} of log {record.branch} was replaced by a tombstone meanwhile")
            kept.joined = set()
            kept.add_record(record)
            kept.slots.setdefault(line.branch, set()).add(record.slot)
            if record.slot in found.young:
                followed |= kept.joined
    kept.joined = followed
    return kept


def _of_point(core: Core, line: Line, point: Point, floors: dict[str, int], *, follow: bool = True) -> Kept:
    """A slot is kept whole: while it is not buried, each of its commits can be read, whichever of them is named.

    What it joined is kept with it if it is to `follow`.
    """
    kept = Kept()
    if _is_buried(core, point):
        return kept  # it was gone before it was named, and its owner was told so
    try:
        history = History(core.store, core.ledger, line)
        state, [record] = history.at_slot(point.slot, 0), history.records([point.slot])
    except SnapshotExpired as error:
        if _is_buried(core, point):
            raise Overtaken(error.message) from None
        where = f"commit {point.commit} of log {point.branch}, which a tag, a branch or a lease names,"
        raise corrupt(where, f"it cannot be read ({error.message})") from None
    if record.buried:
        raise Overtaken(f"slot {record.slot} of log {record.branch} was replaced by a tombstone in the meantime")
    kept.add(state)
    kept.add_record(record)
    kept.states = point.slot < floors.get(point.branch, point.slot + 1)
    kept.slots.setdefault(point.branch, set()).add(point.slot)
    if not follow:
        kept.joined = set()
    return kept


def _is_buried(core: Core, point: Point) -> bool:
    [record] = core.ledger.read(point.branch, [point.slot])
    return record is not None and record.buried


def _of_log(live: LiveBranch, floor: int) -> Kept:
    kept, head = Kept(), live.refresh()
    if head.slot < live.line.start:
        kept.add(head)
        return kept
    first = max(floor, live.line.start)
    [record] = live.history.records([first])
    # Of a group, the state at its first commit: it has what a later one of them moved still where it was before.
    for table in still_there(live.history, first, 0 if record.commits else None).tables.values():
        kept.add_table(table)
    for low in range(first, head.slot + 1, BATCH):
        for record in live.history.records(list(range(low, min(low + BATCH, head.slot + 1)))):
            if record.buried:
                # What it had moved may still be part of a later state that somebody protects.
                raise Overtaken(
                    f"slot {record.slot} of branch {live.name!r} was replaced by a tombstone in the meantime"
                )
            kept.add_record(record)
    return kept
