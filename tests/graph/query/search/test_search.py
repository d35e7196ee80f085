"""Vector and text search: the same answer with and without an index, and rows that no index covers are found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.graph.query.given import Given, graph

from quire.errors import InvalidQuery, Unsupported
from quire.graph.language import bind
from quire.graph.query import explain, semi_join
from quire.graph.query.search.search import TEXT_INDEX
from quire.lake.read.ranking import text_statistics
from quire.store import metering

SCHEMA = """
node Doc {
  slug: String @key  body: String?  n: I64?
  v: Vector(2)? @embed("body", model="m")  c: Vector(2)? @metric("cosine")  d: Vector(2)? @metric("dot")
}
edge Cites: Doc -> Doc
"""
DOCS = [
    ("a", "The quick brown fox", [0.0, 0.0]),
    ("b", "quick QUICK slow", [1.0, 0.0]),
    ("c", "Über-fox: straße, naïve café", [0.0, 2.0]),
    ("d", None, None),
    ("e", "slow snail", [3.0, 4.0]),
    ("f", "it's running; runs 42", [1.0, 0.0]),
]


def rows(docs: list[Any]) -> list[dict[str, Any]]:
    return [{"slug": s, "body": b, "n": i, "v": v, "c": v, "d": v} for i, (s, b, v) in enumerate(docs)]


@pytest.fixture(scope="module", params=["plain", "indexed", "half-indexed"])
def given(request: pytest.FixtureRequest) -> Given:
    half = len(DOCS) if request.param == "indexed" else 3
    found = graph(SCHEMA, Doc=rows(DOCS[:half]))
    if request.param != "plain":
        found.index("Doc", lambda table: table.create_index("body", "INVERTED", **TEXT_INDEX))
        found.index("Doc", lambda table: table.create_index("slug", "BTREE"))
    if half < len(DOCS):
        found.add("Doc", rows(DOCS)[half:])
    found.add("Cites", [{"src": "a", "dst": "b"}, {"src": "a", "dst": "e"}, {"src": "b", "dst": "c"}])
    return found


@pytest.mark.parametrize(
    ("call", "slugs"),
    [
        ('search($d.body, "quick")', "ab"),
        ('search($d.body, "QUICK snail")', "abe"),
        ('search($d.body, "run")', ""),  # no stemming
        ('search($d.body, "the")', "a"),  # no stop words
        ('search($d.body, "fox")', "ac"),
        ('search($d.body, "cafe")', ""),
        ('search($d.body, "CAFÉ")', "c"),
        ('search($d.body, "42")', "f"),
        ('search($d.body, "!?")', ""),
        ('match_text($d.body, "fox quick")', "a"),
        ('match_text($d.body, "slow quick")', "b"),
        ('fuzzy($d.body, "quik")', "ab"),
        ('fuzzy($d.body, "snial")', ""),  # one edit for five letters, and this takes two
        ('fuzzy($d.body, "snial", 2)', "e"),
        ('fuzzy($d.body, "cafe", 1)', "c"),  # an edit is one character, whatever its bytes
        ('fuzzy($d.body, "fix", 0)', ""),
    ],
)
def test_text_is_found_by_its_tokens(given: Given, call: str, slugs: str) -> None:
    for narrowed in (True, False):
        found = given.ask(f"match {{ $d: Doc {call} }} return {{ $d.slug }} order {{ $d.slug }}", reduce=narrowed)
        assert "".join(found) == slugs


def by_hand(query: list[str], text: str | None) -> float:
    texts = [corpus_tokens(b) for _, b, _ in DOCS if b is not None]
    mean = sum(map(len, texts)) / len(texts)
    tokens, total = corpus_tokens(text or ""), 0.0
    for word in query:
        frequency, count = sum(word in t for t in texts), tokens.count(word)
        weight = math.log(1 + (len(texts) - frequency + 0.5) / (frequency + 0.5))
        total += weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(tokens) / mean))
    return total


def corpus_tokens(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


def test_scores_are_bm25_over_all_rows_of_the_type(given: Given) -> None:
    body = 'match { $d: Doc } return { $d.slug, bm25($d.body, "quick slow") as s } order { s desc }'
    found = given.ask(body)
    assert [slug for slug, _ in found] == ["b", "e", "a", "c", "d", "f"]
    for slug, score in found:
        text = next(b for s, b, _ in DOCS if s == slug)
        assert score == pytest.approx(by_hand(["quick", "slow"], text), rel=1e-12)
    [score] = given.ask('match { $d: Doc {slug: "e"} } return { bm25($d.body, "quick slow") as s }')
    assert score == pytest.approx(by_hand(["quick", "slow"], "slow snail"), rel=1e-12)  # a filter changes no score


@pytest.mark.parametrize(
    ("column", "order", "distances"),
    [
        ("v", "bface", [0.0, 0.0, 1.0, math.sqrt(5), math.sqrt(20)]),
        ("c", "bfeac", [0.0, 0.0, 0.4, 1.0, 1.0]),
        ("d", "ebfac", [-2.0, 0.0, 0.0, 1.0, 1.0]),
    ],
)
def test_nearest_goes_by_the_metric_of_the_property(
    given: Given, column: str, order: str, distances: list[float]
) -> None:
    near = f"nearest($d.{column}, $q)"
    body = f"match {{ $d: Doc }} return {{ $d.slug, {near} as s }} order {{ {near} }} limit 9"
    found = given.ask(body, "$q: Vector(2)", q=[1.0, 0.0])
    assert "".join(slug for slug, _ in found) == order  # d has no vector and so no place
    assert [s for _, s in found] == pytest.approx(distances)


def test_search_goes_with_traversals_and_filters_come_first(given: Given) -> None:
    body = 'match { $x: Doc {slug: "a"} $x cites $d } return { $d.slug } order { nearest($d.v, $q) } limit 1'
    assert given.ask(body, "$q: Vector(2)", q=[3.0, 4.0]) == ["e"]
    body = "match { $d: Doc $d.n > 0 } return { $d.slug } order { nearest($d.v, $q) } limit 1"
    assert given.ask(body, "$q: Vector(2)", q=[0.0, 0.0]) == ["b"]


def test_rrf_adds_the_reciprocal_ranks(given: Given) -> None:
    body = (
        'match { $d: Doc $d.n < 5 } return { $d.slug, rrf(nearest($d.v, $q), bm25($d.body, "slow")) as s } '
        'order { rrf(nearest($d.v, $q), bm25($d.body, "slow")) } limit 9'
    )
    found = dict(given.ask(body, "$q: Vector(2)", q=[1.0, 0.0]))
    # by distance: b a c e; by score: e b (the shorter text first)
    wanted = {"b": 1 / 61 + 1 / 62, "e": 1 / 64 + 1 / 61, "a": 1 / 62, "c": 1 / 63, "d": 0.0}
    assert list(found) == ["b", "e", "a", "c", "d"]
    assert found == pytest.approx(wanted)


def test_a_query_of_text_is_embedded(given: Given) -> None:
    body = "match { $d: Doc } return { $d.slug } order { nearest($d.v, $q) } limit 1"
    with pytest.raises(Unsupported, match="text"):
        given.rows(body, "$q: String", q="far away")
    found = given.rows(body, "$q: String", q="far away", embed=lambda text, prop: [3.0, 4.0])
    assert found.to_pylist() == [{"d.slug": "e"}]
    with pytest.raises(InvalidQuery, match="2 dimensions"):
        given.rows(body, "$q: String", q="far away", embed=lambda text, prop: [3.0])


def test_edits_are_counted_in_characters() -> None:
    assert text_statistics.distance("kitten", "sitting", 5) == 3
    assert text_statistics.distance("é", "e", 5) == 1
    assert text_statistics.distance("abc", "xyz", 1) == 2
    assert text_statistics.tokens("Hello, İstanbul! hello x_y") == ["hello", "i̇stanbul", "x", "y"]


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_a_vector_index_finds_nearly_all_and_rows_that_it_does_not_cover(kind: str) -> None:
    rng = np.random.default_rng(3)
    size, width = 10_000, 32
    vectors = rng.normal(size=(size + 10, width)).astype(np.float32)
    lake = graph(f"node Doc {{ slug: String @key  v: Vector({width})? }}")

    def add(first: int, last: int) -> None:
        names = [f"{n:06}" for n in range(first, last)]
        values = pa.FixedSizeListArray.from_arrays(pa.array(vectors[first:last].ravel()), width)
        with lake.lake.transaction("rows") as tx:
            tx["node:Doc"].append(pa.table({"id": names, "slug": names, "v": values}))

    add(0, size)
    lake.index("Doc", lambda table: table.create_index("v", kind, metric="l2"))
    add(size, size + 10)
    body, hits = "match { $d: Doc } return { $d.slug } order { nearest($d.v, $q) } limit 10", 0
    for _ in range(20):
        query = rng.normal(size=width).astype(np.float32)
        truth = np.argsort(((vectors - query) ** 2).sum(axis=1))[:10]
        hits += len({f"{n:06}" for n in truth} & set(lake.ask(body, f"$q: Vector({width})", q=query.tolist())))
    assert hits / 200 >= 0.95
    near = vectors[size + 4].tolist()
    assert lake.ask(body, f"$q: Vector({width})", q=near)[0] == f"{size + 4:06}"
    found = lake.explained(body, f"$q: Vector({width})", analyze=True, q=near)
    assert "vector index" in str(found)


def test_a_common_word_is_not_read_before_the_sql(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semi_join, "FEW", 1)
    body = 'match { $d: Doc search($d.body, "quick slow") } return { $d.slug } order { $d.slug }'
    assert given.ask(body) == ["a", "b", "e"]
    assert "text index" not in str(given.explained(body, analyze=True))


def test_the_k_of_rrf_is_above_zero(given: Given) -> None:
    body = 'match { $d: Doc } return { rrf(nearest($d.v, [1, 0]), bm25($d.body, "slow"), $k) as s }'
    assert given.ask(body, "$k: F64?", k=0.5)
    for k in (0, -1, None):
        with pytest.raises(InvalidQuery, match="above 0"):
            given.ask(body, "$k: F64?", k=k)


def test_a_rank_that_is_returned_may_be_asked_about(given: Given) -> None:
    rank = 'rrf(nearest($d.v, [1, 0]), bm25($d.body, "slow"))'
    body = f"match {{ $d: Doc }} return {{ $d.slug, {rank} as s }} having {{ {rank} > 0.0165 }}"
    assert sorted(slug for slug, _ in given.ask(body)) == ["b", "e"]
    with pytest.raises(InvalidQuery, match="Return it too"):
        given.ask(f"match {{ $d: Doc }} return {{ $d.slug }} having {{ {rank} > 0 }}")


def test_explaining_a_search_reads_and_embeds_nothing(given: Given) -> None:
    body = 'match { $d: Doc fuzzy($d.body, "quik") } return { bm25($d.body, "slow") as s } '
    body += "order { nearest($d.v, $q) } limit 2"
    query = given.checked(body, "$q: String")
    with metering() as meter:
        found = explain(query, given.lake.snapshot(), bind(query, {"q": "far away"}))
    assert "list_has_any" in found.sql
    assert sum(meter.to_dict()["external"].values()) == 0


def test_any_number_of_the_nearest_may_be_asked_for(given: Given) -> None:
    body = "match { $d: Doc } return { $d.slug } order { nearest($d.v, [1, 0]) } limit $n"
    assert len(given.ask(body, "$n: U64", n=2**64 - 1)) == 5
