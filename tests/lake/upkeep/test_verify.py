"""Verify finds every kind of damage, names it, and finds nothing in a sound lake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import msgspec
import pyarrow as pa
import pytest

import quire
from quire.ledger import State, decode, encode


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    """A lake with most of what a lake can hold, backfilled."""
    made = quire.create(tmp_path / "lake")
    with made.transaction("start") as tx:
        tx.create_table("people", [{"id": n, "name": f"p{n}"} for n in range(20)], key="id")
        tx.create_table("events", [{"id": 1, "v": 1.0}])
    with made.transaction("change") as tx:
        tx["people"].upsert([{"id": 3, "name": "three"}])
        tx["people"].create_index("id")
        tx["events"].append([{"id": 2, "v": 2.0}])
    with made.transaction("columns") as tx:
        tx["events"].add_columns({"w": "v * 2"})
        tx["events"].drop_columns("v")
    made.tag("t")
    branch = made.create_branch("b")
    with branch.transaction("aside") as tx:
        tx["events"].delete("id = 1")
    external = str(tmp_path / "external.lance")
    lance.write_dataset(pa.table({"x": [1, 2]}), external)
    with made.transaction("outside") as tx:
        tx.register_table("outside", external)
    for number in range(40):
        with made.transaction(f"more {number}") as tx:
            tx["events"].append([{"id": 100 + number, "w": 0.0}])
    made.revert("4.0")
    made.flush()
    made.backfill()
    return made


def folder(lake: quire.Lake, table: str) -> Path:
    return Path(lake.uri) / lake[table].describe()["location"]


def log(lake: quire.Lake) -> Path:
    return Path(lake.uri) / "_quire" / "log" / lake._core.about.main


def test_a_sound_lake_has_nothing_wrong_and_everything_was_looked_at(lake: quire.Lake) -> None:
    told: dict[str, int] = {}

    def progress(what: str, done: int, total: int | None) -> None:
        assert done >= told.get(what, 0)
        told[what] = done

    found = quire.open(lake.uri, read_only=True).verify(progress)
    assert found.findings == []
    assert found.ok
    assert (found.branches, found.records) == (2, 47)
    assert found.checkpoints >= 1
    assert told == {"records": found.records, "pins": found.pins, "files": found.files, "read": found.read}
    assert found.read > 0  # deletion vectors: the manifest does not say their size
    assert found.bytes > 0


def test_verify_writes_nothing(lake: quire.Lake) -> None:
    def listing() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in Path(lake.uri).rglob("*")}

    lake.flush()
    before = listing()
    quire.open(lake.uri, read_only=True).verify()
    assert listing() == before


def remove(path: Path) -> None:
    path.unlink()


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(b"{" + path.read_bytes()[:-9])


def manifest(lake: quire.Lake) -> str:
    """The manifest that commit 2.0 pinned for people."""
    state = lake.at(commit="2.0")._state.by_name("people")
    assert state is not None
    return f"d{state.pin.version}.manifest"


def first(folder: Path, pattern: str) -> Path:
    return min(folder.glob(pattern))


DAMAGE: dict[str, tuple[Callable[[quire.Lake], Path], Callable[[Path], None], str]] = {
    "data file gone": (lambda lake: first(folder(lake, "people"), "data/*.lance"), remove, "file"),
    "data file shorter": (lambda lake: first(folder(lake, "events"), "data/*.lance"), shorten, "file"),
    "deletion vector gone": (lambda lake: first(folder(lake, "people"), "_deletions/*"), remove, "file"),
    "deletion vector shorter": (lambda lake: first(folder(lake, "people"), "_deletions/*"), shorten, "data"),
    "deletion vector empty": (lambda lake: first(folder(lake, "people"), "_deletions/*"), empty, "file"),
    "staged manifest gone": (lambda lake: folder(lake, "people") / "_versions" / manifest(lake), remove, "file"),
    "registered data gone": (lambda lake: first(Path(lake.uri).parent, "external.lance/data/*"), remove, "file"),
    "record gone": (lambda lake: log(lake) / f"{7:020d}", remove, "chain"),
    "record garbage": (lambda lake: log(lake) / f"{9:020d}", garbage, "record"),
    "checkpoint garbage": (lambda lake: first(log(lake), "checkpoint-*"), garbage, "checkpoint"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_and_named(lake: quire.Lake, damage: str) -> None:
    where, break_it, check = DAMAGE[damage]
    path = where(lake)
    break_it(path)
    found = lake.verify()
    assert not found.ok
    assert check in {f.check for f in found.findings}
    named = {f.where for f in found.findings if f.check == check}
    if check in ("file", "data", "checkpoint"):
        assert any(place.endswith(path.name) for place in named)


@pytest.mark.parametrize("harm", ["remove", "shorten"])
def test_one_file_of_an_index_is_enough(lake: quire.Lake, harm: str) -> None:
    files = sorted(folder(lake, "people").glob("_indices/*/*"))
    assert len(files) > 1
    for file in files:
        whole = file.read_bytes()
        (remove if harm == "remove" else shorten)(file)
        [finding] = lake.verify().findings
        assert finding.check == "file"
        assert file.parent.name in finding.where
        file.write_bytes(whole)
    assert lake.verify().ok


def test_an_index_that_is_gone_is_found(lake: quire.Lake) -> None:
    for file in folder(lake, "people").glob("_indices/*/*"):
        file.unlink()
    found = lake.verify()
    assert [f.check for f in found.findings] == ["file"]
    assert "_indices/" in found.findings[0].where


def test_a_checkpoint_that_is_not_what_a_replay_gives_is_found(lake: quire.Lake) -> None:
    path = first(log(lake), "checkpoint-*")
    state = decode(path.read_bytes(), State, "checkpoint")
    gone = dict(list(state.tables.items())[1:])
    path.write_bytes(encode(msgspec.structs.replace(state, tables=gone)))
    [finding] = lake.verify().findings
    assert (finding.check, finding.message) == ("checkpoint", "It differs from a replay of the log.")


def test_plain_maintenance_on_a_table_is_found(lake: quire.Lake) -> None:
    plain = lance.dataset(str(folder(lake, "events")))
    plain.optimize.compact_files()
    checks = {f.check for f in lake.verify().findings}
    assert checks == {"head"}


def test_a_head_that_is_not_the_commit_it_claims_to_be_is_found(lake: quire.Lake) -> None:
    plain = lance.dataset(str(folder(lake, "people")))
    claims = plain.read_transaction(plain.version).transaction_properties
    rows = pa.table({"id": [999], "name": ["x"]})
    lance.write_dataset(rows, str(folder(lake, "people")), mode="append", transaction_properties=claims)
    [finding] = lake.verify().findings
    assert (finding.check, "other fragments" in finding.message) == ("head", True)


def test_a_lake_that_is_not_backfilled_yet_is_sound(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    with lake.transaction() as tx:
        tx["t"].append([{"id": 2}])
    assert lake.verify().findings == []


def test_a_lake_in_memory_is_verified(tmp_path: Path) -> None:
    lake = quire.create(f"memory://{tmp_path.name}")
    lake.create_table("t", [{"id": 1}])
    assert lake.verify().ok
