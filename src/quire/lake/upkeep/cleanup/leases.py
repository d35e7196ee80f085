"""Leases: a long reader keeps the files of its snapshot from cleanup for as long as it needs them."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from types import TracebackType

from quire.arguments import checks_arguments
from quire.errors import InvalidInput, QuireError, SnapshotExpired
from quire.lake.branch.live import LiveBranch
from quire.lake.context import Core
from quire.lake.upkeep.cleanup.protection import protect
from quire.ledger import FORMAT, Line, Point, encode, new_id
from quire.ledger.notes_and_leases import LONGEST, Lease, lease_key
from quire.prompt import Escaped

SHORTEST = 30.0


_held: weakref.WeakSet[SnapshotLease] = weakref.WeakSet()


@checks_arguments
class SnapshotLease(Escaped):
    """A lease on one commit, renewed in the background until it is released. As a context manager it releases itself.

    >>> import quire
    >>> lake = quire.create("memory://lease-example")
    >>> snap = lake.snapshot()
    >>> with snap.lease() as lease:
    ...     lease.commit
    '0.0'
    """

    def __init__(self, core: Core, live: LiveBranch | None, line: Line, at: Point, seconds: float) -> None:
        core.check_writable()
        if not SHORTEST <= seconds <= LONGEST:
            raise InvalidInput(
                f"A lease of {seconds} seconds is too short or too long.",
                next=f"Ask for at least {SHORTEST:.0f} seconds; a lease is renewed while it is held.",
            )
        self._core = core
        self._background = core.leases
        self._every = seconds / 3
        self._body = Lease(FORMAT, new_id(), core.author, at, line, float(seconds))
        self._held = True
        protect(core, live, line, at, self._write, lambda _: self._remove())
        _held.add(self)
        self._again()

    @property
    def commit(self) -> str:
        """The commit that is leased."""
        return self._body.target.commit

    @property
    def held(self) -> bool:
        """Whether it is still renewed."""
        return self._held

    def renew(self) -> None:
        """Let it run from now. This happens by itself too, three times in its length.

        `SnapshotExpired` when it had run out and was removed: then nothing protects the files any more.
        """
        self._core.check()
        if not self._held:
            return
        if self._core.store.stat(lease_key(self._body.id)) is None:
            self._held = False
            raise SnapshotExpired(
                f"The lease on commit {self.commit} ran out before it was renewed.",
                next="Open a snapshot that is still kept, and take a lease on it.",
                commit=self.commit,
            )
        self._write()

    def release(self) -> None:
        """Give it back: cleanup may take the files from now on."""
        self._core.check()
        if self._held:
            self._held = False
            self._background.cancel(("lease", self._body.id))
            self._remove()

    def _write(self) -> None:
        self._core.store.put(lease_key(self._body.id), encode(self._body))

    def _remove(self) -> None:
        self._core.store.delete(lease_key(self._body.id))

    def _again(self) -> None:
        task = _Renewal(weakref.ref(self))
        self._background.submit(("lease", self._body.id), task, delay=self._every, lasting=True)

    def __enter__(self) -> SnapshotLease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(QuireError):
            self.release()

    def __repr__(self) -> str:
        return f"<SnapshotLease of {self.commit}, {'held' if self._held else 'released'}>"


class _Renewal:
    """Renews a lease for as long as somebody holds it."""

    def __init__(self, lease: weakref.ref[SnapshotLease]) -> None:
        self._lease = lease

    def __call__(self) -> None:
        lease = self._lease()
        if lease is None or not lease.held:
            return
        try:
            lease.renew()
        finally:
            if lease.held:
                lease._again()


@atexit.register
def _release_all() -> None:
    """A reader that ends needs its files no longer."""
    for lease in list(_held):
        with contextlib.suppress(Exception):
            lease.release()
