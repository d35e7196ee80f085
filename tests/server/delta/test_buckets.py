"""Tables on an S3-compatible server: how they are reached, and a client that reads what is not published."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests import duckdb_client
from tests.namespace.serving import served

import quire
from quire.testing.s3 import SeaweedFS

pytestmark = pytest.mark.s3

TABLE = "/delta/demo/api/2.1/unity-catalog/delta/v1/catalogs/lake/schemas/default/tables/orders"


@pytest.fixture
def lake(s3: SeaweedFS) -> quire.Lake:
    """A Delta table with two versions, of which one is published."""
    lake = quire.create(s3.uri(f"delta-{uuid.uuid4().hex}"), storage_options=s3.options, backfill=False)
    with lake.transaction("tables") as tx:
        tx.create_table("orders", [{"id": 1, "total": 3}], format="delta")
    with lake.transaction("second") as tx:
        tx["orders"].append([{"id": 2, "total": 4}])
    return lake


def test_clients_are_told_the_credentials_that_are_meant_for_them(lake: quire.Lake, s3: SeaweedFS) -> None:
    """Those of the server itself are told nobody."""
    with served(lake, read_only=True, options={"storage_options": s3.options}) as web:
        assert web("GET", f"{TABLE}/credentials?operation=READ").json == {"storage-credentials": []}
    narrow = {"aws_access_key_id": "reads-only", "aws_secret_access_key": "for clients", "aws_region": "us-east-1"}
    with served(lake, read_only=True, options={"storage_options": s3.options, "client_options": narrow}) as web:
        location = web("GET", TABLE).json["metadata"]["location"]
        assert location == f"{lake.uri}/{lake['orders'].describe()['location']}"
        [told] = web("GET", f"{TABLE}/credentials?operation=READ").json["storage-credentials"]
        assert (told["prefix"], told["operation"]) == (location, "READ")
        assert told["config"]["s3.access-key-id"] == "reads-only"
        assert told["config"]["s3.secret-access-key"] == "for clients"


def attached(web: Any, s3: SeaweedFS) -> list[str]:
    """The table as DuckDB attaches it by hand, by what the catalog answers."""
    told, host = web("GET", TABLE).json, s3.endpoint.removeprefix("http://")
    folder = f"{told['metadata']['location']}/_delta_log/_staged_commits"
    tail = ", ".join(
        f"{{'file_name': '{folder}/{one['file-name']}',"
        f" 'timestamp': {one['timestamp']}, 'file_size': {one['file-size']}}}"
        for one in told["commits"]
    )
    key, secret = s3.options["aws_access_key_id"], s3.options["aws_secret_access_key"]
    return [
        f"create secret (type s3, key_id '{key}', secret '{secret}', region 'us-east-1', endpoint '{host}',"
        " url_style 'path', use_ssl false)",
        f"attach '{told['metadata']['location']}' as t"
        f" (type delta, max_catalog_version {told['latest-table-version']}, log_tail [{tail}])",
    ]


@pytest.mark.slow
def test_duckdb_reads_what_is_not_published(lake: quire.Lake, s3: SeaweedFS) -> None:
    """Its extension for Unity Catalog knows no endpoint but Amazon's, so it is told by hand."""
    with served(lake, read_only=True, options={"storage_options": s3.options}) as web:
        steps = attached(web, s3)
    assert steps[-1].count("file_name") == 1, "one version is staged alone"
    answers = duckdb_client.run(*steps, "select sum(total)::bigint from t", extensions=("httpfs", "delta"))
    assert answers[-1] == {"rows": [[7]]}, answers
