"""What processes do that are interrupted, forked or late; here because a spawned process imports it by name."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tests.lake.crowd import wait_for
from tests.system.processes import Start
from tests.system.writers import SCHEMA, TABLES, rows

import quire
from quire.testing.crash import POINTS, arm, interrupt

ENDLESS = 5_000_000
FORKED_FOR = 30
"""Seconds after which a forked child counts as hung."""


@dataclass(frozen=True)
class Ended:
    """How a transaction ended for the program that ran it."""

    raised: str | None
    status: str
    commit: str | None = None


def commit_and_interrupt(start: Start, uri: str, point: str) -> Ended:
    """One transaction on both tables, with Ctrl-C at a point of it."""
    lake = quire.open(uri)
    lake.flush()
    arm(POINTS[point], interrupt)
    start.wait()
    raised = None
    tx = lake.transaction("interrupted")
    try:
        with tx:
            for table in TABLES:
                tx[table].append(rows(1, 0))
    except KeyboardInterrupt:
        raised = "KeyboardInterrupt"
    lake.flush()
    return Ended(raised, tx.status, tx.receipt.commit if tx.status == "committed" else None)


def interrupt_an_endless_append(start: Start, uri: str) -> Ended:
    """Ctrl-C while the rows of an iterator are being written."""
    lake = quire.open(uri)
    start.wait()

    def endless() -> Iterator[pa.RecordBatch]:
        for number in range(ENDLESS):
            if number == 3:
                interrupt()
            yield rows(1, number).to_batches()[0]
        raise AssertionError("all of it was written in spite of Ctrl-C")

    raised = None
    tx = lake.transaction("interrupted")
    try:
        with tx:
            tx["debits"].append(endless())
    except KeyboardInterrupt:
        raised = "KeyboardInterrupt"
    return Ended(raised, tx.status)


def interrupt_twice(start: Start, uri: str) -> list[Any]:
    """Ctrl-C during publish, and again while its outcome is awaited; what `lake.outcome` says before and after."""
    lake = quire.open(uri)
    lake.flush()
    once, go_on, landed = threading.Event(), threading.Event(), threading.Event()

    def handler(number: int, frame: Any) -> None:
        once.set()
        raise KeyboardInterrupt

    def stall() -> None:
        interrupt()
        once.wait(FORKED_FOR)
        interrupt()
        go_on.wait(FORKED_FOR)

    signal.signal(signal.SIGINT, handler)
    arm(POINTS["publish: slot written aside, not linked"], stall)
    arm(POINTS["publish: outcome known"], landed.set)
    start.wait()
    tx = lake.transaction("interrupted twice")
    try:
        with tx:
            for table in TABLES:
                tx[table].append(rows(1, 0))
    except quire.CommitUnknown as unknown:
        status, before = tx.status, lake.outcome(unknown)
        go_on.set()
        landed.wait(FORKED_FOR)
        return [type(unknown).__name__, status, before, lake.outcome(unknown)]
    return ["no error", tx.status]


class SoftLimit(Exception):
    """What a job runner's signal handler raises when time is up."""


def interrupt_in_a_queue(start: Start, uri: str, kind: str) -> tuple[Ended, list[str]]:
    """Ctrl-C while the main thread waits in the queue behind another thread's slot; and what was committed."""
    kinds = {one.__name__: one for one in (KeyboardInterrupt, SystemExit, SoftLimit)}

    def handler(number: int, frame: Any) -> None:
        raise kinds[kind]

    signal.signal(signal.SIGINT, handler)
    lake = quire.open(uri)
    lake.flush()
    start.wait()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lake._live.publishing:
            held.set()
            release.wait(10 * FORKED_FOR)

    def leader() -> None:
        with lake.transaction("leader") as tx:
            tx[TABLES[0]].append(rows(1, 0))

    def interrupt_when_queued() -> None:
        wait_for(lambda: bool(lake._live.group._waiting))
        interrupt()

    threading.Thread(target=hold).start()
    held.wait(FORKED_FOR)
    other = threading.Thread(target=leader)
    other.start()
    wait_for(lambda: bool(lake._live.group._taken))
    threading.Thread(target=interrupt_when_queued).start()
    raised = None
    tx = lake.transaction("interrupted")
    try:
        with tx:
            for table in TABLES:
                tx[table].append(rows(1, 0))
    except BaseException as error:
        raised = type(error).__name__
    release.set()
    other.join()
    with lake.transaction("afterwards") as after:
        after[TABLES[0]].append(rows(1, 1))
    return Ended(raised, tx.status), [entry.message for entry in lake.log()]


# -- after a fork -----------------------------------------------------------------------------------------------------


def verbs(uri: str) -> dict[str, Callable[[], Any]]:
    """Things to do with handles that were made before the fork."""
    lake = quire.open(uri)
    snapshot = lake.snapshot()
    table = snapshot["debits"]
    table.to_arrow()
    tx = lake.transaction("begun before the fork")
    staged = tx["debits"]
    staged.append(rows(1, 0))
    return {
        "lake.snapshot": lake.snapshot,
        "lake.refresh": lake.refresh,
        "lake.tables": lake.tables,
        "lake[table]": lambda: lake["debits"],
        "lake.sql": lambda: lake.sql("select 1"),
        "lake.log": lambda: list(lake.log()),
        "lake.show": lambda: lake.show("1.0"),
        "lake.at": lambda: lake.at(commit="1.0"),
        "lake.diff": lambda: lake.diff("1.0"),
        "lake.status": lake.status,
        "lake.foreign": lake.foreign,
        "lake.branches": lake.branches,
        "lake.branch": lambda: lake.branch("other"),
        "lake.tags": lake.tags,
        "lake.outcome": lambda: lake.outcome(tx),
        "snapshot[table]": lambda: snapshot["debits"],
        "snapshot.sql": lambda: snapshot.sql("select count(*) from debits"),
        "table.to_arrow": table.to_arrow,
        "table.scan": lambda: table.scan(filter="seq > 0").to_arrow(),
        "table.count": lambda: table.count("seq > 0"),
        "table.schema": lambda: table.schema,
        "lake.transaction": lambda: lake.transaction("after the fork"),
        "lake.transact": lambda: lake.transact(lambda again: again["debits"].append(rows(1, 1))),
        "lake.create_table": lambda: lake.create_table("another", schema=SCHEMA),
        "lake.revert": lambda: lake.revert("1.0"),
        "lake.create_branch": lambda: lake.create_branch("another"),
        "lake.delete_branch": lambda: lake.delete_branch("other"),
        "lake.tag": lambda: lake.tag("another"),
        "lake.backfill": lake.backfill,
        "tx[table]": lambda: tx["debits"],
        "tx[table].append": lambda: staged.append(rows(1, 2)),
        "tx[table].to_arrow": staged.to_arrow,
        "tx.commit": tx.commit,
    }


def use_in_a_forked_child(start: Start, uri: str) -> dict[str, str]:
    """Every verb, each in a forked child of its own: the kind of error it raised, or what else happened."""
    known = verbs(uri)
    start.wait()
    return {name: in_forked_child(verb) for name, verb in known.items()}


def in_forked_child(verb: Callable[[], Any]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(FORKED_FOR)
        try:
            verb()
            answer = "it worked"
        except quire.QuireError as error:
            answer = error.kind
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read().decode()
    os.waitpid(child, 0)
    return answer or "it hung"


EXIT_OF_A_FORKED_CHILD = f"""
import os, signal, sys
import quire

lake = quire.open(sys.argv[1])
with lake.transaction("leaves work behind") as tx:
    for table in ("debits", "credits"):
        tx[table].append([{{"writer": 1, "seq": 0, "amount": 1001}}])
child = os.fork()
if child == 0:
    signal.alarm({FORKED_FOR})
    lake.close()
    sys.exit(7)
_, status = os.waitpid(child, 0)
lake.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""A program of its own, because only a program that ends by itself runs what it registered for its end."""
