"""Vectors that stored texts lack: made in commits of bounded size, which stay whatever happens next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.errors import Denied, EmbedderError, InvalidInput, NotFound, Refused, Unsupported
from quire.graph.embed import HashEmbedder
from quire.graph.graph import Graph

SCHEMA = """
node Doc { key: String @key  text: String?  vec: Vector(4)? @embed("text", model="hash-4") }
node Must { key: String @key  text: String  vec: Vector(4) @embed("text") }
node Bare { key: String @key }
edge Cites: Doc -> Doc { why: String?  vec: Vector(4)? @embed("why") }
"""


class Acting(HashEmbedder):
    """Remembers what it was asked for, and does something before its n-th answer."""

    def __init__(self, *acts: Callable[[], Any], model: str | None = None) -> None:
        super().__init__(4, model=model)
        self.asked: list[str] = []
        self.acts = list(acts)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        if self.acts:
            self.acts.pop(0)()
        return super().embed(texts)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[quire.Lake]:
    """Five texts without vectors, one row without a text, and a text whose vector was given."""
    with quire.create(str(tmp_path / "lake"), backfill=False) as made:
        graph = Graph(made)
        graph.apply_schema(SCHEMA)
        rows = [{"key": f"d{n}", "text": f"text {n}"} for n in range(5)]
        rows += [{"key": "none"}, {"key": "given", "text": "given", "vec": [1, 2, 3, 4]}]  # type: ignore[dict-item]
        edges = [{"edge": "Cites", "from": "d0", "to": "d1", "data": {"why": "because"}}]
        graph.load([*({"type": "Doc", "data": row} for row in rows), *edges])
        yield made


def vector(text: str) -> list[float]:
    return pytest.approx(HashEmbedder(4).embed([text])[0], abs=1e-6)  # type: ignore[return-value]


def vectors(lake: quire.Lake) -> dict[str, Any]:
    return {row["key"]: row["vec"] for row in lake["node:Doc"].to_pylist()}


def commits(lake: quire.Lake) -> list[str]:
    return [entry.message for entry in lake.log()]


def test_every_text_gets_its_vector_in_commits_of_bounded_size(lake: quire.Lake) -> None:
    embedder, told = Acting(), []
    graph = Graph(lake, embedder=embedder)
    done = graph.embed(
        rows_per_commit=2, progress=lambda *said: told.append(said), message="vectors", metadata={"job": "7"}
    )
    assert done.rows == {"Doc.vec": 5, "Cites.vec": 1}
    assert [receipt.tables for receipt in done.receipts if any(t.added > 2 for t in receipt.tables.values())] == []
    assert commits(lake)[:4] == ["vectors"] * 4
    assert done.to_dict()["commits"][-1] == lake.head
    assert dict(next(iter(lake.log())).metadata) == {"job": "7"}
    texts = {f"d{n}": vector(f"text {n}") for n in range(5)}
    assert vectors(lake) == {**texts, "none": None, "given": [1, 2, 3, 4]}
    assert [row["vec"] for row in lake["edge:Cites"].to_pylist()] == [vector("because")]
    assert told == [
        *[("embedding Doc.vec", n, 5) for n in (2, 4, 5)],
        ("embedding Cites.vec", 1, 1),
    ]
    asked = len(embedder.asked)
    again = graph.embed()
    assert (again.rows, again.receipts, len(embedder.asked), commits(lake)[4]) == ({}, (), asked, "load (append)")


def test_only_the_types_that_are_named(lake: quire.Lake) -> None:
    graph = Graph(lake, embedder=Acting())
    assert graph.embed(["Cites"]).rows == {"Cites.vec": 1}
    assert graph.embed(["Must"]).rows == {}  # required: none can lack
    for types, said in ((["Bare"], "no property with @embed"), (["Docs"], "Docs"), ("Doc", "list of text")):
        with pytest.raises(quire.QuireError, match=said):
            graph.embed(types)
    with pytest.raises(InvalidInput, match="rows_per_commit"):
        graph.embed(rows_per_commit=0)


@pytest.mark.parametrize("ends", [KeyboardInterrupt, EmbedderError])
def test_it_goes_on_where_it_was_ended(lake: quire.Lake, ends: type[BaseException]) -> None:
    def fail() -> None:
        raise ends("ended")

    with pytest.raises(ends) as caught:
        Graph(lake, embedder=Acting(lambda: None, fail)).embed(["Doc"], rows_per_commit=2)
    if isinstance(caught.value, EmbedderError):
        assert "2 vectors are committed already; run it again" in str(caught.value.next)
    assert sum(found is not None for found in vectors(lake).values()) == 3  # two, and the one that was given
    embedder = Acting()
    assert Graph(lake, embedder=embedder).embed(["Doc"], rows_per_commit=2).rows == {"Doc.vec": 3}
    assert len(embedder.asked) == 3
    assert all(found == vector(f"text {key[1:]}") for key, found in vectors(lake).items() if key.startswith("d"))


def test_a_text_that_others_change_meanwhile_gets_no_vector_of_the_old_one(lake: quire.Lake) -> None:
    def act() -> None:
        with quire.open(lake.uri, backfill=False) as other:
            graph = Graph(other)
            graph.mutate(
                'query m() { update Doc set { text: "another" } where key = "d1" delete Doc where key = "d2" }'
            )
            graph.mutate('query m() { update Doc set { text: null } where key = "d3" }')

    embedder = Acting(act)
    assert Graph(lake, embedder=embedder).embed(["Doc"]).rows == {"Doc.vec": 3}
    found = vectors(lake)
    assert found == {
        **{"d0": vector("text 0"), "d1": vector("another"), "d3": None, "d4": vector("text 4")},
        **{"none": None, "given": [1, 2, 3, 4]},
    }
    assert sorted(embedder.asked) == ["another", *(f"text {n}" for n in range(5))], "no text is asked for twice"


def test_a_change_of_the_model_makes_them_all_anew(lake: quire.Lake) -> None:
    Graph(lake, embedder=Acting()).embed()
    graph = Graph(lake, embedder=Acting(model="next"))
    with pytest.raises(Refused, match="hash-4"):
        graph.embed()
    graph.apply_schema(SCHEMA.replace("hash-4", "next"), drop_data=True)
    assert graph.embed().rows == {"Doc.vec": 6}
    assert vectors(lake)["given"] == vector("given")


def test_a_model_that_changes_meanwhile_is_refused_before_anything_is_written(lake: quire.Lake) -> None:
    def act() -> None:
        with quire.open(lake.uri, backfill=False) as other:
            Graph(other).apply_schema(SCHEMA.replace("hash-4", "next"), drop_data=True)

    with pytest.raises(Refused, match="next"):
        Graph(lake, embedder=Acting(act)).embed(["Doc"])
    assert vectors(lake)["d0"] is None


def test_without_an_embedder_it_says_how_to_get_one(lake: quire.Lake) -> None:
    with pytest.raises(Unsupported, match="no embedder is configured") as caught:
        Graph(lake).embed()
    assert "--embedder" in str(caught.value.next)


@pytest.mark.parametrize("hidden", ['unless { resource == Column::"node:Doc/text" }', "rows"])
def test_who_does_not_see_every_text_is_refused(lake: quire.Lake, hidden: str) -> None:
    column = {p.name: p.column for p in Graph(lake).catalog().node("Doc").defined.properties}["text"]
    seen = "" if hidden == "rows" else hidden.replace("/text", f"/{column}")
    lake.policy.set(f"""
        permit(principal, action == Action::"write", resource in Lake::"lake");
        permit(principal, action in Action::"read", resource in Lake::"lake") {seen};
        {
        'forbid(principal, action == Action::"readRow", resource in Table::"node:Doc") unless { resource.id == "d0" };'
        if not seen
        else ""
    }
    """)
    embedder = Acting()
    with quire.open(lake.uri, actor="ada", roles=["any"], backfill=False) as seen_by, pytest.raises((Denied, NotFound)):
        Graph(seen_by, embedder=embedder).embed(["Doc"])
    assert embedder.asked == []
