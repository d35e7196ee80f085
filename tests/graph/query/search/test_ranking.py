"""The best rows of a search come from indexes: the same rows, in the same order, as when every row is looked at."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from tests.graph.query.given import Given, graph

from quire.errors import InvalidInput
from quire.graph.language import bind
from quire.graph.query import explain, run
from quire.graph.query.search import indexed, ranking
from quire.graph.query.search.search import TEXT_INDEX
from quire.graph.query.search.settings import Settings

SCHEMA = """
node Doc { slug: String @key  body: String?  n: I64  v: Vector(4)?  c: Vector(4)? @metric("cosine") }
node Author { name: String @key  age: I64 }
edge Wrote: Author -> Doc
edge Cites: Doc -> Doc
"""
WORDS = [f"w{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(120)]
TEXT_QUERY = "$q: String"
BOTH = "$q: String, $v: Vector(4)"


def drawn(number: random.Random, first: int, count: int) -> list[dict[str, Any]]:
    rows = []
    for n in range(first, first + count):
        words = [WORDS[int(len(WORDS) * number.random() ** 3)] for _ in range(number.randint(1, 30))]
        vector = [round(number.uniform(-2, 2), 1) for _ in range(4)]
        rows.append(
            {
                "slug": f"d{n:05}",
                "body": None if number.random() < 0.05 else " ".join(words),
                "n": number.randrange(10),
                "v": None if number.random() < 0.05 else vector,
                "c": [0.0] * 4 if number.random() < 0.05 else vector,
            }
        )
    return rows


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes are used for a few hundred rows too, and the first candidates are rarely enough."""
    monkeypatch.setattr(ranking, "MANY", 50)
    monkeypatch.setattr(indexed, "SMALL", 50)
    monkeypatch.setattr(ranking, "LEAST", 8)
    monkeypatch.setattr(ranking, "SPARE", 1)


def made(seed: int, *, vectors: bool) -> Given:
    """Documents of which a text index counts some that are gone and knows nothing of others."""
    number = random.Random(seed)
    found = graph(SCHEMA, Doc=drawn(number, 0, 400))
    found.index("Doc", lambda table: table.create_index("body", "INVERTED", **TEXT_INDEX))
    found.index("Doc", lambda table: table.create_index("id", "BTREE"))
    if vectors:
        found.index("Doc", lambda table: table.create_index("v", "IVF_FLAT", metric="l2"))
        found.index("Doc", lambda table: table.create_index("c", "IVF_FLAT", metric="cosine"))
    with found.lake.transaction("gone") as tx:
        tx["node:Doc"].delete(f"n = {number.randrange(10)}")
    found.add("Doc", drawn(number, 400, 60))
    there = found.lake.snapshot()["node:Doc"].scan(columns=["id"]).to_arrow().column("id").to_pylist()
    found.add("Author", [{"name": f"a{n}", "age": n} for n in range(30)])
    found.add("Wrote", [{"@id": f"e{n}", "src": f"a{number.randrange(30)}", "dst": d} for n, d in enumerate(there)])
    found.add("Cites", [{"@id": f"c{n}", "src": number.choice(there), "dst": d} for n, d in enumerate(there[::3])])
    return found


TEXT = [
    "match { $d: Doc search($d.body, $q) } return { $d.slug, bm25($d.body, $q) as s } order { s desc } limit 7",
    "match { $d: Doc } return { $d.slug } order { bm25($d.body, $q) desc } limit 5 offset 3",
    "match { $d: Doc } return { $d.slug, bm25($d.body, $q) as s } order { s desc } limit 300",  # also without a match
    "match { $d: Doc $d.n > 4 $a wrote $d } return { $a.name, $d.slug } order { bm25($d.body, $q) desc } limit 9",
    "match { $d: Doc $a wrote $d $a.age < 3 } return { $a.name, $d } order { bm25($d.body, $q) desc } limit 6",
    "match { $d: Doc search($d.body, $q) not { $d cites $e  $e.n > 2 } } return { $d.slug }"
    " order { bm25($d.body, $q) desc } limit 8",
    "match { $d: Doc match_text($d.body, $q) optional { $d cites $e } } return { $d.slug, $e.slug }"
    " order { bm25($d.body, $q) desc } limit 8",
    'match { $a: Author { name: "a7" }  $a wrote $d } return { $d.slug } order { bm25($d.body, $q) desc } limit 3',
]
VECTOR = [
    "match { $d: Doc } return { $d.slug, nearest($d.v, $v) as s } order { s } limit 7",
    "match { $d: Doc } return { $d.slug } order { nearest($d.c, $v) } limit 6 offset 2",
    "match { $d: Doc } return { $d.slug } order { nearest($d.c, $v) } limit 200",  # as far as vectors of zeros
    "match { $d: Doc $d.n > 6 $a wrote $d $a.age > 20 } return { $a.name, $d.slug }"
    " order { nearest($d.v, $v) } limit 9",
    "match { $d: Doc search($d.body, $q) not { $a wrote $d $a.age < 20 } } return { $d.slug }"
    " order { nearest($d.v, $v) } limit 5",
    "match { $d: Doc } return { $d.slug } order { nearest($d.v, $v) } limit 2000",  # more than there are
]


def both_ways(given: Given, body: str, signature: str, **values: Any) -> tuple[list[Any], list[Any], str | None]:
    checked = given.checked(body, signature)
    bound, at = bind(checked, values), given.lake.snapshot()
    ranked = run(checked, at, bound)
    return ranked.to_pylist(), run(checked, at, bound, reduce=False).to_pylist(), ranked.approximate


def alike(one: list[Any], other: list[Any]) -> bool:
    """The same rows in the same order; floats differ by rounding."""
    if len(one) != len(other):
        return False
    for left, right in zip(one, other, strict=True):
        for a, b in zip(left.values(), right.values(), strict=True):
            if not (math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12) if isinstance(a, float) else a == b):
                return False
    return True


@pytest.mark.parametrize("seed", [1, 2])
def test_text_is_ranked_as_if_every_row_was_looked_at(seed: int) -> None:
    given, number = made(seed, vectors=False), random.Random(seed)
    for body in TEXT:
        for words in (1, 2, 4):
            query = " ".join(number.choices(WORDS[: 30 * words], k=words))
            found, wanted, approximate = both_ways(given, body, TEXT_QUERY, q=query)
            assert approximate is None
            assert alike(found, wanted), (body, query)


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("indexes", [False, True])
def test_vectors_are_ranked_as_if_every_row_was_looked_at(seed: int, indexes: bool) -> None:
    given, number = made(seed, vectors=indexes), random.Random(seed)
    for body in VECTOR:
        vector = [number.uniform(-2, 2) for _ in range(4)]
        signature = BOTH if "$q" in body else "$v: Vector(4)"
        values = {"q": "waa wab wac"} if "$q" in body else {}
        found, wanted, approximate = both_ways(given, body, signature, v=vector, **values)
        assert alike(found, wanted), body  # the index has as many partitions as are probed
        assert approximate is None or indexes


def test_an_index_of_text_answers_without_reading_all_texts() -> None:
    given = made(5, vectors=False)
    checked = given.checked(TEXT[0], TEXT_QUERY)
    told = explain(checked, given.lake.snapshot(), bind(checked, {"q": "wcc wdd"}), analyze=True)
    [scan] = told.scans
    assert scan.rows is not None
    assert scan.rows < 60
    assert "text index" in told.ranking
    assert "exact" in told.ranking


def test_who_asks_for_exactness_gets_it_and_who_does_not_is_told() -> None:
    given = made(6, vectors=True)
    checked = given.checked(VECTOR[0], "$v: Vector(4)")
    bound, at = bind(checked, {"v": [0.5, 0.5, 0.0, 1.0]}), given.lake.snapshot()
    assert "vector index, 3 partitions" in str(run(checked, at, bound, settings=Settings(nprobes=3)).approximate)
    exact = run(checked, at, bound, settings=Settings(exact=True))
    assert exact.approximate is None
    assert alike(exact.to_pylist(), run(checked, at, bound, reduce=False).to_pylist())
    told = explain(checked, at, bound, analyze=True, settings=Settings(nprobes=3))
    assert "approximate: vector index, 3 partitions" in told.ranking
    assert "approximate" in str(told)


FUSED = (
    "match { $d: Doc $a wrote $d } return { $d.slug, $a.name, rrf(nearest($d.v, $v), bm25($d.body, $q)) as s }"
    " order { s desc } limit 10"
)


@pytest.mark.parametrize("seed", [7, 8])
def test_fused_ranks_find_nearly_all_and_say_that_they_are_approximate(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "FUSED", 200)
    given, number, hits, turns = made(seed, vectors=True), random.Random(seed), 0, 8
    checked, at = given.checked(FUSED, BOTH), given.lake.snapshot()
    for _ in range(turns):
        words = " ".join(number.choices(WORDS[:40], k=3))
        bound = bind(checked, {"q": words, "v": [number.uniform(-2, 2) for _ in range(4)]})
        found = run(checked, at, bound)
        wanted = run(checked, at, bound, reduce=False).to_pylist()
        assert found.approximate is not None
        assert "first 200 rows" in found.approximate
        hits += len({r["d.slug"] for r in found.to_pylist()} & {r["d.slug"] for r in wanted})
        exact = run(checked, at, bound, settings=Settings(exact=True))
        assert exact.approximate is None
        assert alike(exact.to_pylist(), wanted)
    assert hits >= 0.9 * 10 * turns


def test_equal_vectors_have_equal_places() -> None:
    """Rows at one distance are in the order of their ids, whichever of them are candidates."""
    rows = [
        {"slug": f"d{n:04}", "body": "waa", "n": 0, "v": [1.0, float(n % 3), 0.3, 0.1], "c": None} for n in range(300)
    ]
    given = graph(SCHEMA, Doc=rows)
    body = "match { $d: Doc } return { $d.slug } order { nearest($d.v, $v) } limit 20"
    found, wanted, _ = both_ways(given, body, "$v: Vector(4)", v=[0.1, 0.0, 0.7, 0.3])
    assert found == wanted
    given.index("Doc", lambda table: table.create_index("body", "INVERTED", **TEXT_INDEX))
    body = "match { $d: Doc } return { $d.slug } order { bm25($d.body, $q) desc } limit 20"
    found, wanted, _ = both_ways(given, body, TEXT_QUERY, q="waa")
    assert found == wanted


def test_texts_that_an_index_splits_otherwise_are_looked_at() -> None:
    """A mark belongs to the word for Quire and ends it for Lance, so that scores say nothing of each other."""
    rows = [
        {"slug": f"d{n:04}", "body": "wai\u0308b waa" if n % 2 else "wai", "n": 0, "v": None, "c": None}
        for n in range(99)
    ]
    given = graph(SCHEMA, Doc=rows)
    given.index("Doc", lambda table: table.create_index("body", "INVERTED", **TEXT_INDEX))
    found, wanted, _ = both_ways(given, TEXT[0], TEXT_QUERY, q="wai")
    assert alike(found, wanted)
    assert np.isfinite(found[0]["s"])


def test_settings_are_whole_numbers_above_nothing() -> None:
    assert Settings.of(False, None, None) == Settings()
    assert Settings.of(True, 3, 2) == Settings(True, 3, 2)
    for nprobes, refine in ((0, None), (None, -1)):
        with pytest.raises(InvalidInput, match="nprobes" if refine is None else "refine"):
            Settings.of(False, nprobes, refine)
