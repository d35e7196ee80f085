"""The work of `quire.testing.history.check`: what reads prove by themselves, then edges, then cycles.

First every read is compared with what was written to its key, which finds what needs no graph and gives each key its
order of versions. From the orders follow the edges (`Graph`), and cycles in them have names.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

from quire.errors import InvalidInput
from quire.testing.history import Anomaly, Report, Transaction
from quire.testing.history.cycles import Graph

Key = Hashable


@dataclass
class Read:
    """What one committed transaction read of one key before its own writes to it."""

    by: Transaction
    values: tuple[Any, ...]
    shown: Any
    """As the transaction got it, for explanations."""


@dataclass
class Series:
    """All that is known of one key."""

    key: Key
    register: bool = False
    writers: dict[Any, Transaction] = field(default_factory=dict)
    last: dict[Hashable, Any] = field(default_factory=dict)
    """The final value of each transaction that wrote here."""
    reads: list[Read] = field(default_factory=list)


class Checker:
    def __init__(self, history: list[Transaction], report: Report) -> None:
        self.history, self.report = history, report
        self.series: dict[Key, Series] = {}
        self.graph = Graph(report.level)

    def run(self) -> None:
        self._index()
        self.committed = self._committed()
        self.report.transactions = len(self.history)
        self.report.committed = len(self.committed)
        for one in self.committed.values():
            self.graph.node(one)
            self._inside(one)
        for series in self.series.values():
            if series.register:
                self._register(series)
            else:
                self._list(series)
        self._order()
        self.report.anomalies += self.graph.anomalies()
        self.report.edges = self.graph.counts()

    def found(self, kind: str, key: Key, explanation: str, *who: Transaction) -> None:
        self.report.anomalies.append(Anomaly(kind, tuple(dict.fromkeys(t.id for t in who)), (key,), explanation))

    # -- what was written, and by whom ------------------------------------------------------------------------

    def _index(self) -> None:
        ids: set[Hashable] = set()
        for one in self.history:
            if one.id in ids:
                raise InvalidInput(f"Two transactions are called {one.id!r}.", next="Give each an id of its own.")
            ids.add(one.id)
            for op in one.ops:
                series = self.series.setdefault(op.key, Series(op.key))
                if op.kind == "read":
                    continue
                if series.writers and series.register != (op.kind == "write"):
                    raise InvalidInput(f"Key {op.key!r} is both a list and a register.", next="Use two keys.")
                if op.value in series.writers:
                    raise InvalidInput(
                        f"{op.value!r} was written to {op.key!r} twice, by {series.writers[op.value].id} and {one.id}.",
                        next="Write unique values, or nobody can tell whose was read.",
                    )
                series.register = op.kind == "write"
                series.writers[op.value] = one
                series.last[one.id] = op.value

    def _committed(self) -> dict[Hashable, Transaction]:
        """Acknowledged transactions, and those of unknown outcome that somebody read from."""
        committed = {t.id: t for t in self.history if t.status == "ok"}
        news = list(committed.values())
        while news:
            seen: list[Transaction] = []
            for one in news:
                for op in one.ops:
                    values = () if op.kind != "read" else op.value if isinstance(op.value, tuple) else (op.value,)
                    for value in values:
                        writer = self.series[op.key].writers.get(value)
                        if writer is not None and writer.status == "unknown" and writer.id not in committed:
                            committed[writer.id] = writer
                            seen.append(writer)
            news = seen
            self.report.proven += len(seen)
        return committed

    # -- inside one transaction -------------------------------------------------------------------------------

    def _inside(self, one: Transaction) -> None:
        """Follow its own reads and writes: answers must agree. The first read of a key is what it saw of others."""
        known: dict[Key, tuple[Any, ...]] = {}
        mine: dict[Key, list[Any]] = {}
        for op in one.ops:
            series = self.series[op.key]
            own = mine.setdefault(op.key, [])
            if op.kind != "read":
                own.append(op.value)
                continue
            values = op.value if isinstance(op.value, tuple) else () if op.value is None else (op.value,)
            if series.register:
                own = own[-1:]
                expected = tuple(own) if own else known.get(op.key)
            else:
                expected = (*known[op.key], *own) if op.key in known else None
            others = values
            if own and values[-len(own) :] == tuple(own):
                others = values[: -len(own)]
            elif own and expected is None:
                expected = (*values, *own)
            if expected is not None and values != expected:
                what = f"{one.id} read {op.key!r} as {_show(values)}; by what it had read and written before, it is"
                self.found("non-repeatable-read", op.key, f"{what} {_show(expected)}.", one)
            if op.key not in known and not (series.register and own):
                known[op.key] = others
                series.reads.append(Read(one, others, values))

    # -- lists ------------------------------------------------------------------------------------------------

    def _list(self, series: Series) -> None:
        for read in series.reads:
            read.values = tuple(self._believable(series, read))
        lost = self._lost(series)
        for read in series.reads:
            read.values = tuple(v for v in read.values if v not in lost)
        order = max((r.values for r in series.reads), key=len, default=())
        longest = next((r for r in series.reads if r.values == order), None)
        usable = []
        for read in series.reads:
            if read.values == order[: len(read.values)]:
                usable.append(read)
            elif longest is not None:
                what = f"{read.by.id} read {series.key!r} as {_show(read.values)}, {longest.by.id} as {_show(order)}."
                self.found("incompatible-order", series.key, what, read.by, longest.by)
        self._list_edges(series, order, usable, lost)

    def _believable(self, series: Series, read: Read) -> Iterator[Any]:
        """The values of a read that were committed, each once; what is wrong with the others is reported."""
        seen: set[Any] = set()
        aborted: set[Hashable] = set()
        for value in read.values:
            writer = series.writers.get(value)
            if value in seen:
                what = f"{read.by.id} read {series.key!r} as {_show(read.shown)}, with {value!r} more than once."
                self.found("duplicate-append", series.key, what, read.by, *([writer] if writer else []))
            elif writer is None:
                what = f"{read.by.id} read {value!r} in {series.key!r}, and nobody wrote it."
                self.found("unwritten-read", series.key, what, read.by)
            elif writer.id not in self.committed:
                if writer.id not in aborted:
                    what = f"{read.by.id} read {value!r} in {series.key!r} from {writer.id}, which failed."
                    self.found("dirty-read", series.key, what, read.by, writer)
                aborted.add(writer.id)
            else:
                yield value
            seen.add(value)
        if read.values:
            self._intermediate(series, read, read.values[-1])

    def _intermediate(self, series: Series, read: Read, value: Any) -> None:
        writer = series.writers.get(value)
        if writer is None or writer.id not in self.committed or writer.id == read.by.id:
            return
        if series.last[writer.id] != value:
            last = series.last[writer.id]
            what = f"{read.by.id} read {series.key!r} up to {value!r}, but {writer.id} went on to write {last!r} there."
            self.found("intermediate-read", series.key, what, read.by, writer)

    def _lost(self, series: Series) -> set[Any]:
        """Acknowledged appends that a later read has not, and no read after that one either.

        If a read after that one has it, the first was only stale.
        """
        reads = sorted(series.reads, key=lambda r: self.place[r.by.id])
        seen = {value: number for number, read in enumerate(reads) for value in read.values}
        lost = set()
        for value, writer in series.writers.items():
            later = range(seen.get(value, -1) + 1, len(reads))
            missed = next((reads[n] for n in later if self._before(writer, reads[n].by)), None)
            if writer.status == "ok" and missed is not None:
                what = f"{writer.id} appended {value!r} to {series.key!r} and was told so; {missed.by.id} came later"
                self.found("lost-append", series.key, f"{what} and read {_show(missed.shown)}.", writer, missed.by)
                lost.add(value)
        return lost

    def _before(self, one: Transaction, other: Transaction) -> bool:
        if one.id == other.id or one.status != "ok":
            return False
        if one.process is not None and one.process == other.process:
            return self.place[one.id] < self.place[other.id]
        return other.fresh and one.end is not None and other.start is not None and one.end < other.start

    def _list_edges(self, series: Series, order: tuple[Any, ...], reads: list[Read], lost: set[Any]) -> None:
        key, writers = series.key, series.writers
        for a, b in pairwise(order):
            what = f"{writers[a].id} appended {a!r} to {key!r} just before {writers[b].id} appended {b!r}"
            self.graph.edge("ww", writers[a], writers[b], key, what)
        # Nobody has read these, so they lie after everything that was read, in an order nobody knows.
        known = {*order, *lost}
        unseen = [v for v, t in writers.items() if t.id in self.committed and v not in known]
        for value in unseen if order else ():
            last, one = writers[order[-1]], writers[value]
            what = f"{last.id} appended {order[-1]!r} to {key!r} before {one.id} appended {value!r}"
            self.graph.edge("ww", last, one, key, what)
        unseen_ids = {writers[v].id for v in unseen}
        updates = [r.by for r in reads if r.by.id in unseen_ids]
        if len(updates) > 1:
            names = " and ".join(str(t.id) for t in updates)
            self.found(
                "lost-update", key, f"{names} read {key!r} and appended to it, each unseen by the others.", *updates
            )
        for read in reads:
            version = len(read.values)
            newest = read.values[-1] if version else None
            if version:
                what = f"{read.by.id} read {newest!r} in {key!r}, which {writers[newest].id} appended"
                self.graph.edge("wr", writers[newest], read.by, key, what)
            # After an intermediate read, what comes next from the same transaction is already reported.
            mine = writers[newest].id if version else None
            after = list(islice((v for v in order[version:] if writers[v].id != mine), 1))
            if not after and not (len(updates) > 1 and read.by.id in unseen_ids):
                after = [v for v in unseen if writers[v].id != mine]
            for value in after:
                what = f"{read.by.id} read {key!r} as {_show(read.shown)} without {value!r}"
                self.graph.edge("rw", read.by, writers[value], key, f"{what}, which {writers[value].id} appended")

    # -- registers --------------------------------------------------------------------------------------------

    def _register(self, series: Series) -> None:
        """Versions are ordered where somebody read one and wrote the next."""
        key, writers = series.key, series.writers
        for read in list(series.reads):
            believed = tuple(self._believable(series, read))
            if read.values and not believed:
                series.reads.remove(read)
            read.values = believed
        seen = {r.by.id: r for r in series.reads}
        following: dict[Any, list[Transaction]] = {}
        for id, value in series.last.items():
            if id in self.committed:
                before = seen[id].values[-1] if id in seen and seen[id].values else None
                following.setdefault(before, []).append(writers[value])
        for before, ones in following.items():
            updates = [t for t in ones if t.id in seen]
            if len(updates) > 1:
                names = " and ".join(str(t.id) for t in updates)
                self.found("lost-update", key, f"{names} read {key!r} as {before!r} and each wrote it.", *updates)
            for one in ones if before is not None else ():
                what = f"{writers[before].id} wrote {before!r} to {key!r} before {one.id} wrote {series.last[one.id]!r}"
                self.graph.edge("ww", writers[before], one, key, what)
        for read in series.reads:
            value = read.values[-1] if read.values else None
            if value is not None:
                what = f"{read.by.id} read {value!r} in {key!r}, which {writers[value].id} wrote"
                self.graph.edge("wr", writers[value], read.by, key, what)
            if read.by.id in series.last and read.by.id in {t.id for t in following.get(value, ())}:
                continue  # it wrote the next version itself; others that did are reported above
            for one in following.get(value, ()):
                what = f"{read.by.id} read {key!r} as {value!r}, before {one.id} wrote {series.last[one.id]!r}"
                self.graph.edge("rw", read.by, one, key, what)

    # -- processes and time -----------------------------------------------------------------------------------

    @property
    def place(self) -> dict[Hashable, int]:
        """Positions in the order of begin; where times are missing, the order of the history counts."""
        if not hasattr(self, "_place"):
            timed = all(t.start is not None for t in self.history)
            ones = sorted(self.history, key=lambda t: t.start or 0.0) if timed else self.history
            self._place = {t.id: n for n, t in enumerate(ones)}
        return self._place

    def _order(self) -> None:
        ones = sorted(self.committed.values(), key=lambda t: self.place[t.id])
        before: dict[Hashable, Transaction] = {}
        for one in ones:
            if one.process is None:
                continue
            if one.process in before:
                first = before[one.process]
                self.graph.edge("process", first, one, None, f"{one.id} came after {first.id} in process {one.process}")
            if one.status == "ok":  # what is unknown may land at any time later
                before[one.process] = one
        self.graph.time(ones)


def _show(values: Any) -> str:
    shown = list(values) if isinstance(values, tuple) else values
    text = repr(shown)
    return text if len(text) < 200 else f"[… {len(values)} values, the last {', '.join(map(repr, values[-5:]))}]"
