"""Hybrid search on plain tables: it ranks as a graph does, whatever indexes there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import quire
from quire.errors import ColumnNotFound, InvalidInput
from quire.ledger import new_id
from quire.testing import memory

WIDTH = 4
RANDOM = np.random.default_rng(3)
WORDS = ["lake", "river", "pond", "sea", "rain"]
TEXTS = [None if n % 11 == 5 else " ".join(RANDOM.choice(WORDS, 1 + n % 4)) for n in range(60)]
VECTORS = [None if n % 13 == 4 else [float(x) for x in RANDOM.normal(size=WIDTH).round(1)] for n in range(60)]
QUERY = [0.5, -0.5, 1.0, 0.0]


def documents(first: int = 0, last: int = 60) -> pa.Table:
    return pa.table(
        {
            "name": pa.array([f"n{n:02}" for n in range(first, last)]),
            "year": pa.array([2000 + n for n in range(first, last)], pa.int32()),
            "text": pa.array(TEXTS[first:last], pa.string()),
            "vector": pa.array(VECTORS[first:last], pa.list_(pa.float32(), WIDTH)),
        }
    )


@pytest.fixture(scope="module")
def lake() -> quire.Lake:
    """`plain` without an index; `partly` with indexes that cover half of the rows; a graph with the same documents."""
    made = quire.create(f"memory://{new_id()}", backfill=False)
    made.create_table("plain", documents(), key="name")
    with made.transaction() as tx:
        tx.create_table("partly", documents(0, 30), key="name")
        tx["partly"].create_index("text", "INVERTED")
        tx["partly"].create_index("vector", "IVF_FLAT", num_partitions=2)
    with made.transaction() as tx:
        tx["partly"].append(documents(30))
        tx.create_table("other", [{"a": "x", "b": "y", "n": 1}])
    graph = quire.Graph(made)
    graph.apply_schema("node Doc { name: String @key  year: I32?  text: String?  vector: Vector(4)? }")
    graph.load(documents(), type="Doc")
    return made


def names(rows: quire.Rows) -> list[str]:
    return [row["name"] for row in rows.to_pylist()]


@pytest.mark.sampled
@pytest.mark.parametrize("table", ["plain", "partly"])
@pytest.mark.parametrize("text", ["lake", "rain sea", "pond pond river", "desert", ""])
@pytest.mark.parametrize("least", [2000, 2025])
def test_it_ranks_as_a_graph_does(lake: quire.Lake, table: str, text: str, least: int) -> None:
    query = (
        "query q($v: Vector(4), $t: String, $y: I32) { match { $d: Doc  $d.year >= $y } "
        "return { $d.name as name, rrf(nearest($d.vector, $v), bm25($d.text, $t)) as score } "
        "order { score desc, name } limit 12 }"
    )
    wanted = quire.Graph(lake).query(query, params={"v": QUERY, "t": text, "y": least}).to_pylist()
    rows = lake[table].search(vector=QUERY, text=text, text_column="text", limit=12, filter=f"year >= {least}")
    found = rows.to_pylist()
    assert [row["name"] for row in found] == [row["name"] for row in wanted if row["score"] > 0]
    assert [row["_relevance"] for row in found] == pytest.approx([row["score"] for row in wanted if row["score"] > 0])


def test_the_parts_are_those_of_each_search_alone(lake: quire.Lake) -> None:
    both = {
        r["name"]: r for r in lake["plain"].search(vector=QUERY, text="lake", text_column="text", limit=100).to_pylist()
    }
    near = lake["plain"].search(vector=QUERY, limit=60).to_pylist()
    for row in near:
        if row["_distance"] is not None:
            assert both[row["name"]]["_distance"] == pytest.approx(row["_distance"], rel=1e-5)
    assert {n for n, row in both.items() if row["_score"] > 0} == {
        f"n{n:02}" for n, text in enumerate(TEXTS) if text is not None and "lake" in text.split()
    }


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_every_metric_measures(lake: quire.Lake, metric: str) -> None:
    found = lake["plain"].search(vector=QUERY, text="zzz", text_column="text", metric=metric, limit=5)
    alone = lake["plain"].search(vector=QUERY, metric=metric, limit=5)
    assert [r["_distance"] for r in found.to_pylist()] == pytest.approx(
        [r["_distance"] for r in alone.to_pylist()], rel=1e-4, abs=1e-5
    )


def test_the_order_is_the_same_after_a_compaction_and_a_rewrite() -> None:
    lake = quire.create(f"memory://{new_id()}", backfill=False)
    lake.create_table("t", documents().slice(0, 0), key="name")
    same = [{"name": f"n{n}", "year": 1, "text": "lake", "vector": [1.0, 0.0, 0.0, 0.0]} for n in (5, 3, 9, 1)]
    for row in same:
        lake.transact(lambda tx, row=row: tx["t"].append([row]))

    def found() -> list[str]:
        return names(lake["t"].search(vector=[1, 0, 0, 0], text="lake", text_column="text"))

    assert found() == ["n1", "n3", "n5", "n9"]
    lake.optimize()
    assert found() == ["n1", "n3", "n5", "n9"]
    lake.transact(lambda tx: tx["t"].update(values={"year": 2}, where="name = 'n3'"))
    assert found() == ["n1", "n3", "n5", "n9"]


def test_a_transaction_sees_its_own_rows(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        before = names(tx["plain"].search(vector=QUERY, text="glacier", text_column="text", limit=3))
        tx["plain"].append([{"name": "new", "year": 1, "text": "glacier", "vector": QUERY}])
        assert names(tx["plain"].search(vector=QUERY, text="glacier", text_column="text", limit=3))[0] == "new"
        tx.discard()
    assert names(lake["plain"].search(vector=QUERY, text="glacier", text_column="text", limit=3)) == before


def test_columns_and_limit(lake: quire.Lake) -> None:
    rows = lake["partly"].search(vector=QUERY, text="lake", columns=["year"], limit=2)  # the text column has the index
    assert rows.schema.names == ["year", "_distance", "_score", "_relevance"]
    assert rows.to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ({}, InvalidInput, "no vector and no text"),
        ({"query": "x", "text": "y"}, InvalidInput, "vector= and text="),
        ({"vector": QUERY, "text": 5}, InvalidInput, "must be text"),
        ({"vector": [1.0], "text": "x", "text_column": "text"}, InvalidInput, "one vector of 4 numbers"),
        ({"vector": QUERY, "text": "x", "text_column": "year"}, InvalidInput, "no text column 'year'"),
        ({"vector": QUERY, "text": "x"}, InvalidInput, "2 text columns"),
        ({"vector": QUERY, "text": "x", "text_column": "text", "metric": "hamming"}, InvalidInput, "not a metric"),
        ({"vector": QUERY, "text": "x", "text_column": "text", "nprobes": 3}, InvalidInput, "nprobes"),
        ({"vector": QUERY, "text": "x", "text_column": "text", "limit": True}, InvalidInput, "limit"),
        ({"vector": QUERY, "text": "x", "text_column": "text", "columns": ["no"]}, ColumnNotFound, "no column 'no'"),
        ({"vector": QUERY, "text": "x", "text_column": "text", "vector_column": "year"}, ColumnNotFound, "year"),
    ],
)
def test_what_cannot_be_searched_says_why(lake: quire.Lake, how: dict[str, Any], kind: type, said: str) -> None:
    with pytest.raises(kind, match=said):
        lake["plain"].search(**how)


def test_a_table_of_another_format_is_ranked_alike(lake: quire.Lake) -> None:
    memory.install()
    other = quire.create(f"memory://{new_id()}", backfill=False)
    other.create_table("plain", documents(), key="name", format="memory")
    how: dict[str, Any] = {"vector": QUERY, "text": "rain sea", "text_column": "text", "limit": 9}
    assert other["plain"].search(**how).to_pylist() == lake["plain"].search(**how).to_pylist()
