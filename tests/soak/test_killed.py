"""SIGKILL at random moments under load: nothing that was acknowledged is lost, and nothing is half visible."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from pathlib import Path

import lance
import pytest
from tests.soak import killed
from tests.soak.children import Children

import quire
from quire.testing.history import Journal, check, load
from quire.testing.processes import context
from quire.testing.s3 import SeaweedFS

WRITERS = 8


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.timeout(1200)
def test_writers_killed_at_random_lose_nothing_and_leave_nothing_half_done(
    s3: SeaweedFS, tmp_path: Path, seconds: float
) -> None:
    place = killed.Place(s3.uri(uuid.uuid4().hex), s3.options, str(tmp_path))
    killed.create(place)

    kills = run(place, seconds)

    told = [line for n in range(WRITERS) for line in killed.notes(place.path(f"writer-{n}.jsonl"))]
    counts = Counter(line["what"] for line in told)
    repeated = sum(line["what"] == "told" and line["repeated"] for line in told)
    print(f"\n{kills} kills, {counts['life']} lives, {counts['ok']} commits acknowledged, {repeated} found done before")
    upkeep = killed.notes(place.path("tidy.jsonl"))
    deleted, revoked = (sum(line.get(what, 0) for line in upkeep) for what in ("files", "revoked"))
    print(f"{len(upkeep) // 2} cleanups deleted {deleted} files and revoked {revoked} writers")
    with place.open("afterwards") as lake:
        last = Journal(place.path("last.jsonl"), "last look")
        final = killed.look(lake.snapshot, last, "last look", fresh=True)
        settle(lake)
        check_that_nothing_is_lost_or_doubled(final, {line["id"] for line in told if line["what"] == "ok"})
        check_that_no_reader_saw_half(tmp_path)
        check_plain_heads(lake, final)
        verified = lake.verify()
    print(verified.to_dict())
    assert verified.ok, verified.findings

    # A run in which nobody was hit in the middle of something proves nothing.
    assert kills >= seconds / 3
    assert counts["ok"] >= seconds / 4
    assert len(final["one"]) >= counts["ok"]
    if seconds >= 60:
        assert repeated >= 1


def run(place: killed.Place, seconds: float) -> int:
    """Kill and start writers until time is up, and cleanup too, beside a reader; how many kills there were."""
    kills, chance = 0, random.Random()
    start = context("tests.soak.killed")
    with (
        Children(start, killed.write, [(place,)] * WRITERS) as writers,
        Children(start, killed.read, [(place,)]) as reader,
        Children(start, killed.tidy, [(place,)]) as upkeep,
    ):
        until = time.monotonic() + 60
        while not all(place.path(f"writer-{n}.jsonl").exists() for n in range(WRITERS)) and time.monotonic() < until:
            time.sleep(0.1)
        began = time.monotonic()
        while time.monotonic() < began + seconds or (
            time.monotonic() < began + 10 * seconds and not has_worked(place, seconds)
        ):
            time.sleep(chance.uniform(0.05, 1.0))
            kills += writers.revive()
            victims, number = (upkeep, 0) if chance.random() < 0.05 else (writers, chance.randrange(WRITERS))
            kills += victims.kill(number)
            victims.start(number)
        place.path("stop").touch()
        for children in (writers, reader, upkeep):
            children.join(120)
        assert writers.failed + reader.failed + upkeep.failed == []
    return kills


def has_worked(place: killed.Place, seconds: float) -> bool:
    """Whether enough was done to prove something, however slow the machine is."""
    told = [line["what"] for n in range(WRITERS) for line in killed.notes(place.path(f"writer-{n}.jsonl"))]
    looks = sum(line["what"] == "ok" for line in killed.notes(place.path("reader-0.jsonl")))
    return told.count("ok") >= seconds / 4 and looks >= 5


def settle(lake: quire.Lake) -> None:
    """What a crash leaves to do is done by recovery."""
    lake.recover()
    assert lake.status()["pending_backfill"] == []


def check_that_nothing_is_lost_or_doubled(final: dict[str, list[str]], acknowledged: set[str]) -> None:
    for table, markers in final.items():
        assert len(markers) == len(set(markers)), f"{table} holds a marker twice"
        assert acknowledged <= set(markers), f"{table} has lost {sorted(acknowledged - set(markers))}"
        assert markers == final["one"]


def check_that_no_reader_saw_half(folder: Path) -> None:
    history = load(sorted(folder.glob("*.jsonl")))
    report = check(history)
    print(report)
    assert report.ok, str(report)
    looks = [t for t in history if str(t.id).startswith("look")]
    assert len(looks) >= 5
    for one in looks:
        assert len({op.value for op in one.ops}) == 1, f"{one.id} saw different commits in different tables"


def check_plain_heads(lake: quire.Lake, final: dict[str, list[str]]) -> None:
    snapshot = lake.snapshot()
    for table, markers in final.items():
        if table in killed.DELTA:
            entry = lake._live.state.by_name(table)
            assert entry is not None
            format_ = lake._core.format("delta")
            assert format_.head_differs(entry.pin) is None
            assert format_.is_at(entry.pin, format_.head(entry.pin).version, "")
            continue
        place = f"{lake.uri}/{snapshot[table].describe()['location']}"
        plain = lance.dataset(place, storage_options=lake._core.store.options)
        assert plain.to_table(columns=["marker"])["marker"].to_pylist() == markers
