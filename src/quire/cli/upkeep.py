"""Upkeep: recover, outcome, optimize, cleanup."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import typer

from quire.cli.engine import EngineOption, MasterOption, running
from quire.cli.program import app
from quire.cli.session import Session, command
from quire.errors import CommitUnknown, Conflict, InvalidInput, QuireError, StorageError
from quire.lake.optimize import Optimized
from quire.store import Outcome

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def length(text: str) -> timedelta:
    """A length of time as people write it: 90s, 30m, 12h, 7d, 2w, or 0."""
    if text.strip() == "0":
        return timedelta(0)
    found = _LENGTH.fullmatch(text.strip())
    try:
        if found is not None:
            return timedelta(**{_UNITS[found[2]]: float(found[1])})
    except OverflowError:
        pass
    raise InvalidInput(f"{text!r} is not a length of time.", next="Write it like 90s, 30m, 12h, 7d or 2w.")


def shown_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


@command(app, "recover", branch=False, writes=True)
def recover(session: Session) -> None:
    """Finish what published commits still ask for: backfills, checkpoints, litter of the dead. Changes no data."""
    with session.write(backfill=False) as lake, session.output.progress("recover", unit="tables") as progress:
        done = lake.recover(progress.step)
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


@command(app, "outcome", branch=False)
def outcome(
    session: Session,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The `token` of a commit-unknown error.")],
) -> None:
    """Settle a commit whose outcome was unknown: committed (exit 0), conflict (4), or still unknown (5)."""
    found = session.read().outcome(token)
    if session.output.as_json:
        session.output.document({"outcome": found.value})
    else:
        session.output.line(found.value)
    codes = {Outcome.COMMITTED: 0, Outcome.CONFLICT: Conflict.exit_code, Outcome.UNKNOWN: CommitUnknown.exit_code}
    if codes[found]:
        raise typer.Exit(codes[found])


@command(app, "optimize", writes=True)
def optimize(
    session: Session,
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", help="Default: all.")] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", "-t", help="A table; the same as its name alone.")
    ] = None,
    target_rows: Annotated[int, typer.Option("--target-rows", min=1, help="Rows per fragment to aim at.")] = 1 << 20,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")] = False,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Merge small fragments, extend indexes to new rows, checkpoint the log. Safe beside live writers.

    Exits 7 if a table failed; a table that others kept changing is left busy, which is no failure.
    """
    opened = session.read() if dry_run else session.write()
    wanted = [*(tables or ()), *(table or ())] or None

    with opened as lake:

        def size() -> int:
            return sum(t.bytes for t in lake.optimize(wanted, target_rows=target_rows, dry_run=True).tables)

        with running(engine, master, size) as who, session.output.progress("optimize", unit="done") as progress:
            done = lake.optimize(wanted, target_rows=target_rows, dry_run=dry_run, progress=progress.step, engine=who)
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


@command(app, "cleanup", branch=False, writes=True)
def cleanup(
    session: Session,
    keep: Annotated[int, typer.Option("--keep", help="Keep at least this many commits of every branch.")] = 10,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Keep what was the newest within this time.")
    ] = "7d",
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="Delete nothing that is younger than this.")
    ] = "1h",
    dead_after: Annotated[
        str, typer.Option("--dead-after", metavar="TIME", help="Revoke writers that were silent for so long.")
    ] = "1d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files and bytes; delete nothing.")] = False,
) -> None:
    """Delete what no kept commit, tag, branch, lease or writer needs. Can be interrupted and run again."""
    times = {"older_than": length(older_than), "grace": length(grace), "dead_after": length(dead_after)}
    opened = session.read() if dry_run else session.write()
    with opened as lake, session.output.progress("cleanup", unit="done") as progress:
        done = lake.cleanup(keep=keep, dry_run=dry_run, progress=progress.step, **times)
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
    for table, why in done.skipped.items():
        output.note(f"{table}: left alone: {why}")
