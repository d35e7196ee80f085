"""Lakes for the pages: two branches that both changed the same rows, a merge request, a tag, a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import quire

SCHEMA = """
node Person { name: String @key  city: String?  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
edge WorksAt: Person -> Company { @unique(src, dst) }
"""


def lake(path: Path, *, people: int = 24) -> quire.Lake:
    """A lake with something on every page."""
    made = quire.create(path, author="ada")
    with made.transaction("Load the first documents") as tx:
        rows = [
            {
                "id": i,
                "title": f"Document {i}",
                "lang": ("en", "de", "fr")[i % 3],
                "score": i / 7,
                "pages": i * 37 % 400,
            }
            for i in range(400)
        ]
        tx.create_table("documents", rows, key="id")
        tx.create_table("empty", schema=pa.schema({"id": pa.int64(), "note": pa.string()}), key="id")
    made.tag("v1", message="first release")
    with made.transaction("Nightly ingest") as tx:
        tx["documents"].upsert([{**row, "pages": 1} for row in rows[200:220]])
    made.create_branch("trial")
    with quire.open(path, author="grace").branch("trial").transaction("Rescore") as tx:
        tx["documents"].update({"score": "score * 2", "title": "title || '!'"}, where="id between 1 and 6")
    with made.transaction("Fix titles and scores") as tx:
        tx["documents"].update({"score": "score + 1"}, where="id between 1 and 4")
    fill_graph(made, people)
    made.requests.open("trial", "Rescore the documents", "It doubles the first ones.", into="main")
    made.flush()
    return made


def fill_graph(made: quire.Lake, people: int) -> None:
    """People in a ring who know each other, with some chords, and where they work."""
    graph = quire.Graph(made)
    graph.apply_schema(SCHEMA)
    lines: list[dict[str, Any]] = [{"type": "Company", "data": {"name": f"Company {n}"}} for n in range(3)]
    for n in range(people):
        lines.append({"type": "Person", "data": {"name": f"Person {n}", "city": "Oslo", "age": 20 + n % 60}})
    for n in range(people):
        for step in (1, 7):
            if people > step:
                ends = {"from": f"Person {n}", "to": f"Person {(n + step) % people}"}
                lines.append({"edge": "Knows", **ends, "data": {}})
        lines.append({"edge": "WorksAt", "from": f"Person {n}", "to": f"Company {n % 3}", "data": {}})
    graph.load(lines, mode="append")
