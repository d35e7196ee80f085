"""Merges from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run, rows


@pytest.fixture
def forked(run: Run, lake: str) -> str:
    """Branch `exp` and main, both with another name for person 1; person 2 is gone on `exp`."""
    run("branch", "create", lake, "exp")
    run("update", lake, "people", "id = 1", "--value", "name=Theirs", "-b", "exp")
    run("delete", lake, "people", "id = 2", "-b", "exp")
    run("update", lake, "people", "id = 1", "--value", "name=Ours")
    return lake


def names(lake: str) -> dict[int, Any]:
    return {row["id"]: row["name"] for row in rows(lake, "people")}


def test_a_preview_shows_cells_in_conflict_and_writes_nothing(run: Run, forked: str) -> None:
    before = names(forked)
    shown = run("merge", forked, "exp", "--preview", code=4)
    assert shown.out.startswith("exp at 4.0 into main at 3.0: merged\n")
    assert [line[:4] for line in shown.lines()][-1] == ["people", "update-update", "1", "name"]
    assert "Ours" in shown.out
    assert "Theirs" in shown.out
    found = run("merge", forked, "exp", "--preview", "--json", code=4).json
    assert (found["outcome"], found["open"], found["counts"]) == ("merged", 1, {"update-update": 1})
    assert names(forked) == before


def test_open_conflicts_end_with_status_4(run: Run, forked: str) -> None:
    refused = run("merge", forked, "exp", code=4)
    assert "1 open conflict" in refused.err
    assert "--theirs" in refused.err
    assert "--resolutions" in refused.err
    assert "lake.merge" not in refused.err
    assert run("merge", forked, "exp", "--json", code=4).json["error"]["kind"] == "unresolved-conflicts"


@pytest.mark.parametrize(("flag", "name"), [("--ours", "Ours"), ("--theirs", "Theirs")])
def test_a_side_is_taken(run: Run, forked: str, flag: str, name: str) -> None:
    assert run("merge", forked, "exp", flag, "-m", "both", "--json").json["outcome"] == "merged"
    found = names(forked)
    assert found[1] == name
    assert 2 not in found
    assert run("merge", forked, "exp").out == "nothing to commit\n"


def test_resolutions_come_from_a_file(run: Run, forked: str, tmp_path: Path) -> None:
    plan = run("merge", forked, "exp", "--preview", "--json", code=4).json
    [one] = plan["conflicts"]
    file = tmp_path / "resolved.jsonl"
    one.update(resolution="values", merged={**one["ours"], "name": "Both"})
    file.write_text(json.dumps(one) + "\n" + json.dumps({**one, "fingerprint": "old"}) + "\n")
    done = run("merge", forked, "exp", "--resolutions", str(file))
    assert "was not applied" in done.err
    assert names(forked)[1] == "Both"
    file.write_text("{")
    run("merge", forked, "exp", "--resolutions", str(file), code=2)


def test_modes_and_another_target(run: Run, forked: str) -> None:
    refused = run("merge", forked, "exp", "--ff-only", code=4)
    assert "without --ff-only" in refused.err
    assert "mode=" not in refused.err
    run("merge", forked, "exp", "--ff-only", "--squash", code=2)
    run("merge", forked, "exp", "--ours", "--theirs", code=2)
    assert run("merge", forked, "main", "--into", "exp", "--theirs", "--json").json["branch"] == "exp"
    assert run("merge", forked, "exp", "--json").json["outcome"] == "fast-forward"


def test_one_commit_is_picked_and_a_merge_reverted(run: Run, forked: str) -> None:
    run("cherry-pick", forked, "exp:4.0")
    assert sorted(names(forked)) == [1, 3]
    run("cherry-pick", forked, "exp:3.0", code=4)
    run("cherry-pick", forked, "exp:3.0", "--preview", "--theirs")
    run("merge", forked, "exp", "--theirs")
    assert names(forked)[1] == "Theirs"
    run("revert", forked, "HEAD", "--parent", "1")
    assert names(forked)[1] == "Ours"
    run("revert", forked, "5.0", "--parent", "2", "--theirs")
