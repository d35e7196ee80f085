"""What commits to Delta tables cost on the wire of a real S3-compatible server, at any depth of their logs."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.budget import budget

import quire
from quire.store import Store
from quire.testing.proxy import Proxy, longest_chain
from quire.testing.s3 import SeaweedFS

pytestmark = pytest.mark.s3

Program = Callable[[quire.Transaction], Any]
DEPTH = budget(40, full=1000)
"""Commits of a deep table: more than one file with a whole state."""


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([10 * i for i in ids], pa.int64())})


def append(*tables: str, first: int) -> Program:
    def program(tx: quire.Transaction) -> None:
        for table in tables:
            tx[table].append(rows(first))

    return program


@pytest.fixture
def proxy(s3: SeaweedFS) -> Iterator[Proxy]:
    with Proxy(s3.endpoint) as proxy:
        yield proxy


class Wire:
    """A lake behind a proxy, with eight Delta tables and two Lance tables."""

    def __init__(self, s3: SeaweedFS, proxy: Proxy) -> None:
        self.proxy = proxy
        self.uri = s3.uri(f"delta-{uuid.uuid4().hex}")
        self.direct = s3.options
        self.options = {**s3.options, "aws_endpoint": proxy.endpoint}
        with quire.create(self.uri, storage_options=self.direct, backfill=False) as lake:
            with lake.transaction("tables") as tx:
                for number in range(8):
                    tx.create_table(f"d{number}", rows(1, 2, 3), key="id", format="delta")
                for number in range(2):
                    tx.create_table(f"t{number}", rows(1, 2, 3))

    def open(self, **more: Any) -> quire.Lake:
        return quire.open(self.uri, storage_options=self.options, backfill=False, **more)

    def bill(self, act: Callable[[], Any]) -> tuple[dict[str, int], int]:
        """The requests by kind, and how many of them follow one another, without notes and hints beside them."""
        self.proxy.settle()
        start = self.proxy.mark()
        self.proxy.latency = 0.05
        act()
        self.proxy.settle()
        self.proxy.latency = 0.0
        made = [r for r in self.proxy.since(start) if str(r.kind) == "create" or "/tables/" in r.key]
        return dict(Counter(str(r.kind) for r in made)), longest_chain(made)


@pytest.fixture
def wire(s3: SeaweedFS, proxy: Proxy) -> Wire:
    return Wire(s3, proxy)


def commit(lake: quire.Lake, *programs: Program) -> None:
    with lake.transaction("measured") as tx:
        for program in programs:
            program(tx)


def test_a_commit_costs_the_same_at_any_depth(wire: Wire) -> None:
    """Data file ∥ staged commit, then the slot; and every 32nd commit one file more in the same hop."""
    with wire.open() as lake:
        commit(lake, append("d0", "d1", first=10))
        shallow = wire.bill(lambda: commit(lake, append("d0", first=11)))
        assert shallow == ({"PUT": 2, "create": 1}, 2)
        assert wire.bill(lambda: commit(lake, append("d0", "d1", first=12))) == ({"PUT": 4, "create": 1}, 2)
        for i in range(DEPTH):
            commit(lake, append("d0", first=100 + i))
        bills = [wire.bill(lambda i=i: commit(lake, append("d0", first=5000 + i))) for i in range(3)]
        assert sorted(bills, key=str)[0] == shallow
        assert {hops for _, hops in bills} == {2}
        assert {counts["PUT"] for counts, _ in bills} <= {2, 3}
    with wire.open(read_only=True) as reader:
        snap = reader.snapshot()
        counts, hops = wire.bill(lambda: snap["d0"].schema)
        assert hops == 2, "the commit of the pin, then the last whole state beside all commits since"
        assert counts["GET"] <= 2 + 32


def test_both_kinds_of_tables_go_to_the_store_side_by_side(wire: Wire) -> None:
    tables = ("d0", "d1", "t0", "t1")
    with wire.open() as lake:
        commit(lake, append(*tables, first=10))
        assert wire.bill(lambda: commit(lake, append(*tables, first=11))) == ({"PUT": 8, "create": 1}, 2)


def test_a_transaction_that_is_given_up_has_sent_nothing(wire: Wire) -> None:
    with wire.open() as lake:
        commit(lake, append("d0", first=10))
        tx = lake.transaction("given up")
        assert wire.bill(lambda: (tx["d0"].append(rows(11)), tx.discard())) == ({}, 0)


@pytest.mark.parametrize("depth", [70, pytest.param(1000, marks=pytest.mark.full)])
def test_a_client_of_the_folder_opens_a_table_of_any_age_alike(
    s3: SeaweedFS, proxy: Proxy, tmp_path: Path, depth: int
) -> None:
    """Where the newest checkpoint is, what is listed after it, the checkpoint in parts, and the versions since."""
    lake = quire.create(tmp_path / "lake", backfill=False)
    with lake.transaction("table") as tx:
        tx.create_table("t", rows(0), format="delta", options={"dialect": "managedCommit"})
    for first in range(1, depth):
        commit(lake, append("t", first=first))
    lake.backfill()
    for first in range(depth, depth + 3):
        commit(lake, append("t", first=first))
    lake.backfill()
    log = tmp_path / "lake" / lake["t"].describe()["location"] / "_delta_log"
    place = s3.uri(f"plain-{uuid.uuid4().hex}")
    store = Store.open(place, s3.options)
    for file in (path for path in log.iterdir() if path.is_file()):
        store.put(f"_delta_log/{file.name}", file.read_bytes())
    start = proxy.mark()
    client = DeltaTable(place, storage_options={**s3.options, "aws_endpoint": proxy.endpoint})
    assert (client.version(), len(client.file_uris())) == (depth + 2, depth + 3)
    proxy.settle()
    asked = Counter(str(request.kind) for request in proxy.since(start))
    assert asked.total() <= 20, asked
