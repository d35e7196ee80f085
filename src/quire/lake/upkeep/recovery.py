"""Recovery: finish what a published record still asks for, whoever published it.

A record is the plan: what follows a publish is derived from the state that the log gives, by `LiveBranch.backfill`, and
a live writer and recovery run that same code. Nothing visible is ever rolled back, and a live writer is left alone.
Recovery takes no slot: what it did is told in a side log.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.arguments import LONGEST_WAIT, bounded, checks_arguments
from quire.errors import FormatError, InvalidInput, shown
from quire.formats import Promotion
from quire.lake.branch.live import LiveBranch
from quire.lake.context import Core
from quire.ledger import CHECKPOINT_EVERY, FORMAT, State, decode, encode, new_id
from quire.ledger.notes_and_leases import store_time
from quire.ledger.records import Moment, Stored, readable
from quire.progress import Progress, silent
from quire.prompt import OneLine, PublicNames, counted
from quire.store import Entry, clock, run_parallel

if TYPE_CHECKING:
    from quire.lake.lake import Lake

_log = logging.getLogger("quire")

FOLDER = "_quire/recovery"
LEFT_OVER = re.compile(r"_versions/[^/]+\.manifest-[0-9a-f-]{36}$")
"""What a client that commits through a namespace leaves behind when it dies: Lance's own staging file."""
SETTLED = timedelta(hours=1)
"""After this long nobody is in the middle of such a commit."""


class Step(OneLine, Stored, frozen=True):
    """One table that was brought to its published state, and whose commit that was."""

    table: str
    commit: str
    author: str
    outcome: str
    version: int
    detail: str = ""

    def _facts(self) -> str:
        return f"{self.table} {self.outcome}, version {self.version}, of commit {self.commit}"


class Recovered(OneLine, Stored, frozen=True):
    """What one recovery did."""

    format: int
    time: Moment
    by: str
    head: str
    steps: tuple[Step, ...] = ()
    tidied: int = 0
    checkpoint: int | None = None

    def _facts(self) -> str:
        checkpoint = "" if self.checkpoint is None else f", checkpoint {self.checkpoint}"
        done, tidied = counted(len(self.steps) - len(self.left), "table"), counted(self.tidied, "file")
        return f"{done} brought up to date, {len(self.left)} left, {tidied} removed{checkpoint}"

    @property
    def left(self) -> tuple[Step, ...]:
        """What could not be finished: a plain writer was there first, or the table must not be touched."""
        return tuple(s for s in self.steps if s.outcome not in ("promoted", "current"))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "time": self.time.isoformat(),
            "by": self.by,
            "head": self.head,
            "steps": [{name: getattr(s, name) for name in s.__struct_fields__} for s in self.steps],
            "tidied": self.tidied,
            "checkpoint": self.checkpoint,
        }


readable(Recovered)


def recover(live: LiveBranch, *, every: bool = True, progress: Progress | None = None) -> Recovered:
    """Finish the backfills of a lake, write a missing checkpoint, remove what dead clients left.

    With `every` no hint is believed and every table is looked at. The number of requests follows the number of tables,
    not the number of versions that were not backfilled: states in between are skipped.
    """
    core = live.core
    state = live.refresh()
    done = _backfill(live, every, progress or silent)
    at = None
    if state.behind >= CHECKPOINT_EVERY:
        live.checkpoint(force=True)
        at = state.slot
    steps = tuple(_steps(live, state, done))
    tidied = _tidy(core, state) if every else 0
    live.hint()
    found = Recovered(FORMAT, clock.now(), core.author, state.head.commit, steps=steps, tidied=tidied, checkpoint=at)
    if tidied or any(s.outcome == "promoted" for s in steps):  # what cannot be done is told to the caller every time
        micros = int(found.time.timestamp() * 1e6)
        core.store.put(f"{FOLDER}/{micros:020d}-{new_id()}.json", encode(found))
    return found


def _backfill(live: LiveBranch, every: bool, progress: Progress) -> list[Promotion]:
    if not live.is_main or live.core.store.scheme == "memory":
        return []
    return live.backfill(every=every, progress=progress)


def _steps(live: LiveBranch, state: State, done: list[Promotion]) -> Iterator[Step]:
    """Promotions that changed or left something, with the author of the commit they belong to."""
    told = [p for p in done if p.outcome != "current"]
    tables = {t.info.name: t for t in state.tables.values()}
    slots = sorted({tables[p.table].commit.slot for p in told if p.table in tables})
    records = dict(zip(slots, live.history.records(slots), strict=True))
    for promotion in told:
        table = tables.get(promotion.table)
        if table is None:
            continue
        record = records[table.commit.slot]
        author = record.commits[table.commit.index].author if table.commit.index < len(record.commits) else ""
        yield Step(
            promotion.table,
            table.commit.commit,
            author,
            promotion.outcome,
            promotion.version,
            promotion.detail,
        )


def _tidy(core: Core, state: State) -> int:
    """Remove what dead processes left beside the versions: it slows plain readers down."""
    if core.store.scheme == "memory" or not state.tables:
        return 0
    own = sorted({t.pin.location for t in state.tables.values() if t.pin.location.startswith("tables/")})
    links = core.store.links()  # what is behind them is not ours
    own = [place for place in own if not any(f"{place}/_versions/".startswith(f"{link}/") for link in links)]

    def left_at(location: str) -> list[Entry]:
        return [e for e in core.store.list(f"{location}/_versions") if LEFT_OVER.search(e.key)]

    found = [entry for entries in run_parallel([partial(left_at, location) for location in own]) for entry in entries]
    if not found:
        return 0
    now = store_time(core.store, f"now-{new_id()}")
    old = [e.key for e in found if now - e.modified > SETTLED]
    run_parallel([partial(core.store.delete, key) for key in old])
    return len(old)


def reports(core: Core) -> list[Recovered]:
    """The side log, newest first."""
    keys = sorted((e.key for e in core.store.list(FOLDER)), reverse=True)
    bodies = core.store.get_many(keys)
    found = []
    for key, body in zip(keys, bodies, strict=True):
        if body is None:
            continue
        try:
            found.append(decode(body, Recovered, key))
        except FormatError:
            continue  # a side log: what cannot be read is no reason to show nothing
    return found


def check_rounds(every: Any, **jobs: tuple[Any, Callable[..., Any]]) -> None:
    """Refuse what maintenance cannot be run with, before it would fail in the background again and again."""
    if isinstance(every, bool) or not isinstance(every, int | float) or not 0 < every <= LONGEST_WAIT:
        raise InvalidInput(
            f"every={shown(every)} is not a number of seconds above 0 and up to {LONGEST_WAIT:.0f}.",
            next="Pass seconds, such as every=60.",
        )
    for name, (given, job) in jobs.items():
        if isinstance(given, bool):
            continue
        if not isinstance(given, Mapping):
            raise InvalidInput(
                f"{name}={given!r} is neither True, False nor a dict of options.",
                next=f"Pass True, or options of lake.{name}().",
            )
        known = [option for option in inspect.signature(job).parameters if option != "dry_run"]
        for option in given:
            if option not in known:
                raise InvalidInput(
                    f"maintain cannot pass {option!r} to lake.{name}().", next=f"Use one of {', '.join(known)}."
                )


def maintain(
    lake: Lake, every: float, *, optimize: bool | Mapping[str, Any], cleanup: bool | Mapping[str, Any]
) -> Maintenance:
    """See `Lake.maintain`."""
    asked: dict[str, tuple[bool | Mapping[str, Any], Callable[..., Any]]]
    asked = {"optimize": (optimize, lake.optimize), "cleanup": (cleanup, lake.cleanup)}
    check_rounds(every, **asked)
    jobs: list[tuple[str, Callable[[], Any]]] = [("recover", lambda: recover(lake._main(), every=False))]
    for name, (given, job) in asked.items():
        if given is not False:
            jobs.append((name, partial(job, **(given if isinstance(given, Mapping) else {}))))
    return Maintenance(lake, every, jobs)


@dataclass
class Rounds:
    """What maintenance has done since it was started."""

    rounds: int = 0
    failures: list[str] = field(default_factory=list)
    last: datetime | None = None


@checks_arguments
class Maintenance(OneLine, PublicNames):
    """A thread that keeps a lake in order until it is stopped: recover, and on request optimize and cleanup.

    with lake.maintain(every=60, optimize=True, cleanup=True):
        serve_forever()
    """

    def __init__(self, lake: Lake, every: float, jobs: list[tuple[str, Callable[[], Any]]]) -> None:
        self._lake, self._every, self._jobs = lake, every, jobs
        self._stop = clock.condition()
        self._stopping = False
        self.done = Rounds()
        self._thread = clock.start(self._run, "quire-maintenance")

    def _facts(self) -> str:
        state = "running" if self.running else "stopped"
        failed = f", {counted(len(self.done.failures), 'failure')}" if self.done.failures else ""
        return f"{self._lake.uri} every {self._every:g} s, {state}, {counted(self.done.rounds, 'round')}{failed}"

    @property
    def running(self) -> bool:
        """Whether its thread is still at work."""
        return self._thread.is_alive() and not self._stopping

    def stop(self, timeout: float = 60.0) -> bool:
        """Finish the job at hand and end. False when it takes longer than `timeout` seconds."""
        bounded("timeout", timeout, 0, math.inf)
        with self._stop:
            self._stopping = True
            self._stop.notify_all()
        self._thread.join(min(timeout, LONGEST_WAIT))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            for name, job in self._jobs:
                with self._stop:
                    if self._stopping:
                        return
                try:
                    job()
                except Exception as error:
                    _log.warning("maintenance of %s: %s failed: %s", self._lake.uri, name, error)
                    self.done.failures.append(f"{name}: {type(error).__name__}: {error}")
                    del self.done.failures[:-20]
            self.done.rounds += 1
            self.done.last = clock.now()
            with self._stop:
                if self._stopping:
                    return
                self._stop.wait(self._every)

    def __enter__(self) -> Maintenance:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
