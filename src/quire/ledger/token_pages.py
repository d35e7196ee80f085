"""Tokens that are too many for a checkpoint: pages, immutable objects at `_quire/tokens/<name>`.

A state holds the newest tokens itself. When they are too many, the oldest go to a page, and the state names it. A page
is written before a checkpoint that names it; a state that has not come from a checkpoint holds the page itself
(`fresh`).

Most look-ups need no page: a token that was minted after everything in the pages is not in them, and the stream of a
program that goes on is in the state. Otherwise one page is read per page that may have the token, side by side, and is
kept in memory.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from quire.errors import StorageError
from quire.ledger import repairs
from quire.ledger.records import PAGED, Moment, PageRef, Point, Position, Stored, encode, readable
from quire.store import Outcome, Store, run_parallel

FOLDER = "_quire/tokens"
WINDOW = timedelta(days=7)
"""For so long after it was minted an opaque token is remembered."""
SLACK = timedelta(days=1)
MAX_PAGES = 1_000
MAX_STREAM_PAGES = 64
MERGED = 4_000
"""Streams in a page that was merged."""
MERGE_AT = 16
"""Pages of streams that are not merged, at which they are."""
HELD = 64
"""Pages that a process keeps in memory."""


class Page(Stored, frozen=True):
    """Tokens that a state no longer holds itself: opaque ones with the commit that used them, or ends of streams."""

    format: int
    tokens: dict[str, tuple[Point, Moment]] = {}
    streams: dict[str, Position] = {}


readable(Page)


def page_of_tokens(tokens: Mapping[str, tuple[Point, datetime]]) -> tuple[PageRef, Page]:
    page = Page(PAGED, tokens=dict(sorted(tokens.items())))
    times = [minted for _, minted in tokens.values()]
    first, last = min(times), max(times)
    return PageRef(f"t-{int(last.timestamp()):012d}-{_digest(page)}", len(tokens), first, last), page


def page_of_streams(streams: Mapping[str, int], *, merged: bool = False) -> tuple[PageRef, Page]:
    page = Page(PAGED, streams=dict(sorted(streams.items())))
    low, high = min(streams), max(streams)
    return PageRef(f"s-{_digest(page)}", len(streams), low=low, high=high, merged=merged), page


def _digest(page: Page) -> str:
    return hashlib.blake2b(encode(page), digest_size=12).hexdigest()


def page_key(name: str) -> str:
    return f"{FOLDER}/{name}"


def last_minted(key: str) -> datetime | None:
    """When the newest token of a page was minted, by its key; None for one of streams, which is kept for ever."""
    kind, _, rest = key.removeprefix(f"{FOLDER}/").partition("-")
    seconds = rest.partition("-")[0]
    if kind != "t" or not seconds.isdecimal():
        return None
    return datetime.fromtimestamp(min(int(seconds), 10**11), UTC)


class TokenPages:
    """The pages of one lake, read on demand. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: OrderedDict[str, Page] = OrderedDict()
        self._lock = threading.Lock()

    def write(self, fresh: Mapping[str, Page]) -> None:
        """Store pages that are not there yet."""
        for name, page in fresh.items():
            body = encode(page)
            made = self._store.create(page_key(name), body, mine=lambda found, body=body: found == body)  # type: ignore[misc]
            if made.outcome is Outcome.UNKNOWN:
                raise StorageError(
                    f"The store did not confirm that {page_key(name)} was written.",
                    next="The next commit tries again.",
                    object=page_key(name),
                )

    def token(self, refs: tuple[PageRef, ...], fresh: Mapping[str, Page], id: str, minted: datetime) -> Point | None:
        """The commit that used an opaque token; None when it is in no page."""
        pages = self._read([ref.name for ref in refs if ref.may_hold(minted)], fresh)
        return next((page.tokens[id][0] for page in pages if id in page.tokens), None)

    def stream(self, refs: tuple[PageRef, ...], fresh: Mapping[str, Page], scope: str) -> int:
        """The last position of a stream; -1 when it is in no page."""
        names = [ref.name for ref in refs if ref.may_hold_stream(scope)]
        return max((page.streams.get(scope, -1) for page in self._read(names, fresh)), default=-1)

    def merged(self, refs: tuple[PageRef, ...], fresh: Mapping[str, Page]) -> tuple[PageRef, ...]:
        """Other pages that hold the same streams once each, when there are many that may hold them several times."""
        if sum(not ref.merged for ref in refs) < MERGE_AT:
            return refs
        streams: dict[str, int] = {}
        for page in self._read([ref.name for ref in refs], fresh):
            for scope, last in page.streams.items():
                streams[scope] = max(last, streams.get(scope, last))
        order = sorted(streams.items())
        parts = [order[low : low + MERGED] for low in range(0, len(order), MERGED)]
        made = [page_of_streams(dict(part), merged=True) for part in parts]
        self.write({ref.name: page for ref, page in made})
        return tuple(ref for ref, _ in made)

    def _read(self, names: list[str], fresh: Mapping[str, Page]) -> list[Page]:
        with self._lock:
            known = {name: page for name in names if (page := fresh.get(name) or self._held.get(name)) is not None}
        missing = [name for name in names if name not in known]
        if missing:
            found = dict(zip(missing, run_parallel([partial(self._fetch, name) for name in missing]), strict=True))
            with self._lock:
                self._held.update(found)
                while len(self._held) > HELD:
                    self._held.popitem(last=False)
            known |= found
        return [known[name] for name in names]

    def _fetch(self, name: str) -> Page:
        page = repairs.fetch(self._store, page_key(name), Page)
        if page is None:
            raise StorageError(
                f"{page_key(name)} is missing, so it is not known whether the token was used. Nothing was committed.",
                next="Open the lake again. If that does not help, check in the log whether the work was done.",
                object=page_key(name),
            )
        return page
