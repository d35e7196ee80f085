"""Proof of create-if-absent."""

from __future__ import annotations

import pytest
from tests.store.faulty import FaultyS3

from quire.errors import PermissionDenied, StorageError, UnsafeStore
from quire.store import Store, probe
from quire.testing.s3 import SeaweedFS


def test_honest_stores_pass_and_nothing_stays(store: Store) -> None:
    probe(store)
    assert list(store.list("")) == []


def test_a_store_that_lets_both_creates_win_is_unsafe(faulty: FaultyS3) -> None:
    faulty.ignore_conditions = True
    with pytest.raises(UnsafeStore, match="s3://bucket/lake"):
        probe(faulty.store)
    assert faulty.objects == {}


def test_a_store_that_answers_412_and_writes_anyway_is_unsafe(faulty: FaultyS3) -> None:
    faulty.ignore_conditions = True
    faulty.fail("PUT", "+200", "+412")
    with pytest.raises(UnsafeStore):
        probe(faulty.store)


def test_a_denied_store_is_named(faulty: FaultyS3) -> None:
    faulty.fail("PUT", 403)
    with pytest.raises(PermissionDenied, match="s3://bucket/lake"):
        probe(faulty.store)


def test_a_missing_bucket_is_not_called_unsafe(faulty: FaultyS3) -> None:
    faulty.fail("PUT", 404)
    with pytest.raises(StorageError, match="Create the bucket") as caught:
        probe(faulty.store)
    assert type(caught.value) is StorageError


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_gone_is_not_called_unsafe() -> None:
    with FaultyS3() as server:
        store = server.store
    with pytest.raises(StorageError) as caught:
        probe(store)
    assert type(caught.value) is StorageError


@pytest.mark.s3
def test_wrong_credentials_are_denied_by_a_real_server(s3: SeaweedFS) -> None:
    store = Store.open(s3.uri("denied"), {**s3.options, "aws_secret_access_key": "not-the-secret"})
    with pytest.raises(PermissionDenied, match="s3://lake/denied") as caught:
        probe(store)
    assert "not-the-secret" not in str(caught.value)
    assert s3.options["aws_access_key_id"] not in str(caught.value)
