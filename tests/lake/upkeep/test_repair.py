"""Lakes into which an earlier version wrote values that no version reads: they say so, and a repair loses nothing.

Such a value can no longer be written by a verb, so the bytes are put there behind the library's back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.laboratory.hostile import forge

import quire
from quire.errors import CorruptRecord
from quire.ledger.manifest.table import KEY, ManifestTable, schema
from quire.store import Store

ROWS = [{"id": n, "v": f"v{n}"} for n in range(4)]

RECORDS: dict[str, dict[str, Any]] = {
    "a position beyond the last": {"commits.0.stream.sequence": 2**64 - 1},
    "a position that is true": {"commits.0.stream.sequence": True},
    "a scope that is a number": {"commits.0.stream.scope": 7},
    "an author that is a number": {"commits.0.author": 5},
    "an author that is nothing": {"commits.0.author": None},
    "a message that is a list": {"commits.0.message": ["m"]},
    "rules that are a number": {"commits.0.changes.0.info.rules": 5},
    "rules that are an object": {"commits.0.changes.0.info.rules": {"a": {"b": 1}}},
    "a validator that is a number": {"commits.0.changes.0.info.validator": 3},
    "row ids that are a word": {"commits.0.changes.0.info.stable_row_ids": "yes"},
}


def build(uri: Path, ledger: Any = "log") -> None:
    """Three commits with rows. The second has a token and makes a table, so it holds everything that callers give."""
    with quire.create(uri, ledger=ledger, author="ada", backfill=False) as lake:
        lake.create_table("t", ROWS[:2], key="id")
        with lake.transaction("second", token=quire.StreamToken("import", 1)) as tx:
            tx.create_table("u", ROWS)
        with lake.transaction("third") as tx:
            tx["t"].append(ROWS[2:])


def slot(uri: Path, number: int) -> Path:
    [found] = uri.glob(f"_quire/log/*/{number:020d}")
    return found


def rewrite(uri: Path, ledger: str, changes: dict[str, Any]) -> None:
    """Change values of the record in slot 2, as a writer that does not look at them would have written it."""
    if ledger == "log":
        path = slot(uri, 2)
        path.write_bytes(forge(path.read_bytes(), changes))
        return
    import pyarrow as pa

    table = ManifestTable(Store.open(uri))
    [row] = [r for r in table.rows([f.name for f in schema()], "slot = 2")]
    row.pop("_rowid")
    row["record"] = forge(row["record"].encode(), changes).decode()
    assert row[KEY]
    table.replace(pa.Table.from_pylist([row], schema=schema()))


def clean(uri: Path) -> int:
    """Clean up as if everything had been written long ago; how many slots were buried."""
    old = time.time() - 100_000
    for path in uri.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
    with quire.open(uri) as lake:
        return lake.cleanup(keep=1, older_than=0, grace=0).slots


def check_whole(uri: Path) -> None:
    """Every commit and every row is there, and the lake goes on."""
    with quire.open(uri) as lake:
        assert [c.id for c in lake.log()] == ["3.0", "2.0", "1.0", "0.0"]
        assert sorted(lake["t"].to_pylist(), key=lambda r: r["id"]) == ROWS
        assert sorted(lake.at(commit="2.0")["u"].to_pylist(), key=lambda r: r["id"]) == ROWS
        assert lake.verify().ok
        with lake.transaction("fourth") as tx:
            tx["t"].upsert([{"id": 0, "v": "new"}])
    assert clean(uri) >= 0
    assert quire.open(uri)["t"].count() == 4


CASES = [(kind, "log") for kind in RECORDS] + [("a position beyond the last", "manifest")]


@pytest.mark.parametrize(("kind", "ledger"), CASES)
def test_a_record_with_a_value_that_no_version_reads_is_repaired(tmp_path: Path, kind: str, ledger: str) -> None:
    uri = tmp_path / "lake"
    build(uri, ledger)
    rewrite(uri, ledger, RECORDS[kind])
    with pytest.raises(CorruptRecord, match="quire repair") as caught:
        quire.open(uri)
    assert caught.value.repairable

    planned = quire.repair(uri, dry_run=True)
    assert (len(planned.repairs), planned.ok) == (1, True)
    with pytest.raises(CorruptRecord):
        quire.open(uri)
    done = quire.repair(uri)
    assert [r.to_dict() for r in done.repairs] == [r.to_dict() for r in planned.repairs]
    assert list(done.repairs[0].changes) == [next(iter(RECORDS[kind])).replace(".0", "[0]")]
    check_whole(uri)
    again = quire.repair(uri)
    assert not again.repairs


def test_what_was_used_of_a_stream_stays_used(tmp_path: Path) -> None:
    uri = tmp_path / "lake"
    build(uri)
    rewrite(uri, "log", RECORDS["a position beyond the last"])
    quire.repair(uri)
    with quire.open(uri) as lake:
        with lake.transaction("again", token=quire.StreamToken("import", 2**62)) as tx:
            tx["t"].append([{"id": 9, "v": "twice"}])
        assert tx.receipt is not None
        assert tx.receipt.repeated
        assert lake["t"].count() == 4


def test_a_tag_without_a_message_is_repaired(tmp_path: Path) -> None:
    uri = tmp_path / "lake"
    build(uri)
    with quire.open(uri) as lake:
        lake.tag("v1", at="2.0", message="x")
        [path] = uri.glob("_quire/refs/tag.v1/*")
        path.write_bytes(forge(path.read_bytes(), {"message": None}))
        for call in (lake.tags, lambda: lake.at(tag="v1"), lambda: lake.cleanup(keep=1, older_than=0, grace=0)):
            with pytest.raises(CorruptRecord, match="quire repair"):
                call()
        [found] = lake.repair().repairs
        assert (found.changes, found.repaired) == ({"message": (None, "")}, True)
        assert lake.tags()["v1"].message == ""
        lake.cleanup(keep=1, older_than=0, grace=0)
        assert lake.at(tag="v1")["u"].count() == 4


def test_an_object_that_is_too_large_to_be_read_is_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = tmp_path / "lake"
    build(uri)
    with quire.open(uri) as lake, lake.transaction("m" * 200_000) as tx:
        tx["t"].append([{"id": 9, "v": "v9"}])
    monkeypatch.setattr("quire.store.local.LARGEST", 100_000)  # so that no test needs a gigabyte
    with pytest.raises(CorruptRecord, match="quire repair"):
        quire.open(uri)
    [found] = quire.repair(uri).repairs
    assert "larger" in found.problem or "more than" in found.problem
    with quire.open(uri) as lake:
        assert lake["t"].count() == 5
        said = lake.show("4.0").message
        assert said.startswith("mmmm")
        assert said.endswith("… (cut by a repair; it had 200000 characters)")


def test_a_checkpoint_with_such_a_value_is_repaired(tmp_path: Path) -> None:
    uri = tmp_path / "lake"
    build(uri)
    with quire.open(uri, backfill=False) as lake:
        for n in range(33):
            with lake.transaction(f"empty {n}", token=quire.StreamToken("more", n)):
                pass
        lake.flush()
    [path] = uri.glob("_quire/log/*/checkpoint-*")
    path.write_bytes(forge(path.read_bytes(), {"streams.import": 2**63}))
    with pytest.raises(CorruptRecord, match="quire repair"):
        quire.open(uri)
    assert quire.repair(uri).ok
    assert quire.open(uri)["t"].count() == 4


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda body: body[:-10],
    "a flipped bit": lambda body: body.replace(b"second", b"sfcond"),
    "another chain": lambda body: forge(body, {"previous": 7}),
    "a pin without a place": lambda body: forge(body, {"commits.0.changes.0.pin.location": 7}),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_damaged_is_reported_and_left_alone(tmp_path: Path, kind: str) -> None:
    uri = tmp_path / "lake"
    build(uri)
    path = slot(uri, 2)
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    before = {p: p.read_bytes() for p in uri.rglob("*") if p.is_file()}
    with pytest.raises(CorruptRecord, match="backup"):
        quire.open(uri)
    done = quire.repair(uri)
    assert [(r.object, r.repaired) for r in done.repairs] == [(path.relative_to(uri).as_posix(), False)]
    assert not done.ok
    assert {p: p.read_bytes() for p in uri.rglob("*") if p.is_file()} == before


def test_a_sound_lake_needs_no_repair_and_is_not_touched(tmp_path: Path) -> None:
    uri = tmp_path / "lake"
    build(uri)
    before = {p: p.read_bytes() for p in uri.rglob("*") if p.is_file()}
    done = quire.repair(uri)
    assert (done.ok, done.repairs, done.looked) == (True, [], 4)
    assert {p: p.read_bytes() for p in uri.rglob("*") if p.is_file()} == before


def test_a_repair_beside_a_writer_and_after_a_cleanup_changes_nothing_else(tmp_path: Path) -> None:
    uri = tmp_path / "lake"
    build(uri)
    held = quire.open(uri, backfill=False)  # it has read the record as it was
    rewrite(uri, "log", RECORDS["an author that is a number"])
    with held.transaction("beside") as tx:
        tx["t"].append([{"id": 7, "v": "v7"}])
    quire.repair(uri)
    with held.transaction("beside") as tx:
        tx["t"].append([{"id": 8, "v": "v8"}])
    held.close()
    with quire.open(uri) as lake:
        assert lake["t"].count() == 6
    assert clean(uri) == 5
    tombstone = slot(uri, 2).read_bytes()
    assert b"tombstone" in tombstone
    assert not quire.repair(uri).repairs
    assert slot(uri, 2).read_bytes() == tombstone
