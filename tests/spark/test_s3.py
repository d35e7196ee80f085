"""A lake in a bucket: executors reach it with the driver's credentials, which nobody else gets to see.

The driver is a process of its own, so that everything that Spark says and keeps can be searched: its log at level INFO,
its event log, the plans, errors of tasks, and every object of the lake.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pytest
from obstore.store import S3Store

import quire
from quire.testing.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedFS

pytestmark = pytest.mark.s3

DRIVER = """
import json, os, sys

import pyarrow as pa
import quire, quire.spark

uri, options = sys.argv[1], json.loads(sys.stdin.read())
spark = quire.spark.session("local[2]", memory="1g", settings=json.loads(sys.argv[2]))
told = {}

# with storage options
lake = quire.create(uri, storage_options=options)
with quire.spark.transaction(spark, lake, "made") as tx:
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "concat('n', id) as name", "array(cast(id as float)) as v")
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.list_(pa.float32(), 1))])
    tx.create_table("t", rows, schema=schema, key="id")
with quire.spark.transaction(spark, lake, "changed") as tx:
    told["upsert"] = tx["t"].upsert(rows.where("id >= 990").selectExpr("id + 5 as id", "'new' as name", "v"))
    told["delete"] = tx["t"].delete(spark.range(10))
frame = quire.spark.table(spark, lake, "t", filter="name = 'new'")
told["new"] = frame.count()
frame.explain("extended")
plans = [frame._jdf.queryExecution().toString()]

# an executor that cannot read what it should
lake.create_table("broken", [{"id": 1}])
late = quire.spark.table(spark, lake, "broken")
place, _ = lake["broken"].parts()
from obstore.store import S3Store
import obstore
config = {k: v for k, v in options.items() if k != "allow_http"}
bucket = S3Store("lake", config=config, client_options={"allow_http": True})
for page in obstore.list(bucket, place.uri.removeprefix("s3://lake/")):
    obstore.delete(bucket, [found["path"] for found in page if "/data/" in found["path"]])
try:
    late.collect()
    raise SystemExit("the file is gone, and was read")
except Exception as error:
    print("ERROR", error)

# with credentials of the environment
os.environ["AWS_ACCESS_KEY_ID"] = options["aws_access_key_id"]
os.environ["AWS_SECRET_ACCESS_KEY"] = options["aws_secret_access_key"]
ambient = quire.open(uri, storage_options={k: v for k, v in options.items() if "key" not in k})
with quire.spark.transaction(spark, ambient, "ambient") as tx:
    tx["t"].append(spark.range(5000, 5003).selectExpr("id", "'ambient' as name", "array(cast(1 as float)) as v"))
told["ambient"] = quire.spark.table(spark, ambient, "t", filter="name = 'ambient'").count()
print("PLANS", plans)
print("TOLD", json.dumps(told))
spark.stop()
"""

BY_FORMAT = """
import json, sys
import quire, quire.spark

spark = quire.spark.session("local[2]", memory="1g", settings=json.loads(sys.argv[2]))
frame = spark.read.format("quire").option("lake", sys.argv[1]).option("filter", "id < 15").load("t")
found = sorted(row["id"] for row in frame.collect())
frame.explain("extended")
more = spark.range(9000, 9002).selectExpr("id", "'by format' as name", "array(cast(1 as float)) as v")
more.write.format("quire").option("lake", sys.argv[1]).mode("append").save("t")
now = spark.read.format("quire").option("lake", sys.argv[1]).load("t")
print("TOLD", json.dumps({"found": found, "now": now.where("id >= 9000").count()}))
spark.stop()
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[SeaweedFS]:
    with SeaweedFS() as server:
        yield server


LOGGING = """
rootLogger.level = info
logger.spark.name = org.apache.spark
logger.spark.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
"""


def driven(
    folder: Path, script: str, uri: str, *, given: str = "", **environment: str
) -> tuple[dict[str, Any], str, bytes]:
    """Run a driver: what it found, all that was said, and Spark's event log."""
    (folder / "events").mkdir()
    (folder / "log4j2.properties").write_text(LOGGING, "utf-8")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", script, uri, json.dumps(settings)],
        input=given,
        capture_output=True,
        text=True,
        env={**clean, **environment},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    [told] = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    events = b"".join(file.read_bytes() for file in (folder / "events").rglob("*") if file.is_file())
    assert b"SparkListenerSQLExecutionStart" in events
    assert "INFO org.apache.spark" in done.stderr
    return json.loads(told.removeprefix("TOLD ")), done.stdout + done.stderr, events


def objects(s3: SeaweedFS, prefix: str) -> dict[str, bytes]:
    config = {key: value for key, value in s3.options.items() if key != "allow_http"}
    bucket = S3Store(BUCKET, config=config, client_options={"allow_http": True})  # type: ignore[arg-type]
    names = [found["path"] for page in obstore.list(bucket, prefix) for found in page]
    return {name: bytes(obstore.get(bucket, name).bytes()) for name in names}


def test_credentials_reach_executors_and_nobody_else(s3: SeaweedFS, tmp_path: Path) -> None:
    told, said, events = driven(tmp_path, DRIVER, s3.uri("spark"), given=json.dumps(s3.options))
    assert told == {"upsert": {"inserted": 5, "updated": 5}, "delete": 10, "new": 10, "ambient": 3}
    assert "ERROR" in said
    assert "MapInArrow" in said
    stored = objects(s3, "spark")
    assert any(name.endswith(".lance") for name in stored)
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in said
        assert secret.encode() not in events
        assert not [name for name, body in stored.items() if secret.encode() in body]
    assert quire.open(s3.uri("spark"), storage_options=s3.options)["t"].count() == 998


@pytest.mark.full
def test_the_format_uses_the_environment(s3: SeaweedFS, tmp_path: Path) -> None:
    lake = quire.create(s3.uri("format"), storage_options=s3.options)
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.list_(pa.float32(), 1))])
    lake.create_table("t", [{"id": i, "name": "x", "v": [1.0]} for i in range(10, 20)], schema=schema, key="id")
    environment = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": s3.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }
    told, said, events = driven(tmp_path, BY_FORMAT, s3.uri("format"), **environment)
    assert told == {"found": [10, 11, 12, 13, 14], "now": 2}
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in said
        assert secret.encode() not in events
