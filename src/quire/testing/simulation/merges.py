"""Programs that merge, pick and take merges back, and what their commits must come to, row by row.

Only some seeds have them, so that the histories of all others stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire.ledger import Commit, Joining, Point, State
from quire.testing.simulation.actors import Actor
from quire.testing.simulation.model import Model, TableRows
from quire.testing.simulation.operations import Operation, branch_write, fork
from quire.testing.simulation.programs_that_read_results import attentive
from quire.testing.simulation.writes import lake_of

if TYPE_CHECKING:
    from quire.testing.simulation.history import History

FROM = 8_000
"""Seeds up to here have no merges."""


def merging(seed: int) -> bool:
    """Whether programs of this history merge branches."""
    return seed > FROM and seed % 4 == 1 and not attentive(seed)


# -- what programs do -------------------------------------------------------------------------------------------------


def merge(actor: Actor) -> None:
    """Bring one branch into another, or into main."""
    lake, rng = lake_of(actor), actor.rng
    names = [b.name for b in lake.branches()]
    if len(names) < 2:
        return fork(actor)
    target, source = rng.sample(names, 2)
    if rng.random() < 0.5:
        target, source = "main", rng.choice([name for name in names if name != "main"])
    here = lake if target == "main" else lake.branch(target)
    mode: Any = rng.choice(("auto", "auto", "no-ff", "squash"))
    resolve: Any = rng.choice((None, "ours", "theirs"))
    message = f"merge.{actor.history.number()}"
    if rng.random() < 0.5:
        receipt = here.merge(source, mode=mode, resolve=resolve, message=message)
    else:  # somebody looks at it first, while others go on
        plan = here.merge(source, mode=mode, resolve=resolve, preview=True)
        actor.pause(rng.choice((0.5, 5.0, 40.0)) * rng.random())
        receipt = plan.commit(message)
    actor.history.count(f"merge: {receipt.outcome}")
    _acknowledged(actor, here, receipt)
    return None


def pick(actor: Actor) -> None:
    """Do on main what a commit of a branch did there."""
    lake = lake_of(actor)
    names = [b.name for b in lake.branches() if b.name != "main"]
    if not names:
        return
    name = actor.rng.choice(names)
    entries = [e.id for e in lake.branch(name).log(6) if e.message in actor.history.attempts]
    if entries:
        receipt = lake.cherry_pick(f"{name}:{actor.rng.choice(entries)}", resolve="theirs")
        actor.history.count("pick")
        _acknowledged(actor, lake, receipt)


def take_back(actor: Actor) -> None:
    """Revert a merge on main."""
    lake = lake_of(actor)
    entries = [e.id for e in lake.log(8) if e.message.startswith("merge.")]
    if entries:
        receipt = lake.revert(actor.rng.choice(entries))
        actor.history.count("revert of a merge")
        _acknowledged(actor, lake, receipt)


def _acknowledged(actor: Actor, lake: Any, receipt: Any) -> None:
    if receipt.commit is not None:
        actor.history.acknowledged.append((lake._live.line.branch, receipt.commit))


MERGES: dict[Operation, int] = {merge: 14, pick: 3, take_back: 3, fork: 8, branch_write: 10}


# -- what must come of it ---------------------------------------------------------------------------------------------


def explain_joining(history: History, commit: Commit, joining: Joining, before: State, after: State) -> str | None:
    """Why a commit cannot be the merge, or the pick, that it says it is; None when it can."""
    model = history.model
    if joining.commit is None:
        return "it does not say what it joins"
    theirs = model.state(joining.commit)
    bases = [model.state(point) for point in joining.bases]
    if theirs is None or not all(bases):
        return f"it joins {joining.commit} from {joining.bases}, and one of them never existed"
    if joining.how == "merged":
        if commit.parents[1:] != (joining.commit,):
            return f"its parents are {commit.parents}, it merges {joining.commit}"
    elif len(commit.parents) != 1:
        return f"it is {joining.how}, and has parents {commit.parents}"
    if joining.how != "picked":
        expected = merge_bases(model, before.head, joining.commit)
        if set(joining.bases) != expected:
            return f"its bases are {sorted(map(str, joining.bases))}, the graph says {sorted(map(str, expected))}"
    for table in before.tables.keys() | theirs.tables.keys():
        states = [s.tables.get(table) for s in (*bases, before, theirs, after) if s is not None]
        *was, mine, its, now = (None if s is None else model.rows(s.pin) for s in states)
        problem = _wrong_table(was, mine, its, now)
        if problem:
            return f"table {table}: {problem}"
    return None


def _wrong_table(
    was: list[TableRows | None], mine: TableRows | None, its: TableRows | None, now: TableRows | None
) -> str | None:
    if mine is None or its is None or any(rows is None for rows in was) or len(was) > 1:
        # A table that one side dropped or made, or that has several bases: no row is of neither side.
        sides = [rows for rows in (mine, its) if rows is not None]
        strange = [k for k, row in (now or {}).items() if all(rows.get(k) != row for rows in sides)]
        return f"rows {strange[:3]} are of neither side" if strange else None
    [base] = was
    assert base is not None
    for key in base.keys() | mine.keys() | its.keys():
        b, o, t = base.get(key), mine.get(key), its.get(key)
        allowed = [o] if o == t or t == b else [t] if o == b else [o, t]
        found = None if now is None else now.get(key)
        if found not in allowed:
            return f"row {key} is {found}; it was {b}, ours {o}, theirs {t}"
    return None


def merge_bases(model: Model, one: Point, other: Point) -> set[Point]:
    """The common ancestors of two commits of which no other one descends, by walking the graph."""
    common = ancestors(model, one) & ancestors(model, other)
    below = {point: ancestors(model, point) - {point} for point in common}
    return {point for point in common if not any(point in below[other] for other in common)}


def ancestors(model: Model, head: Point) -> set[Point]:
    """A commit, and all that it descends from."""
    found: set[Point] = set()
    left = [head]
    while left:
        point = left.pop()
        if point in found:
            continue
        found.add(point)
        record = model.logs[point.branch].records.get(point.slot)
        if record is not None and record.commits:
            left += record.commits[point.index].parents
    return found
