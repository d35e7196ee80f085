"""The rules of a graph hold for raw transactions on its tables, and on both sides of every race."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
import quire.graph.integrity
from quire.errors import Conflict, IntegrityError
from quire.graph.schema.apply import apply

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  mood: enum(happy, sad)?
  email: String? @unique
  city: String?
  @range(age, 0..150)
  @check(email, "[^@]+@[^@]+")
}
node City { name: String @key }
edge Knows: Person -> Person { note: String? @unique(src, dst) }
edge LivesIn: Person -> City @card(0..1)
"""


def person(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": name, "age": None, "mood": None, "email": None, "city": None, **more}


def knows(id: str, src: str, dst: str) -> dict[str, Any]:
    return {"id": id, "src": src, "dst": dst, "note": None}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(str(tmp_path / "lake"), backfill=False) as made:
        with made.transaction("schema") as tx:
            apply(tx, SCHEMA)
        with made.transaction("people") as tx:
            tx["node:Person"].append([person("Alice", email="a@x"), person("Bob")])
            tx["node:City"].append([{"id": "Rome", "name": "Rome"}])
        with made.transaction("edges") as tx:
            tx["edge:Knows"].append([knows("k1", "Alice", "Bob")])
        yield made


def refused(lake: quire.Lake, table: str, row: dict[str, Any]) -> IntegrityError:
    head = lake.head
    with pytest.raises(IntegrityError) as caught:
        with lake.transaction() as tx:
            tx[table].append([row])
    assert lake.refresh() == head
    return caught.value


@pytest.mark.parametrize(
    ("row", "rule", "property"),
    [
        (person("Eve", age=151), "range", "age"),
        (person("Eve", age=-1), "range", "age"),
        (person("Eve", mood="odd"), "enum", "mood"),
        (person("Eve", email="nobody"), "check", "email"),
        (person("Eve", email="a@x"), "unique", "email"),
        ({**person("Eve"), "name": None}, "required", "name"),
    ],
)
def test_a_raw_row_that_breaks_a_rule_is_refused(lake: quire.Lake, row: Any, rule: str, property: str) -> None:
    error = refused(lake, "node:Person", row)
    assert (error.rule, error.property, error.type, error.id) == (rule, property, "Person", "Eve")
    assert error.count == len(error.violations) == 1


def test_an_id_follows_from_its_key(lake: quire.Lake) -> None:
    assert refused(lake, "node:Person", {**person("Eve"), "id": "Adam"}).rule == "key"


def test_an_edge_needs_both_ends(lake: quire.Lake) -> None:
    error = refused(lake, "edge:Knows", knows("k2", "Alice", "Nobody"))
    assert (error.rule, error.property, error.id) == ("end", "to", "k2")
    assert refused(lake, "edge:Knows", knows("k2", "Nobody", "Alice")).property == "from"


def test_a_pair_is_unique_across_old_and_new_edges(lake: quire.Lake) -> None:
    assert refused(lake, "edge:Knows", knows("k2", "Alice", "Bob")).rule == "unique"
    with lake.transaction() as tx:
        tx["edge:Knows"].append([knows("k2", "Bob", "Alice")])


def test_nulls_are_never_equal(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["node:Person"].append([person("Eve"), person("Adam")])
    assert lake["node:Person"].count() == 4


def test_no_more_edges_leave_a_node_than_may(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["edge:LivesIn"].append([{"id": "l1", "src": "Bob", "dst": "Rome"}])
    error = refused(lake, "edge:LivesIn", {"id": "l2", "src": "Bob", "dst": "Rome"})
    assert (error.rule, error.id) == ("card", "l2")


def test_a_node_with_edges_stays_until_they_go(lake: quire.Lake) -> None:
    with pytest.raises(IntegrityError, match="Knows 'k1' leads to the Person 'Bob'"):
        with lake.transaction() as tx:
            tx["node:Person"].delete("id = 'Bob'")
    with lake.transaction() as tx:
        tx["edge:Knows"].delete("dst = 'Bob'")
        tx["node:Person"].delete("id = 'Bob'")
    assert lake["node:Person"].count() == 1


@pytest.mark.parametrize("edge_first", [True, False])
def test_neither_side_of_a_race_leaves_an_edge_without_an_end(lake: quire.Lake, edge_first: bool) -> None:
    with lake.transaction() as tx:
        tx["node:Person"].append([person("Eve")])
    with quire.open(lake.uri, backfill=False) as other:
        insert, delete = lake.transaction(), other.transaction()
        insert["edge:Knows"].append([knows("k2", "Alice", "Eve")])
        delete["node:Person"].delete("id = 'Eve'")
        first, second = (insert, delete) if edge_first else (delete, insert)
        first.commit()
        with pytest.raises((IntegrityError, Conflict)):
            second.commit()
    snap = lake.snapshot()
    ends = {row["dst"] for row in snap["edge:Knows"].to_pylist()}
    assert ends <= {row["id"] for row in snap["node:Person"].to_pylist()}


def test_an_overwrite_that_drops_a_node_and_an_edge_to_it_never_both_land(lake: quire.Lake) -> None:
    with lake.transaction() as tx:
        tx["node:Person"].append([person("Eve")])
    with quire.open(lake.uri, backfill=False) as other:
        over, insert = lake.transaction(), other.transaction()
        over["node:Person"].overwrite([person("Alice"), person("Bob")])
        insert["edge:Knows"].append([knows("k2", "Alice", "Eve")])
        insert.commit()
        with pytest.raises((IntegrityError, Conflict)):
            over.commit()


def test_two_writers_of_one_unique_value_cannot_both_land(lake: quire.Lake) -> None:
    with quire.open(lake.uri, backfill=False) as other:
        one, two = lake.transaction(), other.transaction()
        one["node:Person"].append([person("Eve", email="e@x")])
        two["node:Person"].append([person("Adam", email="e@x")])
        one.commit()
        with pytest.raises((IntegrityError, Conflict)):
            two.commit()


@pytest.mark.parametrize(
    "change",
    [
        lambda tx: tx.drop_table("node:City"),
        lambda tx: tx.rename_table("node:City", "cities"),
        lambda tx: tx["node:City"].add_columns({"more": "1"}),
        lambda tx: tx["node:Person"].drop_columns("city"),
    ],
)
def test_tables_stay_what_the_schema_says(lake: quire.Lake, change: Any) -> None:
    with pytest.raises(IntegrityError) as caught:
        with lake.transaction() as tx:
            change(tx)
    assert caught.value.rule == "schema"


def test_violations_beyond_those_told_are_counted(lake: quire.Lake) -> None:
    with pytest.raises(IntegrityError) as caught:
        with lake.transaction() as tx:
            tx["node:Person"].append([person(f"p{n}", age=999) for n in range(250)])
    assert caught.value.count == 250
    assert len(caught.value.violations) == 100


def test_the_ends_of_an_edge_cannot_be_made_null(tmp_path: Path) -> None:
    from quire.graph.graph import Graph

    with quire.create(tmp_path / "ends", backfill=False) as lake:
        Graph(lake).apply_schema("node P { k: String @key } edge E: P -> P")
        tx = lake.transaction()
        tx["edge:E"].alter_column("src", nullable=True)
        with pytest.raises(quire.errors.IntegrityError, match="may not be null"):
            tx.commit()


def test_a_node_type_is_not_dropped_from_under_a_new_edge_type(tmp_path: Path) -> None:
    from quire.graph.graph import Graph
    from quire.graph.schema.apply import apply

    schema = "node P { k: String @key } node Q { k: String @key }"
    with quire.create(tmp_path / "drop", backfill=False) as lake, quire.open(lake.uri, backfill=False) as other:
        Graph(lake).apply_schema(schema)
        other.refresh()
        late = other.transaction("an edge type more")
        apply(late, f"{schema} edge E: Q -> Q")
        with lake.transaction("drop") as tx:
            tx.drop_table("node:Q")
        with pytest.raises(quire.QuireError):
            late.commit()
        assert "edge:E" not in lake.snapshot()


def test_the_validator_is_there_when_nobody_imported_the_graph(tmp_path: Path) -> None:
    import subprocess
    import sys

    from quire.graph.graph import Graph

    with quire.create(tmp_path / "plain", backfill=False) as lake:
        Graph(lake).apply_schema("node P { k: String @key }")
    code = (
        "import quire, sys; lake = quire.open(sys.argv[1])\n"
        "with lake.transaction() as tx: tx['node:P'].append([{'id': 'a', 'k': 'a'}])\n"
        "try:\n"
        "    with lake.transaction() as tx: tx['node:P'].append([{'id': 'b', 'k': 'c'}])\n"
        "except quire.errors.IntegrityError: print('refused', lake['node:P'].count())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "plain")], capture_output=True, text=True)
    assert done.stdout == "refused 1\n", done.stderr


def test_a_row_that_is_wrong_by_itself_is_not_blamed_on_others(lake: quire.Lake) -> None:
    with quire.open(lake.uri, backfill=False) as other:
        tx = other.transaction()
        tx["node:Person"].append([person("Eve", age=151)])
        with lake.transaction() as rival:
            rival["node:Person"].append([person("Zoe")])
        with pytest.raises(IntegrityError) as caught:
            tx.commit()
    assert caught.value.rule == "range"


def test_a_raw_transaction_that_others_made_wrong_may_be_run_again(lake: quire.Lake) -> None:
    with quire.open(lake.uri, backfill=False) as other:
        tx = other.transaction()
        tx["edge:LivesIn"].append([{"id": "l1", "src": "Bob", "dst": "Rome"}])
        with lake.transaction() as rival:
            rival["edge:LivesIn"].append([{"id": "l2", "src": "Bob", "dst": "Rome"}])
        with pytest.raises(Conflict, match="conflict with this transaction") as caught:
            tx.commit()
    assert caught.value.retryable


def test_a_foreign_write_that_breaks_a_rule_is_kept_on_a_branch(tmp_path: Path) -> None:
    import lance
    import pyarrow as pa

    with quire.create(str(tmp_path / "lake")) as lake:
        with lake.transaction("schema") as tx:
            apply(tx, SCHEMA)
        with lake.transaction("people") as tx:
            tx["node:Person"].append([person("Alice", age=30)])
        lake.backfill()
        plain = lance.dataset(next(str(p.parent) for p in tmp_path.rglob("_versions") if _holds_people(p.parent)))
        wrong = pa.Table.from_pylist([person("Eve", age=999)], schema=plain.schema)
        lance.write_dataset(wrong, plain.uri, mode="append")
        done = lake.adopt("node:Person")
        assert done.branch.startswith("foreign/")
        assert [r["name"] for r in lake["node:Person"].to_pylist()] == ["Alice"]
        assert {r["name"] for r in lake.branch(done.branch)["node:Person"].to_pylist()} == {"Alice", "Eve"}
        with lake.transaction() as tx:
            tx["node:Person"].append([person("Zoe")])
        assert lake["node:Person"].count() == 2


def _holds_people(folder: Path) -> bool:
    import lance

    found = lance.dataset(str(folder))
    return "mood" in found.schema.names


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("q", "no query", "cannot be read"),
        ("q", "query other() { match { $p: Person } return { $p.name } }", "holds 'other'"),
        ("q", "", "holds no query"),
    ],
)
def test_a_stored_query_that_is_none_is_refused(lake: quire.Lake, name: str, text: str, said: str) -> None:
    error = refused(lake, "graph:stored", {"name": name, "text": text})
    assert (error.rule, error.id) == ("query", name)
    assert said in error.message


def test_a_stored_query_may_be_written_and_removed_by_hand(lake: quire.Lake) -> None:
    text = "query q() { match { $p: Person } return { $p.name } }"
    with lake.transaction() as tx:
        tx["graph:stored"].insert([{"name": "q", "text": text}])
    assert quire.Graph(lake).stored() == {"q": text}
    with lake.transaction() as tx:
        tx["graph:stored"].delete("name = 'q'")
    assert quire.Graph(lake).stored() == {}
