"""What the proxy must understand of HTTP/1.1 and S3: where a message ends, what a request is for, whose turn it is."""

from __future__ import annotations

import asyncio
import bisect
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, unquote

Kind = Literal["GET", "HEAD", "PUT", "create", "DELETE", "LIST", "POST", "other"]

_CODES = {
    403: "AccessDenied",
    404: "NoSuchKey",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    500: "InternalError",
    503: "SlowDown",
}
_PIECE = 1 << 16

KEY_CLASSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(rf"(?:^|/){pattern}"))
    for name, pattern in (
        ("slot", r"_quire/log/[^/]+/\d{20}$"),
        ("checkpoint", r"_quire/log/[^/]+/checkpoint-"),
        ("side", r"_quire/log/[^/]+/side-"),
        ("log", r"_quire/log(/|$)"),
        ("hint", r"_quire/hint-"),
        ("offer", r"_quire/offers(/|$)"),
        ("ref", r"_quire/refs(/|$)"),
        ("format", r"_quire/format\.json$"),
        ("writer", r"_quire/writers(/|$)"),
        ("lease", r"_quire/leases(/|$)"),
        ("probe", r"_quire/probe(/|$)"),
        ("staged manifest", r"_versions/d\d+\.manifest$"),
        ("manifest", r"_versions(/|$)"),
        ("transaction", r"_transactions(/|$)"),
        ("deletion", r"_deletions(/|$)"),
        ("index", r"_indices(/|$)"),
        ("keys", r"_keys(/|$)"),
        ("data", r"data(/|$)"),
    )
)
"""What a key is for, by its name; the first that matches. `log` is the folder of a branch's log, when it is listed."""


class BrokenPeer(Exception):
    """The other side does not speak as it should, or stopped."""


@dataclass(frozen=True)
class Head:
    """The first line and the headers of a request or an answer; `raw` is forwarded as it is."""

    raw: bytes
    first: tuple[str, str, str]
    headers: dict[str, str]

    @property
    def status(self) -> int:
        return int(self.first[1])

    @property
    def expects(self) -> bool:
        """Whether the client waits to be told to send its body."""
        return self.headers.get("expect", "").lower() == "100-continue"

    @property
    def closes(self) -> bool:
        return "close" in self.headers.get("connection", "").lower()

    @property
    def chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def has_body(self) -> bool:
        """Whether a body follows this request."""
        return self.chunked or self.headers.get("content-length", "0") != "0"

    @property
    def short_body(self) -> int | None:
        """The length of the request's body, if it comes at once and in one piece."""
        length = self.headers.get("content-length", "")
        alone = length.isascii() and length.isdigit() and not self.chunked and not self.expects
        return int(length) if alone and int(length) <= _PIECE else None

    @property
    def until_end(self) -> bool:
        """Whether the body of this answer, if it has one, ends with the connection."""
        bodiless = self.status < 200 or self.status in (204, 304)
        return not (bodiless or self.chunked or "content-length" in self.headers)


@dataclass
class Request:
    """One request as it came to the proxy. Times are `time.perf_counter()`; bytes are those of bodies.

    `bytes_out` went to the server and `bytes_in` came back, as the client sees it. A request whose connection was cut
    has no status.
    """

    number: int
    method: str
    key: str
    query: dict[str, str]
    kind: Kind
    started: float
    ended: float | None = None
    status: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    key_class: str = field(default="other")

    @staticmethod
    def of(number: int, head: Head, started: float) -> Request:
        method, target, _ = head.first
        path, _, query_text = target.partition("?")
        query = dict(parse_qsl(query_text, keep_blank_values=True))
        key = unquote(path).lstrip("/").partition("/")[2]
        kind = _kind(method, key, query, head)
        if kind == "LIST":
            key = query.get("prefix", "").rstrip("/")
        return Request(number, method, key, query, kind, started, key_class=key_class(key))

    @property
    def reads(self) -> bool:
        """Whether the server is the same after it."""
        return self.kind in ("GET", "HEAD", "LIST")

    def __str__(self) -> str:
        return f"#{self.number} {self.kind} {self.key_class} {self.key} → {self.status}"


def _kind(method: str, key: str, query: dict[str, str], head: Head) -> Kind:
    if method == "GET" and not key:
        return "LIST"
    if method == "PUT" and head.headers.get("if-none-match") == "*":
        return "create"
    return method if method in ("GET", "HEAD", "PUT", "DELETE", "POST") else "other"  # type: ignore[return-value]


def key_class(key: str) -> str:
    """What an object is for: `slot`, `checkpoint`, `manifest`, `data`, … or `other`."""
    return next((name for name, pattern in KEY_CLASSES if pattern.search(key)), "other")


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next message's head; None when the connection ended between two messages."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    except asyncio.LimitOverrunError:
        raise BrokenPeer("a head of more than a megabyte") from None
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2:
        raise BrokenPeer("not HTTP")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Head(raw, (words[0], words[1], words[2] if len(words) > 2 else ""), headers)


async def pieces(reader: asyncio.StreamReader, head: Head, *, answer_to: str | None) -> AsyncIterator[bytes]:
    """The body, as it was sent. `answer_to` is the method of the request that an answer belongs to."""
    if answer_to == "HEAD" or (answer_to is not None and (head.status in (204, 304))):
        return
    if head.chunked:
        async for piece in _chunks(reader):
            yield piece
        return
    left = int(head.headers.get("content-length", 0))
    if answer_to is not None and head.until_end:
        while piece := await reader.read(_PIECE):
            yield piece
        return
    while left:
        piece = await reader.read(min(left, _PIECE))
        if not piece:
            raise BrokenPeer("the connection ended inside a body")
        left -= len(piece)
        yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readuntil(b"\r\n")
        yield line
        size = int(line.split(b";")[0], 16)
        if size:
            yield await reader.readexactly(size + 2)
            continue
        while line != b"\r\n":  # trailers, and the empty line that ends them
            line = await reader.readuntil(b"\r\n")
            yield line
        return


def error_answer(status: int, key: str, *, bodiless: bool, last: bool) -> bytes:
    """An error as S3 gives it."""
    code = _CODES.get(status, "InternalError")
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>injected</Message><Resource>{_escape(key)}</Resource></Error>"
    ).encode()
    lines = [
        f"HTTP/1.1 {status} {code}",
        "Content-Type: application/xml",
        f"Content-Length: {len(body)}",
        *(["Connection: close"] if last else []),
    ]
    return "\r\n".join((*lines, "", "")).encode() + (b"" if bodiless else body)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def longest_chain(requests: Iterable[Request]) -> int:
    """The longest chain of requests that do not overlap in time: the hops that had to follow one another."""
    items = sorted((r for r in requests if r.ended is not None), key=lambda r: r.ended or 0.0)
    ends = [r.ended or 0.0 for r in items]
    best = [0]
    for position, request in enumerate(items):
        before = bisect.bisect_right(ends, request.started, hi=position)
        best.append(max(best[-1], best[before] + 1))
    return best[-1]


class Gate:
    """Lets so many in at once, first come first served; the limit may change while they wait."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._waiting or (self.limit is not None and self._inside >= self.limit):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    await self.__aexit__()
                raise
        else:
            self._inside += 1

    async def __aexit__(self, *exc: object) -> None:
        self._inside -= 1
        self.wake()

    def wake(self) -> None:
        while self._waiting and (self.limit is None or self._inside < self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self._inside += 1  # taken for the one that wakes, so that nobody slips in between
                turn.set_result(None)
