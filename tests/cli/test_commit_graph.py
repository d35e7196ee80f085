"""The lanes of a commit graph."""

from __future__ import annotations

from quire.cli.commit_graph import drawn


def lines(*commits: tuple[str, str]) -> list[str]:
    found = []
    for (name, _), row in zip(commits, drawn((name, list(parents)) for name, parents in commits), strict=True):
        found += [*row.before, f"{row.line} {name}", *row.after]
    return found


def test_one_line_of_commits_is_one_lane() -> None:
    assert lines(("c", "b"), ("b", "a"), ("a", "")) == ["● c", "● b", "● a"]


def test_a_branch_that_was_merged_has_its_lane() -> None:
    assert lines(("d", "cb"), ("c", "a"), ("b", "a"), ("a", "")) == [
        "● d",
        "├─╮",
        "● │ c",
        "│ ● b",
        "├─╯",
        "● a",
    ]


def test_lanes_cross_where_they_have_to() -> None:
    assert lines(("f", "ed"), ("e", "cb"), ("d", "a"), ("c", "a"), ("b", "a"), ("a", "")) == [
        "● f",
        "├─╮",
        "● │ e",
        "├─┼─╮",
        "│ ● │ d",
        "● │ │ c",
        "│ │ ● b",
        "├─┴─╯",
        "● a",
    ]


def test_a_merge_of_what_another_lane_waits_for_draws_a_line_to_it() -> None:
    assert lines(("e", "dc"), ("c", "ba"), ("d", "a"), ("b", "a"), ("a", "")) == [
        "● e",
        "├─╮",
        "│ ● c",
        "│ ├─╮",
        "● │ │ d",
        "│ ● │ b",
        "├─┴─╯",
        "● a",
    ]


def test_a_lane_is_used_again_when_it_is_free() -> None:
    assert lines(("e", "dc"), ("c", ""), ("d", "ab"), ("b", ""), ("a", "")) == [
        "● e",
        "├─╮",
        "│ ● c",
        "● d",
        "├─╮",
        "│ ● b",
        "● a",
    ]


def test_parents_that_were_told_before_their_children_get_no_lane() -> None:
    assert lines(("a", ""), ("b", "a")) == ["● a", "● b"]
