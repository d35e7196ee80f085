"""The owner of the commits of Delta tables: what it ratifies, what it tells, and what readers see who do not ask it."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import quire
import quire.delta
from quire.delta import CommitOwner, OwnedTable
from quire.errors import Conflict, InvalidInput, KeyConflict, NotFound, Unsupported
from quire.formats import OwnedCommit


def rows(*ids: int, times: int = 10) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([times * i for i in ids], pa.int64())})


class Shop:
    """A lake with one Delta table, its owner, and a client that writes data files itself."""

    def __init__(self, root: Path, dialect: str) -> None:
        self.lake = quire.create(str(root / "lake"), backfill=False)
        with self.lake.transaction("create") as tx:
            tx.create_table("orders", rows(0), key="id", format="delta", options={"dialect": dialect})
        self.owner: OwnedTable = CommitOwner(self.lake).table("orders")
        self.folder = root / "lake" / self.lake["orders"].describe()["location"]

    def add(self, *ids: int, name: str | None = None) -> dict[str, Any]:
        path = name or f"data/client-{uuid.uuid4()}.parquet"
        pq.write_table(rows(*ids), self.folder / path)
        told = {"path": path, "partitionValues": {}, "size": (self.folder / path).stat().st_size}
        told |= {"modificationTime": 1, "dataChange": True, "stats": json.dumps({"numRecords": len(ids)})}
        return {"add": told}

    def commit(self, version: int, *ids: int, **more: Any) -> OwnedCommit:
        return self.owner.commit(version, [self.add(*ids)], **more)

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in quire.open(self.lake.uri, read_only=True).snapshot()["orders"].to_pylist())

    def on_disk(self) -> list[int]:
        """What a reader of the folder sees."""
        return sorted(DeltaTable(str(self.folder)).to_pyarrow_table().column("id").to_pylist())


@pytest.fixture(params=["catalogManaged", "managedCommit"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return Shop(tmp_path, request.param)


@pytest.fixture
def managed(tmp_path: Path) -> Shop:
    return Shop(tmp_path, "managedCommit")


def test_a_version_is_ratified_told_and_published(shop: Shop) -> None:
    done = shop.commit(1, 1, 2)
    assert done.version == 1
    assert done.path.startswith("_delta_log/_")
    assert done.size == (shop.folder / done.path).stat().st_size
    assert shop.ids() == [0, 1, 2]
    told = shop.owner.get_commits()
    assert (told.commits, told.latest_table_version) == ((done,), 1)
    assert shop.owner.backfill_to_version(1).outcome == "promoted"
    assert shop.owner.get_commits() == quire.delta.Commits((), 1)
    assert (shop.folder / "_delta_log" / f"{1:020d}.json").read_bytes() == (shop.folder / done.path).read_bytes()


def test_times_rise_and_come_from_the_owner(shop: Shop) -> None:
    info = {"commitInfo": {"operation": "MERGE", "inCommitTimestamp": 1, "txnId": "mine", "userName": "ada"}}
    done = [shop.owner.commit(v, [shop.add(v), info]) for v in (1, 2, 3)]
    times = [one.timestamp for one in done]
    assert times == sorted(set(times))
    assert times[0] > 1
    first = json.loads((shop.folder / done[0].path).read_text().splitlines()[0])["commitInfo"]
    assert (first["operation"], first["userName"], first["inCommitTimestamp"]) == ("MERGE", "ada", times[0])
    assert first["txnId"] != "mine"


def test_only_the_next_version_can_be_committed(shop: Shop) -> None:
    shop.commit(1, 1)
    with pytest.raises(Conflict, match="Version 1 .* exists"):
        shop.commit(1, 2)
    for version in (3, 0, -1):
        with pytest.raises((InvalidInput, Conflict)):
            shop.commit(version, 2)
    assert shop.ids() == [0, 1]


def test_of_rivals_for_a_version_one_wins(shop: Shop) -> None:
    def one(number: int) -> bool:
        owner = CommitOwner(quire.open(shop.lake.uri, backfill=False)).table("orders")
        try:
            owner.commit(1, [shop.add(number)])
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(one, range(10, 14)))
    assert won.count(True) == 1
    assert shop.ids() == [0, 10 + won.index(True)]


def test_a_repeated_call_is_one_version(shop: Shop) -> None:
    actions = [shop.add(1)]
    token = quire.token()
    first = shop.owner.commit(1, actions, token=token)
    again = shop.owner.commit(1, actions, token=token)
    assert (again.version, again.path) == (1, first.path)
    assert shop.owner.latest_version() == 1
    assert shop.ids() == [0, 1]


def test_a_commit_is_checked_before_it_is_ratified(shop: Shop) -> None:
    absent = {"add": {"path": "data/none.parquet", "partitionValues": {}, "size": 3, "dataChange": True}}
    uncounted = shop.add(5)
    del uncounted["add"]["stats"]
    outside = {"add": {**shop.add(5)["add"], "path": "../../secret.parquet"}}
    short = shop.add(5)
    short["add"]["size"] += 1
    wrong: list[list[Any]] = [[absent], [uncounted], [outside], [short], [], [{"add": 1}], [{"cdc": {}}], [{}], ["x"]]
    wrong += [[{"add": {**shop.add(5)["add"], "path": "s3://elsewhere/x.parquet"}}]]
    wrong += [[{"protocol": {"minReaderVersion": 9, "minWriterVersion": 9}}]]
    for actions in wrong:
        with pytest.raises(InvalidInput):
            shop.owner.commit(1, actions)
    with pytest.raises(KeyConflict):
        shop.commit(1, 0)
    with pytest.raises(quire.QuireError):
        shop.commit(1, 7, 7)
    with pytest.raises(Unsupported, match="owns"):
        shop.owner.commit(1, [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}])
    assert shop.ids() == [0]
    assert shop.owner.latest_version() <= 0


def test_versions_of_the_lake_and_of_clients_are_one_line(shop: Shop) -> None:
    shop.commit(1, 1)
    with shop.lake.transaction("between") as tx:
        tx["orders"].delete("id = 0")
        tx.create_table("other", rows(1))
    with pytest.raises(Conflict):
        shop.commit(2, 2)
    shop.commit(3, 3)
    assert [c.version for c in shop.owner.get_commits().commits] == [1, 2, 3]
    assert [c.version for c in shop.owner.get_commits(2, 2).commits] == [2]
    assert shop.ids() == [1, 3]
    assert shop.lake.verify(deep=True).ok


def test_a_client_removes_files(shop: Shop) -> None:
    added = shop.add(1, 2)
    shop.owner.commit(1, [added])
    remove = {"remove": {"path": added["add"]["path"], "deletionTimestamp": 1, "dataChange": True}}
    shop.owner.commit(2, [remove, shop.add(3)])
    assert shop.ids() == [0, 3]


def test_what_was_never_ratified_is_not_published(shop: Shop) -> None:
    with pytest.raises(InvalidInput, match="never ratified"):
        shop.owner.backfill_to_version(1)
    with pytest.raises(NotFound):
        CommitOwner(shop.lake).table("nothing").latest_version()
    with shop.lake.transaction("lance") as tx:
        tx.create_table("lance", rows(1))
    with pytest.raises(Unsupported, match="commit owner"):
        CommitOwner(shop.lake).table("lance").latest_version()


def test_the_log_of_the_managed_commit_document(managed: Shop) -> None:
    """Versions 0 to 9 are ratified, 0 to 7 published; two files claim to be version 10, and neither is one."""
    assert managed.owner.get_commits().latest_table_version == -1
    for version in range(1, 10):
        managed.commit(version, version)
    assert managed.on_disk() == [0]
    assert managed.owner.backfill_to_version(7).version == 7
    commits = managed.folder / "_delta_log" / "_commits"
    for _ in range(2):
        never = [{"commitInfo": {"inCommitTimestamp": 1}}, managed.add(100)]
        (commits / f"{10:020d}.{uuid.uuid4()}.json").write_text("\n".join(map(json.dumps, never)) + "\n")
    assert DeltaTable(str(managed.folder)).version() == 7
    assert managed.on_disk() == list(range(8))
    told = managed.owner.get_commits(0, -1)
    assert ([c.version for c in told.commits], told.latest_table_version) == ([8, 9], 9)
    assert all(c.path.startswith("_delta_log/_commits/") for c in told.commits)
    fresh = managed.on_disk()
    for one in told.commits:  # what a reader does that asks the owner
        actions = [json.loads(line) for line in (managed.folder / one.path).read_text().splitlines()]
        for add in (a["add"] for a in actions if "add" in a):
            fresh += pq.read_table(managed.folder / add["path"]).column("id").to_pylist()
    assert sorted(fresh) == managed.ids() == list(range(10))
    DeltaTable(str(managed.folder)).create_checkpoint()  # of a published version: readers go on
    assert managed.on_disk() == list(range(8))
    managed.owner.backfill_to_version(9)
    assert managed.on_disk() == list(range(10))
    managed.commit(10, 10)
    assert managed.ids() == list(range(11))
