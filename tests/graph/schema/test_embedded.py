"""Vectors of one property are all made in one way: a schema that changes the way removes them, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.graph.schema.given import applied, put, stored

import quire
from quire.errors import SchemaRefused

SCHEMA = 'node Page { name: String @key  a: String?  b: String?  v: Vector(2)? @embed("a", model="one") @index }'


@pytest.fixture
def pages(lake: quire.Lake) -> quire.Lake:
    """x has a vector, y has none."""
    applied(lake, SCHEMA)
    put(lake, "node:Page", {"id": "x", "name": "x", "a": "A", "b": "B", "v": [1.0, 2.0]}, {"id": "y", "name": "y"})
    return lake


def refusal(lake: quire.Lake, text: str, **options: Any) -> dict[str, Any]:
    before = lake.refresh()
    with pytest.raises(SchemaRefused) as caught:
        applied(lake, text, **options)
    assert lake.refresh() == before
    [found] = caught.value.refusals
    return dict(found)


@pytest.mark.parametrize(
    "text",
    [
        SCHEMA.replace('"one"', '"two"'),
        SCHEMA.replace(', model="one"', ""),
        SCHEMA.replace('@embed("a"', '@embed("b"'),
    ],
)
def test_vectors_of_the_old_kind_stand_against_a_new_one(pages: quire.Lake, text: str) -> None:
    found = refusal(pages, text)
    assert (found["code"], found["property"], found["rows"], found["examples"]) == ("embed-changed", "v", 1, ["x"])
    done = applied(pages, text, drop_data=True)
    assert [step.action for step in done.steps] == ["change-annotations", "clear-vectors"]
    assert {id: (row["a"], row["v"]) for id, row in stored(pages, "node:Page").items()} == {
        "x": ("A", None),
        "y": (None, None),
    }


def test_a_vector_is_renamed_and_removed_in_one_step(pages: quire.Lake) -> None:
    text = SCHEMA.replace('"one"', '"two"').replace("v: Vector(2)?", 'w: Vector(2)? @rename_from("v")')
    applied(pages, text, drop_data=True)
    assert stored(pages, "node:Page")["x"] == {"name": "x", "a": "A", "b": "B", "w": None}
    put(pages, "node:Page", {"id": "z", "name": "z", "w": [3.0, 4.0]})
    assert stored(pages, "node:Page")["z"]["w"] == [3.0, 4.0]


@pytest.mark.parametrize(
    "text",
    [
        SCHEMA.replace("a: String?", 't: String? @rename_from("a")').replace('"a", m', '"t", m'),
        SCHEMA.replace(' @embed("a", model="one")', ""),
        SCHEMA.replace(" @index", ""),
    ],
)
def test_what_does_not_change_the_way_keeps_the_vectors(pages: quire.Lake, text: str) -> None:
    applied(pages, text)
    assert stored(pages, "node:Page")["x"]["v"] == [1.0, 2.0]


def test_a_model_may_be_named_later(lake: quire.Lake) -> None:
    applied(lake, SCHEMA.replace(', model="one"', ""))
    put(lake, "node:Page", {"id": "x", "name": "x", "a": "A", "v": [1.0, 2.0]})
    applied(lake, SCHEMA)
    assert stored(lake, "node:Page")["x"]["v"] == [1.0, 2.0]
    assert refusal(lake, SCHEMA.replace('"one"', '"two"'))["code"] == "embed-changed"


def test_a_required_vector_is_made_optional_first(lake: quire.Lake) -> None:
    required = SCHEMA.replace("Vector(2)?", "Vector(2)")
    applied(lake, required)
    put(lake, "node:Page", {"id": "x", "name": "x", "a": "A", "v": [1.0, 2.0]})
    found = refusal(lake, required.replace('"one"', '"two"'), drop_data=True)
    assert found["next"].startswith("Make it Vector(2)?.")
    applied(lake, SCHEMA.replace('"one"', '"two"'), drop_data=True)
    assert stored(lake, "node:Page")["x"]["v"] is None


def test_without_vectors_anything_goes(lake: quire.Lake) -> None:
    applied(lake, SCHEMA)
    put(lake, "node:Page", {"id": "y", "name": "y", "a": "A"})
    applied(lake, SCHEMA.replace('"one"', '"two"'))
    assert stored(lake, "node:Page")["y"] == {"name": "y", "a": "A", "b": None, "v": None}
