"""The lake and its history: init, status, log, show, diff, revert."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

import quire
from quire.cli import jsonrows
from quire.cli.output import Output, cell
from quire.cli.program import app
from quire.cli.session import Session, command
from quire.cli.values import snapshot_at
from quire.errors import QuireError

Commit = Annotated[str, typer.Argument(metavar="COMMIT", help="A commit, such as 12.0; `quire log` lists them.")]


@command(app, "init", branch=False, writes=True)
def init(
    session: Session,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="It is no error if the lake exists.")] = False,
) -> None:
    """Make a new, empty lake, after proving that the store is safe for one."""
    with quire.create(session.uri, storage_options=session.storage, author=session.author, exist_ok=exist_ok) as lake:
        if session.output.as_json:
            session.output.document({"uri": lake.uri, "branch": lake.branch_name, "head": lake.head})
        else:
            session.output.line(f"lake at {lake.uri}, head {lake.head}")


@command(app, "status")
def status(session: Session) -> None:
    """Show where a branch stands: head, size, and what plain readers do not see yet."""
    found = session.read().status()
    if session.output.as_json:
        session.output.document(found)
    else:
        session.output.fields(
            [(k.replace("_", " "), ", ".join(v) if isinstance(v, list) else v) for k, v in found.items()]
        )


@command(app, "log")
def log(
    session: Session,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many commits; 0 is all.")] = 20,
    table: Annotated[str | None, typer.Option("--table", "-t", help="Only commits that touched this table.")] = None,
) -> None:
    """List commits, newest first."""
    lake = session.read()
    wanted = (c for c in lake.log() if table is None or table in c.tables)
    commits = islice(wanted, limit or None)
    if session.output.as_json:
        session.output.document({"branch": lake.branch_name, "commits": [_commit(c) for c in commits]})
        return
    session.output.table(
        ("commit", "time", "author", "message", "tables"),
        ((c.id, f"{c.time:%Y-%m-%d %H:%M:%S}", c.author, c.message, ", ".join(c.tables)) for c in commits),
    )


@command(app, "show")
def show(session: Session, commit: Commit) -> None:
    """Show one commit: who, when, why, and what it did to each table."""
    found = session.read().show(commit)
    output = session.output
    if output.as_json:
        output.document(_commit(found))
        return
    shown = _commit(found)
    names = ("id", "branch", "parents", "author", "time", "message", "token", "reverts", "write")
    output.fields([(n, ", ".join(shown[n]) if n == "parents" else shown[n]) for n in names if shown[n]])
    if found.tables:
        output.line("")
        output.table(
            ("table", "did", "added", "removed", "version"),
            [(n, ", ".join(t.ops), t.added, t.removed, t.version) for n, t in found.tables.items()],
        )


def _commit(info: quire.CommitInfo) -> dict[str, Any]:
    return {**info.to_dict(), "write": info.write}


@command(app, "revert", writes=True, message=True)
def revert(session: Session, commit: Commit) -> None:
    """Undo a commit by a new one."""
    with session.write() as lake:
        receipt = lake.revert(commit, session.message)
    session.output.receipt(receipt)


# -- diff --------------------------------------------------------------------------------------------------------------


@command(app, "diff")
def diff(
    session: Session,
    a: Annotated[str, typer.Argument(metavar="A", help="A commit, tag or branch.")],
    b: Annotated[str | None, typer.Argument(metavar="B", help="A commit, tag or branch; otherwise the head.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=0, help="How many rows of each kind to show per table.")] = 5,
    table: Annotated[list[str] | None, typer.Option("--table", "-t", help="Only this table.")] = None,
) -> None:
    """Show what changed from A to B: rows added, changed and removed, per table."""
    lake = session.read()
    found = lake.diff(a, b, tables=table or None)
    entries = [{**t.to_dict(), "rows": _rows(lake, t, a, b, rows)} for t in found]
    if session.output.as_json:
        session.output.document({"before": found.before, "after": found.after, "tables": entries})
        return
    session.output.line(f"{found.before} → {found.after}" + ("" if entries else ": no difference"))
    for entry in entries:
        _show(session.output, entry)


def _rows(lake: quire.Lake, entry: Any, a: str, b: str | None, most: int) -> dict[str, list[Any]]:
    """Some rows of each kind; a changed row as it was and as it is."""
    found: dict[str, list[Any]] = {"added": [], "changed": [], "removed": []}
    if most == 0:
        return found
    if entry.kind == "changed":
        part = entry.rows
        found["added"] = jsonrows.rows(part.added.slice(0, most))
        found["removed"] = jsonrows.rows(part.removed.slice(0, most))
        was, now = (jsonrows.rows(t.slice(0, most)) for t in (part.changed_before, part.changed_after))
        found["changed"] = [{"before": x, "after": y} for x, y in zip(was, now, strict=True)]
    elif entry.kind == "created":
        found["added"] = jsonrows.rows(_state(lake, b)[entry.name].scan(limit=most).to_arrow())
    elif entry.kind == "dropped":
        found["removed"] = jsonrows.rows(_state(lake, a)[entry.name].scan(limit=most).to_arrow())
    return found


def _state(lake: quire.Lake, name: str | None) -> quire.Snapshot:
    if name is None:
        return lake.snapshot()
    try:
        return snapshot_at(lake, name)
    except QuireError:
        return lake.branch(name).snapshot()


def _show(output: Output, entry: dict[str, Any]) -> None:
    output.line("")
    counts = f"{entry['added']} added, {entry['changed']} changed, {entry['removed']} removed"
    output.line(f"{entry['table']} ({entry['kind']}): {counts}")
    for what, names in entry["columns"].items():
        if names:
            output.line(f"  columns {what}: {', '.join(names)}")
    for row in entry["rows"]["added"]:
        output.line(f"  + {_row(row)}")
    for row in entry["rows"]["changed"]:
        output.line(f"  ~ {_row(row['before'])}")
        output.line(f"  → {_row(row['after'])}")
    for row in entry["rows"]["removed"]:
        output.line(f"  - {_row(row)}")
    for what, sign in (("added", "+"), ("changed", "~"), ("removed", "-")):
        more = entry[what] - len(entry["rows"][what])
        if more > 0 and entry["rows"][what]:
            output.line(f"  {sign} … and {more} more {what}")


def _row(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={cell(value)}" for name, value in row.items())
