"""Upkeep that takes longer than a request: begun by one, asked for by another, one job for each lake at a time."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from quire.errors import NotFound, QuireError, Throttled

REMEMBERED = 1_000


@dataclass
class Job:
    """One piece of upkeep."""

    id: str
    lake: str
    verb: str
    actor: str
    began: datetime
    state: Literal["running", "done", "failed"] = "running"
    ended: datetime | None = None
    result: Any = None
    error: QuireError | None = None

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "id": self.id,
            "verb": self.verb,
            "actor": self.actor,
            "state": self.state,
            "began": self.began.isoformat(),
            "ended": self.ended.isoformat() if self.ended else None,
            "result": self.result,
            "error": self.error.to_dict() if self.error else None,
        }


class Jobs:
    """All of a server's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._running: dict[str, threading.Thread] = {}

    def begin(self, lake: str, verb: str, actor: str, work: Callable[[], Any]) -> Job:
        """Run something in a thread of its own; `Throttled` while another job of the lake runs."""
        job = Job(secrets.token_urlsafe(12), lake, verb, actor, datetime.now(UTC))
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(self._run, job, work), name=f"quire-{verb}", daemon=True)
        with self._lock:
            if lake in self._running:
                raise Throttled("A job of this lake runs already.", next="Wait until it is done.", retry_after=10)
            self._running[lake] = thread
            self._jobs[job.id] = job
            while len(self._jobs) > REMEMBERED:
                self._jobs.popitem(last=False)
        thread.start()
        return job

    def _run(self, job: Job, work: Callable[[], Any]) -> None:
        try:
            job.result = work()
            job.state = "done"
        except QuireError as error:
            job.error, job.state = error, "failed"
        except Exception as error:
            job.error = QuireError(f"The job failed with {type(error).__name__}.", next="Report it.")
            job.state = "failed"
        finally:
            job.ended = datetime.now(UTC)
            with self._lock:
                self._running.pop(job.lake, None)

    def get(self, lake: str, id: str) -> Job:
        """A job of a lake."""
        with self._lock:
            found = self._jobs.get(id)
        if found is None or found.lake != lake:
            raise NotFound("There is no such job here.", next="Jobs are forgotten when the server is started again.")
        return found

    def of(self, lake: str) -> list[Job]:
        """The jobs of a lake that are remembered, the newest first."""
        with self._lock:
            return [job for job in reversed(self._jobs.values()) if job.lake == lake][:50]

    def wait(self, timeout: float) -> None:
        """Let what runs come to its end."""
        with self._lock:
            threads = list(self._running.values())
        for thread in threads:
            thread.join(timeout)
