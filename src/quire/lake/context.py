"""What all handles of one lake share in a process: the store, the ledger, the formats, the background worker."""

from __future__ import annotations

import copy
import getpass
import os
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from quire.errors import (
    ForkedProcess,
    ReadOnly,
    Unsupported,
)
from quire.formats import Learning, TableFormat, factory
from quire.lake.commit import record_values
from quire.lake.commit.back_pressure import BOUNDS
from quire.lake.commit.preconditions import Epochs
from quire.lake.format_file import FORMAT_KEY, no_lake
from quire.lake.register.owner_mark import Owners
from quire.lake.upkeep.background import Background
from quire.lake.upkeep.cleanup.writer_note import Writers
from quire.ledger import (
    MAIN,
    Change,
    Commit,
    FormatFile,
    Hint,
    History,
    Ledger,
    LogLedger,
    Point,
    Record,
    Refs,
    State,
    TableState,
    decode,
    hint_key,
    parse_hint,
    read_hint,
)
from quire.store import AsideStore, External, Reach, Store
from quire.store.address import parse

HEARD = 10_000
"""Changes whose notes are kept for formats: the latest."""
BRANCHES = 64
STATES, TABLES = 64, 100_000
"""So many states are kept, and so many tables in all of them together."""


@dataclass
class Known:
    """A branch, as it was seen last."""

    name: str
    history: History
    state: State
    alone: bool = False
    """Whether there was no tag of this name; while the branch is there, none can be made."""

    def refresh(self) -> State:
        """Its newest state. No news costs one request."""
        found = self.history.refresh(self.state)
        if found.slot > self.state.slot:
            self.state = found
        return found


class KnownBranches:
    """Branches that this process has looked at, and states that two of them may have parted from.

    A name means the same log until that log is closed by a last record, which whoever reads the news of it meets. So
    for a branch that is known, one request tells whether it is still there and what its newest commit is.
    """

    def __init__(self) -> None:
        self._branches: OrderedDict[str, Known] = OrderedDict()
        self._states: OrderedDict[Point, State] = OrderedDict()
        self._tables = 0
        self._lock = threading.Lock()

    def learn(self, name: str, history: History, state: State, *, alone: bool = False) -> Known:
        """Note what was seen of a branch."""
        self.remember(state)
        if history.fork is not None:
            self.remember(history.fork)
        with self._lock:
            known = self._branches.get(name)
            if known is None or known.history.line != history.line:
                known = self._branches[name] = Known(name, history, state)
                while len(self._branches) > BRANCHES:
                    self._branches.popitem(last=False)
            elif state.slot > known.state.slot:
                known.history, known.state = history, state
            known.alone = known.alone or alone
            self._branches.move_to_end(name)
            return known

    def get(self, name: str) -> Known | None:
        """What is known of a branch."""
        with self._lock:
            return self._branches.get(name)

    def forget(self, name: str) -> None:
        """Do not believe any more that a branch is there."""
        with self._lock:
            self._branches.pop(name, None)

    def remember(self, state: State) -> None:
        """Keep a state: it may be what two branches parted from."""
        with self._lock:
            if state.head in self._states:
                self._states.move_to_end(state.head)
                return
            self._states[state.head] = state
            self._tables += len(state.tables)
            while len(self._states) > 1 and (len(self._states) > STATES or self._tables > TABLES):
                _, gone = self._states.popitem(last=False)
                self._tables -= len(gone.tables)

    def state_at(self, point: Point) -> State | None:
        """The state at a commit, if it is known."""
        with self._lock:
            found = self._states.get(point)
            if found is not None:
                self._states.move_to_end(point)
            return found


class Core:
    """One open lake. Safe to share between threads; refuses to work in a forked child."""

    def __init__(
        self, store: Store, about: FormatFile, *, read_only: bool, author: str | None, offers: bool | None = None
    ) -> None:
        self.store = store
        self.about = about
        self.read_only = read_only
        self.is_aside = False
        """Whether what it writes stays on this machine."""
        self._author = record_values.author(author or default_author())
        self.grouped = True
        """Whether transactions of this process share slots."""
        self.offers = default_offers() if offers is None else offers
        """Whether they share slots with other processes, by offers."""
        self.ledger: Ledger = ledger_of(store, about)
        self.refs = Refs(store)
        self.known = KnownBranches()
        self.epochs = Epochs()
        self.writers = Writers(self)
        self.leases = Background()
        self.owners = Owners(self)
        self.bounds = BOUNDS
        self._formats: dict[str, TableFormat] = {}
        self._heard: deque[Change] = deque(maxlen=HEARD)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self.born: State | None = None
        """The first state of a lake that was created just now."""
        self._hint: tuple[bytes | None] | None = None

    # -- what an actor may see of it: everything, unless a guard says otherwise (`lake.guard.core`) ----------------

    guard: Any = None

    @property
    def base(self) -> Core:
        """The lake without a guard."""
        return self

    def see_branch(self, name: str) -> None:
        """Refuse a branch that whoever acts may not see."""

    def narrow(self, state: State) -> State:
        """A state with what whoever acts may see of it."""
        return state

    def narrow_table(self, found: TableState | None) -> TableState | None:
        """A table of a state, if whoever acts may see it."""
        return found

    def missed(self, names: Collection[str]) -> None:
        """Hear that tables were asked for which are not there, for whoever acts."""

    def told(self, commit: Commit) -> Commit:
        """A commit with what whoever acts may know of it."""
        return commit

    def did(self, action: str, kind: str, name: str) -> None:
        """Hear what was done that no commit tells of."""

    @property
    def author(self) -> str:
        """Who commits through this lake when nothing else is said: whoever acts now, else its opener."""
        return _acting.get() or self._author

    @property
    def noted(self) -> Mapping[str, str]:
        """What is kept with every commit that is begun now, beside what is said of that commit alone."""
        return _noted.get()

    @property
    def is_forked(self) -> bool:
        """Whether this is a child of the process that opened the lake."""
        return os.getpid() != self._pid

    def main_hint(self) -> Hint | None:
        """The hint of main: the first time as it was read together with the format file."""
        if self._hint is None:
            return read_hint(self.store, MAIN)
        (body,), self._hint = self._hint, None
        return parse_hint(body, MAIN)

    @staticmethod
    def open(
        uri: str | os.PathLike[str],
        options: Mapping[str, str] | None = None,
        *,
        read_only: bool = False,
        author: str | None = None,
        external: External = None,
        offers: bool | None = None,
    ) -> Core:
        store = Store.open(uri, options)
        store.reach = Reach(parse(uri), external)
        body, hint = store.get_many([FORMAT_KEY, hint_key(MAIN)])
        if body is None:
            raise no_lake(store)
        about = decode(body, FormatFile, FORMAT_KEY)
        core = Core(store, about, read_only=read_only, author=author, offers=offers)
        store.bind(FORMAT_KEY, body)
        core._hint = (hint,)
        return core

    def check(self) -> Core:
        """This lake, if this process may use it."""
        if self.is_forked:
            raise ForkedProcess(
                "This lake was opened before a fork, and the clients of object stores do not survive a fork.",
                next="Open the lake in the child process, or use the spawn start method.",
                parent=self._pid,
            )
        self.store.confirm(None)
        return self

    def check_writable(self) -> Core:
        """This lake, if it may be written to."""
        self.check()
        if self.read_only:
            raise ReadOnly(
                f"The lake at {self.store.uri} was opened read-only.",
                next="Open it without read_only=True.",
                uri=self.store.uri,
            )
        return self

    def aside(self) -> Core:
        """This lake to work in without writing to it: what is staged stays on this machine, and nothing can be
        published from there.
        """
        found = copy.copy(self)
        found.store, found.read_only, found.is_aside = AsideStore(self.store), False, True
        found._formats, found._heard, found._lock = {}, deque(), threading.Lock()
        found.owners = Owners(found)
        return found

    def hear(self, record: Record) -> None:
        """Keep what commits note of their files until somebody works with tables: formats are heavy to load."""
        self._heard.extend(change for commit in record.commits for change in commit.changes if change.noted)

    def format(self, name: str) -> TableFormat:
        self.check()
        with self._lock:
            found = self._formats.get(name)
            if found is None:
                found = self._formats[name] = self._make(name)
            while self._heard and isinstance(found, Learning):
                change = self._heard.popleft()
                if change.pin is not None and change.pin.format == name:
                    found.learn(change.pin.location, change.noted)
            return found

    def _make(self, name: str) -> TableFormat:
        make = factory(name)
        if make is not None:
            return make(self.store, self.about.lake)
        raise Unsupported(
            f"This version of Quire does not support tables of format {name!r}.", next="Upgrade Quire.", format=name
        )


_acting: ContextVar[str | None] = ContextVar("quire_acting", default=None)
_noted: ContextVar[Mapping[str, str]] = ContextVar("quire_noted", default={})  # noqa: B039, nobody changes it


@contextmanager
def acting_as(author: str, noted: Mapping[str, str] | None = None) -> Iterator[None]:
    """A block in which whatever is committed, branched or tagged is by this author: one of many that share a handle.

    `noted` is kept with every commit, beside what is said of that commit alone.
    """
    token, notes = _acting.set(record_values.author(author)), _noted.set(record_values.metadata(noted or {}))
    try:
        yield
    finally:
        _acting.reset(token)
        _noted.reset(notes)


def ledger_of(store: Store, about: FormatFile) -> Ledger:
    if about.ledger == "manifest":
        from quire.ledger.manifest.ledger import ManifestLedger

        return ManifestLedger(store)
    if about.ledger != "log":
        raise Unsupported(
            f"This version of Quire does not know the ledger of this lake, {about.ledger!r}.",
            next="Upgrade Quire.",
            ledger=about.ledger,
        )
    return LogLedger(store)


def default_offers() -> bool:
    """Whether commits are offered to other processes: unless `QUIRE_OFFERS=0` says otherwise."""
    return os.environ.get("QUIRE_OFFERS", "1") != "0"


def default_author() -> str:
    """`QUIRE_AUTHOR`, else user@host."""
    given = os.environ.get("QUIRE_AUTHOR")
    if given:
        return given
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
