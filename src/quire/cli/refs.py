"""Branches and tags."""

from __future__ import annotations

from typing import Annotated

import typer

from quire.cli.program import branch_app, tag_app
from quire.cli.session import Session, command

BranchName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the branch.")]
TagName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the tag.")]
Start = Annotated[str | None, typer.Option("--at", help="A commit, tag or branch; otherwise the head.")]


@command(branch_app, "list", branch=False)
def list_branches(session: Session) -> None:
    """List the branches."""
    found = [b.to_dict() for b in session.read().branches()]
    if session.output.as_json:
        session.output.document({"branches": found})
        return
    session.output.table(
        ("branch", "head", "start", "author", "time"),
        [(b["name"], b["head"], b["start"], b["author"], b["time"]) for b in found],
    )


@command(branch_app, "create", writes=True)
def create_branch(session: Session, name: BranchName, at: Start = None) -> None:
    """Create a branch. It costs the same for any number of tables; nothing is copied."""
    with session.write() as lake:
        made = lake.create_branch(name, at=at)
        head = made.head
    if session.output.as_json:
        session.output.document({"name": name, "head": head})
    else:
        session.output.line(f"branch {name} at {head}")


@command(branch_app, "delete", branch=False, writes=True)
def delete_branch(session: Session, name: BranchName) -> None:
    """Delete a branch for good: writers that still hold it are refused."""
    with session.write() as lake:
        lake.delete_branch(name)
    if session.output.as_json:
        session.output.document({"deleted": name})
    else:
        session.output.line(f"deleted branch {name}")


@command(branch_app, "ff", writes=True)
def fast_forward(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch that is ahead.")],
) -> None:
    """Bring a branch (main, or --branch) to the head of another that contains everything it has."""
    with session.write() as lake:
        receipt = lake.fast_forward(source)
    session.output.receipt(receipt)


@command(tag_app, "list")
def list_tags(session: Session) -> None:
    """List the tags and the commits they name."""
    found = [{"name": name, "commit": commit} for name, commit in session.read().tags().items()]
    if session.output.as_json:
        session.output.document({"tags": found})
    elif found:
        session.output.table(("tag", "commit"), [(t["name"], t["commit"]) for t in found])
    else:
        session.output.line("no tags")


@command(tag_app, "create", writes=True, message=True)
def create_tag(session: Session, name: TagName, at: Start = None) -> None:
    """Name a commit."""
    with session.write() as lake:
        commit = lake.tag(name, at=at, message=session.message or "")
    if session.output.as_json:
        session.output.document({"name": name, "commit": commit})
    else:
        session.output.line(f"tag {name} at {commit}")


@command(tag_app, "delete", branch=False, writes=True)
def delete_tag(session: Session, name: TagName) -> None:
    """Delete a tag. The commit it named stays."""
    with session.write() as lake:
        lake.delete_tag(name)
    if session.output.as_json:
        session.output.document({"deleted": name})
    else:
        session.output.line(f"deleted tag {name}")
