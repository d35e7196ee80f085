"""The worked examples run as their pages say, and the pages show what is in them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KNOWLEDGE = ROOT / "examples" / "knowledge"
PAGE = (ROOT / "docs" / "guides" / "knowledge.md").read_text("utf-8")


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(KNOWLEDGE / "run.py"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_the_knowledge_graph_is_built_asked_and_changed(tmp_path: Path) -> None:
    done = run("--documents", "60", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for told in ("10 types are commit", "0 inserted", "hired: {'Person': 1, 'WorksAt': 1}", "left: ", "by networkx"):
        assert told in done.stdout
    assert done.stdout.count("refused: ") == 2
    assert "no rows" not in done.stdout
    again = run("--documents", "20", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    (tmp_path / "mine").mkdir()
    refused = run("mine", cwd=tmp_path)
    assert refused.returncode == 2
    assert "give another directory" in refused.stderr


@pytest.mark.parametrize(("info", "file"), [("pg", "schema.pg"), ("gq", "queries.gq")])
def test_the_page_shows_the_files_of_the_example(info: str, file: str) -> None:
    shown = re.findall(rf"```{info}\n(.*?)```", PAGE, flags=re.DOTALL)
    text = (KNOWLEDGE / file).read_text("utf-8")
    assert shown
    for block in shown:
        assert block in text
