"""Branches and tags where names, places and tokens could be mixed up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import quire
from quire.errors import BranchNotFound, CommitNotFound, CommitUnknown, InvalidName, ValidatorMissing
from quire.lake.branch import branches
from quire.lake.commit.validators import _installed, install
from quire.store import Outcome


@pytest.fixture
def lake(tmp_path: Path) -> quire.Lake:
    made = quire.create(tmp_path / "lake", backfill=False)
    made.create_table("t", [{"id": 1}])
    return made


def ids(lake: quire.Lake) -> list[int]:
    return sorted(r["id"] for r in lake["t"].to_pylist())


def append(lake: quire.Lake, number: int, **options: object) -> quire.Transaction:
    with lake.transaction(f"append {number}", **options) as tx:  # type: ignore[arg-type]
        tx["t"].append([{"id": number}])
    return tx


@pytest.mark.parametrize("at", ["b", "b:3.0", "b:2.0", "on-b"])
def test_a_branch_starts_at_any_commit_of_any_branch(lake: quire.Lake, at: str) -> None:
    b = lake.create_branch("b")
    append(b, 2)
    append(b, 3)
    b.tag("on-b")
    append(lake, 50)
    append(lake, 51)

    new = lake.create_branch("n", at=at)
    assert ids(new) == ([1, 2] if at == "b:2.0" else [1, 2, 3])
    append(new, 9)
    assert ids(quire.open(lake.uri, branch="n"))[-1] == 9
    lake.delete_branch("n")
    assert "n" not in [x.name for x in lake.branches()]


def test_a_branch_or_tag_at_a_commit_that_does_not_exist_is_refused_and_leaves_the_name_free(lake: quire.Lake) -> None:
    for at in ("99.0", "1.7"):
        with pytest.raises(CommitNotFound):
            lake.create_branch("n", at=at)
        with pytest.raises(CommitNotFound):
            lake.tag("n", at=at)
    assert ids(lake.create_branch("n")) == [1]
    lake.delete_branch("n")
    lake.tag("n")


def test_deleting_a_branch_spares_a_new_one_of_the_same_name(lake: quire.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_branch("b")
    close = branches._close

    def close_and_let_another_process_in(live: object) -> None:
        close(live)  # type: ignore[arg-type]
        append(quire.open(lake.uri).create_branch("b"), 7)

    monkeypatch.setattr(branches, "_close", close_and_let_another_process_in)
    lake.delete_branch("b")
    assert ids(lake.branch("b")) == [1, 7]


def test_tokens_used_on_a_branch_are_used_after_a_fast_forward(lake: quire.Lake) -> None:
    b = lake.create_branch("b")
    token = quire.token()
    append(b, 2, token=token)
    append(b, 3, token=quire.StreamToken("orders", 5))
    lake.fast_forward("b")
    for used in (token, quire.StreamToken("orders", 5), quire.StreamToken("orders", 4)):
        tx = append(lake, 99, token=used)
        assert tx.receipt is not None
        assert tx.receipt.repeated
    assert ids(lake) == [1, 2, 3]
    append(lake, 4, token=quire.StreamToken("orders", 6))
    assert ids(quire.open(lake.uri)) == [1, 2, 3, 4]


def test_an_unknown_outcome_is_settled_on_the_branch_it_belongs_to(lake: quire.Lake) -> None:
    b = lake.create_branch("b")
    append(lake, 50)
    tx = append(b, 2)
    unknown = CommitUnknown("?", branch="b", log=b._live.line.branch, slot=tx.slot, write=tx.write)
    assert b.outcome(unknown) is Outcome.COMMITTED
    assert lake.outcome(unknown) is Outcome.COMMITTED


def test_tags_name_the_branch_they_are_on(lake: quire.Lake) -> None:
    b = lake.create_branch("b")
    append(b, 2)
    b.tag("x")
    assert lake.tags() == {"x": "b:2.0"}
    assert [r["id"] for r in lake.at(commit=lake.tags()["x"])["t"].to_pylist()] == [1, 2]
    lake.delete_branch("b")
    assert lake.tags() == {"x": "(deleted):2.0"}
    assert lake.at(tag="x")["t"].count() == 2
    with pytest.raises(BranchNotFound):
        lake.branch("b")


def test_a_lake_in_memory_has_no_plain_head_to_fill(tmp_path: Path) -> None:
    lake = quire.create(f"memory://{tmp_path.name}")
    lake.create_table("t", [{"id": 1}])
    append(lake, 2)
    assert lake.flush()
    assert lake.backfill() == []
    assert (lake.status()["pending_backfill"], lake.status()["background_failures"]) == ([], [])
    assert ids(quire.open(f"memory://{tmp_path.name}")) == [1, 2]


def test_a_name_that_looks_like_a_commit_is_refused(lake: quire.Lake) -> None:
    for name in ("2.0", "7"):
        with pytest.raises(InvalidName, match="looks like a commit"):
            lake.tag(name)
        with pytest.raises(InvalidName, match="looks like a commit"):
            lake.create_branch(name)


def test_a_token_that_a_branch_holds_in_a_page_is_known_after_a_fast_forward(
    lake: quire.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.ledger.state.MAX_TOKENS", 4)
    monkeypatch.setattr("quire.ledger.state.KEPT_TOKENS", 2)
    b = lake.create_branch("b")
    first = quire.token()
    append(b, 2, token=first)
    for number in range(3, 8):
        time.sleep(0.002)  # tokens carry milliseconds
        append(b, number, token=quire.token())
    lake.fast_forward("b")
    before = ids(lake)
    with lake.transaction("again", token=first) as tx:
        tx["t"].append([{"id": 2}])
    assert tx.receipt is not None
    assert tx.receipt.repeated
    assert ids(lake) == before


def test_a_guarded_table_is_changed_by_no_verb_without_its_validator(lake: quire.Lake) -> None:
    install("test-guard", lambda tx, tables: None)
    b = lake.create_branch("b")
    with b.transaction() as tx:
        tx.create_table("guarded", [{"id": 1}], validator="test-guard")
    made = tx.receipt
    assert made is not None
    assert "guarded" in made.tables
    _installed.pop("test-guard")

    def drop(tx: quire.Transaction) -> None:
        tx.drop_table("guarded")

    def rename(tx: quire.Transaction) -> None:
        tx.rename_table("guarded", "other")

    def write(tx: quire.Transaction) -> None:
        tx["guarded"].append([{"id": 2}])

    for change in (drop, rename, write):
        with pytest.raises(ValidatorMissing), b.transaction() as attempt:
            change(attempt)
    with pytest.raises(ValidatorMissing):
        lake.fast_forward("b")
    with pytest.raises(ValidatorMissing):
        b.revert(str(made.commit))
    assert b["guarded"].to_pylist() == [{"id": 1}]
    assert "guarded" not in lake
