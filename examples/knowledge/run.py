"""A knowledge graph from files to answers: `python examples/knowledge/run.py [DIRECTORY] [--documents 400]`.

It makes DIRECTORY (./knowledge by default, removed and made again at each run) with the files and the lake.
docs/guides/knowledge.md walks through it.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from archive import Archive
from rich.console import Console
from rich.table import Table as Grid

import quire
from quire.graph.embed import HashEmbedder

HERE = Path(__file__).parent
console = Console(highlight=False, soft_wrap=True)


def main() -> None:
    given = argparse.ArgumentParser(description="A knowledge graph from files to answers.")
    given.add_argument("directory", nargs="?", type=Path, default=Path("knowledge"))
    given.add_argument("--documents", type=int, default=400)
    arguments = given.parse_args()
    if arguments.directory.exists():
        if not (arguments.directory / "lake").is_dir():
            given.error(f"{arguments.directory} is there, and not from an earlier run: give another directory.")
        shutil.rmtree(arguments.directory)
    files = Archive(arguments.documents).write(arguments.directory / "files")
    with quire.create(arguments.directory / "lake") as lake:
        graph = quire.Graph(lake, embedder=HashEmbedder(64))
        build(graph, files)
        ask(graph)
        change(graph)
        look_back(graph)


def build(graph: quire.Graph, files: list[Path]) -> None:
    title("A schema, and everything in one commit")
    applied = graph.apply_schema(HERE / "schema.pg")
    say(f"the schema made {len(applied.steps)} steps")
    loaded = graph.load(files, mode="merge", message="the archive")
    grid([{"type": name, "rows": count} for name, count in sorted(loaded.inserted.items())])
    assert loaded.receipt is not None
    say(f"{sum(loaded.inserted.values())} rows of {len(loaded.inserted)} types are commit {loaded.receipt.commit}")
    again = graph.load(files, mode="merge", message="the archive, once more")
    say(f"loaded once more: {sum(again.inserted.values())} inserted, {sum(again.updated.values())} updated")


def ask(graph: quire.Graph) -> None:
    title("Stored queries")
    names = graph.store(HERE / "queries.gq")
    say(", ".join(names))
    first, *_, last = (row["name"] for row in graph.find("Person").select("name").order("name").to_pylist())
    company = graph.find("Organisation", kind="company").order("name").first()
    assert company is not None
    asked: list[tuple[str, dict[str, Any]]] = [
        ("about", {"question": "storm surge and the mooring of buoys"}),
        ("evidence", {"question": "beetle damage to spruce", "since": "2018-01-01"}),
        ("spokespeople", {"organisation": company["name"]}),
        ("silent", {}),
        ("reach", {"name": first}),
        ("path", {"from": first, "to": last}),
    ]
    for name, values in asked:
        console.print(f"\n  [green]{name}[/] {values}")
        grid(graph.query(name, params=values).to_pylist())


def change(graph: quire.Graph) -> None:
    title("Changes keep the rules")
    company = graph.find("Organisation", kind="company").order("name").first()
    assert company is not None
    hired = {
        "name": "New Colleague",
        "email": "new@example.org",
        "organisation": company["name"],
        "since": "2024-05-01",
    }
    done = graph.mutate("hire", params=hired)
    assert done.receipt is not None
    say(f"hired: {done.inserted} in commit {done.receipt.commit}")
    for wrong in ({**hired, "name": "Other", "organisation": "Nowhere Works"}, {**hired, "name": "Other"}):
        try:
            graph.mutate("hire", params=wrong)
        except quire.errors.IntegrityError as error:
            say(f"refused: {error.message}")
    left = graph.mutate("leave", name="New Colleague")
    say(f"left: {left.deleted}, the edge with the person")
    assert graph.node("Person", "Other") is None


def look_back(graph: quire.Graph) -> None:
    title("The past, and other tools")
    hired = next(c for c in graph.lake.log() if "hire" in c.message)
    then = graph.lake.at(commit=hired.id)
    around = graph.neighbours("Person", "New Colleague", at=then)
    say(f"at commit {hired.id}: {[(n.edge, n.node['name']) for n in around]}")
    import networkx

    known = graph.to_networkx(["Person"])
    between = networkx.betweenness_centrality(networkx.DiGraph(known))
    best = sorted(between, key=lambda node: -between[node])[:3]
    say(f"between most others, by networkx: {', '.join(id for _, id in best)}")


def title(text: str) -> None:
    console.print(f"\n[bold cyan]{text}[/]")


def say(text: str) -> None:
    console.print(f"  {text}", markup=False)


def grid(rows: list[dict[str, Any]]) -> None:
    shown = Grid(box=None, pad_edge=False, header_style="bold")
    for name in rows[0] if rows else ("no rows",):
        shown.add_column(name)
    for row in rows:
        shown.add_row(*(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()))
    console.print(shown)


if __name__ == "__main__":
    main()
