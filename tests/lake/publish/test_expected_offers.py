"""Offers whose writer expects a version of a table: nobody takes them once the table has moved."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lake.crowd import wait_for

import quire
from quire.errors import ExpectationFailed
from quire.ledger.offers import FOLDER


@pytest.fixture
def uri(tmp_path: Path) -> str:
    place = str(tmp_path / "lake")
    with quire.create(place, backfill=False) as lake, lake.transaction("tables") as tx:
        tx.create_table("bound", [{"n": 0}])
        tx.create_table("free", [{"n": 0}])
    return place


def opened(uri: str, round: float) -> quire.Lake:
    """A handle that expects rivals, each of which takes so many seconds for its turn."""
    lake = quire.open(uri, backfill=False, offers=True)
    lake._live.offers.rivals, lake._live.offers.round = 8.0, round
    lake._live.offers._until = float("inf")
    return lake


class Offered:
    """A commit that expects version 1 of a table to which it adds a row, and waits to be taken along."""

    def __init__(self, uri: str) -> None:
        self.lake = opened(uri, 1e6)
        self.told: Any = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_for(lambda: any(self.lake._core.store.list(FOLDER)))

    def _run(self) -> None:
        try:
            with self.lake.transaction("offered", expect={"bound": 1}) as tx:
                tx["bound"].append([{"n": 1}])
            self.told = tx.receipt
        except Exception as error:
            self.told = error

    def end(self) -> Any:
        self._thread.join(30)
        assert not self._thread.is_alive(), "the owner waits for ever"
        return self.told


@pytest.fixture
def taker(uri: str) -> Iterator[quire.Lake]:
    with opened(uri, 1e-9) as lake:
        yield lake


def rows(lake: quire.Lake, table: str) -> list[int]:
    return sorted(row["n"] for row in lake.snapshot()[table].to_arrow().to_pylist())


def add(lake: quire.Lake, table: str) -> quire.Receipt:
    with lake.transaction("theirs") as tx:
        tx[table].append([{"n": 2}])
    return tx.receipt


def test_it_is_taken_while_its_table_stands(uri: str, taker: quire.Lake) -> None:
    offered = Offered(uri)
    assert add(taker, "free").commit == "2.0"
    assert offered.end().commit == "2.1"
    assert rows(taker, "bound") == [0, 1]


def test_it_is_left_where_the_taker_adds_rows_to_its_table(uri: str, taker: quire.Lake) -> None:
    offered = Offered(uri)
    add(taker, "bound")
    error = offered.end()
    assert isinstance(error, ExpectationFailed), error
    assert rows(taker, "bound") == [0, 2], "what the owner was told holds"


def test_it_is_left_where_a_record_since_has_added_rows_to_its_table(uri: str, taker: quire.Lake) -> None:
    offered = Offered(uri)
    with quire.open(uri, backfill=False, offers=False) as rival:
        add(rival, "bound")
    add(taker, "free")
    error = offered.end()
    assert isinstance(error, ExpectationFailed), error
    assert rows(taker, "bound") == [0, 2]
