"""Programs that act on what they were told: counts that statements return, names, versions, and handles of a claim.

Some histories are full of them. What they were told is written down with the attempt, and held against the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import quire
from quire.lake.commit import detached
from quire.testing.simulation.actors import URI, Actor
from quire.testing.simulation.writes import an_event, an_item, lake_of, linger, tables

Operation = Callable[[Actor], None]
NAMES = ("x0", "x1", "x2")


# -- counts -----------------------------------------------------------------------------------------------------------


def welcome(actor: Actor) -> None:
    """Whoever makes an account writes the letter: the count decides."""
    with actor.attempt(lake_of(actor)) as do:
        key = actor.rng.randrange(12, 18)
        if do.upsert("items", [{"id": key, "v": actor.rng.randrange(100)}])["inserted"]:
            do.append("events", [{"n": actor.history.number(), "w": 100 + key}])
        linger(actor)


def make_or_change(actor: Actor) -> None:
    """Whoever is told that a row is there changes it, or writes down that it was."""
    serializable = actor.rng.random() < 0.3
    options: dict[str, Any] = {"isolation": "serializable"} if serializable else {}
    with actor.attempt(lake_of(actor), **options) as do:
        row = {"id": actor.rng.randrange(12), "v": actor.rng.randrange(100)}
        if not do.makes("items", row):
            if serializable:
                do.append("events", an_event(actor))
            else:
                do.upsert("items", [row])
        linger(actor)


def take_jobs(actor: Actor) -> None:
    """Empty a queue, or a part of it, and write down how many jobs there were."""
    with actor.attempt(lake_of(actor)) as do:
        weight = actor.rng.randrange(2, 10)
        linger(actor)
        taken = do.delete("events", f"w < {weight}", lambda row: row["w"] < weight)
        if taken:
            do.append("events", [{"n": actor.history.number(), "w": 1000 + taken}])
        linger(actor)


def condition_beside_keys(actor: Actor) -> None:
    """A condition and keys in one transaction: on one table, or on two."""
    with actor.attempt(lake_of(actor)) as do:
        do.upsert("items", [an_item(actor.rng)])
        limit = actor.rng.randrange(60)
        if actor.rng.random() < 0.6:
            do.delete("items", f"v < {limit}", lambda row: row["v"] < limit)
        else:
            do.delete("events", f"w = {limit % 9}", lambda row: row["w"] == limit % 9)
        linger(actor)


def tidy(actor: Actor) -> None:
    """Compact beside those whose rows it moves."""
    actor.history.count("optimize begun")
    lake_of(actor).optimize(["events", "items"], deleted=0.0)
    actor.history.count("optimize")


# -- names and versions -----------------------------------------------------------------------------------------------


def look_up(actor: Actor) -> None:
    """Ask for names, and write something that rests on the answer."""
    with actor.attempt(lake_of(actor), isolation="serializable", fresh=True) as do:
        if actor.rng.random() < 0.3:
            do.list_names()
        for name in actor.rng.sample(NAMES, actor.rng.randint(1, 2)):
            do.looks(name)
        linger(actor)
        do.append("events", an_event(actor))


def swap(actor: Actor) -> None:
    """Two tables exchange their names, or one is made anew under its name."""
    with actor.attempt(lake_of(actor), fresh=True) as do:
        one, other = actor.rng.sample(NAMES, 2)
        there = [name for name in (one, other) if name in do.tx]
        if len(there) == 2 and actor.rng.random() < 0.5:
            for old, new in ((one, "x9"), (other, one), ("x9", other)):
                do.rename(old, new)
        elif there:
            do.drop(there[0])
            do.create(there[0], [{"id": actor.history.number(), "v": 0}])
        else:
            do.create(one, [{"id": actor.history.number(), "v": 0}])
        linger(actor)


def crowd(actor: Actor) -> None:
    """Threads that ask for names and give them, ready at the same moment."""
    members: list[Operation] = actor.rng.choices((swap, look_up, tables), k=actor.rng.choice((3, 4, 6)))
    actor.together(members, meeting=actor.rng.choice((0.3, 0.6)))


def expect_version(actor: Actor) -> None:
    """Look a version up, and count on it later."""
    snapshot = lake_of(actor).snapshot()
    there = [name for name in NAMES if name in snapshot]
    if not there:
        return swap(actor)
    table = snapshot[actor.rng.choice(there)]
    actor.pause(actor.rng.uniform(0, 20))
    with actor.attempt(lake_of(actor), expect={table.name: table.version}, expects=table.id) as do:
        linger(actor)
        do.append("events", an_event(actor))
    return None


# -- handles and claims -----------------------------------------------------------------------------------------------


def derived(actor: Actor) -> None:
    """Write to main by a handle that was made from another branch's, which was made from main's."""
    lake = lake_of(actor)
    held = lake._live.epoch
    names = [b.name for b in lake.branches() if b.name != "main"]
    side = lake.branch(actor.rng.choice(names)) if names else lake.create_branch(_branch(actor))
    actor.pause(actor.rng.uniform(0, 30))
    with actor.attempt(side.branch("main"), epoch=held) as do:
        do.append("events", an_event(actor))


def _branch(actor: Actor) -> str:
    name = f"b{actor.history.number()}"
    actor.history.branches[name] = "tried"
    return name


def far_away(actor: Actor) -> None:
    """Work begins by one handle and is committed by another, which was opened later."""
    lake = lake_of(actor)
    held = lake._live.epoch
    begun = detached.begin(lake)
    try:
        actor.pause(actor.rng.uniform(0, 30))
        later = quire.open(URI, author=actor.name)

        def resume(message: str) -> Any:
            return detached.resume(later, begun, message)

        with actor.attempt(later, start=resume, epoch=held) as do:
            do.append("events", an_event(actor))
    finally:
        detached.end(lake, begun)


def take_over(actor: Actor) -> None:
    lake_of(actor).claim()
    actor.history.count("claim")


TOLD: dict[Operation, int] = {
    welcome: 10,
    make_or_change: 6,
    take_jobs: 10,
    condition_beside_keys: 6,
    tidy: 8,
    look_up: 8,
    swap: 10,
    crowd: 6,
    expect_version: 8,
    derived: 5,
    far_away: 5,
    take_over: 3,
}
"""How often each is done in the histories that are full of them."""
EVERY, FROM = 7, 2
"""Of so many histories two: those whose seed leaves this, or one more."""


def attentive(seed: int) -> bool:
    """Whether the programs of a history act on what they are told."""
    return seed % EVERY in (FROM, FROM + 1)
