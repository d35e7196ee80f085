"""Every call and every command line in the tables of the cheat sheet is one that Quire takes."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

import quire
from quire.lake.commit.transaction import TransactionTable

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "cheat-sheet.md").read_text("utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]
CODE = sorted({code for row in ROWS for code in re.findall(r"`([^`]+)`", row)})

CALLS = [
    code for code in CODE if re.match(r"(quire|lake|tx|graph|to_\w+)\b[.\[( ]", code) and not code.startswith("quire ")
]
COMMANDS = [code for code in CODE if code.startswith("quire ")]
OPTIONS = [code for code in CODE if code.startswith("--") and code not in ("--json", "--help")]

OF: dict[str, Any] = {
    "quire": quire,
    "lake": quire.Lake,
    "tx": quire.Transaction,
    "lake['t']": quire.Table,
    "tx['t']": TransactionTable,
    "graph": quire.Graph,
}


def every_option() -> set[str]:
    from quire.cli.reference import commands

    return {name for _, command in commands() for p in command.params for name in (*p.opts, *p.secondary_opts)}


def test_the_tables_are_read() -> None:
    assert len(CALLS) > 50
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("code", CALLS)
def test_a_call_fits_what_is_called(code: str) -> None:
    # `to_pandas()` stands for the same of what the row began with; a table at a commit is a table.
    code = f"lake['t'].{code}" if code.startswith("to_") else code.removeprefix("graph = ")
    if code.endswith('["t"]'):
        code = code.removesuffix('["t"]')
    expression: ast.expr = ast.parse(code, mode="eval").body
    if isinstance(expression, ast.Attribute):
        target = OF["quire"] if ast.unparse(expression.value) == "quire" else quire.errors
        assert hasattr(target, expression.attr)
        return
    assert isinstance(expression, ast.Call)
    assert isinstance(expression.func, ast.Attribute)
    owner = OF[ast.unparse(expression.func.value)]
    given = [None] * len(expression.args)
    named = {str(keyword.arg): None for keyword in expression.keywords}
    function = getattr(owner, expression.func.attr)
    itself = [None] if inspect.isclass(owner) else []
    inspect.signature(function).bind(*itself, *given, **named)


@pytest.mark.parametrize("code", COMMANDS)
def test_a_command_line_is_understood(code: str) -> None:
    from quire.cli import app

    command, words = typer.main.get_command(app), shlex.split(code)[1:]
    path = ["quire"]
    while hasattr(command, "commands"):
        path.append(words.pop(0))
        command = command.commands[path[-1]]
    command.make_context(" ".join(path), words)  # an option or argument that it does not have is an error


@pytest.mark.parametrize("code", OPTIONS)
def test_an_option_exists(code: str) -> None:
    assert shlex.split(code)[0] in every_option()
