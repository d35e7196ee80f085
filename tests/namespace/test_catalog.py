"""Namespaces with several parts, and tables by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lance
import lance_namespace as spec
import lancedb
import pytest
from tests.namespace.conftest import docs, ids, sound

import quire
from quire.lance import Namespace


def spaces(namespace: Namespace, *parts: str) -> list[str]:
    return list(namespace.list_namespaces(spec.ListNamespacesRequest(id=list(parts))).namespaces)


def tables(namespace: Namespace, *parts: str, declared: bool = True) -> list[str]:
    asked = spec.ListTablesRequest(id=list(parts), include_declared=declared)
    return list(namespace.list_tables(asked).tables)


def test_namespaces_are_kept_in_the_lake(lake: quire.Lake, namespace: Namespace) -> None:
    namespace.create_namespace(spec.CreateNamespaceRequest(id=["a"], properties={"owner": "ada"}))
    namespace.create_namespace(spec.CreateNamespaceRequest(id=["a", "b"]))
    again = Namespace(lake.uri)
    assert spaces(again) == ["a"]
    assert spaces(again, "a") == ["b"]
    assert again.describe_namespace(spec.DescribeNamespaceRequest(id=["a"])).properties == {"owner": "ada"}
    with pytest.raises(spec.NamespaceAlreadyExistsError):
        again.create_namespace(spec.CreateNamespaceRequest(id=["a"]))
    kept = again.create_namespace(spec.CreateNamespaceRequest(id=["a"], mode="ExistOk", properties={"x": "y"}))
    assert kept.properties == {"owner": "ada"}
    again.create_namespace(spec.CreateNamespaceRequest(id=["a"], mode="Overwrite", properties={"x": "y"}))
    assert again.describe_namespace(spec.DescribeNamespaceRequest(id=["a"])).properties == {"x": "y"}
    with pytest.raises(spec.NamespaceNotFoundError):
        again.create_namespace(spec.CreateNamespaceRequest(id=["nowhere", "b"]))
    with pytest.raises(spec.NamespaceNotFoundError):
        again.namespace_exists(spec.NamespaceExistsRequest(id=["c"]))
    assert tables(again) == ["docs", "people"]


def test_a_namespace_with_tables_is_dropped_in_one_commit_only_when_asked(
    lake: quire.Lake, namespace: Namespace
) -> None:
    lance.write_dataset(docs(1), namespace_client=namespace, table_id=["docs2"])
    with lake.transaction() as tx:
        tx.create_table("s.one", [{"id": 1}])
        tx.create_table("s.t.two", [{"id": 1}])
    namespace.declare_table(spec.DeclareTableRequest(id=["s", "later"]))
    assert (spaces(namespace), spaces(namespace, "s")) == (["s"], ["t"])
    assert (tables(namespace, "s"), tables(namespace, "s", declared=False)) == (["later", "one"], ["one"])
    with pytest.raises(spec.NamespaceNotEmptyError, match=r"s\.one"):
        namespace.drop_namespace(spec.DropNamespaceRequest(id=["s"]))
    head = int(lake.refresh().partition(".")[0])
    namespace.drop_namespace(spec.DropNamespaceRequest(id=["s"], behavior="Cascade"))
    assert lake.refresh() == f"{head + 1}.0"
    assert spaces(namespace) == []
    assert lake.tables() == ["_lance:namespace", "docs", "docs2", "people"]
    with pytest.raises(spec.NamespaceNotFoundError):
        namespace.drop_namespace(spec.DropNamespaceRequest(id=["s"]))
    namespace.drop_namespace(spec.DropNamespaceRequest(id=["s"], mode="Skip"))


def test_tables_are_described_renamed_and_dropped(lake: quire.Lake, namespace: Namespace) -> None:
    asked = spec.DescribeTableRequest(id=["people"], load_detailed_metadata=True, with_table_uri=True)
    found = namespace.describe_table(asked)
    assert (found.managed_versioning, found.version, found.table) == (True, 1, "people")
    assert found.properties == {"quire.key": "id"}
    assert [(f.name, f.type.type) for f in found.var_schema.fields] == [("id", "int64"), ("name", "string")]
    assert found.table_uri == found.location
    namespace.rename_table(spec.RenameTableRequest(id=["people"], new_table_name="persons"))
    assert tables(namespace) == ["docs", "persons"]
    with pytest.raises(spec.TableAlreadyExistsError):
        namespace.rename_table(spec.RenameTableRequest(id=["persons"], new_table_name="docs"))
    dropped = namespace.drop_table(spec.DropTableRequest(id=["persons"]))
    assert dropped.transaction_id == lake.refresh()
    for gone in ("persons", "people"):
        with pytest.raises(spec.TableNotFoundError):
            namespace.describe_table(spec.DescribeTableRequest(id=[gone]))
        with pytest.raises(spec.TableNotFoundError):
            namespace.table_exists(spec.TableExistsRequest(id=[gone]))
    assert Path(str(dropped.location)).is_dir()


def test_lists_come_in_pages(namespace: Namespace) -> None:
    first = namespace.list_tables(spec.ListTablesRequest(id=[], limit=1))
    assert (first.tables, first.page_token) == (["docs"], "docs")
    rest = namespace.list_tables(spec.ListTablesRequest(id=[], limit=1, page_token=first.page_token))
    assert (rest.tables, rest.page_token) == (["people"], None)


def test_two_processes_do_not_declare_one_name(lake: quire.Lake, namespace: Namespace) -> None:
    declared = namespace.declare_table(spec.DeclareTableRequest(id=["later"], properties={"quire.key": "id"}))
    with quire.open(lake.uri) as same, pytest.raises(spec.TableAlreadyExistsError):
        Namespace(same).declare_table(spec.DeclareTableRequest(id=["later"]))
    made = lance.write_dataset(docs(1, 2), namespace_client=namespace, table_id=["later"], mode="overwrite")
    assert made.uri == declared.location
    assert lake["later"].key == ("id",)
    sound(lake)


def test_an_existing_table_is_registered_where_it_lies(lake: quire.Lake, namespace: Namespace, tmp_path: Path) -> None:
    place = str(tmp_path / "outside.lance")
    lance.write_dataset(docs(5), place)
    namespace.register_table(spec.RegisterTableRequest(id=["outside"], location=place))
    lance.dataset(namespace_client=namespace, table_id=["outside"]).insert(docs(6))
    assert ids(lake, "outside") == [5, 6]
    assert lance.dataset(place).count_rows() == 2


def test_what_a_lake_does_not_do_is_refused_with_a_way_on(namespace: Namespace) -> None:
    for refused, model in [
        (namespace.create_table_tag, spec.CreateTableTagRequest(id=["docs"], tag="v", version=1)),
        (namespace.create_table_branch, spec.CreateTableBranchRequest(id=["docs"], name="b")),
        (namespace.batch_delete_table_versions, spec.BatchDeleteTableVersionsRequest(id=["docs"], ranges=[])),
    ]:
        with pytest.raises(spec.UnsupportedOperationError, match="quire "):
            refused(model)  # type: ignore[operator]


def test_lancedb_works_on_a_lake(lake: quire.Lake) -> None:
    db = lancedb.connect_namespace("quire.lance.Namespace", {"lake": lake.uri})
    table = db.open_table("docs")
    table.add([{"id": 9, "text": "added"}])
    table.delete("id = 0")
    table.update(where="id = 1", values={"text": "changed"})
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(9, 20))
    assert ids(lake) == [1, 2, 3, 9, 20]
    made = db.create_table("made", [{"id": 1, "vector": [1.0, 2.0]}, {"id": 2, "vector": [3.0, 1.0]}])
    assert [row["id"] for row in made.search([1.0, 2.0]).limit(1).to_list()] == [1]
    made.add([{"id": 3, "vector": [0.0, 0.0]}])
    assert ids(lake, "made") == [1, 2, 3]
    db.drop_table("made")
    assert "made" not in lake.snapshot()
    sound(lake)


def test_tables_of_a_lancedb_database_that_were_registered_where_they_lie(tmp_path: Path) -> None:
    """By the short name, in a process that has imported nothing else of Quire."""
    lancedb.connect(tmp_path / "shop").create_table("docs", docs(1, 2))
    with quire.create(tmp_path / "lake") as lake:
        lake.register_database(tmp_path / "shop")
    program = (
        "import sys, lancedb, quire.lance\n"
        "db = lancedb.connect_namespace('quire', {'lake': sys.argv[1], 'external': sys.argv[2]})\n"
        "db.open_table('docs').delete('id = 1')\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "lake"), str(tmp_path / "shop")]
    assert subprocess.run(command, capture_output=True, text=True, timeout=120).returncode == 0
    with quire.open(tmp_path / "lake", external="allow") as lake:
        assert ids(lake) == [2]
        assert lake.verify(deep=True).findings == []
    with pytest.raises(spec.PermissionDeniedError, match="outside the lake"):
        Namespace(tmp_path / "lake").list_table_versions(spec.ListTableVersionsRequest(id=["docs"]))
