"""What a handler is given, and what it gives back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from quire.errors import InvalidInput
from quire.lake import Lake, Snapshot
from quire.lake.handles import log_of, snapshot_at
from quire.ledger import MAIN
from quire.ledger.records import reader
from quire.server.auth.actors import Actor

if TYPE_CHECKING:
    from quire.server.bodies import Body
    from quire.server.state import Server

T = TypeVar("T")

JSON = "application/json"
REQUEST, ROLES = "http.request", "http.roles"
"""Under what a commit keeps by which request it was made, and the roles of the actor."""


@dataclass
class Answer:
    """What a request is answered with: a value as JSON, bytes, or a stream of either."""

    value: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    media_type: str = JSON
    body: bytes | None = None
    stream: Iterator[bytes] | None = None
    """Pieces that are made in a thread, one by one, as the client takes them."""
    events: AsyncIterator[bytes] | None = None
    """Pieces that come when there is news."""
    cost: Mapping[str, Any] | None = None


@dataclass
class Call:
    """One request on its way to its handler."""

    server: Server
    id: str
    actor: Actor
    path: dict[str, str]
    query: Any
    headers: Mapping[str, str]
    body: Body
    address: str = ""
    """The path as it was sent."""
    audited: bool = False
    """Whether what it does is written down, because no commit tells of it."""

    @property
    def branch(self) -> str:
        """The branch that the request is about."""
        return getattr(self.query, "branch", None) or MAIN

    ends: list[Callable[[], None]] = field(default_factory=list)

    def finally_do(self, what: Callable[[], None]) -> None:
        """Do something when the answer is through, however that comes about."""
        self.ends.append(what)

    @property
    def noted(self) -> dict[str, str]:
        """What is kept with every commit that is made for it."""
        return {REQUEST: self.id, ROLES: ",".join(sorted(self.actor.roles))}

    def lake(self, branch: str | None = None) -> Lake:
        """The shared handle of the lake and branch that the request names."""
        return self.server.lakes.get(self.path["lake"], branch or self.branch, audited=self.audited)

    def snapshot(self) -> Snapshot:
        """All tables at the commit that the request names, or at the newest one."""
        at = getattr(self.query, "at", None)
        return self.lake().snapshot() if at is None else snapshot_at(self.lake(), at)

    def decoded(self, kind: type[T]) -> T:
        """The body as JSON of a type."""
        return decoded(self.body.whole(), kind)


def decoded(body: bytes, kind: type[T]) -> T:
    """Bytes as JSON of a type."""
    try:
        found: T = reader(kind).decode(body or b"{}")
        return found
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"The body does not fit: {str(error).rstrip('.')}.", next="GET /openapi.json says what this address takes."
        ) from None


def etag(lake: Lake, commit: str) -> str:
    """What stands for a commit of a branch, wherever the branch goes from there."""
    return f'"{log_of(lake)}:{commit}"'


def at_commit(call: Call, lake: Lake, commit: str, answer: Answer) -> Answer:
    """The answer, marked with the commit that it is of; 304 without a body if the client has it already."""
    tag = etag(lake, commit)
    answer.headers["etag"] = tag
    answer.headers["quire-commit"] = commit
    known = [word.strip().removeprefix("W/") for word in call.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Answer(status=304, headers=answer.headers, body=b"")
    return answer
