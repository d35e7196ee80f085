"""What programs do besides writing, and how often each does what: one function per operation, drawn by weight."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from quire.testing.simulation.actors import ACCOUNTS, Actor
from quire.testing.simulation.writes import (
    an_event,
    an_item,
    append,
    change,
    claim,
    compare_and_swap,
    hurry,
    insert,
    lake_of,
    linger,
    once,
    overwrite,
    read_transfer,
    skew,
    stream,
    tables,
    transfer,
    upsert,
)

if TYPE_CHECKING:
    from quire.testing.simulation.history import History

Operation = Callable[[Actor], None]


# -- threads ----------------------------------------------------------------------------------------------------------


def together(actor: Actor) -> None:
    """Several threads on one handle: what is ready at the same moment shares slots. Many want the same."""
    rng = actor.rng
    kinds = rng.choices(list(MEMBERS), list(MEMBERS.values()), k=rng.choice((1, 2, 3, 6)))
    members = rng.choices(kinds, k=rng.choice((2, 4, 5, 6, 8)))
    actor.together(members, meeting=rng.choice((0.0, 0.3, 0.3, 0.6)))


MEMBERS: dict[Operation, int] = {
    append: 8,
    insert: 8,
    transfer: 3,
    read_transfer: 1,
    upsert: 3,
    change: 2,
    tables: 4,
    once: 4,
    stream: 2,
    compare_and_swap: 1,
    hurry: 3,
    skew: 4,
}


# -- reading ----------------------------------------------------------------------------------------------------------


def read(actor: Actor) -> None:
    snapshot = lake_of(actor).snapshot()
    actor.check_snapshot(snapshot, actor.history.world.scheduler.now)


def read_later(actor: Actor) -> None:
    """Hold a snapshot, sleep through whatever happens, and read it."""
    snapshot = lake_of(actor).snapshot()
    taken = actor.history.world.scheduler.now
    for _ in range(actor.rng.randint(1, 3)):
        actor.pause(actor.rng.choice((1.0, 20.0, 120.0)) * actor.rng.random())
        actor.check_snapshot(snapshot, taken, some=True)


def _old(actor: Actor) -> str | None:
    """Now and then a commit that cleanup may be after; else the head."""
    if actor.rng.random() < 0.3:
        return None
    entries = [entry.id for entry in lake_of(actor).log(40) if entry.id != "0.0"]
    return _any_of(actor, entries[len(entries) // 3 :]) if entries else None


def _any_of(actor: Actor, commits: list[str]) -> str:
    """One of these, often one that is not the last of its slot."""
    later = set(commits)
    inside = [c for c in commits if f"{c.partition('.')[0]}.{int(c.partition('.')[2]) + 1}" in later]
    return actor.rng.choice(inside if inside and actor.rng.random() < 0.8 else commits)


def read_leased(actor: Actor) -> None:
    old = _old(actor)
    snapshot = lake_of(actor).snapshot() if old is None else lake_of(actor).at(commit=old)
    taken = actor.history.world.scheduler.now
    with snapshot.lease(seconds=600.0):
        actor.history.count("lease")
        for _ in range(actor.rng.randint(1, 4)):
            actor.pause(actor.rng.choice((5.0, 60.0, 150.0)) * actor.rng.random())
            actor.check_snapshot(snapshot, taken, leased=True, some=True)


def travel(actor: Actor) -> None:
    lake = lake_of(actor)
    tags = sorted(lake.tags())
    if tags and actor.rng.random() < 0.7:
        snapshot = lake.at(tag=actor.rng.choice(tags))
    else:
        entries = {entry.id: entry.time for entry in lake.log(30)}
        commit = _any_of(actor, list(entries))
        by_time = actor.rng.random() < 0.3
        snapshot = lake.at(time=entries[commit]) if by_time else lake.at(commit=commit)
        if snapshot.commit != commit:
            how = f"the time of {commit}, {entries[commit]}," if by_time else commit
            actor.history.wrong(f"{actor.name}: {how} shows commit {snapshot.commit}")
    actor.check_snapshot(snapshot, float("-inf"), some=True)


# -- branches and tags ------------------------------------------------------------------------------------------------


def tag(actor: Actor) -> None:
    lake, name = lake_of(actor), f"t{actor.history.number()}"
    actor.history.tags[name] = "tried"
    at = lake.tag(name, at=_old(actor))
    if actor.history.tags[name] == "tried":  # else somebody has deleted it already
        actor.history.tags[name] = at
    actor.history.count("tag")


def untag(actor: Actor) -> None:
    lake = lake_of(actor)
    tags = sorted(lake.tags())
    if tags:
        name = actor.rng.choice(tags)
        actor.history.tags[name] = "deleted"
        lake.delete_tag(name)


def fork(actor: Actor) -> None:
    """Make a branch and write to it."""
    lake, name = lake_of(actor), f"b{actor.history.number()}"
    actor.history.branches[name] = "tried"
    side = lake.create_branch(name, at=_old(actor))
    if actor.history.branches[name] == "tried":  # else somebody has deleted it already
        actor.history.branches[name] = "made"
    actor.history.count("branch")
    actor.mine.append(name)

    def write(actor: Actor) -> None:
        with actor.attempt(side) as do:
            do.append("events", an_event(actor))
            if actor.rng.random() < 0.5:
                do.upsert("items", [an_item(actor.rng)])
            else:
                account = actor.rng.randrange(ACCOUNTS)
                do.add("left", account, "n", -1)
                do.add("right", account, "n", 1)

    if actor.rng.random() < 0.4:
        actor.together([write] * actor.rng.randint(2, 4), meeting=0.3)
    for _ in range(actor.rng.randint(0, 2)):
        write(actor)
        linger(actor)
    if actor.rng.random() < 0.5:
        _forward(actor, name)


def branch_write(actor: Actor) -> None:
    lake = lake_of(actor)
    names = [b.name for b in lake.branches() if b.name != "main"]
    if names:
        side = lake.branch(actor.rng.choice(names))
        with actor.attempt(side) as do:
            do.append("events", an_event(actor))
            linger(actor)
            do.add("left", 0, "n", -1)
            do.add("right", 0, "n", 1)
        actor.check_snapshot(side.snapshot(), actor.history.world.scheduler.now, some=True)


def forward(actor: Actor) -> None:
    lake = lake_of(actor)
    names = [b.name for b in lake.branches() if b.name != "main"]
    if names:
        _forward(actor, actor.rng.choice(names))


def _forward(actor: Actor, name: str) -> None:
    lake = lake_of(actor)
    receipt = lake.fast_forward(name)
    if receipt.commit is not None:
        actor.history.count("fast-forward")
        actor.history.acknowledged.append((lake._live.line.branch, receipt.commit))


def prune(actor: Actor) -> None:
    names = [b.name for b in lake_of(actor).branches() if b.name != "main"]
    if names:
        name = actor.rng.choice(names)
        actor.history.branches[name] = "deleted"
        lake_of(actor).delete_branch(name)


def revert(actor: Actor) -> None:
    """Undo a commit, on a branch also one that it has from the log it started from."""
    lake = lake_of(actor)
    names = [b.name for b in lake.branches() if b.name != "main"]
    side = bool(names) and actor.rng.random() < 0.5
    if side:
        lake = lake.branch(actor.rng.choice(names))
    entries = [e.id for e in lake.log(12 if side else 5) if e.message in actor.history.attempts]
    if not entries:
        return
    receipt = lake.revert(_any_of(actor, entries))
    if receipt.commit is not None:
        actor.history.count("revert")
        actor.history.acknowledged.append((lake._live.line.branch, receipt.commit))


# -- upkeep -----------------------------------------------------------------------------------------------------------


def backfill(actor: Actor) -> None:
    lake_of(actor).backfill()


def recover(actor: Actor) -> None:
    _upkeep(actor, "recover")


def optimize(actor: Actor) -> None:
    _upkeep(actor, "optimize")


def cleanup(actor: Actor) -> None:
    history = actor.history
    if not history.cleanups:  # each costs as much as ten other operations
        return append(actor)
    history.cleanups -= 1
    _upkeep(
        actor,
        "cleanup",
        keep=history.keep,
        older_than=timedelta(seconds=history.older_than),
        grace=timedelta(seconds=history.grace),
        dead_after=timedelta(seconds=history.dead_after),
        progress=lambda what, done, total: _dawdle(actor),
    )
    return None


def _dawdle(actor: Actor) -> None:
    """A collector takes its time between its steps, so that others come in between."""
    chance = actor.rng.random()
    if chance < 0.03:
        actor.freeze(actor.rng.uniform(5, 60))
    elif chance < 0.3:
        actor.pause(actor.rng.uniform(0.1, 6))


def _upkeep(actor: Actor, verb: str, **options: Any) -> None:
    actor.history.count(f"{verb} begun")
    actor.history.collecting += verb == "cleanup"
    try:
        result = getattr(lake_of(actor), verb)(**options)
    finally:
        actor.history.collecting -= verb == "cleanup"
    actor.history.count(verb)
    actor.history.say(f"{actor.name}: {verb}: {str(result)[:300]}")


def reopen(actor: Actor) -> None:
    if actor.rng.random() < 0.5:
        lake_of(actor).close()
    actor.lake = None


def rest(actor: Actor) -> None:
    actor.pause(actor.rng.choice((0.5, 5.0, 40.0)) * actor.rng.random())


WEIGHTS: dict[Operation, int] = {
    transfer: 10,
    read_transfer: 8,
    append: 10,
    upsert: 8,
    insert: 5,
    change: 8,
    overwrite: 1,
    tables: 5,
    once: 5,
    stream: 3,
    compare_and_swap: 4,
    hurry: 1,
    skew: 2,
    together: 13,
    claim: 1,
    read: 8,
    read_later: 3,
    read_leased: 3,
    travel: 3,
    tag: 2,
    untag: 1,
    fork: 3,
    branch_write: 2,
    forward: 2,
    prune: 2,
    revert: 1,
    backfill: 1,
    recover: 2,
    optimize: 2,
    cleanup: 8,
    reopen: 2,
    rest: 3,
}


PROTECT: tuple[Operation, ...] = (read_leased, read_leased, tag, fork, append, tables, revert)
"""What races with a cleanup: those who write themselves down, and those who have staged something."""


def draw(rng: random.Random, history: History) -> Operation:
    if history.collecting and rng.random() < 0.5:
        return rng.choice(PROTECT)
    if history.lingering and history.restless and history.cleanups and rng.random() < 0.25:
        return cleanup
    [operation] = rng.choices(history.operations, history.weights)
    return operation
