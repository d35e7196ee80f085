"""Reads that are put together by calls: the query they stand for, its values as parameters, and the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import InvalidInput, InvalidQuery, NotFound
from quire.graph.graph import Graph

SCHEMA = """
node Person { name: String @key  age: I32?  city: enum(oslo, rome)?  tags: [String]?  bio: String?  face: Vector(2)? }
node Company { name: String @key }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    def person(name: str, age: int | None, city: str | None, **more: Any) -> dict[str, Any]:
        return {"type": "Person", "data": {"name": name, "age": age, "city": city, **more}}

    def edge(kind: str, source: str, target: str, **data: Any) -> dict[str, Any]:
        return {"edge": kind, "from": source, "to": target, "data": data}

    place: Path = tmp_path_factory.mktemp("find")
    with quire.create(place / "lake", backfill=False) as lake:
        graph = Graph(lake)
        graph.apply_schema(SCHEMA)
        graph.load(
            [
                person("Ada", 36, "oslo", tags=["chess", "go"], bio="writes programs", face=[0.0, 0.0]),
                person("Bo", 41, "rome", tags=["go"], bio="builds machines", face=[1.0, 0.0]),
                person("Cy", 7, "rome", face=[5.0, 5.0]),
                person("Di", None, None),
                {"type": "Company", "data": {"name": "Acme"}},
                {"type": "Note", "data": {"text": "hello"}},
                edge("Knows", "Ada", "Bo", since="2020-01-01"),
                edge("Knows", "Ada", "Bo", since="2021-01-01"),
                edge("Knows", "Bo", "Cy"),
                edge("Knows", "Cy", "Di"),
                edge("WorksAt", "Ada", "Acme"),
                edge("WorksAt", "Bo", "Acme"),
            ]
        )
        yield graph


def names(found: Any) -> list[str]:
    return sorted(row["name"] for row in found.to_pylist())


def test_it_begins_with_the_nodes_of_a_type(graph: Graph) -> None:
    assert names(graph.find("Company")) == ["Acme"]
    assert names(graph.find("Person")) == ["Ada", "Bo", "Cy", "Di"]
    assert graph.find("Person", name="Ada").to_pylist()[0]["tags"] == ["chess", "go"]
    assert graph.find("Note").first() is not None
    assert set(graph.find("Note").first() or ()) == {"id", "text"}


def test_it_goes_along_edges_either_way_and_further(graph: Graph) -> None:
    ada = graph.find("Person", name="Ada")
    assert names(ada.out("knows")) == ["Bo"]
    assert names(ada.out("knows", hops=(1, 2))) == ["Bo", "Cy"]
    assert names(ada.out("knows", hops=2)) == ["Cy"]
    assert names(ada.out("knows", hops=(1, None))) == ["Bo", "Cy", "Di"]
    assert names(graph.find("Person", name="Bo").into("knows")) == ["Ada"]
    assert names(graph.find("Person", name="Bo").either("Knows")) == ["Ada", "Cy"]
    assert names(ada.out("worksAt").into("worksAt")) == ["Ada", "Bo"]


def test_an_edge_with_a_name_gives_a_row_each_and_its_properties(graph: Graph) -> None:
    found = (
        graph.find("Person", name="Ada").out("knows", edge_name="k").select("name", since="k.since").order("k.since")
    )
    assert [(row["name"], row["since"].year) for row in found.to_pylist()] == [("Bo", 2020), ("Bo", 2021)]
    assert found.where("k.since", ">=", "2021-01-01").count() == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("age", ">", 30), ["Ada", "Bo"]),
        (("age", "!=", 7), ["Ada", "Bo"]),
        (("age", "in", [7, 41]), ["Bo", "Cy"]),
        (("age", "is null"), ["Di"]),
        (("age", "is not null"), ["Ada", "Bo", "Cy"]),
        (("city", "=", "rome"), ["Bo", "Cy"]),
        (("city", "in", ("oslo", "rome")), ["Ada", "Bo", "Cy"]),
        (("tags", "contains", "chess"), ["Ada"]),
        (("name", "contains", "d"), ["Ada"]),
        (("name", "starts_with", "B"), ["Bo"]),
        (("bio", "search", "machines"), ["Bo"]),
        (("bio", "match_text", "programs writes"), ["Ada"]),
        (("bio", "fuzzy", "progrems"), ["Ada"]),
    ],
)
def test_conditions_are_those_of_the_language(graph: Graph, condition: tuple[Any, ...], expected: list[str]) -> None:
    assert names(graph.find("Person").where(*condition)) == expected


def test_conditions_add_up_and_may_be_about_any_name(graph: Graph) -> None:
    found = graph.find("Person", "p").out("knows", name="f").where("p.age", ">", 30).where(city="rome")
    assert found.select("p.name", friend="f.name").order("p.name", "friend").to_pylist() == [
        {"name": "Ada", "friend": "Bo"},
        {"name": "Bo", "friend": "Cy"},
    ]
    assert names(graph.find("Person").without("knows")) == ["Di"]
    assert names(graph.find("Person").without("knows", "in")) == ["Ada"]


def test_values_are_parameters_whatever_they_hold(graph: Graph) -> None:
    found = graph.find("Person", name='x" } return { $p }')
    assert found.to_pylist() == []
    assert found.params == {"v1": 'x" } return { $p }'}
    assert 'x"' not in found.text
    with pytest.raises(InvalidQuery):
        graph.find("Person").where("age", ">", "thirty").to_pylist()


def test_outputs_aggregates_and_order(graph: Graph) -> None:
    people = graph.find("Person").where("city", "is not null")
    assert people.select("city", n=("*", "count"), oldest=("age", "max")).order("-n").to_pylist() == [
        {"city": "rome", "n": 2, "oldest": 41},
        {"city": "oslo", "n": 1, "oldest": 36},
    ]
    assert people.select("city").distinct().count() == 2
    assert [row["name"] for row in people.order("-age").limit(2).to_pylist()] == ["Bo", "Ada"]
    assert [row["name"] for row in people.order("age").limit(2).offset(1).to_pylist()] == ["Ada", "Bo"]
    assert people.count() == 3
    assert (people.order("age").first() or {})["name"] == "Cy"
    assert graph.find("Person", name="Nobody").first() is None


def test_the_nearest_vectors_come_first(graph: Graph) -> None:
    assert [row["name"] for row in graph.find("Person").nearest("face", [0.9, 0.0], limit=2).to_pylist()] == [
        "Bo",
        "Ada",
    ]


def test_it_is_read_as_frames_and_explained(graph: Graph) -> None:
    found = graph.find("Person", name="Ada").out("knows")
    assert found.to_arrow().column("name").to_pylist() == ["Bo"]
    assert list(found.to_pandas()["name"]) == ["Bo"]
    assert found.to_polars()["name"].to_list() == ["Bo"]
    assert "Knows" in str(found.explain())
    assert "knows" in repr(found)


def test_it_reads_the_snapshot_it_was_given(graph: Graph) -> None:
    empty = graph.lake.at(commit=next(c.id for c in graph.lake.log() if "schema" in c.message))
    assert graph.find("Person", at=empty).count() == 0


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda g: g.find("Persn"), "no node type 'Persn'"),
        (lambda g: g.find("Person", nam="x"), "no property 'nam'"),
        (lambda g: g.find("Person").out("know"), "no edge type 'know'"),
        (lambda g: g.find("Company").out("knows"), "the last node is a Company"),
        (lambda g: g.find("Person").into("worksAt"), "leads to Company"),
        (lambda g: g.find("Person").where("age", "~", 3), "no operator '~'"),
        (lambda g: g.find("Person").where("age", "=", None), "compared with null"),
        (lambda g: g.find("Person").where(), "no condition"),
        (lambda g: g.find("Person").where("q.age", "=", 1), "is called 'q'"),
        (lambda g: g.find("Person", "p").out("knows", name="p"), "already"),
        (lambda g: g.find("Person", "P p"), "cannot be a name"),
        (lambda g: g.find("Person").select(n=("age", "median")), "no aggregate 'median'"),
        (lambda g: g.find("Person", "p").out("knows").select("name", "p.name"), "Two outputs are called 'name'"),
        (lambda g: g.find("Person").limit(-1), "at least 0"),
        (lambda g: g.find("Person").out("knows", hops=(2, 1)), "at least 2"),
        (lambda g: g.find("Person").nearest("age", [1.0]), "not a vector"),
        (lambda g: g.find("Person").without("knows", "up"), "must be 'out', 'in' or 'either'"),
    ],
)
def test_what_is_wrong_is_said_at_once(graph: Graph, ask: Any, told: str) -> None:
    with pytest.raises((InvalidInput, NotFound)) as raised:
        ask(graph)
    assert told in raised.value.message
    assert raised.value.next
