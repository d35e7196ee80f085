"""What is asked, in three languages. The answers must be the same rows, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.graph.data import SEED, Size, city, person

Values = dict[str, Any]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Question:
    """A question, and what it is asked with in each turn."""

    title: str
    gq: str
    sql: str
    cypher: str
    values: Callable[[Size, np.random.Generator], Values] = lambda size, random: {}
    """Parameters of the next turn."""

    @property
    def signature(self) -> str:
        return self.gq.partition("(")[2].partition(")")[0]


def _somebody(size: Size, random: np.random.Generator) -> Values:
    return {"name": person(int(random.integers(size.people)))}


def _somewhere(size: Size, random: np.random.Generator) -> Values:
    return {"name": city(int(random.integers(size.cities)))}


QUESTIONS = (
    Question(
        "look-up by key",
        "query q($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age, $p.joined } }",
        "select name, age, joined from Person where name = $name",
        "match (p:Person {name: $name}) return p.name, p.age, p.joined",
        _somebody,
    ),
    Question(
        "one hop from a person",
        "query q($name: String) { match { $p: Person { name: $name }  $p knows $f } return { $f.name, $f.age } }",
        "select f.name, f.age from Knows k join Person f on f.name = k.to where k.from = $name",
        "match (p:Person {name: $name})-[:Knows]->(f:Person) return f.name, f.age",
        _somebody,
    ),
    Question(
        "two hops from a person",
        "query q($name: String) { match { $p: Person { name: $name }  $p knows $f  $f knows $g }"
        " return { $f.name as a, $g.name as b } }",
        "select f.to, g.to from Knows f join Knows g on g.from = f.to where f.from = $name",
        "match (p:Person {name: $name})-[:Knows]->(f:Person)-[:Knows]->(g:Person) return f.name, g.name",
        _somebody,
    ),
    Question(
        "three hops from a person",
        "query q($name: String) { match { $p: Person { name: $name }  $p knows $f  $f knows $g  $g knows $h }"
        " return { $h.name, count($g) as ways } }",
        "select h.to, count(*) from Knows f join Knows g on g.from = f.to join Knows h on h.from = g.to"
        " where f.from = $name group by 1",
        "match (p:Person {name: $name})-[:Knows]->(f:Person)-[:Knows]->(g:Person)-[:Knows]->(h:Person)"
        " return h.name, count(*)",
        _somebody,
    ),
    Question(
        "within three hops of a person",
        "query q($name: String) { match { $p: Person { name: $name }  $p knows{1,3} $f }"
        " return { count($f) as people, avg($f.age) as age } }",
        "with one as (select distinct k.to as t from Knows k where k.from = $name),"
        " two as (select distinct k.to as t from Knows k join one on k.from = one.t),"
        " three as (select distinct k.to as t from Knows k join two on k.from = two.t),"
        " all_of as (select t from one union select t from two union select t from three)"
        " select count(*), avg(p.age) from all_of join Person p on p.name = t where t <> $name",
        "match (p:Person {name: $name})-[:Knows*1..3]->(f:Person) where f.name <> $name"
        " with distinct f return count(*), avg(f.age)",
        _somebody,
    ),
    Question(
        "who of a city knows nobody over 60 (negation)",
        "query q($name: String) { match { $c: City { name: $name }  $p livesIn $c"
        "  not { $p knows $f  $f.age > 60 } } return { $p.name, $p.age } }",
        "select p.name, p.age from LivesIn l join Person p on p.name = l.from where l.to = $name and not exists"
        " (select 1 from Knows k join Person f on f.name = k.to where k.from = p.name and f.age > 60)",
        "match (p:Person)-[:LivesIn]->(c:City {name: $name})"
        " where not exists { match (p)-[:Knows]->(f:Person) where f.age > 60 } return p.name, p.age",
        _somewhere,
    ),
    Question(
        "people and their age by city (aggregate over all)",
        "query q() { match { $p: Person  $p livesIn $c }"
        " return { $c.name as city, count($p) as people, avg($p.age) as age } order { people desc, city } limit 20 }",
        "select l.to, count(*) as people, avg(p.age) from LivesIn l join Person p on p.name = l.from"
        " group by 1 order by 2 desc, 1 limit 20",
        "match (p:Person)-[:LivesIn]->(c:City) return c.name, count(*) as people, avg(p.age)"
        " order by people desc, c.name limit 20",
    ),
    Question(
        "pairs by age (one hop over all)",
        "query q() { match { $p: Person  $p knows $f  $p.age >= 80  $f.age < 20 }"
        " return { $p.age as old, $f.age as young, count($f) as pairs } }",
        "select p.age, f.age, count(*) from Knows k join Person p on p.name = k.from join Person f on f.name = k.to"
        " where p.age >= 80 and f.age < 20 group by 1, 2",
        "match (p:Person)-[:Knows]->(f:Person) where p.age >= 80 and f.age < 20 return p.age, f.age, count(*)",
    ),
    Question(
        "who is known best (aggregate over all edges)",
        "query q() { match { $p: Person  $p knows $f } return { $f.name as name, count($p) as by }"
        " order { by desc, name } limit 10 }",
        'select k.to, count(*) as "by" from Knows k group by 1 order by 2 desc, 1 limit 10',
        "match (p:Person)-[:Knows]->(f:Person) return f.name, count(*) as n order by n desc, f.name limit 10",
    ),
    Question(
        "two hops over a city's people (two joins over all)",
        "query q($name: String) { match { $c: City { name: $name }  $p livesIn $c  $p knows $f  $f livesIn $d }"
        " return { $d.name as city, count($f) as friends } }",
        "select m.to, count(*) from LivesIn l join Knows k on k.from = l.from join LivesIn m on m.from = k.to"
        " where l.to = $name group by 1",
        "match (c:City {name: $name})<-[:LivesIn]-(p:Person)-[:Knows]->(f:Person)-[:LivesIn]->(d:City)"
        " return d.name, count(*)",
        _somewhere,
    ),
)


def turns(question: Question, size: Size, count: int) -> list[Values]:
    """Parameters for so many turns, the same in every run."""
    random = np.random.default_rng([SEED, QUESTIONS.index(question) if question in QUESTIONS else 99])
    return [question.values(size, random) for _ in range(count)]


def comparable(rows: list[Row]) -> list[Row]:
    """Rows in one order, with floats rounded: the order in which a mean is summed up is nobody's promise."""
    return sorted(tuple(round(v, 6) if isinstance(v, float) else v for v in row) for row in rows)
