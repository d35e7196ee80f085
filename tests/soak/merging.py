"""Teams that write to branches and merge them into main and back, and upkeep beside them; all may be killed.

A job writes its marker to two tables and a cell of a row that both teams change, each in a column of its own. It is in
the team's journal once it is acknowledged.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import quire
from quire.errors import Conflict

TABLES = ("one", "two")
TEAMS = 2
SHARED = 4


@dataclass(frozen=True)
class Place:
    uri: str
    folder: str

    def path(self, name: str) -> Path:
        return Path(self.folder) / name

    @property
    def over(self) -> bool:
        return self.path("stop").exists()


def create(place: Place) -> None:
    with quire.create(place.uri) as lake:
        with lake.transaction("tables") as tx:
            for table in TABLES:
                tx.create_table(table, [{"id": -1}], key="id")
            shared = [{"id": i, **{f"c{team}": -1 for team in range(TEAMS)}} for i in range(SHARED)]
            tx.create_table("shared", shared, key="id")
        for team in range(TEAMS):
            lake.create_branch(f"team{team}").close()


def marker(team: int, seq: int) -> int:
    return team * 1_000_000 + seq


def work(team: int, place: Place) -> None:
    """Write to the own branch, merge it into main, and now and then main into it."""
    chance = random.Random()
    note(place, team, what="life")
    main = quire.open(place.uri, author=f"team {team}")
    own = main.branch(f"team{team}")
    while not place.over:
        # What was begun before a kill may be done: the branch itself says so.
        seq = 1 + max((i % 1_000_000 for i in ids(own, "one") if i >= 0 and i // 1_000_000 == team), default=-1)
        with own.transaction(f"{team}.{seq}") as tx:
            for table in TABLES:
                tx[table].insert([{"id": marker(team, seq)}])
            tx["shared"].update(values={f"c{team}": seq}, where=f"id = {seq % SHARED}")
        note(place, team, what="written", seq=seq)
        if merge(main, own.branch_name):
            note(place, team, what="merged", seq=seq)
        if chance.random() < 0.5:
            merge(own, "main")
    own.close()
    main.close()


def merge(into: quire.Lake, source: str) -> bool:
    """Whether it is merged now. Rivals that keep winning, and answers that are lost, leave it to the next time."""
    try:
        into.merge(source)
        return True
    except (Conflict, quire.CommitUnknown):
        return False


def tidy(number: int, place: Place) -> None:
    """Compact and clean up again and again."""
    lake = quire.open(place.uri, author="tidy")
    while not place.over:
        lake.optimize()
        lake.cleanup(keep=5, older_than=5, grace=0, dead_after=30)
        note(place, TEAMS, what="tidy")
        time.sleep(0.3)
    lake.close()


def ids(lake: Any, table: str) -> list[int]:
    lake.refresh()
    found: list[int] = lake.snapshot()[table].scan(columns=["id"]).to_arrow()["id"].to_pylist()
    return found


def note(place: Place, team: int, **told: Any) -> None:
    with place.path(f"team-{team}.jsonl").open("a") as file:
        file.write(json.dumps(told) + "\n")


def notes(place: Place, team: int) -> list[dict[str, Any]]:
    path = place.path(f"team-{team}.jsonl")
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # a line that was not written to its end
    return found
