"""Graphs merge: rules are kept by the merged state, whichever side broke them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.graph.integrity.test_validator import SCHEMA, knows, person

import quire
from quire.errors import UnresolvedConflicts
from quire.graph.schema.apply import apply
from quire.testing import memory


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
