"""Rows of which nobody says the type: the error says what is missing, and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import quire
from quire.errors import IntegrityError, InvalidInput, NotFound, QuireError

SCHEMA = "node Person { name: String @key }\nnode City { name: String @key }\nedge Knows: Person -> Person"

Given = Callable[[Path], Any]


def file(name: str, text: str) -> Given:
    def written(folder: Path) -> str:
        (folder / name).write_text(text, "utf-8")
        return str(folder / name)

    return written


CASES: dict[str, tuple[Given, dict[str, str], type[QuireError], list[str]]] = {
    "a row": (lambda _: [{"name": "a"}], {}, IntegrityError, ["The row has no type", '{"type": "…"', "type= or edge="]),
    "a row in its envelope": (
        lambda _: [{"data": {"name": "a"}}],
        {},
        IntegrityError,
        ["The row has no type", "type="],
    ),
    "an edge": (lambda _: [{"from": "a", "to": "b"}], {}, IntegrityError, ["The row has no type", '{"edge": "…"']),
    "a line": (
        file("x.ndjson", '{"name": "a"}\n'),
        {},
        IntegrityError,
        ["x.ndjson:1", "The row has no type", "--type"],
    ),
    "both": (lambda _: [{"type": "Person", "edge": "Knows"}], {}, IntegrityError, ["both a node and an edge"]),
    "properties outside": (lambda _: [{"type": "City", "name": "a"}], {}, IntegrityError, ['inside "data"', "'name'"]),
    "Arrow": (
        lambda _: pa.table({"name": ["a"]}),
        {},
        InvalidInput,
        ["The type of these columns is unknown", "type= or edge=", "dict by type"],
    ),
    "pandas": (
        lambda _: pd.DataFrame({"name": ["a"]}),
        {},
        InvalidInput,
        ["The type of these columns is unknown", "type= or edge="],
    ),
    "columns": (
        lambda _: {"name": ["a"]},
        {},
        InvalidInput,
        ["The type of these columns is unknown", "type= or edge="],
    ),
    "columns of a file": (
        file("x.csv", "name\na\n"),
        {},
        InvalidInput,
        ["The type of the rows in", "name the file after its type"],
    ),
    "one row": (lambda _: {"type": "Person", "data": {}}, {}, InvalidInput, ["is a single row", "list"]),
    "a wrong type": (
        lambda _: {"Persn": [{"name": "a"}]},
        {},
        NotFound,
        ["of type 'Persn', which does not exist", "Did you mean 'Person'"],
    ),
    "one wrong type": (
        lambda _: {"Person": [], "Cty": []},
        {},
        NotFound,
        ["of type 'Cty', which does not exist", "Did you mean 'City'"],
    ),
    "the other kind": (lambda _: [{"from": "a"}], {"type": "Knows"}, NotFound, ["no node type", "It is an edge type"]),
    "no file": (lambda _: "people", {}, NotFound, ["no file 'people'", "a list of dicts"]),
    "a list of lists": (lambda _: [["a", "b"]], {}, NotFound, ["no file 'a'", "a list of dicts"]),
}


@pytest.mark.parametrize("what", CASES)
def test_the_error_says_what_is_missing_and_the_next_step(tmp_path: Path, what: str) -> None:
    graph = quire.Graph(quire.create(tmp_path / "lake", backfill=False))
    graph.apply_schema(SCHEMA)
    given, how, error, said = CASES[what]
    head = graph.lake.head
    with pytest.raises(error) as caught:
        graph.load(given(tmp_path), **how)  # type: ignore[arg-type]
    for words in said:
        assert words in str(caught.value)
    assert caught.value.next
    assert graph.lake.refresh() == head
