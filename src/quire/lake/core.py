"""What all handles of one lake share in a process: the store, the ledger, the formats, the background worker."""

from __future__ import annotations

import getpass
import os
import socket
import threading
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from quire.errors import (
    CommitUnknown,
    ForkedProcess,
    InvalidInput,
    LakeExists,
    LakeNotFound,
    ReadOnly,
    StorageError,
    Unsupported,
)
from quire.formats import TableFormat, factory
from quire.lake.background import Background
from quire.lake.pressure import BOUNDS
from quire.lake.writers import Writers
from quire.ledger import (
    FORMAT,
    MAIN,
    Commit,
    FormatFile,
    Hint,
    Ledger,
    LogLedger,
    Record,
    Refs,
    State,
    decode,
    encode,
    genesis,
    hint_key,
    new_id,
    parse_hint,
    read_hint,
    slot_key,
)
from quire.store import Outcome, Store, clock, probe

FORMAT_KEY = "_quire/format.json"
LEDGERS = ("log", "manifest")


class Core:
    """One open lake. Safe to share between threads; refuses to work in a forked child."""

    def __init__(self, store: Store, about: FormatFile, *, read_only: bool, author: str | None) -> None:
        self.store = store
        self.about = about
        self.read_only = read_only
        self.author = author or default_author()
        self.grouped = True
        """Whether transactions of this process share slots."""
        self.ledger: Ledger = _ledger(store, about)
        self.refs = Refs(store)
        self.writers = Writers(self)
        self.leases = Background()
        self.bounds = BOUNDS
        self._formats: dict[str, TableFormat] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self.born: State | None = None
        """The first state of a lake that was created just now."""
        self._hint: tuple[bytes | None] | None = None

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
    ) -> Core:
        store = Store.open(uri, options)
        body, hint = store.get_many([FORMAT_KEY, hint_key(MAIN)])
        if body is None:
            raise LakeNotFound(
                f"There is no lake at {store.uri}.",
                next="Check the address, or make one with quire.create (`quire init`).",
                uri=store.uri,
            )
        core = Core(store, decode(body, FormatFile, FORMAT_KEY), read_only=read_only, author=author)
        core._hint = (hint,)
        return core

    @staticmethod
    def create(
        uri: str | os.PathLike[str],
        options: Mapping[str, str] | None = None,
        *,
        author: str | None = None,
        ledger: str = "log",
    ) -> Core:
        """Make a lake.

        Prove that the store honours create-if-absent, write slot 0, then the file that makes it a lake.
        """
        if ledger not in LEDGERS:
            raise InvalidInput(f"There is no ledger {ledger!r}.", next=f"Use one of {', '.join(LEDGERS)}.")
        store = Store.open(uri, options)
        if store.get_or_none(FORMAT_KEY) is not None:
            raise _exists(store)
        _refuse_inside(store)
        probe(store)
        now = clock.now()
        about = FormatFile(format=FORMAT, lake=new_id(), main=new_id(), ledger=ledger, created=now)
        first = Record(
            format=FORMAT,
            branch=about.main,
            slot=0,
            write=new_id(),
            previous="",
            time=now,
            kind="genesis",
            commits=(Commit(write=new_id(), time=now, author=author or default_author(), message="create lake"),),
        )
        if _ledger(store, about).append(first).outcome is not Outcome.COMMITTED:
            raise StorageError(f"Could not write the first slot of {store.uri}.", next="Try again.", uri=store.uri)
        body = encode(about)
        created = store.create(FORMAT_KEY, body, mine=lambda found: found == body)
        if created.outcome is Outcome.CONFLICT:
            if ledger == "log":
                store.delete(slot_key(about.main, 0))
            raise _exists(store)
        if created.outcome is Outcome.UNKNOWN:
            raise CommitUnknown(
                f"The store did not say whether the lake at {store.uri} was created.",
                next="Open it; if that fails, create it again.",
                uri=store.uri,
            )
        core = Core(store, about, read_only=False, author=author)
        core.born = genesis(first)
        return core

    def check(self) -> None:
        if self.is_forked:
            raise ForkedProcess(
                "This lake was opened before a fork; object-store clients do not survive one.",
                next="Open the lake in the child, or use the spawn start method.",
                parent=self._pid,
            )

    def check_writable(self) -> None:
        self.check()
        if self.read_only:
            raise ReadOnly(
                f"The lake at {self.store.uri} was opened read-only.",
                next="Open it without read_only=True.",
                uri=self.store.uri,
            )

    def format(self, name: str) -> TableFormat:
        self.check()
        with self._lock:
            found = self._formats.get(name)
            if found is None:
                found = self._formats[name] = self._make(name)
            return found

    def _make(self, name: str) -> TableFormat:
        make = factory(name)
        if make is not None:
            return make(self.store, self.about.lake)
        raise Unsupported(
            f"Tables of format {name!r} are not supported by this Quire.", next="Upgrade Quire.", format=name
        )


def _ledger(store: Store, about: FormatFile) -> Ledger:
    if about.ledger == "manifest":
        from quire.ledger.manifest import ManifestLedger

        return ManifestLedger(store)
    if about.ledger != "log":
        raise Unsupported(
            f"This lake has a {about.ledger!r} ledger, which this Quire does not know.",
            next="Upgrade Quire.",
            ledger=about.ledger,
        )
    return LogLedger(store)


def _refuse_inside(store: Store) -> None:
    """A lake in the folder of another would be taken for its tables, and its files for litter."""
    if not store.is_local:
        return
    for above in Path(store.uri).parents:
        if (above / FORMAT_KEY).is_file():
            raise InvalidInput(
                f"{store.uri} lies inside the lake {above}.", next="Choose a folder beside that lake.", uri=store.uri
            )


def _exists(store: Store) -> LakeExists:
    return LakeExists(
        f"There is already a lake at {store.uri}.",
        next="Open it with quire.open, or pass exist_ok=True (`--exist-ok`).",
        uri=store.uri,
    )


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


def now_after(previous: datetime) -> datetime:
    """Record time: the clock, but never at or before the parent's."""
    from datetime import timedelta

    return max(clock.now(), previous + timedelta(microseconds=1))
