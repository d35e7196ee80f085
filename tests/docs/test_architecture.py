"""The map of the code is right: what it names exists, and every design note is in its index."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "architecture.md").read_text("utf-8")
NOTES = sorted(path.name for path in (DOCS / "design").glob("[0-9]*.md"))

NAMED = sorted(set(re.findall(r"`(quire(?:\.\w+)*:[\w.]+)`", PAGE)))
ROWS = re.findall(r"^\| (?P<what>[^|]+) \| (?P<where>[^|]*`quire[^|]*) \|$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("name", NAMED)
def test_what_the_map_names_exists_where_it_says(name: str) -> None:
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        assert hasattr(found, part), f"docs/architecture.md names {name}, which does not exist"
        found = getattr(found, part)
    assert callable(found)
    assert found.__module__ == module, f"{name} is only imported there; it lives in {found.__module__}"


def test_the_map_answers_thirty_questions_each_with_a_name() -> None:
    assert len(ROWS) >= 30
    assert [what for what, where in ROWS if not re.search(r"`quire[\w.]*:\w", where)] == []


@pytest.mark.parametrize(
    "layer", ["cli", "server", "graph", "pipeline", "spark", "lake", "formats", "ledger", "store", "testing"]
)
def test_every_layer_is_on_the_map(layer: str) -> None:
    assert re.search(rf"\b{layer}\b", PAGE)


@pytest.mark.parametrize("note", NOTES)
def test_every_design_note_is_in_the_index_with_its_title_and_a_status(note: str) -> None:
    number, title = note[:3], (DOCS / "design" / note).read_text("utf-8").splitlines()[0]
    index = (DOCS / "design" / "README.md").read_text("utf-8")
    [row] = [line for line in index.splitlines() if f"]({note})" in line]
    named = re.sub(r"^# \d+:? ", "", title)
    assert row.startswith(f"| [{number} {named}]({note}) |")
    assert re.search(r"\| (in force|proposed|replaced by )[^|]*\|$", row)
