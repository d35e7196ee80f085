"""Threads that take turns, in virtual time.

A *task* is a thread of which exactly one runs at any moment. It gives way when it sleeps or waits for a lock; whoever
is due next, by virtual time and then by chance, goes on. All chance comes from one generator, so one seed replays one
history. A *process* is a group of tasks that live and die together: when it crashes, each of its tasks unwinds with
`Crashed` at the point where it stands, and nothing it holds survives.

    scheduler = Scheduler(random.Random(7))
    scheduler.spawn(Process("w1"), "main", work)
    scheduler.run()
"""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable
from types import TracebackType

from quire.store import clock


class Crashed(BaseException):
    """The simulated process is gone. Not an `Exception`, so that nothing in the code under test survives it."""


class Stuck(Exception):
    """A history that does not end: too many steps, or tasks that wait for each other for ever."""


class Process:
    """One simulated operating-system process."""

    def __init__(self, name: str, *, skew: float = 0.0) -> None:
        self.name = name
        self.alive = True
        self.skew = skew
        """Seconds by which its clock is wrong."""
        self.requests = 0
        self.crash_at: int | None = None
        """The number of the request at which it dies."""
        self.cut_until = 0.0
        """Until then it does not reach the store."""
        self.frozen_until = 0.0
        """Until then none of its tasks runs: a machine that was suspended, a very long pause."""
        self.tasks: list[Task] = []
        self.crowd = 0
        """How many of its threads write at the same time."""


class Task:
    """One thread of a process. Satisfies `clock.Thread`."""

    def __init__(self, process: Process, name: str, work: Callable[[], object]) -> None:
        self.process, self.name, self.work = process, name, work
        self.turn = threading.Lock()
        self.turn.acquire()
        self.ticket = 0
        self.done = False
        self.awaited_by: list[Task] = []

    def is_alive(self) -> bool:
        return not self.done

    def join(self, timeout: float | None = None) -> None:
        scheduler = clock.world().scheduler  # type: ignore[attr-defined]
        end = None if timeout is None else scheduler.now + timeout
        while not self.done and (end is None or scheduler.now < end):
            self.awaited_by.append(scheduler.current)
            try:
                scheduler.block(None if end is None else end - scheduler.now)
            finally:
                self.awaited_by.remove(scheduler.current)


class Scheduler:
    """Runs tasks one at a time. `now` is virtual time, in seconds."""

    def __init__(self, rng: random.Random, *, limit: int = 200_000) -> None:
        self.rng = rng
        self.now = 0.0
        self.steps = 0
        self.limit = limit
        self.current: Task | None = None
        self.world: clock.World | None = None
        self.tasks: list[Task] = []
        self.stuck: str | None = None
        self.errors: list[tuple[Task, BaseException]] = []
        """What tasks ended with, other than a crash."""
        self._queue: list[tuple[float, float, int, int, Task | Callable[[], object]]] = []
        self._pushed = 0
        self._main = threading.Lock()
        self._main.acquire()
        self._left = 0

    # -- from outside -----------------------------------------------------------------------------------------

    def spawn(self, process: Process, name: str, work: Callable[[], object], *, delay: float = 0.0) -> Task:
        """A new task, which starts after `delay` seconds."""
        task = Task(process, name, work)
        process.tasks.append(task)
        self.tasks.append(task)
        self._left += 1
        _runner().take(self, task)
        self._push(self.now + delay, task)
        return task

    def later(self, delay: float, event: Callable[[], object]) -> None:
        """Call `event` at a later time, between the turns of tasks. It must not wait."""
        self._push(self.now + delay, event)

    def run(self) -> None:
        """Let the tasks take turns until all of them have ended; then let what is still due happen."""
        if self._left:
            self._pass_on()
            self._main.acquire()
        if self.stuck:
            raise Stuck(self.stuck)
        while self._queue:
            when, _, _, _, what = heapq.heappop(self._queue)
            if not isinstance(what, Task):
                self.now = max(self.now, when)
                what()

    # -- from inside a task -----------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Let time pass; others run. Without a task, only the clock moves."""
        task = self.current
        if task is None:
            self.now += max(0.0, seconds)
            return
        self._check(task)
        self._push(self.now + max(0.0, seconds), task)
        self._wait(task)

    def block(self, timeout: float | None = None) -> None:
        """Wait to be woken, or until time is up."""
        task = self.current
        assert task is not None
        self._check(task)
        if timeout is not None:
            self._push(self.now + max(0.0, timeout), task)
        self._wait(task)

    def wake(self, task: Task) -> None:
        """Let a blocked task go on, a moment from now."""
        if not task.done:
            self._push(self.now, task)

    def freeze(self, process: Process, seconds: float) -> None:
        """Stop every task of a process for a while. The running one goes on until it next gives way."""
        process.frozen_until = max(process.frozen_until, self.now + seconds)

    def kill(self, process: Process) -> None:
        """End a process. Its other tasks unwind when their turn comes; the caller must raise `Crashed` itself."""
        process.alive = False
        for task in process.tasks:
            if task is not self.current:
                self.wake(task)

    # -- turns ------------------------------------------------------------------------------------------------

    def _push(self, when: float, what: Task | Callable[[], object]) -> None:
        self._pushed += 1
        ticket = 0
        if isinstance(what, Task):
            what.ticket += 1
            ticket = what.ticket
        heapq.heappush(self._queue, (when, self.rng.random(), self._pushed, ticket, what))

    def _wait(self, task: Task) -> None:
        """Give the turn away and take it back when it comes round."""
        if not self._pass_on():
            task.turn.acquire()
        self._check(task)

    def _check(self, task: Task) -> None:
        if not task.process.alive:
            raise Crashed

    def _pass_on(self) -> bool:
        """Give the turn to whoever is due. True when that is the running task itself."""
        mine = self.current
        self.steps += 1
        if self.steps > self.limit and self.stuck is None:
            self._give_up(f"more than {self.limit} steps")
        while self._queue:
            when, _, _, ticket, what = heapq.heappop(self._queue)
            if not isinstance(what, Task):
                self.now = max(self.now, when)
                what()
                continue
            if what.done or ticket != what.ticket:
                continue
            if what.process.frozen_until > when and what.process.alive:
                self._push(what.process.frozen_until, what)
                continue
            self.now = max(self.now, when)
            self.current = what
            if what is mine:
                return True
            what.turn.release()
            return False
        if self._left and self.stuck is None:
            waiting = ", ".join(f"{t.process.name}/{t.name}" for t in self.tasks if not t.done)
            self._give_up(f"everybody waits: {waiting}")
            return self._pass_on()
        self.current = None
        self._main.release()
        return False

    def _give_up(self, why: str) -> None:
        self.stuck = why
        for task in self.tasks:
            task.process.alive = False
            self.wake(task)

    def ended(self, task: Task) -> None:
        task.done = True
        for waiting in list(task.awaited_by):
            self.wake(waiting)
        self._left -= 1
        if self._left:
            self._pass_on()
        else:
            self.current = None
            self._main.release()


class _Runner:
    """An operating-system thread, used for one task after the other."""

    def __init__(self) -> None:
        self._given = threading.Lock()
        self._given.acquire()
        self._job: tuple[Scheduler, Task] | None = None
        threading.Thread(target=self._run, name="quire-simulation", daemon=True).start()

    def take(self, scheduler: Scheduler, task: Task) -> None:
        self._job = (scheduler, task)
        self._given.release()

    def _run(self) -> None:
        while True:
            self._given.acquire()
            assert self._job is not None
            (scheduler, task), self._job = self._job, None
            task.turn.acquire()
            assert scheduler.world is not None
            try:
                with clock.using(scheduler.world):
                    if task.process.alive:
                        task.work()
            except Crashed:
                pass
            except BaseException as error:
                scheduler.errors.append((task, error))
            # Free again before the turn is given away: afterwards another thread is running.
            _free.append(self)
            scheduler.ended(task)


_free: list[_Runner] = []


def _runner() -> _Runner:
    return _free.pop() if _free else _Runner()


class Lock:
    """A lock, re-entrant or not, between the tasks of one process."""

    def __init__(self, scheduler: Scheduler, *, again: bool) -> None:
        self._scheduler, self._again = scheduler, again
        self._owner: Task | None = None
        self._depth = 0
        self._waiting: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        task = self._scheduler.current
        if task is None:
            return True
        end = None if timeout < 0 else self._scheduler.now + timeout
        while self._owner is not None and not (self._again and self._owner is task):
            if not blocking or (end is not None and self._scheduler.now >= end):
                return False
            self._waiting.append(task)
            try:
                self._scheduler.block(None if end is None else end - self._scheduler.now)
            finally:
                if task in self._waiting:
                    self._waiting.remove(task)
        self._owner = task
        self._depth += 1
        return True

    def release(self) -> None:
        if self._scheduler.current is None:
            return
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            waiting, self._waiting = self._waiting, []
            for task in waiting:
                self._scheduler.wake(task)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class Condition(Lock):
    """What `threading.Condition` is, between the tasks of one process."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler, again=True)
        self._sleeping: list[Task] = []

    def wait(self, timeout: float | None = None) -> bool:
        task = self._scheduler.current
        if task is None:
            return False
        depth, self._depth = self._depth, 1
        self.release()
        self._sleeping.append(task)
        try:
            self._scheduler.block(timeout)
        finally:
            told = task not in self._sleeping
            if not told:
                self._sleeping.remove(task)
            if task.process.alive:
                self.acquire()
            else:
                self._owner = task
            self._depth = depth
        return told

    def notify_all(self) -> None:
        sleeping, self._sleeping = self._sleeping, []
        for task in sleeping:
            self._scheduler.wake(task)
