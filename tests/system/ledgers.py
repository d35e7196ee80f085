"""Two tables whose sums agree at every commit, a writer that keeps it so, and a reader that watches."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.system.writers import SCHEMA, TABLES

import quire
from quire.testing import processes

NOTHING = dict.fromkeys(TABLES, 6)
"""The sums of a new lake."""
EVERYTHING = dict.fromkeys(TABLES, 15)
"""The sums after `write_once`."""


def create(uri: str) -> None:
    """A lake with both tables, backfilled."""
    first = pa.table({"writer": [0, 0, 0], "seq": [0, 1, 2], "amount": [1, 2, 3]}, schema=SCHEMA)
    with quire.create(uri) as lake:
        with lake.transaction("tables") as tx:
            for table in TABLES:
                tx.create_table(table, first)


def write_once(uri: str) -> None:
    """One transaction that appends to both tables and changes both in different ways; the sums still agree."""
    lake = quire.open(uri)
    lake.flush()
    new = pa.table({"writer": [1], "seq": [0], "amount": [10]}, schema=SCHEMA)
    with lake.transaction("both") as tx:
        tx["debits"].append(new)
        tx["debits"].delete("writer = 0 and seq = 0")
        tx["credits"].append(new)
        tx["credits"].update({"amount": "amount - 1"}, where="writer = 0 and seq = 2")
    lake.close()


def write_many(uri: str, acknowledged: str, count: int) -> None:
    """Transactions one after the other; each is noted in the file `acknowledged` once it is."""
    lake = quire.open(uri)
    with open(acknowledged, "ab", buffering=0) as notes:
        for seq in range(count):
            with lake.transaction(f"{seq}") as tx:
                for table in TABLES:
                    tx[table].append(pa.table({"writer": [1], "seq": [seq], "amount": [seq + 1]}, schema=SCHEMA))
            receipt: Any = tx.receipt
            notes.write(f"{receipt.commit}\n".encode())
    lake.close()


def create_two_more_tables(uri: str) -> None:
    lake = quire.open(uri)
    with lake.transaction("two more") as tx:
        for table in ("more_debits", "more_credits"):
            tx.create_table(table, [{"id": 1, "amount": 5}], key="id")
    lake.close()


def make_lake(uri: str) -> None:
    quire.create(uri).close()


def sums(snapshot: quire.Snapshot) -> dict[str, int]:
    return {t: pc.sum(snapshot[t].to_arrow()["amount"]).as_py() for t in TABLES}


class Watcher:
    """A process that reads both tables again and again, with a warm handle and with a new one in turn."""

    def __init__(self) -> None:
        context = processes.context()
        self._here, there = context.Pipe()
        self._process = context.Process(target=_watch, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def watch(self, uri: str) -> None:
        """Begin; returns after the first look."""
        self._ask(("watch", os.fspath(uri)))

    def seen(self) -> dict[str, dict[str, int]]:
        """One more look with either kind of handle, then all the sums seen so far, by commit."""
        found: dict[str, dict[str, int]] = self._ask(("seen", None))
        return found

    def close(self) -> None:
        self._here.close()
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _ask(self, question: Any) -> Any:
        self._here.send(question)
        assert self._here.poll(60), "the reading process does not answer"
        answer = self._here.recv()
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _watch(there: Connection) -> None:
    uri, warm = "", None
    seen: dict[str, dict[str, int]] = {}

    def look(lake: quire.Lake) -> None:
        snapshot = lake.snapshot()
        found = sums(snapshot)
        before = seen.setdefault(snapshot.commit, found)
        if before != found:
            raise AssertionError(f"commit {snapshot.commit} was {before} and is {found}")

    problem: BaseException | None = None
    try:
        while True:
            if warm is None or problem is not None or there.poll(0):
                question, given = there.recv()
                if question == "watch":
                    uri, seen, problem = given, {}, None
                    warm = quire.open(uri, read_only=True)
            else:
                question = None
            try:
                if problem is None:
                    look(warm)
                    look(quire.open(uri, read_only=True))
            except Exception as error:
                problem = error
            if question is not None:
                there.send(problem if problem is not None else dict(seen))
    except EOFError:
        return
