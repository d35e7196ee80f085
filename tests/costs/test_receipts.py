"""What a program is told of the price: in receipts and by the meter, on a real S3-compatible server."""

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


def rows(value: int) -> pa.Table:
    return pa.table({"id": [value], "text": ["x"]})


def made(s3: SeaweedFS, tables: int, *, depth: int = 1, backfill: bool = False) -> quire.Lake:
    """A lake with so many tables and so many commits, warm and with nothing left to do in the background."""
    lake = quire.create(s3.uri(f"cost-{uuid.uuid4().hex}"), storage_options=s3.options, backfill=backfill)
    with lake.transaction("tables") as tx:
        for n in range(tables):
            tx.create_table(f"t{n}", rows(-n))
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
    sent = {"put": 2 * tables, "create": 1}
    assert cost["requests"] == sent, "data files and manifests, then the slot; no list, no look-up"
    assert cost["total"] == 2 * tables + 1
    assert not cost["external"].get("lance"), "Lance asks the store for nothing"
    assert cost["hops"] == 2, "data files beside manifests, then the slot"
    assert cost["bytes_out"] > 0


@pytest.mark.parametrize("tables", [1, 2, 8])
def test_a_receipt_tells_one_request_and_two_per_table(s3: SeaweedFS, tables: int) -> None:
    lake = made(s3, 8)
    append(lake, tables)
    for _ in range(3):
        check(append(lake, tables), tables)


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


def test_what_happens_later_is_not_on_the_bill(s3: SeaweedFS) -> None:
    """With backfill on, the receipt still shows one request; the background adds its own elsewhere."""
    lake = made(s3, 2, backfill=True)
    append(lake, 2)
    check(append(lake, 2), 2)


def test_a_cold_open_without_a_hint_gallops_and_lists_nothing(s3: SeaweedFS) -> None:
    lake = made(s3, 2, depth=60)
    store = Store.open(lake.uri, s3.options)
    assert store.get_or_none(hint_key(MAIN)) is not None
    store.delete(hint_key(MAIN))
    with metering() as meter:
        cold = quire.open(lake.uri, storage_options=s3.options, read_only=True)
    assert cold.head == lake.head
    assert "list" not in meter.requests
    assert meter.hops <= 8, "a gallop to the head, in steps that double"


def test_a_table_is_opened_once(s3: SeaweedFS) -> None:
    lake = made(s3, 2)
    snap = quire.open(lake.uri, storage_options=s3.options, read_only=True).snapshot()
    assert snap["t0"].schema.names == ["id", "text"]
    with metering() as meter:
        assert snap["t0"].schema.names == ["id", "text"]
        assert snap["t0"].count() == 1
    assert (meter.total, sum(meter.external.values())) == (0, 0)
