"""Spark Connect: the same verbs through a server whose workers are given Quire by `send`.

The server runs apart, and so do clients of `quire.spark.session("sc://…")`: a process with a Spark of its own cannot be
one. The other tests speak to it from this process, through Connect's own session.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.servers import Connect

import quire
import quire.spark
from quire.errors import DuplicateKeys, InvalidInput, KeyConflict, Unsupported

pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'quire[spark]'")
pytestmark = pytest.mark.timeout(900)  # the server is a Spark beside the one of the other tests

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.list_(pa.float32(), 2))])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    with Connect(tmp_path_factory.mktemp("connect")) as running:
        yield running


@pytest.fixture(scope="module")
def remote(server: Connect) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(server.url).create()
    quire.spark.send(session)
    quire.spark.register(session)
    yield session
    session.stop()


def people(remote: Any, low: int, high: int) -> Any:
    made = "id", "concat('n', id) as name", "array(cast(id as float), cast(0.5 as float)) as v"
    return remote.range(low, high, 1, 2).selectExpr(*made)


@pytest.fixture
def filled(lake: quire.Lake, remote: Any) -> quire.Lake:
    with quire.spark.transaction(remote, lake, "made") as tx:
        tx.create_table("people", people(remote, 0, 20), schema=SCHEMA, key="id")
        tx.create_table("plain", remote.range(3))
    return lake


def ids(lake: quire.Lake, table: str = "people") -> list[int]:
    return sorted(row["id"] for row in lake[table].to_pylist())


def test_every_statement_in_one_commit(filled: quire.Lake, remote: Any) -> None:
    assert filled["people"].schema == SCHEMA
    with quire.spark.transaction(remote, filled, "all") as tx:
        assert tx["people"].upsert(people(remote, 15, 25)) == {"inserted": 5, "updated": 5}
        assert tx["people"].upsert(remote.sql("select 3L as id, 'three' as name")) == {"inserted": 0, "updated": 1}
        assert tx["people"].delete(remote.range(0, 2)) == 2
        assert tx["people"].insert(people(remote, 100, 102)) == 2
        assert tx["plain"].append(remote.range(3, 5)) == 2
        assert tx["people"].frame(filter="id > 20").count() == 6
    assert ids(filled) == [*range(2, 25), 100, 101]
    by_id = {row["id"]: row for row in filled["people"].to_pylist()}
    assert by_id[3] == {"id": 3, "name": "three", "v": [3.0, 0.5]}
    assert ids(filled, "plain") == [0, 1, 2, 3, 4]
    assert len(list(filled.log())) == 3
    with quire.spark.transaction(remote, filled) as tx:
        tx["plain"].overwrite(remote.range(7, 9))
    assert ids(filled, "plain") == [7, 8]


@pytest.mark.full
def test_many_keys_are_shuffled(filled: quire.Lake, remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quire.spark.SparkTable, "few", 0)
    with quire.spark.transaction(remote, filled) as tx:
        assert tx["people"].upsert(people(remote, 10, 30)) == {"inserted": 10, "updated": 10}
        assert tx["people"].delete(remote.range(25, 90)) == 5
    assert ids(filled) == list(range(25))


def test_errors_are_those_of_one_process(filled: quire.Lake, remote: Any) -> None:
    with pytest.raises(KeyConflict, match="already has a row with id="), quire.spark.transaction(remote, filled) as tx:
        tx["people"].insert(people(remote, 5, 6))
    with pytest.raises(DuplicateKeys), quire.spark.transaction(remote, filled) as tx:
        tx["people"].upsert(people(remote, 30, 32).union(people(remote, 31, 32)))
    with pytest.raises(InvalidInput, match="takes a DataFrame"), quire.spark.transaction(remote, filled) as tx:
        tx["people"].append([{"id": 1}])
    assert ids(filled) == list(range(20))


def test_tables_views_and_the_format(filled: quire.Lake, remote: Any) -> None:
    some = quire.spark.table(remote, filled, "people", columns=["name"], filter="id >= 18")
    assert sorted(row["name"] for row in some.collect()) == ["n18", "n19"]
    assert quire.spark.views(remote, filled.snapshot()) == ["people", "plain"]
    joined = remote.sql("select count(*) as n from people join plain using (id)")
    assert joined.collect()[0]["n"] == 3
    by_format = remote.read.format("quire").option("lake", filled.uri).option("columns", "id").load("people")
    assert sorted(row["id"] for row in by_format.collect()) == list(range(20))
    people(remote, 50, 53).write.format("quire").option("lake", filled.uri).mode("append").save("people")
    assert ids(filled)[-3:] == [50, 51, 52]


def test_pipelines_graphs_and_exports(lake: quire.Lake, remote: Any, tmp_path: Path) -> None:
    from quire import pipeline
    from quire.spark.export import export

    lake.create_table("t", schema=pa.schema([("id", pa.int64()), ("name", pa.string())]), key="id")
    (tmp_path / "t.csv").write_text("id,name\n1,Ada\n2,Mary\n", "utf-8")
    feed = {"sources": [{"files": str(tmp_path / "t.csv"), "table": "t"}]}
    assert pipeline.run(lake, feed, engine=remote).rows == 2
    assert export(lake, str(tmp_path / "out"), tables=["t"], engine=remote) == {"t": 2}
    graph = quire.Graph(quire.create(tmp_path / "graph"))
    graph.apply_schema("node Person { name: String @key } edge Knows: Person -> Person")
    (tmp_path / "g.jsonl").write_text(
        '{"type": "Person", "data": {"name": "Ada"}}\n{"type": "Person", "data": {"name": "Mary"}}\n'
        '{"edge": "Knows", "from": "Ada", "to": "Mary"}\n',
        "utf-8",
    )
    assert graph.load(str(tmp_path / "g.jsonl"), engine=remote).rows == 3


def test_a_stream_is_written_by_the_server(filled: quire.Lake, remote: Any, tmp_path: Path) -> None:
    def write(tx: Any, batch: Any) -> None:
        tx["plain"].append(batch)

    write.__module__ = "__main__"  # so that it is sent whole, as a function of a script is
    for number in range(2):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}.csv").write_text(f"{100 + number}\n", "utf-8")
    for _ in range(2):  # the second time there is nothing new
        stream = remote.readStream.schema("id long").option("maxFilesPerTrigger", 1).csv(str(tmp_path / "in"))
        query = (
            stream.writeStream.foreachBatch(quire.spark.sink(filled, write, stream="ids"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None
    found = quire.open(filled.uri)
    assert ids(found, "plain") == [0, 1, 2, 100, 101]
    assert [entry.token for entry in found.log() if entry.token] == ["ids:1", "ids:0"]


def test_a_server_keeps_no_credentials(
    filled: quire.Lake, remote: Any, server: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = quire.open(filled.uri, storage_options={"aws_secret_access_key": "hush-hush"})
    with quire.spark.transaction(remote, lake) as tx:
        tx["people"].upsert(people(remote, 15, 25))
    frame = quire.spark.table(remote, lake, "people")
    assert frame.count() == 25
    frame.explain("extended")
    assert "hush" not in capsys.readouterr().out
    assert b"SparkListenerJobEnd" in server.kept()
    assert b"hush" not in server.kept()


CLIENT = """
import sys
import quire, quire.spark

spark = quire.spark.session(sys.argv[1])
lake = quire.open(sys.argv[2])
with quire.spark.transaction(spark, lake, "from a client") as tx:
    tx["plain"].append(spark.range(10, 12))
found = spark.read.format("quire").option("lake", lake.uri).load("plain")
print(spark.conf.get("spark.sql.session.timeZone"), found.count())
"""


def test_a_session_by_address_needs_no_java(filled: quire.Lake, server: Connect) -> None:
    environment = {**os.environ, "JAVA_HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, server.url, filled.uri], capture_output=True, text=True, env=environment
    )
    assert done.stdout.split() == ["UTC", "5"], done.stderr[-3000:]
    assert ids(filled, "plain") == [0, 1, 2, 10, 11]


def test_what_a_session_by_address_cannot_be(spark: Any) -> None:
    with pytest.raises(InvalidInput, match="a Spark of its own"):
        quire.spark.session("sc://127.0.0.1:1")


def test_without_the_packages_the_error_says_how_to_get_them() -> None:
    code = "import sys; sys.modules['grpc'] = None\nimport quire.spark\n"
    code += (
        "try:\n    quire.spark.session('sc://127.0.0.1:1')\nexcept quire.errors.Unsupported as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'quire[spark]'" in done.stdout, done.stderr


def test_a_lake_in_memory_cannot_be_written_by_a_server(remote: Any) -> None:
    import pickle

    sink = quire.spark.sink(quire.create("memory://connect"), print, stream="s")
    with pytest.raises(Unsupported, match="memory"):
        pickle.dumps(sink)
