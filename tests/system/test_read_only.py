"""A lake that was opened read-only writes nothing, ever."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.system import ledgers
from tests.system.writers import TABLES, rows

import quire


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A lake with history, a branch, a tag, and tables whose plain heads are behind."""
    place = str(tmp_path / "lake")
    ledgers.create(place)
    with quire.open(place, backfill=False) as lake:
        lake.create_branch("other")
        lake.tag("v1")
        for seq in range(3):
            with lake.transaction(f"{seq}") as tx:
                for table in TABLES:
                    tx[table].append(rows(1, seq))
        with lake.transaction("index") as tx:
            tx["debits"].create_index("seq")
    return place


def listing(uri: str) -> dict[str, tuple[int, int, int]]:
    """Every file and folder with its size, its time of change and its identity."""
    found = {}
    for folder, folders, files in os.walk(uri):
        for name in (".", *folders, *files):
            about = os.stat(os.path.join(folder, name))
            found[os.path.normpath(os.path.join(folder, name))] = (about.st_size, about.st_mtime_ns, about.st_ino)
    return found


def read_everything(lake: quire.Lake) -> None:
    snapshot = lake.snapshot()
    for table in snapshot.tables():
        snapshot[table].to_arrow()
        snapshot[table].describe()
        snapshot[table].scan(filter="seq = 1", columns=["amount"], limit=1).to_pylist()
        snapshot[table].count("seq = 1")
    snapshot.sql("select * from debits join credits using (writer, seq)").to_arrow()
    for commit in lake.log():
        lake.at(commit=commit.id).tables()
        lake.show(commit.id)
    lake.at(tag="v1")["debits"].to_arrow()
    lake.at(time=snapshot.time)["debits"].to_arrow()
    list(lake.diff("1.0"))
    lake.branch("other").snapshot()["debits"].to_arrow()
    lake.branches()
    lake.tags()
    lake.status()
    lake.foreign()
    lake.refresh()
    lake.flush()
    lake.close()


def test_reading_everything_changes_no_file_and_no_folder(uri: str) -> None:
    before = listing(uri)

    with quire.open(uri, read_only=True) as lake:
        read_everything(lake)
        assert lake.status()["pending_backfill"] == sorted(TABLES)

    assert listing(uri) == before


def test_a_writer_that_reads_does_finish_the_backfill(uri: str) -> None:
    before = listing(uri)

    with quire.open(uri) as lake:
        lake.flush()

    assert listing(uri) != before


def test_opening_what_is_not_there_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(quire.errors.LakeNotFound):
        quire.open(tmp_path / "nowhere", read_only=True)

    assert list(tmp_path.iterdir()) == []


WRITES: dict[str, Any] = {
    "transaction": lambda lake: lake.transaction("no"),
    "transact": lambda lake: lake.transact(lambda tx: None),
    "create_table": lambda lake: lake.create_table("new", [{"id": 1}]),
    "revert": lambda lake: lake.revert("2.0"),
    "create_branch": lambda lake: lake.create_branch("new"),
    "delete_branch": lambda lake: lake.delete_branch("other"),
    "fast_forward": lambda lake: lake.fast_forward("other"),
    "tag": lambda lake: lake.tag("new"),
    "delete_tag": lambda lake: lake.delete_tag("v1"),
    "backfill": lambda lake: lake.backfill(),
    "adopt": lambda lake: lake.adopt("debits"),
    "write on a branch": lambda lake: lake.branch("other").transaction("no"),
}


@pytest.mark.parametrize("verb", WRITES)
def test_every_verb_that_writes_is_refused(uri: str, verb: str) -> None:
    before = listing(uri)
    lake = quire.open(uri, read_only=True)

    with pytest.raises(quire.errors.ReadOnly, match="read-only"):
        WRITES[verb](lake)

    lake.close()
    assert listing(uri) == before
