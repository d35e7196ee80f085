"""What shells complete: commands, options, their values, and names of a lake on local disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

import quire

TYPED = {
    "quire ta": ["tables", "table", "tag", "take-over"],
    "quire table desc": ["describe"],
    "quire --comp": ["--completion"],
    "quire log lake --li": ["--limit"],
    "quire sql lake x --format par": ["parquet"],
    "quire append lake ": ["events", "people"],
    "quire append lake pe": ["people"],
    "quire append lake people ": [],
    "quire append nowhere ": [],
    "quire append s3://bucket/lake ": [],
    "quire log lake --table e": ["events"],
    "quire sql lake -b ": ["main", "trial"],
    "quire tag delete lake ": ["v1"],
    "quire diff lake ": ["v1", "main", "trial"],
    "quire append lake --branch trial ": ["events", "notes", "people"],
}
"""Command lines, with what the last word, which may be empty, can become."""


@pytest.fixture
def marked(lake: str) -> str:
    with quire.open(lake) as opened:
        opened.tag("v1")
        opened.create_branch("trial").create_table("notes", [{"id": 1}])
    return lake


def complete(run: Run, monkeypatch: pytest.MonkeyPatch, shell: str, line: str) -> str:
    words = line.split(" ")
    monkeypatch.setenv("_QUIRE_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    return run().out


@pytest.mark.parametrize("line", TYPED)
def test_a_word_is_completed(run: Run, monkeypatch: pytest.MonkeyPatch, marked: str, line: str) -> None:
    assert complete(run, monkeypatch, "bash", line).split() == TYPED[line]


def test_zsh_and_fish_show_what_commands_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert '"log":"List commits, newest first."' in complete(run, monkeypatch, "zsh", "quire lo")
    assert complete(run, monkeypatch, "fish", "quire lo").startswith("log\tList commits, newest first.\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(run: Run, shell: str) -> None:
    assert f"_QUIRE_COMPLETE=complete_{shell}" in run("--completion", shell).out


def test_no_script_for_other_shells(run: Run) -> None:
    assert "'bash', 'zsh', 'fish'" in run("--completion", "csh", code=2).err


@pytest.mark.skipif(sys.platform == "win32", reason="there is no bash")
def test_bash_completes_with_the_script(marked: str) -> None:
    script = """
        eval "$(quire --completion bash)"
        complete -p quire
        complete() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _quire_completion quire; echo "${COMPREPLY[*]}"; }
        complete quire tabl
        complete quire append lake ev
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path}
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["complete -o default -F _quire_completion quire", "tables table", "events"]
