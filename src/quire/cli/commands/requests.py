"""Merge requests: ask for a merge, say something of it, merge it."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from quire.cli import completion
from quire.cli.options import Session, command
from quire.errors import InvalidInput

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the request; `quire request list`.")]
Text = Annotated[str, typer.Option("--text", help="What to say.")]


class State(StrEnum):
    """Which requests are listed."""

    open = "open"
    merged = "merged"
    closed = "closed"
    all = "all"


class Verdict(StrEnum):
    """What a review comes to."""

    approve = "approve"
    object = "object"
    comment = "comment"


@command("request create", writes=True)
def create(
    session: Session,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The branch to be merged.", autocompletion=completion.branches)
    ],
    title: Annotated[str, typer.Option("--title", help="What it is about, in one line.")],
    text: Text = "",
) -> None:
    """Ask for a branch to be merged into main, or --branch."""
    with session.write() as lake:
        _said(session, lake.requests.open(source, title, text), "opened")


@command("request list", branch=False)
def list_requests(
    session: Session,
    state: Annotated[State, typer.Option("--state", help="Only those in this state, or all.")] = State.open,
) -> None:
    """List the merge requests, the newest first."""
    found = session.read().requests.list(state.value)
    if session.output.as_json:
        session.output.document({"requests": [request.to_dict() for request in found]})
        return
    session.output.table(
        ("request", "state", "source", "target", "author", "changed (UTC)", "title"),
        [(r.number, r.state, r.source, r.target, r.author, f"{r.changed:%Y-%m-%d %H:%M:%S}", r.title) for r in found],
    )


@command("request show", branch=False)
def show(session: Session, number: Number) -> None:
    """Show a merge request, and what was said of it."""
    found = session.read().requests.get(number)
    output = session.output
    if output.as_json:
        output.document(found.to_dict())
        return
    told = found.to_dict()
    names = ("number", "title", "state", "source", "target", "author", "time", "merged", "text")
    output.fields([(name, told[name]) for name in names if told[name]])
    if found.resolutions:
        output.line(f"{len(found.resolutions)} conflicts are resolved in it")
    for review in found.reviews:
        output.line("")
        at = f" at {review.head}" if review.head else ""
        output.line(f"{review.time:%Y-%m-%d %H:%M:%S}  {review.author}  {review.verdict}{at}")
        for line in review.text.splitlines():
            output.line(f"  {line}")


@command("request review", branch=False, writes=True)
def review(
    session: Session,
    number: Number,
    verdict: Annotated[Verdict, typer.Argument(help="approve, object or comment.")],
    text: Text = "",
    resolutions: Annotated[
        Path | None,
        typer.Option(
            "--resolutions",
            metavar="FILE",
            help="Keep these resolutions of conflicts, too: lines of JSON, as a preview of the merge prints them.",
        ),
    ] = None,
) -> None:
    """Approve a merge request, object to it, or comment on it."""
    given = _resolutions(resolutions) if resolutions is not None else []
    with session.write() as lake:
        if given:
            lake.requests.resolve(number, given)
        _said(session, lake.requests.review(number, verdict.value, text), "reviewed")


class Mode(StrEnum):
    """What commit a merge makes."""

    auto = "auto"
    ff_only = "ff-only"
    no_ff = "no-ff"
    squash = "squash"


class Side(StrEnum):
    """Which side conflicts are decided for."""

    ours = "ours"
    theirs = "theirs"


@command("request merge", branch=False, writes=True, message=True)
def merge(
    session: Session,
    number: Number,
    mode: Annotated[Mode, typer.Option("--mode", help="Which commit to make.")] = Mode.auto,
    resolve: Annotated[
        Side | None, typer.Option("--resolve", help="Decide the conflicts that the request does not resolve.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Merge it in spite of objections.")] = False,
) -> None:
    """Merge what a request asks for, with the resolutions that it keeps."""
    with session.write() as lake:
        receipt = lake.requests.merge(
            number,
            mode=mode.value,
            resolve=resolve.value if resolve is not None else None,
            force=force,
            message=session.message,
        )
    session.output.receipt(receipt)


@command("request close", branch=False, writes=True)
def close(
    session: Session,
    number: Number,
    text: Text = "",
    again: Annotated[bool, typer.Option("--reopen", help="Open it again instead.")] = False,
) -> None:
    """Close a merge request without merging it."""
    with session.write() as lake:
        done = lake.requests.reopen(number) if again else lake.requests.close(number, text)
        _said(session, done, "opened again" if again else "closed")


def _said(session: Session, request: Any, did: str) -> None:
    if session.output.as_json:
        session.output.document(request.to_dict())
    else:
        session.output.line(f"{did} request {request.number}: {request.source} into {request.target}: {request.title}")


def _resolutions(path: Path) -> list[Any]:
    """The conflicts in a file of JSON lines that have a resolution."""
    try:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else f"it is not JSON lines ({error})"
        raise InvalidInput(
            f"The resolutions in {str(path)!r} cannot be used: {said}.",
            next="Give a file with a JSON object on each line.",
            file=str(path),
        ) from None
    return [line for line in lines if not isinstance(line, dict) or line.get("resolution") is not None]
