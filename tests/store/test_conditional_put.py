"""Create: who owns the key, whatever goes wrong on the way."""

from __future__ import annotations

import time

import pytest
from tests.store.faulty import FaultyS3

from quire.errors import DeadlineExceeded, PermissionDenied, StorageError
from quire.store import Created, Outcome, Store, metering

COMMITTED = Created(Outcome.COMMITTED)
UNKNOWN = Created(Outcome.UNKNOWN)


def create(store: Store, body: bytes = b"mine", deadline: float | None = None) -> Created:
    return store.create("log/1", body, mine=lambda found: found == body, deadline=deadline)


def test_first_create_commits_and_second_conflicts_with_the_first_bytes(store: Store) -> None:
    assert create(store, b"one") == COMMITTED
    assert create(store, b"two") == Created(Outcome.CONFLICT, b"one")
    assert store.get("log/1") == b"one"


def test_finding_the_own_bytes_is_committed(store: Store) -> None:
    create(store)
    assert create(store) == COMMITTED


def test_an_undisturbed_create_is_one_request(store: Store) -> None:
    with metering() as m:
        create(store)
    assert m.requests == {"create": 1}
    assert m.bytes_out == 4


@pytest.mark.parametrize("fault", ["lost", "+500", "+503", "+412", "+409", "+403"])
def test_applied_but_not_acknowledged_is_committed(faulty: FaultyS3, fault: str) -> None:
    faulty.fail("PUT", fault)
    assert create(faulty.store) == COMMITTED
    assert faulty.log == ["PUT", "GET"]


@pytest.mark.parametrize("fault", ["dropped", 409, 412, 500, 503])
def test_not_applied_is_sent_again(faulty: FaultyS3, fault: str | int) -> None:
    faulty.fail("PUT", fault, fault)
    assert create(faulty.store) == COMMITTED
    assert faulty.log == ["PUT", "GET", "PUT", "GET", "PUT"]


def test_a_failure_that_hid_a_lost_race_is_a_conflict(faulty: FaultyS3) -> None:
    faulty.put("log/1", b"theirs")
    faulty.fail("PUT", "dropped")
    assert create(faulty.store) == Created(Outcome.CONFLICT, b"theirs")


@pytest.mark.usefixtures("impatient")
def test_a_key_that_stays_absent_after_dropped_puts_is_unknown(faulty: FaultyS3) -> None:
    faulty.fail("PUT", *["dropped"] * 9)
    assert create(faulty.store) == UNKNOWN
    assert faulty.log.count("PUT") == 5


def test_one_ambiguous_put_among_refused_ones_makes_it_unknown(faulty: FaultyS3) -> None:
    faulty.fail("PUT", 409, "dropped", 403)
    assert create(faulty.store) == UNKNOWN


@pytest.mark.usefixtures("impatient")
def test_puts_that_were_all_answered_with_a_conflict_raise(faulty: FaultyS3) -> None:
    faulty.fail("PUT", *[409] * 9)
    with pytest.raises(StorageError):
        create(faulty.store)
    assert faulty.log.count("PUT") == 5


@pytest.mark.usefixtures("impatient")
def test_a_key_that_cannot_be_read_back_is_unknown(faulty: FaultyS3) -> None:
    faulty.fail("PUT", "lost")
    faulty.fail("GET", *["dropped"] * 9)
    assert create(faulty.store) == UNKNOWN
    assert faulty.log == ["PUT", "GET", "GET", "GET", "GET"]


def test_reading_back_is_tried_again(faulty: FaultyS3) -> None:
    faulty.fail("PUT", "lost")
    faulty.fail("GET", "dropped", 500)
    assert create(faulty.store) == COMMITTED


def test_a_read_back_that_is_denied_is_unknown(faulty: FaultyS3) -> None:
    faulty.fail("PUT", "lost")
    faulty.fail("GET", 403)
    assert create(faulty.store) == UNKNOWN


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("readable", [True, False])
def test_a_denied_put_raises_at_once(faulty: FaultyS3, status: int, readable: bool) -> None:
    faulty.fail("PUT", status)
    if not readable:
        faulty.fail("GET", status)
    with pytest.raises(PermissionDenied, match="s3://bucket/lake"):
        create(faulty.store)
    assert faulty.log == ["PUT", "GET"]


def test_a_missing_bucket_is_named(faulty: FaultyS3) -> None:
    faulty.fail("PUT", 404)
    with pytest.raises(StorageError, match="s3://bucket/lake.*bucket") as caught:
        create(faulty.store)
    assert not caught.value.retryable


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_gone_is_unknown() -> None:
    with FaultyS3() as server:
        store = server.store
    assert create(store) == UNKNOWN


def test_nothing_is_sent_after_the_deadline(faulty: FaultyS3) -> None:
    with pytest.raises(DeadlineExceeded, match="s3://bucket/lake"):
        create(faulty.store, deadline=time.monotonic())
    assert faulty.log == []


def test_no_put_is_repeated_after_the_deadline(faulty: FaultyS3) -> None:
    faulty.fail("PUT", 409)
    with pytest.raises(DeadlineExceeded):
        create(faulty.store, deadline=time.monotonic() + 0.04)
    assert faulty.log == ["PUT", "GET"]


def test_a_deadline_after_an_ambiguous_put_is_unknown(faulty: FaultyS3) -> None:
    faulty.fail("PUT", "dropped")
    assert create(faulty.store, deadline=time.monotonic() + 0.04) == UNKNOWN


def test_every_attempt_is_counted(faulty: FaultyS3) -> None:
    faulty.fail("PUT", 409)
    with metering() as m:
        create(faulty.store)
    assert m.requests == {"create": 2, "get": 1}
    assert m.hops == 3
