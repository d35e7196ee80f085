"""Blobs: stored on every way in, kept by every change of their rows, read by range."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire
from quire.errors import IntegrityError, InvalidInput, InvalidQuery, NotFound
from quire.graph.graph import Graph
from quire.testing.proxy import Proxy
from quire.testing.s3 import SeaweedFS

SCHEMA = """
node Doc { key: String @key  title: String?  body: Blob? }
node Scan { key: String @key  page: I32?  image: Blob }
edge Shows: Doc -> Scan { thumb: Blob? }
"""
SMALL, LARGE = b"\x00small\xff", bytes(range(256)) * 1_000
"""One that lies within the data file, and one that lies beside it."""


@pytest.fixture(params=[SMALL, LARGE], ids=["small", "large"])
def content(request: pytest.FixtureRequest) -> bytes:
    found: bytes = request.param
    return found


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with quire.create(str(tmp_path / "lake"), backfill=False) as lake:
        made = Graph(lake)
        made.apply_schema(SCHEMA)
        yield made


def doc(key: str, **data: Any) -> dict[str, Any]:
    return {"type": "Doc", "data": {"key": key, **data}}


def read(graph: Graph, key: str = "a", type: str = "Doc", property: str = "body", **more: Any) -> bytes | None:
    found = graph.blob(type, key, property, **more)
    return None if found is None else found.read()


def text(content: bytes) -> str:
    return f"base64:{base64.b64encode(content).decode()}"


# -- ways in ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["base64", "bytes", "parquet", "csv", "mutate"])
def test_blobs_come_in_every_way(graph: Graph, tmp_path: Path, content: bytes, kind: str) -> None:
    table = pa.table({"key": ["a", "b"], "body": pa.array([content, None], pa.binary())})
    if kind == "base64":
        graph.load([doc("a", body=text(content)), doc("b")])
    elif kind == "bytes":
        graph.load(table.to_pylist(), type="Doc")
    elif kind == "parquet":
        pq.write_table(table, tmp_path / "Doc.parquet")
        graph.load(tmp_path / "Doc.parquet")
    elif kind == "csv":
        (tmp_path / "Doc.csv").write_text(f"key,body\na,{text(content)}\nb,\n")
        graph.load(tmp_path / "Doc.csv")
    else:
        mutation = 'query m($b: Blob) { insert Doc { key: "a", body: $b } insert Doc { key: "b" } }'
        graph.mutate(mutation, b=content)
    assert (read(graph), read(graph, "b")) == (content, None)


def test_an_empty_blob_is_a_blob(graph: Graph) -> None:
    graph.load([doc("a", body="base64:"), doc("b")])
    found = graph.blob("Doc", "a", "body")
    assert found is not None
    assert (found.size, found.read()) == (0, b"")


def test_edges_have_blobs_by_their_id(graph: Graph, content: bytes) -> None:
    scan = {"type": "Scan", "data": {"key": "s", "image": text(b"x")}}
    edge = {"edge": "Shows", "id": "e", "from": "a", "to": "s", "data": {"thumb": text(content)}}
    graph.load([doc("a"), scan, edge])
    assert read(graph, "e", "Shows", "thumb") == content


# -- required ---------------------------------------------------------------------------------------------------------


def test_a_required_blob_is_required_by_every_way_in(graph: Graph) -> None:
    for attempt in (
        lambda: graph.load([{"type": "Scan", "data": {"key": "s"}}]),
        lambda: raw(graph, {"id": "s", "key": "s", "page": None, "image": None}),
    ):
        with pytest.raises(IntegrityError) as caught:
            attempt()
        assert (caught.value.rule, caught.value.property) == ("required", "image")
    with pytest.raises(InvalidQuery, match="image"):
        graph.mutate('query m() { insert Scan { key: "s" } }')
    raw(graph, {"id": "s", "key": "s", "page": 1, "image": b"x"})
    with pytest.raises(IntegrityError):
        graph.mutate("query m($b: Blob?) { update Scan set { image: $b } where page = 1 }", b=None)
    assert read(graph, "s", "Scan", "image") == b"x"


def test_a_required_blob_is_required_of_rows_that_are_in_files(graph: Graph) -> None:
    """More than is kept in memory, so that the rule is asked of what was written."""
    rows = [{"id": str(i), "key": str(i), "page": 1, "image": bytes(100_000)} for i in range(100)]
    with pytest.raises(IntegrityError, match="image is required"):
        raw(graph, *rows, {"id": "x", "key": "x", "page": 1, "image": None})
    raw(graph, *rows)
    assert graph.lake["node:Scan"].count() == 100


def raw(graph: Graph, *rows: dict[str, Any]) -> None:
    with graph.lake.transaction() as tx:
        tx["node:Scan"].insert(list(rows))


# -- kept by changes --------------------------------------------------------------------------------------------------


def test_an_update_of_another_property_keeps_the_blob(graph: Graph, content: bytes) -> None:
    graph.load([doc("a", title="old", body=text(content)), doc("b", title="old")])
    graph.mutate('query m() { update Doc set { title: "new" } where title = "old" }')
    assert [r["title"] for r in graph.lake["node:Doc"].scan(columns=["title"]).to_pylist()] == ["new", "new"]
    assert (read(graph), read(graph, "b")) == (content, None)


def test_a_blob_can_be_set_and_taken_away(graph: Graph, content: bytes) -> None:
    graph.load([doc("a", title="t"), doc("b", body=text(b"mine"))])
    set_it = 'query m($b: Blob?) { update Doc set { body: $b } where title = "t" }'
    graph.mutate(set_it, b=content)
    assert (read(graph), read(graph, "b")) == (content, b"mine")
    graph.mutate(set_it, b=None)
    assert read(graph) is None


def test_a_merge_replaces_and_a_raw_upsert_of_some_columns_keeps(graph: Graph, content: bytes) -> None:
    graph.load([doc("a", title="t", body=text(content))])
    with graph.lake.transaction() as tx:
        tx["node:Doc"].upsert([{"id": "a", "title": "new"}, {"id": "b", "title": "b"}][:1])
    assert read(graph) == content
    graph.load([doc("a", title="x", body=text(b"other"))], "merge")
    assert read(graph) == b"other"


def test_a_commit_with_blobs_can_be_reverted(graph: Graph, content: bytes) -> None:
    graph.load([doc("a", title="t", body=text(content)), doc("b", body=text(b"b"))])
    deleted = graph.mutate('query m() { delete Doc where key = "a" }')
    graph.load([doc("c", body=text(b"c"))])
    assert deleted.receipt is not None
    assert deleted.receipt.commit is not None
    graph.lake.revert(deleted.receipt.commit)
    assert (read(graph), read(graph, "b"), read(graph, "c")) == (content, b"b", b"c")


def test_deleting_a_node_takes_edges_with_blobs_along(graph: Graph, content: bytes) -> None:
    scan = {"type": "Scan", "data": {"key": "s", "image": text(content)}}
    edge = {"edge": "Shows", "id": "e", "from": "a", "to": "s", "data": {"thumb": text(content)}}
    graph.load([doc("a"), scan, edge])
    done = graph.mutate('query m() { delete Scan where key = "s" }')
    assert done.deleted == {"Scan": 1, "Shows": 1}


def test_blobs_are_compacted_overwritten_and_seen_in_the_past(graph: Graph, content: bytes) -> None:
    graph.load([doc("a", body=text(content))])
    before = graph.lake.snapshot()
    graph.load([doc("b", body=text(b"b"))])
    graph.lake.optimize()
    assert (read(graph), read(graph, "b")) == (content, b"b")
    graph.load([doc("a", body=text(b"new"))], "overwrite")
    assert (read(graph), read(graph, at=before)) == (b"new", content)


def test_a_difference_shows_which_blobs_changed(graph: Graph) -> None:
    graph.load([doc("a", body=text(b"1")), doc("b", body=text(b"2"))])
    before = graph.lake.snapshot()
    graph.lake.optimize()
    graph.mutate('query m($b: Blob) { update Doc set { body: $b } where key = "a" }', b=b"3")
    found = graph.lake.diff(before.commit)["node:Doc"]
    assert (found.added, found.changed, found.removed) == (0, 1, 0)


# -- reading ----------------------------------------------------------------------------------------------------------


def test_a_blob_is_a_file(graph: Graph, content: bytes) -> None:
    graph.load([doc("a", body=text(content))])
    with graph.blob("Doc", "a", "body") as found:  # type: ignore[union-attr]
        assert found.size == len(found) == len(content)
        assert found.read(3) == content[:3]
        assert found.tell() == 3
        assert found.read_range(1, 4) == content[1:5]
        assert found.tell() == 3
        assert found.seek(-2, io.SEEK_END) == len(content) - 2
        assert found.read() == content[-2:]
        assert found.read(5) == b""
        assert found.seek(1) == 1
        assert found.seek(1, io.SEEK_CUR) == 2
        ahead = io.BufferedReader(found)
        assert ahead.read(2) == content[2:4]
        ahead.detach()
        assert found.read_range(len(content) - 1, 100) == content[-1:]
        assert found.read_range(len(content) + 5, 1) == b""
        with pytest.raises(InvalidInput, match="range"):
            found.read_range(-1, 1)
        with pytest.raises(ValueError, match="no place"):
            found.seek(-1)
    with pytest.raises(ValueError, match="closed"):
        found.read_range(0, 1)


def test_a_blob_that_is_not_there_says_so(graph: Graph) -> None:
    graph.load([doc("a", title="t")])
    assert graph.blob("Doc", "a", "body") is None
    with pytest.raises(NotFound, match="'x'"):
        graph.blob("Doc", "x", "body")
    with pytest.raises(InvalidInput, match="String, not a Blob"):
        graph.blob("Doc", "a", "title")
    with pytest.raises(NotFound, match="Did you mean 'body'"):
        graph.blob("Doc", "a", "bdy")
    with pytest.raises(NotFound, match="no node type"):
        graph.blob("Dok", "a", "body")


def test_a_node_without_its_blob_is_read_as_ever(graph: Graph, content: bytes) -> None:
    graph.load([doc("a", title="t", body=text(content))])
    query = 'query q() { match { $d: Doc { key: "a" } } return { $d.title as title } }'
    assert graph.query(query).to_pylist() == [{"title": "t"}]


def test_a_range_of_a_large_blob_reads_that_range(s3: SeaweedFS) -> None:
    size = 50 << 20
    with Proxy(s3.endpoint) as proxy:
        options = {**s3.options, "aws_endpoint": proxy.endpoint}
        with quire.create(s3.uri("blobs/range"), storage_options=options, backfill=False) as lake:
            graph = Graph(lake)
            graph.apply_schema(SCHEMA)
            content = bytes(range(251)) * (size // 251)
            graph.load([{"key": "a", "title": "t", "body": content}], type="Doc")
            start = proxy.mark()
            found = graph.blob("Doc", "a", "body")
            assert found is not None
            assert found.size == len(content)
            assert found.read_range(30_000_000, 1_000) == content[30_000_000:30_001_000]
            found.seek(-10, io.SEEK_END)
            assert found.read() == content[-10:]
            read = "query q() { match { $d: Doc } return { $d.title as title } }"
            assert graph.query(read).to_pylist() == [{"title": "t"}]
            assert sum(request.bytes_in for request in proxy.since(start)) < 1 << 20
