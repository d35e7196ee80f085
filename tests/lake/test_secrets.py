"""What a lake is opened with stays with its opener: no object of the lake, no log line and no error holds a secret."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import quire
from quire.store import Store
from quire.testing.s3 import SeaweedFS

HUSH = "hush-6f1c2b"
"""As a storage option. It occurs nowhere else."""


def use(lake: quire.Lake) -> Iterator[str]:
    """Everything that writes an object of its own kind, and what was told meanwhile."""
    with lake.transaction("tables", token=quire.token(), metadata={"job": "nightly"}) as tx:
        tx.create_table("people", [{"id": 1, "name": "Ada"}], key="id")
    lake.transact(lambda tx: tx["people"].upsert([{"id": 2, "name": "Bo"}]), token=quire.StreamToken("feed", 1))
    lake.tag("first", message="a tag")
    trial = lake.create_branch("trial")
    trial.create_table("more", [{"id": 1}])
    graph = quire.Graph(lake)
    graph.apply_schema("node Person { name: String @key }")
    graph.load([{"type": "Person", "data": {"name": "Ada"}}])
    graph.store("query everybody() { match { $p: Person } return { $p.name } }")
    lake.revert(lake.head)
    lake.optimize()
    with lake.snapshot().lease():
        lake.flush()
        lake.backfill()
        lake.recover()
        yield from ("leased",)
    lake.cleanup(keep=1, older_than=0, grace=0)
    for wrong in (lambda: lake["nothing"], lambda: lake.sql("select nothing from people").to_arrow()):
        try:
            wrong()
        except quire.QuireError as error:
            yield f"{error} {error!r} {error.to_dict()}"
    yield f"{lake!r} {lake.snapshot()!r} {lake.status()} {lake.log()!r} {lake.show(lake.head).to_dict()}"
    yield quire.metrics()


def objects(store: Store) -> dict[str, bytes]:
    return {entry.key: store.get(entry.key) for entry in store.list("")}


def check(uri: str, options: dict[str, str], secrets: list[str], caplog: pytest.LogCaptureFixture) -> None:
    store = Store.open(uri, options)
    found: dict[str, bytes] = {}
    with caplog.at_level(logging.DEBUG), quire.create(uri, storage_options=options, author="ada") as lake:
        told = []
        for text in use(lake):
            told.append(text)
            found |= objects(store)  # leases and notes are there for a while only
    found |= objects(store)
    assert {key.split("/")[1] for key in found if key.startswith("_quire/")} >= {"format.json", "log", "refs", "leases"}
    for secret in secrets:
        assert [key for key, body in found.items() if secret.encode() in body or secret in key] == []
        assert secret not in "\n".join(told)
        assert secret not in "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("quire"))


def test_no_object_of_a_lake_on_disk_holds_what_it_was_opened_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check(str(tmp_path / "lake"), {"aws_secret_access_key": HUSH}, [HUSH], caplog)


@pytest.mark.s3
def test_no_object_of_a_lake_in_a_bucket_holds_the_credentials(s3: SeaweedFS, caplog: pytest.LogCaptureFixture) -> None:
    options = s3.options
    secrets = [options["aws_secret_access_key"], options["aws_access_key_id"]]
    check(s3.uri(uuid.uuid4().hex), options, secrets, caplog)
