"""Crash points: end a process with SIGKILL at a chosen place of the protocol, with no hook in the code under test.

The process that is to die wraps one function at a boundary (the store, the ledger, Lance, the operating system) and
kills itself before or after the call. What is on storage afterwards is what a power cut of that process would leave.

    def writer(uri):
        with quire.open(uri).transaction("two tables") as tx:
            tx["debits"].append(rows)
            tx["credits"].append(rows)

    crash(POINTS["publish: slot created"], writer, uri)      # a new process, dead when this returns
    quire.open(uri).snapshot()                               # both tables have the rows: the slot was created

`crash` raises `NotReached` when the process ended without coming to the point, so a test cannot pass by missing it.
Wrap at will with points of your own: `Point("quire.store.store:Store.delete", "before", match="waiting$")`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from quire.store.folders import Folder
from quire.testing import processes

SLOT = r"_quire/log/[^/]+/\d{20}$"
CHECKPOINT = r"_quire/log/[^/]+/checkpoint-\d{20}$"
HINT = r"_quire/hint-[^/]+\.json$"
FORMAT = r"_quire/format\.json$"
PLAIN = r"^_versions/\d{20}\.manifest$"

_LINK = "quire.store.folders:Folder.link"
_PROMOTE = "quire.formats.lance.format:LanceFormat.promote"


@dataclass(frozen=True)
class Point:
    """The `nth` call of `target` ("module:name", "module:Class.method") that has an argument which `match`es.

    `match` is a regular expression, searched in every argument that is a string or a path. With `alone`, calls run one
    at a time, so that "before the second" means after all of the first even where both would run in parallel.
    """

    target: str
    side: Literal["before", "after"]
    match: str | None = None
    nth: int = 1
    alone: bool = False


POINTS: dict[str, Point] = {
    # A table is created by an ordinary write at a location that nobody knows.
    "create table: before its files": Point("lance:write_dataset", "before"),
    "create table: one of two written": Point("lance:write_dataset", "after"),
    # Staging: data files, then a manifest per table that nobody can see.
    "stage: data files written": Point("lance.fragment:write_fragments", "after"),
    "stage: one of two tables staged": Point("lance:LanceDataset.commit", "before", nth=2, alone=True),
    "stage: before the files are synced": Point("quire.store.store:Store.sync", "before"),
    # Publish: the one atomic point. On local disk it is a hard link.
    "publish: before the slot is sent": Point("quire.store.store:Store.create", "before", match=SLOT),
    "publish: slot written aside, not linked": Point(_LINK, "before", match=SLOT),
    "publish: slot created": Point(_LINK, "after", match=SLOT),
    "publish: outcome known": Point("quire.store.store:Store.create", "after", match=SLOT),
    # Backfill: a promotion per table, each with a transaction's file and a plain manifest.
    "backfill: before the first table": Point(_PROMOTE, "before"),
    "backfill: between two tables": Point(_PROMOTE, "before", nth=2, alone=True),
    "backfill: before a transaction's file": Point("quire.store.store:Store.put", "before", match=r"^_transactions/"),
    "backfill: transaction's file written": Point("quire.store.store:Store.create", "before", match=PLAIN),
    "backfill: canonical manifest created": Point("quire.store.store:Store.create", "after", match=PLAIN),
    "backfill: after the last table": Point(_PROMOTE, "after", nth=2, alone=True),
    # Checkpoints and hints: off the critical path, best effort.
    "checkpoint: before": Point("quire.store.store:Store.create", "before", match=CHECKPOINT),
    "checkpoint: written aside, not linked": Point("os:link", "before", match=CHECKPOINT),
    "checkpoint: after": Point("quire.store.store:Store.create", "after", match=CHECKPOINT),
    "hint: before": Point("quire.store.store:Store.put", "before", match=HINT),
    "hint: written aside, not renamed": Point("os:replace", "before", match=HINT),
    "hint: after": Point("quire.store.store:Store.put", "after", match=HINT),
    # The birth of a lake: its first slot, then the file that makes it a lake.
    "create lake: first slot written": Point("quire.store.store:Store.create", "before", match=FORMAT),
    "create lake: format file written aside": Point("os:link", "before", match=FORMAT),
    "create lake: after": Point("quire.store.store:Store.create", "after", match=FORMAT),
}
"""Places of the protocol worth dying at, in the order in which a writer passes them."""


class NotReached(AssertionError):
    """The process ended without coming to the point."""


def die() -> None:
    """End this process as a power cut would: nothing is cleaned up, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    """What Ctrl-C does: SIGINT to the main thread, whichever thread comes to the point."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def arm(point: Point, act: Callable[[], Any] = die) -> None:
    """From now on, in this process: when a call comes to `point`, `act`. There is no way back; use a process for it."""
    owner, name = _find(point.target)
    raw = vars(owner)[name]
    call = raw.__func__ if isinstance(raw, staticmethod) else raw
    count, lock = 0, threading.Lock()
    turn: Any = threading.RLock() if point.alone else contextlib.nullcontext()

    def reached(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        nonlocal count
        if point.match is not None and not any(re.search(point.match, name) for name in _names(args, kwargs)):
            return False
        with lock:
            count += 1
            return count == point.nth

    @functools.wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with turn:
            now = reached(args, kwargs)
            if now and point.side == "before":
                act()
            result = call(*args, **kwargs)
            if now and point.side == "after":
                act()
            return result

    setattr(owner, name, staticmethod(wrapped) if isinstance(raw, staticmethod) else wrapped)


def crash(point: Point, target: Callable[..., Any], *args: Any, timeout: float = 120.0) -> None:
    """Run `target(*args)` in a new process that dies at `point`; returns when it is dead.

    `target` must be importable by name, as spawned processes need it.
    """
    process = processes.context().Process(target=_armed, args=(point, target, args, dict(os.environ)), daemon=True)
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        raise NotReached(f"The process hung for {timeout} s on its way to {point}.")
    if process.exitcode != -signal.SIGKILL:
        raise NotReached(f"The process ended with {process.exitcode} without coming to {point}.")


def _armed(point: Point, target: Callable[..., Any], args: tuple[Any, ...], environment: dict[str, str]) -> None:
    os.environ.clear()  # the server that this process was forked from has variables of its own
    os.environ.update(environment)
    arm(point)
    target(*args)


def _find(target: str) -> tuple[Any, str]:
    module, _, path = target.partition(":")
    *owners, name = path.split(".")
    return functools.reduce(getattr, owners, importlib.import_module(module)), name


def _names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The names and paths among the arguments of a call; names in an open folder are paths too."""
    given = [*args, *kwargs.values()]
    names = [os.fspath(a) for a in given if isinstance(a, str | os.PathLike)]
    return names + [os.path.join(f.path, name) for f in given if isinstance(f, Folder) for name in names]
