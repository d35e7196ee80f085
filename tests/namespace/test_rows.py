"""The data plane: clients send rows and ask for rows, and Quire writes and reads them."""

from __future__ import annotations

from typing import Any

import lance_namespace as spec
import pyarrow as pa
import pytest
from tests.namespace.conftest import docs, ids, opened, sound

import quire
from quire.lance import Namespace


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def asked(namespace: Namespace, name: str = "docs", **what: Any) -> pa.Table:
    body: dict[str, Any] = {"id": [name], "k": 0, "vector": {}, **what}
    answer = namespace.query_table(spec.QueryTableRequest.model_validate(body))
    return pa.ipc.open_file(pa.py_buffer(answer.data)).read_all()


def test_rows_are_inserted_merged_updated_and_deleted(lake: quire.Lake, namespace: Namespace) -> None:
    inserted = namespace.insert_into_table(spec.InsertIntoTableRequest(id=["docs"]), stream(docs(9, 10)))
    assert (inserted.num_inserted_rows, inserted.version, inserted.transaction_id) == (2, 2, lake.refresh())
    merge = spec.MergeInsertIntoTableRequest(
        id=["docs"], on=["id"], when_matched_update_all=True, when_not_matched_insert_all=True
    )
    merged = namespace.merge_insert_into_table(merge, stream(docs(10, 11)))
    assert (merged.num_inserted_rows, merged.num_updated_rows) == (1, 1)
    new = spec.MergeInsertIntoTableRequest(id=["docs"], on=["id"], when_not_matched_insert_all=True)
    assert namespace.merge_insert_into_table(new, stream(docs(11, 12))).num_inserted_rows == 1
    updated = namespace.update_table(
        spec.UpdateTableRequest(id=["docs"], predicate="id < 2", updates=[["text", "'changed'"]])
    )
    assert updated.updated_rows == 2
    deleted = namespace.delete_from_table(spec.DeleteFromTableRequest(id=["docs"], predicate="id = 3"))
    assert deleted.transaction_id == lake.refresh()
    assert ids(lake) == [0, 1, 2, 9, 10, 11, 12]
    assert namespace.count_table_rows(spec.CountTableRowsRequest(id=["docs"])).count == 7
    assert namespace.count_table_rows(spec.CountTableRowsRequest(id=["docs"], predicate="text = 'changed'")).count == 2
    assert namespace.count_table_rows(spec.CountTableRowsRequest(id=["docs"], version=2)).count == 6
    assert opened(namespace).count_rows() == 7
    sound(lake)


def test_a_broken_key_is_told_in_full(lake: quire.Lake, namespace: Namespace) -> None:
    rows = pa.table({"id": [3], "name": ["again"]})
    with pytest.raises(spec.InvalidInputError, match=r"'people'.*id=3|id.*3"):
        namespace.insert_into_table(spec.InsertIntoTableRequest(id=["people"]), stream(rows))
    assert lake.refresh() == "1.0"


@pytest.mark.parametrize("data", [b"", b"garbage", b"ARROW1garbage", stream(docs(1))[:40]])
def test_garbage_is_refused(lake: quire.Lake, namespace: Namespace, data: bytes) -> None:
    with pytest.raises(spec.InvalidInputError, match="no Arrow stream"):
        namespace.insert_into_table(spec.InsertIntoTableRequest(id=["docs"]), data)
    assert lake.refresh() == "1.0"


def test_tables_are_created_from_rows(lake: quire.Lake, namespace: Namespace) -> None:
    request = spec.CreateTableRequest(id=["made"], properties={"quire.key": "id"})
    made = namespace.create_table(request, stream(docs(1, 2)))
    assert made.version == 1
    assert lake["made"].key == ("id",)
    with pytest.raises(spec.TableAlreadyExistsError):
        namespace.create_table(request, stream(docs(1)))
    namespace.create_table(request.model_copy(update={"mode": "exist_ok"}), stream(docs(7)))
    assert ids(lake, "made") == [1, 2]
    namespace.create_table(request.model_copy(update={"mode": "overwrite"}), stream(docs(7)))
    assert ids(lake, "made") == [7]
    sound(lake)


def test_queries_filter_search_and_go_back_in_time(lake: quire.Lake, namespace: Namespace) -> None:
    vectors = pa.array([[float(n), 0.0] for n in range(4)], pa.list_(pa.float32(), 2))
    with lake.transaction() as tx:
        tx.create_table("v", pa.table({"id": range(4), "vector": vectors, "text": [f"word{n}" for n in range(4)]}))
        tx["v"].create_index("text", "INVERTED")
    assert asked(namespace, filter="id > 1", columns={"column_names": ["id"]})["id"].to_pylist() == [2, 3]
    near = asked(namespace, "v", k=2, vector={"single_vector": [2.9, 0.0]})
    assert near["id"].to_pylist() == [3, 2]
    later = asked(namespace, "v", k=1, offset=1, vector={"single_vector": [2.9, 0.0]})
    assert later["id"].to_pylist() == [2]
    found = asked(namespace, "v", k=5, full_text_query={"string_query": {"query": "word1", "columns": ["text"]}})
    assert found["id"].to_pylist() == [1]
    opened(namespace).insert(docs(50))
    assert asked(namespace).num_rows == 5
    assert asked(namespace, version=1).num_rows == 4
    with pytest.raises(spec.TableVersionNotFoundError):
        asked(namespace, version=9)
    with pytest.raises(spec.UnsupportedOperationError, match="ids of rows"):
        asked(namespace, with_row_id=True)


def test_columns_and_indexes(lake: quire.Lake, namespace: Namespace) -> None:
    add = spec.AlterTableAddColumnsRequest(id=["docs"], new_columns=[{"name": "twice", "expression": "id * 2"}])
    assert namespace.alter_table_add_columns(add).version == 2
    alter = {"id": ["docs"], "alterations": [{"path": "twice", "rename": "double"}]}
    namespace.alter_table_alter_columns(spec.AlterTableAlterColumnsRequest.model_validate(alter))
    assert lake["docs"].schema.names == ["id", "text", "double"]
    namespace.alter_table_drop_columns(spec.AlterTableDropColumnsRequest(id=["docs"], columns=["double"]))
    index = spec.CreateTableIndexRequest(id=["docs"], column="id", index_type="BTREE")
    assert namespace.create_table_scalar_index(index).transaction_id == lake.refresh()
    [listed] = namespace.list_table_indices(spec.ListTableIndicesRequest(id=["docs"])).indexes
    assert (listed.index_name, listed.columns) == ("id_idx", ["id"])
    told = namespace.describe_table_index_stats(spec.DescribeTableIndexStatsRequest(id=["docs"], index_name="id_idx"))
    assert told.num_indexed_rows == 4
    namespace.drop_table_index(spec.DropTableIndexRequest(id=["docs"], index_name="id_idx"))
    with pytest.raises(spec.TableIndexNotFoundError):
        namespace.drop_table_index(spec.DropTableIndexRequest(id=["docs"], index_name="id_idx"))
    sound(lake)


def test_a_table_is_restored_to_a_version(lake: quire.Lake, namespace: Namespace) -> None:
    opened(namespace).insert(docs(10))
    with lake.transaction() as tx:
        tx["docs"].delete("id < 3")
    lake.backfill()
    namespace.restore_table(spec.RestoreTableRequest(id=["docs"], version=2))
    assert ids(lake) == [0, 1, 2, 3, 10]
    namespace.restore_table(spec.RestoreTableRequest(id=["docs"], version=3))
    assert ids(lake) == [3, 10]
    opened(namespace).insert(docs(11))
    sound(lake)


def test_every_operation_of_the_specification_is_answered(namespace: Namespace) -> None:
    """By Quire: with an answer, or with a refusal that says what to do."""
    inherited = [
        name
        for name, operation in vars(spec.LanceNamespace).items()
        if not name.startswith("_") and callable(operation) and getattr(Namespace, name) is operation
    ]
    assert inherited == []


def test_a_commit_is_a_transaction_that_succeeded(lake: quire.Lake, namespace: Namespace) -> None:
    opened(namespace).insert(docs(9))
    told = namespace.describe_transaction(spec.DescribeTransactionRequest(id=["2.0"]))
    assert (told.status, told.properties["tables"]) == ("Succeeded", "docs")
    with pytest.raises(spec.TransactionNotFoundError):
        namespace.describe_transaction(spec.DescribeTransactionRequest(id=["77.0"]))
