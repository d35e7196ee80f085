"""All tables at one commit, for unmodified clients."""

from __future__ import annotations

import lance
import lance_namespace as spec
import pytest
from tests.namespace.conftest import docs, ids, opened

import quire
from quire.lance import Namespace


def test_every_table_is_read_at_the_commit(lake: quire.Lake, namespace: Namespace) -> None:
    opened(namespace).insert(docs(10))
    with lake.transaction("both") as tx:
        tx["docs"].delete("id = 0")
        tx["people"].delete("id < 3")
    lake.tag("both")
    with lake.transaction() as tx:
        tx["docs"].append(docs(50))
        tx.drop_table("people")
    opened(namespace).insert(docs(60))

    then, before = namespace.at("both"), namespace.at("1.0")
    for view, wanted in ((then, ([1, 2, 3, 10], [3])), (before, ([0, 1, 2, 3], [0, 1, 2, 3]))):
        read = tuple(sorted(opened(view, name).to_table()["id"].to_pylist()) for name in ("docs", "people"))
        assert read == wanted
        assert view.list_tables(spec.ListTablesRequest(id=[])).tables == ["docs", "people"]
        assert view.count_table_rows(spec.CountTableRowsRequest(id=["docs"])).count == len(wanted[0])
    assert namespace.list_tables(spec.ListTablesRequest(id=[])).tables == ["docs"]
    assert opened(then).to_table(filter="id > 5")["id"].to_pylist() == [10]
    numbers = {opened(view).version for view in (then, namespace)}
    assert len(numbers) == 2


def test_a_commit_is_not_written_to(lake: quire.Lake, namespace: Namespace) -> None:
    opened(namespace).insert(docs(10))
    with lake.transaction() as tx:
        tx["docs"].append(docs(11))
    head = lake.refresh()
    for commit in ("1.0", "2.0", "3.0"):
        dataset = opened(namespace.at(commit))
        with pytest.raises(OSError, match="unknown|detached"):
            dataset.insert(docs(70))
        with pytest.raises(OSError, match="unknown|detached"):
            dataset.delete("true")
    view = namespace.at("2.0")
    with pytest.raises(spec.PermissionDeniedError, match="stays as it is"):
        view.drop_table(spec.DropTableRequest(id=["docs"]))
    with pytest.raises(spec.PermissionDeniedError):
        view.declare_table(spec.DeclareTableRequest(id=["new"]))
    with pytest.raises(spec.PermissionDeniedError):
        view.delete_from_table(spec.DeleteFromTableRequest(id=["docs"], predicate="true"))
    with pytest.raises(Exception):
        lance.write_dataset(docs(1), namespace_client=view, table_id=["docs"], mode="overwrite")
    assert lake.refresh() == head
    assert ids(lake) == [0, 1, 2, 3, 10, 11]
    assert opened(namespace).count_rows() == 6
    assert lake.verify(deep=True).findings == []


def test_a_commit_that_is_not_there(namespace: Namespace) -> None:
    with pytest.raises(quire.errors.CommitNotFound):
        namespace.at("77.0")
    with pytest.raises(spec.TableNotFoundError, match="There is no table 'nothing'"):
        namespace.at("1.0").describe_table(spec.DescribeTableRequest(id=["nothing"]))
