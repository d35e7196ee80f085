"""What must stay of a table's files when cleanup comes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from quire.formats.lance.head.backfill import LINEAR, head_of
from quire.formats.lance.head.manifest_copy import Loose, files_of, read
from quire.formats.lance.inspect.contents import needed
from quire.formats.lance.session import LanceSession
from quire.store import Store, run_parallel

if TYPE_CHECKING:
    from lance import LanceDataset

T = TypeVar("T")

TOGETHER = 64
"""Versions that are looked at side by side."""


def kept(session: LanceSession, location: str, version: int) -> set[str]:
    """The files of a version, its transaction, and what may lie beside a data file under its name."""
    return _ask(session, location, version, _kept)


def plain_files(session: LanceSession, location: str, since: datetime, lake: str, known: int = 0) -> set[str]:
    """What plain clients need: HEAD, a plain writer's versions after one that Quire knows, and what was HEAD lately."""
    written = _linear(files_of(session, location))
    names = {"_versions/latest_version_hint.json"}
    wanted: list[int] = []
    superseded: datetime | None = None
    theirs = True
    for version in sorted(written, reverse=True):
        if theirs:
            found, theirs = _ask(session, location, version, partial(_kept_and_theirs, lake))
            theirs = theirs and version > known
            names |= found
        elif superseded is not None and superseded >= since:
            wanted.append(version)
        superseded = written[version]
    for low in range(0, len(wanted), TOGETHER):
        looks = [partial(kept, session, location, version) for version in wanted[low : low + TOGETHER]]
        names.update(*run_parallel(looks))
    return names


def _kept(handle: LanceDataset) -> set[str]:
    names = set(needed(handle, bare=True))
    names |= {name.removesuffix(".lance") + "/" for name in names if name.startswith("data/")}
    transaction = handle.read_transaction(handle.version)
    if transaction is not None:
        names.add(f"_transactions/{transaction.read_version}-{transaction.uuid}.txn")
    names.add("_keys/")
    return names


def _kept_and_theirs(lake: str, handle: LanceDataset) -> tuple[set[str], bool]:
    return _kept(handle), head_of(handle, lake).counter is None


def _ask(session: LanceSession, location: str, version: int, question: Callable[[LanceDataset], T]) -> T:
    """Ask a version something that its manifest knows, for one request."""
    if session.store.scheme != "memory":
        body = read(files_of(session, location), version)
        with contextlib.suppress(Exception), Loose() as loose:
            return question(loose.open(version, body))
    # Its transaction is a file beside it. A handle of its own: asking for that borrows it exclusively.
    return question(session.private(location, version))


def _linear(files: Store) -> dict[int, datetime]:
    """The versions that plain clients see, and when each was written."""
    found = {}
    for entry in files.list("_versions"):
        name = LINEAR.fullmatch(entry.key)
        if name is not None:
            found[2**64 - 1 - int(name[1])] = entry.modified
    return found
