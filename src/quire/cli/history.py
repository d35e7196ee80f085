"""The lake and its history: init, status, log, show, diff, revert."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer

import quire
from quire.cli import jsonrows
from quire.cli.engine import EngineOption, MasterOption, running
from quire.cli.output import Output, cell
from quire.cli.program import app
from quire.cli.session import Session, command
from quire.lake.core import FORMAT_KEY
from quire.lake.names import no_table
from quire.store.address import parse

Commit = Annotated[
    str, typer.Argument(metavar="COMMIT", help="A commit, such as 12.0, or a tag; `quire log` lists commits.")
]


@command(app, "init", branch=False, writes=True)
def init(
    session: Session,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="It is no error if the lake exists.")] = False,
    ledger: Annotated[
        str, typer.Option("--ledger", help="`log`, or `manifest`: one Lance table that plain clients can look into.")
    ] = "log",
) -> None:
    """Make a new, empty lake, after proving that the store is safe for one."""
    crowded = _holds_other_files(session.uri)
    with quire.create(
        session.uri,
        storage_options=session.storage,
        author=session.author,
        exist_ok=exist_ok,
        ledger=ledger,  # type: ignore[arg-type]
    ) as lake:
        if session.output.as_json:
            session.output.document({"uri": lake.uri, "branch": lake.branch_name, "head": lake.head})
        else:
            session.output.line(f"lake at {lake.uri}, head {lake.head}")
    if crowded:
        session.output.note(f"warning: {lake.uri} holds other files, too; a folder of its own is easier to look after")


def _holds_other_files(uri: str) -> bool:
    """Whether a local folder that is no lake yet has something in it."""
    address = parse(uri)
    folder = Path(address.path)
    if address.scheme != "file" or not folder.is_dir() or (folder / FORMAT_KEY).exists():
        return False
    with suppress(OSError):  # whoever may not look into it is told so when the lake is made
        return any(folder.iterdir())
    return False


@command(app, "status")
def status(session: Session) -> None:
    """Show where a branch stands: head, size, and what plain readers do not see yet."""
    lake = session.read()
    found = lake.status()
    if session.output.as_json:
        session.output.document({**found, "cost": lake.cost})
    else:
        load = found.pop("load")
        session.output.fields(
            [(k.replace("_", " "), ", ".join(v) if isinstance(v, list) else v) for k, v in found.items()]
        )
        for bound, at in load.items():
            where = f" ({at['table']})" if at["table"] else ""
            slow = "; writers are slowed" if at["now"] > at["bound"] else ""
            session.output.line(f"{bound.replace('_', ' ')}: {at['now']} of at most {at['bound']}{where}{slow}")
        cost = lake.cost
        took = f"{cost['total']} requests, {cost['hops']} hops, {cost['retries']} retries, {cost['bytes_in']} bytes"
        session.output.line(f"opening the lake took {took}, {_milliseconds(cost['seconds'])}")


@command(app, "log")
def log(
    session: Session,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many commits; 0 is all.")] = 20,
    table: Annotated[str | None, typer.Option("--table", "-t", help="Only commits that touched this table.")] = None,
    recovery: Annotated[bool, typer.Option("--recovery", help="Show what recoveries did instead of commits.")] = False,
) -> None:
    """List commits, newest first."""
    lake = session.read()
    if recovery:
        _recoveries(session.output, lake, limit)
        return
    wanted = lake.log() if table is None else _touching(lake, table)
    commits = islice(wanted, limit or None)
    if session.output.as_json:
        shown = [{name: value for name, value in c.to_dict().items() if name != "cost"} for c in commits]
        session.output.document({"branch": lake.branch_name, "commits": shown})
        return
    session.output.table(
        ("commit", "time (UTC)", "author", "message", "tables"),
        ((c.id, f"{c.time:%Y-%m-%d %H:%M:%S}", c.author, c.message, ", ".join(c.tables)) for c in commits),
    )


def _touching(lake: quire.Lake, table: str) -> Iterator[quire.CommitInfo]:
    """The commits that touched a table. One that was dropped since is found too; one that never was, is an error."""
    found = (c for c in lake.log() if table in c.tables)
    first = next(found, None)
    if first is not None:
        return chain([first], found)
    tables = lake.tables()
    if table not in tables:
        raise no_table(table, tables)
    return iter(())


def _recoveries(output: Output, lake: quire.Lake, limit: int) -> None:
    found = lake.recoveries()[: limit or None]
    if output.as_json:
        output.document({"recoveries": [r.to_dict() for r in found]})
        return
    rows = [
        (f"{r.time:%Y-%m-%d %H:%M:%S}", r.by, s.table, s.commit, s.author, s.outcome, s.detail)
        for r in found
        for s in r.steps
    ]
    output.table(("time (UTC)", "by", "table", "commit", "author", "outcome", "detail"), rows)


@command(app, "show")
def show(
    session: Session,
    commit: Commit,
    cost: Annotated[
        bool, typer.Option("--cost", help="Show what the commit took: requests, hops, retries, bytes, time by phase.")
    ] = False,
) -> None:
    """Show one commit: who, when, why, and what it did to each table."""
    found = session.read().show(commit)
    output = session.output
    shown = found.to_dict()
    if output.as_json:
        output.document(shown)
        return
    names = ("id", "branch", "parents", "author", "time", "message", "token", "reverts", "write")
    output.fields([(n, ", ".join(shown[n]) if n == "parents" else shown[n]) for n in names if shown[n]])
    if found.tables:
        output.line("")
        output.table(
            ("table", "did", "added", "removed", "version"),
            [(n, ", ".join(t.ops), t.added, t.removed, t.version) for n, t in found.tables.items()],
        )
    if cost:
        output.line("")
        if found.cost is None:
            output.line("what this commit took was not recorded")
        else:
            output.table(("cost", "value"), list(_cost(found.cost)))


def _cost(cost: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a commit took, line by line."""
    by_kind = ", ".join(f"{kind} {count}" for kind, count in cost["requests"].items())
    yield "requests by Quire", f"{cost['total']} ({by_kind})" if by_kind else "0"
    for system, count in cost["external"].items():
        yield f"requests by {system.capitalize()}", f"{count}"
    yield "hops", f"{cost['hops']}"
    yield "retries", f"{cost['retries']}"
    yield "bytes in", f"{cost['bytes_in']}"
    yield "bytes out, without the slot", f"{cost['bytes_out']}"
    yield "commits in the slot", f"{cost['shared']}"
    yield "time", _milliseconds(cost["seconds"])
    for name, seconds in cost["phases"].items():
        yield f"time, {name}", _milliseconds(seconds)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


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
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Show what changed from A to B: rows added, changed and removed, per table."""
    lake = session.read()
    wanted = table or None

    def size() -> int:
        return sum(t.bytes for t in lake.diff(a, b, tables=wanted) if t.kind == "changed")

    with running(engine, master, size) as who:
        found = lake.diff(a, b, tables=wanted, engine=who)
        entries = [{**t.to_dict(), "rows": _rows(t, rows)} for t in found]
    if session.output.as_json:
        session.output.document({"before": found.before, "after": found.after, "tables": entries})
        return
    session.output.line(f"{found.before} → {found.after}" + ("" if entries else ": no difference"))
    for entry in entries:
        _show(session.output, entry)


def _rows(entry: Any, most: int) -> dict[str, list[Any]]:
    """Some rows of each kind; a changed row as it was and as it is."""
    found: dict[str, list[Any]] = {"added": [], "changed": [], "removed": []}
    if most == 0 or entry.kind == "renamed":
        return found
    part = entry.some(most)
    found["added"], found["removed"] = jsonrows.rows(part.added), jsonrows.rows(part.removed)
    was, now = jsonrows.rows(part.changed_before), jsonrows.rows(part.changed_after)
    found["changed"] = [{"before": x, "after": y} for x, y in zip(was, now, strict=True)]
    return found


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
