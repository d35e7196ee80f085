"""The lake as a namespace over HTTP: every operation has its address, and unmodified clients read and write by it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import lance_namespace as spec
import lance_namespace_urllib3_client.api as generated
import lancedb
import pyarrow as pa
import pytest
from tests.namespace.conftest import docs, ids, opened, sound
from tests.namespace.serving import served
from tests.server.web import Web, arrow

import quire
from quire.lance import Batch, Namespace
from quire.server.auth.keys import KeyFile
from quire.server.lance.route_table import LANCE_ROUTES
from quire.server.lance.spec_operations import SPEC_OPERATIONS


@pytest.fixture
def web(lake: quire.Lake) -> Iterator[Web]:
    with served(lake) as found:
        yield found


def rest(web: Web, view: str = "") -> Any:
    return spec.connect("rest", {"uri": f"{web.url}/lance/demo{view}"})


def ask(web: Web, path: str, value: Any = None, *, method: str = "POST", **more: Any) -> Any:
    return web(method, f"/lance/demo/v1/{path}", value, **more)


# -- the table of routes ----------------------------------------------------------------------------------------------


def generated_routes() -> dict[str, tuple[str, str]]:
    """Every operation of the client that the specification generates: its method and address."""
    found = {}
    for api in vars(generated).values():
        if not inspect.isclass(api):
            continue
        for name, member in vars(api).items():
            if name.endswith("_serialize"):
                text = inspect.getsource(member)
                method = re.search(r"method='(\w+)'", text)
                path = re.search(r"resource_path='([^']+)'", text)
                assert method is not None
                assert path is not None
                found[name.removeprefix("_").removesuffix("_serialize")] = (method[1], path[1])
    return found


def test_every_operation_of_the_specification_has_its_address() -> None:
    routes = generated_routes()
    assert len(routes) > 50
    known = {o.name: {(method, f"/v1/{o.path}") for method in o.methods} for o in SPEC_OPERATIONS}
    assert {name: route for name, route in routes.items() if route not in known.get(name, ())} == {}
    served_at = {(r.method, r.path.removeprefix("/lance/{lake}")) for r in LANCE_ROUTES}
    assert set(routes.values()) <= served_at


def test_every_operation_of_the_interface_has_an_address() -> None:
    interface = {n for n, m in vars(spec.LanceNamespace).items() if callable(m) and not n.startswith("_")}
    assert interface - {"namespace_id"} == {o.name for o in SPEC_OPERATIONS}
    for operation in SPEC_OPERATIONS:
        assert hasattr(spec, operation.model), operation.name
        own = inspect.getattr_static(Namespace, operation.name)
        assert own is not inspect.getattr_static(spec.LanceNamespace, operation.name), operation.name


def test_no_operation_fails_by_itself(web: Web) -> None:
    """Asked without a body, of a table that is not there, every address answers as the specification says."""
    for operation in SPEC_OPERATIONS:
        path = operation.path.replace("{id}", "nothing").replace("{index_name}", "none")
        for method in operation.methods:
            reply = ask(web, path, {} if method == "POST" else None, method=method, status=None)
            assert reply.status in (200, 400, 404, 406), (operation.name, reply)
            if reply.status != 200:
                told = reply.json
                assert isinstance(told["code"], int), operation.name
                assert told["error"], operation.name


# -- clients ----------------------------------------------------------------------------------------------------------


def test_pylance_writes_with_every_verb(web: Web, lake: quire.Lake) -> None:
    namespace = rest(web)
    dataset = opened(namespace)
    dataset.insert(docs(10))
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9))
    dataset.update({"text": "'changed'"}, where="id = 0")
    dataset.delete("id = 1")
    dataset.create_scalar_index("id", "BTREE")
    dataset.add_columns({"twice": "id * 2"})
    made = lance.write_dataset(docs(7), namespace_client=namespace, table_id=["made"])
    made.insert(docs(8))
    assert ids(lake) == [0, 2, 3, 9, 10]
    assert ids(lake, "made") == [7, 8]
    assert [row["twice"] for row in lake["docs"].to_arrow().to_pylist() if row["id"] == 9] == [18]
    assert lake.show(lake.refresh()).author == "anonymous"
    sound(lake)


def test_a_stale_handle_follows_other_commits(web: Web, lake: quire.Lake) -> None:
    dataset = opened(rest(web))
    with lake.transaction() as tx:
        tx["docs"].append(docs(20))
    dataset.insert(docs(21))
    assert ids(lake) == [0, 1, 2, 3, 20, 21]
    sound(lake)


def test_lancedb_by_its_namespace(web: Web, lake: quire.Lake) -> None:
    db = lancedb.connect_namespace("rest", {"uri": f"{web.url}/lance/demo"})
    table = db.open_table("docs")
    table.add(docs(30))
    table.update(where="id = 30", values={"text": "changed"})
    made = db.create_table("notes", [{"text": "first"}])
    made.add([{"text": "second"}])
    db.drop_table("people")
    assert sorted(db.list_tables().tables) == ["docs", "notes"]
    assert ids(lake) == [0, 1, 2, 3, 30]
    assert lake["notes"].count() == 2
    sound(lake)


def test_lancedb_by_its_remote_client(web: Web, lake: quire.Lake) -> None:
    """`db://` sends rows to the server, which writes them with Quire's verbs."""
    db = lancedb.connect("db://demo", api_key="any", host_override=f"{web.url}/lance/demo")
    table = db.open_table("docs")
    assert table.schema == lake["docs"].schema
    assert table.count_rows("id > 1") == 2
    table.add(docs(10, 11))
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9, text="merged"))
    table.update(where="id = 0", values={"text": "changed"})
    table.delete("id = 1")
    assert ids(lake) == [0, 2, 3, 9, 10, 11]
    assert table.search().where("id = 9").limit(5).to_list() == [{"id": 9, "text": "merged 9"}]
    table.create_index("id", config=lancedb.index.BTree())
    assert [index.name for index in table.list_indices()] == ["id_idx"]
    assert table.index_stats("id_idx").num_indexed_rows == 6
    table.drop_index("id_idx")
    table.add_columns({"twice": "id * 2"})
    table.alter_columns({"path": "twice", "rename": "double"})
    assert lake["docs"].schema.names == ["id", "text", "double"]
    table.drop_columns(["double"])
    assert table.tags.list() == {}
    made = db.create_table("made", [{"a": 1}])
    assert made.count_rows() == 1
    db.rename_table("made", "named")
    db.drop_table("named")
    table.checkout(1)
    assert table.count_rows() == 4
    sound(lake)


def test_vectors_and_texts_by_the_remote_client(web: Web, lake: quire.Lake) -> None:
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "vector": pa.array([[0.0, 1.0], [1.0, 0.0], [0.9, 0.1]], pa.list_(pa.float32(), 2)),
            "text": ["one sheet", "two sheets of paper", "a book"],
        }
    )
    db = lancedb.connect("db://demo", api_key="any", host_override=f"{web.url}/lance/demo")
    table = db.create_table("items", rows)
    assert [row["id"] for row in table.search([1.0, 0.0]).limit(2).to_list()] == [2, 3]
    with lake.transaction(fresh=True) as tx:
        tx["items"].create_index("text", "INVERTED")
    assert [row["id"] for row in table.search("paper", query_type="fts").limit(2).to_list()] == [2]


def test_a_batch_over_http(web: Web, lake: quire.Lake) -> None:
    before = lake.refresh()
    with Batch(rest(web), uri=f"{web.url}/lance/demo") as batch:
        opened(batch).insert(docs(40))
        opened(batch, "people").insert(pa.table({"id": [40], "name": ["forty"]}))
        assert lake.refresh() == before
    assert set(lake.show(lake.refresh()).tables) == {"docs", "people"}
    sound(lake)


def test_one_commit_by_its_address(web: Web, lake: quire.Lake) -> None:
    lake.tag("v1")
    opened(rest(web)).insert(docs(50))
    for view in ("/at/1.0", "/at/v1"):
        then = opened(rest(web, view))
        assert then.count_rows() == 4
    with pytest.raises(Exception, match="stays as it is"):
        rest(web, "/at/1.0").drop_table(spec.DropTableRequest(id=["docs"]))
    reply = web("POST", "/lance/demo/at/99.0/v1/table/docs/describe", {}, status=404)
    assert reply.json["code"] == 11


# -- what is refused --------------------------------------------------------------------------------------------------


def test_keys_hold_for_rows_that_clients_send(web: Web, lake: quire.Lake) -> None:
    db = lancedb.connect("db://demo", api_key="any", host_override=f"{web.url}/lance/demo")
    with pytest.raises(Exception, match="id=1"):
        db.open_table("people").add([{"id": 1, "name": "again"}])
    assert ids(lake, "people") == [0, 1, 2, 3]


def test_a_conflict_says_table_expected_and_actual(web: Web, lake: quire.Lake) -> None:
    opened(rest(web)).insert(docs(10))
    staged = {"version": 2, "manifest_path": "x", "naming_scheme": "V2"}
    told = ask(web, "table/docs/version/create", staged, status=400).json
    assert told["code"] == 13
    operations = [{"deregister_table": {"id": ["docs"], "context": {"quire.expected_version": "1"}}}]
    told = ask(web, "table/batch-commit", {"operations": operations}, status=409).json
    assert told["code"] == 14
    assert '"expected": 1, "actual": 2' in told["error"]


def test_identifiers_have_parts(web: Web, lake: quire.Lake) -> None:
    ask(web, "namespace/a%24b/create", {}, status=404)
    ask(web, "namespace/a/create", {"properties": {"owner": "ada"}})
    ask(web, "namespace/a%24b/create", {})
    ask(web, "table/a.b.t/create?delimiter=.", body=arrow(docs(1)), content_type="application/octet-stream")
    assert ask(web, "table/a%24b%24t/describe", {"id": ["a$b$t"]}).json["namespace"] == ["a", "b"]  # as DuckDB asks
    ask(web, "table/a%24b%24t/describe", {"id": ["a$b"]}, status=400)
    assert ask(web, "namespace/%24/list", method="GET").json["namespaces"] == ["a"]
    assert ask(web, "namespace/a%24b/table/list", method="GET").json["tables"] == ["t"]
    assert ask(web, "namespace/a/describe", {}).json["properties"] == {"owner": "ada"}
    assert ask(web, "table?limit=1", method="GET").json == {"tables": ["a.b.t"], "page_token": "a.b.t"}
    assert ask(web, "table/a%24b%24t/count_rows/", {}).body == b"1"
    assert ask(web, "table/a%24b%24t/describe", {"id": ["other"]}, status=400).json["code"] == 13
    assert ids(lake, "a.b.t") == [1]


def test_a_stream_that_breaks_off_writes_nothing(web: Web, lake: quire.Lake) -> None:
    body = arrow(docs(*range(100)))
    told = ask(web, "table/docs/insert", body=body[:-8], status=400).json
    assert told["code"] == 13
    assert "no end" in told["error"]
    assert ask(web, "table/docs/insert", body=b"no rows", status=400).json["code"] == 13
    assert ids(lake) == [0, 1, 2, 3]
    ask(web, "table/docs/insert", body=body)
    assert len(ids(lake)) == 104


def test_bodies_have_a_bound(lake: quire.Lake) -> None:
    from quire.server.config import Limits

    with served(lake, limits=Limits(body_bytes=1000)) as web:
        told = ask(web, "table/docs/describe", {"context": {"x": "y" * 2000}}, status=413).json
        assert told["code"] == 13
        ask(web, "table/docs/insert", body=arrow(docs(*range(1000))))  # rows pass through in any number
        assert lake["docs"].count() == 1004


def test_tokens(lake: quire.Lake, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    reader = keys.create("rita", ["read"])[1]
    writer = keys.create("walt", ["write"])[1]
    with served(lake, keys=tmp_path / "keys.json") as web:
        assert ask(web, "table/docs/describe", {}, status=401).json["code"] == 16
        assert ask(web, "table/docs/describe", {}, x_api_key=reader).json["managed_versioning"] is True
        assert ask(web, "table/docs/delete", {"predicate": "id=1"}, status=403, x_api_key=reader).json["code"] == 15
        given = {"predicate": "id=1", "context": {"quire.author": "somebody else"}}
        ask(web, "table/docs/delete", given, authorization=f"Bearer {writer}")
        assert lake.show(lake.refresh()).author == "walt"
        uri = f"{web.url}/lance/demo"
        mine = spec.connect("rest", {"uri": uri, "headers.x-api-key": writer})
        opened(mine).insert(docs(60))
        assert lake.show(lake.refresh()).author == "walt"
        assert lancedb.connect("db://demo", api_key=reader, host_override=uri).open_table("docs").count_rows() == 4


def test_nobody_is_told_the_secrets_of_the_server(lake: quire.Lake) -> None:
    options = {"storage_options": {"aws_secret_access_key": "s3cr3t"}, "client_options": {"region": "here"}}
    with served(lake, options=options) as web:
        told = ask(web, "table/docs/describe", {})
        assert told.json["storage_options"] == {"region": "here"}
        assert b"s3cr3t" not in told.body


def test_lance_alone(lake: quire.Lake) -> None:
    with served(lake, only="lance") as web:
        assert opened(rest(web)).count_rows() == 4
        web.get("tables", status=404)
        web.get("/healthz")
    with served(lake) as web:
        assert web.get("/lance/demo/v1/nothing", status=406).json["code"] == 0
        assert web("GET", "/lance/demo/v1/table/docs/describe", status=405).json["code"] == 0
        assert web.get("/lance/other/v1/table", status=404).json["code"] == 1
