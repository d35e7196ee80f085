"""Upkeep: recover, outcome, optimize, cleanup."""

from __future__ import annotations

from typing import Annotated

import typer

from quire.cli import completion
from quire.cli.arguments import length
from quire.cli.options import EngineOption, MasterOption, Session, command, running
from quire.errors import CommitUnknown, Conflict, QuireError, StorageError
from quire.lake.upkeep.optimize import Optimized
from quire.store import Outcome


def shown_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


@command("recover", branch=False, writes=True)
def recover(session: Session) -> None:
    """Finish the work of dead writers: backfills, checkpoints. Removes what dead backfills left. Changes no data."""
    with session.write(backfill=False) as lake, session.output.progress("recover", unit="tables") as progress:
        done = lake.recover(progress)
    if session.output.as_json:
        session.output.document(done.to_dict())
    elif not done.steps and not done.tidied and done.checkpoint is None:
        session.output.line("nothing to recover")
    else:
        if done.steps:
            session.output.table(
                ("table", "commit", "author", "outcome", "version", "detail"),
                [(s.table, s.commit, s.author, s.outcome, s.version, s.detail) for s in done.steps],
            )
        if done.tidied:
            session.output.line(f"removed {done.tidied} file(s) that dead processes had left")
        if done.checkpoint is not None:
            session.output.line(f"wrote a checkpoint at slot {done.checkpoint}")
    if done.left and not session.output.as_json:
        raise QuireError(
            f"Not finished: {', '.join(s.table for s in done.left)}.",
            next="`quire adopt` takes a plain write in; `quire doctor` says what blocks a table.",
        )
    if done.left:
        raise typer.Exit(1)


@command("outcome", branch=False)
def outcome(
    session: Session,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The `token` of a commit-unknown error.")],
) -> None:
    """Find out whether a commit with an unknown outcome landed. Committed exits 0, a conflict 4, still unknown 5."""
    found = session.read().outcome(token)
    if session.output.as_json:
        session.output.document({"outcome": found.value})
    else:
        session.output.line(found.value)
    codes = {Outcome.COMMITTED: 0, Outcome.CONFLICT: Conflict.exit_code, Outcome.UNKNOWN: CommitUnknown.exit_code}
    if codes[found]:
        raise typer.Exit(codes[found])


@command("optimize", writes=True)
def optimize(
    session: Session,
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", help="The tables. Default: all.")] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", help="A table; the same as the argument.", autocompletion=completion.tables),
    ] = None,
    target_rows: Annotated[int, typer.Option("--target-rows", min=1, help="Rows per fragment to aim at.")] = 1 << 20,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done and write nothing.")] = False,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Merge small fragments and extend indexes to new rows. Also writes a checkpoint. Safe beside live writers.

    Exits 7 if a table failed. A table that others kept changing is reported as busy, which is not a failure.
    """
    opened = session.read() if dry_run else session.write()
    wanted = [*(tables or ()), *(table or ())] or None

    with opened as lake:

        def size() -> int:
            return sum(t.bytes for t in lake.optimize(wanted, target_rows=target_rows, dry_run=True).tables)

        with running(engine, master, size) as who, session.output.progress("optimize", unit="done") as progress:
            done = lake.optimize(wanted, target_rows=target_rows, dry_run=dry_run, progress=progress, engine=who)
    if session.output.as_json:
        session.output.document(done.to_dict())
    else:
        _show_optimized(session, done)
    if any(table.outcome == "failed" for table in done.tables):
        raise typer.Exit(StorageError.exit_code)


def _show_optimized(session: Session, done: Optimized) -> None:
    moved = [t for t in done.tables if t.outcome != "nothing"]
    if moved:
        session.output.table(
            ("table", "outcome", "fragments", "after", "rows", "size", "indexes", "commit"),
            [
                (
                    t.table,
                    t.outcome,
                    t.fragments_before,
                    t.fragments_after,
                    t.rows,
                    shown_bytes(t.bytes),
                    ", ".join(t.indexes),
                    t.commit or "",
                )
                for t in moved
            ],
        )
    else:
        session.output.line("nothing to optimize")
    for table in done.tables:
        if table.outcome in ("busy", "failed"):
            session.output.note(f"{table.table}: {table.detail or table.outcome}")


@command("cleanup", branch=False, writes=True)
def cleanup(
    session: Session,
    keep: Annotated[int, typer.Option("--keep", help="Keep at least this many commits of every branch.")] = 10,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Delete only commits that were replaced longer ago.")
    ] = "7d",
    grace: Annotated[str, typer.Option("--grace", metavar="TIME", help="Delete nothing younger than this.")] = "1h",
    dead_after: Annotated[
        str, typer.Option("--dead-after", metavar="TIME", help="Revoke writers without a sign of life for this time.")
    ] = "1d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted and delete nothing.")] = False,
) -> None:
    """Delete files and log entries that nothing needs any more. Keeps those of recent commits, tags, branches,
    leases and live writers. Can be interrupted and run again."""
    times = {"older_than": length(older_than), "grace": length(grace), "dead_after": length(dead_after)}
    opened = session.read() if dry_run else session.write()
    with opened as lake, session.output.progress("cleanup", unit="done") as progress:
        done = lake.cleanup(keep=keep, dry_run=dry_run, progress=progress, **times)
    output = session.output
    if output.as_json:
        output.document(done.to_dict())
        return
    if dry_run:
        for name in done.names:
            output.line(name)
    verb = "would delete" if dry_run else "deleted"
    output.line(f"{verb} {done.files} file(s), {shown_bytes(done.bytes)}; {done.kept} commit(s) kept")
    if done.slots or done.checkpoints:
        output.line(f"buried {done.slots} slot(s), deleted {done.checkpoints} checkpoint(s)")
    for writer in done.revoked:
        output.line(f"{'would revoke' if dry_run else 'revoked'} writer {writer}, silent for more than {dead_after}")
    for link in done.links:
        output.note(f"{link}: left alone: it is a symbolic link")
    for table, why in done.skipped.items():
        output.note(f"{table}: left alone: {why}")
