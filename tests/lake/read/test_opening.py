"""Opening the tables of a commit: one request each, side by side, on a real server behind a counting proxy."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest

import quire
from quire.errors import CorruptRecord, SnapshotExpired
from quire.formats import task_table
from quire.formats.lance.session import DETACHED, manifest_name
from quire.store import Store, metering
from quire.testing.proxy import Proxy, Request, longest_chain
from quire.testing.s3 import SeaweedFS

pytestmark = [pytest.mark.s3, pytest.mark.timeout(300)]


class Bucket:
    """A folder of a server, seen through a proxy."""

    def __init__(self, s3: SeaweedFS, proxy: Proxy) -> None:
        self.uri = s3.uri(f"opening-{uuid.uuid4().hex}")
        self.straight, self.proxy = s3.options, proxy
        self.options = {**s3.options, "aws_endpoint": proxy.endpoint}

    def writer(self) -> quire.Lake:
        return quire.open(self.uri, storage_options=self.straight)

    def reader(self) -> quire.Lake:
        return quire.open(self.uri, storage_options=self.options, read_only=True)

    def asked(self, act: Callable[[], Any], latency: float = 0.0) -> list[Request]:
        self.proxy.settle()
        start = self.proxy.mark()
        self.proxy.latency = latency
        try:
            act()
        finally:
            self.proxy.latency = 0.0
        return self.proxy.since(start)


@pytest.fixture(scope="module")
def proxy(s3: SeaweedFS) -> Iterator[Proxy]:
    with Proxy(s3.endpoint) as running:
        yield running


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {n}" for n in ids]})


@pytest.fixture(scope="module")
def bucket(s3: SeaweedFS, proxy: Proxy) -> Bucket:
    """Tables of each kind: as created, staged, with an index, and one that lies outside the lake."""
    found = Bucket(s3, proxy)
    lake = quire.create(found.uri, storage_options=found.straight)
    with lake.transaction("made") as tx:
        for name in ("created", "staged", "indexed", "created_indexed"):
            tx.create_table(name, rows(*range(50)))
        tx["created_indexed"].create_index("id")
    lance.write_dataset(rows(*range(50)), f"{found.uri}-outside/t", storage_options=found.straight)
    with lake.transaction("more") as tx:
        tx.register_table("outside", f"{found.uri}-outside/t")
        tx["staged"].append(rows(100))
        tx["indexed"].create_index("id")
    with lake.transaction("and more") as tx:
        tx["indexed"].append(rows(100))
        tx["indexed"].delete("id = 3")
    lake.close()
    return found


TABLES = ("created", "staged", "indexed", "created_indexed", "outside")
MANIFESTS = ("manifest", "staged manifest")


def is_manifest(request: Request) -> bool:
    return request.key_class in MANIFESTS


@pytest.mark.parametrize("table", TABLES)
def test_the_first_look_at_a_table_is_one_request(bucket: Bucket, table: str) -> None:
    snap = bucket.reader().snapshot()
    found = bucket.asked(lambda: snap[table].schema)
    assert [(r.kind, is_manifest(r)) for r in found] == [("GET", True)]
    assert bucket.asked(lambda: (snap[table].indexes(), snap[table].count(), snap[table].schema)) == []


@pytest.mark.parametrize("table", TABLES)
def test_a_look_up_asks_for_nothing_but_indexes_and_rows(bucket: Bucket, table: str) -> None:
    snap = bucket.reader().snapshot()
    assert snap[table].schema.names == ["id", "text"]
    got: list[Any] = []
    found = bucket.asked(lambda: got.extend(snap[table].scan(filter="id = 7").to_pylist()))
    assert got == [{"id": 7, "text": "row 7"}]
    assert {r.key_class for r in found} <= {"data", "index", "deletion"}
    assert {r.kind for r in found} == {"GET"}
    assert any(r.key_class == "index" for r in found) == ("indexed" in table)


def test_a_cold_query_over_five_tables_is_three_hops_before_it_reads_rows(bucket: Bucket) -> None:
    query = " union all ".join(f'select count(text) c from "{name}"' for name in TABLES)
    answers: list[Any] = []
    hops = []
    for latency in (0.05, 0.3, 1.0):  # on a busy machine what is meant to be side by side may begin late
        found = bucket.asked(lambda: answers.append(bucket.reader().sql(query).to_arrow()), latency)
        assert sorted(answers[-1]["c"].to_pylist()) == [50, 50, 50, 50, 51]
        assert sum(is_manifest(r) for r in found) == len(TABLES)
        first = min(r.started for r in found if r.key_class == "data")
        hops.append(longest_chain([r for r in found if r.started < first]))
        if hops[-1] == 3:
            break
    assert min(hops) == 3, hops


def test_a_query_on_a_warm_snapshot_asks_for_rows_alone(bucket: Bucket) -> None:
    snap = bucket.reader().snapshot()
    query = "select count(text) as n from staged join indexed using (id, text) join created using (id)"
    assert snap.sql(query).to_pylist() == [{"n": 49}]
    assert {r.key_class for r in bucket.asked(lambda: snap.sql(query).to_arrow())} == {"data"}


def test_a_query_shows_a_commit_that_came_after_the_lake_was_opened(bucket: Bucket) -> None:
    lake, writer = bucket.reader(), bucket.writer()
    query = "select count(*) as n from growing"
    writer.create_table("growing", rows(1))
    assert lake.sql(query).to_pylist() == [{"n": 1}]
    with writer.transaction("more") as tx:
        tx["growing"].append(rows(2))
    assert lake.sql(query).to_pylist() == [{"n": 2}]
    writer.close()


def test_a_read_that_fails_for_a_moment_is_repeated_and_counted(bucket: Bucket) -> None:
    snap = bucket.reader().snapshot()
    fault = bucket.proxy.answer(503, is_manifest, times=2)
    with metering() as meter:
        assert snap["staged"].schema.names == ["id", "text"]
    assert len(fault.hits) == 2
    assert (meter.requests, meter.retries) == ({"get": 3}, 2)


def test_a_manifest_that_is_gone_or_damaged_is_told_by_its_table(bucket: Bucket) -> None:
    name = f"broken-{uuid.uuid4().hex}"
    with bucket.writer() as writer:
        writer.create_table(name, rows(1))
        with writer.transaction("staged") as tx:
            tx[name].append(rows(2))
    pin = bucket.reader().snapshot()._state.by_name(name).pin
    assert int(pin.version) & DETACHED
    store = Store.open(bucket.uri, bucket.straight)
    key = f"{pin.location}/_versions/{manifest_name(int(pin.version))}"
    whole = store.get(key)
    store.put(key, whole[: len(whole) // 2])
    with pytest.raises(CorruptRecord, match=name):
        _ = bucket.reader().snapshot()[name].schema
    store.put(key, whole[:-30] + bytes(14) + whole[-16:])
    with pytest.raises(CorruptRecord, match=name):
        _ = bucket.reader().snapshot()[name].schema
    store.delete(key)
    with pytest.raises(SnapshotExpired, match=name):
        _ = bucket.reader().snapshot()[name].schema
    store.put(key, whole)
    snap = bucket.reader().snapshot()
    assert snap[name].to_pylist() == [{"id": 1, "text": "row 1"}, {"id": 2, "text": "row 2"}]


@pytest.mark.parametrize("table", ["staged", "indexed"])
def test_a_task_opens_a_state_with_one_request(bucket: Bucket, table: str) -> None:
    place, parts = bucket.reader().snapshot()[table].parts()
    got: list[int] = []

    def task() -> None:
        held = task_table(place)
        for batch in held.read_rows([number for number, _ in parts], ["id"], "id = 7"):
            got.extend(batch.column(0).to_pylist())

    found = bucket.asked(task)
    assert got == [7]
    assert [r.kind for r in found if is_manifest(r)] == ["GET"]
    assert {r.key_class for r in found if not is_manifest(r)} <= {"data", "index", "deletion"}


def test_verify_reads_what_is_in_the_store_now(bucket: Bucket) -> None:
    name = f"verified-{uuid.uuid4().hex}"
    with bucket.writer() as writer:
        writer.create_table(name, rows(1))
        with writer.transaction("staged") as tx:
            tx[name].append(rows(2))
        writer.flush()
        assert writer.verify().ok
        pin = writer.snapshot()._state.by_name(name).pin
        store = Store.open(bucket.uri, bucket.straight)
        key = f"{pin.location}/_versions/{manifest_name(int(pin.version))}"
        whole = store.get(key)
        store.put(key, whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:])
        assert any(name in found.where for found in writer.verify().findings)
        store.delete(key)
        assert any(key in found.where for found in writer.verify().findings)
        store.put(key, whole)
        assert writer.verify().ok
