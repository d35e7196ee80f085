"""What a place to keep objects must offer, and how it says that something failed.

A backend does exactly one request per call and never retries. It raises only `Failure`, whose `reason` is all that the
rules above it look at: an outcome is decided by type and by reading back, never by the text of a message.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Entry:
    """One stored object. `modified` is the store's own clock, in UTC."""

    key: str
    size: int
    modified: datetime


class Reason(enum.Enum):
    ABSENT = "absent"
    """The object is not there; for a write, its bucket is not there."""
    EXISTS = "exists"
    """The store answered that the condition of a create does not hold. It may be our own write that it met."""
    DENIED = "denied"
    """The store answered that these credentials may not do this."""
    REFUSED = "refused"
    """Nothing was sent or changed, and trying again will not help."""
    UNSAFE = "unsafe"
    """The store cannot create an object only if it is absent. Nothing was changed."""
    LATE = "late"
    """Time ran out; nothing that was sent can have had an effect."""
    GONE = "gone"
    """The root, or what a write was to follow, is not what it was when it was read. Nothing was changed."""
    UNDURABLE = "undurable"
    """The object is there, but the disk did not say that it will stay there."""
    LARGE = "large"
    """The object is larger than anything that is read whole."""
    FAILED = "failed"
    """Anything else. A write that failed like this may have been applied, or may still be."""


class Failure(Exception):
    """A request failed. `detail` is fit to print: it holds no credential and no raw answer of a server."""

    def __init__(self, reason: Reason, detail: str, advice: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail
        self.advice = advice
        """What to do about it, where the backend knows more than its reason says."""


@dataclass(frozen=True)
class Follows:
    """What must be there for a create to mean what its caller thinks: an object that was read before."""

    key: str
    known: Callable[[bytes], bool]
    """Whether bytes are those of that object. It may raise a typed error when they can be no such object."""


LARGEST = 1 << 30
"""No object that is read whole is larger than this; one that is was not written by us."""


class Backend(Protocol):
    """One request per call. Keys are valid and relative to the root. Safe to call from many threads."""

    attempts: int
    """How often a request that is safe to repeat is worth sending in all."""

    in_order: bool
    """Whether `pages` comes sorted by key and can start after any key."""

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, length: int) -> bytes: ...

    def head(self, key: str) -> Entry: ...

    def put(self, key: str, data: bytes) -> None: ...

    def create(self, key: str, data: bytes) -> None: ...

    def delete(self, key: str) -> None: ...

    def pages(self, prefix: str, after: str | None) -> Iterator[Sequence[Entry]]:
        """Objects below the folder `prefix`, one request per page; `after` is given only where `in_order` is true."""
        ...

    def sync(self, paths: Sequence[str]) -> None: ...


@runtime_checkable
class Extending(Protocol):
    """A backend that can prove, with a create, that what it comes after is still there: a disk, and no object store."""

    def extend(self, key: str, data: bytes, follows: Follows) -> None:
        """Create an object; `Reason.GONE` unless `follows` is there and is what it was."""
        ...

    def precedes(self, follows: Follows) -> None:
        """Fail with `Reason.GONE` unless an object is what it was when it was read. It costs no request."""
        ...
