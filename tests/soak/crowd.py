"""Writers that all append to one table. Each says in a file of its own what was acknowledged, as soon as it was."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import quire

TABLE = "shared"
SCHEMA = pa.schema([("marker", pa.string())])
WITHOUT_END = 1_000_000


@dataclass(frozen=True)
class Place:
    uri: str
    options: dict[str, str] | None
    folder: str
    """Where the writers tell."""

    def path(self, name: str) -> Path:
        return Path(self.folder) / name

    def open(self, author: str) -> quire.Lake:
        return quire.open(self.uri, storage_options=self.options, author=author, backfill=False)


def create(place: Place) -> None:
    with quire.create(place.uri, storage_options=place.options, backfill=False) as lake:
        lake.create_table(TABLE, schema=SCHEMA)


def write(number: int, place: Place, count: int) -> None:
    """`count` rows, one commit each; a process that takes the place of a killed one begins with numbers of its own."""
    life = uuid.uuid4().hex[:8]
    lake = place.open(f"writer {number}")
    assert lake._live.offers.on, "this process was told not to share slots"
    lake[TABLE].to_arrow()  # so that nobody loads libraries while others write
    place.path(f"ready-{number}").touch()
    while not place.path("go").exists():
        time.sleep(0.01)
    began = time.monotonic()
    with place.path(f"told-{number}").open("a") as told:
        for seq in range(count):
            marker = f"{number}.{life}.{seq}"
            with lake.transaction(marker) as tx:
                tx[TABLE].append(pa.table({"marker": [marker]}, schema=SCHEMA))
            told.write(f"{marker} {tx.receipt.commit}\n")
            told.flush()
    place.path(f"done-{number}").write_text(str(time.monotonic() - began))
    lake.close()


def told(place: Place, number: int) -> dict[str, str]:
    """The commits that were acknowledged to a writer, by what they wrote."""
    path = place.path(f"told-{number}")
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return dict(line.split() for line in lines if line.endswith("\n"))
