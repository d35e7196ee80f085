"""Rules of the graph hold for clients that know nothing of them, whichever way they write."""

from __future__ import annotations

from pathlib import Path

import lance_namespace as spec
import pyarrow as pa
import pytest
from tests.namespace.conftest import opened, sound
from tests.namespace.serving import served
from tests.server.web import arrow

import quire
from quire.lance import Namespace

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
node Company { name: String @key }
edge WorksAt: Person -> Company
"""


@pytest.fixture
def graph(tmp_path: Path) -> quire.Lake:
    lake = quire.create(tmp_path / "graph", author="ada")
    graph = quire.Graph(lake)
    graph.apply_schema(SCHEMA)
    graph.load(
        [
            {"type": "Person", "data": {"name": "Ada", "age": 36}},
            {"type": "Company", "data": {"name": "Acme"}},
            {"edge": "WorksAt", "from": "Ada", "to": "Acme"},
        ]
    )
    return lake


def persons(lake: quire.Lake, *rows: tuple[str, int]) -> pa.Table:
    """Rows with the columns that the table has."""
    schema = lake["node:Person"].schema
    given = [{name: None for name in schema.names} | {"id": name, "name": name, "age": age} for name, age in rows]
    return pa.Table.from_pylist([{n: row[n] for n in schema.names} for row in given], schema=schema)


def test_rows_that_are_sent_are_refused_by_name(graph: quire.Lake) -> None:
    before = graph.refresh()
    with served(graph) as web:
        path = "/lance/demo/v1/table/node:Person"
        told = web("POST", f"{path}/insert", body=arrow(persons(graph, ("Old", 200))), status=400).json
        assert told["code"] == 13
        assert "age" in told["error"]
        told = web("POST", f"{path}/insert", body=arrow(persons(graph, ("Ada", 3))), status=400).json
        assert told["code"] == 13
        told = web("POST", f"{path}/delete", {"predicate": "name = 'Ada'"}, status=400).json
        assert "WorksAt" in told["error"]
        assert graph.refresh() == before
        web("POST", f"{path}/insert", body=arrow(persons(graph, ("Bo", 41))))
    assert graph.snapshot()["node:Person"].count() == 2


@pytest.mark.parametrize("view", ["main", "transaction"])
def test_versions_that_break_a_rule_are_never_seen(graph: quire.Lake, view: str) -> None:
    before = graph.refresh()
    namespace = Namespace(graph)
    if view == "main":
        with pytest.raises(OSError, match="unknown|result"):
            opened(namespace, "node:Person").insert(persons(graph, ("Old", 200)))
        with pytest.raises(OSError, match="unknown|result"):
            opened(namespace, "node:Person").delete("name = 'Ada'")
    else:
        with pytest.raises(quire.errors.IntegrityError):
            _commit(namespace, graph)
    assert graph.refresh() == before
    opened(namespace, "node:Person").insert(persons(graph, ("Bo", 41)))
    assert graph.snapshot()["node:Person"].count() == 2
    sound(graph)


def _commit(namespace: Namespace, graph: quire.Lake) -> None:
    with namespace.transaction() as tx:
        opened(tx, "node:Person").insert(persons(graph, ("Old", 200)))


def test_one_transaction_may_break_and_mend_a_rule(graph: quire.Lake) -> None:
    """A node may go with its edges: what a rule looks at is the commit."""
    with Namespace(graph).transaction() as tx:
        opened(tx, "node:Person").delete("name = 'Ada'")
        opened(tx, "edge:WorksAt").delete("true")
    snapshot = graph.snapshot()
    assert (snapshot["node:Person"].count(), snapshot["edge:WorksAt"].count()) == (0, 0)
    assert quire.Graph(graph).lake.verify().findings == []


def test_requests_of_an_append(graph: quire.Lake) -> None:
    """What a client's append costs the server: one request, and three for a handle that is new."""
    import json

    from quire.server.config import Config, LakeConfig
    from quire.server.request_log import RequestLog
    from quire.server.serve import running

    lines: list[str] = []
    log = RequestLog(lambda line: lines.append(json.loads(line)["route"].rpartition("/v1/")[2]))
    with running(Config(lakes={"demo": LakeConfig(str(graph.uri))}, port=0), log) as server:
        dataset = opened(spec.connect("rest", {"uri": f"{server.url}/lance/demo"}), "node:Company")
        row = pa.Table.from_pylist([{n: "New" for n in dataset.schema.names}], schema=dataset.schema)
        dataset.insert(row)
        assert lines == ["table/{id}/describe", "table/{id}/version/list", "table/{id}/version/create"]
        lines.clear()
        dataset.delete("name = 'New'")
        assert lines == ["table/{id}/version/create"]
