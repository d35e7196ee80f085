"""What a word for a commit means, and that a word never means two things."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lake.crowd import crowd

import quire
from quire.errors import (
    AmbiguousName,
    BranchExists,
    BranchNotFound,
    CommitNotFound,
    InvalidName,
    TagExists,
    TagNotFound,
)
from quire.ledger import new_ref
from quire.store import clock


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    lake = quire.create(tmp_path / "lake", backfill=False)
    lake.create_table("t", [{"id": 1}])
    exp = lake.create_branch("exp")
    with exp.transaction("on exp") as tx:
        tx["t"].append([{"id": 2}])
    lake.tag("v1", at="1.0", message="the first")
    return lake


def doubled(lake: quire.Lake) -> quire.Lake:
    """A lake of an earlier version, in which `rel` is a tag of 1.0 and a branch at 2.0."""
    lake.create_branch("rel", at="exp")
    ref, _ = lake._core.refs.get("tag", "v1")
    assert ref is not None
    same = new_ref("tag", "rel", author="a", time=clock.now(), target=ref.target, line=ref.line)
    assert lake._core.refs.create("tag", same, 0)
    return lake


WORDS = {"1.0": 1, "1": 1, "HEAD": 1, "v1": 1, "tag:v1": 1, "exp": 2, "branch:exp": 2, "exp:2.0": 2, "main": 1}


@pytest.mark.parametrize("word", WORDS)
def test_a_word_means_the_same_wherever_it_is_given(lake: quire.Lake, word: str) -> None:
    rows = WORDS[word]
    assert lake.at(commit=word)["t"].count() == rows
    assert lake.create_branch("from", at=word)["t"].count() == rows
    lake.tag("mark", at=word)
    assert lake.at(tag="mark")["t"].count() == rows
    assert lake.show(word).id == ("1.0" if rows == 1 else "2.0")
    assert [(d.name, d.added) for d in lake.diff("0.0", word)] == [("t", rows)]


USES: dict[str, Callable[[quire.Lake, str], Any]] = {
    "at": lambda lake, word: lake.at(commit=word)["t"].count(),
    "branch": lambda lake, word: lake.create_branch("n", at=word)["t"].count(),
    "tag": lambda lake, word: lake.tag("n", at=word),
    "show": lambda lake, word: lake.show(word).id,
    "diff": lambda lake, word: lake.diff("0.0", word).after,
    "revert": lambda lake, word: lake.revert(word).commit,
}


@pytest.mark.parametrize("use", USES)
def test_a_word_that_is_a_tag_and_a_branch_is_an_error_that_names_both(lake: quire.Lake, use: str) -> None:
    with pytest.raises(AmbiguousName, match="Write tag:rel or branch:rel") as caught:
        USES[use](doubled(lake), "rel")
    assert caught.value.candidates == {"tag:rel": "1.0", "branch:rel": "2.0"}


def test_a_lake_that_has_both_goes_on_with_the_longer_words(lake: quire.Lake) -> None:
    doubled(lake)
    assert lake.at(tag="rel")["t"].count() == lake.at(commit="tag:rel")["t"].count() == 1
    assert lake.branch("rel")["t"].count() == lake.at(commit="branch:rel")["t"].count() == 2
    assert [(d.name, d.added) for d in lake.diff("tag:rel", "branch:rel")] == [("t", 1)]
    lake.delete_tag("rel")
    assert lake.at(commit="rel")["t"].count() == 2


def test_a_tag_and_a_branch_cannot_be_given_one_name(lake: quire.Lake) -> None:
    with pytest.raises(BranchExists, match="'exp'"):
        lake.tag("exp")
    with pytest.raises(BranchExists, match="'main'"):
        lake.tag("main")
    with pytest.raises(TagExists, match="'v1'"):
        lake.create_branch("v1")
    lake.delete_branch("exp")
    lake.tag("exp")
    lake.delete_tag("v1")
    lake.create_branch("v1")


def test_what_is_not_there_is_told_by_what_was_asked_for(lake: quire.Lake) -> None:
    with pytest.raises(CommitNotFound, match="'nope'"):
        lake.at(commit="nope")
    with pytest.raises(TagNotFound, match="'nope'"):
        lake.at(commit="tag:nope")
    with pytest.raises(BranchNotFound, match="'nope'"):
        lake.at(commit="branch:nope")
    for word in ("no such word", "", "a:b:c"):
        with pytest.raises(InvalidName):
            lake.at(commit=word)


def test_a_tag_shows_its_message_and_needs_none(lake: quire.Lake) -> None:
    lake.tag("quiet", message=None)
    tags = lake.tags()
    assert (tags["v1"], tags["v1"].commit, tags["v1"].message) == ("1.0", "1.0", "the first")
    assert repr(tags["v1"]) == "<tag of 1.0, 'the first'>"
    assert tags["v1"].to_dict()["message"] == "the first"
    assert tags["quiet"].message == ""
    assert lake.cleanup(dry_run=True).kept


def test_the_beginning_of_the_id_of_a_log_is_enough(lake: quire.Lake) -> None:
    log = lake.branch("exp")._live.line.branch
    lake.delete_branch("exp")
    assert lake.show(f"{log}:2.0").message == lake.show(f"{log[:6]}:2.0").message == "on exp"
    assert lake.at(commit=f"{lake._core.about.main[:8]}:1.0")["t"].count() == 1
    with pytest.raises(BranchNotFound):
        lake.show(f"{log[:3]}:2.0")


def test_the_beginning_of_several_ids_is_an_error_that_lists_them(lake: quire.Lake) -> None:
    at = lake._live.refresh().head
    for name, log in (("one", "abcdef0000000001"), ("two", "abcdef0000000002")):
        ref = new_ref("branch", name, author="a", time=clock.now(), line=lake._live.line.fork(log, at), target=at)
        assert lake._core.refs.create("branch", ref, 0)
    with pytest.raises(AmbiguousName, match="Write more of the id") as caught:
        lake.show("abcdef:1.0")
    assert caught.value.candidates == {"abcdef0000000001": "one", "abcdef0000000002": "two"}
    assert lake.show("abcdef0000000001:1.0").message == "create t"


def test_a_slot_of_several_commits_is_no_name_for_one_of_them(lake: quire.Lake) -> None:
    def append(tx: quire.Transaction) -> None:
        tx["t"].append([{"id": 9}])

    with crowd(lake, append) as together:
        together.commit("a", append)
        together.commit("b", append)
    slot = str(together.receipts["a"].commit).partition(".")[0]
    with pytest.raises(AmbiguousName, match=f"Write {slot}.0") as caught:
        lake.at(commit=slot)
    assert list(caught.value.candidates) == [f"{slot}.0", f"{slot}.1"]
    assert lake.at(commit=f"{slot}.1").commit == f"{slot}.1"
