"""Random reads by an interface of random graphs, answered by the engine and by plain loops: the answers are equal."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests import budget as tier
from tests.budget import FULL, budget
from tests.graph.differential.draw import queries
from tests.graph.differential.test_reads import LEAST, Tally, compare, graph_of
from tests.graph.differential.world import worlds

from quire.graph.query import semi_join

GRAPHS = budget(2, full=18)
QUERIES = 8
SEED = 1 if FULL else tier.SEED


def test_nodes_of_an_interface_are_found_as_plain_loops_find_them() -> None:
    tally = Tally()

    @seed(SEED)
    @settings(
        max_examples=GRAPHS,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def asked(data: st.DataObject) -> None:
        world = data.draw(worlds(named=True), "world")
        graph = graph_of(world)
        for _ in range(QUERIES):
            query = data.draw(queries(world, by_interface=True), "query")
            few = data.draw(st.sampled_from([None, 2, semi_join.FEW]), "few")
            compare(graph, world, query, few, tally)

    asked()
    assert tally.constructs["match by interface"] == tally.asked
    if FULL:
        assert tally.asked >= LEAST
