"""What is asked of the social network: as `.gq`, as SQL and as Cypher, and of plain Lance where it has an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.graph.questions import Values
from benchmarks.graph.social import SEED, WIDTH, Size, near, person, phrase

LANCE = ("key", "hop", "vector", "text", "both")
"""What plain Lance can be asked."""


@dataclass(frozen=True)
class Social:
    """A question. Engines that have no words for it are left out."""

    title: str
    gq: str
    sql: str = ""
    cypher: str = ""
    lance: str = ""
    """One of `LANCE`: the nearest that Lance does without the rest of a graph."""
    values: Callable[[Size, np.random.Generator], Values] = lambda size, random: {}
    ranked: bool = False
    """Whether it is a search: answers through indexes are held against those that look at all rows."""


def _somebody(size: Size, random: np.random.Generator) -> Values:
    return {"name": person(int(random.integers(size.people)))}


def _pair(size: Size, random: np.random.Generator) -> Values:
    return {"name": person(int(random.integers(size.people))), "other": person(int(random.integers(size.people)))}


def _near(size: Size, random: np.random.Generator) -> Values:
    return {"v": near(random)}


def _words(size: Size, random: np.random.Generator) -> Values:
    return {"q": phrase(random)}


def _both(size: Size, random: np.random.Generator) -> Values:
    return {"v": near(random), "q": phrase(random)}


V, Q = f"$v: Vector({WIDTH})", "$q: String"

QUESTIONS = (
    Social(
        "look-up by key",
        "query q($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age, $p.joined } }",
        "select name, age, joined from Person where name = $name",
        "match (p:Person {name: $name}) return p.name, p.age, p.joined",
        "key",
        _somebody,
    ),
    Social(
        "one hop from a person",
        "query q($name: String) { match { $p: Person { name: $name }  $p knows $f } return { $f.name, $f.age } }",
        "select f.name, f.age from Knows k join Person f on f.name = k.to where k.from = $name",
        "match (p:Person {name: $name})-[:Knows]->(f:Person) return f.name, f.age",
        "hop",
        _somebody,
    ),
    Social(
        "what friends like (two hops)",
        "query q($name: String) { match { $p: Person { name: $name }  $p knows $f  $f likes $m }"
        " return { $f.name as friend, $m.slug as post } }",
        "select k.to, l.to from Knows k join Likes l on l.from = k.to where k.from = $name",
        "match (p:Person {name: $name})-[:Knows]->(f:Person)-[:Likes]->(m:Post) return f.name, m.slug",
        values=_somebody,
    ),
    Social(
        "what friends of friends like most (three hops, top 20)",
        "query q($name: String) { match { $p: Person { name: $name }  $p knows $f  $f knows $g  $g likes $m }"
        " return { $m.slug as post, count($g) as likes } order { likes desc, post } limit 20 }",
        "select l.to, count(*) as n from Knows f join Knows g on g.from = f.to join Likes l on l.from = g.to"
        " where f.from = $name group by 1 order by 2 desc, 1 limit 20",
        "match (p:Person {name: $name})-[:Knows]->(f:Person)-[:Knows]->(g:Person)-[:Likes]->(m:Post)"
        " return m.slug, count(*) as n order by n desc, m.slug limit 20",
        values=_somebody,
    ),
    Social(
        "triangles of a person",
        "query q($name: String) { match { $a: Person { name: $name }  $a knows $b  $b knows $c  $c knows $a }"
        " return { count($b) as n } }",
        "select count(*) from Knows a join Knows b on b.from = a.to join Knows c on c.from = b.to and c.to = a.from"
        " where a.from = $name",
        "match (a:Person {name: $name})-[:Knows]->(b:Person)-[:Knows]->(c:Person)-[:Knows]->(a) return count(*)",
        values=_somebody,
    ),
    Social(
        "shortest path between two people (its length)",
        "path",
        cypher="match (a:Person {name: $name})-[k:Knows* shortest 1..12]->(b:Person {name: $other}) return length(k)",
        values=_pair,
    ),
    Social(
        "who is known best (aggregate over all edges)",
        "query q() { match { $p: Person  $p knows $f } return { $f.name as name, count($p) as n }"
        " order { n desc, name } limit 10 }",
        "select k.to, count(*) from Knows k group by 1 order by 2 desc, 1 limit 10",
        "match (p:Person)-[:Knows]->(f:Person) return f.name, count(*) as n order by n desc, f.name limit 10",
    ),
    Social(
        "tags by likes and age (two hops over all)",
        "query q() { match { $p: Person  $p likes $m  $m hasTag $t }"
        " return { $t.name as tag, count($p) as n, avg($p.age) as age } order { n desc, tag } limit 10 }",
        "select t.to, count(*) as n, avg(p.age) from Likes l join HasTag t on t.from = l.to"
        " join Person p on p.name = l.from group by 1 order by 2 desc, 1 limit 10",
        "match (p:Person)-[:Likes]->(m:Post)-[:HasTag]->(t:Tag)"
        " return t.name, count(*) as n, avg(p.age) order by n desc, t.name limit 10",
    ),
    Social(
        "pairs by age (one hop over all)",
        "query q() { match { $p: Person  $p knows $f  $p.age >= 80  $f.age < 20 }"
        " return { $p.age as old, $f.age as young, count($f) as pairs } }",
        "select p.age, f.age, count(*) from Knows k join Person p on p.name = k.from join Person f on f.name = k.to"
        " where p.age >= 80 and f.age < 20 group by 1, 2",
        "match (p:Person)-[:Knows]->(f:Person) where p.age >= 80 and f.age < 20 return p.age, f.age, count(*)",
    ),
    Social(
        "posts of 40-year-olds that nobody likes (negation)",
        "query q() { match { $p: Person  $p.age = 40  $p wrote $m  not { $x likes $m } }"
        " return { $p.name as name, count($m) as posts } order { posts desc, name } limit 10 }",
        "select p.name, count(*) from Person p join Wrote w on w.from = p.name where p.age = 40 and not exists"
        " (select 1 from Likes l where l.to = w.to) group by 1 order by 2 desc, 1 limit 10",
        "match (p:Person)-[:Wrote]->(m:Post) where p.age = 40 and not exists { match (:Person)-[:Likes]->(m) }"
        " return p.name, count(*) as n order by n desc, p.name limit 10",
    ),
    Social(
        "the 10 nearest posts and who wrote them (vector, one hop)",
        f"query q({V}) {{ match {{ $m: Post  $u wrote $m }} return {{ $m.slug as post, $u.name as author }}"
        " order { nearest($m.vector, $v) } limit 10 }",
        'select m.slug, w."from" from Post m join Wrote w on w.to = m.slug'
        f" order by array_cosine_distance(m.vector::float[{WIDTH}], $v::float[{WIDTH}]), 1 limit 10",
        lance="vector",
        values=_near,
        ranked=True,
    ),
    Social(
        "the 10 best posts for some words and who wrote them (text, one hop)",
        f"query q({Q}) {{ match {{ $m: Post  search($m.text, $q)  $u wrote $m }}"
        " return { $m.slug as post, $u.name as author } order { bm25($m.text, $q) desc } limit 10 }",
        lance="text",
        values=_words,
        ranked=True,
    ),
    Social(
        "the 10 best posts by both and who wrote them (hybrid, one hop)",
        f"query q({V}, {Q}) {{ match {{ $m: Post  $u wrote $m }} return {{ $m.slug as post, $u.name as author }}"
        " order { rrf(nearest($m.vector, $v), bm25($m.text, $q)) desc } limit 10 }",
        lance="both",
        values=_both,
        ranked=True,
    ),
)


def turns(question: Social, size: Size, count: int) -> list[Values]:
    """Parameters for so many turns, the same in every run."""
    random = np.random.default_rng([SEED, 7, QUESTIONS.index(question)])
    return [question.values(size, random) for _ in range(count)]


def spoken(question: Social) -> dict[str, Any]:
    """How a question is put, for who reads the numbers."""
    return {"gq": question.gq, "sql": question.sql, "cypher": question.cypher, "lance": question.lance}
