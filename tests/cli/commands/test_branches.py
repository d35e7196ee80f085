"""Branches and tags from the command line."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Run, rows


def test_branches_are_created_listed_and_deleted(run: Run, lake: str) -> None:
    assert run("branch", "create", lake, "exp", "--json").json == {"name": "exp", "head": "2.0"}
    assert run("branch", "create", lake, "old", "--at", "1.0").out == "branch old at 1.0\n"

    found = {b["name"]: b for b in run("branch", "list", lake, "--json").json["branches"]}
    assert {name: b["head"] for name, b in found.items()} == {"main": "2.0", "exp": "2.0", "old": "1.0"}
    assert [line[0] for line in run("branch", "list", lake).lines()] == ["branch", "main", "exp", "old"]

    assert run("branch", "delete", lake, "old").out == "deleted branch old\n"
    assert run("branch", "delete", lake, "exp", "--json").json == {"deleted": "exp"}
    assert [b["name"] for b in run("branch", "list", lake, "--json").json["branches"]] == ["main"]


def test_a_branch_starts_from_another(run: Run, lake: str) -> None:
    run("branch", "create", lake, "a")
    run("delete", lake, "people", "true", "-b", "a")
    run("branch", "create", lake, "b", "--branch", "a")
    assert run("tables", lake, "-b", "b", "--json").json["tables"][1]["rows"] == 0


def test_main_is_brought_to_a_branch(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp")
    run("delete", lake, "people", "id = 1", "-b", "exp")

    assert run("branch", "ff", lake, "exp", "--json").json["commit"] == "3.0"
    assert [row["id"] for row in rows(lake, "people")] == [2, 3]


def test_a_branch_is_brought_to_main(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp")
    assert run("branch", "ff", lake, "main", "--branch", "exp").out == "nothing to commit\n"
    run("delete", lake, "people", "id = 1")

    assert run("branch", "ff", lake, "main", "--branch", "exp", "--json").json["branch"] == "exp"
    assert run("tables", lake, "-b", "exp", "--json").json["tables"][1]["rows"] == 2


def test_branches_that_parted_exit_4(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp")
    run("delete", lake, "people", "id = 1", "-b", "exp")
    run("delete", lake, "people", "id = 2")
    assert run("branch", "ff", lake, "exp", "--json", code=4).json["error"]["kind"] == "not-fast-forward"


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["branch", "create", "lake", "main"], 3, "branch-exists"),
        (["branch", "create", "lake", "a b"], 2, "invalid-name"),
        (["branch", "delete", "lake", "main"], 6, "refused"),
        (["branch", "delete", "lake", "nope"], 3, "branch-not-found"),
        (["branch", "ff", "lake", "nope"], 3, "branch-not-found"),
        (["tag", "delete", "lake", "nope"], 3, "tag-not-found"),
        (["tag", "create", "lake", "v1", "--at", "99.0"], 3, "commit-not-found"),
        (["tag", "create", "lake", "v1", "--at", "nope"], 3, "commit-not-found"),
        (["diff", "lake", "nope"], 3, "commit-not-found"),
    ],
)
def test_a_name_that_cannot_be_is_refused(run: Run, lake: str, words: list[str], code: int, kind: str) -> None:
    assert run(*words, "--json", code=code).json["error"]["kind"] == kind


def test_what_is_no_commit_tag_or_branch_is_told_as_such(run: Run, lake: str) -> None:
    for words in (["diff", lake, "nope"], ["tag", "create", lake, "v1", "--at", "nope"]):
        assert run(*words, code=3).err.startswith("error: There is no commit, tag or branch 'nope'.")


def test_a_branch_names_its_head_where_a_commit_belongs(run: Run, lake: str) -> None:
    run("branch", "create", lake, "exp", "--at", "1.0")
    assert run("tables", lake, "--at", "exp", "--json").json["commit"] == "1.0"
    assert run("tables", lake, "--at", "branch:exp", "--json").json["commit"] == "1.0"


def test_tags_are_created_listed_read_and_deleted(run: Run, lake: str) -> None:
    assert run("tag", "list", lake).out == "no tags\n"
    assert run("tag", "create", lake, "v1", "--at", "1.0", "-m", "one", "--json").json == {
        "name": "v1",
        "commit": "1.0",
    }
    assert run("tag", "create", lake, "v2").out == "tag v2 at 2.0\n"
    assert run("tag", "create", lake, "v2", "--json", code=3).json["error"]["kind"] == "tag-exists"

    listed = run("tag", "list", lake, "--json").json["tags"]
    told = [(tag["name"], tag["commit"], tag["message"], tag["author"]) for tag in listed]
    assert told == [("v1", "1.0", "one", "tester"), ("v2", "2.0", "", "tester")]
    assert run("tag", "list", lake).lines()[1][:4] == ["v1", "1.0", "one", "tester"]
    assert run("tables", lake, "--at", "v1", "--json").json["commit"] == "1.0"

    assert run("tag", "delete", lake, "v1").out == "deleted tag v1\n"
    run("tag", "delete", lake, "v2", "--json")
    assert run("tag", "list", lake, "--json").json == {"tags": []}
