"""Completion in bash, zsh and fish: the script for a shell, and the names of the tables, branches and tags of a lake.

Names come from lakes on local disk only: completion asks no store over the network and uses no credentials.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

import typer

VARIABLE = "_QUIRE_COMPLETE"
"""What a script sets to get completions instead of running the command."""


class Shell(StrEnum):
    """A shell for which there is a script."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def start() -> None:
    """Make completions possible, if a shell asks for them now."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()


def print_script(shell: Shell | None) -> None:
    """Print the script that a shell loads, and exit."""
    if shell is not None:
        from typer._completion_shared import get_completion_script

        typer.echo(get_completion_script(prog_name="quire", complete_var=VARIABLE, shell=shell.value))
        raise typer.Exit


def tables(context: typer.Context, incomplete: str) -> list[str]:
    """Names of tables at the head of the branch that is given."""
    return _names(context, incomplete, lambda lake: lake.tables())


def branches(context: typer.Context, incomplete: str) -> list[str]:
    """Names of branches."""
    return _names(context, incomplete, lambda lake: [branch.name for branch in lake.branches()])


def tags(context: typer.Context, incomplete: str) -> list[str]:
    """Names of tags."""
    return _names(context, incomplete, lambda lake: lake.tags())


def points(context: typer.Context, incomplete: str) -> list[str]:
    """Names of tags and branches: each stands for a commit."""
    return [*tags(context, incomplete), *branches(context, incomplete)]


def _names(context: typer.Context, incomplete: str, find: Callable[[Any], Iterable[str]]) -> list[str]:
    import quire
    from quire.store.address import parse

    try:
        # An option that still lacks its value ends the parsing: then the lake is the first word that is left.
        uri = context.params["lake"] or context.args[0]
        if parse(uri).scheme != "file":
            return []
        lake = quire.open(uri, branch=context.params.get("branch") or "main", read_only=True)
        return [name for name in find(lake) if name.startswith(incomplete)]
    except Exception:  # an error would be printed into the line that somebody types
        return []
