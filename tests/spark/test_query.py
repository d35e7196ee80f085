"""A query gives the same rows on Spark as in this process: every construct of the language, values, order and types."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import quire
import quire.spark
from quire.errors import InvalidInput, InvalidQuery, Unsupported
from quire.graph import query as reading
from quire.graph.query.search.search import TEXT_INDEX
from quire.lake import engines

SCHEMA = """
interface Named { title: String? }
node Person implements Named {
  name: String @key  age: I32?  big: U64?  small: U32?  long: I64?  ratio: F64?  part: F32?
  born: Date?  seen: DateTime?  alive: Bool?  mood: enum(glad, sad)?  tags: [String]?  sizes: [I64]?
  days: [Date]?  photo: Blob?
  bio: String?  v: Vector(2)?  c: Vector(2)? @metric("cosine")  d: Vector(2)? @metric("dot")
}
node Company implements Named { name: String @key  size: I64? }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge WorksAt: Person -> Company { role: String? }
edge Likes: Person -> Person { weight: F64? }
"""
PEOPLE: list[dict[str, Any]] = [
    {
        "name": "a",
        "title": "Dr",
        "age": 30,
        "big": 2**64 - 1,
        "small": 2**32 - 1,
        "long": 2**53 + 1,
        "ratio": 2.0**60,
        "part": 0.1,
        "born": "1994-05-06",
        "seen": "2024-01-01T10:00:00.000007Z",
        "alive": True,
        "mood": "glad",
        "tags": ["red", "blue"],
        "sizes": [1, -(2**63)],
        "days": ["1500-01-01", "2020-02-29"],
        "photo": "base64:AAEC",
        "bio": "The quick brown fox",
        "v": [0.0, 0.0],
    },
    {"name": "b", "age": 25, "big": 1, "long": -(2**63), "ratio": 0.5, "born": "0001-01-01", "bio": "quick QUICK slow"},
    {"name": "c", "age": None, "tags": [], "mood": "sad", "bio": "Über-fox: straße, naïve café", "v": [0.0, 2.0]},
    {"name": "d", "age": 41, "alive": False, "tags": ["blue"], "seen": "1500-01-01T00:00:00Z"},
    {"name": "é", "age": 7, "ratio": -2.5, "sizes": [3], "bio": "slow snail", "v": [3.0, 4.0], "big": 25},
    {"name": "Z", "age": 30, "long": 7, "ratio": 7.0, "part": 0.5, "bio": "it's running; runs 42", "v": [1.0, 0.0]},
]
KNOWS = ["ab", "ab", "bc", "ca", "cd", "dd", "éa"]
JOBS = [("a", "x", "cook"), ("c", "x", None), ("b", "a", "host")]


def edge(type: str, ends: Any, **data: Any) -> dict[str, Any]:
    return {"edge": type, "from": ends[0], "to": ends[1], "data": data}


def records() -> list[dict[str, Any]]:
    found = []
    for one in PEOPLE:
        vectors = {name: one["v"] for name in "vcd" if "v" in one}
        found.append({"type": "Person", "data": one | vectors})
    found += [{"type": "Company", "data": {"name": n, "size": s}} for n, s in (("x", 5), ("y", None), ("a", 2**53 + 1))]
    found += [edge("Knows", k, since=f"20{10 + n}-01-01", weight=n / 2) for n, k in enumerate(KNOWS)]
    found += [edge("Likes", ends, weight=float(n)) for n, ends in enumerate(("Za", "ab", "dZ"))]
    return found + [edge("WorksAt", job, role=job[2]) for job in JOBS]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> quire.Graph:
    graph = quire.Graph(quire.create(tmp_path_factory.mktemp("query") / "lake"))
    graph.apply_schema(SCHEMA)
    graph.load(records())
    return graph


def both(spark: Any, graph: quire.Graph, body: str, signature: str = "", **values: Any) -> pa.Table:
    """The rows of Spark, which are those of this process: in any order where the query has none."""
    text = f"query asked({signature}) {{ {body} }}"
    here = graph.query(text, params=values).to_arrow()
    there = graph.query(text, params=values, engine=spark).to_arrow()
    assert there.schema == here.schema
    first, second = here.to_pylist(), there.to_pylist()
    if "order {" not in body:
        first, second = sorted(first, key=repr), sorted(second, key=repr)
    assert second == first, graph.explain(text, params=values, engine=spark)
    return there


@pytest.fixture(scope="module", autouse=True)
def plain(spark: Any) -> Iterator[None]:
    """Queries over a handful of rows are run as they are: compiling each takes longer. The command line compiles."""
    compiled = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for name, value in compiled.items():
        spark.conf.set(name, value)
    yield
    for name in compiled:
        spark.conf.unset(name)


READS = {
    "all values and a whole node": ("$p: Person", "$p", ""),
    "a whole edge and its ends": ("$a $k:knows $b", "$k $a.name $k.src $k.dst $k.id", ""),
    "properties in the pattern": ('$p: Person {name: "a", age: 30}', "$p.born $p.seen $p.big $p.v", ""),
    "pairs are a set, edges are not": ("$a: Person $a knows $b", "$a.name $b.name", ""),
    "either direction": ("$a: Person $a <knows> $b", "$a.name $b.name", "order { $a.name desc, $b.name }"),
    "an edge in either direction": ("$a $k:<knows> $b", "$a.name $b.name $k.since", ""),
    "filters on edges without a name": ("$a knows [weight > 0.5] $b", "$a.name $b.name", ""),
    "several edge types": ("$a: Person $a knows|likes $b  $c <likes|knows> $a", "$a.name $b.name $c.name", ""),
    "nodes of an interface": (
        '$x: Named $x.id != "b"  not { $x worksAt $_ } optional { $x knows{1,} $f }',
        "$x $x.type $x.id $f.name count { $_ worksAt $x } as staff",
        "order { $x.type desc, $x.id, $f.name }",
    ),
    "nodes of an interface beside others": (
        "$p: Person $p worksAt $x $x: Named exists { $y: Named $y.id = $p.id $y knows $_ } "
        '$q: Person { name: "d" } $s: Named $w = shortest($s knows{1,} $q)',
        "$x.type as type, count(distinct $x) as n, collect($s.id) as starts, count($w.length) as ways",
        "",
    ),
    "walks along several edge types": (
        "$a: Person $a knows|likes{1,} [weight >= 1] $b  $c <likes|knows>{2,3} $a $w = shortest($a likes|knows{1,} $c)",
        "$a.name $b.name $c.name $w.nodes",
        "",
    ),
    "between types": ("$p worksAt $c  $c.size > 5", "$p.name $c.name", ""),
    "reachability": ("$a: Person $a knows{1,} $b", "$a.name $b.name", ""),
    "reachability from hop two on": ("$a: Person $a knows{2,3} $b", "$a.name $b.name", ""),
    "reachability from one node": ('$a: Person {name: "a"} $a knows{1,2} $b', "$b.name", "order { $b.name }"),
    "reachability either way with a filter": ("$a <knows>{1,2} [weight >= 1] $b", "$a.name $b.name", ""),
    "reachability between types": ("$p worksAt{1,3} $c", "$p.name $c.name", ""),
    "shortest paths": (
        "$a: Person $b: Person $w = shortest($a knows{1,6} $b)",
        "$a.name $b.name $w.length $w.nodes",
        "",
    ),
    "shortest paths from hop two on": (
        "$a: Person $b: Person $w = shortest($a knows{2,} $b)",
        "$w.nodes",
        "order { $w.length desc, $a.name, $b.name }",
    ),
    "not": ("$p: Person not { $p worksAt $_ }", "$p.name", ""),
    "exists": ("$p: Person exists { $p knows $q  $q.age > 25  not { $q worksAt $_ } }", "$p.name", ""),
    "exists within or": ("$p: Person or { $p.age > 40 { exists { $p worksAt $c $c.size > 4 } } }", "$p.name", ""),
    "counts": (
        "$p: Person  count { $p knows $_ } >= 1  optional { $p worksAt $c }",
        "$p.name, count { $p $k:knows $f } as edges, count { $x worksAt $c } as staff, count { $y: Company } as all,"
        " count { $p knows{1,} $f  exists { $f knows $g  $g.name != $p.name } } as far",
        "order { edges desc, $p.name }",
    ),
    "counts in groups, alternatives and optional parts": (
        "$p: Person or { count { $p knows $_ } > 1  $p.age = 7 } optional { $p knows $q count { $q knows $_ } > 1 }",
        "$p.age as age, avg(count { $p <knows> $_ }) as mean, collect($q.name) as names,"
        " collect(distinct $p.mood) as m",
        "having { mean > 1  size(names) < 9 } order { mean desc }",
    ),
    "functions of texts": (
        "$p: Person  lower($p.name) = $p.name",
        'upper($p.bio) as up, lower("ΟΔΟΣ İ 𐐀") as low, upper("ᾀ 𐐨") as greek,'
        ' trim(concat(" ", $p.name, " ")) as t, length($p.bio) as n, substring($p.bio, 4, 5) as s,'
        ' substring($p.bio, -1) as whole, replace($p.bio, "", "x") as same, replace($p.bio, "quick", "é") as r,'
        ' split($p.bio, " ") as words, split($p.bio, "") as one, split(concat("a", $p.name, "b"), $p.name) as ab,'
        ' split("a\\\\Eb.c", "\\\\E") as e, join($p.tags, "+") as j, split("1.2..3", ".") as dots',
        "",
    ),
    "functions of times": (
        "$p: Person",
        "year($p.born) as y, month($p.born) as m, day($p.born) as d, weekday($p.born) as w, year($p.seen) as sy,"
        " hour($p.seen) as h, minute($p.seen) as mi, second($p.seen) as s, date($p.seen) as date,"
        " add_days($p.born, 31) as later, add_days($p.seen, -400) as before,"
        ' days_between($p.born, date("2000-02-29")) as n, weekday($p.seen) as wd',
        "",
    ),
    "functions of lists": (
        "$p: Person",
        "size($p.sizes) as n, first($p.tags) as f, last($p.sizes) as l, item($p.tags, 1) as i, item($p.tags, -1) as no,"
        " slice($p.tags, 1) as s, slice($p.sizes, -1, 1) as t, slice($p.tags, 5, 2) as far, sorted($p.tags) as sorted,"
        " reverse($p.sizes) as r, size(split($p.bio, concat($p.name, lower($p.name)))) as long",
        "",
    ),
    "coalesce and case": (
        "$p: Person  coalesce($p.age, 0) < 40",
        "coalesce($p.age, $p.long, 1) as n, coalesce($p.part, 0.5) as f, coalesce($p.big, 0) as b,"
        " coalesce($p.tags, $p.tags) as l, coalesce($p.mood, $p.name) as t,"
        " case when $p.age > 0 then 10 / $p.age end as q,"
        ' case when $p.age > 25 and $p.name = "a" then 1 when $p.age is null then 2.5 else $p.long end as c',
        "",
    ),
    "functions of groups": (
        "$p: Person",
        "length($p.name) as n, coalesce(sum($p.age), 0) + 1 as s,"
        ' case when count(*) > 1 then "many" else "one" end as c',
        "having { length(c) >= 3 } order { n, upper(c) }",
    ),
    "not within not looks two blocks out": (
        "$p: Person not { $p knows $q not { $q knows $r  $r.name != $p.name } }",
        "$p.name",
        "",
    ),
    "not with a comparison": (
        "$p: Person $q: Person not { $r: Person $r.age > $p.age $r.age < $q.age }",
        "count(*)",
        "",
    ),
    "or of tests": ('$p: Person or { $p.age > 35  $p.name starts_with "Z" }', "$p.name", ""),
    "or of patterns and tests": (
        "$p: Person or { $p worksAt $c  { $p knows $q  $q.age is null } $p.age = 7 }",
        "$p.name",
        "",
    ),
    "or that connects": (
        "$p: Person $q: Person or { $p knows $q  { $p knows $r  $r knows $q } }",
        "$p.name $q.name",
        "",
    ),
    "or within not within optional": (
        "$p: Person optional { $p knows $q not { or { $q.age > $p.age  $q worksAt $c } } }",
        "$p.name $q.name",
        "",
    ),
    "optional": ("$p: Person optional { $p worksAt $c }", "$p.name $c $c.size", "order { $c.size, $p.name }"),
    "optional within optional": (
        "$p: Person optional { $p knows $q optional { $q worksAt $c  $c.size > $p.age } }",
        "$p.name $q.name $c.name",
        "",
    ),
    "two optional parts and a test of them": (
        "$p: Person optional { $p knows $q } optional { $q worksAt $c } $c.name is null",
        "$p.name $q.name $c",
        "",
    ),
    "in, contains, starts_with": (
        '$p: Person $p.age in [25, 7.0, 30] or { $p.tags contains "red"  $p.name contains "é"  25 in $p.sizes }',
        "$p.name",
        "",
    ),
    "numbers of different types": (
        "$p: Person $q: Person $p.long < $q.ratio or { $p.big >= $q.ratio  $p.age = $q.big  $p.part != $q.small }",
        "$p.name $q.name",
        "",
    ),
    "null and not null": ("$p: Person $p.age is not null  $p.title is null", "$p.name", ""),
    "dates, times, enums, booleans": (
        '$p: Person or { $p.born < date("1000-01-01")  $p.seen < datetime("1600-01-01T00:00:00Z")  $p.alive = true }'
        ' or { $p.mood = "sad"  $p.mood is null }',
        "$p.name $p.mood",
        "",
    ),
    "arithmetic": (
        "$p: Person $p.age is not null",
        "($p.age + 1) as a ($p.age * 2 - $p.ratio) as b ($p.age / 7) as c ($p.age % 4) as d (-$p.ratio) as e",
        "order { $p.age % 4, $p.name }",
    ),
    "aggregates by group": (
        "$p: Person optional { $p knows $q }",
        "$p.age as age, count(*) as n, count($q) as m, count(distinct $q.age) as k, sum($q.age) as s, avg($q.ratio)",
        "having { n >= 1 } order { age desc, n }",
    ),
    "aggregates of nothing": ('$p: Person {name: "nobody"}', "count(*) sum($p.age) avg($p.age) min($p.name)", ""),
    "aggregates of everything": (
        "$p: Person",
        "min($p.big) max($p.big) min($p.name) max($p.born) max($p.seen) sum($p.small) sum($p.part) min($p.alive)",
        "",
    ),
    "groups by a whole node": ("$p: Person $p knows $q", "$p, count($q) as n", "order { n desc }"),
    "having and order by an aggregate": (
        "$p knows $q",
        "$p.name",
        "having { count(*) > 1 } order { max($q.age) desc }",
    ),
    "distinct": ("$p: Person", "distinct", ""),
    "nulls first, and ties by id": ("$p: Person", "$p.name $p.age", "order { $p.age } limit 4 offset 1"),
    "nulls last downwards": ("$p: Person", "$p.name", "order { $p.long desc }"),
    "a limit without an order": ("$p: Person", "count(*)", "limit 3"),
    "an offset beyond all": ("$p: Person", "$p.name", "order { $p.name } offset 99"),
    "a limit beyond all engines": ("$p: Person", "$p.name", "order { $p.name } limit 9223372036854775807 offset 2"),
    "nothing is found": ('$p: Person {name: "nobody"} optional { $p knows $q }', "$p $q.v $q.big $p.days", ""),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", READS)
def test_a_construct_gives_the_same_rows(spark: Any, graph: quire.Graph, name: str) -> None:
    match, outputs, rest = READS[name]
    if outputs == "distinct":
        both(spark, graph, f"match {{ {match} }} return distinct {{ $p.age $p.tags }} order {{ $p.age }}")
        return
    found = both(spark, graph, f"match {{ {match} }} return {{ {outputs} }} {rest}")
    assert found.num_rows or name in ("nothing is found", "an offset beyond all")


def test_parameters_of_every_type_are_bound(spark: Any, graph: quire.Graph) -> None:
    values: dict[str, Any] = {
        "s": "it's \\ {s0} :p1 é",
        "n": 2**63 - 1,
        "u": 2**64 - 1,
        "f": -0.1,
        "t": True,
        "d": dt.date(1, 1, 1),
        "m": dt.datetime(1500, 1, 1, 0, 0, 0, 7, tzinfo=dt.UTC),
        "ls": ["a", "it's", ""],
        "li": [1, -(2**63)],
        "lf": [0.1, 5.0],
        "ld": [dt.date(1500, 2, 28), dt.date(2024, 2, 29)],
        "e": [],
        "x": None,
        "v": [0.25, 1.5],
    }
    types = "$s: String, $n: I64, $u: U64, $f: F64, $t: Bool, $d: Date, $m: DateTime, $ls: [String], $li: [I64],"
    types += " $lf: [F64], $ld: [Date], $e: [I64], $x: I32?, $v: Vector(2)"
    outputs = " ".join(f"${name} as {name}" for name in values)
    found = both(spark, graph, f'match {{ $p: Person {{name: "a"}} }} return {{ {outputs} }}', types, **values)
    assert found.to_pylist() == [values]
    body = "match { $p: Person $q: Person $p.name in $ls  $q.age + 1 in $li  $p.days contains $d } return { $p.name }"
    both(spark, graph, body, "$ls: [String], $li: [I64], $d: Date", ls=["a", "b"], li=[8, 26], d=dt.date(1500, 1, 1))


SEARCHES = [
    'match { $p: Person search($p.bio, "QUICK snail") } return { $p.name bm25($p.bio, "quick") as s } order { s desc }',
    'match { $p: Person match_text($p.bio, "fox quick") } return { $p.name }',
    'match { $p: Person fuzzy($p.bio, "cafe", 1) } return { $p.name fuzzy($p.bio, "slw") as m }',
    'match { $p: Person search($p.bio, "!?") } return { $p.name }',
    "match { $p: Person } return { $p.name nearest($p.v, $q) as s } order { nearest($p.v, $q) } limit 9",
    "match { $p: Person } return { $p.name nearest($p.c, $q) as s } order { s desc } limit 9",
    "match { $p: Person $p knows $k } return { $k.name nearest($k.d, $q) as s } order { nearest($k.d, $q) } limit 3",
    'match { $p: Person } return { $p.name rrf(nearest($p.v, $q), bm25($p.bio, "fox"), 9) as s } order { s } limit 9',
    'match { $p: Person optional { $p knows $k } } return { $p.name bm25($k.bio, "fox") search($k.bio, "fox") as m }',
    'match { $p: Person not { $p knows $k search($k.bio, "fox") } } return { $p.name nearest($p.v, $q) as s }',
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("body", SEARCHES)
def test_searches_give_the_same_rows_and_numbers(spark: Any, graph: quire.Graph, body: str) -> None:
    found = both(spark, graph, body, "$q: Vector(2)", q=[1.0, 0.25])
    assert found.num_rows or '"!?"' in body


def test_indexes_and_large_tables(spark: Any, lake: quire.Lake) -> None:
    """Rows in several fragments, a text index, a vector index: the same candidates, the same rows."""
    graph = quire.Graph(lake)
    graph.apply_schema("node Doc { slug: String @key  body: String?  v: Vector(8)? } edge Cites: Doc -> Doc")
    rng = np.random.default_rng(3)
    words = ["fox", "snail", "quick", "slow", "café"]
    for part in range(2):
        docs = [
            {"slug": f"d{part}-{n}", "body": " ".join(rng.choice(words, 3)), "v": rng.normal(size=8).tolist()}
            for n in range(300)
        ]
        graph.load([{"type": "Doc", "data": doc} for doc in docs])
    graph.load([edge("Cites", (f"d0-{n}", f"d1-{n * 7 % 300}")) for n in range(300)])
    with lake.transaction("index") as tx:
        tx["node:Doc"].create_index("body", "INVERTED", **TEXT_INDEX)
        tx["node:Doc"].create_index("v", "IVF_PQ", num_partitions=2, num_sub_vectors=4, metric="l2")
    q = rng.normal(size=8).tolist()
    near = "match { $d: Doc } return { $d.slug nearest($d.v, $q) as s } order { nearest($d.v, $q) } limit 7"
    assert both(spark, graph, near, "$q: Vector(8)", q=q).num_rows == 7
    text = 'match { $d: Doc search($d.body, "fox") $d cites $e } return { $e.slug bm25($e.body, "café slow") as s }'
    assert both(spark, graph, text).num_rows > 100
    both(spark, graph, 'match { $d: Doc {slug: "d0-3"} $d cites{1,3} $e } return { $e.slug }')
    joined = "match { $d: Doc $d cites $e } return { $e.body count(*) as n } order { n desc, $e.body }"
    assert both(spark, graph, joined).num_rows > 10


@pytest.mark.sampled(1)
@pytest.mark.parametrize("output", ["$p.age / ($p.age - 30)", "$p.age % ($p.age - 30)", "sum($p.big)"])
def test_what_cannot_be_computed_is_told(spark: Any, graph: quire.Graph, output: str) -> None:
    text = f"query q() {{ match {{ $p: Person }} return {{ ({output}) as n }} }}"
    for engine in ("local", spark):
        with pytest.raises(InvalidQuery) as caught:
            graph.query(text, engine=engine).to_arrow()
        assert caught.value.fields["reason"]


def test_a_frame_is_not_collected(spark: Any, graph: quire.Graph) -> None:
    """`quire.spark.query` gives a frame, with whole nodes as structs, for Spark to go on with."""
    match = "match { $p: Person $p.age > $n  optional { $p worksAt $c } }"
    text = f"query q($n: I32) {{ {match} return {{ $p.name as n $c $p.big }} }}"
    frame = quire.spark.query(spark, graph, text, n=20)
    assert frame.columns == ["n", "c", "p.big"]
    names = [row["n"] for row in frame.where("c.size = 5").collect()]
    assert names == ["a"]
    # Listing names resolves no view; other tests leave some whose lake is gone.
    views = [row["tableName"] for row in spark.sql("show tables").collect()]
    assert [name for name in views if name.startswith(("s0", "_pyspark"))] == []
    at = graph.lake.at(commit="1.0")  # no rows yet
    assert quire.spark.query(spark, graph, text, n=20, at=at).count() == 0


def test_explain_shows_the_sql_of_spark(spark: Any, graph: quire.Graph) -> None:
    match = "match { $p: Person $p.age + 1 > $n  $p knows{1,2} $q  not { $q worksAt $c } }"
    text = f"query q($n: I32) {{ {match} return {{ $q.name }} }}"
    told = graph.explain(text, n=5, engine=spark)
    assert "LEFT ANTI JOIN" in told.sql
    assert ":p0" in told.sql
    assert "hop by hop" in told.sql
    assert 5 in told.values.values()
    assert told.rows is None
    assert "LEFT ANTI JOIN" not in graph.explain(text, n=5).sql
    done = graph.explain(text, n=5, engine=spark, analyze=True)
    assert done.rows == graph.query(text, n=5).to_arrow().num_rows


def test_the_engine_is_chosen_by_size(spark: Any, graph: quire.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "query q() { match { $p: Person not { $p worksAt $_ } } return { $p.name } }"
    snapshot = graph.lake.snapshot()
    size = reading.size_of(graph.check(text), snapshot)
    assert size == sum(snapshot[t].bytes for t in ("node:Person", "node:Company", "edge:WorksAt")) > 0
    assert "ANTI" not in graph.explain(text, engine="auto").sql
    monkeypatch.setattr(engines, "AUTO_BYTES", size)
    assert "ANTI" in graph.explain(text, engine="auto").sql
    with pytest.raises(InvalidInput, match="is not an engine"):
        graph.query(text, engine="sparc")


def test_a_session_without_ansi_rules_is_refused(spark: Any, graph: quire.Graph) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(Unsupported, match="ANSI"):
            graph.query("query q() { match { $p: Person } return { $p.name } }", engine=spark)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_large_tables_are_not_sent_to_everybody(spark: Any, graph: quire.Graph) -> None:
    """Spark knows how many rows a scan has, so it does not take every table for a small one."""
    from quire.spark.graph_query.scans import sized

    frame = sized(spark, 4, 4_000_000, lambda number: iter(()), "id string, name string")
    told = frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    assert told > 20_000_000  # eight bytes a row, whatever the rows hold
    assert frame.count() == 0


TEXT = (
    "query old($n: I32) { match { $p: Person $p.age > $n } return { $p.name as name } order { name } }"
    " query all() { match { $p: Person } return { count(*) as n } }"
)


def test_the_command_line_runs_queries_and_stored_ones_on_spark(run: Any, tmp_path: Path, graph: quire.Graph) -> None:
    file = tmp_path / "q.gq"
    file.write_text(TEXT)
    asked = ("old", "-p", "n=26", "--engine", "spark", "--master", "local[2]")
    assert [row["name"] for row in run("query", graph.lake.uri, file, *asked)["rows"]] == ["Z", "a", "d"]
    run("stored", "add", graph.lake.uri, file)
    assert [row["name"] for row in run("stored", "run", graph.lake.uri, *asked)["rows"]] == ["Z", "a", "d"]
    assert run.asked == ["local[2]"] * 2


@pytest.mark.full
def test_a_command_starts_and_stops_a_session_of_its_own(tmp_path: Path, graph: quire.Graph) -> None:
    file = tmp_path / "q.gq"
    file.write_text(TEXT)
    command = [sys.executable, "-m", "quire.cli", "query", graph.lake.uri, str(file), "old", "-p", "n=26", "--json"]
    command += ["--engine", "spark", "--master", "local[1]"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [row["name"] for row in json.loads(done.stdout)["rows"]] == ["Z", "a", "d"]
