"""What Quire promises about its price, of the golden file's lines and against plain Lance on the same wire."""

from __future__ import annotations

import uuid

import lance
import pyarrow as pa
import pytest
from tests.laboratory.costs import CONDITIONS, LARGEST, LARGEST_GRAPH, VERBS, Bill, Condition, Golden, Verb

from quire.testing.proxy import Proxy, longest_chain
from quire.testing.s3 import SeaweedFS

LARGE = [c for c in CONDITIONS if c.maintained and not c.graph]


def bills(golden: Golden, name: str) -> dict[Condition, Bill]:
    """Every line of a verb, of which there must be some."""
    verb: Verb = next(verb for verb in VERBS if verb.name == name)
    found = {c: bill for c in CONDITIONS if (bill := golden.bill(verb, c)) is not None}
    assert found
    return found


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("append to 1 table", 1),
        ("append to 2 tables", 2),
        ("append to 8 tables", 8),
        ("append to 2 tables of a branch", 2),
    ],
)
def test_a_warm_append_costs_two_requests_a_table_and_the_slot_in_two_hops_on_every_lake(
    golden: Golden, name: str, tables: int
) -> None:
    found = bills(golden, name)
    assert {c.maintained for c in found} == {True, False}
    assert {bill.total for bill in found.values()} == {2 * tables + 1}
    assert {bill.hops for bill in found.values()} == {2}
    assert all(bill.quire == {"create": 1} for bill in found.values()), "the slot alone, and no LIST"
    assert all("LIST" not in bill.lance for bill in found.values())


def test_an_index_costs_an_append_nothing(golden: Golden) -> None:
    for bill in bills(golden, "append to 1 indexed table").values():
        assert (bill.total, bill.hops) == (3, 2)


def test_what_follows_an_append_is_bounded_by_its_tables(golden: Golden) -> None:
    one, eight = (bills(golden, name)[LARGEST].later for name in ("append to 1 table", "append to 8 tables"))
    hint = 2
    checkpoint = 1
    assert one <= 12 + hint + checkpoint
    assert eight <= 8 * 12 + hint + checkpoint


def test_a_cold_snapshot_of_the_largest_lake_is_at_most_four_hops_and_a_table_adds_one(golden: Golden) -> None:
    for condition in LARGE:
        assert bills(golden, "cold snapshot")[condition].hops <= 4
        assert bills(golden, "first look at a table")[condition] == Bill({}, {"GET": 1}, 1)
        assert "LIST" not in bills(golden, "cold snapshot")[condition].quire
    assert LARGEST.tables == 500
    assert LARGEST.depth == 1000


def test_a_cold_query_over_five_tables_reads_rows_after_three_hops(golden: Golden) -> None:
    """It opens the lake in two, and asks for news and for the manifests in one."""
    for condition, bill in bills(golden, "SQL over 5 tables, cold").items():
        if condition.maintained:
            manifests, rows = 5, 5
            assert bill.lance == {"GET": manifests + rows}
            assert bill.quire == bills(golden, "cold snapshot")[condition].quire
            assert bill.hops == 3 + 1
    for bill in bills(golden, "SQL over 5 tables of a snapshot").values():
        assert bill == Bill({}, {"GET": 5}, 1), "rows, and nothing else"


def test_a_lost_race_of_two_appends_costs_six_requests_and_four_hops_more(golden: Golden) -> None:
    """The winner's record, both manifests of the winner, both of ours, and the next slot."""
    for condition, bill in bills(golden, "lost race of appends to 2 tables: rebase").items():
        alone = bills(golden, "append to 2 tables")[condition]
        assert (bill.total - alone.total, bill.hops - alone.hops) == (6, 4)


def test_asking_for_news_is_one_request_on_every_lake(golden: Golden) -> None:
    for name in ("refresh, no news", "open warm: a snapshot"):
        assert all(bill == Bill({"GET": 1}, {}, 1) for bill in bills(golden, name).values())


@pytest.mark.parametrize(
    ("name", "requests", "hops"),
    [
        ("graph: insert a node", 4, 3),
        ("graph: load a node", 4, 3),
        ("graph: insert an edge", 6, 4),
        ("graph: load an edge", 6, 4),
        ("graph: insert an edge that is unique and counted", 9, 5),
        ("graph: find a node", 2, 2),
        ("graph: one hop from a node", 3, 3),
    ],
)
def test_a_verb_of_a_graph_costs_the_same_at_every_depth(golden: Golden, name: str, requests: int, hops: int) -> None:
    kept = {c: bill for c, bill in bills(golden, name).items() if c.maintained}
    assert {c.depth for c in kept} == {1, 100, 1000}
    assert {(bill.total, bill.hops) for bill in kept.values()} == {(requests, hops)}
    assert all("LIST" not in {**bill.quire, **bill.lance} for bill in kept.values())


def test_an_edge_costs_a_strict_insert_a_look_for_news_and_one_look_up_of_both_ends(golden: Golden) -> None:
    insert = bills(golden, "strict insert, indexed")[LARGEST]
    edge = bills(golden, "graph: insert an edge")[LARGEST_GRAPH]
    news, ends = 1, 2
    assert edge.total <= insert.total + news + ends
    assert edge.hops <= insert.hops + news + 1, "both ends are looked up side by side"


@pytest.mark.s3
def test_one_table_costs_less_than_plain_lance_and_half_its_hops(golden: Golden, s3: SeaweedFS) -> None:
    rows = pa.table({"id": [1], "text": ["x"]})
    with Proxy(s3.endpoint) as proxy:
        options = {**s3.options, "aws_endpoint": proxy.endpoint}
        table = lance.write_dataset(rows, s3.uri(f"plain-{uuid.uuid4().hex}"), storage_options=options)
        table.insert(rows)
        start = proxy.mark()
        table.insert(rows)
        proxy.settle()
        plain = proxy.since(start)
    assert len(plain) == longest_chain(plain) == 4, "data, LIST, transaction, manifest"
    for bill in bills(golden, "append to 1 table").values():
        assert bill.total < len(plain)
        assert 2 * bill.hops == longest_chain(plain)
