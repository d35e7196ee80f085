"""Merge branches, and pick single commits of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from quire.cli import completion
from quire.cli.options import Session, command
from quire.cli.output import Output
from quire.errors import InvalidInput, NotFastForward, UnresolvedConflicts
from quire.lake.lake import Lake
from quire.lake.merge.plan import MergePlan

SHOWN = 20
"""So many conflicts are printed for people; `--json` has all."""

Source = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="The branch, tag or commit to merge.", autocompletion=completion.points),
]
Picked = Annotated[
    str, typer.Argument(metavar="COMMIT", help="The commit, such as exp:12.0.", autocompletion=completion.points)
]
Into = Annotated[
    str | None,
    typer.Option("--into", metavar="BRANCH", help="Merge into it; as --branch.", autocompletion=completion.branches),
]
Preview = Annotated[bool, typer.Option("--preview", help="Write nothing; print what would be done.")]
Ours = Annotated[bool, typer.Option("--ours", help="In every conflict, keep what is here.")]
Theirs = Annotated[bool, typer.Option("--theirs", help="In every conflict, take what comes.")]
Resolutions = Annotated[
    Path | None,
    typer.Option(
        "--resolutions",
        metavar="FILE",
        help="JSON lines with conflicts as --preview --json lists them, each with a resolution.",
    ),
]
Parent = Annotated[int, typer.Option("--parent", min=1, help="Of a merge: the parent that it is compared with.")]


class Orphans(StrEnum):
    """What becomes of edges that lose a node by a merge."""

    fail = "fail"
    drop_edges = "drop-edges"
    keep_node = "keep-node"


@command("merge", writes=True, message=True, metadata=True)
def merge(
    session: Session,
    source: Source,
    into: Into = None,
    preview: Preview = False,
    ours: Ours = False,
    theirs: Theirs = False,
    resolutions: Resolutions = None,
    ff_only: Annotated[bool, typer.Option("--ff-only", help="Refuse anything but a fast-forward.")] = False,
    no_ff: Annotated[bool, typer.Option("--no-ff", help="Make a merge commit in any case.")] = False,
    orphans: Annotated[
        Orphans, typer.Option("--orphans", help="What becomes of edges of a graph that lose a node.")
    ] = Orphans.fail,
    squash: Annotated[bool, typer.Option("--squash", help="One commit that does not remember the source.")] = False,
) -> None:
    """Merge a branch into main, or --branch. Open conflicts are listed, and end it with status 4."""
    modes = [mode for mode, on in (("ff-only", ff_only), ("no-ff", no_ff), ("squash", squash)) if on]
    if len(modes) > 1:
        raise InvalidInput("--ff-only, --no-ff and --squash exclude each other.", next="Give one of them.")
    how: dict[str, Any] = {
        "resolve": side_of(ours, theirs),
        "mode": modes[0] if modes else "auto",
        "orphans": orphans.value,
    }
    about: dict[str, Any] = {"message": session.message, "metadata": session.metadata}
    if preview:
        _planned(session, session.read().merge(source, into=into, preview=True, **how), resolutions, commit=False)
        return
    with session.write() as lake:
        _planned(session, lake.merge(source, into=into, preview=True, **how, **about), resolutions, commit=True)


@command("cherry-pick", writes=True, message=True, metadata=True)
def cherry_pick(
    session: Session,
    commit: Picked,
    preview: Preview = False,
    ours: Ours = False,
    theirs: Theirs = False,
    resolutions: Resolutions = None,
    parent: Parent = 1,
) -> None:
    """Do here what one commit of another branch did there."""
    how: dict[str, Any] = {"parent": parent, "resolve": side_of(ours, theirs)}
    if preview:
        _planned(session, session.read().cherry_pick(commit, preview=True, **how), resolutions, commit=False)
        return
    with session.write() as lake:
        about: dict[str, Any] = {"message": session.message, "metadata": session.metadata}
        _planned(session, lake.cherry_pick(commit, preview=True, **how, **about), resolutions, commit=True)


def reverted(session: Session, lake: Lake, commit: str, parent: int, side: str | None) -> None:
    """Revert a commit by a merge: of another parent, or with its conflicts resolved."""
    about: dict[str, Any] = {"message": session.message, "metadata": session.metadata, "resolve": side}
    _planned(session, lake.revert(commit, parent=parent, preview=True, **about), None, commit=True, by_file=False)


def side_of(ours: bool, theirs: bool) -> str | None:
    """The side that two flags choose."""
    if ours and theirs:
        raise InvalidInput("--ours and --theirs exclude each other.", next="Give one of them.")
    return "ours" if ours else "theirs" if theirs else None


def _planned(
    session: Session, plan: MergePlan, resolutions: Path | None, *, commit: bool, by_file: bool = True
) -> None:
    """Resolve a plan by a file, if the command takes one, then print it, or commit it."""
    output = session.output
    if resolutions is not None:
        plan.resolve(_read(resolutions))
        for conflict in plan.stale:
            output.warn(
                f"a resolution in {conflict.table!r} does not fit any more, and was not applied: {conflict.key}"
            )
    if not commit or (plan.conflicts.open and not output.as_json):
        _print(output, plan)
    if commit:
        with _advised(by_file=by_file):
            receipt = plan.commit()
        output.receipt(receipt)
    elif plan.conflicts.open:
        raise typer.Exit(UnresolvedConflicts.exit_code)


@contextmanager
def _advised(*, by_file: bool) -> Iterator[None]:
    """A block in which a merge that is refused advises options of the command line."""
    try:
        yield
    except NotFastForward as error:
        error.next = "Run it without --ff-only, to make a merge commit."
        raise
    except UnresolvedConflicts as error:
        error.next = "Choose a side with --ours or --theirs."
        if by_file:
            error.next += (
                " Or write what --preview --json prints to a file, give each conflict its resolution there, and pass"
                " the file with --resolutions."
            )
        raise


def _print(output: Output, plan: MergePlan) -> None:
    if output.as_json:
        output.document(plan.to_dict())
        return
    output.line(f"{plan.source} at {plan.theirs} into {plan.target} at {plan.ours}: {plan.outcome}")
    if plan.tables:
        head = ("table", "what", "added", "changed", "removed", "conflicts", "open")
        names = ("table", "action", "added", "changed", "removed", "conflicts", "open")
        output.table(head, [tuple(table.get(n) for n in names) for table in plan.tables])
    found = plan.conflicts.open
    if found:
        output.line("")
        output.table(("table", "conflict", "key", "column", "base", "ours", "theirs"), list(_cells(found[:SHOWN])))
        if len(found) > SHOWN:
            output.line(f"… {len(found) - SHOWN} more; --preview --json lists all")


def _cells(found: Any) -> Iterator[tuple[Any, ...]]:
    """A line for every cell in conflict; one for a conflict about a whole row or table."""
    for conflict in found:
        key = None if conflict.key is None else ", ".join(str(v) for v in conflict.key.values())
        if conflict.kind == "count" and conflict.counts:
            yield conflict.table, conflict.kind, key, "rows", *(conflict.counts[n] for n in ("base", "ours", "theirs"))
            continue
        for column in conflict.columns or (None,):
            sides = (conflict.base, conflict.ours, conflict.theirs)
            ops = ("", conflict.ours_op, conflict.theirs_op)
            shown = [
                op if column is None or row is None else row.get(column) for row, op in zip(sides, ops, strict=True)
            ]
            yield conflict.table, conflict.kind, key, column, *shown


def _read(path: Path) -> list[Any]:
    """Resolutions: JSON lines, or the document of a preview, whose conflicts were edited."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.", next="Check the path.", path=str(path)
        ) from None
    try:
        whole = json.loads(text) if text.lstrip().startswith("{") and "\n{" not in text.strip() else None
        if isinstance(whole, dict) and isinstance(whole.get("conflicts"), list):
            return list(whole["conflicts"])
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} does not hold resolutions: {error}.",
            next="Write one conflict of --preview --json on a line, with its resolution.",
            path=str(path),
        ) from None
