"""Whatever is typed: a command does its work or says what is wrong with it, and no library's own error comes out."""

from __future__ import annotations

import datetime
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.budget import budget
from tests.cli.conftest import Run

import quire
from quire.cli.program import app

EACH = int(os.environ.get("QUIRE_ODD_CALLS", "1"))
"""How many odd words an argument or option is given; 40 is all of them."""
MOST = budget(4, full=100)
"""To how many arguments and options of a command."""
SEED = int(os.environ.get("QUIRE_SEED", datetime.date.today().toordinal()))

WORDS = (
    *("", " ", "0", "-1", "1.5", "99999999999999999999999", "1e400", "nan", "true", "null", "-", "*", "=", "a=b", "=b"),
    *("nö", "a b", "'", '"', "'; drop table people", "{", "[1", "[1, 2]", '{"a": 1}', "half \udcff", "x" * 5000),
    *("../..", "/proc/nowhere/x", "/dev/null", "folder", "rows.csv", "broken.parquet", "s3://", "http://h/x", "s4://b"),
    *("2020-13-45", "2020-01-01", "HEAD", "main", "people", "node:Person"),
)
FINDERS = {"doctor", "verify", "lint"}
"""Commands that answer with 1 when they have found a problem."""
SERVERS = {"serve", "ui"}
"""Commands that would go on for ever: they are given no lake that is there."""
SCHEMA = "node Person { name: String @key age: I32? }"
QUERIES = "query q($name: String) { match { $p: Person { name: $name } } return { $p.name } }"


def _commands() -> dict[str, Any]:
    """Every command by the words that call it."""
    found = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))
        if not hasattr(command, "commands"):
            found[" ".join(words)] = command

    walk(typer.main.get_command(app), ())
    return found


COMMANDS = _commands()
RIGHT = {
    "table": "people", "tables": "people", "name": "people", "old": "people", "new": "folk", "file": "rows.csv",
    "files": "rows.csv", "source": "rows.csv", "query": "select 1", "where": "id = 1", "filter": "id = 1",
    "column": "id", "columns": "id", "commit": "1.0", "a": "0.0", "b": "1.0", "folder": "out", "branch": "main",
    "token": "log/1/write", "schema": "schema.pg", "queries": "queries.gq", "type": "Person",
}  # fmt: skip


@pytest.fixture
def place(here: Path, template: Path) -> str:
    shutil.copytree(template, here / "lake")
    (here / "folder").mkdir()
    (here / "rows.csv").write_text("id,name\n7,Di\n")
    (here / "broken.parquet").write_bytes(b"PAR1 and no more")
    (here / "schema.pg").write_text(SCHEMA)
    (here / "queries.gq").write_text(QUERIES)
    with quire.open("lake") as lake:
        quire.Graph(lake).apply_schema(SCHEMA)
    return "lake"


def _line(command: Any, odd: str, word: str) -> list[str]:
    """A command line with what must be given, and `word` for one argument or option."""
    options, arguments = [], []
    for parameter in command.params:
        given = word if parameter.name == odd else None
        if parameter.param_type_name == "argument":
            if given is None and parameter.name == "lake":
                given = "people" if command.name in SERVERS else "lake"
            if given is None and parameter.required:
                given = RIGHT.get(parameter.name, "people")
            if given is not None:
                arguments.append(given)
        elif given is not None:
            options += [parameter.opts[0]] if parameter.is_flag else [f"{parameter.opts[0]}={given}"]
        elif parameter.required:
            options += [f"{parameter.opts[0]}={RIGHT.get(parameter.name, 'people')}"]
    if odd == "follow":
        options.append("--wait=0.1")  # it would go on for ever
    return [*options, "--", *arguments]


@pytest.mark.parametrize("name", COMMANDS)
def test_odd_words_are_refused_by_errors_of_quire(run: Run, place: str, name: str) -> None:
    chance = random.Random(f"{SEED} {name}")
    foreign = []
    parameters = [one for one in COMMANDS[name].params if one.name != "help"]
    for parameter in chance.sample(parameters, min(len(parameters), MOST)):
        for word in chance.sample(WORDS, min(EACH, len(WORDS))):
            typed = [*name.split(), *_line(COMMANDS[name], str(parameter.name), word)]
            ran = run(*typed, code=None, stdin="id,name\n8,Ed\n")
            expected = {0, 2, 3, 4, 5, 6, 7, 8} | ({1} if name in FINDERS else set())
            if "Unexpected" in ran.err + ran.out or ran.code not in expected:
                foreign.append(f"{typed} exits {ran.code}: {ran.err[:300]}")
    assert not foreign, "\n".join([f"seed {SEED}", *foreign])
    assert COMMANDS[name].params
