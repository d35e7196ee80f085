"""Lance tables without a lake around them: staged states, named by their pins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import quire
from quire.formats.lance import LanceFormat
from quire.ledger import Pin
from quire.store import Store


def rows(*ids: int, times: int = 10) -> pa.Table:
    """Rows with the given ids and `v = times * id`, so that a value that wandered shows."""
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([times * i for i in ids], pa.int64())})


class Tables:
    """A format on a folder, and the steps that tests share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.format = LanceFormat(Store.open(folder), "the-lake")

    def create(self, data: Any = None, **options: Any) -> Pin:
        found = self.format.create(
            "tables/t", data, schema=options.get("schema"), write="w0", stable_row_ids=False, table="t"
        )
        return found.stage().pin

    def begin(self, pin: Pin) -> Any:
        return self.format.begin(pin, write="w", table="t")

    def change(self, pin: Pin, *statements: Callable[[Any], Any]) -> Pin:
        """The state after some statements in one transaction."""
        work = self.begin(pin)
        for statement in statements:
            statement(work)
        staged = work.stage()
        assert staged.pin.counter == pin.counter + 1
        return staged.pin

    def append(self, pin: Pin, *ids: int, times: int = 10) -> Pin:
        return self.change(pin, lambda w: w.rows.append(rows(*ids, times=times), missing="error"))

    def handle(self, pin: Pin) -> Any:
        """The pinned version, opened by Lance itself."""
        return lance.dataset(self.uri(pin), version=int(pin.version))

    def head(self, pin: Pin) -> Any:
        """What a plain client sees."""
        return lance.dataset(self.uri(pin))

    def uri(self, pin: Pin) -> str:
        return str(self.folder / pin.location)

    def content(self, pin: Pin) -> list[tuple[Any, ...]]:
        """All rows, sorted; the pin's own count must agree."""
        found = self.format.open(pin).scan().read_all()
        assert found.num_rows == pin.rows
        return listed(found)


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for r in table.to_pylist()), key=repr)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    """A lake that backfills only when asked, with a keyed table `t` and an unkeyed table `log`, both ids 1 to 3."""
    with quire.create(tmp_path / "lake", backfill=False, author="ada") as made:
        with made.transaction() as tx:
            tx.create_table("t", rows(1, 2, 3), key="id")
            tx.create_table("log", rows(1, 2, 3))
        yield made


def place(lake: quire.Lake, name: str) -> str:
    """Where a plain client finds a table of the lake."""
    location = lake.snapshot()[name].describe()["location"]
    return str(location) if location.startswith("/") else f"{lake.uri}/{location}"


def plain(lake: quire.Lake, name: str) -> list[tuple[Any, ...]]:
    """What a plain Lance client reads."""
    return listed(lance.dataset(place(lake, name)).to_table())


def content(reader: Any, name: str = "t") -> list[tuple[Any, ...]]:
    """What Quire reads, of a lake's newest commit or of a snapshot."""
    table = (reader.snapshot() if isinstance(reader, quire.Lake) else reader)[name]
    found = table.to_arrow()
    assert table.count() == found.num_rows
    return listed(found)
