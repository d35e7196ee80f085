"""Merge requests as they are stored: create-only generations, like refs.

A request is `_quire/requests/<number>/<generation>`, and each generation holds all of it. Nothing is changed in place:
of two who change a request at the same moment one creates the next generation, and the other looks at it and goes on
from there. Numbers and generations are given in order and never taken away.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

from quire.errors import CommitUnknown
from quire.ledger.head_search import last_existing
from quire.ledger.records import Count, GivenText, Moment, Point, Stored, corrupt, decode, encode, in_calendar, readable
from quire.store import Outcome, Store, run_parallel

FOLDER = "_quire/requests"
LAST = 10**9
"""The largest number of a request."""

Standing = Literal["open", "merged", "closed"]
Verdict = Literal["comment", "approve", "object"]


class StoredReview(Stored, frozen=True):
    """What somebody said of a request."""

    author: GivenText
    time: Moment
    verdict: Verdict = "comment"
    text: GivenText = ""
    head: str = ""
    """The commit of the source that was looked at."""


class StoredResolution(Stored, frozen=True):
    """How a conflict is to be resolved, for as long as its fingerprint fits."""

    table: GivenText
    fingerprint: str
    resolution: Literal["ours", "theirs", "delete", "values"]
    author: GivenText
    key: str = "null"
    """As JSON."""
    merged: str = "null"
    """As JSON: the values of a row, for "values"."""


class StoredRequest(Stored, frozen=True):
    """One generation of a request."""

    format: int
    write: str
    number: Count
    title: GivenText
    source: GivenText
    source_log: str
    """The id of the log of the source: a branch that is made later under its name is another one."""
    target: GivenText
    target_log: str
    author: GivenText
    time: Moment
    text: GivenText = ""
    state: Standing = "open"
    changed: Moment | None = None
    by: GivenText = ""
    """Who made this generation."""
    reviews: tuple[StoredReview, ...] = ()
    resolutions: tuple[StoredResolution, ...] = ()
    merged: Point | None = None
    """The commit that merged it."""

    def __post_init__(self) -> None:
        in_calendar(self.time, self.changed, *(review.time for review in self.reviews))
        if (self.state == "merged") != (self.merged is not None):
            raise ValueError("it is merged without a commit, or has one and is not merged")


readable(StoredRequest)


class StoredRequests:
    """The requests of a lake."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, number: int) -> tuple[StoredRequest | None, int]:
        """The newest generation of a request, and which one it is; (None, -1) when there is no such request."""
        bodies: dict[int, bytes | None] = {}

        def exists(generations: list[int]) -> list[bool]:
            fresh = [n for n in generations if n not in bodies]
            bodies.update(zip(fresh, self._store.get_many([_key(number, n) for n in fresh]), strict=True))
            return [bodies[n] is not None for n in generations]

        newest = last_existing(exists, 0)  # type: ignore[arg-type]
        body = bodies[newest] if newest >= 0 else None
        return (None, -1) if body is None else (_decoded(body, number, newest), newest)

    def create(self, request: StoredRequest, generation: int) -> bool:
        """Create a generation. False: somebody else created it first."""
        key = _key(request.number, generation)
        created = self._store.create(
            key, encode(request), mine=lambda found: _decoded(found, request.number, generation).write == request.write
        )
        if created.outcome is Outcome.UNKNOWN:
            raise CommitUnknown(
                f"The store did not confirm that request {request.number} was written.",
                next="List the requests. If it is not there, run the command again.",
                request=request.number,
                write=request.write,
            )
        return created.outcome is Outcome.COMMITTED

    def last(self) -> int:
        """The highest number that was given; 0 when there is no request."""

        def exists(numbers: list[int]) -> list[bool]:
            return [body is not None for body in self._store.get_many([_key(n, 0) for n in numbers])]

        return max(0, last_existing(exists, 1, 1))  # type: ignore[arg-type]

    def every(self) -> Iterator[StoredRequest]:
        """Every request as it stands, by number."""
        newest: dict[int, int] = {}
        for entry in self._store.list(FOLDER):
            request, _, last = entry.key.removeprefix(f"{FOLDER}/").partition("/")
            if request.isdecimal() and last.isdecimal():
                newest[int(request)] = max(int(last), newest.get(int(request), 0))
        keys = sorted(newest.items())
        bodies = run_parallel([partial(self._store.get, _key(*key)) for key in keys])
        for (number, generation), body in zip(keys, bodies, strict=True):
            yield _decoded(body, number, generation)


def _decoded(body: bytes, number: int, generation: int) -> StoredRequest:
    key = _key(number, generation)
    found = decode(body, StoredRequest, key)
    if found.number != number:
        raise corrupt(key, f"it says that it is request {found.number}")
    return found


def _key(number: int, generation: int) -> str:
    return f"{FOLDER}/{number:010d}/{generation:010d}"
