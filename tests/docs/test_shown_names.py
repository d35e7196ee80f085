"""What `dir` and completion show is what the reference documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import quire

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "python.md").read_text("utf-8")


def documented(title: str) -> set[str]:
    """The names in the table of a class; those for engines and validators are in a section of their own."""
    [section] = re.findall(rf"^## {title}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    cells = re.findall(r"^\| (`.*?) \| ", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`\w*\.(\w+)", cell)}


def shown(thing: object) -> set[str]:
    return set(dir(thing))


@pytest.fixture(scope="module")
def things() -> dict[str, object]:
    lake = quire.create("memory://shown-names", backfill=False)
    lake.create_table("t", [{"id": 1}])
    tx, snap = lake.transaction(), lake.snapshot()
    return {
        "Lake": lake,
        "Transaction": tx,
        "TransactionTable": tx["t"],
        "Snapshot": snap,
        "Table": snap["t"],
        "Rows": lake.sql("select 1"),
        "Graph": quire.Graph(lake),
    }


@pytest.mark.parametrize("name", ["Lake", "Transaction", "Snapshot", "Table", "Rows", "Graph"])
def test_an_object_shows_the_names_that_are_documented(things: dict[str, object], name: str) -> None:
    assert shown(things[name]) == documented(name)


def test_a_table_of_a_transaction_shows_what_a_table_shows_and_more(things: dict[str, object]) -> None:
    assert shown(things["TransactionTable"]) == documented("Table") | documented("TransactionTable")


def test_the_package_shows_its_public_names_and_no_helpers() -> None:
    assert set(dir(quire)) == {*quire.__all__, "__version__"}
    assert all(re.search(rf"`(?:quire\.)?{name}\b", PAGE) for name in quire.__all__)
