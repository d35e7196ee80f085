"""A lake and a way to type commands at it."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import quire
from quire.cli import program as cli


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def lines(self) -> list[list[str]]:
        """A plain table, taken apart."""
        return [line.split() for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line as `quire` would, in a pipe; `stdin` is text or bytes."""

    def call(*arguments: object, stdin: str | bytes = b"", code: int | None = 0) -> Ran:
        body = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
        capsys.readouterr()
        got = cli.run([str(a) for a in arguments])
        text = capsys.readouterr()
        ran = Ran(got, text.out, text.err)
        assert code is None or ran.code == code, ran
        return ran

    return call


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    for variable in ("QUIRE_DEBUG", "QUIRE_STORAGE_OPTIONS", "QUIRE_EMBEDDER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("QUIRE_AUTHOR", "tester")
    return tmp_path


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "lake"
    with quire.create(place, author="tester") as made:
        with made.transaction("first") as tx:
            tx.create_table("people", [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}], key="id")
            tx.create_table("events", [{"id": 1, "v": 1.5}, {"id": 2, "v": 2.5}])
        with made.transaction("second") as tx:
            tx["people"].upsert([{"id": 2, "name": "Bobby"}, {"id": 3, "name": "Cy"}])
    return place


@pytest.fixture
def lake(here: Path, template: Path) -> str:
    """A lake with `people` (key id; commits 1.0 and 2.0) and `events` (commit 1.0). A lake can be copied as it lies."""
    shutil.copytree(template, here / "lake")
    return "lake"


def rows(lake: str, table: str, **at: Any) -> list[dict[str, Any]]:
    """The table's rows as the library reads them, by id."""
    handle = quire.open(lake, read_only=True)
    snap = handle.at(**at) if at else handle.snapshot()
    return sorted(snap[table].to_pylist(), key=lambda row: row["id"])


SCHEMA = """\
// who knows whom
node Person {
  name: String @key
  age: I32?
  @range(age, 0..150)
}
node Company { name: String @key  kind: enum(public, private)? }
edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
edge WorksAt: Person -> Company
"""
PEOPLE = [
    {"type": "Person", "data": {"name": "Ada", "age": 36}},
    {"type": "Person", "data": {"name": "Bo"}},
    {"type": "Person", "data": {"name": "Cy", "age": 7}},
    {"type": "Company", "data": {"name": "Acme", "kind": "private"}},
    {"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"since": "2020-01-01"}},
    {"edge": "WorksAt", "from": "Ada", "to": "Acme"},
]
FRIENDS = """query friends($name: String) @description("Whom somebody knows") {
  match { $p: Person { name: $name }  $p knows $f }
  return { $f.name as name }
}
"""
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }\n"


@pytest.fixture(scope="session")
def graph_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("graph") / "lake"
    with quire.create(place, author="tester") as made:
        graph = quire.Graph(made)
        graph.apply_schema(SCHEMA)
        graph.load(PEOPLE)
        graph.store(FRIENDS + ADD)
    return place


@pytest.fixture
def graph(here: Path, graph_template: Path) -> str:
    """A graph: its schema (commit 1.0), three people and a company (2.0), the stored queries friends and add (3.0)."""
    shutil.copytree(graph_template, here / "graph")
    return "graph"


def asked(lake: str, body: str) -> list[dict[str, Any]]:
    """The rows of a query as the library gives them."""
    return quire.Graph(quire.open(lake, read_only=True)).query(f"query q() {{ {body} }}").to_pylist()
