"""What is done with a graph, as verbs that have a price: on graphs of 20 types, by depth of history.

Each runs on a handle that has done the same before with another node, so that what Lance keeps in memory is there, as
it is for a writer in its stride.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.laboratory.costs.graphs import name
from tests.laboratory.costs.laboratory import NO_SLACK, Slack, Verb
from tests.laboratory.everywhere import Place

from quire.graph.graph import Graph

Program = Callable[[Graph, int], Any]
"""Does something with the node of a number."""

FIRST, SECOND = 7, 8
"""The node that it is done with before it is measured, and when it is."""
NEW = 1_000_000
WHY = "a scan reads so many fragments ahead, and comes to the last of a thousand a round later"
SCAN, TWO_SCANS = Slack(0, 1, WHY), Slack(0, 2, WHY)

QUERIES = """
query node($name: String) { insert N0 { name: $name, age: 1 } }
query edge($a: String, $b: String) { insert E0 { from: $a, to: $b, since: 1 } }
query ruled($a: String, $b: String) { insert E1 { from: $a, to: $b, since: 1 } }
query both($a: String, $b: String) { insert N0 { name: $a }  insert N1 { name: $b }  insert E0 { from: $a, to: $b } }
query change($name: String) { update N0 set { age: 2 } where name = $name }
query remove($name: String) { delete N0 where name = $name }
query find($name: String) { match { $n: N0 { name: $name } } return { $n.age } }
query hop($name: String) { match { $n: N0 { name: $name }  $n e0 $m } return { $m.name, $m.age } }
"""


def _mutates(which: str, *names: str, first: int = 0) -> Program:
    """Run a mutation on nodes that are there, or on new ones."""

    def program(graph: Graph, number: int) -> Any:
        values = {parameter: name(first + number + place) for place, parameter in enumerate(names)}
        return graph.mutate(QUERIES, which, params=values).receipt

    return program


def _asks(which: str) -> Program:
    return lambda graph, number: graph.query(QUERIES, which, name=name(number)).to_pylist()


def _loads_node(graph: Graph, number: int) -> Any:
    return graph.load([{"name": name(NEW + number), "age": 1}], type="N0").receipt


def _loads_edge(graph: Graph, number: int) -> Any:
    return graph.load([{"from": name(number), "to": name(number + 1), "since": 1}], edge="E0").receipt


def _merges_edge(graph: Graph, number: int) -> Any:
    return graph.load([{"from": name(number), "to": name(number + 1)}], "merge", edge="E1").receipt


def _verb(what: str, program: Program, *, slack: Slack = NO_SLACK, **about: Any) -> Verb:
    def prepare(place: Place) -> Graph:
        graph = Graph(place.open())
        program(graph, FIRST)
        return graph

    return Verb(f"graph: {what}", lambda g: program(g, SECOND), prepare, graph=True, slack=slack, **about)


GRAPHS = (
    _verb("insert a node", _mutates("node", "name", first=NEW), important=True, slack=SCAN),
    _verb("insert an edge", _mutates("edge", "a", "b"), important=True, slack=SCAN),
    _verb("insert an edge that is unique and counted", _mutates("ruled", "a", "b"), important=True),
    _verb("insert two nodes and an edge", _mutates("both", "a", "b", first=NEW), important=True, slack=TWO_SCANS),
    _verb("load a node", _loads_node, important=True, slack=SCAN),
    _verb("load an edge", _loads_edge, important=True, slack=SCAN),
    _verb("merge an edge", _merges_edge),
    _verb("update a node", _mutates("change", "name")),
    _verb("delete a node and its edges", _mutates("remove", "name")),
    _verb("find a node", _asks("find"), important=True),
    _verb("one hop from a node", _asks("hop"), important=True),
)
