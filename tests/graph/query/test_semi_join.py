"""Narrowing changes what is read and never the answer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.budget import budget
from tests.graph.query.given import PEOPLE, Given, graph, people

from quire.graph.query import semi_join
from quire.graph.query.scans import Source

NAMES = "abcdef"
STEPS = ["knows", "<knows>", "knows{1,2}", "knows{2,}", "<knows>{1,3}", "$e:knows"]


@st.composite
def graphs(draw: st.DrawFn) -> Given:
    pairs = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=14)
    ages = [draw(st.one_of(st.none(), st.integers(0, 3))) for _ in NAMES]
    return graph(
        PEOPLE,
        Person=[{"name": n, "age": a, "city": "x" if (a or 0) > 1 else "y"} for n, a in zip(NAMES, ages, strict=True)],
        Company=[{"name": n, "size": i} for i, n in enumerate("ab")],
        Knows=[{"src": a, "dst": b, "kind": a} for a, b in draw(pairs)],
        WorksAt=[{"src": a, "dst": "ab"[ord(b) % 2]} for a, b in draw(pairs)],
    )


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Patterns of a few clauses around a chain of traversals."""
    chain, names = [], ["a"]
    for number, step in enumerate(draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=2))):
        ends = [f"${names[-1]}", f"${'bcd'[number]}"]
        if draw(st.booleans()) and "<" not in step:
            ends.reverse()
        chain.append(f"{ends[0]} {step.replace('$e', f'$e{number}')} {ends[1]}")
        names.append("bcd"[number])
    found = ["$a: Person", *chain]
    one = st.sampled_from(names)
    for kind in draw(st.lists(st.integers(0, 6), max_size=3)):
        x, y = draw(one), draw(one)
        found.append(
            [
                f'${x}.name = "{draw(st.sampled_from(NAMES))}"',
                f"${x}.age > {draw(st.integers(0, 2))}",
                f"not {{ ${x} knows $z{kind} $z{kind}.age > 1 }}",
                f'or {{ ${x}.city = "x" {{ ${y} knows{{1,2}} $w }} }}',
                f"not {{ ${x} knows{{1,3}} ${y} }}",
                f"${x} worksAt $firm",
                f"${x}.age >= ${y}.age",
            ][kind]
        )
    if draw(st.booleans()):
        found.append(f'optional {{ ${draw(one)} knows $o $o.city = "x" }}')
        names.append("o")
    return f"match {{ {' '.join(found)} }} return {{ {' '.join(f'${n}.name as {n}' for n in names)} }}"


@settings(max_examples=budget(6, full=40), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), bodies(), st.sampled_from([0, 2, 5_000]))
def test_the_answer_is_the_same_with_and_without(lake: Given, body: str, few: int) -> None:
    before = semi_join.FEW
    semi_join.FEW = few
    try:
        with_it = sorted(lake.ask(body), key=str)
    finally:
        semi_join.FEW = before
    assert with_it == sorted(lake.ask(body, reduce=False), key=str)


@pytest.fixture(scope="module")
def known() -> Given:
    return people()


def narrowed(lake: Given, body: str) -> dict[str, Any]:
    return {s.variable: s.rows for s in lake.explained(body, analyze=True).scans}


def test_a_look_up_narrows_edges_and_the_nodes_at_their_ends(known: Given) -> None:
    asked = 'match { $a: Person {name: "b"} $a $e:knows $b $b worksAt $c } return { $a.age, $b.age, $c.size }'
    rows = narrowed(known, asked)
    assert (rows["a"], rows["e"], rows["b"], rows["c"]) == (1, 1, 1, 1)


def test_a_walk_is_followed_frontier_by_frontier(known: Given) -> None:
    rows = narrowed(known, 'match { $a: Person {name: "b"} $a knows{1,2} $b } return { $b.name }')
    assert (rows["a"], rows["b"]) == (1, 4)
    assert 3 in rows.values()


def test_without_a_filter_nothing_is_narrowed(known: Given) -> None:
    assert set(narrowed(known, "match { $a: Person $a knows $b } return { $b.name }").values()) == {None}


def test_what_is_outside_narrows_what_is_inside_and_not_the_other_way(known: Given) -> None:
    inner = 'not { $a knows $q $q.name = "a" $q.age > 0 }'
    rows = narrowed(known, f'match {{ $a: Person {{name: "b"}} {inner} }} return {{ $a.name }}')
    assert (rows["a"], rows["q"]) == (1, 0)
    rows = narrowed(known, f"match {{ $a: Person {inner} }} return {{ $a.name }}")
    assert (rows["a"], rows["q"]) == (None, 1)


def test_more_ids_than_the_bound_leave_a_full_scan(known: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semi_join, "FEW", 1)
    rows = narrowed(known, 'match { $a: Person $a.city = "Rome" $a knows $b } return { $b.age }')
    assert (rows["a"], rows["b"]) == (None, None)


def test_a_long_chain_is_left_to_the_sql_after_a_few_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{n:02}" for n in range(40)]
    pairs = [{"src": a, "dst": b} for a, b in pairwise(names)]
    lake = graph(PEOPLE, Person=[{"name": n} for n in names], Knows=pairs)
    body = 'match { $a: Person {name: "n00"} $a knows{1,} $b } return { $b.name }'
    scans = []
    read = Source.read
    monkeypatch.setattr(Source, "read", lambda self, *a, **k: scans.append(1) or read(self, *a, **k))
    assert len(lake.ask(body)) == 39
    assert len(scans) <= 1 + semi_join.READS
    short = body.replace("{1,}", "{1,2}")
    assert narrowed(lake, short)["b"] == 3
