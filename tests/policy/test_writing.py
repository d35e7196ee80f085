"""What an actor changes: each verb by its right, by whom it is, and nothing that would tell of what it does not see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.policy.conftest import As

import quire
from quire.errors import BranchNotFound, Denied, InvalidInput, NotFound, RequestNotFound, TableNotFound, Unsupported

VERBS: dict[str, Callable[[quire.Lake], Any]] = {
    "create_table": lambda lake: lake.create_table("new", [{"a": 1}]),
    "revert": lambda lake: lake.revert("2.0"),
    "restore": lambda lake: lake.restore("1.0"),
    "cherry_pick": lambda lake: lake.cherry_pick("2.0"),
    "merge": lambda lake: lake.merge("trial"),
    "preview": lambda lake: lake.merge("trial", preview=True),
    "merge elsewhere": lambda lake: lake.merge("main", into="trial"),
    "fast_forward": lambda lake: lake.fast_forward("trial"),
    "create_branch": lambda lake: lake.create_branch("mine"),
    "delete_branch": lambda lake: lake.delete_branch("trial"),
    "tag": lambda lake: lake.tag("v2"),
    "delete_tag": lambda lake: lake.delete_tag("v1"),
    "claim": lambda lake: lake.claim(),
    "backfill": lambda lake: lake.backfill(),
    "optimize": lambda lake: lake.optimize(),
    "cleanup": lambda lake: lake.cleanup(dry_run=True),
    "recover": lambda lake: lake.recover(),
    "status": lambda lake: lake.status(),
    "verify": lambda lake: lake.verify(),
    "register_database": lambda lake: lake.register_database("/nowhere"),
    "take_over": lambda lake: lake.take_over("logs"),
    "adopt": lambda lake: lake.adopt("logs"),
    "repair": lambda lake: lake.repair(dry_run=True),
    "policy": lambda lake: lake.policy.show(),
    "set policy": lambda lake: lake.policy.set("permit(principal, action, resource);"),
    "audit": lambda lake: lake.audit(),
}
STATEMENTS: dict[str, Callable[[Any], Any]] = {
    "append": lambda table: table.append([{"id": 100}]),
    "insert": lambda table: table.insert([{"id": 100}]),
    "upsert": lambda table: table.upsert([{"id": 1}]),
    "update": lambda table: table.update(values={"name": "x"}, where="ssn like '1%'"),
    "delete": lambda table: table.delete("note = 'S-note-1'"),
    "overwrite": lambda table: table.overwrite([{"id": 100}]),
    "require_keys": lambda table: table.require_keys([1]),
    "require_absent": lambda table: table.require_absent([1]),
    "require_none": lambda table: table.require_none("dept", ["b"]),
    "delta": lambda table: table.delta(),
    "add_columns": lambda table: table.add_columns({"x": "1"}),
    "drop_columns": lambda table: table.drop_columns("note"),
    "rename_column": lambda table: table.rename_column("note", "name2"),
    "create_index": lambda table: table.create_index("note"),
    "drop_index": lambda table: table.drop_index("x"),
    "target": lambda table: table.target(),
    "set_rules": lambda table: table.set_rules(""),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_reader_changes_nothing(verb: str, act: As, root: Path) -> None:
    head = quire.open(root, read_only=True).head
    with pytest.raises(Denied):
        VERBS[verb](act("ada", "analyst"))
    assert quire.open(root, read_only=True).head == head


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("roles", [("analyst",), ("analyst", "writer")], ids=["reader", "partial writer"])
def test_statements_that_tell_of_hidden_rows_take_sight_of_the_whole_table(
    statement: str, roles: tuple[str, ...], act: As
) -> None:
    tx = act("ada", *roles).transaction()
    with pytest.raises(Denied):
        STATEMENTS[statement](tx["people"])


def test_who_sees_the_whole_table_writes_it(act: As) -> None:
    lake = act("wim", "writer")
    with lake.transaction("mine", author="somebody else") as tx:
        tx["people"].upsert([{"id": 1, "name": "new"}])
        tx["people"].delete("id = 2")
        tx["logs"].append([{"text": "two"}])
    assert [(entry.author, entry.message) for entry in lake.log(limit=1)] == [("wim", "mine")]
    assert lake["people"].count() == 8


def test_a_partial_reader_appends_to_a_table_without_a_key(act: As) -> None:
    lake = act("ada", "analyst", "writer")
    with lake.transaction("a line") as tx:
        tx["logs"].append([{"text": "two"}])
    assert lake["logs"].count() == 2


def test_schemas_take_a_right_of_their_own(act: As) -> None:
    tx = act("wim", "writer").transaction()
    for statement in (
        lambda: tx.create_table("new", [{"a": 1}]),
        lambda: tx.drop_table("logs"),
        lambda: tx.rename_table("logs", "words"),
        lambda: tx["logs"].add_columns({"x": "1"}),
        lambda: tx.register_table("x", "/nowhere"),
    ):
        with pytest.raises(Denied):
            statement()
    assert tx.tables() == ["logs", "people", "salaries"]


def test_a_merge_into_a_reviewed_branch_takes_an_approval_of_somebody_else(act: As) -> None:
    bob, eve = act("bob", "boss"), act("eve", "boss")
    with bob.branch("trial").transaction("trial") as tx:
        tx["logs"].append([{"text": "two"}])
    made = bob.requests.open("trial", "Try it")
    with pytest.raises(Denied, match="'bob' may not merge into"):
        bob.merge("trial")
    bob.requests.review(made.number, "approve")
    with pytest.raises(Denied):
        bob.requests.merge(made.number)
    with pytest.raises(Denied):
        bob.requests.merge(made.number, force=True)
    eve.requests.review(made.number, "approve")
    done = bob.requests.merge(made.number)
    assert done.commit is not None
    assert bob["logs"].count() == 2
    assert bob.log(limit=1)[0].author == "bob"


def test_an_approval_of_an_older_commit_does_not_count(act: As) -> None:
    bob, eve = act("bob", "boss"), act("eve", "boss")
    for text in ("two", "three"):
        with bob.branch("trial").transaction(text) as tx:
            tx["logs"].append([{"text": text}])
        if text == "two":
            made = bob.requests.open("trial", "Try it")
            eve.requests.review(made.number, "approve")
    with pytest.raises(Denied):
        bob.requests.merge(made.number)


def test_requests_of_branches_that_are_hidden_are_hidden(act: As) -> None:
    bob, ada = act("bob", "boss"), act("ada", "analyst")
    hidden, seen = bob.requests.open("private", "No"), bob.requests.open("trial", "Yes")
    assert [request.number for request in ada.requests.list()] == [seen.number]
    with pytest.raises(RequestNotFound):
        ada.requests.get(hidden.number)
    with pytest.raises(BranchNotFound):
        ada.requests.open("private", "No")
    with pytest.raises(Denied):
        ada.requests.close(seen.number)


def test_a_policy_cannot_lock_its_keeper_out(act: As) -> None:
    with pytest.raises(InvalidInput, match="could not set the next one"):
        act("bob", "boss").policy.set('permit(principal, action == Action::"read", resource);')


def test_a_policy_holds_for_handles_that_are_open(act: As) -> None:
    bob, ada = act("bob", "boss"), act("ada", "analyst")
    assert ada["people"].count() == 3
    bob.policy.set('permit(principal in Role::"boss", action, resource);')
    ada._core.guard.look_again()
    with pytest.raises(BranchNotFound):
        ada.snapshot()
    assert [one.author for one in bob.policy.log()] == ["bob", "root"]


def test_another_policy_than_that_of_the_lake(root: Path) -> None:
    lake = quire.open(root, actor="zoe", policy="permit(principal, action, resource);", backfill=False)
    assert lake["people"].count() == 9


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "permit(principal, action, resource)",
        'permit(principal, action == Action::"fly", resource);',
        'permit(principal, action, resource == Castle::"x");',
        '@mask("pixel") permit(principal, action, resource);',
        '@mask("hash") forbid(principal, action, resource);',
        "permit(principal == ?principal, action, resource);",
    ],
)
def test_a_policy_that_cannot_be_is_refused(wrong: str, act: As) -> None:
    with pytest.raises(InvalidInput):
        act("bob", "boss").policy.set(wrong)


def test_doubts_name_what_is_not_there(act: As) -> None:
    doubts = act("bob", "boss").policy.check('permit(principal, action, resource == Table::"poeple");')
    assert doubts == ["rule 1 names table 'poeple', which is not there (did you mean 'people'?)"]


def test_only_guarded_lakes_have_actors(root: Path) -> None:
    with pytest.raises(Unsupported):
        quire.open(root, read_only=True).acting("ada")
    closed = quire.open(root, guarded=True, backfill=False)
    assert closed.acting("ada", ["analyst"]).tables() == ["logs", "people"]
    with pytest.raises(Denied):
        closed.tables()


def test_the_audit_has_writes_denied_attempts_and_what_no_commit_tells(act: As) -> None:
    ada, bob = act("ada", "analyst"), act("bob", "boss")
    for name in ("salaries", "salaries"):
        with pytest.raises(TableNotFound):
            ada[name]
    with pytest.raises(Denied):
        ada.create_branch("mine")
    assert ada.flush()
    bob.create_branch("ours")
    with bob.transaction("two") as tx:
        tx["logs"].append([{"text": "two"}])
    found = [(e.what, e.actor, e.action, e.name, e.count) for e in bob.audit(limit=4)]
    assert found[0] == ("wrote", "bob", "commit", "logs (append)", 1)
    assert ("did", "bob", "create_branch", "ours", 1) in found
    denied = [(e.actor, e.action, e.kind, e.name, e.count) for e in bob.audit(denied=True)]
    assert ("ada", "branchCreate", "Branch", "mine", 1) in denied
    assert ("ada", "read", "Table", "salaries", 2) in denied
    assert {e.actor for e in bob.audit(actor="ada")} == {"ada"}


def test_many_attempts_cost_one_object(act: As, root: Path) -> None:
    ada = act("ada", "analyst")
    for number in range(200):
        with pytest.raises(Denied):
            ada.create_branch(f"b{number}")
    ada.flush()
    assert len(list((root / "_quire/audit").iterdir())) <= 3
    assert sum(entry.count for entry in act("bob", "boss").audit(denied=True)) == 200


@pytest.mark.parametrize(
    "word",
    ["private", "branch:private", "private:3.0", "tag:hidden", "hidden"],
    ids=lambda word: word.replace(":", "-"),
)
@pytest.mark.parametrize("verb", ["create_branch", "tag", "restore", "revert", "cherry_pick", "merge"])
def test_no_verb_takes_a_word_that_leads_to_what_is_hidden(verb: str, word: str, root: Path, act: As) -> None:
    """A branch from a hidden one, or a tag there, would show all that it holds."""
    with quire.open(root, backfill=False) as lake:
        private = lake.branch("private")
        private.create_table("plans", [{"text": "S-note"}])
        lake.tag("hidden", at="branch:private")
        lake.policy.set(
            """
permit(principal, action, resource) unless { resource == Branch::"private" };
"""
        )
    ada = act("ada")
    verbs: dict[str, Callable[[str], Any]] = {
        "create_branch": lambda at: ada.create_branch("mine", at=at),
        "tag": lambda at: ada.tag("mine", at=at),
        "restore": lambda at: ada.restore(at),
        "revert": lambda commit: ada.revert(commit),
        "cherry_pick": lambda commit: ada.cherry_pick(commit),
        "merge": lambda base: ada.merge("trial", base=base),
    }
    unknown = word.replace("private", "privata").replace("hidden", "hiddes")
    said = []
    for one in (word, unknown):
        with pytest.raises(NotFound) as caught:
            verbs[verb](one)
        said.append(
            str(caught.value).replace(one, "…").replace(one.split(":")[-1], "…").replace(one.split(":")[0], "…")
        )
    assert said[0] == said[1]
    assert ada.branches()[0].name == "main"
    assert {branch.name for branch in ada.branches()} == {"main", "trial"}
    assert "mine" not in ada.tags()
