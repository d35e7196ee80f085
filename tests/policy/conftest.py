"""A lake with a policy, and handles of actors on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import quire

POLICY = """
@id("readers") permit(principal in Role::"analyst", action == Action::"read", resource in Lake::"lake")
unless { resource == Table::"salaries" || resource == Branch::"private" };
@id("columns") permit(principal in Role::"analyst", action == Action::"readColumn", resource in Lake::"lake")
unless { resource.tags.contains("secret") };
@id("rows") permit(principal in Role::"analyst", action == Action::"readRow", resource in Lake::"lake");
@id("own department") forbid(principal in Role::"analyst", action == Action::"readRow", resource in Table::"people")
unless { resource.dept == "a" };
@id("masked") @mask("last4")
permit(principal in Role::"analyst", action == Action::"readColumn", resource == Column::"people/ssn");
@id("writers")
permit(principal in Role::"writer", action in [Action::"read", Action::"write"], resource in Lake::"lake");
@id("boss") permit(principal in Role::"boss", action, resource);
@id("reviewed") forbid(principal, action == Action::"mergeInto", resource == Branch::"main")
when { context.approvals < 1 };
"""
TAGS = """
[tables.people.columns]
note = ["secret"]
[branches.main]
protected = true
"""
SECRETS = ("S-note", "12345", "salaries", "dept-b", "999777")
"""What no analyst may see a byte of."""

As = Callable[..., quire.Lake]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lake with people, salaries and logs, two branches and a tag; its policy; and nobody who is held to it yet."""
    lake = quire.create(tmp_path / "lake", backfill=False, author="root")
    people = [
        {"id": i, "name": f"p{i}", "dept": ["a", "dept-b", None][i % 3], "ssn": f"12345{i:04d}", "note": f"S-note-{i}"}
        for i in range(9)
    ]
    with lake.transaction("first") as tx:
        tx.create_table("people", people, key="id")
        tx.create_table("salaries", [{"id": 1, "amount": 999777}], key="id")
        tx.create_table("logs", [{"text": "one"}])
    lake.create_branch("private")
    lake.create_branch("trial")
    with lake.transaction("salaries go up") as tx:
        tx["salaries"].upsert([{"id": 2, "amount": 999777}])
    lake.policy.set(POLICY, tags=TAGS, message="the first")
    lake.close()
    return tmp_path / "lake"


@pytest.fixture
def act(root: Path) -> As:
    """A handle of an actor."""

    def handle(actor: str, *roles: str, **options: object) -> quire.Lake:
        return quire.open(root, actor=actor, roles=roles, backfill=False, **options)  # type: ignore[arg-type]

    return handle
