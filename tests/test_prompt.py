"""Every public class is one bounded line at a prompt, without a memory address, and escaped in a notebook.

Tables, rows, logs, differences, plans and catalogs are previews of their data and take several lines; what they show is
tested in `tests/lake/test_display.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quire
from quire import pipeline, prompt
from quire.graph.embed import HashEmbedder, OpenAIEmbedder
from quire.ledger import StreamToken

EVIL = "<script>\n" + "x" * 200
SCHEMA = "node Person { name: String @key  photo: Blob? }\nedge Knows: Person -> Person\n"
QUERY = "query all() { match { $p: Person } return { $p.name as name } }"


@dataclasses.dataclass(frozen=True)
class World:
    lake: quire.Lake
    graph: quire.Graph
    folder: Path

    def run(self, **options: Any) -> pipeline.Loaded:
        rows = [{"id": 2, "text": "two"}]
        return pipeline.run(
            self.lake, {"sources": [{"frame": "new", "table": "docs"}]}, frames={"new": rows}, **options
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("prompt")
    lake = quire.create(folder / "lake", author="ada", backfill=False)
    lake.create_table("docs", [{"id": 1, "text": "one"}], key="id")
    graph = quire.Graph(lake)
    graph.apply_schema(SCHEMA)
    graph.load([{"type": "Person", "data": {"name": EVIL, "photo": b"x"}}, {"type": "Person", "data": {"name": "Bo"}}])
    graph.load([{"edge": "Knows", "from": "Bo", "to": EVIL, "data": {}}])
    with lake:
        yield World(lake, graph, folder)


def receipt(world: World) -> quire.Receipt:
    with world.lake.transaction(EVIL) as tx:
        tx["docs"].upsert([{"id": 1, "text": "uno"}])
    return tx.receipt


def tagged(world: World) -> Any:
    world.lake.tag("named", message="<script>")
    return world.lake.tags()["named"]


def maintenance(world: World) -> Any:
    with world.lake.maintain(every=3600) as found:
        return found


def of_type(found: Any, kind: str) -> Any:
    assert type(found).__name__ == kind
    return found


SHOWN: dict[str, Callable[[World], Any]] = {
    "Lake": lambda w: w.lake,
    "Snapshot": lambda w: w.lake.snapshot(),
    "Transaction": lambda w: w.lake.transaction(EVIL),
    "TransactionTable": lambda w: w.lake.transaction()["docs"],
    "Receipt": receipt,
    "TableReceipt": lambda w: receipt(w).tables["docs"],
    "CommitInfo": lambda w: w.lake.show(receipt(w).commit or ""),
    "StreamToken": lambda w: StreamToken(EVIL, 3),
    "Outcome": lambda w: quire.Outcome.COMMITTED,
    "BranchInfo": lambda w: w.lake.branches()[0],
    "TagInfo": tagged,
    "RowDiff": lambda w: w.lake.diff("0.0")["docs"].rows,
    "Graph": lambda w: w.graph,
    "Applied": lambda w: w.graph.apply_schema(SCHEMA.replace("photo", "age: I32?  photo")),
    "LoadReceipt": lambda w: w.graph.load([{"type": "Person", "data": {"name": "Cy"}}]),
    "MutationReceipt": lambda w: w.graph.mutate('query add() { insert Person { name: "Di" } }'),
    "Explained": lambda w: w.graph.explain(QUERY, analyze=True),
    "Finding": lambda w: w.graph.lint(f"query q() {{ match {{ $p: X{'x' * 200} }} return {{ $p }} }}")[0],
    "Find": lambda w: w.graph.find("Person", name=EVIL),
    "Neighbour": lambda w: w.graph.neighbours("Person", "Bo")[0],
    "Blob": lambda w: w.graph.blob("Person", EVIL, "photo"),
    "Verification": lambda w: w.lake.verify(),
    "Optimized": lambda w: w.lake.optimize(),
    "TableOptimized": lambda w: w.lake.optimize()["docs"],
    "Cleaned": lambda w: w.lake.cleanup(dry_run=True),
    "Recovered": lambda w: w.lake.recover(),
    "Repaired": lambda w: w.lake.repair(dry_run=True),
    "Maintenance": maintenance,
    "Promotion": lambda w: w.lake.backfill()[0],
    "Exported": lambda w: w.lake.export(w.folder / "exported"),
    "ExportedTable": lambda w: w.lake.export(w.folder / "again").tables["docs"],
    "Loaded": lambda w: w.run(dry_run=True),
    "Fed": lambda w: w.run(dry_run=True).tables["docs"],
    "Pipeline": lambda w: pipeline.read_pipeline({"sources": [{"files": "<script>*.csv", "table": "docs"}]}),
    "Feed": lambda w: pipeline.read_pipeline({"sources": [{"files": "<script>*.csv", "table": "docs"}]}).sources[0],
    "Column": lambda w: pipeline.Column(sql=EVIL),
    "SnapshotLease": lambda w: w.lake.snapshot().lease(),
    "HashEmbedder": lambda w: HashEmbedder(4, model="<script>"),
    "OpenAIEmbedder": lambda w: OpenAIEmbedder("<script>", api_key="secret"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_public_class_is_one_line_and_escaped_in_a_notebook(world: World, name: str) -> None:
    thing = of_type(SHOWN[name](world), name)
    said = repr(thing)
    assert said.isprintable(), "one line"
    assert 3 < len(said) <= prompt.LONGEST
    assert not re.search(r"\bat 0x[0-9a-f]+", said)
    html = thing._repr_html_()
    assert "<script" not in html
    if "<script" in said:
        assert "&lt;script" in html


def test_what_people_read_is_what_happened(world: World) -> None:
    assert repr(world.lake.verify()).startswith("<Verification: ok; ")
    assert repr(world.run(dry_run=True)) == "<Loaded: append, dry run; docs +1 ~0 -0>"
    assert repr(quire.StreamToken("nightly", 7)) == "<StreamToken: nightly:7>"
    assert repr(world.graph.mutate('query none() { delete Person where name = "nobody" }')).startswith(
        "<MutationReceipt: "
    )
    assert repr(receipt(world).tables["docs"]).startswith("<TableReceipt: upsert +1 -1, version ")


def test_a_line_is_cut_and_has_no_control_characters() -> None:
    assert prompt.one_line("<a\nb>") == "<a\\nb>"
    cut = prompt.one_line(f"<{'x' * 500}>")
    assert (len(cut), cut[-2:]) == (prompt.LONGEST, "…>")
    assert [prompt.counted(n, "row") for n in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]
