"""Transactions by address: clients that know no transactions write many tables in one commit."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import lance
import lance_namespace as spec
import lancedb
import pyarrow as pa
import pytest
from tests.namespace.conftest import docs, ids, opened, sound
from tests.namespace.serving import served
from tests.server.web import Web

import quire
from quire.lance import Namespace
from quire.server.config import Limits


def people(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"new {n}" for n in numbers]})


def begin(web: Web, **more: Any) -> str:
    return str(web("POST", "/lance/demo/txn", more, status=201).json["id"])


def alter(web: Web, id: str, status: str, *, answers: int = 200, **properties: str) -> Any:
    actions: list[Any] = [{"setPropertyAction": {"key": k, "value": v}} for k, v in properties.items()]
    actions.append({"setStatusAction": {"status": status}})
    return web("POST", f"/lance/demo/v1/transaction/{id}/alter", {"actions": actions}, status=answers).json


def stands(web: Web, id: str) -> Any:
    return web("POST", f"/lance/demo/v1/transaction/{id}/describe", {}).json


def at(web: Web, id: str) -> Any:
    return spec.connect("rest", {"uri": f"{web.url}/lance/demo/txn/{id}"})


# -- in one process ---------------------------------------------------------------------------------------------------


def test_every_verb_in_one_commit(lake: quire.Lake) -> None:
    with Namespace(lake).transaction("all of it") as view:
        dataset = opened(view)
        dataset.insert(docs(10))
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9))
        dataset.update({"text": "'changed'"}, where="id = 0")
        dataset.delete("id = 1")
        dataset.create_scalar_index("id", "BTREE")
        dataset.add_columns({"twice": "id * 2"})
        made = lance.write_dataset(docs(1), namespace_client=view, table_id=["made"])
        made.insert(docs(2))
        opened(view, "people").delete("id = 2")
        assert sorted(opened(view).to_table()["id"].to_pylist()) == [0, 2, 3, 9, 10]
        assert opened(view, "made").count_rows() == 2
        assert lake.refresh() == "1.0"
    assert lake.refresh() == "2.0"
    commit = lake.show("2.0")
    assert commit.message == "all of it"
    assert set(commit.tables) == {"docs", "people", "made"}
    assert ids(lake) == [0, 2, 3, 9, 10]
    assert ids(lake, "made") == [1, 2]
    assert ids(lake, "people") == [0, 1, 3]
    sound(lake)
    opened(Namespace(lake)).insert(docs(11).append_column("twice", pa.array([22])))
    opened(Namespace(lake), "made").insert(docs(3))
    sound(lake)


def test_rows_move_beside_those_of_rivals(lake: quire.Lake) -> None:
    with Namespace(lake).transaction() as view:
        opened(view).insert(docs(10))
        opened(view, "people").delete("id = 0")
        with lake.transaction() as tx:
            tx["docs"].append(docs(20))
            tx["people"].insert([{"id": 9, "name": "nine"}])
        assert sorted(opened(view).to_table()["id"].to_pylist()) == [0, 1, 2, 3, 10]
    assert ids(lake) == [0, 1, 2, 3, 10, 20]
    assert ids(lake, "people") == [1, 2, 3, 9]
    sound(lake)


@pytest.mark.parametrize("what", ["same row", "same key", "index"])
def test_what_cannot_move_is_a_conflict(lake: quire.Lake, what: str) -> None:
    view = Namespace(lake).transaction()
    lance.write_dataset(docs(1), namespace_client=view, table_id=["made"])
    if what == "same row":
        opened(view, "people").update({"name": "'mine'"}, where="id = 0")
    elif what == "same key":
        opened(view, "people").insert(people(9))
    else:
        opened(view, "people").create_scalar_index("name", "BTREE")
    with lake.transaction() as tx:
        tx["people"].upsert([{"id": 0, "name": "theirs"}, {"id": 9, "name": "nine"}])
    with pytest.raises(quire.errors.Conflict):
        view.commit()
    assert lake.refresh() == "2.0"
    assert lake.tables() == ["docs", "people"]
    sound(lake)


def test_a_broken_key_is_refused_when_the_version_is_written(lake: quire.Lake) -> None:
    with Namespace(lake).transaction() as view:
        with pytest.raises(OSError, match="unknown|result"):
            opened(view, "people").insert(people(1))
        opened(view, "people").insert(people(5))
    assert ids(lake, "people") == [0, 1, 2, 3, 5]
    sound(lake)


def test_leaving_with_an_error_leaves_nothing(lake: quire.Lake) -> None:
    view = Namespace(lake).transaction()
    dataset = opened(view)
    dataset.insert(docs(10))
    view.__exit__(RuntimeError, RuntimeError(), None)
    with pytest.raises(OSError, match="over with it|unknown|result"):
        dataset.insert(docs(11))
    assert lake.refresh() == "1.0"
    sound(lake)


def test_a_transaction_on_a_branch(lake: quire.Lake) -> None:
    lake.create_branch("trial")
    trial = lake.branch("trial")
    tx = trial.transaction("on trial")
    from quire.lance.transactions import TransactionNamespace

    with TransactionNamespace(trial, tx) as view:
        dataset = opened(view)
        dataset.insert(docs(10))
        dataset.insert(docs(11))
    assert ids(trial) == [0, 1, 2, 3, 10, 11]
    assert ids(lake) == [0, 1, 2, 3]
    opened(Namespace(lake).branch("trial")).insert(docs(12))
    sound(lake)


# -- by address -------------------------------------------------------------------------------------------------------

PYLANCE = """
import sys, lance, lance_namespace as spec, pyarrow as pa
ns = spec.connect("rest", {"uri": sys.argv[1]})
lance.dataset(namespace_client=ns, table_id=["docs"]).insert(pa.table({"id": [10], "text": ["by pylance"]}))
lance.write_dataset(pa.table({"id": [1]}), namespace_client=ns, table_id=["made"])
"""
LANCEDB = """
import sys, lancedb
db = lancedb.connect_namespace("rest", {"uri": sys.argv[1]})
db.open_table("people").merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
    [{"id": 1, "name": "by lancedb"}, {"id": 9, "name": "by lancedb"}])
db.open_table("made").add([{"id": 2}])
assert db.open_table("docs").count_rows() == 5
"""


def client(program: str, uri: str) -> None:
    done = subprocess.run([sys.executable, "-c", program, uri], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("rival", [False, pytest.param(True, marks=pytest.mark.full)])
def test_two_processes_write_three_tables_in_one_commit(lake: quire.Lake, rival: bool) -> None:
    with served(lake) as web:
        id = begin(web, message="two clients")
        uri = f"{web.url}/lance/demo/txn/{id}"
        client(PYLANCE, uri)
        client(LANCEDB, uri)
        assert lake.refresh() == "1.0"
        assert stands(web, id)["status"] == "Running"
        assert stands(web, id)["properties"]["tables"] == "docs, made, people"
        if rival:
            with lake.transaction() as tx:
                tx["people"].update({"name": "'theirs'"}, where="id = 1")
            told = alter(web, id, "Succeeded", answers=409)
            assert told["code"] == 14
            assert '"table": ["people"], "expected": 1, "actual": 2' in told["error"]
            assert stands(web, id)["status"] == "Canceled"
            assert lake.refresh() == "2.0"
            assert lake.tables() == ["docs", "people"]
            assert ids(lake) == [0, 1, 2, 3]
        else:
            assert alter(web, id, "Succeeded")["status"] == "Succeeded"
            assert alter(web, id, "Succeeded")["status"] == "Succeeded"  # an answer that was lost
            told = stands(web, id)
            assert (told["status"], told["properties"]["commit"]) == ("Succeeded", "2.0")
            assert lake.refresh() == "2.0"
            assert set(lake.show("2.0").tables) == {"docs", "people", "made"}
            assert lake.show("2.0").message == "two clients"
            assert (ids(lake), ids(lake, "people")) == ([0, 1, 2, 3, 10], [0, 1, 2, 3, 9])
            assert ids(lake, "made") == [1, 2]
        told = web("POST", f"/lance/demo/txn/{id}/v1/table/docs/describe", {}, status=409).json
        assert told["code"] == 19
    sound(lake)


def test_rows_and_versions_in_one_transaction(lake: quire.Lake) -> None:
    """Clients of both kinds, and the server's own addresses, each on tables of their own."""
    with served(lake) as web:
        id = begin(web)
        opened(at(web, id)).insert(docs(10))
        remote = lancedb.connect("db://demo", api_key="any", host_override=f"{web.url}/lance/demo/txn/{id}")
        remote.open_table("people").delete("id = 0")
        assert remote.open_table("people").count_rows() == 3
        assert remote.open_table("docs").count_rows() == 5
        with pytest.raises(Exception, match="in one way"):
            remote.open_table("docs").add(docs(11))
        told = web("POST", f"/lance/demo/txn/{id}/v1/table/people/version/list", {}, status=409).json
        assert told["code"] == 19
        statement = {"op": "append", "table": "docs", "rows": [{"id": 12, "text": "x"}]}
        refused = web("POST", f"transactions/{id}/operations", {"operations": [statement]}, status=400).json
        assert "Lance client" in refused["detail"]
        assert web("POST", f"transactions/{id}/commit", {}).json["commit"] == "2.0"
        assert stands(web, id)["status"] == "Succeeded"
    lake.refresh()
    assert (ids(lake), ids(lake, "people")) == ([0, 1, 2, 3, 10], [1, 2, 3])
    sound(lake)


def test_it_is_canceled_or_expires(lake: quire.Lake) -> None:
    with served(lake, limits=Limits(transaction_idle_seconds=1.0)) as web:
        canceled, expired = begin(web), begin(web)
        for id in (canceled, expired):
            opened(at(web, id)).insert(docs(10))
        alter(web, canceled, "Canceled")
        time.sleep(1.2)
        for id in (canceled, expired):
            web("POST", f"/lance/demo/txn/{id}/v1/table/docs/describe", {}, status=409)
            assert stands(web, id)["status"] == "Canceled"
            assert alter(web, id, "Succeeded", answers=409)["code"] == 19
    assert lake.refresh() == "1.0"
    sound(lake)


def test_what_a_transaction_is_told(lake: quire.Lake) -> None:
    with served(lake) as web:
        id = begin(web)
        path = f"/lance/demo/txn/{id}/v1"
        empty = web("POST", f"{path}/transaction/{id}/alter", {"actions": [{}]}, status=400).json
        assert "plain POST" in empty["detail"] + empty["error"]
        assert web("POST", "/lance/demo/v1/transaction/none/describe", {}, status=404).json["code"] == 10
        assert web("POST", "/lance/demo/v1/transaction/1.0/describe", {}).json["status"] == "Succeeded"
        web("POST", f"{path}/table/promised/declare", {"properties": {"quire.key": "id"}})
        web("POST", f"{path}/table/promised/declare", {}, status=409)
        assert "promised" in web.get(f"{path}/table").json["tables"]
        assert "promised" not in web.get("/lance/demo/v1/table").json["tables"]
        web("POST", f"{path}/table/docs/rename", {"new_table_name": "texts"})
        web("POST", f"{path}/table/people/drop", {})
        web("POST", f"{path}/namespace/a/create", {}, status=406)
        alter(web, id, "Succeeded", message="moved")
    assert lake.refresh() == "2.0"
    assert lake.show("2.0").message == "moved"
    assert [name for name in lake.tables() if not name.startswith("_")] == ["texts"]
    made = lance.write_dataset(docs(1), namespace_client=Namespace(lake), table_id=["promised"], mode="overwrite")
    assert made.count_rows() == 1
    assert lake["promised"].key == ("id",)
    sound(lake)
