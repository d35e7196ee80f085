"""A lake under everything at once, held against a model: transactions, rebases, branches, tags, upkeep and crashes.

Several handles work on one lake on disk with real Lance tables. Nothing runs in the background by itself: what is
queued runs when the machine says so, or never, when its process "dies". So one seed gives one history.

A longer run: `make machine`, or QUIRE_MACHINE=500 for that many histories.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.budget import FULL, budget
from tests.lake import modelled
from tests.lake.modelled import Done, Line, Program, Statement, agree
from tests.lake.staged import FAULTS, Handle, Killed, Quiet, fault, fresh, happened, must, rows_of, same, statements
from tests.lake.upkeep.cleanup.test_cleanup import age

import quire
from quire import errors
from quire.store import Outcome, clock

HISTORIES = int(os.environ.get("QUIRE_MACHINE", "0"))
MEMORY = next((p for p in ("/dev/shm",) if Path(p).is_dir()), None)
DEAD_AFTER = 30

MEETS = {"commit", "rebased", "replayed", "conflict", "fenced", "revoked", *FAULTS} | {
    *("reverted", "fast-forwarded", "optimized", "cleaned up", "expired", "protected")
}
"""A run in which one of these never happened proves nothing about it."""
TABLES, BRANCHES, TAGS = ("t0", "t1", "t2", "t3"), ("b0", "b1"), ("v0", "v1", "v2")
handles = st.integers(0, 2)
pick = st.integers(0, 99)
tables = st.sampled_from(TABLES)
AGES = st.sampled_from([20.0, 60.0, 60.0])
"""Seconds by which everything gets older before a cleanup: a writer's note may survive the shorter one."""


class LakeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(dir=MEMORY)
        self.uri = f"{self.folder}/lake"
        self.main = Line("main")
        self.lines = [self.main]
        self.tags: dict[str, Done] = {}
        self.leases: list[tuple[Any, Done]] = []
        self.held: list[tuple[quire.Snapshot, Done]] = []
        self.unsettled: list[tuple[errors.CommitUnknown, bool]] = []
        self.doubtful: set[Done] = set()
        """Commits that the lease of a dead process may still protect."""
        self.messages = 0
        self.seen: Any = None

    @initialize(first=rows_of("upsert", 5), second=rows_of("append", 5))
    def start(self, first: Statement, second: Statement) -> None:
        lake = quire.create(self.uri, author="first")
        self.main.add("0.0", "create lake", {}, {})
        self.watcher = quire.open(self.uri, read_only=True)
        self.handles = [Handle(lake, self.main), self.opened(1), self.opened(2)]
        program = self.begin(self.handles[0], self.main)
        for name, keyed, statement in (("t0", True, first), ("t1", False, second)):
            self.make(program, name, keyed, statement)
        self.commit(self.handles[0])

    def opened(self, number: int) -> Handle:
        handle = Handle(quire.open(self.uri, author=f"h{number}", backfill=number != 2), self.main)
        handle.on(self.main)
        return handle

    # -- choosing ---------------------------------------------------------------------------------------------

    @property
    def living(self) -> list[Line]:
        return [line for line in self.lines if not line.closed]

    def line(self, number: int) -> Line:
        """Main more often than not."""
        return self.main if number % 2 else self.living[number // 2 % len(self.living)]

    def begin(self, handle: Handle, line: Line, *, fresh: bool = False) -> Program:
        if handle.program is None:
            self.messages += 1
            tx = handle.on(line).transaction(f"m{self.messages}", fresh=fresh)
            base = next(c for c in line.commits if c.slot == tx.at.head.slot)
            handle.program = Program(tx, line, base)
        return handle.program

    def make(self, program: Program, name: str, keyed: bool, statement: Statement) -> None:
        def create() -> None:
            data = [dict(zip(modelled.FIRST, row, strict=True)) for row in statement.rows]
            program.tx.create_table(name, data, key="id" if keyed else None)

        agree(lambda: program.create(name, keyed, statement), create)

    @contextmanager
    def on_its_base(self, handle: Handle) -> Iterator[None]:
        """A statement on a base that cleanup has removed says so, and the transaction is over."""
        program = handle.program
        assert program is not None
        try:
            yield
        except (errors.SnapshotExpired, errors.Revoked) as error:
            must(program.slept, error)
            program.tx.discard()
            handle.program = None

    # -- transactions -----------------------------------------------------------------------------------------

    @rule(h=handles, at=pick, name=tables, statement=statements, fresh=st.booleans(), done=st.booleans())
    def write(self, h: int, at: int, name: str, statement: Statement, fresh: bool, done: bool) -> None:
        """One statement; often the transaction goes on afterwards."""
        handle = self.handles[h]
        program = self.begin(handle, self.line(at), fresh=fresh)
        if name not in program.names:
            name = next(iter(program.names), name)
        if name not in program.names:
            return
        draft = program.draft(name)
        if draft.view.keyed and statement.verb == "append":
            unique = {row[0]: row for row in statement.rows}
            statement = Statement("insert", tuple(unique.values()))
        columns = draft.view.columns
        with self.on_its_base(handle):
            agree(lambda: draft.run(statement), lambda: statement.run(program.tx[name], columns))
        if done and handle.program is not None:
            self.commit(handle)

    @rule(h=handles, at=pick, name=tables, statement=statements)
    def write_and_publish(self, h: int, at: int, name: str, statement: Statement) -> None:
        """A short transaction in the midst of the long ones."""
        if self.handles[h].program is None:
            self.write(h, at, name, statement, False, True)

    @rule(
        at=pick,
        name=st.sampled_from(TABLES[:2]),
        pair=st.tuples(fresh, fresh) | st.tuples(statements, statements) | st.tuples(fresh, statements),
        read=st.integers(0, 3),
    )
    def race(self, at: int, name: str, pair: tuple[Statement, Statement], read: int) -> None:
        """Two writers on one table; the second has to move."""
        if read == 1:
            pair = self.contenders(at, name) or pair
        for h, statement in enumerate(pair):
            self.write(h, at, name, statement, True, False)
        if read == 0:
            self.read(1, name)
        for h in (0, 1):
            self.publish(h)

    def contenders(self, at: int, name: str) -> tuple[Statement, Statement] | None:
        """Two replace the same row, if there is one: the second runs again, and counts what it has told."""
        there = self.line(at).head.number(name)
        rows = {} if there is None else self.line(at).head.state[there].rows
        found = sorted(row["id"] for row in rows.values() if row["id"] is not None)
        for h in (0, 1) if found else ():
            self.leave(h, "discard")
        mine, theirs = (Statement("upsert", ((found[at % len(found)], at, h),)) if found else None for h in (0, 1))
        return (mine, theirs) if mine is not None and theirs is not None else None

    @rule(h=handles, at=pick, old=tables, new=tables, statement=rows_of("upsert"), how=st.integers(0, 5))
    def shape(self, h: int, at: int, old: str, new: str, statement: Statement, how: int) -> None:
        """Create, drop and rename tables, add columns, build indexes."""
        handle = self.handles[h]
        program = self.begin(handle, self.line(at))
        if old not in program.names:
            how = 0
        with self.on_its_base(handle):
            if how == 0:
                self.make(program, new, bool(at % 3), statement)
            elif how == 1:
                program.drop(old)
                program.tx.drop_table(old)
            elif how == 2:
                agree(lambda: program.rename(old, new), lambda: program.tx.rename_table(old, new))
            elif how == 3:
                column = f"x{len(program.draft(old).view.columns)}"
                program.tx[old].add_columns({column: "id * 2"})
                program.add_column(old)
            else:
                draft = program.draft(old)
                program.tx[old].create_index("v" if how == 4 else "id", replace=True)
                draft.ops.add("index")
                draft.wrote = True

    @rule(h=handles, name=tables)
    def read(self, h: int, name: str) -> None:
        """A program that has read is not run again behind its back."""
        handle = self.handles[h]
        program = handle.program
        if program is None or name not in program.names:
            return
        program.has_read = True
        with self.on_its_base(handle):
            same(program.tx[name], program.draft(name).view)

    @rule(h=handles)
    def publish(self, h: int) -> None:
        if self.handles[h].program is not None:
            self.commit(self.handles[h])

    @rule(h=handles, at=pick, name=tables, statement=statements, after=st.booleans())
    def die_while_publishing(self, h: int, at: int, name: str, statement: Statement, after: bool) -> None:
        self.publish_badly(h, at, name, statement, FAULTS[after])

    @rule(h=handles, at=pick, name=tables, statement=statements, after=st.booleans())
    def lose_the_answer(self, h: int, at: int, name: str, statement: Statement, after: bool) -> None:
        self.publish_badly(h, at, name, statement, FAULTS[2 + after])

    def publish_badly(self, h: int, at: int, name: str, statement: Statement, how: str) -> None:
        self.write(h, at, name, statement, False, False)
        if self.handles[h].program is not None:
            self.commit(self.handles[h], how)

    def commit(self, handle: Handle, how: str | None = None) -> None:
        program, handle.program = handle.program, None
        assert program is not None
        line, tx = program.line, program.tx
        certain, expected = program.certain, None
        for has_read in (program.has_read, program.has_read and certain):
            try:
                expected = expected or program.after(has_read=has_read)
            except errors.Conflict:
                pass
        landed = None
        with fault(handle.lake, how) as fired:
            try:
                receipt = tx.commit()
                assert not fired
                assert (receipt.commit is None) == (not program.touched)
                landed = receipt.commit
                happened["rebased"] += bool(receipt.rebased)
                happened["replayed"] += bool(receipt.replayed)
            except (Killed, errors.CommitUnknown) as error:
                assert fired == [how]
                happened[fired[0]] += 1
                landed = f"{tx.slot}.0" if fired[0].endswith("after") else None
                if isinstance(error, errors.CommitUnknown):
                    self.unsettled.append((error, landed is not None))
                else:
                    self.lost(handle)
            except (errors.Conflict, errors.SnapshotExpired) as error:
                expired = isinstance(error, errors.SnapshotExpired | errors.Revoked)
                happened["revoked" if expired else "conflict"] += 1
                must(not expired or program.slept, error)
                must(expected is None or not certain or handle.barred(line), error)
            except errors.Refused as error:
                must(handle.refused(line, error), error)
                happened[error.kind] += 1
                self.lost(handle)  # whoever is shut out begins anew
        if landed is not None:
            assert not handle.barred(line), "a writer that was shut out has committed"
            assert expected is not None, f"{landed} committed what conflicts with {line.head.id}"
            line.add(landed, tx.message, expected, program.ops)
            happened["commit"] += 1

    @rule(h=handles, at=pick, name=tables, statement=statements)
    def transact(self, h: int, at: int, name: str, statement: Statement) -> None:
        """The library runs it until it fits."""
        handle, line = self.handles[h], self.line(at)
        program = Program(None, line, line.head)
        if handle.program is not None or name not in program.names:
            return
        draft = program.draft(name)
        if draft.view.keyed and statement.verb == "append":
            statement = Statement("upsert", tuple({row[0]: row for row in statement.rows}.values()))
        self.messages += 1
        lake, told = handle.on(line), list[Any]()

        def work(tx: Any) -> None:
            told[:] = [tx]
            statement.run(tx[name], draft.view.columns)

        try:
            agree(lambda: draft.run(statement), lambda: lake.transact(work, f"m{self.messages}", fresh=True))
        except errors.Refused as error:
            must(handle.refused(line, error), error)
            return
        if told and told[0].status == "committed" and told[0].receipt.commit is not None:
            assert draft.touched
            assert not handle.barred(line)
            line.add(told[0].receipt.commit, f"m{self.messages}", program.after(has_read=False), program.ops)

    def settle(self) -> None:
        for error, landed in self.unsettled:
            outcome = self.watcher.outcome(error)
            assert (outcome is Outcome.COMMITTED) == landed, outcome

    # -- branches, tags and what was before -------------------------------------------------------------------

    @rule(h=handles, at=pick, commit=pick, name=st.sampled_from(TAGS))
    def tag(self, h: int, at: int, commit: int, name: str) -> None:
        line = self.line(at)
        done = line.commits[-1 - commit % len(line.commits)]
        if name in self.tags:
            self.handles[h].lake.delete_tag(name)
            del self.tags[name]
        elif self.allowed(done, lambda: self.handles[h].on(line).tag(name, at=done.id)):
            self.tags[name] = done

    @rule(h=handles, at=pick, commit=pick, name=st.sampled_from(BRANCHES))
    def branch(self, h: int, at: int, commit: int, name: str) -> None:
        line = self.line(at)
        done = line.commits[-1 - commit % min(4, len(line.commits))]
        lake, there = self.handles[h].on(line), [other for other in self.living if other.name == name]
        if there and commit % 3 == 0:
            with pytest.raises(errors.BranchExists):
                lake.create_branch(name, at=line.head.id)
        elif there:
            lake.delete_branch(name)
            there[0].closed = True
        elif self.allowed(done, lambda: lake.create_branch(name, at=done.id)):
            self.lines.append(line.fork(name, done))

    def allowed(self, done: Done, act: Callable[[], Any]) -> bool:
        """What names a commit fails only when that commit is gone."""
        try:
            act()
        except errors.SnapshotExpired:
            assert done.line.closed or done.slot < done.line.floor, f"{done.id} is kept"
            return False
        assert not done.gone, f"{done.id} is gone"
        return True

    @rule(h=handles, at=pick, back=st.booleans())
    def fast_forward(self, h: int, at: int, back: bool) -> None:
        if len(self.living) == 1:
            return
        side, handle = self.living[1 + at % (len(self.living) - 1)], self.handles[h]
        target, source = (side, self.main) if back else (self.main, side)
        try:
            state = target.fast_forwarded(source)
        except errors.NotFastForward:
            with pytest.raises((errors.NotFastForward, errors.Fenced)):
                handle.on(target).fast_forward(source.name)
            return
        self.adopt(handle, target, state, lambda: handle.on(target).fast_forward(source.name), source.head)

    @rule(h=handles, at=pick, commit=st.integers(0, 3))
    def revert(self, h: int, at: int, commit: int) -> None:
        line, handle = self.line(at), self.handles[h]
        done = line.commits[-1 - commit % len(line.commits)]
        if done.slot == 0:
            return
        try:
            state = line.reverted(done)
        except errors.Conflict:
            state = None
        self.adopt(handle, line, state, lambda: handle.on(line).revert(done.id), None, done)

    def adopt(
        self,
        handle: Handle,
        line: Line,
        state: modelled.State | None,
        act: Callable[[], Any],
        adopts: Done | None,
        undone: Done | None = None,
    ) -> None:
        """A commit that takes an earlier or another state over."""
        try:
            receipt = act()
        except errors.Refused as error:
            must(handle.refused(line, error), error)
            return
        except errors.SnapshotExpired as error:
            before = None if undone is None else line.commits[line.commits.index(undone) - 1]
            must(before is not None and (before.line.closed or undone.slot <= before.line.floor), error)
            return
        except errors.Conflict as error:
            must(undone is not None and (undone is not line.head or state is None), error)
            return
        if receipt.commit is None:
            assert state is None or adopts is None
            return
        assert state is not None, receipt
        assert not handle.barred(line), receipt
        happened["reverted" if undone else "fast-forwarded"] += 1
        before = line.head
        message = handle.on(line).show(receipt.commit).message
        done = line.add(receipt.commit, message, state, {}, adopts)
        for name, told in receipt.tables.items():
            number = done.number(name)
            done.ops[before.number(name) if number is None else number] = set(told.ops)  # type: ignore[index]

    @rule(h=handles, at=pick)
    def claim(self, h: int, at: int) -> None:
        if at % 4 == 0:
            line, handle = self.line(at // 4), self.handles[h]
            lake = handle.on(line)
            line.epoch += 1
            assert lake.claim() == line.epoch
            handle.epochs[line] = line.epoch

    # -- upkeep -----------------------------------------------------------------------------------------------

    @rule(h=handles, at=pick)
    def optimize(self, h: int, at: int) -> None:
        line, handle = self.line(at), self.handles[h]
        lake = handle.on(line)
        try:
            done = lake.optimize()
        except errors.Refused as error:
            must(handle.refused(line, error), error)
            return
        for commit in done.commits:
            assert not handle.barred(line)
            happened["optimized"] += 1
            ops = {line.head.number(t.table): {"compact", "index"} for t in done.tables if t.commit == commit}
            line.add(commit, lake.show(commit).message, line.head.state, ops)  # type: ignore[arg-type]

    @rule(h=handles, keep=st.sampled_from([1, 1, 2, 4]), seconds=AGES)
    def cleanup(self, h: int, keep: int, seconds: float) -> None:
        age(self.uri, seconds)
        for lease, _ in self.leases:
            lease.renew()
        quiet = not os.path.isdir(f"{self.uri}/_quire/writers") or not os.listdir(f"{self.uri}/_quire/writers")
        done = self.handles[h].lake.cleanup(keep=keep, older_than=0, grace=0, dead_after=DEAD_AFTER)
        happened["cleaned up"] += bool(done.files)
        higher = any(done.floors[line.name] > line.floor for line in self.living if any(line.own))
        for line in self.living:
            own, floor = list(line.own), done.floors[line.name]
            line.floors += 1
            if own:
                wanted = own[max(0, len(own) - keep)].slot
                assert line.floor <= floor <= max(line.floor, wanted), "too much was given up"
                line.floor = floor
            for commit in own if quiet and higher else ():
                commit.gone |= not self.surely_kept(commit) and commit not in self.doubtful

    @rule(at=pick, name=tables, pair=st.tuples(statements, statements), noted=st.booleans(), seconds=AGES)
    def sleep_through(self, at: int, name: str, pair: tuple[Statement, Statement], noted: bool, seconds: float) -> None:
        """A writer, with or without a note, sleeps while others commit and clean up."""
        self.write(0, at, name, pair[0], True, False)
        if noted:
            self.tend(0, "wait", 2.0)
        self.write_and_publish(1, at, name, pair[1])
        self.cleanup(1, 1 + at % 2, seconds)
        self.publish(0)

    def surely_kept(self, done: Done) -> bool:
        if not done.line.closed and done.slot >= done.line.floor:
            return True
        starts = set[Done]()
        for line in self.living:
            start = line.start
            while start is not None:
                starts.add(start)
                start = start.line.start
        return done in starts or done in self.tags.values() or any(done is kept for _, kept in self.leases)

    @rule(h=handles, at=pick, how=st.sampled_from(["lease", "lease", "look", "release"]))
    def hold(self, h: int, at: int, how: str) -> None:
        """A reader keeps its snapshot; most with a lease."""
        line = self.line(at)
        snapshot = self.handles[h].on(line).snapshot()
        assert snapshot.commit == line.head.id
        self.held.append((snapshot, line.head))
        if how == "lease":
            self.leases.append((snapshot.lease(600), line.head))
        elif how == "release" and self.leases:
            lease, _ = self.leases.pop(at % len(self.leases))
            lease.release()

    @rule(h=handles, how=st.sampled_from(["work", "recover", "wait"]), seconds=st.sampled_from([2.0, 12.0]))
    def tend(self, h: int, how: str, seconds: float) -> None:
        """What happens beside the writers: queued work, a recovery, or time that goes by."""
        lake = self.handles[h].lake
        if how == "work":
            self.handles[h].work()
        elif how == "recover":
            lake.recover()
            self.check_plain()
        else:
            clock.sleep(seconds)
            if lake._core.writers._background is not None:
                lake._core.writers.tend()  # a transaction that stays open gets a note, or renews it

    # -- processes --------------------------------------------------------------------------------------------

    @rule(h=handles, how=st.sampled_from(["discard", "close", "crash"]))
    def leave(self, h: int, how: str) -> None:
        """A transaction is given up, or its process ends well or badly and another takes its place."""
        handle = self.handles[h]
        if how == "crash":
            return self.lost(handle)
        if handle.program is not None:
            handle.program.tx.discard()
            handle.program = None
        if how == "close":
            self.leases = [(lease, done) for lease, done in self.leases if not self.given_back(lease, handle)]
            handle.work()
            handle.lake.close()
            self.handles[h] = self.opened(h)
        return None

    def given_back(self, lease: Any, handle: Handle) -> bool:
        mine = lease._core is handle.lake._core
        if mine:
            lease.release()
        return mine

    def lost(self, handle: Handle) -> None:
        """A process is gone, with its open transaction; another takes its place."""
        handle.die()
        h = self.handles.index(handle)
        handle.program = None
        self.doubtful |= {done for lease, done in self.leases if lease._core is handle.lake._core}
        self.leases = [(lease, done) for lease, done in self.leases if lease._core is not handle.lake._core]
        self.handles[h] = self.opened(h)
        gc.collect(0)

    # -- what must hold ---------------------------------------------------------------------------------------

    @invariant()
    def main_is_as_the_model_says(self) -> None:
        if not self.main.commits or self.seen is self.main.head:
            return
        self.seen = self.main.head
        self.check_at(self.watcher.snapshot(), self.main.head)

    def check_at(self, snapshot: quire.Snapshot, done: Done) -> None:
        assert snapshot.commit == done.id
        assert snapshot.tables() == sorted(sheet.name for sheet in done.state.values())
        for sheet in done.state.values():
            same(snapshot[sheet.name], sheet)

    def check_commit(self, read: Callable[[], quire.Snapshot], done: Done, *, held: bool = False) -> None:
        """A commit reads as it was made, or says that it expired; and only if nothing keeps it.

        A snapshot that was held all the time may live on: later commits need much of what it needs.
        """
        try:
            self.check_at(read(), done)
        except errors.SnapshotExpired:
            assert not self.surely_kept(done), f"{done.id} of {done.line.name} is kept"
            happened["expired"] += 1
        else:
            assert held or not done.gone, f"{done.id} of {done.line.name} was cleaned up"
            protected = done.line.closed or done.slot < done.line.floor
            happened["protected"] += protected and self.surely_kept(done)

    def check_plain(self) -> None:
        """Readers that know nothing of Quire see the newest commit of main."""
        state = self.watcher.snapshot()._state
        for sheet in self.main.head.state.values():
            found = state.by_name(sheet.name)
            assert found is not None
            same(lance.dataset(f"{self.uri}/{found.pin.location}"), sheet)

    def teardown(self) -> None:
        try:
            if self.main.commits:
                self.check_everything()
        finally:
            for lease, _ in self.leases:
                lease._held = False
            shutil.rmtree(self.folder)

    def check_everything(self) -> None:
        self.settle()
        for snapshot, done in self.held:
            self.check_commit(lambda s=snapshot: s, done, held=True)  # type: ignore[misc]
        for handle in self.handles:
            for line, lake in handle.lakes.items():
                if not line.closed:
                    self.check_at(lake.snapshot(), line.head)
        fresh = quire.open(self.uri, author="last")
        verified = fresh.verify()
        assert verified.ok, verified.findings
        assert sorted(b.name for b in fresh.branches()) == sorted(line.name for line in self.living)
        assert set(fresh.tags()) == set(self.tags)
        for name, done in self.tags.items():
            self.check_at(fresh.at(tag=name), done)
        for line in self.living:
            lake = fresh if line is self.main else fresh.branch(line.name)
            for done in line.commits:
                self.check_commit(lambda c=done, k=lake: k.at(commit=c.id), done)  # type: ignore[misc]
            log = [(c.id, c.message) for c in lake.log()]
            known = [(c.id, c.message) for c in reversed(line.commits)]
            assert log == known[: len(log)]
            assert len(log) >= sum(c.slot >= line.floor for c in line.own)
        fresh.recover()
        self.check_plain()
        assert fresh.verify().ok


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_lake_is_as_the_model_says_whatever_happens_to_it() -> None:
    long = HISTORIES > 0
    chosen = settings(
        max_examples=HISTORIES or budget(4, full=60),
        stateful_step_count=50 if long else 40,
        deadline=None,
        derandomize=FULL and not long,
        database=None,
        print_blob=long,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if long else [Phase.generate],
    )
    with clock.using(Quiet()):
        run_state_machine_as_test(LakeMachine, settings=chosen)
    print(dict(happened))
    if chosen.max_examples >= 60:
        assert not MEETS - (+happened).keys(), "too weak: these never happened"
