"""Merging a dirty source: what breaks a rule together with others is left out, and what was there stays as it was."""

from __future__ import annotations

import importlib
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import IntegrityError
from quire.graph.load import load

SCHEMA = """
node Person { name: String @key  age: I32? @range(age, 0..150)  email: String? @unique  city: String }
node City { name: String @key }
edge Knows: Person -> Person { why: String?  since: I32?  @unique(src, dst) }
edge LivesIn: Person -> City @card(0..1)
"""
SEEDS = int(os.environ.get("QUIRE_MERGE_SEEDS", "6"))


@pytest.fixture
def graph(tmp_path: Path) -> quire.Graph:
    made = quire.Graph(quire.create(tmp_path / "lake", backfill=False))
    made.apply_schema(SCHEMA)
    return made


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "city": "Ulm", **data}}


def city(name: str) -> dict[str, Any]:
    return {"type": "City", "data": {"name": name}}


def edge(kind: str, source: str, target: str, **data: Any) -> dict[str, Any]:
    id = {} if kind == "Knows" else {"id": f"{source}-{target}"}
    return {"edge": kind, "from": source, "to": target, **id, "data": data}


def content(graph: quire.Graph) -> dict[str, Any]:
    """All rows, without ids that were made."""
    rows = {entity.name: graph.lake[entity.table].to_pylist() for entity in graph.catalog().entities}
    for row in rows["Knows"]:
        del row["id"]
    return {name: sorted(found, key=str) for name, found in rows.items()}


def test_a_dirty_first_day_is_merged_without_what_breaks_a_rule(graph: quire.Graph, tmp_path: Path) -> None:
    rows = [
        *(person("Ada", email="a@x"), person("Bo", email="a@x"), person("Cy", age=900), city("Ulm"), city("Oslo")),
        *(edge("Knows", "Ada", "Nobody"), edge("Knows", "Ada", "Bo"), edge("Knows", "Ada", "Cy")),
        *(edge("LivesIn", "Ada", "Ulm"), edge("LivesIn", "Ada", "Oslo"), edge("LivesIn", "Ada", "Atlantis")),
    ]
    file, rejects = tmp_path / "day1.jsonl", tmp_path / "bad.rejects.ndjson"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    done = graph.load(str(file), "merge", skip_rejects=True, rejects=rejects)
    told = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert sorted((row["line"], row["rule"]) for row in told) == [
        *((2, "unique"), (3, "range"), (6, "end"), (7, "end"), (8, "end"), (10, "card"), (11, "end")),
    ]
    assert [told_row["row"] for told_row in told if told_row["line"] == 6] == [{**rows[5]}]
    assert done.rejected == 7
    counts = {name: (one.inserted, one.updated, one.rejected) for name, one in done.types.items()}
    assert counts == {"Person": (1, 0, 2), "City": (2, 0, 0), "Knows": (0, 0, 3), "LivesIn": (1, 0, 2)}
    assert [row["dst"] for row in content(graph)["LivesIn"]] == ["Ulm"]
    assert done.receipt is not None
    assert graph.lake.verify(deep=True).ok


def test_a_row_that_cannot_be_merged_leaves_the_one_that_was_there_as_it_was(graph: quire.Graph) -> None:
    graph.load([person("Ada", email="a@x", age=1), person("Bo", email="b@x", age=2)])
    graph.load([person("Cy", age=3), city("Ulm")])
    graph.load([edge("Knows", "Ada", "Bo", why="old", since=1), edge("LivesIn", "Ada", "Ulm")])
    before = content(graph)
    second = [person("Bo", email="a@x", age=50), {"type": "Person", "data": {"name": "Cy", "age": 7}}]
    second.append({"edge": "LivesIn", "from": "Ada", "to": "Atlantis", "id": "Ada-Ulm"})
    done = graph.load(second, "merge", skip_rejects=True)
    counts = {name: (one.inserted, one.updated, one.rejected) for name, one in done.types.items()}
    assert counts == {"Person": (0, 1, 1), "LivesIn": (0, 0, 1)}
    after = content(graph)
    age = graph.catalog().node("Person").properties["age"].column
    [changed] = [row for row in before["Person"] if row["name"] == "Cy"]
    changed[age] = 7
    assert after == before
    assert done.receipt is not None
    assert done.receipt.tables["node:Person"].added == 1


def test_more_than_may_be_left_out_refuse_the_merge_whole(graph: quire.Graph) -> None:
    rows = [person("Ada"), edge("Knows", "Ada", "x"), edge("Knows", "Ada", "y")]
    before = graph.lake.head
    with pytest.raises(IntegrityError) as caught:
        graph.load(rows, "merge", skip_rejects=1)
    assert {v["rule"] for v in caught.value.fields["violations"]} == {"end"}
    assert (graph.lake.refresh(), graph.lake["node:Person"].count()) == (before, 0)
    assert graph.load(rows, "merge", skip_rejects=2).rejected == 2


def test_what_the_transaction_did_before_is_kept(graph: quire.Graph) -> None:
    """Taking a merge back takes nothing else back."""
    graph.load([person("Ada", age=1), city("Ulm")])
    with graph.lake.transaction() as tx:
        load(tx, [person("Bo"), person("Ada", age=2)], "merge")
        load(tx, [person("Cy"), edge("Knows", "Bo", "Cy"), edge("Knows", "Cy", "Nobody")], "merge", skip_rejects=True)
        load(tx, [person("Di", email="d"), person("Ed", email="d"), person("Ada", age=3)], "merge", skip_rejects=True)
    age = graph.catalog().node("Person").properties["age"].column
    assert {row["name"]: row[age] for row in graph.lake["node:Person"].to_pylist()} == {
        **{"Ada": 3, "Bo": None, "Cy": None, "Di": None},
    }
    assert [(row["src"], row["dst"]) for row in content(graph)["Knows"]] == [("Bo", "Cy")]


def drawn(seed: int) -> tuple[list[Any], list[Any]]:
    """Rows that are there, which keep all rules, and rows to merge, of which many do not."""
    draw = random.Random(seed)
    names, cities = [f"p{i}" for i in range(8)], ["Ulm", "Oslo", "Rome"]
    there = [person(name, email=f"{name}@x", age=draw.randrange(90)) for name in names[:4]]
    there += [*(city(name) for name in cities[:2]), edge("Knows", "p0", "p1", why="old"), edge("LivesIn", "p0", "Ulm")]
    rows: list[Any] = []
    for name in draw.sample(names, 6):
        email = draw.choice([None, f"{draw.choice(names)}@x"])
        given = {"age": draw.randrange(-20, 160), "email": email, "city": draw.choice(cities)}
        kept = {key: value for key, value in given.items() if draw.random() < 0.7}
        rows.append({"type": "Person", "data": {"name": name, **kept}})
    pairs = {(draw.choice(names), draw.choice([*names, "ghost"])) for _ in range(8)}
    rows += [edge("Knows", a, b, **({"why": "new"} if draw.random() < 0.5 else {})) for a, b in sorted(pairs)]
    homes = {(draw.choice(names[:5]), draw.choice(cities)) for _ in range(5)}
    rows += [edge("LivesIn", a, b) for a, b in sorted(homes)]
    draw.shuffle(rows)
    return there, rows


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_merge_without_some_rows_is_the_merge_of_the_others(tmp_path: Path, seed: int) -> None:
    there, rows = drawn(seed)
    graphs = []
    for name in ("dirty", "clean"):
        made = quire.Graph(quire.create(tmp_path / name, backfill=False))
        made.apply_schema(SCHEMA)
        made.load(there)
        graphs.append(made)
    dirty, clean = graphs
    file, rejects = tmp_path / "rows.jsonl", tmp_path / "rows.rejects.ndjson"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    done = dirty.load(str(file), "merge", skip_rejects=True, rejects=rejects)
    lines = {json.loads(line)["line"] for line in rejects.read_text().splitlines()} if rejects.exists() else set()
    assert len(lines) == done.rejected > 0
    left = [row for number, row in enumerate(rows, start=1) if number not in lines]
    again = clean.load(left, "merge")
    assert content(dirty) == content(clean)
    assert {n: (t.inserted, t.updated) for n, t in done.types.items() if t.written} == {
        n: (t.inserted, t.updated) for n, t in again.types.items() if t.written
    }


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_rows_are_left_out_a_bounded_number_at_a_time(
    graph: quire.Graph, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    loading: Any = importlib.import_module("quire.graph.load.load")
    asked = []
    check = loading.check

    def noted(*args: Any, **how: Any) -> Any:
        found = check(*args, **how)
        asked.append(len(found.violations))
        return found

    monkeypatch.setattr(loading, "A_ROUND", 3)
    monkeypatch.setattr(loading, "check", noted)
    bad = [edge("LivesIn", f"p{i}", "Atlantis") for i in range(10)]
    rows = [*(person(f"p{i}") for i in range(10)), city("Ulm"), edge("LivesIn", "p3", "Ulm"), *bad]
    done = graph.load(rows, mode, skip_rejects=True)
    assert (done.rejected, done.violation_count, max(asked)) == (10, 10, 3)
    assert [(row["src"], row["dst"]) for row in content(graph)["LivesIn"]] == [("p3", "Ulm")]
