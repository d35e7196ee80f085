"""The Delta tables of a lake as a Unity Catalog: what its clients are answered, and DuckDB as a client."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import duckdb_client
from tests.server.conftest import Serve
from tests.server.web import Web

import quire
from quire.server.config import Limits

BASE = "api/2.1/unity-catalog"
TABLES = f"{BASE}/delta/v1/catalogs/lake/schemas/default/tables"


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    """Two Delta tables with a version that is not published, and a Lance table."""
    lake = quire.create(tmp_path / "lake", backfill=False, author="ada")
    with lake.transaction("tables") as tx:
        tx.create_table("orders", [{"id": 1, "total": 3}], key="id", format="delta")
        tx.create_table("totals", [{"id": 1, "total": 3}], format="delta")
        tx.create_table("people", [{"id": 1}])
        tx.create_table("old", [{"id": 1}], format="delta", options={"dialect": "managedCommit"})
    with lake.transaction("second") as tx:
        tx["orders"].append([{"id": 2, "total": 4}])
        tx["totals"].append([{"id": 2, "total": 4}])
    return lake


@pytest.fixture
def web(lake: quire.Lake, serve: Serve) -> Iterator[Web]:
    with serve(demo=lake.uri) as found:
        yield found


class Client:
    """A client that stages commits itself, as engines do."""

    def __init__(self, web: Web, lake: quire.Lake, at: str = "/delta/demo") -> None:
        self.web, self.lake, self.at = web, lake, at

    def load(self, table: str = "orders") -> dict[str, Any]:
        answer = self.web("GET", f"{self.at}/{TABLES}/{table}", status=None)
        assert answer.status == 200
        found: dict[str, Any] = answer.json
        return found

    def stage(self, table: str, version: int, *ids: int, later: int = 1) -> str:
        """A data file, and a commit that adds it, in a file of its own."""
        loaded = self.load(table)["metadata"]
        folder = Path(loaded["location"].removeprefix("file://"))
        data = f"{uuid.uuid4()}.parquet"
        pq.write_table(pa.table({"id": list(ids), "total": list(ids)}), folder / data)
        when = loaded["last-commit-timestamp-ms"] + later
        add = {"path": data, "partitionValues": {}, "size": (folder / data).stat().st_size, "modificationTime": when}
        add |= {"dataChange": True, "stats": json.dumps({"numRecords": len(ids)})}
        info = {"inCommitTimestamp": when, "operation": "WRITE", "txnId": str(uuid.uuid4())}
        name = f"{version:020d}.{uuid.uuid4()}.json"
        lines = [json.dumps({"commitInfo": info}), json.dumps({"add": add})]
        (folder / "_delta_log" / "_staged_commits" / name).write_text("\n".join(lines) + "\n")
        return name

    def update(self, table: str, version: int, file: str, **more: Any) -> Any:
        loaded = self.load(table)["metadata"]
        requirements = [{"type": "assert-table-uuid", "uuid": more.get("uuid", loaded["table-uuid"])}]
        if "etag" in more:
            requirements.append({"type": "assert-etag", "etag": more["etag"]})
        commit = {"version": version, "timestamp": 0, "file-name": file, "file-size": 1}
        updates = [{"action": "add-commit", "commit": commit}, {"action": "set-latest-backfilled-version"}]
        body = {"requirements": requirements, "updates": updates}
        return self.web("POST", f"{self.at}/{TABLES}/{table}", body, status=None)


def test_a_table_is_loaded_with_its_unpublished_versions(lake: quire.Lake, serve: Serve) -> None:
    with serve(read_only=True, demo=lake.uri) as web:  # such a server publishes nothing
        _loaded(web, lake)


def _loaded(web: Web, lake: quire.Lake) -> None:
    found = Client(web, lake).load()
    assert found["latest-table-version"] == 1
    assert [c["version"] for c in found["commits"]] == [1]
    assert found["metadata"]["properties"]["delta.feature.catalogManaged"] == "supported"
    assert found["metadata"]["properties"]["io.unitycatalog.tableId"] == found["metadata"]["table-uuid"]
    assert [f["name"] for f in found["metadata"]["columns"]["fields"]] == ["id", "total"]
    lake.backfill()
    assert Client(web, lake).load()["commits"] == []
    listed = web("GET", f"/delta/demo/{BASE}/tables?catalog_name=lake&schema_name=default", status=None).json
    assert [t["name"] for t in listed["tables"]] == ["orders", "totals"]
    for missing in ("people", "old", "nowhere"):
        answer = web("GET", f"/delta/demo/{TABLES}/{missing}", status=None)
        assert (answer.status, answer.json["error"]["type"]) == (404, "NoSuchTableException")


def test_a_version_that_a_client_staged_is_ratified_as_it_is(web: Web, lake: quire.Lake) -> None:
    client = Client(web, lake)
    before = client.load()["metadata"]
    file = client.stage("orders", 2, 5, 6)
    answer = client.update("orders", 2, file, etag=before["etag"])
    assert answer.status == 200
    assert answer.json["latest-table-version"] == 2
    assert {c["file-name"] for c in answer.json["commits"] if c["version"] == 2} <= {file}, "listed until published"
    assert answer.json["metadata"]["etag"] == before["etag"], "rows alone change no etag"
    assert lake.snapshot()["orders"].count() == 4
    head = lake.head
    assert client.update("orders", 2, file).status == 200, "the same file again is the same commit"
    assert lake.refresh() == head
    other = client.update("orders", 2, client.stage("orders", 2, 7))
    assert (other.status, other.json["error"]["type"]) == (409, "CommitVersionConflictException")
    with lake.transaction("ours") as tx:
        tx["orders"].upsert([{"id": 5, "total": 50}])
    assert client.update("orders", 4, client.stage("orders", 4, 8)).status == 200
    assert {p.outcome for p in lake.backfill()} <= {"current", "promoted"}
    staged = Path(before["location"].removeprefix("file://")) / "_delta_log"
    published = (staged / f"{2:020d}.json").read_bytes()
    assert published == (staged / "_staged_commits" / file).read_bytes()
    again = quire.open(lake.uri)
    assert {r["id"]: r["total"] for r in again["orders"].to_pylist()} == {1: 3, 2: 4, 5: 50, 6: 6, 8: 8}
    assert again.verify(deep=True).ok
    assert again.adopt("orders").ops == (), "nobody takes it for a foreign write"


def test_commits_that_are_refused(web: Web, lake: quire.Lake) -> None:
    client = Client(web, lake)
    head = lake.refresh()
    early, twice = client.stage("orders", 2, 9, later=0), client.stage("orders", 2, 1)
    wrong = [
        client.update("orders", 2, f"{2:020d}.{uuid.uuid4()}.json"),
        client.update("orders", 2, "../" + early),
        client.update("orders", 2, early),
        client.update("orders", 3, client.stage("orders", 3, 9)),
        client.update("orders", 2, twice),
        client.update("orders", 2, client.stage("orders", 2, 9), uuid="another"),
        client.update("orders", 2, client.stage("orders", 2, 9), etag="another"),
        Client(web, lake, f"/delta/demo/at/{head}").update("orders", 2, client.stage("orders", 2, 9)),
    ]
    assert [a.status for a in wrong] == [400, 400, 400, 409, 400, 409, 409, 403]
    assert {tuple(sorted(a.json["error"])) for a in wrong} == {("code", "message", "type")}
    assert lake.refresh() == head


def test_writes_of_a_transaction_are_one_commit(web: Web, lake: quire.Lake) -> None:
    begun = web("POST", "/v1/lakes/demo/transactions", {"message": "both"}, status=None).json["id"]
    inside = Client(web, lake, f"/delta/demo/txn/{begun}")
    files = {table: inside.stage(table, 2, 9) for table in ("orders", "totals")}
    for table, file in files.items():
        answer = inside.update(table, 2, file)
        assert (answer.status, answer.json["latest-table-version"]) == (200, 1), "nobody may publish it yet"
        assert inside.update(table, 2, file).status == 200
    assert inside.update("orders", 3, inside.stage("orders", 3, 10)).status == 409
    assert lake.snapshot()["orders"].count() == 2
    assert web("POST", f"/v1/lakes/demo/transactions/{begun}/commit", status=None).status == 200
    now = lake.snapshot()
    assert (now["orders"].count(), now["totals"].count()) == (3, 3)
    assert len({lake.snapshot()[t].describe()["commit"] for t in files}) == 1
    assert lake.log()[0].message == "both"


def test_a_client_creates_a_table(web: Web, lake: quire.Lake) -> None:
    schema = f"/delta/demo/{BASE}/delta/v1/catalogs/lake/schemas/default"
    place = web("POST", f"{schema}/staging-tables", {"name": "made"}).json
    folder = Path(place["location"].removeprefix("file://"))
    wanted = {"name": "made", "location": place["location"]}
    assert web("POST", f"{schema}/tables", wanted, status=None).status == 400, "nothing was written"
    (folder / "_delta_log").mkdir(parents=True)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": place["required-protocol"]["reader-features"]}
    protocol |= {"writerFeatures": place["required-protocol"]["writer-features"]}
    fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in ("id", "total")]
    meta = {"id": str(uuid.uuid4()), "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    meta |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "createdTime": 5}
    meta |= {"configuration": place["required-properties"]}
    actions = [{"commitInfo": {"inCommitTimestamp": 5}}, {"protocol": protocol}, {"metaData": meta}]
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (folder / "_delta_log" / f"{0:020d}.json").write_text(text)
    made = web("POST", f"{schema}/tables", wanted).json
    assert made["metadata"]["table-uuid"] == place["table-id"]
    assert web("POST", f"{schema}/tables", wanted).status == 200, "the same again is the same table"
    head = lake.refresh()
    for wrong in ({**wanted, "name": "orders"}, {**wanted, "location": "file:///etc"}, {"name": "x"}):
        assert web("POST", f"{schema}/tables", wrong, status=None).status in (400, 409)
    assert lake.refresh() == head
    client = Client(web, lake)
    assert client.update("made", 1, client.stage("made", 1, 7)).status == 200
    with lake.transaction("ours") as tx:
        tx["made"].append([{"id": 8, "total": 8}])
    lake.backfill()
    assert sorted(r["id"] for r in quire.open(lake.uri)["made"].to_pylist()) == [7, 8]
    assert lake.verify(deep=True).ok


def test_nobody_is_told_429(lake: quire.Lake, serve: Serve) -> None:
    """Spark takes it as a failure of the network; a catalog says that it is not available."""
    with serve(Limits(requests_per_second=1), demo=lake.uri) as web:
        answers = [web("GET", f"/delta/demo/{TABLES}/orders", status=None) for _ in range(4)]
    assert {a.status for a in answers} == {200, 503}


def duckdb(web: Web, at: str, *statements: str) -> list[dict[str, Any]]:
    connected = (
        f"create secret (type uc, token 'x', endpoint '{web.url}/delta/demo{at}', aws_region 'us-east-1')",
        "attach 'lake' as lake (type unity_catalog, default_schema 'default')",
    )
    answers = duckdb_client.run(*connected, *statements, extensions=("httpfs", "delta", "unity_catalog"))
    assert not any("error" in answer for answer in answers[:2]), answers
    return answers[2:]


@pytest.mark.slow
def test_duckdb_reads_and_writes(web: Web, lake: quire.Lake) -> None:
    before = lake.head
    read = "select count(*), sum(total)::bigint from lake.default.orders"
    found = duckdb(web, "", read, "insert into lake.default.orders values (7, 70)", read)
    assert found == [{"rows": [[2, 7]]}, {"rows": [[1]]}, {"rows": [[3, 77]]}]
    assert {r["id"] for r in lake.snapshot()["orders"].to_pylist()} == {1, 2, 7}
    assert duckdb(web, f"/at/{before}", read) == [{"rows": [[2, 7]]}]
    with lake.transaction("ours") as tx:
        tx["orders"].delete("id = 1")
    assert duckdb(web, "", read) == [{"rows": [[2, 74]]}]
    lake.backfill()
    assert lake.verify(deep=True).ok


@pytest.mark.slow
def test_duckdb_reads_what_is_not_published(lake: quire.Lake, serve: Serve) -> None:
    with serve(read_only=True, demo=lake.uri) as web:
        assert len(Client(web, lake).load("totals")["commits"]) == 1
        query = "select sum(o.total + t.total)::bigint from lake.default.orders o join lake.default.totals t using (id)"
        assert duckdb(web, "", query) == [{"rows": [[14]]}]


@pytest.mark.slow
def test_a_transaction_of_duckdb_over_two_tables_is_one_commit(web: Web, lake: quire.Lake) -> None:
    begun = web("POST", "/v1/lakes/demo/transactions", {"message": "from DuckDB"}, status=None).json["id"]
    done = duckdb(
        web,
        f"/txn/{begun}",
        "begin",
        "insert into lake.default.orders values (8, 80)",
        "insert into lake.default.totals values (8, 80)",
        "commit",
    )
    assert not any("error" in answer for answer in done), done
    assert lake.snapshot()["orders"].count() == 2
    assert web("POST", f"/v1/lakes/demo/transactions/{begun}/commit", status=None).status == 200
    now = lake.snapshot()
    assert (now["orders"].count(), now["totals"].count()) == (3, 3)
    assert (lake.log()[0].message, set(lake.log()[0].tables)) == ("from DuckDB", {"orders", "totals"})
