"""The lakes that are maltreated, with an object of every kind that a ledger stores."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import quire
from quire.store.address import is_temporary

KINDS = (
    "format",
    "hint",
    "branch hint",
    "genesis",
    "old slot",
    "side slot",
    "claim",
    "head slot",
    "side",
    "checkpoint",
    "branch",
    "branch slot",
    "gone branch",
    "tag",
    "note",
    "lease",
    "recovery",
)
"""What `Specimen.objects` has one of each: every kind of object that a ledger stores, where it matters by its place."""

CLEANED = ("tombstone", "tagged slot", "tagged checkpoint", "first kept slot", "floor checkpoint", "floor", "buried")
"""The same for what cleanup makes of a lake."""


def build(place: Path) -> dict[str, Any]:
    """A small lake with an object of every kind; what the operations below need to know of it."""
    lake = quire.create(place, author="ada", backfill=False)
    with lake.transaction("start") as tx:
        tx.create_table("people", [{"id": n, "name": f"p{n}"} for n in range(8)], key="id")
        tx.create_table("events", [{"id": 1, "v": 1.0}])
    with lake.transaction("change") as tx:
        tx["people"].upsert([{"id": 3, "name": "three"}])
        tx["events"].append([{"id": 2, "v": 2.0}])
    lake.tag("v1", message="a tag")
    trial = lake.create_branch("trial")
    for number in range(2):
        with trial.transaction(f"trial {number}") as tx:
            tx["events"].append([{"id": 50 + number, "v": 5.0}])
    lake.create_branch("gone")
    lake.delete_branch("gone")
    with lake.transaction("m" * 70_000, token=quire.token()) as tx:  # too long for its slot
        tx["people"].delete("id = 7")
    lake.claim()
    for number in range(29):  # enough for a checkpoint
        with lake.transaction(f"empty {number}", token=quire.StreamToken("stream", number)):
            pass
    with lake.transaction("newest") as tx:
        tx["events"].append([{"id": 3, "v": 3.0}])
        tx.create_table("late", [{"x": 1}])
    trial.close()
    lake.close()
    lake.recover()
    kept = _protectors(lake, place)
    lake.close()
    for path, body in kept.items():
        path.write_bytes(body)
    return {"newest": lake.head, "middle": "2.0", "time": lake.show("2.0").time}


def _protectors(lake: quire.Lake, place: Path) -> dict[Path, bytes]:
    """A lease and a writer's note, as they are while somebody reads and writes; afterwards they are gone."""
    folders = [place / "_quire" / name for name in ("leases", "writers")]
    with lake.snapshot().lease():
        tx = lake.transaction("for a long time")
        until = time.monotonic() + 30
        while not all(_written(folder) for folder in folders) and time.monotonic() < until:
            time.sleep(0.05)
        kept = {path: path.read_bytes() for folder in folders for path in _written(folder)}
        tx.discard()
    assert len(kept) == 2
    return kept


def _written(folder: Path) -> list[Path]:
    """What lies there and is whole: not the file that becomes a note once it is written."""
    return [path for path in folder.glob("*") if not is_temporary(path.name)]


def clean(place: Path) -> dict[str, Any]:
    """The same lake after cleanup: with floors and tombstones. What is there counts as old."""
    about = build(place)
    old = time.time() - 100_000
    for path in place.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
    with quire.open(place) as lake:
        lake.cleanup(keep=25, older_than=0, grace=0)
        return {**about, "newest": lake.head}
