"""The worked examples run as their pages say, and the pages show what is in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from website import notebook

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


NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_the_first_hour_runs_from_top_to_bottom_and_shows_what_it_tells_of() -> None:
    ran = [cell for cell in notebook.run(ROOT / "examples" / "first_hour.ipynb") if cell.is_code]
    assert [cell.source for cell in ran[:-1] if not cell.value] == [], "every cell but the last shows something"
    shown = "\n".join(cell.value for cell in ran)
    for promised in (
        "committed 1.0",
        "a row with id=4 was inserted first, by commit 2.0 (bob)",
        "(3, 5)",
        "Lakes and rivers",
        "the Person &#x27;Nobody&#x27;, which does not exist",
    ):
        assert promised in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_what_it_showed(path: Path) -> None:
    """The site shows it as it is when it is built; stored outputs would be old ones."""
    stored = json.loads(path.read_text("utf-8"))
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in stored["cells"]}) == len(stored["cells"])
    code = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []
