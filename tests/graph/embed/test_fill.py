"""Vectors that are made from texts: on every way in, once, by the right model."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quire
from quire.errors import EmbedderError, IntegrityError, Refused, Unsupported
from quire.graph.embed import HashEmbedder
from quire.graph.embed.fill import AT_ONCE
from quire.graph.graph import Graph
from quire.graph.load import load
from quire.graph.schema.apply import apply

SCHEMA = """
node Doc {
  key: String @key
  text: String?
  note: String?
  vec: Vector(4)? @embed("text", model="hash-4")
}
node Must { key: String @key  text: String  vec: Vector(4) @embed("text") }
edge Cites: Doc -> Doc { why: String?  vec: Vector(4)? @embed("why") @unique(src, dst) }
"""


class Counting(HashEmbedder):
    """Remembers what it was asked for."""

    def __init__(self, dimension: int = 4, **more: Any) -> None:
        super().__init__(dimension, **more)
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        return super().embed(texts)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    with quire.create(str(tmp_path / "lake"), backfill=False) as made:
        Graph(made).apply_schema(SCHEMA)
        yield made


def vector(text: str) -> list[float]:
    return pytest.approx(HashEmbedder(4).embed([text])[0], abs=1e-6)  # type: ignore[return-value]


def vectors(graph: Graph, table: str = "node:Doc") -> dict[str, Any]:
    return {r.get("key", r["id"]): r["vec"] for r in graph.lake[table].scan(columns=None).to_pylist()}


def docs(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "Doc", "data": row} for row in rows]


@pytest.mark.parametrize("kind", ["ndjson", "csv", "table"])
def test_a_vector_that_is_not_given_is_made_from_its_text(lake: quire.Lake, tmp_path: Path, kind: str) -> None:
    graph = Graph(lake, embedder=Counting())
    rows = [{"key": "a", "text": "red fox"}, {"key": "b", "text": None}, {"key": "c", "text": "red fox"}]
    if kind == "ndjson":
        graph.load(docs(*rows))
    elif kind == "csv":
        path = tmp_path / "Doc.csv"
        path.write_text("key,text\na,red fox\nb,\nc,red fox\n")
        graph.load(path)
    else:
        graph.load(pa.Table.from_pylist(rows), type="Doc")
    assert vectors(graph) == {"a": vector("red fox"), "b": None, "c": vector("red fox")}
    assert graph.embedder.asked == ["red fox"]  # type: ignore[union-attr]


def test_a_vector_that_is_given_is_kept(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Counting())
    graph.load(docs({"key": "a", "text": "x", "vec": [1, 2, 3, 4]}, {"key": "b", "text": "y"}))
    assert vectors(graph) == {"a": [1, 2, 3, 4], "b": vector("y")}


@pytest.mark.parametrize("mode", ["merge", "overwrite"])
def test_a_new_text_gets_a_new_vector(lake: quire.Lake, mode: Any) -> None:
    graph = Graph(lake, embedder=Counting())
    graph.load(docs({"key": "a", "text": "old"}))
    graph.load(docs({"key": "a", "text": "new"}), mode)
    assert vectors(graph) == {"a": vector("new")}


def test_a_merge_embeds_only_texts_that_changed(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Counting())
    rows = [{"key": "a", "text": "old"}, {"key": "b", "text": "same"}, {"key": "c"}, {"key": "g", "text": "given"}]
    graph.load(docs(*rows[:3], {**rows[3], "vec": [1, 2, 3, 4]}))
    graph.embedder.asked.clear()  # type: ignore[union-attr]
    merged = [
        {"key": "a", "text": "new"},
        {"key": "c", "text": "same"},
        {"key": "d", "text": "old"},
        *rows[1:2],
        rows[3],
    ]
    done = graph.load(docs(*merged), "merge")
    assert (done.inserted, done.updated) == ({"Doc": 1}, {"Doc": 4})
    assert sorted(graph.embedder.asked) == ["new", "old", "same"]  # type: ignore[union-attr]
    said = {"a": "new", "b": "same", "c": "same", "d": "old"}
    assert vectors(graph) == {**{key: vector(text) for key, text in said.items()}, "g": [1, 2, 3, 4]}
    with pytest.raises(Refused):
        Graph(lake, embedder=Counting(4, model="other")).load(docs(rows[1]), "merge")


def test_a_merge_of_edges_embeds_only_texts_that_changed(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Counting())
    ends = [("a", "b"), ("b", "a")]
    edges = [{"edge": "Cites", "from": s, "to": t, "data": {"why": f"{s} {t}"}} for s, t in ends]
    graph.load([*docs({"key": "a"}, {"key": "b"}), *edges])
    graph.load([edges[0], {**edges[1], "data": {"why": "else"}}], "merge")
    assert graph.embedder.asked == ["a b", "b a", "else"]  # type: ignore[union-attr]
    found = {r["why"]: r["vec"] for r in lake["edge:Cites"].to_pylist()}
    assert found == {"a b": vector("a b"), "else": vector("else")}


def test_a_merge_of_many_rows_finds_the_texts_that_are_there(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Counting())
    rows = [{"key": f"{n:04}", "text": f"text {n}"} for n in range(2_100)]
    graph.load(pa.Table.from_pylist(rows), type="Doc")
    graph.embedder.asked.clear()  # type: ignore[union-attr]
    graph.load(pa.Table.from_pylist([{**rows[0], "text": "new"}, *rows[1:]]), "merge", type="Doc")
    assert graph.embedder.asked == ["new"]  # type: ignore[union-attr]
    found = vectors(graph)
    assert (found["0000"], found["2099"], len(found)) == (vector("new"), vector("text 2099"), 2_100)


def test_a_merge_after_a_change_of_the_model_takes_over_no_vector_of_the_old_one(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Counting())
    graph.load(docs({"key": "a", "text": "same"}))
    embedder = Counting(4, model="next")
    with lake.transaction() as tx:
        apply(tx, SCHEMA.replace("hash-4", "next"), drop_data=True)
        load(tx, docs({"key": "a", "text": "same"}), "merge", embedder=embedder)
    assert embedder.asked == ["same"]


def test_edges_have_vectors_too(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Counting())
    edge = {"edge": "Cites", "id": "e", "from": "a", "to": "a", "data": {"why": "because"}}
    graph.load([*docs({"key": "a"}), edge])
    assert vectors(graph, "edge:Cites") == {"e": vector("because")}


def test_a_mutation_makes_vectors_of_what_it_writes(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Counting())
    graph.mutate('query m() { insert Doc { key: "a", text: "one" } insert Doc { key: "b", text: "two" } }')
    assert vectors(graph) == {"a": vector("one"), "b": vector("two")}
    graph.mutate('query m() { update Doc set { text: "three" } where key = "a" }')
    assert vectors(graph)["a"] == vector("three")
    graph.mutate('query m() { update Doc set { note: "n" } where key = "a" }')
    assert vectors(graph)["a"] == vector("three")
    graph.mutate('query m() { update Doc set { text: "x", vec: [1.0, 0.0, 0.0, 0.0] } where key = "a" }')
    assert vectors(graph)["a"] == [1, 0, 0, 0]
    graph.mutate('query m($t: String?) { update Doc set { text: $t } where key = "a" }', t=None)
    assert vectors(graph)["a"] is None


def test_without_an_embedder_an_optional_vector_is_null_and_counted(lake: quire.Lake) -> None:
    graph = Graph(lake)
    done = graph.load(docs({"key": "a", "text": "x"}, {"key": "b"}, {"key": "c", "text": "z", "vec": [0, 0, 0, 1]}))
    assert done.types["Doc"].unembedded == 1
    assert vectors(graph) == {"a": None, "b": None, "c": [0, 0, 0, 1]}
    graph.mutate('query m() { update Doc set { text: "other" } where key = "c" }')
    assert vectors(graph)["c"] is None  # never the vector of another text


def test_without_an_embedder_a_required_vector_says_how_to_get_one(lake: quire.Lake) -> None:
    graph = Graph(lake)
    for attempt in (
        lambda: graph.load([{"type": "Must", "data": {"key": "a", "text": "x"}}]),
        lambda: graph.mutate('query m() { insert Must { key: "a", text: "x" } }'),
    ):
        with pytest.raises(Unsupported, match=r"Must\.vec is required") as caught:
            attempt()
        assert "Graph(lake, embedder=" in (caught.value.next or "")
    graph.load([{"type": "Must", "data": {"key": "a", "text": "x", "vec": [1, 1, 1, 1]}}])
    assert vectors(graph, "node:Must") == {"a": [1, 1, 1, 1]}


def test_a_required_vector_without_a_text_is_a_row_that_breaks_a_rule(lake: quire.Lake) -> None:
    with pytest.raises(IntegrityError) as caught:
        Graph(lake, embedder=Counting()).load([{"type": "Must", "data": {"key": "a"}}])
    assert {(v["rule"], v["property"]) for v in caught.value.violations} == {("required", "text"), ("required", "vec")}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Counting(4, model="other"), "'hash-4'.*'other'"),
        (Counting(5, model="hash-4"), "4 dimensions.*has 5"),
    ],
)
def test_another_model_or_dimension_is_refused_everywhere(lake: quire.Lake, made: Counting, said: str) -> None:
    graph = Graph(lake, embedder=made)
    read = 'query q() { match { $d: Doc } return { $d.key as key } order { nearest($d.vec, "x") } limit 3 }'
    for attempt in (
        lambda: graph.load(docs({"key": "a", "text": "x"})),
        lambda: graph.load(docs({"key": "a", "text": "x"}), dry_run=True),
        lambda: graph.mutate('query m() { insert Doc { key: "a", text: "x" } }'),
        lambda: graph.query(read).to_pylist(),
    ):
        with pytest.raises(Refused, match=said):
            attempt()
    assert made.asked == []
    assert graph.lake["node:Doc"].count() == 0


def test_a_text_is_searched_for_with_the_model_that_made_the_vectors(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=HashEmbedder(4))
    graph.load(docs({"key": "a", "text": "red fox"}, {"key": "b", "text": "blue whale"}, {"key": "c"}))
    read = "query q($t: String) { match { $d: Doc } return { $d.key as key } order { nearest($d.vec, $t) } limit 1 }"
    assert graph.query(read, t="a fox that is red").to_pylist() == [{"key": "a"}]
    with pytest.raises(Unsupported, match="no embedder is configured"):
        Graph(lake).query(read, t="x").to_pylist()


def test_a_dry_run_asks_for_nothing(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Counting())
    done = graph.load([{"type": "Must", "data": {"key": "a", "text": "x"}}], dry_run=True)
    assert done.types["Must"].inserted == 1
    assert graph.embedder.asked == []  # type: ignore[union-attr]


def test_rows_that_are_wrong_anyway_are_not_embedded(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Counting())
    rows = docs({"key": "a", "text": "good"}, {"key": "b", "text": "bad", "colour": "red"})
    assert graph.load(rows, skip_rejects=True).types["Doc"].rejected == 1
    assert graph.embedder.asked == ["good"]  # type: ignore[union-attr]


def test_a_mutation_that_is_run_again_does_not_ask_again(lake: quire.Lake) -> None:
    """Somebody else takes the key while the vector is being made, so the statements run a second time."""
    rival = Graph(lake, embedder=HashEmbedder(4))

    class Overtaken(Counting):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            thread = threading.Thread(target=lambda: rival.load(docs({"key": "a", "text": "theirs"})))
            thread.start()
            thread.join()
            return super().embed(texts)

    graph = Graph(lake, embedder=Overtaken())
    graph.mutate('query m() { update Doc set { note: "n" } where key = "a" insert Doc { key: "a", text: "mine" } }')
    assert vectors(graph) == {"a": vector("mine")}
    assert graph.embedder.asked == ["mine"]  # type: ignore[union-attr]


def test_many_texts_are_made_in_parts_with_progress(lake: quire.Lake) -> None:
    class Parts(Counting):
        largest = 0

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            self.largest = max(self.largest, len(texts))
            return super().embed(texts)

    made, told = Parts(), []
    graph = Graph(lake, embedder=made)
    rows = [{"key": str(i), "text": f"text {i}"} for i in range(AT_ONCE + 10)]
    graph.load(pa.Table.from_pylist(rows), type="Doc", progress=lambda what, n, total: told.append((what, n)))
    assert made.largest == AT_ONCE
    assert [n for name, n in told if name == "embedding Doc.vec"] == [AT_ONCE, AT_ONCE + 10]
    assert sum(v is None for v in vectors(graph).values()) == 0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], "0 vectors for 1 texts"),
        ([[1.0] * 3], "has 3"),
        ([[float("nan")] * 4], "not finite"),
        ([[1e300] * 4], "not"),
    ],
)
def test_an_embedder_that_answers_wrongly_stops_the_load(lake: quire.Lake, answer: Any, said: str) -> None:
    class Wrong:
        model, dimension = "hash-4", None

        def embed(self, texts: Sequence[str]) -> Any:
            return answer

    with pytest.raises((EmbedderError, Refused), match=said):
        Graph(lake, embedder=Wrong()).load(docs({"key": "a", "text": "x"}))
    assert lake["node:Doc"].count() == 0
