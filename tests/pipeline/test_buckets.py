"""Files in a bucket, by pattern, into a lake in a bucket; what is rejected goes there too."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire import pipeline
from quire.errors import IntegrityError
from quire.store import Store
from quire.testing.s3 import SeaweedFS

pytestmark = pytest.mark.s3


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest) -> Any:
    return "local" if request.param == "local" else request.getfixturevalue("spark")


def test_everything_lies_in_a_bucket(s3: SeaweedFS, engine: Any) -> None:
    root = s3.uri(f"pipeline-{'local' if engine == 'local' else 'spark'}")
    options = s3.options
    raw = Store.open(f"{root}/raw", options)
    raw.put("2026/01/a.csv", b"id,name\n1,a\n2,b\n")
    raw.put("2026/02/b.csv", b"id,name\n3,c\nx,d\n")
    raw.put("c.jsonl", b'{"id": 4, "name": "e"}\n')
    lake = quire.create(f"{root}/lake", storage_options=options)
    lake.create_table("t", schema=pa.schema([("id", pa.int64()), ("name", pa.string())]), key="id")
    sources = [{"files": f"{root}/raw/**/*.csv", "table": "t"}, {"files": f"{root}/raw/*.jsonl", "table": "t"}]
    with pytest.raises(IntegrityError, match=r"b\.csv:3"):
        pipeline.run(lake, {"sources": sources}, engine=engine)
    done = pipeline.run(lake, {"sources": sources, "rejects": f"{root}/out"}, engine=engine, skip_rejects=1)
    assert (done.rows, done.rejected) == (4, 1)
    assert sorted(row["id"] for row in lake["t"].to_pylist()) == [1, 2, 3, 4]
    [entry] = Store.open(f"{root}/out", options).list("")
    told = json.loads(Store.open(f"{root}/out", options).get(entry.key))
    assert (told["line"], told["rule"], told["row"]["id"]) == (3, "type", "x")
    secret = options["aws_secret_access_key"]
    for entry in Store.open(root, options).list(""):
        assert secret.encode() not in Store.open(root, options).get(entry.key), entry.key
