"""Vector and full-text search: exact without an index, complete with one, the filter first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quire
from quire.errors import AlreadyExists, ColumnNotFound, InvalidInput, NotFound, QuireError

ROWS, WIDTH = 600, 8
VECTORS = np.random.default_rng(7).normal(size=(ROWS, WIDTH)).astype(np.float32)
WORDS = ["alpha", "beta", "gamma", "delta", "omega", "sigma", "kappa"]


def documents(first: int = 0, vectors: np.ndarray = VECTORS, texts: list[str] | None = None) -> pa.Table:
    count = len(vectors)
    return pa.table(
        {
            "id": pa.array(range(first, first + count)),
            "text": texts or [f"{WORDS[n % 7]} common" for n in range(count)],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDTH),
        }
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    """Documents without any index."""
    lake = quire.create(tmp_path_factory.mktemp("plain") / "lake", backfill=False)
    with lake.transaction("x") as tx:
        tx.create_table("docs", documents())
        tx.create_table(
            "two",
            pa.table(
                {
                    "a": pa.array([[1.0, 0.0]], pa.list_(pa.float32(), 2)),
                    "b": pa.array([[0.0, 1.0]], pa.list_(pa.float32(), 2)),
                }
            ),
        )
        tx.create_table("none", [{"id": 1}])
    return lake


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> quire.Lake:
    """Documents with indexes over most rows; ten came later and one indexed row was deleted."""
    lake = quire.create(tmp_path_factory.mktemp("indexed") / "lake", backfill=False)
    with lake.transaction("indexed") as tx:
        tx.create_table("docs", documents())
        tx["docs"].create_index("vector", "IVF_FLAT", num_partitions=2, metric="l2")
        tx["docs"].create_index("text", "INVERTED")
        tx["docs"].create_index("id", "BTREE", name="by_id")
    with lake.transaction("later") as tx:
        tx["docs"].append(documents(ROWS, VECTORS[:10] + 100, ["zebra common"] * 10))
        tx["docs"].delete("id = 3")
    return lake


def nearest(query: np.ndarray, among: Any, count: int) -> list[int]:
    """The truth, by hand: squared distances over every row."""
    wanted = np.asarray(sorted(among))
    distances = ((VECTORS[wanted] - query) ** 2).sum(axis=1)
    return [int(n) for n in wanted[np.argsort(distances, kind="stable")[:count]]]


def found(rows: quire.Rows) -> list[int]:
    return rows.to_arrow()["id"].to_pylist()


# -- vectors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 77, 599])
def test_without_an_index_a_search_is_exact(plain: quire.Lake, row: int) -> None:
    table = plain["docs"].search(VECTORS[row], limit=5).to_arrow()
    assert table["id"].to_pylist() == nearest(VECTORS[row], range(ROWS), 5)
    assert table["_distance"].to_pylist() == sorted(table["_distance"].to_pylist())
    assert table["_distance"][0].as_py() == 0


@pytest.mark.parametrize(
    "query",
    [VECTORS[5], VECTORS[5].tolist(), tuple(VECTORS[5].tolist()), pa.array(VECTORS[5])],
    ids=lambda q: type(q).__name__,
)
def test_a_query_is_anything_that_is_a_vector(plain: quire.Lake, query: Any) -> None:
    assert found(plain["docs"].search(query, limit=1)) == [5]


@pytest.mark.parametrize("filter", ["id > 500", pc.field("id") > 500])
def test_the_filter_applies_before_the_search(plain: quire.Lake, indexed: quire.Lake, filter: Any) -> None:
    """The nearest rows that pass, not those among the nearest which pass."""
    truth = nearest(VECTORS[0], range(501, ROWS), 5)
    assert 0 not in truth
    assert found(plain["docs"].search(VECTORS[0], limit=5, filter=filter)) == truth
    assert found(indexed["docs"].search(VECTORS[0], limit=5, filter=filter, nprobes=2)) == truth


def test_a_filter_that_nothing_passes_finds_nothing(plain: quire.Lake) -> None:
    assert plain["docs"].search(VECTORS[0], filter="id < 0").to_pylist() == []


@pytest.mark.parametrize(
    ("metric", "query", "best"), [("l2", [1.1, 0.1], 0), ("cosine", [10.0, 90.0], 1), ("dot", [1.0, 1.0], 2)]
)
def test_the_metric_decides_what_is_near(tmp_path: Path, metric: str, query: list[float], best: int) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    vectors = pa.array([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]], pa.list_(pa.float32(), 2))
    lake.create_table("t", pa.table({"id": [0, 1, 2], "v": vectors}))
    assert found(lake["t"].search(query, limit=1, metric=metric)) == [best]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_vectors_of_every_float_can_be_searched(tmp_path: Path, kind: pa.DataType) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    values = pa.array(np.array([1, 2, 3, 4], dtype=kind.to_pandas_dtype()), kind)
    lake.create_table("t", pa.table({"id": [0, 1], "v": pa.FixedSizeListArray.from_arrays(values, 2)}))
    assert found(lake["t"].search([3, 4], limit=1)) == [1]


@pytest.mark.parametrize("limit", [1, 10, 5000])
def test_the_limit_is_kept(plain: quire.Lake, limit: int) -> None:
    assert len(found(plain["docs"].search(VECTORS[0], limit=limit))) == min(limit, ROWS)


@pytest.mark.parametrize("columns", [["id"], ["id", "_distance"], ["_distance", "id"]])
def test_chosen_columns_come_with_the_distance(plain: quire.Lake, columns: list[str]) -> None:
    rows = plain["docs"].search(VECTORS[9], limit=1, columns=columns).to_pylist()
    assert rows == [{"id": 9, "_distance": 0.0}]


def test_one_of_several_vector_columns_must_be_named(plain: quire.Lake) -> None:
    with pytest.raises(InvalidInput, match="2 vector columns") as caught:
        plain["two"].search([1.0, 0.0])
    assert "a, b" in str(caught.value)
    assert plain["two"].search([1.0, 0.0], column="a").to_arrow()["_distance"].to_pylist() == [0.0]
    assert plain["two"].search([1.0, 0.0], column="b").to_arrow()["_distance"].to_pylist() == [2.0]


@pytest.mark.parametrize(
    ("query", "options", "error", "says"),
    [
        ([1.0] * 7, {}, InvalidInput, "8 numbers"),
        ([[1.0] * 8], {}, InvalidInput, "8 numbers"),
        (["x"] * 8, {}, InvalidInput, "8 numbers"),
        (None, {}, InvalidInput, "no vector and no text"),
        ([1.0] * 8, {"column": "text"}, ColumnNotFound, "'text'"),
        ([1.0] * 8, {"column": "vectr"}, ColumnNotFound, "'vectr'"),
        ([1.0] * 8, {"metric": "zigzag"}, InvalidInput, "zigzag"),
        ([1.0] * 8, {"limit": -1}, InvalidInput, "limit"),
        ([1.0] * 8, {"filter": "nope = 1"}, InvalidInput, "nope"),
        ([1.0] * 8, {"columns": ["nope"]}, ColumnNotFound, "nope"),
    ],
)
def test_a_vector_search_that_cannot_be_says_why(
    plain: quire.Lake, query: Any, options: dict[str, Any], error: type[QuireError], says: str
) -> None:
    with pytest.raises(error) as caught:
        plain["docs"].search(query, **options).to_arrow()
    assert says in str(caught.value)
    assert "''" not in caught.value.message


@pytest.mark.parametrize(("kind", "width"), [(pa.list_(pa.float64()), "N"), (pa.list_(pa.int64(), 2), "2")])
def test_a_column_of_lists_says_how_it_becomes_a_vector(tmp_path: Path, kind: pa.DataType, width: str) -> None:
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", pa.table({"v": pa.array([[1, 2], [3, 4]], kind)}))
    with pytest.raises(InvalidInput, match="not a vector") as caught:
        lake["t"].search([1.0, 2.0], column="v").to_arrow()
    assert f'alter_column("v", type=pa.list_(pa.float32(), {width}))' in str(caught.value.next)
    with lake.transaction("as it says") as tx:
        tx["t"].alter_column("v", type=pa.list_(pa.float32(), 2))
    assert lake["t"].search([1.0, 2.0], column="v").to_arrow()["_distance"].to_pylist() == [0.0, 8.0]


def test_a_table_without_vectors_cannot_be_searched_by_vector(plain: quire.Lake) -> None:
    with pytest.raises(InvalidInput, match="0 vector columns"):
        plain["none"].search([1.0])


# -- with an index ----------------------------------------------------------------------------------------------------


def test_an_index_finds_what_a_full_search_finds(indexed: quire.Lake) -> None:
    docs = indexed["docs"]
    for row in (0, 100, 400):
        assert found(docs.search(VECTORS[row], limit=3, nprobes=2)) == nearest(VECTORS[row], set(range(ROWS)) - {3}, 3)


def test_rows_the_index_does_not_cover_are_found_too(indexed: quire.Lake) -> None:
    assert found(indexed["docs"].search(VECTORS[4] + 100, limit=1)) == [ROWS + 4]
    assert len(found(indexed["docs"].search("zebra", limit=50))) == 10


def test_a_deleted_row_is_not_found(indexed: quire.Lake) -> None:
    assert 3 not in found(indexed["docs"].search(VECTORS[3], limit=5, nprobes=2))
    assert 3 not in found(indexed["docs"].search("delta", limit=1000))


def test_indexes_say_what_they_cover(indexed: quire.Lake) -> None:
    by_name = {ix["name"]: ix for ix in indexed["docs"].indexes()}
    assert set(by_name) == {"vector_idx", "text_idx", "by_id"}
    assert by_name["by_id"]["columns"] == ["id"]
    assert {ix["kind"].upper() for ix in by_name.values()} == {"IVF_FLAT", "INVERTED", "BTREE"}
    assert all(ix["rows_unindexed"] >= 9 for ix in by_name.values())
    assert indexed["docs"].describe()["indexes"] == indexed["docs"].indexes()
    assert indexed.at(commit="1.0")["docs"].indexes() != indexed["docs"].indexes()


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ", "vector"])
def test_every_kind_of_vector_index_finds_the_row_itself(tmp_path: Path, kind: str) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    with lake.transaction("x") as tx:
        tx.create_table("docs", documents())
        tx["docs"].create_index("vector", kind)
    assert len(lake["docs"].indexes()) == 1
    hits = found(lake["docs"].search(VECTORS[42], limit=5, nprobes=10, refine=20))
    assert hits[0] == 42


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "btree"])
def test_a_scalar_index_changes_no_answer(tmp_path: Path, kind: str) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    with lake.transaction("x") as tx:
        tx.create_table("docs", documents())
        tx["docs"].create_index("text", kind)
    with lake.transaction("later") as tx:
        tx["docs"].append(documents(ROWS, VECTORS[:1], ["alpha common"]))
    expected = [n for n in range(ROWS) if n % 7 == 0] + [ROWS]
    assert sorted(found(lake["docs"].scan(filter="text = 'alpha common'"))) == expected


@pytest.mark.parametrize(
    ("column", "kind", "error", "says"),
    [
        ("text", "IVF_PQ", InvalidInput, "'text'"),
        ("text", "IVF_FLAT", InvalidInput, "'text'"),
        ("id", "INVERTED", InvalidInput, "'id'"),
        ("vector", "BTREE", InvalidInput, "'vector'"),
        ("id", "ZAP", InvalidInput, "'ZAP'"),
        ("nope", "BTREE", ColumnNotFound, "'nope'"),
    ],
)
def test_an_index_that_cannot_be_built_is_refused_and_nothing_is_committed(
    plain: quire.Lake, column: str, kind: str, error: type[QuireError], says: str
) -> None:
    head = plain.head
    with pytest.raises(error) as caught, plain.transaction("no") as tx:
        tx["docs"].create_index(column, kind)
    assert says in caught.value.message
    assert plain.refresh() == head
    assert plain["docs"].indexes() == []


def test_an_index_name_is_taken_once_unless_replaced(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    with lake.transaction("x") as tx:
        tx.create_table("docs", documents())
        assert tx["docs"].create_index("id") == "id_idx"
    with pytest.raises(AlreadyExists, match="'id_idx'"), lake.transaction("again") as tx:
        tx["docs"].create_index("id")
    with lake.transaction("replace") as tx:
        tx["docs"].append(documents(ROWS, VECTORS[:5]))
        tx["docs"].create_index("id", replace=True)
    [index] = lake["docs"].indexes()
    assert (index["name"], index["rows_unindexed"]) == ("id_idx", 0)
    with lake.transaction("drop") as tx:
        tx["docs"].drop_index("id_idx")
    assert lake["docs"].indexes() == []
    with pytest.raises(NotFound, match="'id_idx'"), lake.transaction("drop again") as tx:
        tx["docs"].drop_index("id_idx")


def test_a_transaction_can_search_what_it_has_just_written(tmp_path: Path) -> None:
    lake = quire.create(tmp_path / "lake", backfill=False)
    with lake.transaction("x") as tx:
        tx.create_table("docs", documents())
        tx["docs"].create_index("text", "FTS")
        tx["docs"].append(documents(ROWS, VECTORS[:1] + 50, ["yak common"]))
        assert found(tx["docs"].search(VECTORS[0] + 50, limit=1)) == [ROWS]
        assert found(tx["docs"].search("yak")) == [ROWS]
    assert found(lake["docs"].search("yak")) == [ROWS]


# -- text -------------------------------------------------------------------------------------------------------------


def test_full_text_finds_every_row_with_the_word(indexed: quire.Lake) -> None:
    hits = found(indexed["docs"].search("beta", limit=1000))
    assert sorted(hits) == [n for n in range(ROWS) if n % 7 == 1]


def test_full_text_scores_and_chosen_columns(indexed: quire.Lake) -> None:
    rows = indexed["docs"].search("zebra", limit=1, columns=["id", "_score"]).to_pylist()
    assert list(rows[0]) == ["id", "_score"]
    assert rows[0]["_score"] > 0
    assert list(indexed["docs"].search("zebra", limit=1, columns=["id"]).to_pylist()[0]) == ["id", "_score"]


def test_full_text_with_a_filter(indexed: quire.Lake) -> None:
    assert sorted(found(indexed["docs"].search("beta", filter="id < 20", limit=100))) == [1, 8, 15]
    assert found(indexed["docs"].search("beta", filter="id < 0")) == []


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_full_text_keeps_the_limit(indexed: quire.Lake, limit: int) -> None:
    assert len(found(indexed["docs"].search("common", limit=limit))) == limit


@pytest.mark.parametrize("query", ["common", VECTORS[0]], ids=["text", "vector"])
@pytest.mark.parametrize("limit", [0, -1, 1.5, None])
def test_a_search_for_no_rows_is_refused(indexed: quire.Lake, query: Any, limit: Any) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        indexed["docs"].search(query, limit=limit)


def test_a_word_that_is_nowhere_finds_nothing(indexed: quire.Lake) -> None:
    assert indexed["docs"].search("nowhere").to_pylist() == []
    assert indexed["docs"].search("").to_pylist() == []


def test_full_text_needs_an_index_on_the_column(plain: quire.Lake, indexed: quire.Lake) -> None:
    with pytest.raises(InvalidInput, match="no full-text index on any column") as caught:
        plain["docs"].search("alpha")
    assert "create_index" in str(caught.value)
    with pytest.raises(InvalidInput, match="no full-text index on column 'id'"):
        indexed["docs"].search("alpha", column="id")
    assert len(found(indexed["docs"].search("alpha", column="text", limit=3))) == 3
