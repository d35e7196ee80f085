"""Long work in parts, done by the tasks of a session.

A failure of the store is told as an answer, after a second try, so that it reaches the caller as the error that it was,
and only what it belongs to fails. A task that dies is run again by the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from quire.errors import QuireError, StorageError
from quire.formats import Part, Run
from quire.lake.core import Core
from quire.lake.engines import Answer, provided, tasks_on
from quire.store import clock
from quire.store.credentials import carried

TRIES = 2


def answers(session: Any, parts: Sequence[Part]) -> list[bytes | QuireError]:
    """What every part answered, or the error that it ended with. One job for all of them."""
    given = tuple(parts)

    def work(number: int) -> Answer:
        try:
            return {}, tried(given[number])
        except QuireError as error:
            return {"failed": error.to_dict()}, b""

    found: list[bytes | QuireError] = []
    for head, body in tasks_on(session)(len(given), work):
        told = head.get("failed")
        found.append(body if told is None else provided(session, "jobs").rebuilt(told))
    return found


def run_by(session: Any) -> Run:
    """Lets a session do parts; the first error of them is raised."""

    def run(parts: Sequence[Part]) -> list[bytes]:
        return [settled(answer) for answer in answers(session, parts)]

    return run


def settled(answer: bytes | QuireError) -> bytes:
    if isinstance(answer, QuireError):
        raise answer
    return answer


def tried(part: Callable[[], bytes]) -> bytes:
    """A part, done again if the store failed under it."""
    for _ in range(TRIES - 1):
        try:
            return part()
        except StorageError as error:
            if not error.retryable:
                raise
    return part()


@dataclass(frozen=True)
class Whereabouts:
    """A lake as tasks open it. Its options hold credentials: they travel with it and are never shown."""

    uri: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    call: str = field(default_factory=clock.token)
    """What it is opened for. A process that outlives this keeps nothing of what it has read for another."""

    @staticmethod
    def of(core: Core) -> Whereabouts:
        store = core.store
        return Whereabouts(store.uri, carried(store.scheme, store.options))

    def core(self) -> Core:
        """The lake in this process, read-only; it is opened once."""
        return _opened(self.uri, tuple(sorted(self.options.items())), self.call)


@lru_cache(maxsize=1)
def _opened(uri: str, options: tuple[tuple[str, str], ...], call: str) -> Core:
    return Core.open(uri, dict(options), read_only=True)
