"""What a commit costs on a real S3-compatible server: requests and hops, flat in history and in tables."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire.ledger import MAIN, hint_key
from quire.store import Store, metering
from quire.testing.s3 import SeaweedFS

pytestmark = pytest.mark.s3

HOPS = 4
"""Data file, transaction file, manifest, slot: as many as one plain append that is not atomic."""


def rows(value: int) -> pa.Table:
    return pa.table({"id": [value], "text": ["x"]})


def made(s3: SeaweedFS, tables: int, *, depth: int = 1, key: str | None = None) -> quire.Lake:
    """A lake with so many tables and so many commits, warm and with nothing left to do in the background."""
    lake = quire.create(s3.uri(f"cost-{uuid.uuid4().hex}"), storage_options=s3.options, backfill=False)
    with lake.transaction("tables") as tx:
        for n in range(tables):
            tx.create_table(f"t{n}", rows(-n), key=key)
    for n in range(depth - 1):
        with lake.transaction(f"commit {n}") as tx:
            tx["t0"].append(rows(n))
    lake.flush()
    return lake


def append(lake: quire.Lake, tables: int, **options: Any) -> dict[str, Any]:
    with lake.transaction("measured", **options) as tx:
        for n in range(tables):
            tx[f"t{n}"].append(rows(1000))
    assert tx.receipt is not None
    assert tx.receipt.attempts == 1
    lake.flush()
    return tx.receipt.cost


def check(cost: dict[str, Any], tables: int) -> None:
    assert cost["requests"] == {"create": 1}, "the slot, and no list, no look-up"
    assert cost["total"] == 1
    assert cost["external"]["lance"] <= 3 * tables
    assert cost["hops"] <= HOPS
    assert cost["bytes_out"] > 0


@pytest.mark.parametrize("tables", [1, 2, 8])
def test_a_warm_append_costs_one_request_and_three_per_table(s3: SeaweedFS, tables: int) -> None:
    lake = made(s3, 8)
    append(lake, tables)
    for _ in range(3):
        cost = append(lake, tables)
        check(cost, tables)
        assert cost["external"]["lance"] == 3 * tables, "every one of Lance's requests is counted, each once"


@pytest.mark.parametrize("depth", [1, 60])
def test_the_cost_does_not_grow_with_history(s3: SeaweedFS, depth: int) -> None:
    lake = made(s3, 2, depth=depth)
    append(lake, 2)
    check(append(lake, 2), 2)


@pytest.mark.parametrize("tables", [2, 40])
def test_the_cost_does_not_grow_with_the_number_of_tables(s3: SeaweedFS, tables: int) -> None:
    lake = made(s3, tables)
    append(lake, 2)
    check(append(lake, 2), 2)


@pytest.mark.parametrize("branches", [1, 12])
def test_the_cost_does_not_grow_with_the_number_of_branches(s3: SeaweedFS, branches: int) -> None:
    lake = made(s3, 2)
    for n in range(branches):
        lake.create_branch(f"b{n}")
    append(lake, 2)
    check(append(lake, 2), 2)
    branch = lake.branch("b0")
    append(branch, 2)
    check(append(branch, 2), 2)


def test_tokens_expectations_and_a_deadline_cost_nothing(s3: SeaweedFS) -> None:
    lake = made(s3, 2)
    append(lake, 2)
    stream = quire.StreamToken(scope="s", sequence=1)
    version = lake["t0"].version
    check(append(lake, 2, token=stream, expect={"t0": version}, if_head=lake.head, timeout=60.0), 2)


def test_beginning_and_discarding_a_transaction_costs_nothing(s3: SeaweedFS) -> None:
    lake = made(s3, 2)
    with metering() as meter:
        lake.transaction("not committed").discard()
    assert (meter.total, meter.external) == (0, {})


def test_one_commit_repeated_by_token_costs_no_slot(s3: SeaweedFS) -> None:
    lake = made(s3, 1)
    token = quire.StreamToken(scope="s", sequence=1)
    append(lake, 1, token=token)
    with lake.transaction("again", token=token) as tx:
        tx["t0"].append(rows(1))
    assert tx.receipt is not None
    assert tx.receipt.repeated
    assert tx.receipt.cost["total"] == 0


@pytest.mark.parametrize("depth", [1, 60])
def test_asking_for_news_costs_one_request(s3: SeaweedFS, depth: int) -> None:
    lake = made(s3, 2, depth=depth)
    for ask in (lake.refresh, lake.snapshot):
        with metering() as meter:
            ask()
        assert meter.requests == {"get": 1}
        assert meter.external == {}


@pytest.mark.parametrize(("tables", "depth"), [(2, 1), (2, 60), (40, 1)])
def test_a_cold_open_is_bounded(s3: SeaweedFS, tables: int, depth: int) -> None:
    lake = made(s3, tables, depth=depth)
    with metering() as meter:
        cold = quire.open(lake.uri, storage_options=s3.options, read_only=True)
    assert cold.head == lake.head
    assert meter.hops <= 4
    assert set(meter.requests) == {"get"}, "no list"
    # Format and hint; then a checkpoint, the records since, and a look ahead.
    assert meter.total <= 2 + 1 + 32 + 8


def test_a_cold_open_without_a_hint_is_bounded_too(s3: SeaweedFS) -> None:
    lake = made(s3, 2, depth=60)
    store = Store.open(lake.uri, s3.options)
    assert store.get_or_none(hint_key(MAIN)) is not None
    store.delete(hint_key(MAIN))
    with metering() as meter:
        cold = quire.open(lake.uri, storage_options=s3.options, read_only=True)
    assert cold.head == lake.head
    assert "list" not in meter.requests
    assert meter.hops <= 8, "a gallop to the head, in steps that double"


def test_opening_a_table_costs_two_hops_and_only_once(s3: SeaweedFS) -> None:
    lake = made(s3, 2)
    cold = quire.open(lake.uri, storage_options=s3.options, read_only=True)
    snap = cold.snapshot()
    with metering() as meter:
        assert snap["t0"].schema.names == ["id", "text"]
    assert meter.external["lance"] == 2
    assert meter.hops == 2
    with metering() as meter:
        assert snap["t0"].schema.names == ["id", "text"]
        assert snap["t0"].count() == 1
    assert (meter.total, sum(meter.external.values())) == (0, 0)


def test_what_happens_later_is_not_on_the_bill(s3: SeaweedFS) -> None:
    """With backfill on, the receipt still shows one request; the background adds its own elsewhere."""
    uri = s3.uri(f"cost-{uuid.uuid4().hex}")
    lake = quire.create(uri, storage_options=s3.options)
    with lake.transaction("tables") as tx:
        tx.create_table("t0", rows(0))
        tx.create_table("t1", rows(0))
    lake.flush()
    append(lake, 2)
    cost = append(lake, 2)
    assert cost["requests"] == {"create": 1}
    assert cost["hops"] <= HOPS
