"""A diff as a table of the cells that changed."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import quire
from quire.cli.diff_table import columns_of, draw
from quire.lake.display import cell

RED, GREEN = "\x1b[31m", "\x1b[32m"
ROWS: dict[str, list[Any]] = {
    "added": [],
    "changed": [{"before": {"id": 1, "a": "x", "b": 1}, "after": {"id": 1, "a": "y", "b": 1}}],
    "removed": [],
}


def drawn(rows: dict[str, list[Any]], *, color: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=color, color_system="standard" if color else None)
    draw(rows, ["id"], cell, console)
    return file.getvalue()


def test_only_the_key_and_what_changed_is_shown() -> None:
    assert columns_of(ROWS, ["id"]) == ["id", "a"]
    lines = [line.split() for line in drawn(ROWS).splitlines() if line.strip()]
    assert lines[0] == ["id", "a"]
    assert lines[-1] == ["~", "1", "x", "→", "y"]


def test_rows_that_came_or_went_are_shown_whole() -> None:
    rows = {**ROWS, "added": [{"id": 2, "a": None, "b": 3}], "removed": [{"id": 3, "a": "", "b": 4}]}
    lines = [line.split() for line in drawn(rows).splitlines() if line.strip()]
    assert lines[0] == ["id", "a", "b"]
    assert lines[-3:] == [["+", "2", "NULL", "3"], ["~", "1", "x", "→", "y", "1"], ["-", "3", '""', "4"]]


def test_a_column_that_came_has_no_value_before() -> None:
    rows = {**ROWS, "changed": [{"before": {"id": 1}, "after": {"id": 1, "new": 5}}]}
    assert drawn(rows).splitlines()[-2].split() == ["~", "1", "→", "5"]


def test_old_is_red_and_new_is_green() -> None:
    text = drawn(ROWS, color=True)
    assert f"{RED}x" in text
    assert f"{GREEN}y" in text


def test_values_cannot_move_the_cursor() -> None:
    rows = {**ROWS, "added": [{"id": 2, "a": "\x1b[2J", "b": 0}]}
    assert "\x1b[2J" not in drawn(rows, color=True)


@pytest.mark.parametrize(("variable", "colours"), [("QUIET", True), ("NO_COLOR", False)])
def test_colours_are_for_terminals_that_want_them(tmp_path: Path, variable: str, colours: bool) -> None:
    lake = quire.create(tmp_path / "lake")
    lake.create_table("t", [{"id": 1, "v": "old"}], key="id")
    with lake.transaction() as tx:
        tx["t"].update(values={"v": "new"}, where="id = 1")
    lake.close()
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", variable: "1"}
    environment.pop("NO_COLOR" if colours else "FORCE_COLOR", None)
    command = [sys.executable, "-m", "quire.cli", "diff", lake.uri, "1.0"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=environment, timeout=60, check=False)
    os.close(theirs)
    text = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 0, done.stderr
    assert "old" in text
    assert (RED in text, GREEN in text) == (colours, colours)
    piped = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=True, text=True)
    assert "\x1b" not in piped.stdout
