"""Graphs merge: rules are kept by the merged state, whichever side broke them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.graph.integrity.test_validator import SCHEMA, knows, person

import quire
from quire.errors import ReadOnly, UnresolvedConflicts
from quire.graph.schema.apply import apply
from quire.testing import memory
from quire.testing.proxy import Proxy
from quire.testing.s3 import SeaweedFS


class Graphs:
    """Alice and Bob, and that Alice knows Bob; main and branch `exp`."""

    def __init__(self, lake: quire.Lake, format: str) -> None:
        self.lake = lake
        with lake.transaction() as tx:
            apply(tx, SCHEMA, table_format=format)
        with lake.transaction() as tx:
            tx["node:Person"].append([person("Alice", email="a@x", age=1), person("Bob"), person("Cy")])
            tx["node:City"].append([{"id": c, "name": c} for c in ("Rome", "Oslo")])
            tx["edge:Knows"].append([knows("k1", "Alice", "Bob")])
        self.exp = lake.create_branch("exp")

    def ids(self, table: str) -> list[str]:
        with quire.open(self.lake.uri, read_only=True) as fresh:
            return sorted(row["id"] for row in fresh[table].to_pylist())


def on(lake: quire.Lake, *statements: tuple[str, str, Any]) -> None:
    with lake.transaction() as tx:
        for table, verb, what in statements:
            getattr(tx[table], verb)(what)


@pytest.fixture(params=["lance", "memory", "delta"])
def any_graphs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Graphs]:
    memory.install()
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        yield Graphs(lake, request.param)


@pytest.fixture(params=["lance", "memory"])
def graphs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Graphs]:
    memory.install()
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        yield Graphs(lake, request.param)


def test_nodes_and_edges_of_both_come_together(graphs: Graphs) -> None:
    on(graphs.lake, ("node:Person", "append", [person("Di")]), ("edge:Knows", "append", [knows("k2", "Di", "Bob")]))
    on(graphs.exp, ("node:Person", "append", [person("Ed")]), ("edge:Knows", "append", [knows("k3", "Ed", "Cy")]))
    plan = graphs.lake.merge("exp", preview=True)
    assert not plan.conflicts
    plan.commit()
    assert graphs.ids("node:Person") == ["Alice", "Bob", "Cy", "Di", "Ed"]
    assert graphs.ids("edge:Knows") == ["k1", "k2", "k3"]


@pytest.mark.parametrize("who", ["ours", "theirs"])
@pytest.mark.parametrize(
    ("orphans", "people", "edges"),
    [("drop-edges", ["Alice", "Bob", "Di"], ["k1"]), ("keep-node", ["Alice", "Bob", "Cy", "Di"], ["k1", "k2"])],
)
def test_an_edge_to_a_node_that_the_other_side_removed(
    graphs: Graphs, who: str, orphans: Any, people: list[str], edges: list[str]
) -> None:
    one, other = (graphs.lake, graphs.exp) if who == "ours" else (graphs.exp, graphs.lake)
    on(one, ("edge:Knows", "append", [knows("k2", "Alice", "Cy")]), ("node:Person", "append", [person("Di")]))
    on(other, ("node:Person", "delete", "id = 'Cy'"))
    with pytest.raises(UnresolvedConflicts) as refused:
        graphs.lake.merge("exp")
    assert refused.value.counts == {"orphan": 1}
    plan = graphs.lake.merge("exp", preview=True)
    [orphan] = plan.conflicts
    assert (orphan.kind, orphan.table, orphan.key) == ("orphan", "edge:Knows", {"id": "k2"})
    assert orphan.partners == (("node:Person", "Cy"),)
    assert (orphan.ours is None) == (who == "theirs")
    graphs.lake.merge("exp", orphans=orphans)
    assert graphs.ids("node:Person") == people
    assert graphs.ids("edge:Knows") == edges


def test_a_value_that_must_be_unique(graphs: Graphs) -> None:
    on(graphs.lake, ("node:Person", "append", [person("Di", email="d@x")]))
    on(graphs.exp, ("node:Person", "append", [person("Ed", email="d@x"), person("Flo")]))
    plan = graphs.lake.merge("exp", preview=True)
    assert {(c.kind, c.table) for c in plan.conflicts} == {("unique", "node:Person")}
    one = plan.conflicts[0]
    with pytest.raises(UnresolvedConflicts):
        plan.commit()
    plan.resolve("node:Person", one.key, values={"name": one.key["id"], "email": None})
    assert not plan.conflicts.open
    assert plan.conflicts[0].resolution == "values"
    plan.commit()
    assert graphs.ids("node:Person") == ["Alice", "Bob", "Cy", "Di", "Ed", "Flo"]
    assert len([r for r in graphs.lake["node:Person"].to_pylist() if r["email"] == "d@x"]) == 1


def files(lake: quire.Lake) -> dict[str, tuple[int, int]]:
    """What the store holds, with when it was written."""
    found = [path for path in Path(lake.uri).rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def break_rules(ours: quire.Lake, theirs: quire.Lake) -> None:
    """Three rules are broken by both sides together, one in a row of which each has changed a cell."""
    on(theirs, ("edge:Knows", "append", [knows("k2", "Alice", "Cy")]), ("node:Person", "append", [person("Di")]))
    on(ours, ("node:Person", "delete", "id = 'Cy'"), ("node:Person", "append", [person("Ed", email="d@x")]))
    on(theirs, ("edge:LivesIn", "append", [{"id": "l2", "src": "Alice", "dst": "Oslo"}]))
    on(ours, ("edge:LivesIn", "append", [{"id": "l1", "src": "Alice", "dst": "Rome"}]))
    with theirs.transaction() as tx:
        tx["node:Person"].update(values={"email": "d@x"}, where="id = 'Bob'")
    with ours.transaction() as tx:
        tx["node:Person"].update(values={"age": 7}, where="id = 'Bob'")


def told(plan: Any) -> list[Any]:
    return sorted((c.table, c.kind, str(c.key), c.fingerprint, c.resolution) for c in plan.conflicts)


def test_a_preview_that_may_write_nothing_tells_broken_rules(any_graphs: Graphs) -> None:
    graphs = any_graphs
    break_rules(graphs.lake, graphs.exp)
    plan = graphs.lake.merge("exp", preview=True)
    assert {c.kind for c in plan.conflicts} == {"orphan", "unique", "cardinality"}
    for lake in (graphs.lake, graphs.exp):
        lake.close()  # hints and notes of writers are written in the background
    before = files(graphs.lake)
    with quire.open(graphs.lake.uri, read_only=True) as reader:
        seen = reader.merge("exp", preview=True)
        assert told(seen) == told(plan)
        for one in list(seen.conflicts):
            mended: Any = {"values": {"name": "Bob", "email": None}} if one.kind == "unique" else {"choose": "delete"}
            seen.resolve(one.table, one.key, **mended)
        assert len(seen.conflicts) == len(plan.conflicts)
        assert not seen.conflicts.open
        assert {c.kind for c in reader.merge("exp", preview=True, orphans="drop-edges").conflicts} == {
            "unique",
            "cardinality",
        }
        with pytest.raises(ReadOnly):
            seen.commit()
    assert files(graphs.lake) == before


@pytest.mark.s3
def test_such_a_preview_sends_nothing_to_a_cloud(s3: SeaweedFS) -> None:
    with Proxy(s3.endpoint) as proxy:
        uri = s3.uri(f"preview-{uuid.uuid4().hex}")
        with quire.create(uri, storage_options=s3.options, backfill=False) as lake:
            graphs = Graphs(lake, "lance")
            break_rules(lake, graphs.exp)
            plan = lake.merge("exp", preview=True)
            expected = told(plan)
        options = {**s3.options, "aws_endpoint": proxy.endpoint}
        with quire.open(uri, storage_options=options, read_only=True) as reader:
            assert told(reader.merge("exp", preview=True)) == expected
        proxy.settle()
        asked = [r.method for r in proxy.since(0)]
        assert "GET" in asked
        assert set(asked) <= {"GET", "HEAD"}


def test_too_many_edges_leave_a_node(graphs: Graphs) -> None:
    on(graphs.lake, ("edge:LivesIn", "append", [{"id": "l1", "src": "Alice", "dst": "Rome"}]))
    on(graphs.exp, ("edge:LivesIn", "append", [{"id": "l2", "src": "Alice", "dst": "Oslo"}]))
    plan = graphs.lake.merge("exp", preview=True)
    assert {c.kind for c in plan.conflicts} == {"cardinality"}
    plan.resolve("edge:LivesIn", plan.conflicts[0].key, choose="delete")
    plan.commit()
    assert len(graphs.ids("edge:LivesIn")) == 1


def test_the_ends_of_an_edge_are_never_mixed(graphs: Graphs) -> None:
    with graphs.lake.transaction() as tx:
        tx["edge:Knows"].update(values={"src": "Cy"}, where="id = 'k1'")
    with graphs.exp.transaction() as tx:
        tx["edge:Knows"].update(values={"dst": "Cy"}, where="id = 'k1'")
    [one] = graphs.lake.merge("exp", preview=True).conflicts
    assert one.columns == ("src", "dst") or set(one.columns) == {"src", "dst"}
    graphs.lake.merge("exp", resolve="theirs")
    [edge] = graphs.lake["edge:Knows"].to_pylist()
    assert (edge["src"], edge["dst"]) == ("Alice", "Cy")


def test_a_rule_that_one_side_tightened_is_asked_of_the_others_rows(graphs: Graphs) -> None:
    with graphs.lake.transaction() as tx:
        apply(tx, SCHEMA.replace("@range(age, 0..150)", "@range(age, 0..9)"))
    on(graphs.exp, ("node:Person", "append", [person("Old", age=99)]))
    plan = graphs.lake.merge("exp", preview=True)
    assert [(c.kind, c.key) for c in plan.conflicts] == [("check", {"id": "Old"})]
    plan.resolve("node:Person", "Old", values={"name": "Old", "age": 9})
    plan.commit()
    assert "Old" in graphs.ids("node:Person")
