"""A graph with every kind of type and rule, twice: what one engine does to it is compared with the other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import quire
from quire.errors import QuireError
from quire.graph.embed import HashEmbedder

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  city: String
  level: I32 @default(1)
  mood: enum(happy, sad)?
  photo: Blob?
  text: String?
  vec: Vector(4)? @embed("text", model="hash-4")
  @range(age, 0..150)
  @check(email, "[^@]+@[^@]+")
}
node City { name: String @key }
node House { no: I64 @key }
node Note { text: String  stars: I32? }
node Tag { word: String  n: I32?  @unique(word) }
edge Knows: Person -> Person { why: String?  n: I32? @unique(src, dst) }
edge Likes: Person -> Person { n: I32? }
edge LivesIn: Person -> City @card(0..1)
edge Has: House -> City @card(1..2)
"""


def node(type: str, id: str | None = None, /, **data: Any) -> dict[str, Any]:
    return {"type": type, **({} if id is None else {"id": id}), "data": data}


def edge(type: str, source: Any, target: Any, id: str | None = None, /, **data: Any) -> dict[str, Any]:
    return {"edge": type, "from": source, "to": target, **({} if id is None else {"id": id}), "data": data}


def person(name: str, **data: Any) -> dict[str, Any]:
    return node("Person", name=name, **{"city": "Ulm", **data})


BASE = [
    *(person(f"p{i}", age=20 + i, email=f"p{i}@x", photo="base64:AAEC", text=f"likes tea {i}") for i in range(6)),
    *(node("City", name=name) for name in ("Ulm", "Rome", "Oslo")),
    node("House", no=1),
    edge("Has", 1, "Ulm"),
    node("Note", "n1", text="first"),
    node("Note", "n2", text="second", stars=2),
    node("Tag", "t1", word="red", n=1),
    node("Tag", "t2", word="blue", n=2),
    edge("Knows", "p0", "p1", "k1", why="old", n=1),
    edge("Knows", "p1", "p2", "k2", why="old", n=2),
    edge("Likes", "p0", "p3", "l1", n=1),
    edge("LivesIn", "p0", "Ulm", "v1"),
]


def prepared(folder: Path) -> Path:
    """A lake with the graph, to be copied."""
    with quire.create(folder, backfill=False) as lake:
        graph = quire.Graph(lake, embedder=HashEmbedder(4))
        graph.apply_schema(SCHEMA)
        graph.load(BASE)
    return folder


def copies(prepared: Path, folder: Path) -> tuple[quire.Graph, quire.Graph]:
    """The same graph twice: for this process, and for Spark."""
    made = []
    for name in ("here", "there"):
        shutil.copytree(prepared, folder / name)
        made.append(quire.Graph(quire.open(folder / name, backfill=False), embedder=HashEmbedder(4)))
    return made[0], made[1]


def written(folder: Path, files: Iterable[Iterable[Any]]) -> str:
    """Files of NDJSON; text is a line as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(files):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (folder / f"{number}.jsonl").write_text("".join(line + "\n" for line in lines), "utf-8")
    return str(folder / "*.jsonl")


def content(graph: quire.Graph) -> dict[str, list[dict[str, Any]]]:
    """All rows with their blobs. Ids that were made are left out: they differ between two loads."""
    found = {}
    for entity in graph.catalog().entities:
        rows = graph.lake[entity.table].to_pylist()
        for row in rows:
            if len(row["id"]) == 36:
                del row["id"]
            if entity.name == "Person":
                blob = graph.blob("Person", row["name"], "photo")
                row["photo"] = None if blob is None else blob.read()
        found[entity.name] = sorted(rows, key=str)
    return found


@dataclass(frozen=True)
class Outcome:
    """What a load did or told, as far as both engines must agree on it."""

    content: dict[str, list[dict[str, Any]]]
    error: str | None
    types: Any
    rejected: int
    violations: list[tuple[Any, ...]]
    count: int
    rejects: list[tuple[Any, ...]]


def told(violation: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(violation.get(name) for name in ("type", "rule", "property", "file", "line"))


def loaded(graph: quire.Graph, source: Any, mode: Any, rejects: Path | None = None, **how: Any) -> Outcome:
    error: QuireError | None = None
    types: Any = None
    rejected, violations, count = 0, [], 0
    try:
        done = graph.load(source, mode, rejects=None if rejects is None else str(rejects), **how)
    except QuireError as caught:
        error = caught
        violations = [told(v) for v in caught.fields.get("violations", ())]
        count = caught.fields.get("count", 0)
    else:
        types, rejected = done.types, done.rejected
        violations = [told(v.to_dict()) for v in done.violations]
    kind = None if error is None else type(error).__name__
    return Outcome(content(graph), kind, types, rejected, violations, count, rejects_in(rejects))


def rejects_in(path: Path | None) -> list[tuple[Any, ...]]:
    """The lines of a file of rejects, or of all files of a folder, without ids that were made."""
    if path is None or not path.exists():
        return []
    files = [path] if path.is_file() else list(path.glob("*.ndjson"))
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    for row in rows:
        if isinstance(row["row"], dict) and len(str(row["row"].get("id"))) == 36:
            del row["row"]["id"]
    return sorted(((*told(row), json.dumps(row["row"], sort_keys=True)) for row in rows), key=str)
