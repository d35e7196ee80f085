"""The golden file: what is written is read back, and what moved is told in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.laboratory.costs import CONDITIONS, SMALLEST, VERBS, Bill, Condition, Golden, moved, read, write

VERB = VERBS[0]
BILL = Bill({"create": 1}, {"PUT": 2, "create": 1}, 4, {"GET": 1, "PUT": 1}, {"LIST": 2})
MANY = Bill({"GET": 1000}, {}, 40)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "golden.toml"
    known = Golden({VERB.name: {str(SMALLEST): BILL, str(CONDITIONS[1]): MANY}}, {VERB.name: {"per_commit": 1.002}})
    write(path, known, VERBS, CONDITIONS)
    assert read(path) == replace(known, bills={**{v.name: {} for v in VERBS}, **known.bills})
    assert len([line for line in path.read_text().splitlines() if line.startswith(f'"{SMALLEST}"')]) == 1


def test_no_file_holds_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "golden.toml") == Golden()


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ({"quire": {"create": 1, "GET": 1}}, "create 1", "GET 1, create 1"),
        ({"quire": {}}, "create 1", "none"),
        ({"lance": {"PUT": 3, "create": 1}}, "PUT 2, create 1", "PUT 3, create 1"),
        ({"hops": 5}, "4", "5"),
        ({"hops": 3}, "4", "3"),
        ({"later_quire": {"PUT": 1}}, "GET 1, PUT 1", "PUT 1"),
        ({"later_lance": {"LIST": 3}}, "LIST 2", "LIST 3"),
    ],
)
def test_a_number_that_moves_is_told_with_verb_lake_old_new_and_command(
    change: dict[str, object], old: str, new: str
) -> None:
    where = Condition(depth=100)
    [told] = moved(VERB, where, BILL, replace(BILL, **change))
    for part in (VERB.name, str(where), f"{old} → {new}", "make costs WRITE=1"):
        assert part in told


def test_what_did_not_move_is_not_told() -> None:
    assert moved(VERB, SMALLEST, BILL, BILL) == []
    [told] = moved(VERB, SMALLEST, None, BILL)
    assert "is not in the golden file" in told
