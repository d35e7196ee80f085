"""The same behaviour on local disk, in memory and on a real S3-compatible server."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from tests.store.faulty import FaultyS3

from quire.errors import InvalidInput, NotFound, StorageError
from quire.store import Created, Outcome, Store, metering, run_parallel

ODD = ["é/ü x", "p%20q", "a*b", "x=1", "t~", "q?r", "a:b", "z/[x]", "w|{y}", '"q"', "a'b", "a&b+c", "s p/ok"]


def test_put_then_get_gives_the_bytes_back(store: Store) -> None:
    store.put("a/b", b"one")
    store.put("a/b", b"two")
    assert store.get("a/b") == b"two"
    assert store.get_or_none("a/b") == b"two"


def test_empty_objects_are_objects(store: Store) -> None:
    store.put("empty", b"")
    assert store.get("empty") == b""
    assert [entry.size for entry in store.list("")] == [0]


def test_a_missing_object_raises_with_key_and_root(store: Store) -> None:
    with pytest.raises(NotFound) as caught:
        store.get("nope")
    assert caught.value.key == "nope"
    assert caught.value.uri == store.uri
    assert store.get_or_none("nope") is None
    assert store.stat("nope") is None


def test_a_folder_is_not_an_object(store: Store) -> None:
    store.put("a/b", b"x")
    assert store.get_or_none("a") is None
    assert store.stat("a") is None
    assert store.get_or_none("a/b/c") is None


def test_get_many_keeps_the_order(store: Store) -> None:
    for n in range(20):
        store.put(f"k{n}", str(n).encode())
    keys = [f"k{n}" for n in reversed(range(20))]
    assert store.get_many([*keys, "nope"]) == [str(n).encode() for n in reversed(range(20))] + [None]
    assert store.get_many([]) == []


def test_ranges_are_clipped_at_the_end(store: Store) -> None:
    store.put("k", b"0123456789")
    assert store.get_range("k", 2, 3) == b"234"
    assert store.get_range("k", 8, 100) == b"89"
    assert store.get_range("k", 3, 0) == b""
    assert store.get_ranges("k", [(9, 1), (0, 2)]) == [b"9", b"01"]
    with pytest.raises(InvalidInput):
        store.get_range("k", -1, 3)
    with pytest.raises(NotFound):
        store.get_range("nope", 0, 3)


@pytest.mark.usefixtures("impatient")
def test_a_range_that_starts_behind_the_end_is_refused(store: Store) -> None:
    store.put("k", b"0123456789")
    with pytest.raises(StorageError):
        store.get_range("k", 10, 1)


def test_stat_tells_size_and_time(store: Store) -> None:
    store.put("k", b"12345")
    entry = store.stat("k")
    assert entry is not None
    assert (entry.key, entry.size) == ("k", 5)
    assert abs(entry.modified - datetime.now(UTC)) < timedelta(minutes=1)


def test_delete_is_idempotent(store: Store) -> None:
    store.put("a/k", b"x")
    store.delete("a/k")
    store.delete("a/k")
    store.delete("never/was")
    assert store.get_or_none("a/k") is None


def test_list_is_recursive_and_sorted_by_key(store: Store) -> None:
    keys = ["a/b/c", "a/b", "a-b", "a/a", "b", "a/é", "a/z/1", "a/B"]
    if store.is_local:
        keys.remove("a/b")  # on disk a name is a file or a folder
    for key in keys:
        store.put(key, b"x")
    assert [entry.key for entry in store.list("")] == sorted(keys)
    below = sorted(key for key in keys if key.startswith("a/"))
    assert [entry.key for entry in store.list("a")] == below
    assert [entry.key for entry in store.list("a/")] == below
    assert list(store.list("nothing")) == []


def test_list_resumes_after_a_key(store: Store) -> None:
    for n in range(10):
        store.put(f"log/{n:020}", b"x")
    after = f"log/{6:020}"
    assert [entry.key for entry in store.list("log", after=after)] == [f"log/{n:020}" for n in (7, 8, 9)]
    assert next(store.list("log", after="log/00")).key == f"log/{0:020}"


def test_a_long_listing_counts_its_pages(store: Store) -> None:
    if store.is_local:
        pytest.skip("a directory is read in one go")
    run_parallel([lambda n=n: store.put(f"many/{n:05}", b"") for n in range(1005)])
    with metering() as m:
        assert [entry.key for entry in store.list("many")] == [f"many/{n:05}" for n in range(1005)]
    assert m.requests == {"list": 2}


def test_odd_names_are_kept_as_they_are(store: Store) -> None:
    for key in ODD:
        store.put(key, key.encode())
    assert [entry.key for entry in store.list("")] == sorted(ODD)
    assert store.get_many(ODD) == [key.encode() for key in ODD]


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "a/../b", "..", "./a", "a\\b", "a\nb", ".x.quire-tmp", "a#1"])
def test_wrong_keys_are_refused(store: Store, key: str) -> None:
    calls = (store.get, store.stat, store.delete, store.child_uri, lambda key: store.put(key, b""))
    for call in calls:
        with pytest.raises(InvalidInput):
            call(key)


def test_child_uri_is_below_the_root(store: Store) -> None:
    assert store.child_uri("tables/t") == f"{store.uri}/tables/t"


def test_sync_takes_keys_and_absolute_paths(store: Store) -> None:
    store.put("a/k", b"x")
    store.sync(["a/k", store.child_uri("a/k")] if store.is_local else ["a/k"])


def test_many_threads_one_winner(store: Store) -> None:
    racers = 5
    for round_number in range(2 if store.scheme == "s3" else 30):
        barrier = threading.Barrier(racers)

        def run(number: int, key: str = f"slot/{round_number}", barrier: threading.Barrier = barrier) -> Created:
            body = str(number).encode()
            barrier.wait()
            return store.create(key, body, mine=lambda found: found == body)

        with ThreadPoolExecutor(racers) as pool:
            outcomes = list(pool.map(run, range(racers)))
        winners = [n for n, created in enumerate(outcomes) if created.outcome is Outcome.COMMITTED]
        assert len(winners) == 1
        body = str(winners[0]).encode()
        assert all(created.found == body for n, created in enumerate(outcomes) if n != winners[0])


def test_repr_holds_only_the_root(store: Store) -> None:
    assert repr(store) == f"Store({store.uri!r})"


def test_reads_are_repeated_when_the_store_fails(faulty: FaultyS3) -> None:
    faulty.put("k", b"x")
    faulty.fail("GET", 500, "dropped", 503)
    with metering() as m:
        assert faulty.store.get("k") == b"x"
    assert m.requests == {"get": 4}


def test_writes_without_condition_are_repeated(faulty: FaultyS3) -> None:
    faulty.fail("PUT", "lost", 500)
    faulty.store.put("k", b"x")
    faulty.fail("DELETE", 500)
    faulty.store.delete("k")
    assert faulty.log == ["PUT", "PUT", "PUT", "DELETE", "DELETE"]


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_gone_is_a_retryable_storage_error() -> None:
    with FaultyS3() as server:
        store = server.store
    with pytest.raises(StorageError, match="s3://bucket/lake") as caught:
        store.get("k")
    assert caught.value.retryable


def test_a_missing_bucket_is_named_on_put(faulty: FaultyS3) -> None:
    faulty.fail("PUT", 404)
    with pytest.raises(StorageError, match="Create the bucket") as caught:
        faulty.store.put("k", b"x")
    assert not caught.value.retryable


def test_opening_touches_nothing(tmp_path: os.PathLike[str]) -> None:
    Store.open(os.path.join(tmp_path, "not", "yet"))
    assert os.listdir(tmp_path) == []
