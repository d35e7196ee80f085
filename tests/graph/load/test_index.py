"""Vector indexes are built by the load that brings enough vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import quire
from quire.graph.graph import Graph
from quire.graph.load import build_indexes

SCHEMA = 'node Doc { key: String @key  title: String?  vec: Vector(8)? @index @metric("cosine") }'


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    monkeypatch.setattr(build_indexes, "ENOUGH", 500)
    with quire.create(str(tmp_path / "lake"), backfill=False) as lake:
        made = Graph(lake)
        made.apply_schema(SCHEMA)
        yield made


def docs(start: int, count: int, *, vectors: bool = True) -> pa.Table:
    made = np.random.default_rng(start).normal(size=(count, 8)).astype(np.float32)
    column = (
        pa.FixedSizeListArray.from_arrays(made.reshape(-1), 8)
        if vectors
        else pa.nulls(count, pa.list_(pa.float32(), 8))
    )
    return pa.table({"key": [str(i) for i in range(start, start + count)], "vec": column})


def vector_index(graph: Graph) -> dict[str, Any] | None:
    found = [i for i in graph.lake["node:Doc"].indexes() if i["kind"].startswith("IVF")]
    return found[0] if found else None


def covered(graph: Graph) -> int | None:
    found = vector_index(graph)
    return None if found is None else int(found["rows_indexed"])


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_of_enough_vectors_builds_the_index_in_its_commit(graph: Graph, mode: Any) -> None:
    graph.load(docs(0, 400), mode, type="Doc")
    assert vector_index(graph) is None
    head = graph.lake.snapshot().commit
    done = graph.load(docs(0 if mode == "overwrite" else 400, 600), mode, type="Doc")
    assert covered(graph) == (600 if mode == "overwrite" else 1_000)
    assert done.receipt is not None
    assert [c.id for c in graph.lake.log(2)] == [done.receipt.commit, head]


def test_an_index_waits_for_vectors_not_for_rows(graph: Graph) -> None:
    graph.load(docs(0, 600, vectors=False), type="Doc")
    assert vector_index(graph) is None
    graph.load(docs(0, 600, vectors=False), "overwrite", type="Doc")
    assert vector_index(graph) is None
    graph.load(docs(600, 600), type="Doc")
    assert covered(graph) is not None


def test_an_index_that_was_outgrown_is_trained_again(graph: Graph) -> None:
    graph.load(docs(0, 600), type="Doc")
    graph.load(docs(600, 600), type="Doc")
    assert covered(graph) == 600
    graph.load(docs(1_200, 1_300), type="Doc")
    assert covered(graph) == 2_500


def test_everything_is_found_with_and_without_the_index(graph: Graph) -> None:
    graph.load(docs(0, 600), type="Doc")
    graph.load(docs(600, 100), type="Doc")
    wanted = docs(600, 100).column("vec")[7].as_py()
    read = "query q($v: Vector(8)) { match { $d: Doc } return { $d.key as key } order { nearest($d.vec, $v) } limit 1 }"
    assert graph.query(read, v=wanted).to_pylist() == [{"key": "607"}]
