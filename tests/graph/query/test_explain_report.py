"""Explaining: the plan, what is pushed into scans, indexes, the SQL, and what it cost."""

from __future__ import annotations

import json

import pytest
from tests.graph.query.given import Given, people


@pytest.fixture(scope="module")
def given() -> Given:
    found = people()
    found.index("Person", lambda table: table.create_index("name", "BTREE"))
    found.index("Knows", lambda table: table.create_index("src", "BTREE"))
    return found


def test_it_shows_what_is_pushed_and_which_index_is_used(given: Given) -> None:
    found = given.explained('match { $p: Person {name: "a"} $p.age + 1 > 3 $p knows{1,2} $q } return { $q.name }')
    [person] = [s for s in found.scans if s.variable == "p"]
    assert person.filter == "\"name\" = 'a'"
    assert person.indexes == ("name_idx",)
    assert set(person.columns) == {"id", "name", "age"}
    assert "filter Compare in the scan" in str(found)
    assert "filter Compare in the SQL" in str(found)
    assert "$p -Knows{1,2}-> $q" in str(found)
    assert "USING KEY" in found.sql
    assert found.rows is None
    assert found.cost == {}


def test_values_are_bound_and_not_in_the_sql(given: Given) -> None:
    found = given.explained('match { $p: Person $p.tags contains "secret" } return { $p.name }')
    assert "secret" not in found.sql
    assert "secret" in str(found.values)


def test_a_limit_without_an_order_is_pushed_into_a_single_scan(given: Given) -> None:
    limits = {
        "match { $p: Person $p.age > 3 } return { $p.name } limit 2": 2,
        "match { $p: Person $p.age + 1 > 3 } return { $p.name } limit 2": None,
        "match { $p: Person } return { $p.name } order { $p.name } limit 2": None,
        "match { $p: Person } return distinct { $p.name } limit 2": None,
        "match { $p: Person } return { count(*) as n } limit 2": None,
    }
    for body, limit in limits.items():
        assert given.explained(body).scans[0].limit == limit, body


def test_analyzed_it_says_what_was_read_and_requested(given: Given) -> None:
    found = given.explained('match { $p: Person {name: "a"} $p knows $q } return { $p.age, $q.age }', analyze=True)
    assert found.rows == 1
    assert [s.rows for s in found.scans if s.variable in "pq"] == [1, 1]
    assert {"total", "external", "hops", "seconds"} <= set(found.cost)
    assert "look-up" in str(found)
    assert json.dumps(found.to_dict(), default=str)


def test_the_package_keeps_its_names_after_use(given: Given) -> None:
    import quire.graph.query as package

    given.explained("match { $p: Person } return { $p.name }")
    assert callable(package.explain)
    assert callable(package.run)
