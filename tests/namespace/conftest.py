"""A lake, and clients that know nothing of it but its namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import quire
from quire.lance import Namespace


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(tmp_path / "lake", author="ada") as lake:
        with lake.transaction("start") as tx:
            tx.create_table("docs", [{"id": n, "text": f"text {n}"} for n in range(4)])
            tx.create_table("people", [{"id": n, "name": f"name {n}"} for n in range(4)], key="id")
        yield lake


@pytest.fixture
def namespace(lake: quire.Lake) -> Namespace:
    return Namespace(lake)


def docs(*ids: int, text: str = "new") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"{text} {n}" for n in ids]})


def opened(namespace: Any, name: str = "docs", version: int | None = None) -> Any:
    return lance.dataset(namespace_client=namespace, table_id=name.split("."), version=version)


def ids(lake: quire.Lake, name: str = "docs") -> list[int]:
    return sorted(lake[name].to_arrow()["id"].to_pylist())


def sound(lake: quire.Lake) -> None:
    """The lake is what it says, and plain readers see the same."""
    lake.backfill()
    assert lake.verify(deep=True).findings == []
    for name in lake.tables():
        plain = lance.dataset(f"{lake.uri}/{lake.snapshot()[name]._state.pin.location}")
        mine = lake[name].to_arrow()
        assert plain.to_table().sort_by(mine.column_names[0]) == mine.sort_by(mine.column_names[0])
