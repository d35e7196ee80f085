"""What a lake asks of whoever keeps the rules, and what it is told."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from quire.errors import InvalidInput

if TYPE_CHECKING:
    from quire.filters import Condition

_acting: ContextVar[Who | None] = ContextVar("quire_who", default=None)


def act_as(who: Who) -> None:
    """From now on, in this context and those that it begins, this is who acts on handles of a server."""
    _acting.set(who)


def acting_now() -> Who:
    """Who acts, in this context."""
    return _acting.get() or NOBODY


MaskKind = Literal["null", "hash", "last4"]
Kind = Literal["Lake", "Branch", "Table", "Column", "Query"]

MOST_NAME = 200


@dataclass(frozen=True)
class Who:
    """An actor: its name, its roles, and the request by which it acts."""

    name: str
    roles: frozenset[str] = frozenset()
    via: str = ""
    request: str = ""

    @staticmethod
    def of(name: str, roles: Sequence[str] = (), *, via: str = "library", request: str = "") -> Who:
        """An actor by a name that a record can hold."""
        for word in (name, *roles):
            if not word or len(word) > MOST_NAME or not word.isprintable():
                raise InvalidInput(
                    f"{word[:40]!r} cannot name an actor or a role.",
                    next=f"Use 1 to {MOST_NAME} printable characters.",
                )
        return Who(name, frozenset(roles), via, request)


NOBODY = Who("")
"""Who has not said who it is: every verb is closed to it."""


@dataclass(frozen=True)
class Sight:
    """What an actor sees of one table: which rows, and which columns, some of them behind a mask."""

    rows: Condition | None = None
    """None where it sees all rows."""
    hidden: frozenset[str] = frozenset()
    masks: Mapping[str, MaskKind] = field(default_factory=dict)
    salt: bytes = b""
    """Makes hashes of one lake differ from those of any other."""

    @property
    def whole(self) -> bool:
        """Whether it sees all of the table."""
        return self.rows is None and not self.hidden and not self.masks


STRICTEST: tuple[MaskKind, ...] = ("null", "hash", "last4")
"""Of several masks, the first of these holds."""


def both(sights: Sequence[Sight]) -> Sight:
    """What is seen where all of these hold."""
    if len(sights) == 1:
        return sights[0]
    from quire.filters import every

    rows = [sight.rows for sight in sights if sight.rows is not None]
    masks = {
        name: next(kind for kind in STRICTEST if any(sight.masks.get(name) == kind for sight in sights))
        for name in {name for sight in sights for name in sight.masks}
    }
    hidden = frozenset(name for sight in sights for name in sight.hidden)
    return Sight(every(rows) if rows else None, hidden, masks, sights[0].salt)


class Guard(Protocol):
    """Whoever keeps the rules of a lake."""

    def active(self) -> bool:
        """Whether there are rules. Without rules everything is allowed to everybody who says who it is."""
        ...

    def allows(self, who: Who, action: str, kind: Kind, name: str, context: Mapping[str, Any]) -> bool:
        """Whether an actor may do something. It is not written down."""
        ...

    def sight(self, who: Who, branch: str, table: str, columns: Mapping[str, Any]) -> Sight:
        """What an actor sees of the rows of a table that it may read, with these columns and their Arrow types."""
        ...

    def refused(self, who: Who, action: str, kind: Kind, name: str, branch: str) -> None:
        """Write down that an actor tried what it may not do."""
        ...

    def did(self, who: Who, action: str, kind: str, name: str, branch: str) -> None:
        """Write down that an actor did what no commit tells of."""
        ...

    def flush(self, timeout: float) -> bool:
        """Store what is written down. False when time ran out first."""
        ...


def provided(module: str) -> Any:
    """A module of the package that keeps rules. It is above the lake, and loaded on first use."""
    return importlib.import_module(f"quire.policy.{module}")
