"""The lake and its history: init, status, log, show, diff, revert, restore."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer

import quire
from quire.cli import completion
from quire.cli.arguments import metadata
from quire.cli.commit_graph import drawn
from quire.cli.diff_table import draw
from quire.cli.options import EngineOption, MasterOption, Session, command, running
from quire.cli.output import Output
from quire.errors import InvalidInput
from quire.lake.display import cell
from quire.lake.format_file import FORMAT_KEY
from quire.lake.names import no_table
from quire.prompt import counted
from quire.rowfiles.write import json_rows
from quire.store.address import parse

SHOWN = 80
"""Characters of a value in a list of differences."""

Commit = Annotated[
    str,
    typer.Argument(
        metavar="COMMIT",
        help="A commit, such as 12.0, or a tag; `quire log` lists commits.",
        autocompletion=completion.tags,
    ),
]


@command("init", branch=False, writes=True, here="it makes a lake in storage, which clients of a server do not name")
def init(
    session: Session,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="Do not fail if the lake exists.")] = False,
    ledger: Annotated[
        str, typer.Option("--ledger", help="`log`, or `manifest`: a Lance table that plain clients can read.")
    ] = "log",
) -> None:
    """Create an empty lake. The store is tested first: it must honour create-if-absent."""
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


@command("status")
def status(session: Session) -> None:
    """Show the head, the size and the upkeep of a branch. This includes what plain Lance readers do not see yet."""
    lake = session.read()
    found = lake.status()
    if session.output.as_json:
        session.output.document({**found, "cost": lake.cost})
    else:
        load, tokens, offers = found.pop("load"), found.pop("tokens"), found.pop("offers")
        session.output.fields(
            [(k.replace("_", " "), ", ".join(v) if isinstance(v, list) else v) for k, v in found.items()]
        )
        for bound, at in load.items():
            where = f" ({at['table']})" if at["table"] else ""
            slow = "; writers are slowed" if at["now"] > at["bound"] else ""
            session.output.line(f"{bound.replace('_', ' ')}: {at['now']} of at most {at['bound']}{where}{slow}")
        session.output.line(f"offers: {offers_told(offers)}")
        since = f", those minted until {tokens['since']} were forgotten" if tokens["since"] else ""
        session.output.line(f"tokens remembered: {tokens['opaque']}{since}")
        full = "; new ones are refused" if tokens["streams"] >= tokens["most_streams"] else ""
        session.output.line(f"streams remembered: {tokens['streams']} of at most {tokens['most_streams']}{full}")
        if not (cost := lake.cost):  # behind a server nothing is opened here
            return
        took = f"{cost['total']} requests, {cost['hops']} hops, {cost['retries']} retries, {cost['bytes_in']} bytes"
        session.output.line(f"opening the lake took {took}, {_milliseconds(cost['seconds'])}")


def offers_told(offers: dict[str, Any]) -> str:
    """Whether this handle shares slots with other processes, and how many commits wait to be taken along now."""
    return f"on, {counted(offers['waiting'], 'commit')} waiting" if offers["on"] else "off"


@command("log")
def log(
    session: Session,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most this many commits; 0: all.")] = 20,
    table: Annotated[
        str | None,
        typer.Option("--table", "-t", help="Only commits that touched this table.", autocompletion=completion.tables),
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option("--meta", metavar="KEY=VALUE", help="Only commits with this metadata; repeatable: with all."),
    ] = None,
    recovery: Annotated[bool, typer.Option("--recovery", help="Show recoveries instead of commits.")] = False,
    graph: Annotated[
        bool, typer.Option("--graph", help="Draw the commits of merged branches, too, and what was merged where.")
    ] = False,
) -> None:
    """List commits, newest first."""
    lake = session.read()
    if recovery and session.is_remote:
        raise InvalidInput("A server does not list recoveries.", next="Look at its log, or open the lake itself.")
    if recovery:
        _recoveries(session.output, lake, limit)
        return
    if graph:
        if table is not None or meta:
            raise InvalidInput(
                "A graph of some commits only has no lines between them.", next="Leave out --table and --meta."
            )
        _graph(session.output, lake, limit)
        return
    wanted = lake.log() if table is None else _touching(lake, table)
    asked = metadata(meta).items()
    commits = islice((c for c in wanted if asked <= c.metadata.items()), limit or None)
    if session.output.as_json:
        shown = [_without_cost(c) for c in commits]
        session.output.document({"branch": lake.branch_name, "commits": shown})
        return
    session.output.table(
        ("commit", "time (UTC)", "author", "message", "tables"),
        ((c.id, f"{c.time:%Y-%m-%d %H:%M:%S}", c.author, c.message, ", ".join(c.tables)) for c in commits),
    )


def _without_cost(commit: quire.CommitInfo) -> dict[str, Any]:
    return {name: value for name, value in commit.to_dict().items() if name != "cost"}


def _graph(output: Output, lake: quire.Lake, limit: int) -> None:
    """The history over all parents, a lane for every line of commits."""
    found = list(lake.log(limit or None, parents="all"))
    mine = lake.branch_name
    rows = drawn((c.point, c.kept or ()) for c in found)
    if output.as_json:
        shown = [
            {
                **{name: value for name, value in c.to_dict().items() if name != "cost"},
                "log": c.point.branch,
                "lane": lane,
            }
            for c, (_, _, lane, _) in zip(found, rows, strict=True)
        ]
        output.document({"branch": mine, "commits": shown})
        return
    for c, (before, line, _, after) in zip(found, rows, strict=True):
        for joint in before:
            output.line(joint)
        name = c.id if c.branch == mine else f"{c.branch}:{c.id}"
        output.line("  ".join((line, name, f"{c.time:%Y-%m-%d %H:%M:%S}", c.author, c.message)).rstrip())
        for joint in after:
            output.line(joint)


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


@command("show")
def show(
    session: Session,
    commit: Commit,
    cost: Annotated[
        bool, typer.Option("--cost", help="Show its cost: requests, hops, retries, bytes, time by phase.")
    ] = False,
) -> None:
    """Show one commit: author, time, message and tables."""
    found = session.read().show(commit)
    output = session.output
    shown = found.to_dict()
    if output.as_json:
        output.document(shown)
        return
    names = ("id", "branch", "parents", "author", "time", "message", "token", "reverts", "adopts", "write")
    output.fields([(n, ", ".join(shown[n]) if n == "parents" else shown[n]) for n in names if shown[n]])
    if found.metadata:
        output.fields([(f"meta {key}", value) for key, value in found.metadata.items()])
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


@command("claim", writes=True, here="it would end the server's own writing")
def claim(session: Session) -> None:
    """Become the only writer of a branch. Handles that opened it before are refused when they commit."""
    with session.write() as lake:
        epoch = lake.claim()
        branch = lake.branch_name
    if session.output.as_json:
        session.output.document({"branch": branch, "epoch": epoch})
    else:
        session.output.line(f"claimed {branch}, epoch {epoch}: earlier writers are refused")


@command("revert", writes=True, message=True, metadata=True)
def revert(
    session: Session,
    commit: Commit,
    parent: Annotated[
        int, typer.Option("--parent", min=1, help="Of a merge: keep what this parent had, and undo the rest.")
    ] = 1,
    ours: Annotated[bool, typer.Option("--ours", help="Keep rows that were changed again as they are.")] = False,
    theirs: Annotated[bool, typer.Option("--theirs", help="Undo also what was changed again.")] = False,
) -> None:
    """Undo a commit with a new commit."""
    with session.write() as lake:
        if parent != 1 or ours or theirs:
            from quire.cli.commands.merge import reverted, side_of

            reverted(session, lake, commit, parent, side_of(ours, theirs))
            return
        receipt = lake.revert(commit, session.message, metadata=session.metadata)
    session.output.receipt(receipt)


@command("restore", writes=True, message=True, metadata=True)
def restore(
    session: Session,
    commit: Commit,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            "-t",
            metavar="NAME",
            help="Restore this table only. Repeatable.",
            autocompletion=completion.tables,
        ),
    ] = None,
) -> None:
    """Bring tables back to an earlier commit with a new commit. A tag, branch or time names one, too."""
    from quire.lake.handles import point_or_time

    with session.write() as lake:
        receipt = lake.restore(
            point_or_time(lake, commit), tables=tables, message=session.message, metadata=session.metadata
        )
    session.output.receipt(receipt)


# -- diff --------------------------------------------------------------------------------------------------------------


@command("diff")
def diff(
    session: Session,
    a: Annotated[str, typer.Argument(metavar="A", help="A commit, tag or branch.", autocompletion=completion.points)],
    b: Annotated[
        str | None,
        typer.Argument(
            metavar="B", help="A commit, tag or branch. Default: the head.", autocompletion=completion.points
        ),
    ] = None,
    since_base: Annotated[
        bool, typer.Option("--since-base", help="What B did since it parted from A, instead of all that differs.")
    ] = False,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Show at most this many rows of each kind per table.")] = 5,
    table: Annotated[
        list[str] | None, typer.Option("--table", "-t", help="Only this table.", autocompletion=completion.tables)
    ] = None,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Show the rows that were added, changed or removed. Compares commit A with commit B, per table."""
    lake = session.read()
    wanted = table or None

    def size() -> int:
        return sum(t.bytes for t in lake.diff(a, b, tables=wanted, since_base=since_base) if t.kind == "changed")

    with running(engine, master, size) as who:
        found = lake.diff(a, b, tables=wanted, since_base=since_base, engine=who)
        entries = [{**t.to_dict(), "rows": _rows(t, rows)} for t in found]
        keys = [t.key for t in found]
    if session.output.as_json:
        session.output.document({"before": found.before, "after": found.after, "tables": entries})
        return
    session.output.line(f"{found.before} → {found.after}" + ("" if entries else ": no difference"))
    for entry, key in zip(entries, keys, strict=True):
        _show(session.output, entry, key)


def _rows(entry: Any, most: int) -> dict[str, list[Any]]:
    """Some rows of each kind; a changed row as it was and as it is."""
    found: dict[str, list[Any]] = {"added": [], "changed": [], "removed": []}
    if most == 0 or entry.kind == "renamed":
        return found
    part = entry.some(most)
    found["added"], found["removed"] = json_rows(part.added), json_rows(part.removed)
    was, now = json_rows(part.changed_before), json_rows(part.changed_after)
    found["changed"] = [{"before": x, "after": y} for x, y in zip(was, now, strict=True)]
    return found


def _show(output: Output, entry: dict[str, Any], key: Sequence[str]) -> None:
    output.line("")
    counts = f"{entry['added']} added, {entry['changed']} changed, {entry['removed']} removed"
    output.line(f"{entry['table']} ({entry['kind']}): {counts}")
    for what, names in entry["columns"].items():
        if names:
            output.line(f"  columns {what}: {', '.join(names)}")
    if sys.stdout.isatty():
        from rich.console import Console

        draw(entry["rows"], key, lambda value: cell(value, SHOWN), Console())
    else:
        _lines(output, entry["rows"], key)
    for what, sign in (("added", "+"), ("changed", "~"), ("removed", "-")):
        more = entry[what] - len(entry["rows"][what])
        if more > 0 and entry["rows"][what]:
            output.line(f"  {sign} … and {more} more {what}")


def _lines(output: Output, rows: dict[str, list[Any]], key: Sequence[str]) -> None:
    for row in rows["added"]:
        output.line(f"  + {_row(row)}")
    for row in rows["changed"]:
        before, after = _differing(row["before"], row["after"], key)
        output.line(f"  ~ {_row(before)}")
        output.line(f"  → {_row(after)}")
    for row in rows["removed"]:
        output.line(f"  - {_row(row)}")


def _differing(before: dict[str, Any], after: dict[str, Any], key: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """The key of a changed row and the columns that changed, as they were and as they are."""
    same = {name for name in before.keys() & after.keys() if name not in key and before[name] == after[name]}
    return tuple({name: value for name, value in row.items() if name not in same} for row in (before, after))


def _row(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={cell(value, SHOWN)}" for name, value in row.items())
