"""The proxy in front of a real server: what it counts is what happened, and what it cuts is cut."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import lance
import obstore
import pyarrow as pa
import pytest
from obstore.store import S3Store
from tests.laboratory.everywhere import Hasty

import quire
from quire.store import Outcome, Store, clock, metering
from quire.testing.proxy import Proxy, Request, longest_chain
from quire.testing.s3 import BUCKET, SeaweedFS
from quire.testing.wire import key_class

ROWS = pa.table({"id": [1, 2], "text": ["a", "b"]})


@pytest.fixture
def proxy(s3: SeaweedFS) -> Iterator[Proxy]:
    with Proxy(s3.endpoint) as running:
        yield running


@pytest.fixture(autouse=True)
def haste() -> Iterator[None]:
    """Nobody waits long before trying again."""
    with clock.using(Hasty()):
        yield


def through(proxy: Proxy, s3: SeaweedFS) -> dict[str, str]:
    return {**s3.options, "aws_endpoint": proxy.endpoint, "client_max_retries": "0"}


def store(proxy: Proxy, s3: SeaweedFS) -> tuple[Store, Store]:
    """The same new folder through the proxy and past it."""
    place = s3.uri(f"proxy-{uuid.uuid4().hex}")
    return Store.open(place, through(proxy, s3)), Store.open(place, s3.options)


def signed(proxy: Proxy, s3: SeaweedFS, key: str) -> str:
    config: Any = {k: v for k, v in through(proxy, s3).items() if k.startswith("aws_")}
    bucket = S3Store(BUCKET, config=config, client_options={"allow_http": True})
    return str(obstore.sign(bucket, "PUT", key, timedelta(minutes=1))).removeprefix(proxy.endpoint)


def raw_put(proxy: Proxy, s3: SeaweedFS, key: str, head: str, parts: list[bytes]) -> bytes:
    """A PUT as no library of ours would send it: the signed URL is the server's to check."""
    target = signed(proxy, s3, key)
    answer = b""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as link:
        link.sendall(f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\n{head}\r\n\r\n".encode())
        for part in parts:
            if "100-continue" in head:
                answer += link.recv(1 << 16)
            link.sendall(part)
        while b"\r\n\r\n" not in answer.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b""):
            got = link.recv(1 << 16)
            if not got:
                break
            answer += got
    return answer


# -- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.s3
def test_a_commit_is_counted_as_the_stores_own_meters_count_it(proxy: Proxy, s3: SeaweedFS) -> None:
    lake = quire.create(s3.uri(f"proxy-{uuid.uuid4().hex}"), storage_options=through(proxy, s3), backfill=False)
    with lake.transaction("tables") as tx:
        tx.create_table("a", ROWS)
        tx.create_table("b", ROWS)
    lake.flush()
    with lake.transaction("warm up") as tx:
        tx["a"].append(ROWS)
        tx["b"].append(ROWS)
    lake.flush()

    start = proxy.mark()
    with lake.transaction("measured") as tx:
        tx["a"].append(ROWS)
        tx["b"].append(ROWS)
    seen = [r for r in proxy.since(start) if r.key_class not in ("hint", "checkpoint")]

    assert tx.receipt is not None
    assert len(seen) == tx.receipt.cost["total"] + tx.receipt.cost["external"]["lance"]
    kinds = [(r.kind, r.key_class) for r in sorted(seen, key=lambda r: r.key_class)]
    assert kinds == [
        *[("PUT", "data")] * 2,
        ("create", "slot"),
        *[("PUT", "staged manifest")] * 2,
    ]
    assert all(r.status == 200 and r.ended is not None and r.ended > r.started for r in seen)
    assert sum(r.bytes_out for r in seen) == tx.receipt.cost["bytes_out"]
    lake.flush()


@pytest.mark.s3
def test_every_kind_of_request_is_counted_once_with_its_bytes(proxy: Proxy, s3: SeaweedFS) -> None:
    inside, past = store(proxy, s3)
    with metering() as meter:
        inside.put("a name/with späce+plus%25", b"12345")
        inside.create("_quire/format.json", b"x", mine=lambda found: True)
        assert inside.get("a name/with späce+plus%25") == b"12345"
        assert inside.stat("_quire/format.json").size == 1
        assert [e.key for e in inside.list("_quire")] == ["_quire/format.json"]
        assert inside.get_or_none("nothing") is None
        inside.delete("_quire/format.json")

    assert proxy.counts() == {"PUT": 1, "create": 1, "GET": 2, "HEAD": 1, "LIST": 1, "DELETE": 1}
    assert sum(proxy.counts().values()) == meter.total
    prefix = inside.uri.removeprefix(f"s3://{BUCKET}/")
    put, created, got, _, listed, missing, deleted = proxy.requests
    assert put.key == f"{prefix}/a name/with späce+plus%25"
    assert (put.bytes_out, got.bytes_in, created.key_class) == (5, 5, "format")
    assert listed.key == f"{prefix}/_quire"
    assert (missing.status, deleted.status) == (404, 204)
    assert [r.number for r in proxy.requests] == [1, 2, 3, 4, 5, 6, 7]
    assert past.get_or_none("_quire/format.json") is None


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("x/_quire/log/abc/00000000000000000012", "slot"),
        ("_quire/log/abc/checkpoint-00000000000000000012", "checkpoint"),
        ("_quire/log/abc/side-abc", "side"),
        ("_quire/hint-main.json", "hint"),
        ("_quire/refs/branch.x/0000000001", "ref"),
        ("_quire/writers/abc", "writer"),
        ("_quire/leases/abc", "lease"),
        ("_quire/refs", "ref"),
        ("x/tables/t/_versions/18446744073709551612.manifest", "manifest"),
        ("x/tables/t/_versions/d9223372036854775812.manifest", "staged manifest"),
        ("x/tables/t/_transactions/1-a.txn", "transaction"),
        ("x/tables/t/_deletions/1-2-3.arrow", "deletion"),
        ("x/tables/t/_indices/uuid/page_data.lance", "index"),
        ("x/tables/t/data/0101.lance", "data"),
        ("x/database", "other"),
    ],
)
def test_keys_are_known_by_what_they_are_for(key: str, expected: str) -> None:
    assert key_class(key) == expected


def span(start: float, end: float) -> Request:
    return Request(1, "GET", "k", {}, "GET", start, end)


def test_the_longest_chain_is_made_of_requests_that_do_not_overlap() -> None:
    assert longest_chain([]) == 0
    assert longest_chain([span(0, 1), span(1, 2), span(2, 3)]) == 3
    assert longest_chain([span(0, 1), span(0.5, 1.5), span(1.4, 2)]) == 2
    assert longest_chain([span(0, 10), span(0, 1), span(1, 2), span(3, 4), span(11, 12)]) == 4


# -- signatures and bodies --------------------------------------------------------------------------------------------


@pytest.mark.s3
def test_lance_reads_and_writes_through_it(proxy: Proxy, s3: SeaweedFS) -> None:
    uri = s3.uri(f"proxy-{uuid.uuid4().hex}")
    lance.write_dataset(ROWS, uri, storage_options=through(proxy, s3))
    lance.write_dataset(ROWS, uri, mode="append", storage_options=through(proxy, s3))

    assert lance.dataset(uri, storage_options=through(proxy, s3)).count_rows() == 4
    assert lance.dataset(uri, storage_options=s3.options).to_table().num_rows == 4
    assert proxy.counts("key_class")["data"] >= 2


@pytest.mark.s3
def test_a_wrong_signature_is_refused_by_the_server_not_hidden(proxy: Proxy, s3: SeaweedFS) -> None:
    wrong = {**through(proxy, s3), "aws_secret_access_key": "not-the-secret"}
    with pytest.raises(quire.errors.PermissionDenied):
        Store.open(s3.uri("proxy-wrong"), wrong).put("k", b"x")
    assert {r.status for r in proxy.requests} == {403}


@pytest.mark.s3
def test_large_bodies_pass_unchanged_in_both_directions(proxy: Proxy, s3: SeaweedFS) -> None:
    inside, past = store(proxy, s3)
    body = os.urandom(9_000_017)
    inside.put("large", body)
    assert past.get("large") == body
    assert inside.get("large") == body
    assert proxy.requests[0].bytes_out == proxy.requests[1].bytes_in == len(body)


@pytest.mark.s3
@pytest.mark.parametrize(
    ("head", "parts"),
    [
        ("Content-Length: 11", [b"hello ", b"world"]),
        ("Content-Length: 11\r\nExpect: 100-continue", [b"hello world"]),
        ("Transfer-Encoding: chunked", [b"6\r\nhello \r\n", b"5;x=y\r\nworld\r\n0\r\n\r\n"]),
        ("Connection: close\r\nContent-Length: 11", [b"hello world"]),
    ],
)
def test_bodies_arrive_however_they_are_sent(proxy: Proxy, s3: SeaweedFS, head: str, parts: list[bytes]) -> None:
    key = f"proxy-{uuid.uuid4().hex}"
    answer = raw_put(proxy, s3, key, head, parts)
    assert b" 200 " in answer
    assert Store.open(s3.uri(), s3.options).get(key) == b"hello world"
    assert answer.startswith(b"HTTP/1.1 100 Continue") == ("Expect" in head)
    assert proxy.requests[0].status == 200


@pytest.mark.s3
def test_a_client_that_leaves_in_the_middle_of_a_body_holds_nothing_up(proxy: Proxy, s3: SeaweedFS) -> None:
    key = f"proxy-{uuid.uuid4().hex}"
    target = signed(proxy, s3, key)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as link:
        link.sendall(f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\nContent-Length: 9\r\n\r\nha".encode())
        while not proxy.requests:
            time.sleep(0.001)
    assert proxy.settle()
    assert proxy.requests[0].status is None
    assert Store.open(s3.uri(), s3.options).get_or_none(key) is None


# -- cuts and errors --------------------------------------------------------------------------------------------------


@pytest.mark.s3
@pytest.mark.parametrize(("side", "there"), [("before", False), ("after", True)])
def test_a_cut_put_is_absent_before_and_present_after(proxy: Proxy, s3: SeaweedFS, side: Any, there: bool) -> None:
    inside, past = store(proxy, s3)
    cut = proxy.cut(lambda r: r.key.endswith("victim"), side=side, times=None)
    inside.put("other", b"x")
    with pytest.raises(quire.errors.StorageError):
        inside.put("victim", b"x")

    assert {r.key.rpartition("/")[2] for r in cut.hits} == {"victim"}
    assert all(r.status is None for r in cut.hits)
    assert (past.get_or_none("victim") is not None) is there
    proxy.heal()
    inside.put("victim", b"y")
    assert past.get("victim") == b"y"


@pytest.mark.s3
@pytest.mark.parametrize(("side", "puts"), [("before", 2), ("after", 1)])
def test_a_create_whose_answer_is_lost_is_settled_by_what_is_there(
    proxy: Proxy, s3: SeaweedFS, side: Any, puts: int
) -> None:
    inside, past = store(proxy, s3)
    cut = proxy.cut(lambda r: r.kind == "create", side=side)
    created = inside.create("slot", b"mine", mine=lambda found: found == b"mine")

    assert created.outcome is Outcome.COMMITTED
    assert past.get("slot") == b"mine"
    assert len(cut.hits) == 1
    assert proxy.counts() == {"create": puts, "GET": 1}


@pytest.mark.s3
@pytest.mark.parametrize("side", ["before", "after"])
def test_after_its_death_nothing_of_a_client_arrives(proxy: Proxy, s3: SeaweedFS, side: Any) -> None:
    inside, past = store(proxy, s3)
    proxy.cut(3, side=side, then_dead=True)
    for n in range(1, 6):
        try:
            inside.put(f"{n}", b"x")
        except quire.errors.StorageError:
            assert n >= 3
        else:
            assert n < 3
    assert proxy.settle()

    there = [n for n in range(1, 6) if past.get_or_none(f"{n}") is not None]
    assert there == ([1, 2] if side == "before" else [1, 2, 3])
    assert len(proxy.requests) == 3
    proxy.heal()
    inside.put("again", b"x")


@pytest.mark.s3
@pytest.mark.parametrize("status", [409, 412, 500, 503])
def test_errors_are_answered_as_the_server_would(proxy: Proxy, s3: SeaweedFS, status: int) -> None:
    inside, past = store(proxy, s3)
    fault = proxy.answer(status, lambda r: r.kind == "create")
    created = inside.create("k", b"mine", mine=lambda found: found == b"mine")

    assert created.outcome is Outcome.COMMITTED
    assert [r.status for r in fault.hits] == [status]
    assert fault.hits[0].bytes_out == 4
    assert proxy.counts("kind", "status") == {("create", status): 1, ("GET", 404): 1, ("create", 200): 1}
    assert past.get("k") == b"mine"


@pytest.mark.s3
def test_a_fault_in_the_predicate_is_raised_not_swallowed(s3: SeaweedFS) -> None:
    proxy = Proxy(s3.endpoint)
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(ZeroDivisionError))
        stack.enter_context(proxy)
        proxy.cut(lambda r: 1 // 0 == 0)
        with pytest.raises(quire.errors.StorageError):
            store(proxy, s3)[0].put("k", b"x")


# -- latency and cap: ratios only -------------------------------------------------------------------------------------


def spent(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@pytest.mark.s3
def test_latency_is_paid_once_per_hop_and_hops_are_seen_on_the_wire(proxy: Proxy, s3: SeaweedFS) -> None:
    inside, _ = store(proxy, s3)
    inside.put("k", b"x")

    def sequential() -> None:
        for _ in range(5):
            inside.get("k")

    def parallel() -> None:
        inside.get_many(["k"] * 5)

    proxy.latency = 0.2
    start = proxy.mark()
    slow = spent(sequential)
    assert longest_chain(proxy.since(start)) == 5
    start = proxy.mark()
    together = spent(parallel)
    assert longest_chain(proxy.since(start)) == 1
    proxy.latency = 0.0
    fast = spent(sequential)

    assert slow > 5 * 0.2
    assert slow > 1.5 * fast
    assert slow > 2 * together


@pytest.mark.s3
def test_the_cap_lets_so_many_through_at_once_first_come_first_served(proxy: Proxy, s3: SeaweedFS) -> None:
    inside, _ = store(proxy, s3)
    inside.put("k", b"x")
    proxy.latency = 0.2
    walls = {}
    for cap in (None, 2, 1):
        proxy.concurrency = cap
        start = proxy.mark()
        with ThreadPoolExecutor(8) as pool:
            walls[cap] = spent(lambda pool=pool: list(pool.map(inside.get, ["k"] * 8)))  # type: ignore[misc]
    in_turn = proxy.since(start)

    assert walls[2] > 8 / 2 * proxy.latency
    assert walls[1] > 8 * proxy.latency
    assert walls[1] > 2 * walls[None]
    assert [r.number for r in sorted(in_turn, key=lambda r: r.ended or 0)] == [r.number for r in in_turn]


@pytest.mark.s3
def test_a_cap_that_is_lifted_frees_those_who_wait(proxy: Proxy, s3: SeaweedFS) -> None:
    inside, _ = store(proxy, s3)
    inside.put("k", b"x")
    proxy.concurrency = 0
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(inside.get, "k") for _ in range(4)]
        while len(proxy.requests) < 5:
            time.sleep(0.001)
        assert not any(f.done() for f in waiting)
        proxy.concurrency = None
        assert [f.result(timeout=30) for f in waiting] == [b"x"] * 4


@pytest.mark.s3
def test_a_delayed_request_is_overtaken(proxy: Proxy, s3: SeaweedFS) -> None:
    inside, past = store(proxy, s3)
    proxy.delay(1.0, lambda r: r.key.endswith("late"))
    late = threading.Thread(target=inside.put, args=("late", b"x"))
    late.start()
    while not any(r.key.endswith("late") for r in proxy.requests):
        time.sleep(0.001)
    inside.put("early", b"x")
    assert past.get_or_none("late") is None
    late.join()
    assert past.get("late") == b"x"


# -- many threads, and the end ----------------------------------------------------------------------------------------


def open_sockets() -> int:
    return sum(os.readlink(f"/proc/self/fd/{fd}").startswith("socket:") for fd in _descriptors())


def _descriptors() -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]


@pytest.mark.s3
def test_sixteen_threads_lose_nothing(s3: SeaweedFS) -> None:
    with Proxy(s3.endpoint, concurrency=4) as proxy:
        inside, past = store(proxy, s3)

        def work(number: int) -> None:
            for n in range(20):
                key = f"{number}-{n}"
                inside.put(key, key.encode())
                assert inside.get(key) == key.encode()

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))

    assert proxy.counts() == {"PUT": 320, "GET": 320}
    assert sorted(r.number for r in proxy.requests) == list(range(1, 641))
    assert len(list(past.list(""))) == 320


@pytest.mark.s3
def test_no_socket_is_left_open(s3: SeaweedFS) -> None:
    before, threads = open_sockets(), threading.active_count()
    with Proxy(s3.endpoint) as proxy:
        started = open_sockets()
        proxy.cut(lambda r: r.number % 3 == 0, times=None)
        proxy.cut(lambda r: r.number % 3 == 1, side="after", times=None)
        for n in range(12):
            with contextlib.suppress(ConnectionError):
                raw_put(proxy, s3, f"proxy-{n}", "Content-Length: 1", [b"x"])
        until = time.monotonic() + 10
        while open_sockets() > started and time.monotonic() < until:
            time.sleep(0.01)
        assert open_sockets() <= started  # what others had open may have been closed meanwhile
        idle = [socket.create_connection(("127.0.0.1", proxy.port), timeout=20) for _ in range(3)]

    for link in idle:
        with link, contextlib.suppress(ConnectionResetError):
            assert link.recv(1) == b""
    assert open_sockets() <= before
    assert threading.active_count() <= threads
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port))


def test_it_can_be_stopped_twice_and_needs_an_http_address() -> None:
    proxy = Proxy("http://127.0.0.1:9")
    with proxy:
        pass
    proxy.stop()
    with pytest.raises(ValueError, match="plain HTTP"):
        Proxy("https://example.com")
