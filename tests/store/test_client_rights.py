"""What credentials allow past the lake, tried on stores that hold clients to their rights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from quire.store import Store
from quire.store.client_rights import ClientRights, tried
from quire.store.vended_credentials import Sessions
from quire.testing.s3 import MinistackWithRights

ALL = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})


@pytest.fixture(scope="module")
def rights() -> Iterator[MinistackWithRights]:
    with MinistackWithRights() as server:
        yield server


def test_full_keys_can_destroy_and_sessions_cannot(rights: MinistackWithRights) -> None:
    ours = Store.open(rights.uri("lake"), rights.options)
    ours.put("tables/a/data/1", b"rows")
    assert tried(ours, "tables/a") == ClientRights(stages=True, moves=True, deletes=True, records=True)
    sessions = Sessions(rights.uri("lake"), rights.options, rights.make_role("clients", ALL))
    for access, stages in (("stage", True), ("read", False)):
        found = sessions.open("ada", [rights.uri("lake/tables/a")], access)  # type: ignore[arg-type]
        theirs = Store.open(rights.uri("lake"), found.options)
        assert tried(theirs, "tables/a", ours) == ClientRights(stages, moves=False, deletes=False, records=False)
    assert [entry.key for entry in ours.list("")] == ["tables/a/data/1"]


def test_on_a_disk(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": [1]}), tmp_path / "tables/a.lance")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    found = tried(Store.open(tmp_path, {}), "tables/a.lance")
    assert found == ClientRights(stages=True, moves=True, deletes=True, records=True)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_a_file_that_could_not_be_removed_disturbs_nobody(tmp_path: Path) -> None:
    """Where versions may be put and nothing removed, the file of the trial stays until cleanup."""
    lance.write_dataset(pa.table({"id": [1]}), tmp_path / "a.lance")
    (tmp_path / "a.lance/_versions/quire-doctor-0123456789abcdef.manifest").touch()
    os.utime(tmp_path / "a.lance/_versions")
    found = lance.dataset(tmp_path / "a.lance")
    found.insert(pa.table({"id": [2]}))
    assert lance.dataset(tmp_path / "a.lance").count_rows() == 2
    assert [version["version"] for version in found.versions()] == [1, 2]
