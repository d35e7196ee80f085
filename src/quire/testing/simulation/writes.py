"""Transactions of simulated programs: rows, tables, tokens and conditions."""

from __future__ import annotations

import random
from typing import Any

import quire
from quire.errors import QuireError
from quire.ledger import StreamToken
from quire.testing.simulation.actors import ACCOUNTS, Actor, Doing


def _account(rng: random.Random) -> int:
    return rng.randrange(ACCOUNTS)


def lake_of(actor: Actor) -> quire.Lake:
    assert actor.lake is not None
    return actor.lake


def an_event(actor: Actor) -> list[dict[str, Any]]:
    return [{"n": actor.history.number(), "w": actor.rng.randrange(9)} for _ in range(actor.rng.randint(1, 3))]


def an_item(rng: random.Random) -> dict[str, Any]:
    return {"id": rng.randrange(12), "v": rng.randrange(100)}


def _new_item(actor: Actor) -> dict[str, Any]:
    """One whose key may be there already, or is new and may be chosen by others at the same time."""
    key = actor.rng.randrange(12) if actor.rng.random() < 0.3 else 12 + actor.history.number() // 8
    return {"id": key, "v": actor.rng.randrange(100)}


def linger(actor: Actor) -> None:
    """Now and then a transaction stays open for a while, or for very long."""
    actor.history.lingering += 1
    try:
        _wait(actor)
    finally:
        actor.history.lingering -= 1


def _wait(actor: Actor) -> None:
    chance = actor.rng.random() * (6 if actor.process.crowd else 1) / (3 if actor.history.restless else 1)
    if chance < 0.03:
        actor.freeze(actor.rng.uniform(10, 300))
    elif chance < 0.06:
        actor.pause(actor.rng.uniform(20, 300))
    elif chance < 0.25:
        actor.pause(actor.rng.uniform(0.5, 40 if actor.history.restless else 15))


# -- rows -------------------------------------------------------------------------------------------------------------


def transfer(actor: Actor) -> None:
    """Move money between two tables by SQL: the sum over both stays."""
    with actor.attempt(lake_of(actor)) as do:
        a, b, amount = _account(actor.rng), _account(actor.rng), actor.rng.randint(1, 20)
        do.add("left", a, "n", -amount)
        linger(actor)
        do.add("right", b, "n", amount)


def read_transfer(actor: Actor) -> None:
    """Move money by what was read: a lost update would make or destroy some."""
    a, b, amount = _account(actor.rng), _account(actor.rng), actor.rng.randint(1, 20)

    def work(do: Doing) -> None:
        first, second = do.balance("left", a), do.balance("right", b)
        linger(actor)
        do.put("left", a, "n", first - amount)
        do.put("right", b, "n", second + amount)

    if actor.rng.random() < 0.5:
        actor.run(lake_of(actor), work, retries=3)
    else:
        with actor.attempt(lake_of(actor), isolation=actor.rng.choice(("snapshot", "serializable"))) as do:
            work(do)


def append(actor: Actor) -> None:
    with actor.attempt(lake_of(actor)) as do:
        do.append("events", an_event(actor))
        if actor.rng.random() < 0.5:
            linger(actor)
            do.upsert("items", [an_item(actor.rng)])


def upsert(actor: Actor) -> None:
    with actor.attempt(lake_of(actor)) as do:
        do.upsert("items", list({r["id"]: r for r in (an_item(actor.rng), an_item(actor.rng))}.values()))
        linger(actor)


def insert(actor: Actor) -> None:
    with actor.attempt(lake_of(actor)) as do:
        do.insert("items", [_new_item(actor)])
        linger(actor)


def change(actor: Actor) -> None:
    with actor.attempt(lake_of(actor)) as do:
        if actor.rng.random() < 0.6:
            do.add("items", actor.rng.randrange(12), "v", 1)
        else:
            key = actor.rng.randrange(12)
            do.delete("items", f"id = {key}", lambda row: row["id"] == key)
        linger(actor)
        if actor.rng.random() < 0.3:
            weight = actor.rng.randrange(9)
            do.delete("events", f"w = {weight}", lambda row: row["w"] == weight)


def overwrite(actor: Actor) -> None:
    with actor.attempt(lake_of(actor)) as do:
        do.overwrite("items", [{"id": i, "v": actor.rng.randrange(100)} for i in range(actor.rng.randrange(5))])


def tables(actor: Actor) -> None:
    """Create, drop and rename: names conflict like keys."""
    names = ("x0", "x1", "x2")
    with actor.attempt(lake_of(actor), fresh=True) as do:
        name = actor.rng.choice(names)
        other = actor.rng.choice(names)
        if name not in do.tx:
            do.create(name, [{"id": actor.history.number(), "v": 0}])
        elif actor.rng.random() < 0.5 and other not in do.tx:
            do.rename(name, other)
        elif actor.rng.random() < 0.5:
            do.drop(name)
        else:
            do.upsert(name, [{"id": actor.history.number(), "v": 1}])
        linger(actor)
        do.append("events", an_event(actor))


# -- conditions -------------------------------------------------------------------------------------------------------


def once(actor: Actor) -> None:
    """One piece of work under one token, tried more than once, by more than one."""
    token = actor.history.shared_token() if actor.rng.random() < 0.5 else quire.token()
    for _ in range(actor.rng.randint(1, 2)):
        try:
            with actor.attempt(lake_of(actor), token=token) as do:
                do.append("events", an_event(actor))
        except QuireError:
            if actor.rng.random() < 0.3:
                raise


def stream(actor: Actor) -> None:
    token = StreamToken(scope=f"s{actor.rng.randrange(2)}", sequence=actor.history.number())
    with actor.attempt(lake_of(actor), token=token) as do:
        do.append("events", an_event(actor))


def compare_and_swap(actor: Actor) -> None:
    lake = lake_of(actor)
    snapshot = lake.snapshot()
    if actor.rng.random() < 0.5:
        options: dict[str, Any] = {"if_head": snapshot.commit}
    else:
        options = {"expect": {"items": snapshot["items"].version}}
    with actor.attempt(lake, **options) as do:
        do.upsert("items", [an_item(actor.rng)])
        linger(actor)


def hurry(actor: Actor) -> None:
    """A deadline that may pass at any step, or while others publish."""
    timeout = actor.rng.choice((0.02, 0.1, 0.3, 3.0)) + max(0.0, actor.meeting - actor.history.world.scheduler.now)
    with actor.attempt(lake_of(actor), timeout=timeout) as do:
        do.append("events", an_event(actor))
        if actor.rng.random() < 0.3:
            do.upsert("items", [an_item(actor.rng)])


def skew(actor: Actor) -> None:
    """Read one table and write to another: nobody may change what was read before this commits."""
    with actor.attempt(lake_of(actor), isolation="serializable") as do:
        table, column = actor.rng.choice((("items", "v"), ("events", "w"), ("left", "n"), ("right", "n")))
        found = do.total(table, column)
        if table == "events" or (table != "items" and actor.rng.random() < 0.5):
            do.upsert("items", [{"id": actor.rng.randrange(12), "v": found}])
        else:
            do.append("events", [{"n": actor.history.number(), "w": found}])
        linger(actor)


def claim(actor: Actor) -> None:
    lake_of(actor).claim()
    actor.history.count("claim")
