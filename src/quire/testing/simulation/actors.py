"""Writers and readers of a simulated lake: each a process that does one thing after the other, until it crashes."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import quire
from quire.errors import (
    BranchClosed,
    CommitUnknown,
    Fenced,
    FormatError,
    KeyConflict,
    LakeNotFound,
    QuireError,
    SnapshotExpired,
    StorageError,
)
from quire.store import Outcome, clock
from quire.testing.simulation.effects import Attempt, Effect
from quire.testing.simulation.scheduler import Crashed, Process

if TYPE_CHECKING:
    from quire.testing.simulation.history import History

URI = "sim://bucket/lake"
ACCOUNTS = 4
TOTAL = ACCOUNTS * 2 * 100


class Actor:
    """One program. It survives its processes: after a crash it opens the lake again and goes on."""

    def __init__(self, history: History, name: str, steps: int) -> None:
        self.history, self.name, self.left = history, name, steps
        self.rng = history.world.rng
        self.lives = 0
        self.lake: quire.Lake | None = None
        self._made = 0
        self.mine: list[str] = []
        """Branches it has made."""
        self.meeting = 0.0
        """A moment at which its threads commit together: whoever is ready before it waits."""

    # -- life -------------------------------------------------------------------------------------------------

    def start(self, delay: float = 0.0) -> None:
        self.lives += 1
        self.lake = None
        process = Process(f"{self.name}{'abcdefgh'[self.lives - 1]}", skew=self.rng.choice((0, 0, 0, 40, -40, 3000)))
        if self.lives < 5 and self.rng.random() < 0.35:
            process.crash_at = self.rng.randint(1, 250)
        self.history.world.scheduler.spawn(process, "main", lambda: self._live(process), delay=delay)

    def _live(self, process: Process) -> None:
        try:
            while self.left > 0:
                self.left -= 1
                self._step()
                if self.history.restless:
                    self.pause(self.rng.choice((0.1, 0.5, 10.0)) * self.rng.random())
            if self.rng.random() < 0.5 and self.lake is not None:
                with contextlib.suppress(QuireError):
                    self.lake.close()
        finally:
            if not process.alive:
                self.history.count("crash")
                if self.left > 0 and self.lives < 8 and not self.history.world.scheduler.stuck:
                    self.start(delay=self.rng.choice((0.01, 1.0, 30.0)) * self.rng.random())
            else:
                self.history.world.scheduler.kill(process)

    def _step(self) -> None:
        from quire.testing.simulation.operations import draw

        operation = draw(self.rng, self.history)
        self.history.count("operation")
        error = self.do(operation)
        if isinstance(error, Fenced | BranchClosed) or (error is not None and self.rng.random() < 0.1):
            self.lake = None
        if isinstance(error, StorageError) and self.rng.random() < 0.8:
            self.pause(self.rng.uniform(1, 120))

    def do(self, operation: Callable[[Actor], None]) -> QuireError | None:
        """Run one operation, in whatever thread. What it may be told is returned; anything else is wrong."""
        what = f"{self.name}: {operation.__name__}"
        try:
            if self.lake is None:
                self.lake = quire.open(URI, author=self.name)
            operation(self)
        except QuireError as error:
            self.history.count(f"told: {error.kind}")
            self.history.say(f"{what}: {type(error).__name__}: {error.message[:150]}")
            if isinstance(error, FormatError | LakeNotFound):
                text = "".join(traceback.format_exception(error)[-6:])
                self.history.wrong(f"{what}: nothing is damaged, but {error}\n{text}")
            return error
        except Crashed:
            raise
        except Exception as error:
            text = "".join(traceback.format_exception(error)[-6:])
            self.history.wrong(f"{what}: {type(error).__name__} escaped: {error}\n{text}")
        return None

    def together(self, operations: list[Callable[[Actor], None]], meeting: float) -> None:
        """Run operations in threads of this program, on one handle; what is ready early waits for a moment."""
        told: list[QuireError | None] = []
        self.process.crowd = len(operations)
        self.meeting = self.history.world.scheduler.now + meeting
        threads = [clock.start(lambda o=o: told.append(self.do(o)), o.__name__) for o in operations]  # type: ignore[misc]
        for thread in threads:
            thread.join()
        self.process.crowd = 0
        self.history.count("thread", len(operations))
        for error in told:
            if error is not None:
                raise error

    def _meet(self) -> None:
        now = self.history.world.scheduler.now
        if now < self.meeting:
            self.pause(self.meeting - now)

    @property
    def process(self) -> Process:
        task = self.history.world.scheduler.current
        assert task is not None
        return task.process

    def pause(self, seconds: float) -> None:
        self.history.world.scheduler.sleep(seconds)

    def freeze(self, seconds: float) -> None:
        """The whole process stands still, its background work too."""
        scheduler = self.history.world.scheduler
        self.history.count("freeze")
        scheduler.freeze(self.process, seconds)
        scheduler.sleep(0)

    # -- transactions -----------------------------------------------------------------------------------------

    def fresh(self) -> str:
        self._made += 1
        return f"{self.name}.{self._made}"

    @contextlib.contextmanager
    def attempt(
        self,
        lake: quire.Lake,
        *,
        start: Callable[[str], Any] | None = None,
        epoch: int | None = None,
        expects: str | None = None,
        **options: Any,
    ) -> Iterator[Doing]:
        """A transaction whose outcome is written down.

        `start` begins it in another way, `epoch` is that in which its work began, and `expects` the id of the table
        whose version is expected.
        """
        attempt = Attempt(self.fresh(), token=options.get("token"), if_head=options.get("if_head"))
        attempt.expect = dict(options.get("expect", {}))
        attempt.expects = expects
        attempt.serializable = options.get("isolation") == "serializable"
        self.history.attempts[attempt.id] = attempt
        self._expect_rivals(lake)
        try:
            tx = lake.transaction(attempt.id, **options) if start is None else start(attempt.id)
            attempt.began(lake, tx)
            attempt.epoch = attempt.epoch if epoch is None else epoch
            with tx:
                yield Doing(self, attempt, tx)
                self._meet()
        except CommitUnknown as error:
            attempt.told = "unknown"
            self.history.count("unknown outcome")
            self._settle(lake, attempt, error)
            raise
        except QuireError as error:
            self._refused(lake, attempt, error)
            raise
        self._told(attempt, tx)

    def _expect_rivals(self, lake: quire.Lake) -> None:
        """Now and then it believes that others compete for slots, and that they take their time."""
        if self.history.rivalry and self.rng.random() < self.history.rivalry:
            offers = lake._live.offers
            offers.took(self.rng.choice((0.02, 0.3, 3.0)), round=True)
            offers.met(self.rng.choice((1, 2, 5)))

    def run(self, lake: quire.Lake, work: Callable[[Doing], None], **options: Any) -> None:
        """The same through `lake.transact`, which runs the work again when it must."""
        attempt = Attempt(self.fresh(), token=options.get("token"))
        self.history.attempts[attempt.id] = attempt
        self._expect_rivals(lake)
        runs = []

        def once(tx: Any) -> bool:
            attempt.began(lake, tx)
            runs.append(tx)
            work(Doing(self, attempt, tx))
            self._meet()
            return True

        try:
            lake.transact(once, attempt.id, **options)
        except CommitUnknown as error:
            attempt.told = "unknown"
            self.history.count("unknown outcome")
            self._settle(lake, attempt, error)
            raise
        except QuireError as error:
            self._refused(lake, attempt, error)
            raise
        if runs:
            self._told(attempt, runs[-1])
        else:
            attempt.told = "repeated"

    def _told(self, attempt: Attempt, tx: Any) -> None:
        if tx.status != "committed":
            attempt.told = "refused"
            return
        receipt = tx.receipt
        attempt.told = "repeated" if receipt.repeated else "committed"
        attempt.commit = receipt.commit
        self.history.count("repeated by token" if receipt.repeated else "commit")
        self.history.count("rebase", receipt.rebased)
        self.history.count("replay", receipt.replayed)
        self.history.say(f"{self.name}: {attempt.id} {attempt.told} as {receipt.commit}")

    def _refused(self, lake: quire.Lake, attempt: Attempt, error: QuireError) -> None:
        attempt.told, attempt.error = "refused", f"{type(error).__name__}: {error.message}"
        slot, _, index = str(error.fields.get("commit") or "").partition(".")
        limit = lake._live.line.limit(int(slot)) if slot else None
        if limit is not None and int(index) > limit:
            self.history.wrong(f"{attempt.id} is refused for a commit that its branch lacks: {attempt.error}")

    def _settle(self, lake: quire.Lake, attempt: Attempt, error: CommitUnknown) -> None:
        self.history.say(f"{self.name}: {attempt.id} is unknown")
        if error.fields.get("slot") is None:
            self.history.wrong(f"{self.name}: {attempt.id} is unknown, and the error names no slot to settle it by")
        for _ in range(self.rng.choice((1, 4))):
            self.pause(self.rng.choice((0.1, 5.0, 60.0)))
            try:
                outcome = lake.outcome(error)
            except CommitUnknown:
                raise
            except QuireError:
                continue
            attempt.settled.append(outcome.value)
            if outcome is not Outcome.UNKNOWN:
                return

    # -- reading ----------------------------------------------------------------------------------------------

    def check_snapshot(self, snapshot: Any, taken: float, *, leased: bool = False, some: bool = False) -> None:
        """Read a snapshot and compare every row with the model's."""
        history, state = self.history, snapshot._state
        at = f"{state.head.commit} of log {state.branch}"
        known = history.model.seen(state)
        if known is None:
            return history.wrong(f"{self.name} sees commit {at} at slot {state.slot}, which never was a state")
        history.count("state inside a group read", known.partial)
        names = snapshot.tables()
        if names != sorted(known.names()):
            history.wrong(f"{self.name} sees tables {names} at commit {at}, there were {sorted(known.names())}")
        for name in names if not some else names[:2]:
            try:
                found = snapshot[name].to_pylist()
            except SnapshotExpired:
                history.count("SnapshotExpired for a reader")
                if leased:
                    history.wrong(f"{self.name}: the leased commit {at} has expired")
                elif history.world.scheduler.now < taken + history.older_than - 3:
                    history.wrong(
                        f"{self.name}: commit {at} has expired after"
                        f" {history.world.scheduler.now - taken:.0f} s, {history.older_than} s are promised"
                    )
                raise
            table = known.by_name(name)
            assert table is not None
            self._compare(name, at, found, history.model.rows(table.pin))
        history.count("snapshot read")
        return None

    def _compare(self, name: str, at: str, found: list[dict[str, Any]], expected: dict[int, dict[str, Any]]) -> None:
        rows = {next(iter(row.values())): row for row in found}
        if len(rows) != len(found) or rows != expected:
            self.history.wrong(f"{self.name} reads {found} from {name} at commit {at}, there was {expected}")


class Doing:
    """A transaction in which every statement is written down for the model."""

    def __init__(self, actor: Actor, attempt: Attempt, tx: Any) -> None:
        self.actor, self.attempt, self.tx = actor, attempt, tx

    def _note(self, table: Any, verb: Any, **parts: Any) -> None:
        self.attempt.statements.append(Effect(table.id, verb, **parts))

    def _told(self, count: int) -> None:
        """How many rows that were there the last statement has found."""
        self.attempt.statements[-1] = replace(self.attempt.statements[-1], told=count)

    def looks(self, name: str) -> None:
        """Ask what a name means, before anything is changed."""
        self.attempt.names[name] = self.tx[name].id if name in self.tx else None

    def list_names(self) -> None:
        """Ask for all names."""
        self.attempt.listed = {name: self.tx[name].id for name in self.tx.tables()}

    def append(self, name: str, rows: list[dict[str, Any]]) -> None:
        table = self.tx[name]
        self._note(table, "append", rows=tuple(rows))
        table.append(rows)

    def insert(self, name: str, rows: list[dict[str, Any]]) -> None:
        table = self.tx[name]
        self._note(table, "insert", rows=tuple(rows))
        table.insert(rows)

    def makes(self, name: str, row: dict[str, Any]) -> bool:
        """Insert a row, or learn that its key is taken: that is a read."""
        table = self.tx[name]
        try:
            table.insert([row])
        except KeyConflict:
            self.attempt.has_read = True
            self.attempt.read.add(table.id)
            return False
        self._note(table, "insert", rows=(row,))
        return True

    def upsert(self, name: str, rows: list[dict[str, Any]]) -> dict[str, int]:
        table = self.tx[name]
        self._note(table, "upsert", rows=tuple(rows))
        found: dict[str, int] = table.upsert(rows)
        self._told(found["updated"])
        return found

    def overwrite(self, name: str, rows: list[dict[str, Any]]) -> None:
        table = self.tx[name]
        self._note(table, "overwrite", rows=tuple(rows))
        table.overwrite(rows)

    def add(self, name: str, key: int, column: str, amount: int) -> None:
        """Add to one row, in SQL."""
        table = self.tx[name]
        first = "id"
        self._note(
            table,
            "update",
            where=lambda row: row[first] == key,
            change=lambda row: {**row, column: row[column] + amount},
        )
        self._told(table.update({column: f"{column} + {amount}"}, where=f"{first} = {key}"))

    def put(self, name: str, key: int, column: str, value: int) -> None:
        """Set one value that the program has computed."""
        table = self.tx[name]
        self._note(table, "update", where=lambda row: row["id"] == key, change=lambda row: {**row, column: value})
        self._told(table.update(values={column: value}, where=f"id = {key}"))

    def delete(self, name: str, where: str, same: Callable[[dict[str, Any]], bool]) -> int:
        table = self.tx[name]
        self._note(table, "delete", where=same)
        found = int(table.delete(where))
        self._told(found)
        return found

    def create(self, name: str, rows: list[dict[str, Any]]) -> None:
        table = self.tx.create_table(name, rows, key="id", format="memory")
        self._note(table, "create", rows=tuple(rows))

    def drop(self, name: str) -> None:
        self._note(self.tx[name], "drop")
        self.tx.drop_table(name)

    def rename(self, old: str, new: str) -> None:
        self._note(self.tx[old], "rename", name=new)
        self.tx.rename_table(old, new)

    def balance(self, name: str, key: int) -> int:
        """Read one row: from now on the transaction rests on what it has seen."""
        self.attempt.has_read = True
        self.attempt.read.add(self.tx[name].id)
        [row] = self.tx[name].scan(filter=f"id = {key}").to_pylist()
        return int(row["n"])

    def total(self, name: str, column: str) -> int:
        """Read all of a table."""
        self.attempt.has_read = True
        self.attempt.read.add(self.tx[name].id)
        return sum(row[column] for row in self.tx[name].to_pylist())
