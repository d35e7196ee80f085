"""What is found: scans, traversals, filters, negation, alternatives, optional parts. Expected rows are by hand."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from tests.graph.query.given import Given, graph, people

from quire.errors import InvalidQuery

NUMBERED = "node P { k: I64 @key  w: U64? } edge E: P -> P"


@pytest.fixture(scope="module")
def given() -> Given:
    return people()


@pytest.fixture(params=[True, False], ids=["narrowed", "full"])
def narrowed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_properties_of_a_binding_select_its_nodes(given: Given, narrowed: bool) -> None:
    assert given.ask('match { $p: Person { name: "a" } } return { $p.age }', reduce=narrowed) == [30]
    assert given.ask('match { $p: Person { name: "z" } } return { $p.age }', reduce=narrowed) == []


def test_a_traversal_is_a_set_of_pairs(given: Given, narrowed: bool) -> None:
    found = given.ask("match { $a: Person $a knows $b } return { $a.name, $b.name }", reduce=narrowed)
    assert sorted(found) == [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "d")]


def test_an_edge_binding_gives_a_row_for_every_edge(given: Given, narrowed: bool) -> None:
    found = given.ask(
        'match { $a: Person {name: "a"} $a $e:knows $b } return { $b.name, $e.kind, $e.since } order { $e.since desc }',
        reduce=narrowed,
    )
    assert found == [("b", "f", dt.date(2011, 1, 1)), ("b", "f", dt.date(2010, 1, 1))]


def test_a_traversal_goes_the_way_of_its_variables(given: Given, narrowed: bool) -> None:
    into = given.ask(
        'match { $b: Person {name: "d"} $a knows $b } return { $a.name } order { $a.name }', reduce=narrowed
    )
    assert into == ["c", "d"]
    work = given.ask(
        "match { $p: Person $p worksAt $c } return { $p.name, $c.name } order { $p.name }", reduce=narrowed
    )
    assert work == [("a", "x"), ("b", "a"), ("c", "x")]


def test_either_direction_gives_every_pair_once(given: Given, narrowed: bool) -> None:
    found = given.ask(
        'match { $a: Person {name: "c"} $a <knows> $b } return { $b.name } order { $b.name }', reduce=narrowed
    )
    assert found == ["a", "b", "d"]
    found = given.ask(
        'match { $a: Person {name: "d"} $a <knows> $b } return { $b.name } order { $b.name }', reduce=narrowed
    )
    assert found == ["c", "d"]


def test_a_bound_edge_that_leads_to_its_own_node_is_one_row_in_either_direction(given: Given, narrowed: bool) -> None:
    found = given.ask(
        'match { $a: Person {name: "d"} $a $e:<knows> $b } return { $b.name, $e.kind } order { $b.name }',
        reduce=narrowed,
    )
    assert found == [("c", "c"), ("d", "x")]


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("$p.age > 25", "ad"),
        ("$p.age >= 25", "abd"),
        ("$p.age != 25", "ade"),
        ("25 < $p.age", "ad"),
        ("$p.age > 24.5", "abd"),
        ("$p.age = 25.5", ""),
        ("$p.age != 25.5", "abde"),
        ("$p.age is null", "c"),
        ("$p.age is not null", "abde"),
        ('$p.city = "Rome"', "ac"),
        ('$p.city in ["Oslo", "Bonn"]', "be"),
        ("$p.age in [25, 41]", "bd"),
        ('$p.city starts_with "Ro"', "ac"),
        ('$p.city starts_with "ro"', ""),
        ('$p.city contains "o"', "abce"),
        ('$p.city contains "%"', ""),
        ('$p.tags contains "blue"', "ad"),
        ("$p.age + 5 > 30", "ad"),
        ("$p.age * 2 = 50", "b"),
        ("$p.age / 2 = 12.5", "b"),
        ("$p.age % 10 = 0", "a"),
        ("-$p.age < -29", "ad"),
        ('or { $p.age > 40 $p.city = "Oslo" }', "bd"),
        ('or { { $p.age > 20 $p.city = "Rome" } $p.name = "e" }', "ae"),
        ('or { $p.age > 40 { $p knows $q $q.city = "Oslo" } }', "ad"),
        ("not { $p knows $q }", "e"),
        ("not { $p knows $q $q.age > $p.age }", "abcde"),
        ("not { $p knows $q $q.age <= $p.age }", "bce"),
        ("not { $p.age > 20 }", "ce"),
        ("not { $p <knows> $q }", "e"),
        ("not { $p knows $q not { $q worksAt $c } }", "abe"),
        ('not { $p knows{1,2} $q $q.name = "d" }', "ae"),
        ("$p knows $p", "d"),
    ],
)
def test_a_condition_holds_for(given: Given, narrowed: bool, condition: str, names: str) -> None:
    found = given.ask(f"match {{ $p: Person {condition} }} return {{ $p.name }} order {{ $p.name }}", reduce=narrowed)
    assert "".join(found) == names


def test_numbers_are_compared_exactly(given: Given) -> None:
    asked = "match { $c: Company $c.size > $n } return { $c.name }"
    assert given.ask(asked, "$n: F64", n=float(2**53)) == ["a"]
    assert given.ask(asked, "$n: F64", n=float(2**53 + 2)) == []
    assert given.ask("match { $c: Company $c.size = $n } return { $c.name }", "$n: F64", n=float(2**53)) == []


def test_filters_on_edges_hold_for_every_edge_that_is_walked(given: Given, narrowed: bool) -> None:
    one = 'match { $a: Person $a knows [kind = "c"] $b } return { $a.name, $b.name } order { $a.name }'
    assert given.ask(one, reduce=narrowed) == [("b", "c"), ("c", "d")]
    far = 'match { $a: Person {name: "b"} $a knows [kind = "c"] {1,5} $b } return { $b.name } order { $b.name }'
    assert given.ask(far.replace('[kind = "c"] {1,5}', '{1,5} [kind = "c"]'), reduce=narrowed) == ["c", "d"]


def test_an_optional_part_that_is_not_found_is_null(given: Given, narrowed: bool) -> None:
    found = given.ask(
        "match { $a: Person optional { $a knows $b $b.age > 26 } } "
        "return { $a.name, $b.name, $b } order { $a.name, $b.name }",
        reduce=narrowed,
    )
    assert [row[:2] for row in found] == [("a", None), ("b", None), ("c", "a"), ("c", "d"), ("d", "d"), ("e", None)]
    assert found[0][2] is None
    assert found[3][2] == {"id": "d", "name": "d", "age": 41, "city": None, "tags": ["blue"]}


def test_what_is_said_of_an_optional_variable_outside_holds_after_the_join(given: Given, narrowed: bool) -> None:
    found = given.ask(
        "match { $a: Person optional { $a worksAt $c } $c is null } return { $a.name } order { $a.name }",
        reduce=narrowed,
    )
    assert found == ["d", "e"]


def test_variables_that_nothing_joins_are_a_cross_product(given: Given, narrowed: bool) -> None:
    found = given.ask(
        'match { $a: Person $c: Company $a.name in ["a", "b"] } return { $a.name, $c.name }', reduce=narrowed
    )
    assert len(found) == 6


def test_parameters_are_values_and_nothing_else(given: Given) -> None:
    for hostile in ["a' OR 1=1 --", '"; drop table s0; --', "\\", "%", "nul\0", "`", "$p0"]:
        assert given.ask("match { $p: Person { name: $n } } return { $p.name }", "$n: String", n=hostile) == []
        assert given.ask("match { $p: Person $p.city contains $n } return { $p.name }", "$n: String", n=hostile) == []


def test_a_parameter_that_is_null_matches_nothing(given: Given) -> None:
    assert given.ask("match { $p: Person $p.age = $n } return { $p.name }", "$n: I32?", n=None) == []
    assert given.ask("match { $p: Person $p.age in $n } return { $p.name }", "$n: [I32]?", n=None) == []


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("$c.size * 4611686018427387904", "Overflow"),
        ("1 / ($c.size - 5)", "division by zero"),
        ("1 % ($c.size - 5)", "zero"),
    ],
)
def test_what_cannot_be_computed_is_an_error_of_the_query(given: Given, expression: str, says: str) -> None:
    with pytest.raises(InvalidQuery, match="(?i)" + says):
        given.ask(f"match {{ $c: Company $c.size is not null }} return {{ {expression} as x }}")


def test_only_the_result_of_arithmetic_has_to_fit() -> None:
    lake = graph(NUMBERED, P=[{"k": 1, "w": 2**64 - 1}])
    for expression, value in (("$p.w % 10", 5), ("$p.w - 18446744073709551614", 1), ("$p.w * 0", 0)):
        assert lake.ask(f"match {{ $p: P }} return {{ {expression} as x }}") == [value]
    with pytest.raises(InvalidQuery, match="(?i)zero"):
        lake.ask("match { $p: P } return { $p.w % ($p.w - $p.w) as x }")
    for expression in ("$p.w - 1", "-$p.w", "sum($p.w)"):
        with pytest.raises(InvalidQuery, match="out of range for I64"):
            lake.ask(f"match {{ $p: P }} return {{ {expression} as x }}")


def test_null_divided_by_zero_is_null(given: Given) -> None:
    for sign in ("/ 0", "/ 0.0", "% 0", "% 0.5", "/ ($c.size - $c.size)", "/ 2 / 3 / 4 / 5 / 6 / 7 / 8 / 9 / 0"):
        assert given.ask(f'match {{ $c: Company {{name: "y"}} }} return {{ $c.size {sign} as x }}') == [None]


def test_a_mutation_is_no_question(given: Given) -> None:
    with pytest.raises(InvalidQuery, match="is a mutation, not a query"):
        given.ask('delete Person where name = "a"')


def test_now_is_one_value(given: Given) -> None:
    found: list[Any] = given.ask("match { $p: Person $p.name != $p.city } return { now() as t }")
    assert len(found) == 4
    assert len(set(found)) == 1
    assert abs(dt.datetime.now(dt.UTC) - found[0]) < dt.timedelta(minutes=1)


def test_the_smallest_number_is_found(narrowed: bool) -> None:
    lake = graph(NUMBERED, P=[{"k": -(2**63), "w": 2**64 - 1}, {"k": 2**63 - 1, "w": 0}])
    for condition in ("$p.k = $k", "$p.k <= $k", "$p.k in [$k]", "not { $p.k > $k }"):
        asked = f"match {{ $p: P {condition} }} return {{ $p.k }}"
        assert lake.ask(asked, "$k: I64", k=-(2**63), reduce=narrowed) == [-(2**63)], condition
    assert lake.ask("match { $p: P $p.w in [-1, 18446744073709551615] } return { $p.k }") == [-(2**63)]


def test_a_list_of_several_kinds_of_numbers_is_compared_exactly(given: Given, narrowed: bool) -> None:
    asked = "match {{ $c: Company $c.size in [{}, 0.5] }} return {{ $c.name }}"
    assert given.ask(asked.format(2**53 + 1), reduce=narrowed) == ["a"]
    assert given.ask(asked.format(2**53), reduce=narrowed) == []
    assert given.ask(asked.format(2**53 + 1).replace("$c.size in", "$c.size + 0 in")) == ["a"]
    assert given.ask("match { $c: Company $c.size + 0 in [9007199254740992, 0.5] } return { $c.name }") == []


def test_ends_and_ids_are_compared_with_values_of_the_key(narrowed: bool) -> None:
    lake = graph(NUMBERED, P=[{"k": 1}, {"k": 2}], E=[{"src": "1", "dst": "2"}, {"src": "2", "dst": "2"}])
    asked = "match { $a $e:e [src = $k] $b } return { $a.k, $b.k }"
    assert lake.ask(asked, "$k: I64", k=1, reduce=narrowed) == [(1, 2)]
    assert lake.ask(asked.replace("$k", "1"), reduce=narrowed) == [(1, 2)]
    assert lake.ask(asked, "$k: F64", k=2.0, reduce=narrowed) == [(2, 2)]
    assert lake.ask(asked, "$k: F64", k=2.5, reduce=narrowed) == []
    assert lake.ask(asked.replace("$k", "99999999999999999999.5"), reduce=narrowed) == []
    assert lake.ask(asked, "$k: I64?", k=None, reduce=narrowed) == []


def test_alternatives_that_lead_to_one_node_are_joined(given: Given, narrowed: bool) -> None:
    body = "match { $a: Person or { $a knows $b  { $b knows $a  $b.age > 20 } } } return { $a.name, $b.name }"
    found = sorted(x + y for x, y in given.ask(body, reduce=narrowed))
    assert found == ["ab", "ba", "bc", "ca", "cb", "cd", "dd"]
    assert "EXISTS" not in given.explained(body).sql


def test_bounds_on_an_edge_between_two_types_are_one_hop(given: Given, narrowed: bool) -> None:
    body = "match { $p: Person $p worksAt{1,3} $c } return { $p.name, $c.name }"
    assert sorted(given.ask(body, reduce=narrowed)) == [("a", "x"), ("b", "a"), ("c", "x")]
    assert given.ask(body.replace("1,3", "2,3"), reduce=narrowed) == []


def test_a_limit_may_be_larger_than_engines_count(given: Given, narrowed: bool) -> None:
    for rest in ("limit $n", "order { $p.name } limit $n", "order { $p.name } limit $n offset 1"):
        found = given.ask(
            f"match {{ $p: Person }} return {{ $p.name }} {rest}", "$n: U64", n=2**64 - 1, reduce=narrowed
        )
        assert len(found) == (4 if "offset" in rest else 5)
