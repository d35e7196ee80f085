"""A folder of a remote store, as a store of its own over the same connections."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from quire.errors import CorruptRecord, NotFound
from quire.store import Outcome, Store
from quire.testing.s3 import SeaweedFS


@pytest.mark.s3
def test_a_folder_is_the_store_that_opens_there(s3: SeaweedFS) -> None:
    root = Store.open(s3.uri("prefixed"), s3.options)
    below, opened = root.below("tables/a"), Store.open(s3.uri("prefixed/tables/a"), s3.options)
    assert below.uri == opened.uri
    root.put("tables/ab/x", b"a neighbour")
    below.put("x", b"0123456789")
    assert below.create("d/y", b"y", mine=lambda found: found == b"y").outcome is Outcome.COMMITTED
    assert below.create("d/y", b"z", mine=lambda found: found == b"z").outcome is Outcome.CONFLICT
    assert opened.get("x") == root.get("tables/a/x") == below.get("x") == b"0123456789"
    assert below.get_range("x", 2, 3) == b"234"
    stat = below.stat("x")
    assert stat is not None
    assert (stat.key, stat.size) == ("x", 10)
    assert [entry.key for entry in below.list("")] == [entry.key for entry in opened.list("")] == ["d/y", "x"]
    assert [entry.key for entry in below.list("d")] == ["d/y"]
    assert [entry.key for entry in below.list("", after="d/y")] == ["x"]
    below.delete("x")
    with pytest.raises(NotFound, match="'x' does not exist in s3://lake/prefixed/tables/a"):
        below.get("x")


@pytest.mark.s3
def test_a_folder_makes_no_client(s3: SeaweedFS) -> None:
    root = Store.open(s3.uri("prefixed"), s3.options)
    began = time.process_time()
    for number in range(200):
        root.below(f"tables/{number}")
    assert time.process_time() - began < 0.2, "two hundred clients take half a second of CPU"


def test_a_folder_of_a_disk_is_a_store_too(tmp_path: Path) -> None:
    below = Store.open(tmp_path).below("tables/a")
    below.put("x", b"1")
    assert (tmp_path / "tables" / "a" / "x").read_bytes() == b"1"


def test_a_location_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecord, match="not valid"):
        Store.open(tmp_path).below("../other")
