"""A checker for recorded histories: which transactional anomaly happened, to whom, and why it is one.

Run a workload, note what every transaction read and wrote, and hand the notes over:

>>> from quire.testing.history import Transaction, append, check, read
>>> report = check([
...     Transaction("a", [read("x", []), append("x", 1)]),
...     Transaction("b", [read("x", []), append("x", 2)]),
...     Transaction("c", [read("x", [1, 2])]),
... ])
>>> report.kinds
['lost-update']
>>> print(report.anomalies[0].explanation)
b read 'x' as [] without 1, which a appended; a appended 1 to 'x' just before b appended 2.

The method is Elle's (Kingsbury and Alvaro, 2020). A list that grows by appends of unique values shows its own history:
the longest read gives the order of versions, so from reads alone follow the edges between transactions

    ww        wrote the version after mine                rw        wrote the version after the one I read
    wr        read the version I wrote                    process   came after me in the same process
    time      began after I had ended, and was `fresh`

and an anomaly is a cycle. Registers (`write`) work too where a transaction reads before it writes; their reads take one
value, or None. An append stands for read-modify-write of one row: appends that commute are weaker than that, by design,
and do not belong in a history.

A transaction whose outcome is not known may or may not have happened; a read of anything it wrote proves that it did.
`Journal` notes a history so that it survives SIGKILL of the process that makes it: what has no end is unknown.

The graph is networkx, from the extra `quire[test]`; it is loaded when `check` is called.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from quire.errors import InvalidInput

Level = Literal["snapshot", "serializable"]
Status = Literal["ok", "fail", "unknown"]

KINDS: dict[str, str] = {
    "unwritten-read": "a value was read that nobody wrote",
    "duplicate-append": "one append shows twice",
    "lost-append": "an acknowledged append is gone",
    "incompatible-order": "two reads of one key disagree about its order",
    "non-repeatable-read": "one transaction got two answers for one key, or missed its own write",
    "dirty-read": "a value of a failed transaction was read (G1a)",
    "intermediate-read": "a value was read that its transaction replaced before it committed (G1b)",
    "dirty-write": "writes of transactions are interleaved (G0)",
    "circular-information-flow": "transactions have seen each other's writes (G1c)",
    "out-of-order": "commits contradict the order of one process, or of time",
    "lost-update": "two transactions read one version and both replaced it",
    "fractured-read": "one part of a transaction was seen and another was not (G-single)",
    "stale-read": "a read missed what its process, or time, had put before it (G-single)",
    "read-skew": "reads of one transaction belong to different moments (G-single)",
    "long-fork": "two readers saw two writes in opposite orders",
    "write-skew": "each wrote what the other's decision rested on (G2-item); allowed under snapshot isolation",
}
"""Every anomaly that is looked for, by name."""


@dataclass(frozen=True)
class Op:
    """One operation of a transaction; use `append`, `write` and `read`."""

    kind: Literal["append", "write", "read"]
    key: Hashable
    value: Any


def append(key: Hashable, value: Hashable) -> Op:
    """A value was added to the end of a list. No value is added twice to one key."""
    return Op("append", key, value)


def write(key: Hashable, value: Hashable) -> Op:
    """A register was set. No value is set twice in one key: balances need a stamp beside them."""
    return Op("write", key, value)


def read(key: Hashable, value: Any) -> Op:
    """What a read returned: a whole list, or a register's value (None before the first write)."""
    return Op("read", key, tuple(value) if isinstance(value, list | tuple) else value)


@dataclass(frozen=True)
class Transaction:
    """One transaction of a history.

    `ops` are in program order. `start` and `end` are of one clock, with `end` taken after the acknowledgement. `fresh`
    says that it asked the store for the newest state after `start`, so that it must see whatever had ended before.
    `isolation` is this transaction's own level, where it differs from the one `check` is called with.
    """

    id: Hashable
    ops: Sequence[Op]
    status: Status = "ok"
    process: Hashable = None
    start: float | None = None
    end: float | None = None
    fresh: bool = False
    isolation: Level | None = None


@dataclass(frozen=True)
class Anomaly:
    """One thing that must not happen: a name from `KINDS`, who and what is involved, and the reasons in words."""

    kind: str
    transactions: tuple[Hashable, ...]
    keys: tuple[Hashable, ...]
    explanation: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.explanation}"


@dataclass
class Report:
    """What `check` found, and how much it had to go by: `edges` counts the dependencies of each sort."""

    level: Level
    anomalies: list[Anomaly] = field(default_factory=list)
    transactions: int = 0
    committed: int = 0
    proven: int = 0
    """Transactions of unknown outcome of which a read shows that they committed."""
    edges: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool:
        return not self.anomalies

    @property
    def kinds(self) -> list[str]:
        """Names of the anomalies, each once, sorted."""
        return sorted({a.kind for a in self.anomalies})

    def __str__(self) -> str:
        edges = ", ".join(f"{n} {name}" for name, n in sorted(self.edges.items()))
        about = f"{self.committed} of {self.transactions} transactions committed; edges: {edges or 'none'}"
        return "\n".join(
            [f"{len(self.anomalies)} anomalies at level {self.level} ({about})", *map(str, self.anomalies)]
        )


def check(history: Iterable[Transaction], level: Level = "snapshot") -> Report:
    """Look for every anomaly that `level` forbids."""
    if level not in ("snapshot", "serializable"):
        raise InvalidInput(f"There is no level {level!r}.", next='Use "snapshot" or "serializable".')
    from quire.testing.history.anomalies import Checker

    checker = Checker(list(history), Report(level))
    checker.run()
    return checker.report


# -- notes that survive a crash ---------------------------------------------------------------------------------------


class Journal:
    """A history written to a file line by line, by one process, as it happens.

        journal = Journal(path, process="writer 3")
        with journal.transaction("t7", fresh=True) as notes:      # a line on disk before anything is done
            ...
            notes.read("x", [1, 2])
            notes.append("x", 3)                                  # note an append before it is committed
            notes.ok()                                            # or notes.fail(); neither: unknown

    `load(paths)` gives the transactions of all processes. Keys and values must be what JSON can hold.
    """

    def __init__(self, path: str | os.PathLike[str], process: str, clock: Any = None) -> None:
        import time

        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - as long as the process lives
        self._clock = clock or time.monotonic
        self.process = process

    def transaction(self, id: str, *, fresh: bool = False, isolation: Level | None = None) -> Notes:
        return Notes(self, id, fresh, isolation)

    def line(self, **fields: Any) -> None:
        """Put one line on disk. `id=None` marks a note of the program's own, which `load` passes over."""
        self._file.write(json.dumps({"process": self.process, "at": self._clock(), **fields}).encode() + b"\n")
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class Notes:
    """What one transaction does, for `Journal`."""

    def __init__(self, journal: Journal, id: str, fresh: bool, isolation: Level | None) -> None:
        self._journal, self._id = journal, id
        self._about = {"fresh": fresh, "isolation": isolation}
        self._ops: list[tuple[str, Any, Any]] = []
        self._noted = -1
        self._ended = False

    def __enter__(self) -> Notes:
        self._journal.line(id=self._id, what="begin", **self._about)
        return self

    def __exit__(self, *exc: object) -> None:
        """Leaving without `ok` or `fail` leaves the outcome unknown, as a crash would."""
        if not self._ended:
            self.commit()

    def read(self, key: Any, value: Any) -> None:
        self._ops.append(("read", key, value))

    def append(self, key: Any, value: Any) -> None:
        self._ops.append(("append", key, value))

    def write(self, key: Any, value: Any) -> None:
        self._ops.append(("write", key, value))

    def again(self) -> None:
        """Forget what was noted: the program runs anew on another snapshot, and nothing was committed."""
        self._ops = []

    def commit(self) -> None:
        """Put the operations on disk. Call it before the commit is sent: if the process dies then, they may be real."""
        self._journal.line(id=self._id, what="ops", ops=self._ops)
        self._noted = len(self._ops)

    def ok(self) -> None:
        self._end("ok")

    def fail(self) -> None:
        self._end("fail")

    def _end(self, status: str) -> None:
        if self._noted != len(self._ops):
            self.commit()
        self._journal.line(id=self._id, what=status)
        self._ended = True


def load(paths: Iterable[str | os.PathLike[str]]) -> list[Transaction]:
    """The transactions of journals, in the order in which they began. A torn last line is what a crash leaves."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for line in _lines(path):
            if line["id"] is None:
                continue  # a note of the program's own
            one = found.setdefault(line["id"], {"ops": [], "status": "unknown", "end": None})
            if line["what"] == "begin":
                # Work that is tried again, with its token, by another process is still the same transaction.
                one["start"] = min(line["at"], one.get("start", line["at"]))
                one |= {name: line[name] for name in ("process", "fresh", "isolation")}
            elif line["what"] == "ops":
                one["ops"] = [_op(*op) for op in line["ops"]]
            else:
                one |= {"status": line["what"], "end": line["at"]}
    return sorted((Transaction(id, **fields) for id, fields in found.items()), key=lambda t: t.start or 0.0)


def _op(kind: Literal["append", "write", "read"], key: Any, value: Any) -> Op:
    key = tuple(key) if isinstance(key, list) else key
    return read(key, value) if kind == "read" else Op(kind, key, value)


def _lines(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
