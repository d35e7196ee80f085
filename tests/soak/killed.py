"""Writers that may be killed at any moment, and a reader that looks for half of anything.

A job writes its marker to two Lance tables and two Delta tables in one transaction with a token. It is in the writer's
journal, on disk, before anything is sent and after the answer is there; whoever continues the journal after a kill
takes up the last job again, with the same token.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import quire
from quire.testing.crash import die
from quire.testing.history import Journal

TABLES = ("one", "two", "three", "four")
DELTA = ("two", "four")
SCHEMA = pa.schema([("marker", pa.string()), ("writer", pa.int64())])


@dataclass(frozen=True)
class Place:
    uri: str
    options: dict[str, str] | None
    folder: str

    def path(self, name: str) -> Path:
        return Path(self.folder) / name

    def open(self, author: str, **options: Any) -> quire.Lake:
        return quire.open(self.uri, storage_options=self.options, author=author, **options)

    @property
    def over(self) -> bool:
        return self.path("stop").exists()


def create(place: Place) -> None:
    with quire.create(place.uri, storage_options=place.options) as lake:
        with lake.transaction("tables") as tx:
            for table in TABLES:
                tx.create_table(table, schema=SCHEMA, format="delta" if table in DELTA else "lance")


def write(number: int, place: Place) -> None:
    """One job after the other, from where the last process with this number was killed."""
    chance = random.Random()
    path = place.path(f"writer-{number}.jsonl")
    seq, token, life = where_it_stopped(path)
    journal = Journal(path, f"writer {number}, life {life}")
    journal.line(id=None, what="life", life=life)
    lake = place.open(f"writer {number}")
    while not place.over:
        if token is None:
            # Odd writers use opaque tokens, which must be on disk before they are used.
            token = quire.token() if number % 2 else "stream"
            journal.line(id=None, what="job", seq=seq, token=token)
        job(lake, journal, number, seq, token, chance)
        seq, token = seq + 1, None
        time.sleep(chance.uniform(0, 0.4))
    lake.close()


def job(lake: quire.Lake, journal: Journal, number: int, seq: int, token: str, chance: random.Random) -> None:
    marker = f"{number}.{seq}"
    with journal.transaction(marker) as notes:
        for table in TABLES:
            notes.append(table, marker)
        notes.commit()

        def program(tx: quire.Transaction) -> bool:
            for table in TABLES:
                tx[table].append(pa.table({"marker": [marker], "writer": [number]}, schema=SCHEMA))
            return True

        given = quire.StreamToken(f"writer {number}", seq) if token == "stream" else token
        ran = until_known(lambda: lake.transact(program, marker, token=given))
        if chance.random() < 0.1:
            die()  # a moment that others seldom hit: done, and nobody told
        journal.line(id=None, what="told", seq=seq, repeated=ran is None)
        notes.ok()


def until_known(attempt: Callable[[], bool | None]) -> bool | None:
    """With a token, the answer to an unknown outcome is to try again."""
    while True:
        try:
            return attempt()
        except quire.CommitUnknown:
            continue


def where_it_stopped(path: Path) -> tuple[int, str | None, int]:
    """The number of the job to do, its token if it was begun before, and how many processes there were."""
    seq, token, life = 0, None, 0
    for line in notes(path):
        if line["what"] == "life":
            life += 1
        elif line["what"] == "job":
            seq, token = line["seq"], line["token"]
        elif line["what"] == "ok":
            seq, token = seq + 1, None
    if path.exists():
        mend(path)
    return seq, token, life


def notes(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open("rb") if line.endswith(b"\n")] if path.exists() else []


def mend(path: Path) -> None:
    """Cut off a line that was not written to its end."""
    whole = path.read_bytes()
    with path.open("rb+") as file:
        file.truncate(whole.rfind(b"\n") + 1)


def tidy(number: int, place: Place) -> None:
    """Recover and clean up again and again; this process too may be killed at any moment."""
    journal = Journal(place.path("tidy.jsonl"), "tidy")
    lake = place.open("tidy")
    while not place.over:
        recovered = lake.recover()
        told = lake.cleanup(keep=5, older_than=10, grace=0, dead_after=30)
        journal.line(id=None, what="cleanup", files=told.files, slots=told.slots, revoked=len(told.revoked))
        journal.line(id=None, what="recover", **recovered.to_dict())
        time.sleep(0.5)


def read(number: int, place: Place) -> None:
    """Look at snapshots until the end, with an old handle and a new one in turn."""
    journal = Journal(place.path(f"reader-{number}.jsonl"), f"reader {number}")
    warm = place.open("reader", read_only=True)
    looks = 0
    while not place.over:
        looks += 1
        cold = looks % 3 == 0
        lake = place.open("reader", read_only=True) if cold else warm
        look(lake.snapshot, journal, f"look {number}.{looks}", fresh=not cold)
        time.sleep(0.3)


def look(snapshot: Callable[[], quire.Snapshot], journal: Journal, id: str, *, fresh: bool) -> dict[str, list[str]]:
    """All three tables at one commit, as the lists of their markers in the order of rows."""
    with journal.transaction(id, fresh=fresh) as notes:
        now = snapshot()
        found = {t: now[t].scan(columns=["marker"]).to_arrow()["marker"].to_pylist() for t in TABLES}
        for table, markers in found.items():
            notes.read(table, markers)
        notes.ok()
    return found
