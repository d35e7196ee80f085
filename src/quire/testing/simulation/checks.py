"""What must hold after a history: of the log, of what callers were told, of the lake as it lies there."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import quire
from quire.ledger import Commit, OpaqueToken, Record, State, StreamToken
from quire.testing.simulation.actors import TOTAL, URI
from quire.testing.simulation.effects import Attempt, explain
from quire.testing.simulation.merges import explain_joining, merging
from quire.testing.simulation.model import TableRows

if TYPE_CHECKING:
    from quire.testing.simulation.history import History

SUMMED = ("left", "right")


def check_log(history: History) -> None:
    """Compare every commit with the attempt that made it, and every attempt with the log."""
    where: dict[str, tuple[str, str]] = {}
    tokens: dict[tuple[str, str], str] = {}
    for branch in history.model.logs:
        for record, index, before, after in history.model.chain(branch):
            commit, at = record.commits[index], after.head.commit
            _check_commit(history, record, commit, at, before, after)
            if commit.message in where:
                history.wrong(f"{commit.message} was committed twice: {where[commit.message]} and {branch}:{at}")
            if commit.message in history.attempts:
                where[commit.message] = (branch, at)
            if commit.token is not None:
                _once(history, tokens, branch, commit.token, at)
            _check_rows(history, commit, before, after)
    _count_carried(history)
    for attempt in history.attempts.values():
        _check_told(history, attempt, where.get(attempt.id), tokens)
        _count_grouped(history, attempt, where.get(attempt.id))
    for branch, at in history.acknowledged:
        slot, _, place = at.partition(".")
        if (int(slot), int(place)) not in history.model.logs[branch].commits:
            history.wrong(f"{branch}:{at} was acknowledged and is not in the log")


def _once(history: History, tokens: dict[tuple[str, str], str], branch: str, token: OpaqueToken, at: str) -> None:
    if (branch, token.id) in tokens:
        history.wrong(f"token {token.id} was committed twice: {tokens[branch, token.id]} and {at}")
    tokens[branch, token.id] = at


def _check_commit(history: History, record: Record, commit: Commit, at: str, before: State, after: State) -> None:
    where = f"commit {at} ({commit.message or commit.author}) of log {record.branch}"
    for change in commit.changes:
        known = before.tables.get(change.table)
        if change.pin is not None and "restore" not in change.ops:
            expected = known.pin.counter + 1 if known is not None else 1
            if change.pin.counter != expected:
                history.wrong(f"{where}: version {change.pin.counter} of {change.name}, expected {expected}")
    attempt = history.attempts.get(commit.message)
    if attempt is None:
        problem = _other(history, commit, before, after)
    else:
        problem = _conditions(attempt, before) or explain(history.model, attempt, record.branch, before, after)
    if problem:
        history.wrong(f"{where}: {problem}")


def _conditions(attempt: Attempt, before: State) -> str | None:
    if attempt.epoch < before.epoch:
        return f"its work is of epoch {attempt.epoch}, the branch was claimed by epoch {before.epoch}"
    if isinstance(attempt.token, StreamToken):
        known = before.streams.get(attempt.token.scope, -1)
        if known >= attempt.token.sequence:
            return f"position {attempt.token.sequence} of its stream was committed after {known}"
    if attempt.if_head is not None and before.head.commit != attempt.if_head:
        return f"if_head={attempt.if_head}, but the head was {before.head.commit}"
    for name, version in attempt.expect.items():
        table = before.by_name(name)
        if (table.pin.counter if table else 0) != version:
            return f"expect={attempt.expect}, but {name} was at {table.pin.counter if table else 0}"
        if table is not None and attempt.expects not in (None, table.info.id):
            return f"expect={attempt.expect} is about table {attempt.expects}, but {name} was {table.info.id}"
    return None


def _other(history: History, commit: Commit, before: State, after: State) -> str | None:
    """Commits that are no attempt's: fast-forwards take a state over, reverts undo, optimize changes no row."""
    model = history.model
    if commit.adopts is not None:
        source = model.state(commit.adopts)
        if source is None:
            return f"it adopts {commit.adopts}, which never existed"
        if _content(history, source) != _content(history, after):
            return f"it adopts {commit.adopts.branch}:{commit.adopts.commit} and shows something else"
        return None
    if commit.reverts is not None:
        return _reverted(history, commit, before, after)
    if commit.joining is not None:
        return explain_joining(history, commit, commit.joining, before, after)
    if {op for change in commit.changes for op in change.ops} <= {"compact", "index"}:
        if _content(history, before) != _content(history, after):
            return "upkeep changed rows"
        history.count("rewrite")
        return None
    return None if commit.message == "begin" else "nobody made it"


def _reverted(history: History, commit: Commit, before: State, after: State) -> str | None:
    assert commit.reverts is not None
    model = history.model
    undone = model.state(commit.reverts)
    earlier = model.before(commit.reverts)
    if undone is None or earlier is None:
        return f"it reverts {commit.reverts}, which never existed"
    for change in commit.changes:
        tables = [s.tables.get(change.table) for s in (earlier, undone, before, after)]
        was, then, last, now = ({} if t is None else model.rows(t.pin) for t in tables)
        expected: TableRows = dict(last)
        for key in was.keys() | then.keys():
            if was.get(key) == then.get(key):
                continue
            if last.get(key) == was.get(key):
                continue  # somebody has undone it before
            if last.get(key) != then.get(key):
                return f"it reverts row {key} of {change.name}, which was changed again"
            if key in was:
                expected[key] = was[key]
            else:
                expected.pop(key, None)
        if now != expected:
            return f"it reverts {commit.reverts.commit} and leaves {change.name} wrong"
    return None


def _content(history: History, state: State) -> dict[str, TableRows]:
    return {table.info.name: history.model.rows(table.pin) for table in state.tables.values()}


def _check_rows(history: History, commit: Commit, before: State, after: State) -> None:
    """Keys are unique (reading a pin looks), and no transfer is half there.

    Two branches may both have made one transfer, and a merge has it once: it is held against its sides, row by row.
    """
    joins = commit.joining is not None or commit.adopts is not None or commit.reverts is not None
    expected = TOTAL
    if merging(history.seed) and before.tables:
        expected = _total(history, after if joins else before)
    total = _total(history, after)
    if total != expected:
        history.wrong(f"commit {after.head.commit} of log {after.branch}: the accounts hold {total}, not {expected}")
    if len(after.names()) != len(after.tables):
        history.wrong(f"commit {after.head.commit} of log {after.branch}: two tables have one name")


def _total(history: History, state: State) -> int:
    tables = [state.by_name(name) for name in SUMMED]
    return sum(row["n"] for table in tables if table is not None for row in history.model.rows(table.pin).values())


def _check_told(
    history: History, attempt: Attempt, found: tuple[str, str] | None, tokens: dict[tuple[str, str], str]
) -> None:
    if attempt.told == "committed" and attempt.commit is None and found is not None:
        history.wrong(f"{attempt.id} had nothing to commit, and is in the log as {found}")
    if attempt.told == "committed" and attempt.commit is not None and found != (attempt.log, attempt.commit):
        history.wrong(f"{attempt.id} was acknowledged as {attempt.log}:{attempt.commit}, the log has it as {found}")
    if attempt.told == "refused" and found is not None:
        history.wrong(f"{attempt.id} was refused ({attempt.error}), and is in the log as {found}")
    if attempt.told == "repeated" and found is not None:
        history.wrong(f"{attempt.id} was told that its token had been used, and is in the log as {found}")
    if attempt.told == "repeated" and isinstance(attempt.token, str) and (attempt.log, attempt.token) not in tokens:
        history.wrong(f"{attempt.id} was told that its token had been used, which it was not")
    if attempt.told == "repeated" and isinstance(attempt.token, StreamToken):
        reached = history.model.logs[attempt.log].state.streams.get(attempt.token.scope, -1)
        if reached < attempt.token.sequence:
            history.wrong(f"{attempt.id} was told that its stream had come to {attempt.token}, it is at {reached}")
    for outcome in attempt.settled:
        if (outcome == "committed" and found is None) or (outcome == "conflict" and found is not None):
            history.wrong(f"{attempt.id}: its unknown outcome was settled as {outcome}, the log has it as {found}")


def _count_carried(history: History) -> None:
    """Commits that another process has published."""
    for log in history.model.logs.values():
        for record in log.records.values():
            owners = [commit.message.partition(".")[0] for commit in record.commits]
            carried = [c for c, owner in zip(record.commits, owners, strict=True) if owner != owners[0]]
            history.count("carried", len(carried))
            history.count("carried behind others' rows", sum(_is_fused(record, commit) for commit in carried))


def _is_fused(record: Record, commit: Commit) -> bool:
    """Whether others of its slot have moved a table of this commit."""
    place = record.commits.index(commit)
    before = {change.table for other in record.commits[:place] for change in other.changes}
    return any(change.table in before for change in commit.changes)


def _count_grouped(history: History, attempt: Attempt, found: tuple[str, str] | None) -> None:
    """Commits that came about in company, and of which their callers were not told so."""
    if found is not None and attempt.told in ("unknown", "nothing"):
        branch, at = found
        company = len(history.model.logs[branch].records[int(at.partition(".")[0])].commits) > 1
        history.count(f"grouped commit, its caller {'unsure' if attempt.told == 'unknown' else 'dead'}", company)


def check_end(history: History) -> None:
    """Open the lake in peace: every state that must be there is, plain readers see it, and `verify` finds nothing."""
    lake = quire.open(URI, author="checker", backfill=False)
    _check_states(history, lake)
    _check_groups(history, lake)
    lake.recover()
    for table in history.model.logs[history.model.main].state.tables.values():
        differs = lake._core.format(table.pin.format).head_differs(table.pin)
        if differs:
            history.wrong(f"after recovery plain readers of {table.info.name} see something else: {differs}")
    if history.seed % 2:
        _clean_up(history, lake)
    findings = lake.verify().findings
    for finding in findings[:5]:
        history.wrong(f"verify: {finding.check} {finding.where}: {finding.message}")


def _clean_up(history: History, lake: quire.Lake) -> None:
    """Whatever was interrupted, cleanup can be run to its end, and again for longer, and takes nothing that is kept."""
    history.world.scheduler.sleep(100)
    lake.cleanup(
        keep=history.keep,
        older_than=timedelta(seconds=history.older_than),
        grace=timedelta(seconds=history.grace),
        dead_after=timedelta(seconds=history.dead_after),
    )
    lake.cleanup()
    _check_states(history, quire.open(URI, author="checker", backfill=False))


def _check_states(history: History, lake: quire.Lake) -> None:
    names = {b.name for b in lake.branches()}
    for name, fate in history.branches.items():
        if fate == "made" and name not in names:
            history.wrong(f"branch {name} was acknowledged and is gone")
    for name in sorted(names):
        branch = lake.branch(name)
        log = history.model.logs.get(branch._live.line.branch)
        snapshot = branch.snapshot()
        if log is not None and snapshot._state.slot != log.head:
            history.wrong(f"branch {name} shows slot {snapshot._state.slot}, its log ends at {log.head}")
        _check_snapshot(history, f"branch {name}", snapshot)
    tags = lake.tags()
    for name, fate in history.tags.items():
        if fate not in ("tried", "deleted"):
            if name not in tags:
                history.wrong(f"tag {name} was acknowledged and is gone")
            elif lake.at(tag=name).commit != fate:
                history.wrong(f"tag {name} names {tags[name]}, it was made for {fate}")
    for name in sorted(tags):
        _check_snapshot(history, f"tag {name}", lake.at(tag=name))


def _check_groups(history: History, lake: quire.Lake) -> None:
    """Every commit of a group can be read by itself, by its id and by its time."""
    log = history.model.logs[history.model.main]
    groups = [slot for slot, record in log.records.items() if len(record.commits) > 1 and slot >= log.state.floor]
    for slot in groups[-1:]:
        for index, commit in enumerate(log.records[slot].commits):
            at = f"{slot}.{index}"
            for snapshot in (lake.at(commit=at), lake.at(time=commit.time)):
                if snapshot.commit != at:
                    history.wrong(f"commit {at} of {commit.time} shows as {snapshot.commit}")
                _check_snapshot(history, f"commit {at}", snapshot)


def _check_snapshot(history: History, what: str, snapshot: quire.Snapshot) -> None:
    state = history.model.seen(snapshot._state)
    if state is None:
        return history.wrong(f"{what} shows {snapshot.commit}, which never was a state")
    for table in state.tables.values():
        found = snapshot[table.info.name].to_pylist()
        rows = {next(iter(row.values())): row for row in found}
        if len(rows) != len(found) or rows != history.model.rows(table.pin):
            history.wrong(f"{what}: {table.info.name} shows {found}, there was {history.model.rows(table.pin)}")
    return None
