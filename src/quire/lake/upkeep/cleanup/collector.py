"""Cleanup: delete what no kept commit, tag, branch, lease or writer needs. The order makes it safe.

plan      the horizon, a floor for every branch, and what lies there now; a dry run ends here, and shows it
publish   a floor record on every branch, which every later writer reads before it takes a slot
protect   list notes, leases, tags and branches: whoever wrote itself down later has read the floor
gather    read the heads again, and every state that is kept, with the files it needs: the plan once more
bury      slots become tombstones, and their checkpoints go: nothing is shown whose files are gone
sweep     delete files, then the notes and leases that are over. It can stop anywhere and be run again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.errors import BranchClosed, InvalidInput, Refused, StorageError
from quire.lake.publish.control_records import mark
from quire.lake.upkeep.cleanup import retained as kept_by
from quire.lake.upkeep.cleanup.bury import bury, checkpoint_before, delete, is_unfinished
from quire.lake.upkeep.cleanup.plan import Plan, Planner, folder_of
from quire.lake.upkeep.cleanup.retained import Horizon, Log, Retention
from quire.ledger import Floor, Point, new_id
from quire.ledger.consumers import StoredConsumers
from quire.ledger.notes_and_leases import MARGIN, store_time
from quire.ledger.offers import FOLDER as OFFERS
from quire.ledger.token_pages import FOLDER, SLACK, WINDOW, last_minted
from quire.progress import Progress, silent
from quire.prompt import OneLine, counted
from quire.store import clock

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.lake import Lake


TRIES = 3


@dataclass(repr=False)
class Cleaned(OneLine):
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
    links: list[str] = field(default_factory=list)
    """Symbolic links in the lake's folder: neither they nor what they point to is ever deleted."""

    @staticmethod
    def planned(plan: Plan, *, dry_run: bool) -> Cleaned:
        """What a plan comes to."""
        done = Cleaned(dry_run, plan.times.horizon)
        done.floors = {log.name: plan.floors[log.line.branch] for log in plan.logs if log.live is not None}
        done.takes(plan)
        if dry_run:
            done.names = [entry.key for entry in plan.files]
        return done

    def takes(self, plan: Plan) -> None:
        """Say what goes by a plan, in place of what was said before."""
        self.tables = {}
        for entry in plan.files:
            counts = self.tables.setdefault(folder_of(entry), {"files": 0, "bytes": 0})
            counts["files"] += 1
            counts["bytes"] += entry.size
        self.files, self.bytes = len(plan.files), sum(entry.size for entry in plan.files)
        self.kept = plan.kept.states
        self.revoked = [note.what.id for note in plan.times.dead]
        self.skipped = dict(plan.skipped)

    def _facts(self) -> str:
        did = "would remove" if self.dry_run else "removed"
        return (
            f"{did} {counted(self.files, 'file')}, {counted(self.bytes, 'byte')}; kept {counted(self.kept, 'commit')}"
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
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
            "links": self.links,
        }


def cleanup(lake: Lake, retention: Retention, *, dry_run: bool, progress: Progress | None) -> Cleaned:
    """See `Lake.cleanup`."""
    (lake._core.check if dry_run else lake._core.check_writable)()
    return Collector(lake, retention, dry_run=dry_run, progress=progress).run()


class Collector:
    """One run of cleanup: a plan, and what is done by it."""

    def __init__(self, lake: Lake, retention: Retention, *, dry_run: bool, progress: Progress | None) -> None:
        _check(retention)
        self._lake, self._core, self._store = lake, lake._core, lake._core.store
        self._dry = dry_run
        self._progress = progress or silent
        self._telling = clock.lock()
        self._planner = Planner(lake, retention, self._tell)

    def _tell(self, what: str, done: int, total: int) -> None:
        with self._telling:  # what is told comes from several threads
            self._progress(what, done, total)

    def run(self) -> Cleaned:
        """Clean up. A run that finds itself overtaken by another begins again; it has deleted nothing by then."""
        self._lake._live.history.confirm(self._lake._live.state)
        for _ in range(TRIES - 1):
            with contextlib.suppress(kept_by.Overtaken):
                return self._run()
        try:
            return self._run()
        except kept_by.Overtaken:
            raise StorageError(
                f"Other cleanups of {self._store.uri} finished first {TRIES} times in a row.",
                next="One cleanup at a time is enough. Run it again when the others are done.",
            ) from None

    def _run(self) -> Cleaned:
        self._check_links()
        plan = self._plan()
        done = Cleaned.planned(plan, dry_run=self._dry)
        floors = plan.needs_floors
        if not self._dry and (floors or plan.leases or is_unfinished(self._core, plan)):
            if floors:
                self._publish(plan)
            plan = self._safe_plan(plan, with_files=floors)
            done.takes(plan)
            self._carry_out(plan, done)
        done.links = self._store.links()
        return done

    def _check_links(self) -> None:
        """Refuse when a part of the ledger may be elsewhere: what is not listed protects nothing."""
        for key in self._store.links():
            if key.split("/")[0] == "_quire":
                raise Refused(
                    f"{key} in the lake at {self._store.uri} is a symbolic link, so cleanup cannot see what protects"
                    " commits. Nothing was deleted.",
                    next="Replace the link with what it points to, or remove it if it does not belong to the lake.",
                    uri=self._store.uri,
                    key=key,
                )

    # -- the plan ---------------------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        """What would go as things are. What lies in tables that cannot be touched is no reason to do anything."""
        now = clock.now() if self._dry else store_time(self._store, f"now-{new_id()}")
        plan = self._planner.first(now)
        return plan.sparing(self._followed(plan)) if plan.files else plan

    def _safe_plan(self, plan: Plan, *, with_files: bool) -> Plan:
        """What goes for certain: by protectors and heads that were read after the floors were published."""
        plan = self._planner.second(plan)
        behind = self._followed(plan)
        return (self._planner.with_files(plan) if with_files else plan).sparing(behind)

    def _followed(self, plan: Plan) -> dict[str, tuple[str, str]]:
        """Bring plain HEADs to a state that is kept; the tables for which that cannot be done."""
        if self._lake._backfill and not self._dry and self._store.scheme != "memory":
            self._lake._main().backfill(every=True)
        return self._planner.behind(plan.floors)

    # -- the floors -------------------------------------------------------------------------------------------

    def _publish(self, plan: Plan) -> None:
        """Tell every writer to come what goes, and which writers count as dead."""
        done = 0
        for _, level in itertools.groupby(plan.lives, key=lambda live: len(live.line.inherited)):  # parents first
            for _ in kept_by.side_by_side([partial(self._publish_on, live, plan) for live in level]):
                done += 1
                self._tell("publishing floors", done, len(plan.lives))

    def _publish_on(self, live: LiveBranch, plan: Plan) -> None:
        line, slot = live.line, plan.floors[live.line.branch]
        checkpoint_before(self._core, line, slot)
        with live.publishing:
            floor = Floor(slot=slot, horizon=plan.times.horizon, revoked=tuple(n.what.id for n in plan.times.dead))
            before = Point(branch=line.branch, slot=slot - 1) if slot > line.start else None
            with contextlib.suppress(BranchClosed):  # deleted since: it counts as still there
                live.checkpoint()  # before the mark, which names it: marks alone must not make opening dearer
                mark(live, "floor", floor, checkpoint=before)
                with contextlib.suppress(StorageError):
                    live.hint()

    # -- deleting ---------------------------------------------------------------------------------------------

    def _carry_out(self, plan: Plan, done: Cleaned) -> None:
        """First the log, so that nothing is shown whose files are gone."""
        for level in plan.levels():
            self._bury(level, plan, done)
        self._sweep([entry.key for entry in plan.files], "deleting files")
        over = [*(note.key for note in plan.times.dead), *(lease.key for lease in plan.leases)]
        self._sweep(over, "removing protectors")
        self._tidy(plan.times)

    def _bury(self, logs: Sequence[Log], plan: Plan, done: Cleaned) -> None:
        burials = kept_by.side_by_side([partial(bury, self._core, plan, log, self._tell) for log in logs])
        for log, burial in zip(logs, burials, strict=True):
            done.slots += burial.slots
            done.checkpoints += burial.checkpoints
            if burial.refused:
                done.skipped[f"log of branch {log.name!r}"] = f"not replaced by a tombstone: {burial.refused}"

    def _sweep(self, keys: Sequence[str], what: str) -> None:
        delete(self._store, keys, what, self._tell)

    def _tidy(self, times: Horizon) -> None:
        """Old probes and offers, reports of recoveries long ago, what processes that were killed had half written.

        An offer that is older than the horizon was made before the floors, over which nobody takes it.
        """
        old = [e.key for e in self._store.list("_quire/probe") if e.modified < times.horizon]
        old += [e.key for e in self._store.list(OFFERS) if e.modified < times.horizon]
        old += [e.key for e in self._store.list("_quire/recovery") if e.modified < times.cutoff]
        old += StoredConsumers(self._store).over(times.horizon)
        forgotten = times.now - WINDOW - 2 * SLACK
        for entry in self._store.list(FOLDER):
            last = last_minted(entry.key)
            if last is not None and last < forgotten and entry.modified < times.horizon:
                old.append(entry.key)
        self._sweep(old, "tidying")
        self._store.sweep(times.horizon)


def _check(retention: Retention) -> None:
    if retention.keep < 1:
        raise InvalidInput("Cleanup keeps at least the newest commit.", next="Pass keep=1 or more (`--keep`).")
    for name in ("older_than", "grace", "dead_after"):
        if getattr(retention, name) < timedelta(0):
            raise InvalidInput(f"{name} cannot be negative.", next="Pass a length of time of 0 or more.")
    if retention.dead_after < MARGIN * 6:
        raise InvalidInput(
            "dead_after is too short: a writer renews its note every 10 seconds, and some notes come late.",
            next=f"Pass a dead_after of at least {MARGIN.seconds * 6} seconds.",
        )
