"""Merges of several processes into one branch: whoever lost the race is let pass."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import uuid4

import quire
from quire.lake.commit.fairness import call, holder_of, seat_key


def move(lake: quire.Lake, city: str) -> None:
    with lake.transaction() as tx:
        tx["people"].update(values={"city": city}, where="id = 1")


def two_branches(name: str) -> quire.Lake:
    lake = quire.create(f"memory://{name}-{uuid4()}")
    lake.create_table("people", [{"id": 1, "city": "Paris"}], key="id")
    with lake.create_branch("trial") as trial:
        move(trial, "Rome")
    return lake


def seat(lake: quire.Lake) -> Any:
    return holder_of(lake._core.store, seat_key(lake._live.line.branch))


def test_a_merge_that_lost_asks_for_its_turn_before_it_plans_again_and_gives_it_back() -> None:
    lake = two_branches("merge-turns-1")
    seats: list[Any] = []

    def resolve(conflict: quire.MergeConflict) -> str:
        seats.append(seat(lake))
        return "ours"

    move(lake, "Oslo")
    plan = lake.merge("trial", preview=True, resolve=resolve)
    rival = quire.open(lake.uri)
    move(rival, "Bonn")

    plan.commit()

    assert seats[0] is None
    assert seats[-1] is not None
    assert seats[-1].write == lake._live.seat
    assert seat(lake) is None
    assert rival.sql("select city from people").to_pylist() == [{"city": "Bonn"}]


def test_a_merge_lets_somebody_pass_who_waits() -> None:
    lake = two_branches("merge-turns-2")
    call(lake._core.store, lake._live.line.branch, "somebody")
    lake._live.met_others()

    merging = threading.Thread(target=lake.merge, args=("trial",))
    merging.start()
    time.sleep(0.2)
    assert lake["people"].to_pylist() == [{"id": 1, "city": "Paris"}]

    lake._core.store.delete(seat_key(lake._live.line.branch))
    merging.join()
    assert lake["people"].to_pylist() == [{"id": 1, "city": "Rome"}]
