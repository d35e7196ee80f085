"""Optimize: small fragments are merged, indexes extended to what is new, and the ledger is checkpointed.

Each table, or a few small ones together, is an ordinary commit by ordinary rules. The long work is done before it, on a
snapshot and beside live writers; a lost race keeps what was written unless its rows were replaced, and a writer whose
rows were moved is moved along. Nobody waits for anybody.

With an engine, tasks do the long work: one job merges the fragments of all tables, one extends their indexes. What they
wrote is committed here, by the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from quire.arguments import bounded
from quire.errors import Conflict, NotOwner, OutsideLake, SnapshotExpired, StorageError, TransactionClosed, Unsupported
from quire.formats import Compacted, Split, Spread, Upkeep, Work
from quire.lake import engines
from quire.lake.commit.rebase import UPKEEP
from quire.lake.commit.table_change import Edit
from quire.lake.engines import Engine, chosen
from quire.lake.names import no_table
from quire.ledger import Compactable, TableState
from quire.progress import Progress, silent
from quire.prompt import OneLine, counts
from quire.store import clock, run_parallel

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction
    from quire.lake.lake import Lake

TRIES = 3
"""How often one call tries a table that others keep changing under it."""
GROUP_TABLES = 16
GROUP_BYTES = 64 << 20
"""Tables share a commit while what is rewritten of them stays below this."""

"""What is being done, how much of it is done, and how much there is: `progress("compact documents", 3, 8)`."""


@dataclass(frozen=True, repr=False)
class TableOptimized(OneLine):
    """What was done to one table, or would be."""

    table: str
    outcome: Literal["nothing", "planned", "optimized", "busy", "failed"]
    """`nothing`: there was nothing to do. `busy`: others kept replacing what was rewritten; try later."""
    fragments_before: int = 0
    fragments_after: int = 0
    rows: int = 0
    """Rows that were written anew."""
    bytes: int = 0
    """Size of the data files that were merged."""
    indexes: tuple[str, ...] = ()
    """Indexes that were extended."""
    commit: str | None = None
    tries: int = 0
    detail: str = ""

    def _facts(self) -> str:
        return f"{self.table} {self.outcome}, {self.fragments_before} → {self.fragments_after} fragments"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {**asdict(self), "indexes": list(self.indexes)}


@dataclass(frozen=True, repr=False)
class Optimized(OneLine):
    """What `optimize` did: one entry per table that it was asked for, by name."""

    tables: tuple[TableOptimized, ...]
    dry_run: bool = False
    checkpoint: str | None = None
    """The commit at which the ledger was checkpointed."""

    def _facts(self) -> str:
        done: Counter[str] = Counter(table.outcome for table in self.tables)
        commits = f"; committed {', '.join(self.commits)}" if self.commits else ""
        return f"{'dry run; ' if self.dry_run else ''}tables: {counts(done) or 'none'}{commits}"

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits that it made, in their order."""
        return tuple(dict.fromkeys(t.commit for t in self.tables if t.commit is not None))

    def __getitem__(self, name: str) -> TableOptimized:
        for table in self.tables:
            if table.table == name:
                return table
        raise no_table(name, (t.table for t in self.tables))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "dry_run": self.dry_run,
            "checkpoint": self.checkpoint,
            "commits": list(self.commits),
            "tables": [t.to_dict() for t in self.tables],
        }


def optimize(
    lake: Lake,
    tables: Sequence[str] | None = None,
    *,
    target_rows: int = 1 << 20,
    deleted: float = 0.1,
    dry_run: bool = False,
    progress: Progress | None = None,
    engine: Engine = "local",
) -> Optimized:
    """Merge small fragments, extend indexes, and checkpoint the ledger; of all tables, or of those named.

    Fragments with fewer than `target_rows` rows are merged, and those of which more than the share `deleted` is deleted
    are written anew. With `dry_run` nothing is written. Under `engine="auto"` the size is that of what is to be merged.
    """
    target_rows = bounded("target_rows", target_rows, 1)
    bounded("deleted", deleted, 0, 1)
    return _Run(lake, Upkeep(target_rows, deleted), dry_run, progress, engine).run(tables)


@dataclass
class _Doing:
    """One table whose upkeep is done by tasks."""

    table: TableOptimized
    tx: Transaction
    edit: Edit
    work: Any = None
    compacted: Compacted = field(default_factory=lambda: Compacted(0, 0))
    indexes: list[str] = field(default_factory=list)
    left: bool = False
    """Whether it is out of this attempt."""

    def take(self, what: Literal["compact", "index"], result: Any) -> None:
        if what == "compact":
            self.compacted = result
        else:
            self.indexes = result
        if self.work.changed if what == "compact" else self.indexes:
            self.edit.did(what)


class _Run:
    def __init__(
        self, lake: Lake, how: Upkeep, dry_run: bool, progress: Progress | None, engine: Engine = "local"
    ) -> None:
        (lake._core.check if dry_run else lake._core.check_writable)()
        chosen(engine)  # so that one that is none is told even where there is nothing to do
        self.engine = engine
        self.lake, self.live, self.how = lake, lake._live, how
        self.dry_run, self.progress = dry_run, progress or silent
        self.done: dict[str, TableOptimized] = {}

    def run(self, tables: Sequence[str] | None) -> Optimized:
        state = self.live.refresh()
        names = state.names()
        for name in tables or ():
            if name not in names:
                raise no_table(name, names)
        wanted = [state.tables[names[n]] for n in sorted(set(tables if tables is not None else names))]
        self._look(wanted)
        checkpoint = None
        if not self.dry_run:
            self._work()
            checkpoint = self._checkpoint()
        return Optimized(tuple(self.done[t.info.name] for t in wanted), self.dry_run, checkpoint)

    # -- looking ----------------------------------------------------------------------------------------------

    def _look(self, tables: Sequence[TableState]) -> None:
        """Plan every table. Only those are opened of which the ledger alone does not say that nothing is to do."""
        suspects = {t.info.id for t in tables} - self._settled(tables)
        self.progress("look", 0, len(suspects))

        def one(table: TableState) -> TableOptimized:
            name = table.info.name
            if table.info.id not in suspects:
                return TableOptimized(name, "nothing", table.pin.fragments, table.pin.fragments)
            try:
                if not self.dry_run:
                    self.live.core.owners.writable(table.pin, table.info)
                work = self.live.core.format(table.pin.format).begin(table.pin, write="", table=name)
                found = work.upkeep.compact(self.how, mode="plan")
                indexes = work.upkeep.extend_indexes(self.how, mode="plan")
            except (OutsideLake, NotOwner) as error:
                return TableOptimized(name, "nothing", detail=str(error))
            except (StorageError, Unsupported) as error:
                return TableOptimized(name, "failed", detail=str(error))
            outcome: Any = "planned" if found.changed or indexes else "nothing"
            return _told(name, outcome, found, indexes)

        looked = run_parallel([lambda t=t: one(t) for t in tables])  # type: ignore[misc]
        self.done = {found.table: found for found in looked}
        self.progress("look", len(suspects), len(suspects))

    def _settled(self, tables: Sequence[TableState]) -> set[str]:
        """Tables in few fragments that nobody changed since they were made or compacted."""
        few = [t for t in tables if 0 < t.pin.fragments <= 1 + t.pin.rows // self.how.target_rows]
        slots = sorted({t.commit.slot for t in few})
        records = dict(zip(slots, self.live.history.records(slots), strict=True))
        found = set()
        for table in few:
            record = records[table.commit.slot]
            if table.commit.index >= len(record.commits):
                continue  # it was cleaned up
            for change in record.commits[table.commit.index].changes:
                ops = set(change.ops)
                if change.table == table.info.id and (ops == {"create"} or "compact" in ops <= UPKEEP):
                    found.add(table.info.id)
        return found

    # -- working ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        waiting = [t for t in self.done.values() if t.outcome == "planned"]
        session = chosen(self.engine, lambda: sum(t.bytes for t in waiting))
        groups: Sequence[list[TableOptimized]] = _groups(waiting)
        for attempt in range(1, TRIES + 1):
            tried = [[replace(t, tries=attempt) for t in group] for group in groups]
            if session is None:
                again = [table for group in tried for table in self._group(group)]
            else:
                again = self._groups_by(session, tried)
            if not again:
                return
            clock.sleep(clock.uniform(0, 0.02 * 2**attempt))
            groups = [[t] for t in again]
        for table in again:
            self.done[table.table] = replace(table, outcome="busy")

    def _group(self, group: list[TableOptimized]) -> list[TableOptimized]:
        """Optimize some tables in one commit; those that others were faster with."""
        tx = self._transaction(group)
        try:
            begun = [(t, *found) for t in group if (found := self._begin(tx, t)) is not None]
            return self._commit(tx, begun)
        except (Conflict, SnapshotExpired) as error:
            return [replace(t, detail=str(error)) for t in group]
        finally:
            tx.discard()

    def _transaction(self, group: list[TableOptimized]) -> Transaction:
        return self.lake.transaction(f"optimize {', '.join(t.table for t in group)}", fresh=True)

    def _commit(
        self, tx: Transaction, begun: Sequence[tuple[TableOptimized, Compacted, list[str]]]
    ) -> list[TableOptimized]:
        """Commit what was done to some tables; those that others were faster with."""
        if not begun:
            return []
        self.progress("commit", 0, 1)
        receipt = tx.commit()
        self.progress("commit", 1, 1)
        again = []
        for table, compacted, indexes in begun:
            if table.table not in receipt.tables:
                again.append(replace(table, detail="Another commit replaced the fragments in the meantime."))
                continue
            told = _told(table.table, "optimized", compacted, indexes)
            self.done[table.table] = replace(told, commit=receipt.commit, tries=table.tries)
        return again

    def _begin(self, tx: Transaction, table: TableOptimized) -> tuple[Compacted, list[str]] | None:
        """The long work on one table; None when there is nothing to commit."""
        name = table.table
        edit = self._found(tx, table)
        if edit is None:
            return None
        try:
            with tx._guarded(read=True):
                work = _begun(tx, edit)
                compacted = work.upkeep.compact(self.how, progress=self._telling(name))
                if work.changed:
                    edit.did("compact")
                indexes = work.upkeep.extend_indexes(self.how, progress=self._telling(name))
                if indexes:
                    edit.did("index")
        except (StorageError, Unsupported) as error:
            del tx.edits[edit.info.id]
            self.done[name] = replace(table, outcome="failed", detail=str(error))
            return None
        if not work.changed:
            self.done[name] = replace(_told(name, "nothing", compacted, []), tries=table.tries)
            return None
        return compacted, indexes

    def _found(self, tx: Transaction, table: TableOptimized) -> Edit | None:
        if table.table in tx:
            return tx._edit(tx._names[table.table])
        self.done[table.table] = replace(table, outcome="nothing", detail="The table was dropped.")
        return None

    def _telling(self, table: str) -> Progress:
        return lambda what, done, total: self.progress(f"{what} {table}", done, total)

    # -- by tasks ---------------------------------------------------------------------------------------------

    def _groups_by(self, session: Any, groups: Sequence[list[TableOptimized]]) -> list[TableOptimized]:
        """Optimize all groups, each in its own commit, by two jobs; the tables that others were faster with."""
        again: list[TableOptimized] = []
        opened = [(self._transaction(group), group) for group in groups]
        try:
            doing = [d for tx, group in opened for t in group if (d := self._start(tx, t, again)) is not None]
            doing = self._spread(session, "compact", doing, again)
            doing = self._spread(session, "index", doing, again)
            for tx, _ in opened:
                again += self._finish(tx, [d for d in doing if d.tx is tx])
        finally:
            for tx, _ in opened:
                tx.discard()
        return again

    def _start(self, tx: Transaction, table: TableOptimized, again: list[TableOptimized]) -> _Doing | None:
        edit = self._found(tx, table)
        if edit is None:
            return None
        one = _Doing(table, tx, edit)
        with self._minding(one, again):
            work = _begun(tx, edit)
            if not isinstance(work.upkeep, Spread):
                raise Unsupported("Other processes cannot optimize it.", next='Use engine="local".')
            one.work = work
        return None if one.left else one

    def _spread(
        self, session: Any, what: Literal["compact", "index"], doing: list[_Doing], again: list[TableOptimized]
    ) -> list[_Doing]:
        """One step for all tables, by one job; those that are still in the running."""
        asked: list[tuple[_Doing, Split[Any]]] = []
        for one in doing:
            with self._minding(one, again):
                asked.append((one, self._split(one.work.upkeep, what)))
        total = sum(len(split.parts) for _, split in asked)
        self.progress(what, 0, total)
        found = iter(engines.answers(session, [part for _, split in asked for part in split.parts]))
        for one, split in asked:
            mine = [next(found) for _ in split.parts]
            with self._minding(one, again):
                one.take(what, split.take([engines.settled(answer) for answer in mine]))
        self.progress(what, total, total)
        return [one for one in doing if not one.left]

    def _split(self, upkeep: Spread, what: Literal["compact", "index"]) -> Split[Any]:
        return upkeep.compacting(self.how) if what == "compact" else upkeep.extending()

    @contextmanager
    def _minding(self, one: _Doing, again: list[TableOptimized]) -> Iterator[None]:
        """What goes wrong with a table is about this table alone: it leaves the transaction, which goes on."""
        try:
            with one.tx._guarded(read=True):
                yield
            return
        except (StorageError, Unsupported) as error:
            self.done[one.table.table] = replace(one.table, outcome="failed", detail=str(error))
        except (Conflict, SnapshotExpired) as error:
            again.append(replace(one.table, detail=str(error)))
        one.left = True
        one.tx.edits.pop(one.edit.info.id, None)

    def _finish(self, tx: Transaction, mine: Sequence[_Doing]) -> list[TableOptimized]:
        changed = [one for one in mine if one.work.changed]
        for one in mine:
            if not one.work.changed:
                told = _told(one.table.table, "nothing", one.compacted, [])
                self.done[one.table.table] = replace(told, tries=one.table.tries)
        try:
            return self._commit(tx, [(one.table, one.compacted, one.indexes) for one in changed])
        except (Conflict, SnapshotExpired, TransactionClosed) as error:  # closed, when a cleanup came between
            return [replace(one.table, detail=str(error)) for one in changed]

    # -- the ledger -------------------------------------------------------------------------------------------

    def _checkpoint(self) -> str | None:
        """A checkpoint at the newest commit, and a hint to it. Both may fail: nothing depends on them."""
        self.progress("checkpoint", 0, 1)
        try:
            if self.live.state.behind:
                self.live.checkpoint(force=True)
                self.live.hint()
            if isinstance(self.live.core.ledger, Compactable):
                self.live.core.ledger.compact()
        except StorageError as error:
            self.lake._background.failures.append(f"{type(error).__name__}: {error}")
        self.progress("checkpoint", 1, 1)
        at = self.live.state.checkpoint
        return None if at is None else at.commit


def _begun(tx: Transaction, edit: Edit) -> Work:
    assert edit.base is not None
    tx.live.core.owners.writable(edit.base.pin, edit.info)
    format = tx.live.core.format(edit.base.pin.format)
    edit.work = format.begin(edit.base.pin, write=tx.write, table=edit.info.name)
    return edit.work


def _groups(tables: Iterable[TableOptimized]) -> list[list[TableOptimized]]:
    """Tables with little to do share a commit, each of the others has its own."""
    groups: list[list[TableOptimized]] = []
    size = 0
    for table in sorted(tables, key=lambda t: t.bytes):
        if not groups or size + table.bytes > GROUP_BYTES or len(groups[-1]) >= GROUP_TABLES:
            groups.append([])
            size = 0
        groups[-1].append(table)
        size += table.bytes
    return groups


def _told(name: str, outcome: Any, found: Compacted, indexes: Sequence[str]) -> TableOptimized:
    return TableOptimized(
        name, outcome, found.fragments_before, found.fragments_after, found.rows, found.bytes, tuple(indexes)
    )
