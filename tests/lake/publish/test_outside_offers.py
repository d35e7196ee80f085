"""Offers that change a table outside the lake: only a handle that may write there takes them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.lake.crowd import wait_for

import quire
from quire.errors import OutsideLake
from quire.ledger.offers import FOLDER


def opened(uri: str, round: float, **options: Any) -> quire.Lake:
    """A handle that expects rivals, each of which takes so many seconds for its turn."""
    lake = quire.open(uri, backfill=False, offers=True, **options)
    lake._live.offers.rivals, lake._live.offers.round = 8.0, round
    lake._live.offers._until = float("inf")
    return lake


@pytest.mark.parametrize("external", [None, "allow"])
def test_an_outside_table_is_written_by_takers_that_may(tmp_path: Path, external: Any) -> None:
    place, uri = tmp_path / "outside.lance", str(tmp_path / "lake")
    lance.write_dataset(pa.table({"n": [0]}), str(place))
    with quire.create(uri, backfill=False, external="allow") as lake, lake.transaction("tables") as tx:
        tx.create_table("inside", [{"n": 0}])
        tx.register_table("outside", str(place))
    owner, taker = opened(uri, 1e6, external="allow"), opened(uri, 1e-9, external=external)
    told: list[quire.Receipt] = []

    def offer() -> None:
        with owner.transaction("offered") as tx:
            tx["outside"].append([{"n": 1}])
        told.append(tx.receipt)

    thread = threading.Thread(target=offer)
    thread.start()
    wait_for(lambda: any(owner._core.store.list(FOLDER)))
    with quire.open(uri, backfill=False, offers=False, external="allow") as rival, rival.transaction("rival") as tx:
        tx["outside"].append([{"n": 2}])
    files = {path for path in place.rglob("*") if path.is_file()}
    with taker.transaction("taker") as tx:
        tx["inside"].append([{"n": 3}])
    written = {path for path in place.rglob("*") if path.is_file()} - files
    if external is None:
        assert not written
        with pytest.raises(OutsideLake), taker.transaction("taker") as tx:
            tx["outside"].append([{"n": 4}])
        with opened(uri, 1e-9, external="allow") as other, other.transaction("other taker") as tx:
            tx["inside"].append([{"n": 5}])
    else:
        assert written, "its manifest was made anew, behind the rival's rows"
    thread.join(30)
    assert [receipt.commit for receipt in told] == ["4.1" if external is None else "3.1"]
    assert sorted(owner.snapshot()["outside"].to_arrow()["n"].to_pylist()) == [0, 1, 2]
