"""What there is at which address: the one table that requests, access and `openapi.json` come from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from quire.errors import InvalidInput, NotFound, QuireError
from quire.server.calls import Answer, Call
from quire.server.problems import HttpRefusal, Told

Access = Literal["public", "any", "read", "write", "admin"]
LAKE = "/v1/lakes/{lake}"


@dataclass(frozen=True)
class Face:
    """Addresses of another specification, below a prefix: its errors, and where its clients put their tokens."""

    prefix: str
    """The first segment of its addresses."""
    problem: Callable[[QuireError, int, str, dict[str, str]], Told]
    """An error, its status, the id of the request and texts that clients must not see, as that specification has it."""
    key_header: str | None = None
    """A header that holds a token where `Authorization` has none."""


@dataclass(frozen=True)
class Route:
    """One method at one address."""

    method: str
    path: str
    name: str
    summary: str
    handler: Callable[[Call], Answer | Awaitable[Answer]]
    access: Access = "read"
    """Which role it takes; `any` is everybody with a token, `public` really everybody."""
    query: type[msgspec.Struct] | None = None
    body: Any = None
    """The type of a body in JSON."""
    multipart: bool = False
    """Whether rows may come as Arrow beside the body."""
    answer: Any = None
    """The type of an answer in JSON."""
    media: tuple[str, ...] = ()
    """What else it answers with."""
    status: int = 200
    face: Face | None = None
    """Of another specification than Quire's: its parameters come as they are, each a list of texts."""
    follows: bool = False
    """Whether it waits for news: then its handler belongs to the event loop."""
    audited: bool = False
    """Whether it changes something of which no commit tells: then the audit does."""
    page: bool = False
    """Whether people look at it: then what goes wrong is a page, too."""

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))

    @property
    def writes(self) -> bool:
        return self.access in ("write", "admin") and self.method != "GET"


class Routes:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.every = tuple(routes)
        self._faces = {route.face.prefix: route.face for route in routes if route.face is not None}
        self._near: dict[tuple[int, str], list[Route]] = {}
        for route in routes:
            self._near.setdefault((len(route.segments), route.segments[0]), []).append(route)

    def face(self, raw_path: bytes) -> Face | None:
        """The face that an address belongs to, also where nothing is."""
        parts = raw_path.split(b"/", 2)
        return self._faces.get(parts[1].decode("ascii", "replace")) if len(parts) > 1 else None

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """The route, and the names in its address. A name is one segment, in which `%2F` is no separator."""
        parts = raw_path.split(b"/")[1:]
        if len(parts) > 1 and not parts[-1]:
            parts.pop()
        try:
            names = [unquote(part.decode("ascii"), errors="strict") for part in parts]
        except UnicodeDecodeError:
            raise InvalidInput("The address is not UTF-8.", next="Encode names as percent-encoded UTF-8.") from None
        allowed: set[str] = set()
        for route in self._near.get((len(names), names[0]), ()) if names else ():
            found = _match(route.segments, names)
            if found is None:
                continue
            if route.method == method or (method == "HEAD" and route.method == "GET"):
                return route, found
            allowed.add(route.method)
        if allowed:
            error = InvalidInput(f"This address takes {', '.join(sorted(allowed))}.", next="Use one of these methods.")
            raise HttpRefusal(405, error, {"allow": ", ".join(sorted(allowed))})
        raise NotFound("There is nothing at this address.", next="GET /openapi.json lists the addresses.")


def _match(segments: tuple[str, ...], names: list[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for segment, name in zip(segments, names, strict=True):
        if segment.startswith("{"):
            if not name:
                return None
            found[segment[1:-1]] = name
        elif segment != name:
            return None
    return found
