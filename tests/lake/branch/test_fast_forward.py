"""What a fast-forward says it did, and that the parent it names can be followed for as long as the commit is kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import quire
from quire.errors import SnapshotExpired


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    """Two commits on `exp`, fast-forwarded to, and one more commit on main."""
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", [{"id": 1}])
    exp = lake.create_branch("exp")
    for n in (2, 3):
        with exp.transaction(f"on exp {n}") as tx:
            tx["t"].append([{"id": n}])
    receipt = lake.fast_forward("exp")
    assert (receipt.commit, receipt.adopted) == ("2.0", "exp:3.0")
    with lake.transaction("after") as tx:
        tx["t"].append([{"id": 4}])
    return lake


def clean(lake: quire.Lake, keep: int) -> quire.Lake:
    """Clean up as if everything had been written long ago."""
    lake.close()
    old = time.time() - 100_000
    for path in Path(lake.uri).rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
    with quire.open(lake.uri) as fresh:
        fresh.cleanup(keep=keep, older_than=0, grace=0)
    return quire.open(lake.uri)


def parent(lake: quire.Lake) -> str:
    entry = lake.show("2.0")
    assert entry.adopts is not None
    assert entry.parents == ("1.0", entry.adopts)
    assert entry.to_dict()["adopts"] == entry.adopts
    return entry.adopts


def check_parent(lake: quire.Lake) -> None:
    at = parent(lake)
    assert lake.show(at).message == "on exp 3"
    assert sorted(row["id"] for row in lake.at(commit=at)["t"].to_pylist()) == [1, 2, 3]
    assert [(d.name, d.kind) for d in lake.diff(at, "2.0")] == []


def test_the_log_shows_one_commit_and_the_branch_keeps_its_own(lake: quire.Lake) -> None:
    assert [c.message for c in lake.log()][:3] == ["after", "fast-forward to exp at 3.0", "create t"]
    assert [c.message for c in lake.branch("exp").log()][:2] == ["on exp 3", "on exp 2"]
    check_parent(lake)


def test_the_parent_is_there_after_the_branch_was_deleted(lake: quire.Lake) -> None:
    lake.delete_branch("exp")
    check_parent(lake)
    check_parent(quire.open(lake.uri, read_only=True))


def test_nothing_new_can_keep_a_commit_of_a_deleted_branch(lake: quire.Lake) -> None:
    """It is there, and nobody says that it was cleaned up."""
    at = parent(lake)
    lake.tag("known", at=at)
    lake.delete_branch("exp")
    lake.tag("again", at=at)  # the other tag keeps it
    lake.delete_tag("known")
    lake.delete_tag("again")
    for keep in (
        lambda: lake.tag("late", at=at),
        lambda: lake.create_branch("late", at=at),
        lambda: lake.at(commit=at).lease(),
    ):
        with pytest.raises(SnapshotExpired, match="branch of commit 3.0 was deleted") as caught:
            keep()
        assert "same" in (caught.value.next or "")
    check_parent(lake)
    lake.tag("late", at="2.0")
    assert lake.at(tag="late")["t"].count() == 3


def test_the_parent_stays_as_long_as_the_commit_and_no_longer(lake: quire.Lake) -> None:
    at = parent(lake)
    lake.delete_branch("exp")
    lake = clean(lake, keep=3)
    check_parent(lake)
    assert lake.verify().ok
    for n in range(5, 8):
        with lake.transaction(f"more {n}") as tx:
            tx["t"].append([{"id": n}])
    lake = clean(lake, keep=2)
    for call in (lambda: lake.show("2.0"), lambda: lake.show(at), lambda: lake.at(commit=at)["t"]):
        with pytest.raises(SnapshotExpired, match="cleaned up"):
            call()
    assert lake["t"].count() == 7


def test_the_parent_stays_when_the_branch_goes_on(lake: quire.Lake) -> None:
    exp = lake.branch("exp")
    for n in range(10, 16):
        with exp.transaction(f"later {n}") as tx:
            tx["t"].append([{"id": n}])
    check_parent(clean(lake, keep=3))


def test_a_message_and_metadata_of_ones_own(lake: quire.Lake) -> None:
    exp = lake.create_branch("next")
    with exp.transaction("on next") as tx:
        tx["t"].append([{"id": 9}])
    lake.fast_forward("next", "release", metadata={"by": "test"})
    assert (lake.log()[0].message, lake.log()[0].metadata) == ("release", {"by": "test"})
