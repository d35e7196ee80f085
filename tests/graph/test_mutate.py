"""Insert, update and delete in one commit, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import Conflict, IntegrityError, KeyConflict
from quire.graph.integrity.changes import catalog_of
from quire.graph.language import bind, check, parse
from quire.graph.mutate import MutationReceipt, run
from quire.graph.schema.apply import apply

SCHEMA = """
node Person { name: String @key  age: I32?  score: F64?  tags: [String]? }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(str(tmp_path / "lake"), backfill=False) as made:
        with made.transaction("schema") as tx:
            apply(tx, SCHEMA)
        yield made


def within(tx: Any, body: str, params: str = "", **values: Any) -> MutationReceipt:
    query = check(parse(f"query q({params}) {{ {body} }}").queries[0], catalog_of(tx))
    return run(tx, query.body, bind(query, values))  # type: ignore[arg-type]


def mutated(lake: quire.Lake, body: str, params: str = "", **values: Any) -> MutationReceipt:
    with lake.transaction() as tx:
        receipt = within(tx, body, params, **values)
    return receipt


def people(lake: quire.Lake) -> dict[str, Any]:
    return {row["name"]: row["age"] for row in lake["node:Person"].to_pylist()}


THREE = """
insert Person { name: "Alice", age: 30 }
insert Person { name: "Bob", age: 40 }
insert Knows { from: "Alice", to: "Bob" }
"""


def test_statements_make_one_commit_and_are_counted_exactly(lake: quire.Lake) -> None:
    head = lake.head
    receipt = mutated(lake, THREE)
    assert receipt.inserted == {"Person": 2, "Knows": 1}
    assert (receipt.updated, receipt.deleted) == ({}, {})
    assert [c.id for c in lake.log(2)][1] == head


def test_an_insert_of_a_key_that_is_there_updates_it(lake: quire.Lake) -> None:
    mutated(lake, THREE)
    receipt = mutated(lake, 'insert Person { name: "Bob", age: 1 } insert Person { name: "Bob", age: 2 }')
    assert (receipt.inserted, receipt.updated) == ({}, {"Person": 2})
    assert people(lake)["Bob"] == 2


def test_a_node_without_a_key_is_always_new(lake: quire.Lake) -> None:
    mutated(lake, 'insert Note { text: "a" } insert Note { text: "a" }')
    assert lake["node:Note"].count() == 2


def test_later_statements_see_earlier_ones(lake: quire.Lake) -> None:
    receipt = mutated(
        lake,
        THREE + 'update Person set { age: 50 } where name = "Bob" delete Person where age < 35',
    )
    assert receipt.updated == {"Person": 1}
    assert receipt.deleted == {"Person": 1, "Knows": 1}
    assert people(lake) == {"Bob": 50}


def test_deleting_a_node_deletes_its_edges(lake: quire.Lake) -> None:
    mutated(lake, THREE)
    assert mutated(lake, 'delete Person where name = "Bob"').deleted == {"Person": 1, "Knows": 1}
    assert lake["edge:Knows"].count() == 0


def test_a_hostile_value_is_only_a_value(lake: quire.Lake) -> None:
    evil = "x' or 1=1 --\\`\"\n"
    mutated(lake, THREE + "insert Person { name: $n }", "$n: String", n=evil)
    assert mutated(lake, "delete Person where name = $n", "$n: String", n=evil).deleted == {"Person": 1}
    assert set(people(lake)) == {"Alice", "Bob"}


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("age >= 40", 1),
        ("age > 29.5", 2),
        ("age != 30", 1),
        ('name contains "li"', 1),
        ('name starts_with "B"', 1),
        ("age in [30, 31]", 1),
        ("score is null", 2),
        ("age is not null and age < 35", 1),
        ("age + 1 = 31", 1),
        ("age > 99999999999", 0),
    ],
)
def test_predicates_choose_rows(lake: quire.Lake, where: str, found: int) -> None:
    mutated(lake, THREE)
    assert mutated(lake, f"update Person set {{ score: 1.5 }} where {where}").updated.get("Person", 0) == found


def test_an_edge_to_nobody_is_refused(lake: quire.Lake) -> None:
    with pytest.raises(IntegrityError) as caught:
        mutated(lake, 'insert Knows { from: "Alice", to: "Bob" }')
    assert caught.value.rule == "end"


def test_a_delete_that_missed_a_new_edge_may_be_run_again(lake: quire.Lake) -> None:
    mutated(lake, THREE)
    with quire.open(lake.uri, backfill=False) as other:
        tx = other.transaction()
        within(tx, 'delete Person where name = "Bob"')
        mutated(lake, 'insert Knows { from: "Bob", to: "Alice" }')
        with pytest.raises(Conflict) as caught:
            tx.commit()
        assert caught.value.retryable
        other.refresh()
        assert mutated(other, 'delete Person where name = "Bob"').deleted == {"Person": 1, "Knows": 2}


def test_an_insert_of_a_key_that_is_there_keeps_what_is_not_given(lake: quire.Lake) -> None:
    mutated(lake, 'insert Person { name: "Bob", age: 40, score: 1.5, tags: ["a"] }')
    done = mutated(lake, 'insert Person { name: "Bob", age: 41 } insert Person { name: "Bob", score: 2.5 }')
    assert (done.inserted, done.updated) == ({}, {"Person": 2})
    [bob] = lake["node:Person"].to_pylist()
    assert (bob["age"], bob["score"], bob["tags"]) == (41, 2.5, ["a"])


def test_inserts_of_one_new_key_add_up(lake: quire.Lake) -> None:
    done = mutated(lake, 'insert Person { name: "Bob", age: 1 } insert Person { name: "Bob", score: 2.5 }')
    assert (done.inserted, done.updated) == ({"Person": 1}, {"Person": 1})
    [bob] = lake["node:Person"].to_pylist()
    assert (bob["age"], bob["score"]) == (1, 2.5)


def test_null_is_given_as_null(lake: quire.Lake) -> None:
    mutated(lake, 'insert Person { name: "Bob", age: 40, score: 1.5 }')
    mutated(lake, 'insert Person { name: "Bob", age: $age }', "$age: I32?", age=None)
    [bob] = lake["node:Person"].to_pylist()
    assert (bob["age"], bob["score"]) == (None, 1.5)


def test_a_receipt_counts_what_came_to_be(lake: quire.Lake) -> None:
    """Bob is inserted by somebody else before the mutation lands, so that it updates him and keeps his score."""
    with quire.open(lake.uri, backfill=False) as other:
        tx, program = other.transaction(), other.transaction()
        tx.counts_told = False  # as in Graph.mutate, which tells them after the commit
        told = within(tx, 'insert Person { name: "Bob", age: 1 } insert Person { name: "Eve", age: 2 }')
        within(program, 'insert Person { name: "Bob", age: 1 }')
        assert told.inserted == {"Person": 2}
        mutated(lake, 'insert Person { name: "Bob", score: 9.5 }')
        tx.commit()
        done = told.committed(tx)
        with pytest.raises(Conflict) as caught:
            program.commit()  # it was told that Bob is new
        assert caught.value.retryable
    assert (done.inserted, done.updated) == ({"Person": 1}, {"Person": 1})
    lake.refresh()
    assert {r["name"]: (r["age"], r["score"]) for r in lake["node:Person"].to_pylist()} == {
        "Bob": (1, 9.5),
        "Eve": (2, None),
    }


@pytest.mark.parametrize(
    ("key", "node", "end"),
    [
        ("F64", "1.0", '"1"'),
        ("I64", "7", '"007"'),
        ("DateTime", 'datetime("2024-01-01T00:00:00Z")', '"2024-01-01T01:00:00+01:00"'),
        ("Date", 'date("2024-01-01")', '"2024-01-01"'),
    ],
)
def test_an_end_is_found_by_any_text_of_its_key(tmp_path: Path, key: str, node: str, end: str) -> None:
    with quire.create(str(tmp_path / "ends"), backfill=False) as lake:
        with lake.transaction() as tx:
            apply(tx, f"node N {{ k: {key} @key }} edge E: N -> N")
        mutated(
            lake, f"insert N {{ k: {node} }} insert E {{ from: $end, to: $end }}", "$end: String", end=end.strip('"')
        )
        assert lake["edge:E"].count() == 1


def test_an_end_of_several_values_is_found_by_its_text(tmp_path: Path) -> None:
    with quire.create(str(tmp_path / "ends"), backfill=False) as lake:
        with lake.transaction() as tx:
            apply(tx, "node N { a: String  b: I64  @key(a, b) } edge E: N -> N")
        insert = 'insert N { a: "x", b: 1 } insert E { from: $end, to: $end }'
        mutated(lake, insert, "$end: String", end='["x",  "1"]')
        assert lake["edge:E"].to_pylist()[0]["src"] == '["x","1"]'


def test_an_id_that_is_taken_is_told_in_the_words_of_the_language(lake: quire.Lake) -> None:
    mutated(lake, 'insert Note { id: "n", text: "t" }')
    with pytest.raises(KeyConflict, match="Note 'n' exists already.*Leave the id out"):
        mutated(lake, 'insert Note { id: "n", text: "u" }')


def test_a_row_is_updated_from_what_it_holds(lake: quire.Lake) -> None:
    mutated(lake, THREE + 'insert Person { name: "Cy" }')
    done = mutated(lake, "update Person set { age: age + $n, score: age / 4 } where age >= 30", "$n: I32", n=5)
    assert done.updated == {"Person": 2}
    assert people(lake) == {"Alice": 35, "Bob": 45, "Cy": None}
    assert {r["name"]: r["score"] for r in lake["node:Person"].to_pylist()} == {"Alice": 7.5, "Bob": 10.0, "Cy": None}
    mutated(lake, "update Person set { age: age * 2 } where age > 40 and age < 60")
    assert people(lake)["Bob"] == 90
    assert mutated(lake, 'update Person set { age: age + 1 } where name = "Nobody"').updated == {}


def test_a_later_update_sees_what_an_earlier_one_made(lake: quire.Lake) -> None:
    mutated(lake, THREE)
    done = mutated(
        lake,
        'update Person set { age: age + 1 } where name = "Bob" update Person set { age: age * 2 } where name = "Bob" '
        'insert Person { name: "Di", age: 1 } update Person set { age: age - 3 } where name = "Di"',
    )
    assert done.updated == {"Person": 3}
    assert people(lake) == {"Alice": 30, "Bob": 82, "Di": -2}


def test_two_that_count_up_the_same_row_lose_nothing(lake: quire.Lake) -> None:
    mutated(lake, THREE)
    count = 'update Person set { age: age + 1 } where name = "Bob"'
    with quire.open(lake.uri) as other:
        first, second = lake.transaction(), other.transaction()
        within(first, count)
        within(second, count)
        first.commit()
        with pytest.raises(Conflict) as raised:
            second.commit()
        assert raised.value.retryable
        other.transact(lambda tx: within(tx, count))
    lake.refresh()
    assert people(lake)["Bob"] == 42


def test_a_value_that_the_rows_cannot_take_changes_nothing(lake: quire.Lake) -> None:
    mutated(lake, THREE)
    head = lake.head
    for value in ("age: age * 1000000000", "score: age / 0"):
        with pytest.raises(quire.errors.InvalidQuery):
            mutated(lake, f"update Person set {{ {value} }} where age > 0")
    assert lake.head == head
    mutated(lake, "update Person set { score: score / 0 } where age > 0")  # null divided by anything is null
    assert people(lake) == {"Alice": 30, "Bob": 40}
    assert {row["score"] for row in lake["node:Person"].to_pylist()} == {None}


def test_null_may_be_set_where_it_is_allowed(lake: quire.Lake) -> None:
    mutated(lake, THREE)
    mutated(lake, 'update Person set { age: null } where name = "Bob" insert Person { name: "Cy", age: null }')
    assert people(lake) == {"Alice": 30, "Bob": None, "Cy": None}
    with pytest.raises(quire.errors.InvalidQuery, match="required"):
        mutated(lake, "insert Note { text: null }")


EMBEDDED = """
node Page { name: String @key  text: String?  vector: Vector(64)? @embed("text") }
node Slip { text: String?  vector: Vector(64)? @embed("text") }
"""


def test_rows_whose_text_has_no_vector_are_counted(tmp_path: Path) -> None:
    with quire.create(str(tmp_path / "pages"), backfill=False) as lake:
        graph = quire.Graph(lake)
        graph.apply_schema(EMBEDDED)
        both = 'insert Page { name: "a", text: "x" } insert Page { name: "b" } insert Slip { text: "y" }'
        done = graph.mutate(f"query q() {{ {both} }}")
        assert done.unembedded == {"Page": 1, "Slip": 1}
        assert done.to_dict()["unembedded"] == {"Page": 1, "Slip": 1}
        assert graph.mutate('query q() { update Page set { text: "z" } where name in ["a", "b"] }').unembedded == {
            "Page": 2
        }
        assert graph.mutate("query q() { update Page set { text: name } where text is not null }").unembedded == {
            "Page": 2
        }
        assert graph.mutate("query q() { update Page set { text: null } where text is not null }").unembedded == {}
        assert graph.mutate('query q() { insert Page { name: "a" } }').unembedded == {}


def test_a_text_that_got_its_vector_is_not_counted(tmp_path: Path) -> None:
    from quire.graph.embed import HashEmbedder

    with quire.create(str(tmp_path / "pages"), backfill=False) as lake:
        graph = quire.Graph(lake, embedder=HashEmbedder(64))
        graph.apply_schema(EMBEDDED)
        assert graph.mutate('query q() { insert Page { name: "a", text: "x" } }').unembedded == {}
        assert graph.mutate('query q() { update Page set { text: "y" } where name = "a" }').unembedded == {}
