"""Backfill: bring a table's plain HEAD to a published state, conditionally and exactly once.

A commit of Lance's own takes whatever number is free, and its `Restore` drops a foreign append that came first. So the
version is made on a copy of the newest plain version that we have seen, and what comes out is created as the version
after that one, if nobody was there first.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from quire.formats import Head, Promotion
from quire.formats.lance.head.manifest_copy import Loose, files_of, read
from quire.formats.lance.head.next_version import Copy, next_version
from quire.formats.lance.manifest_bytes import corrupt, renumbered
from quire.formats.lance.session import DETACHED, LanceSession, manifest_name, version_of
from quire.ledger import Acknowledged, Pin
from quire.store import Outcome, Store, run_parallel

if TYPE_CHECKING:
    from lance import LanceDataset

LAKE, WRITE, COMMIT, COUNTER = "quire.lake", "quire.write", "quire.commit", "quire.counter"
LINEAR = re.compile(r"_versions/(\d{20})\.manifest")
REMEMBERED = 256
LARGEST = 256 << 10
"""A longer manifest is read again rather than remembered."""


def inspect(session: LanceSession, location: str, lake: str) -> tuple[LanceDataset, Head]:
    """The plain HEAD and whose it is, by the properties of its transaction."""
    handle = session.open_head(location)
    return handle, head_of(handle, lake)


def head_of(handle: LanceDataset, lake: str) -> Head:
    transaction = handle.read_transaction(handle.version)
    properties = dict(getattr(transaction, "transaction_properties", None) or {})
    ours = properties.get(LAKE) == lake and properties.get(COUNTER, "").isdigit()
    return Head(
        version=int(handle.version),
        counter=int(properties[COUNTER]) if ours else None,
        commit=properties.get(COMMIT) if ours else None,
        transaction=str(transaction.uuid) if transaction is not None else None,
    )


def known_head(pin: Pin, head: Head) -> Head:
    """The same, with the counter of a version that a client made through the lake, as the pin tells it."""
    for known in pin.acknowledged if head.counter is None else ():
        if (known.number, known.transaction) == (head.version, head.transaction):
            return replace(head, counter=known.counter)
    return head


def is_foreign(pin: Pin, head: Head) -> bool:
    """Whether somebody made the plain HEAD past the lake."""
    if head.counter is not None or str(head.version) == pin.version:
        return False
    return head.version > pin.head or any(known.number == head.version for known in pin.acknowledged)


def cleans_itself(handle: LanceDataset) -> list[str]:
    """Settings by which Lance deletes old versions of the table on its own."""
    return sorted(key for key in handle.config() if key.startswith("lance.auto_cleanup"))


def newest(files: Store) -> int | None:
    """The number of the plain HEAD; None where there is none, or its versions are named as Lance once did.

    The newest sorts first, so a store that lists in order sends one page.
    """
    names = (LINEAR.fullmatch(entry.key) for entry in files.list("_versions"))
    return next((2**64 - 1 - int(name[1]) for name in names if name), None)


@dataclass(frozen=True)
class Seen:
    """A plain version, whose it is, and its manifest. None of that ever changes."""

    head: Head
    body: bytes


class Heads:
    """The plain HEADs of the tables of one lake. What was seen of one is remembered: only its number must be asked."""

    def __init__(self, session: LanceSession, lake: str) -> None:
        self._session, self._lake = session, lake
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._lock = threading.Lock()

    def now(self, location: str) -> Head:
        """The plain HEAD."""
        files = files_of(self._session, location)
        number = newest(files)
        if number is None:
            return inspect(self._session, location, self._lake)[1]
        seen = self._recall(location, number)
        return seen.head if seen is not None else self.at(location, number)

    def at(self, location: str, version: int) -> Head:
        """Whose a plain version is."""
        body = read(files_of(self._session, location), version)
        with Loose() as loose:
            return self._whose(location, loose.open(version, body))

    def manifest(self, location: str, version: int) -> bytes:
        """The manifest of a plain version; of the newest one that was seen without a request."""
        seen = self._recall(location, version)
        return seen.body if seen is not None else read(files_of(self._session, location), version)

    def promote(self, pin: Pin, *, commit: str, table: str) -> Promotion:
        """Make `pin` the plain HEAD unless HEAD is already there or further, or somebody else wrote in between."""
        version, files = version_of(pin), files_of(self._session, pin.location)
        number, wanted = self._look(pin, files)
        if number == version:
            return Promotion(table, "current", version)
        owed = [known for known in pin.acknowledged if known.number > (number or 0)]
        if owed:
            left = self._keep_promises(pin, files, number or 0, owed, table)
            if left is not None:
                return left
            if owed[-1].version == pin.version:
                return Promotion(table, "promoted", owed[-1].number)
            number = owed[-1].number
        if number is None:
            return decided(pin, self.now(pin.location), table) or Promotion(
                table, "blocked", 0, "its versions are named in Lance's old way, which has no staged ones"
            )
        with Loose() as loose:
            seen = self._recall(pin.location, number)
            body = seen.body if seen is not None else read(files, number)
            onto = loose.open(number, body)
            head = seen.head if seen is not None else self._whose(pin.location, onto)
            self._remember(pin.location, Seen(head, body))
            found = decided(pin, head, table)
            if found is not None:
                return found
            wanted = read(files, version) if wanted is None else wanted
            pinned = loose.open(version, wanted)
            cleans = cleans_itself(pinned)
            if cleans:
                # Plain writers would run Lance's cleanup with their commits, and that does not see what Quire pins.
                why = f"the table deletes its own old versions ({', '.join(cleans)})"
                return Promotion(table, "blocked", number, why)
            properties = {LAKE: self._lake, COMMIT: commit, COUNTER: str(pin.counter)}
            head_copy, wanted_copy = Copy(number, body, onto), Copy(version, wanted, pinned)
            made = next_version(loose, head_copy, wanted_copy, properties)
        files.put(made.name, made.transaction)
        key = f"_versions/{manifest_name(number + 1)}"
        created = files.create(key, made.manifest, mine=lambda found: found == made.manifest)
        if created.outcome is Outcome.COMMITTED:
            self._remember(pin.location, Seen(Head(number + 1, pin.counter, commit), made.manifest))
            return Promotion(table, "promoted", number + 1)
        now = self.now(pin.location)
        why = f"version {number + 1} was created by somebody else"
        return decided(pin, now, table) or Promotion(table, "behind", now.version, why)

    def _keep_promises(
        self, pin: Pin, files: Store, number: int, owed: Sequence[Acknowledged], table: str
    ) -> Promotion | None:
        """Put versions of clients at their numbers, as they made them; what is left to say when that is not done."""
        for known in owed:
            number += 1
            if known.number != number:
                why = f"version {known.number}, which a client made, has no version before it"
                return Promotion(table, "blocked", number - 1, why)
            body = renumbered(read(files, staged_version(known)), number)
            made = files.create(f"_versions/{manifest_name(number)}", body, mine=body.__eq__)
            if made.outcome is not Outcome.COMMITTED:
                now = known_head(pin, self.now(pin.location))
                why = f"version {number} was created by somebody else"
                return decided(pin, now, table) or Promotion(table, "behind", now.version, why)
        return None

    def _look(self, pin: Pin, files: Store) -> tuple[int | None, bytes | None]:
        """The number of the plain HEAD and, where it is likely to be needed, the manifest of the wanted version."""
        seen = self._recall(pin.location)
        if seen is None or decided(pin, seen.head, "") is not None:
            return newest(files), None
        reads: list[Callable[[], Any]] = [partial(newest, files), partial(read, files, version_of(pin))]
        number, wanted = run_parallel(reads)
        return number, wanted

    def _whose(self, location: str, loose: LanceDataset) -> Head:
        try:
            return head_of(loose, self._lake)
        except Exception:
            # Its transaction is a file beside it: some clients write it nowhere else.
            return head_of(self._session.private(location, loose.version), self._lake)

    def _recall(self, location: str, version: int | None = None) -> Seen | None:
        with self._lock:
            seen = self._seen.get(location)
            return seen if seen is not None and version in (None, seen.head.version) else None

    def _remember(self, location: str, seen: Seen) -> None:
        with self._lock:
            self._seen.pop(location, None)
            if len(seen.body) <= LARGEST:
                self._seen[location] = seen
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)


def staged_version(known: Acknowledged) -> int:
    """The staged version that holds what a client made."""
    if not known.version.isdigit() or not int(known.version) & DETACHED:
        raise corrupt(f"version {known.number}", f"the log names {known.version[:40]!r} as its copy")
    return int(known.version)


def decided(pin: Pin, head: Head, table: str) -> Promotion | None:
    """What the plain HEAD alone says about bringing it to `pin`; None when it can and must be brought there."""
    head = known_head(pin, head)
    if version_of(pin) == head.version or (head.counter is not None and head.counter >= pin.counter):
        return Promotion(table, "current", head.version)
    if is_foreign(pin, head):
        return Promotion(table, "foreign", head.version, f"version {head.version} was written by a plain Lance client")
    return None
