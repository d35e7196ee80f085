"""Two branches of one lake, on every format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.testing import memory

Statement = Callable[[quire.Transaction], Any]


class Fork:
    """Main and branch `exp`, which parted when `t` held ids 1 to 8 with `a` = `b` = 10 * id."""

    def __init__(self, lake: quire.Lake, format: str) -> None:
        self.lake, self.format = lake, format
        with lake.transaction("setup") as tx:
            tx.create_table("t", [row(i) for i in range(1, 5)], key="id", format=format)
            tx.create_table("other", [{"id": 1, "v": 1}], key="id", format=format)
        with lake.transaction("more") as tx:
            tx["t"].insert([row(i) for i in range(5, 9)])
        self.exp = lake.create_branch("exp")

    def ours(self, *statements: Statement) -> None:
        for statement in statements:
            with self.lake.transaction("ours") as tx:
                statement(tx)

    def theirs(self, *statements: Statement) -> None:
        for statement in statements:
            with self.exp.transaction("theirs") as tx:
                statement(tx)

    def data_files(self) -> set[str]:
        return {str(p) for p in Path(self.lake.uri).glob("tables/*/data/*")}

    def rows(self, table: str = "t") -> dict[int, tuple[Any, ...]]:
        with quire.open(self.lake.uri, read_only=True) as fresh:
            found = fresh[table].to_pylist()
        ids = [r["id"] for r in found]
        assert len(set(ids)) == len(ids)
        return {r["id"]: tuple(v for n, v in r.items() if n != "id") for r in sorted(found, key=lambda r: r["id"])}


def row(i: int, a: Any = None, b: Any = None) -> dict[str, Any]:
    return {"id": i, "a": 10 * i if a is None else a, "b": 10 * i if b is None else b}


def update(where: str, **values: Any) -> Statement:
    return lambda tx: tx["t"].update(values=values, where=where)


def insert(*rows: dict[str, Any]) -> Statement:
    return lambda tx: tx["t"].insert(list(rows))


def delete(where: str) -> Statement:
    return lambda tx: tx["t"].delete(where)


@pytest.fixture(params=["lance", "memory"])
def fork(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fork]:
    memory.install()
    with quire.create(tmp_path / "lake", backfill=False, author="ada") as lake:
        yield Fork(lake, request.param)
