"""The table that `quire --help` prints is about the commands that there are."""

from __future__ import annotations

import re

import pytest
from tests.cli.conftest import Run

from quire.cli.command_table import SECTIONS
from quire.cli.reference import commands

SUMMARIES = {
    f"quire {name}{inner and ' '}{inner}": summary
    for section in SECTIONS.values()
    for name, entry in section.items()
    for inner, summary in {"": entry.summary, **entry.commands}.items()
}


def test_every_entry_is_a_command_in_its_module() -> None:
    assert [name for name, _ in commands()] == ["quire", *SUMMARIES]


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_is_how_the_help_of_its_command_begins(name: str) -> None:
    summary = SUMMARIES[name]
    said = " ".join(dict(commands())[name].help.split())

    assert re.split(r"(?<=\.) ", said)[0] == summary


def test_help_shows_every_summary_whole_and_in_one_line_of_80(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = {
        name: run(*name.split()[1:], "--help").out.splitlines() for name, c in commands() if hasattr(c, "commands")
    }

    for name, summary in SUMMARIES.items():
        group, _, command = name.rpartition(" ")
        assert f"{command} {summary}" in [" ".join(line.split()) for line in shown[group]]
    assert all(len(line) <= 80 for lines in shown.values() for line in lines)
    assert [line[:-1] for line in shown["quire"] if line.endswith(":") and line[0] != " "] == ["Options", *SECTIONS]


@pytest.mark.parametrize("words", [(), ("log",), ("table",), ("table", "create")])
def test_h_is_help(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words, "-h").out == run(*words, "--help").out


def test_a_name_that_is_nearly_right_is_suggested(run: Run) -> None:
    assert "'log'" in run("lgo", code=2).err
    assert "'describe'" in run("table", "descibe", code=2).err
