"""Data files that a condition cannot choose rows of are not read."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quire

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("on", pa.date32()), ("day", pa.string())])


def row(number: int) -> dict[str, object]:
    name = None if number >= 30 else f"n{number:02}"
    return {"id": number, "name": name, "on": dt.date(2026, 1, 1 + number % 28), "day": "odd" if number % 2 else None}


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    """Four commits of ten rows, in two partitions each; and a Lance table with the same rows."""
    lake = quire.create(str(tmp_path / "lake"), backfill=False)
    for start in range(0, 40, 10):
        rows = pa.Table.from_pylist([row(n) for n in range(start, start + 10)], SCHEMA)
        with lake.transaction(f"{start}") as tx:
            if start:
                tx["t"].append(rows)
                tx["twin"].append(rows)
            else:
                tx.create_table("twin", rows)
                tx.create_table("t", rows, format="delta", options={"partition_by": ["day"]})
    return lake


FILTERS = {
    "id = 17": 2,
    "id >= 30": 2,
    "id < 5 or id > 35": 4,
    "id in (3, 33) and day = 'odd'": 2,
    "day is null": 4,
    "day = 'odd' and id between 11 and 13": 1,
    "name is null": 2,
    "name is not null and id > 25": 2,
    "name > 'n25'": 2,
    "\"on\" = date '2026-01-03'": 5,
    "id = 99": 0,
    "id <> 5": 8,
    "id + 0 = 17": 8,
    "not (id = 17)": 8,
}


@pytest.mark.parametrize("filter", FILTERS)
def test_only_files_that_can_have_such_rows_are_read(
    lake: quire.Lake, filter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quire.formats.delta.folder import Folder

    expected = lake.snapshot()["twin"].scan(columns=["id"], filter=filter).to_arrow().column(0).to_pylist()
    opened: list[str] = []
    kept = Folder._opened

    def noted(self: Folder, file: object, *more: object) -> object:
        opened.append(file.path)  # type: ignore[attr-defined]
        return kept(self, file, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Folder, "_opened", noted)
    found = lake.snapshot()["t"].scan(columns=["id"], filter=filter).to_arrow().column(0).to_pylist()
    assert sorted(found) == sorted(expected)
    assert len(opened) == FILTERS[filter]


def test_sql_and_expressions_of_pyarrow_skip_too(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from quire.formats.delta.folder import Folder

    opened: list[str] = []
    kept = Folder._opened

    def noted(self: Folder, file: object, *more: object) -> object:
        opened.append(file.path)  # type: ignore[attr-defined]
        return kept(self, file, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Folder, "_opened", noted)
    assert lake.sql("select count(*) as n from t where id > 36").to_pylist() == [{"n": 3}]
    assert len(opened) == 2
    opened.clear()
    assert lake.snapshot()["t"].count(pc.field("id") == 17) == 1
    assert len(opened) == 2
