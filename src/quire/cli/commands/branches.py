"""Branches and tags."""

from __future__ import annotations

from typing import Annotated

import typer

from quire.cli import completion
from quire.cli.options import Session, command

BranchName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the branch.", autocompletion=completion.branches)
]
TagName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the tag.", autocompletion=completion.tags)]
Start = Annotated[
    str | None,
    typer.Option("--at", help="A commit, tag or branch. Default: the head.", autocompletion=completion.points),
]


@command("branch list", branch=False)
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


@command("branch create", writes=True)
def create_branch(session: Session, name: BranchName, at: Start = None) -> None:
    """Create a branch. Nothing is copied, so it costs the same for any number of tables."""
    with session.write() as lake:
        made = lake.create_branch(name, at=at)
        head = made.head
    if session.output.as_json:
        session.output.document({"name": name, "head": head})
    else:
        session.output.line(f"branch {name} at {head}")


@command("branch delete", branch=False, writes=True)
def delete_branch(session: Session, name: BranchName) -> None:
    """Delete a branch. Writers that still have it open are refused."""
    with session.write() as lake:
        lake.delete_branch(name)
    if session.output.as_json:
        session.output.document({"deleted": name})
    else:
        session.output.line(f"deleted branch {name}")


@command("branch ff", writes=True, message=True, metadata=True)
def fast_forward(
    session: Session,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The branch to fast-forward to.", autocompletion=completion.branches)
    ],
) -> None:
    """Fast-forward main, or --branch, to another branch. The other branch must contain all its commits."""
    with session.write() as lake:
        receipt = lake.fast_forward(source, session.message, metadata=session.metadata)
    session.output.receipt(receipt)


@command("tag list")
def list_tags(session: Session) -> None:
    """List the tags and the commits they name."""
    found = [{"name": name, **tag.to_dict()} for name, tag in session.read().tags().items()]
    if session.output.as_json:
        session.output.document({"tags": found})
    elif found:
        session.output.table(
            ("tag", "commit", "message", "author", "time"),
            [(t["name"], t["commit"], t["message"], t["author"], t["time"]) for t in found],
        )
    else:
        session.output.line("no tags")


@command("tag create", writes=True, message=True)
def create_tag(session: Session, name: TagName, at: Start = None) -> None:
    """Name a commit."""
    with session.write() as lake:
        commit = lake.tag(name, at=at, message=session.message)
    if session.output.as_json:
        session.output.document({"name": name, "commit": commit})
    else:
        session.output.line(f"tag {name} at {commit}")


@command("tag delete", branch=False, writes=True)
def delete_tag(session: Session, name: TagName) -> None:
    """Delete a tag. The commit it named stays."""
    with session.write() as lake:
        lake.delete_tag(name)
    if session.output.as_json:
        session.output.document({"deleted": name})
    else:
        session.output.line(f"deleted tag {name}")
