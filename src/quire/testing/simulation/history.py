"""One simulated history: several programs on one lake, faults, and everything that must hold afterwards."""

from __future__ import annotations

import contextlib
import gc
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field

import quire
from quire.ledger import MAIN, Hint, encode, hint_key
from quire.store import clock
from quire.testing import memory
from quire.testing.simulation import store as _scheme  # noqa: F401  (makes sim:// known)
from quire.testing.simulation import vanishing_lakes
from quire.testing.simulation.actors import ACCOUNTS, URI, Actor
from quire.testing.simulation.checks import check_end, check_log
from quire.testing.simulation.effects import Attempt
from quire.testing.simulation.merges import MERGES, merging
from quire.testing.simulation.model import Model
from quire.testing.simulation.operations import WEIGHTS, cleanup, fork, read_leased, tag
from quire.testing.simulation.plan import Plan
from quire.testing.simulation.programs_that_read_results import TOLD, attentive
from quire.testing.simulation.scheduler import Stuck
from quire.testing.simulation.world import SimulatedWorld

STEPS = 20_000
"""More turns than any history takes; one that takes more hangs."""


@dataclass
class Result:
    """How a history went. The same seed gives the same digest."""

    seed: int
    digest: str
    violations: list[str]
    counts: dict[str, int]
    lines: list[str] = field(default_factory=list)


class History:
    """One seed's programs, faults and model."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.world = SimulatedWorld(seed, limit=STEPS, keep=keep_trace)
        rng = self.world.rng
        self.world.faults = self.faults = Plan(rng, lambda: self.world.scheduler.now)
        self.model = Model(self.world.bucket, "lake")
        self.attempts: dict[str, Attempt] = {}
        self.acknowledged: list[tuple[str, str]] = []
        """Commits that were acknowledged and are not an attempt's: fast-forwards, reverts."""
        self.tags: dict[str, str] = {}
        self.branches: dict[str, str] = {}
        self.keep, self.older_than = rng.choice((1, 2, 5)), rng.choice((0.0, 10.0, 60.0))
        self.grace, self.dead_after = rng.choice((0.0, 5.0, 30.0)), rng.choice((30.0, 60.0, 300.0))
        self._numbers = 0
        self._tokens: list[str] = []
        wanted = WEIGHTS | MERGES if merging(seed) else WEIGHTS | TOLD if attentive(seed) else WEIGHTS
        self.operations = list(wanted)
        # Each history likes some operations more than others.
        self.weights = [w * rng.choice((0.3, 1, 1, 3)) for w in wanted.values()]
        self.cached = rng.choice((0, 64))
        """How many files a reader remembers."""
        self.collecting = self.lingering = 0
        """How many cleanups are under way, and how many transactions are held open."""
        self.rivalry = rng.choice((0.0, 0.3, 0.9))
        """How often a program expects to lose races, so that it offers its commits and looks for those of others."""
        self.restless = rng.random() < 0.4
        """Whether transactions and snapshots are often held for long, while much is cleaned up."""
        self.cleanups = rng.choice((4, 6)) if self.restless else rng.choice((1, 2))
        """How many there may be."""
        if self.restless:
            self.keep, self.older_than = rng.choice((1, 1, 2)), rng.choice((0.0, 0.0, 10.0))
            self.grace, self.dead_after = rng.choice((0.0, 0.0, 5.0)), 30.0
            for operation in (cleanup, read_leased, tag, fork):
                self.weights[self.operations.index(operation)] *= 3

    # -- what actors ask --------------------------------------------------------------------------------------

    def number(self) -> int:
        """A number that was never given before."""
        self._numbers += 1
        return self._numbers

    def shared_token(self) -> str:
        """A token that others may be using too."""
        rng = self.world.rng
        if not self._tokens or rng.random() < 0.3:
            self._tokens.append(quire.token())
        return rng.choice(self._tokens[-2:])

    def count(self, what: str, number: int = 1) -> None:
        self.world.trace.count(what, number)

    def say(self, text: str) -> None:
        self.world.trace.note(f"{self.world.scheduler.now:11.3f} -- {text}")

    def wrong(self, what: str) -> None:
        self.say(f"VIOLATION {what}")
        self.model.wrong(what)

    # -- the run ----------------------------------------------------------------------------------------------

    def run(self) -> Result:
        memory.install(cached=self.cached)
        with clock.using(self.world), _nothing_collected():
            try:
                self._begin()
                self.world.scheduler.run()
            except Stuck as stuck:
                self.wrong(f"it does not end: {stuck}")
            for task, error in self.world.scheduler.errors:
                self.wrong(f"{task.process.name}/{task.name} ended with {error!r}")
            if not self.model.violations:
                check_log(self)
            if not self.model.violations:
                self._check_end()
        trace = self.world.trace
        trace.count("fault", self.faults.drawn)
        for what, number in self.model.counts.items():
            trace.count(what, number)
        return Result(self.seed, trace.digest, list(self.model.violations), dict(trace.counts), trace.lines)

    def _begin(self) -> None:
        lake = quire.create(URI, author="maker", backfill=False)
        with lake.transaction("begin") as tx:
            for name in ("left", "right"):
                rows = [{"id": i, "n": 100} for i in range(ACCOUNTS)]
                tx.create_table(name, rows, key="id", format="memory")
            tx.create_table("items", [{"id": i, "v": 0} for i in range(4)], key="id", format="memory")
            tx.create_table("events", [{"n": 0, "w": 0}], format="memory")
        rng = self.world.rng
        writers = rng.randint(3, 5)
        total = rng.randint(32, 50)
        for _ in range(rng.choice((0, 0, 1, 3))):
            self.world.scheduler.later(rng.uniform(0.5, 90), self._lie)
        self.count("writer", writers)
        for index in range(writers):
            steps = total // writers + (index < total % writers)
            Actor(self, f"w{index}", steps).start(delay=rng.random())

    def _lie(self) -> None:
        """The hint of main is only a hint: it may be wrong, garbage or gone."""
        rng, key = self.world.rng, f"lake/{hint_key(MAIN)}"
        self.count("lying hint")
        chance = rng.random()
        if chance < 0.2:
            self.world.bucket.delete(key)
        elif chance < 0.4:
            self.world.bucket.write(key, b"{")
        else:
            head = rng.randrange(2 * self.model.logs[self.model.main].head + 2)
            self.world.bucket.write(key, encode(Hint(branch=self.model.main, head=head)))

    def _check_end(self) -> None:
        memory.install()
        try:
            check_end(self)
        except Exception as error:
            text = "".join(traceback.format_exception(error)[-4:])
            self.wrong(f"at the end: {type(error).__name__}: {error}\n{text}")


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """When garbage is collected depends on what ran before; whether a transaction was given up must not."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run(seed: int, *, keep_trace: bool = False) -> Result:
    """Run one history.

    >>> run(1).violations
    []
    """
    result = History(seed, keep_trace=keep_trace).run()
    if attentive(seed):
        result.violations += vanishing_lakes.run(seed)
    return result
