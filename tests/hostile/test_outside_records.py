"""A record with a sound checksum that leads elsewhere: nobody writes there, whatever verb meets it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.laboratory.hostile import forge

import quire
from quire.errors import CorruptRecord, OutsideLake, QuireError

TARGETS: dict[str, tuple[Callable[[Path], str], type[QuireError]]] = {
    "an absolute path": (lambda victim: str(victim), OutsideLake),
    "a path that climbs": (lambda victim: f"../{victim.name}", CorruptRecord),
    "a path that climbs from inside": (lambda victim: f"tables/../../{victim.name}", CorruptRecord),
    "a file URI": (lambda victim: f"file://{victim}", CorruptRecord),
    "an absolute path that climbs": (lambda victim: f"{victim.parent}/x/../{victim.name}", CorruptRecord),
    "a double slash": (lambda victim: f"/{victim}", CorruptRecord),
    "another bucket": (lambda victim: "s3://somebody-elses-bucket/x.lance", OutsideLake),
}


def forged(place: Path, target: str) -> None:
    """A lake whose newest record moves the table `t` to another place, as if that was not backfilled yet."""
    with quire.create(place, backfill=False) as lake:
        lake.create_table("t", [{"id": 1}])
        with lake.transaction() as tx:
            tx["t"].append([{"id": 2}])
        log = place / "_quire/log" / lake._live.line.branch
    record = log / f"{2:020d}"
    version = str(lance.dataset(str(place.parent / "victim.lance")).versions()[0]["version"])
    changes = {"commits.0.changes.0.pin.location": target, "commits.0.changes.0.pin.version": version}
    record.write_bytes(forge(record.read_bytes(), {**changes, "commits.0.changes.0.pin.counter": 50}))


def append(lake: quire.Lake) -> Any:
    with lake.transaction() as tx:
        tx["t"].append([{"id": 3}])


def update(lake: quire.Lake) -> Any:
    with lake.transaction() as tx:
        tx["t"].update({"id": 7})


VERBS: dict[str, Callable[[quire.Lake], Any]] = {
    "append": append,
    "update": update,
    "backfill": lambda lake: lake.backfill(),
    "recover": lambda lake: lake.recover(),
    "optimize": lambda lake: lake.optimize(),
    "adopt": lambda lake: lake.adopt("t"),
    "cleanup": lambda lake: lake.cleanup(keep=1, older_than=0, grace=0),
    "take over": lambda lake: lake.take_over("t"),
    "verify": lambda lake: lake.verify(deep=True),
    "read": lambda lake: lake["t"].to_arrow(),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_a_forged_location_is_never_written(tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim.lance"
    lance.write_dataset(pa.table({"id": [100]}), str(victim))
    lance.write_dataset(pa.table({"id": [101]}), str(victim), mode="append")
    where, refusal = TARGETS[kind]
    forged(tmp_path / "lake", where(victim))
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in victim.rglob("*")}
    with quire.open(tmp_path / "lake") as lake:
        lake.flush()
        for verb in VERBS.values():
            with contextlib.suppress(QuireError):
                verb(lake)
        with pytest.raises(refusal):
            append(lake)
        lake.flush()
        assert lake.status()["pending_backfill"] == ["t"]
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in victim.rglob("*")} == before
