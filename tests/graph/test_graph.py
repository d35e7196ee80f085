"""The face of a graph: schema, loads, mutations, queries and stored queries, each as one call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import InvalidInput, InvalidQuery, NotFound, SchemaRefused
from quire.graph.graph import Graph

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""
ROWS = [
    {"type": "Person", "data": {"name": "Ada", "age": 36}},
    {"type": "Person", "data": {"name": "Bo"}},
    {"type": "Person", "data": {"name": "Cy", "age": 7}},
    {"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"since": "2020-01-01"}},
    {"edge": "Knows", "from": "Bo", "to": "Cy"},
]
FRIENDS = "query friends($name: String) { match { $p: Person { name: $name } $p knows $f } return { $f.name as name } }"
BIRTHDAY = "query birthday($name: String, $age: I32) { update Person set { age: $age } where name = $name }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        graph = Graph(lake)
        graph.apply_schema(SCHEMA)
        graph.load(ROWS)
        yield graph


def test_a_schema_is_planned_applied_and_shown(graph: Graph) -> None:
    wider = SCHEMA.replace("age: I32?", "age: I32?  city: String?")
    head = graph.lake.head
    assert graph.plan_schema(wider).steps
    assert graph.lake.head == head
    assert graph.apply_schema(wider).steps
    assert "city: String?" in graph.schema()
    assert graph.picture().startswith("<svg")
    assert not graph.apply_schema(wider).steps
    with pytest.raises(SchemaRefused):
        graph.apply_schema(SCHEMA.replace("  age: I32?", ""))
    assert "age: I32?" in graph.schema()


def test_a_load_and_a_mutation_are_one_commit_each(graph: Graph) -> None:
    before = len(list(graph.lake.log()))
    loaded = graph.load([{"type": "Person", "data": {"name": "Di"}}], mode="merge")
    assert loaded.receipt is not None
    assert loaded.receipt.commit == graph.lake.head
    changed = graph.mutate(BIRTHDAY, name="Bo", age=41)
    assert changed.updated == {"Person": 1}
    assert changed.receipt is not None
    assert changed.receipt.commit == graph.lake.head
    assert len(list(graph.lake.log())) == before + 2
    assert graph.node("Person", "Bo") == {"id": "Bo", "name": "Bo", "age": 41}
    assert graph.node("Person", "Nobody") is None


def test_a_dry_run_commits_nothing(graph: Graph) -> None:
    head = graph.lake.head
    done = graph.load([{"type": "Person", "data": {"name": "Di"}}], dry_run=True)
    assert (done.rows, done.receipt, graph.lake.head) == (1, None, head)


def test_a_mutation_may_depend_on_the_head(graph: Graph) -> None:
    with pytest.raises(quire.errors.ExpectationFailed):
        graph.mutate(BIRTHDAY, options={"if_head": "0.0"}, name="Bo", age=1)
    done = graph.mutate(BIRTHDAY, options={"if_head": graph.lake.head}, name="Bo", age=1)
    assert done.updated == {"Person": 1}


def test_a_query_is_given_as_text_as_a_file_or_by_its_name(graph: Graph, tmp_path: Path) -> None:
    expected = [{"name": "Bo"}]
    assert graph.query(FRIENDS, name="Ada").to_pylist() == expected
    assert graph.query(FRIENDS, params={"name": "Ada"}).to_pylist() == expected
    path = tmp_path / "queries.gq"
    path.write_text(f"{FRIENDS}\n{BIRTHDAY}")
    assert graph.query(path, "friends", name="Ada").to_pylist() == expected
    assert graph.store(path) == ["friends", "birthday"]
    assert list(graph.stored()) == ["birthday", "friends"]
    assert graph.query("friends", name="Ada").to_pylist() == expected
    assert graph.mutate("birthday", name="Ada", age=37).updated == {"Person": 1}
    assert "Person" in str(graph.explain("friends", name="Ada"))


def test_stored_queries_follow_time_travel(graph: Graph) -> None:
    graph.store(FRIENDS)
    first = graph.lake.snapshot()
    graph.store(FRIENDS.replace("$f.name as name", "$f.age as age"))
    assert graph.query("friends", at=first, name="Ada").to_pylist() == [{"name": "Bo"}]
    assert graph.query("friends", name="Ada").to_pylist() == [{"age": None}]


def test_a_query_that_is_not_there_or_not_clear_says_so(graph: Graph, tmp_path: Path) -> None:
    graph.store(FRIENDS)
    with pytest.raises(NotFound, match="Did you mean 'friends'"):
        graph.query("freinds", name="Ada")
    with pytest.raises(NotFound, match="no file"):
        graph.query(tmp_path / "no.gq")
    with pytest.raises(InvalidQuery, match="Name one of friends, birthday"):
        graph.query(f"{FRIENDS}\n{BIRTHDAY}")
    with pytest.raises(InvalidQuery, match="is a mutation, not a query"):
        graph.query(BIRTHDAY, name="Ada", age=1)
    with pytest.raises(InvalidQuery, match="is a query, not a mutation"):
        graph.mutate(FRIENDS, name="Ada")
    with pytest.raises(InvalidQuery, match="name"):
        graph.query(FRIENDS)
    with pytest.raises(InvalidQuery, match="known by name"):
        graph.node("Person", "Ada", "Bo")
    assert [f.severity for f in graph.lint("query q() { match { $p: Persn } return { $p } }")] == ["error"]


def test_a_branch_has_a_graph_of_its_own(graph: Graph) -> None:
    other = Graph(graph.lake.create_branch("trial"))
    other.mutate('query add() { insert Person { name: "Eve" } }')
    assert other.node("Person", "Eve") is not None
    assert graph.node("Person", "Eve") is None


def rows_of(graph: Graph, body: str) -> list[dict[str, object]]:
    return graph.query(f"query q() {{ {body} }}").to_pylist()


def test_an_aggregate_may_be_combined_with_what_is_grouped_by(graph: Graph) -> None:
    found = rows_of(
        graph, "match { $p: Person $p knows $f } return { $p.age as age, count($f) + $p.age as b } order { age }"
    )
    assert found == [{"age": None, "b": None}, {"age": 36, "b": 37}]


def test_long_arithmetic_is_not_written_again_and_again(graph: Graph) -> None:
    sum_of_many = " + ".join(["$p.age * 1.5"] * 40)
    found = rows_of(graph, f'match {{ $p: Person {{ name: "Cy" }} }} return {{ {sum_of_many} as x }}')
    assert found == [{"x": 7 * 1.5 * 40}]
    explained = graph.explain(f"query q() {{ match {{ $p: Person }} return {{ {sum_of_many} as x }} }}")
    assert len(explained.sql) < 100_000
    with pytest.raises(InvalidQuery, match="overflows"):
        rows_of(graph, f"match {{ $p: Person }} return {{ {' * '.join(['1e300'] * 9)} * $p.age as x }}")


def test_pages_of_a_query_without_an_order_do_not_overlap(graph: Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": n}} for n in ("c", "b", "a")])
    pages = [rows_of(graph, f"match {{ $p: Person }} return {{ $p.name as n }} limit 1 offset {k}") for k in range(6)]
    assert sorted(page[0]["n"] for page in pages) == ["Ada", "Bo", "Cy", "a", "b", "c"]


def test_an_optional_part_without_a_variable_of_its_own_changes_nothing(graph: Graph) -> None:
    everybody = [{"n": "Ada"}, {"n": "Bo"}, {"n": "Cy"}]
    end = "return { $p.name as n } order { n }"
    assert rows_of(graph, f"match {{ $p: Person optional {{ $p.age > 30 }} }} {end}") == everybody
    nested = "match { $p: Person optional { $p.age > 30 optional { $p knows $f } } }"
    assert rows_of(graph, f"{nested} return {{ $p.name as n, $f.name as f }} order {{ n }}") == [
        {"n": "Ada", "f": "Bo"},
        {"n": "Bo", "f": None},
        {"n": "Cy", "f": None},
    ]


def test_groups_are_distinct_and_may_be_ordered_by_what_is_not_returned(graph: Graph) -> None:
    found = rows_of(
        graph,
        "match { $p: Person } return distinct { $p.name as n, count($p) as c } order { sum($p.age) desc }",
    )
    assert found == [{"n": "Ada", "c": 1}, {"n": "Cy", "c": 1}, {"n": "Bo", "c": 1}]


def test_a_type_with_annotations_can_be_loaded_wrongly_and_queried(graph: Graph) -> None:
    graph.apply_schema(SCHEMA.replace("age: I32?", 'age: I32? @unit("years")'))
    assert graph.query(FRIENDS, name="Ada").to_pylist() == [{"name": "Bo"}]
    with pytest.raises(quire.errors.IntegrityError):
        graph.load([{"edge": "Knows", "from": "Ada", "to": "Nobody"}])


def test_a_snapshot_without_tables_is_a_snapshot_all_the_same(graph: Graph) -> None:
    empty = graph.lake.at(commit="0.0")
    assert graph.schema(at=empty).strip() == ""
    for ask in (
        lambda: graph.query(FRIENDS, at=empty, name="Ada"),
        lambda: graph.node("Person", "Ada", at=empty),
        lambda: graph.find("Person", at=empty),
        lambda: graph.neighbours("Person", "Ada", at=empty),
        lambda: graph.table("Person", at=empty),
    ):
        with pytest.raises((NotFound, InvalidQuery)):
            ask()
    assert graph.frames(at=empty) == {}


def test_texts_come_from_files_by_path_or_by_name(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("friends.gq").write_text(FRIENDS)
    Path("schema.pg").write_text(SCHEMA)
    assert graph.query("friends.gq", name="Ada").to_pylist() == [{"name": "Bo"}]
    assert graph.query(Path("friends.gq"), name="Ada").to_pylist() == [{"name": "Bo"}]
    assert not graph.apply_schema("schema.pg").steps
    with pytest.raises(NotFound, match=r"no file 'other\.gq'"):
        graph.query("other.gq")


@pytest.mark.parametrize("wrong", [None, b"query", 7])
def test_what_is_no_text_is_refused(graph: Graph, tmp_path: Path, wrong: Any) -> None:
    for ask in (graph.query, graph.apply_schema, graph.lint, graph.mutate, graph.store):
        with pytest.raises(InvalidInput):
            ask(wrong)  # type: ignore[operator]
    with pytest.raises(InvalidInput, match="cannot be read"):
        graph.query(tmp_path)
    with pytest.raises(InvalidInput, match="must be a Snapshot or None, not '1.0'"):
        graph.query(FRIENDS, at="1.0", name="Ada")  # type: ignore[arg-type]


def test_a_graph_is_made_of_a_lake_not_of_its_address() -> None:
    with pytest.raises(InvalidInput, match="Graph takes a lake"):
        quire.Graph("text")  # type: ignore[arg-type]
