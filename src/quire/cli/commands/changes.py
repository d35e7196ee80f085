"""The change feed on the command line: read it, follow it, go on from a cursor."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli import completion
from quire.cli.arguments import length
from quire.cli.options import Session, command
from quire.cli.output import to_json
from quire.errors import InvalidInput, QuireError
from quire.lake.feed.blocks import ADDED
from quire.rowfiles.write import json_rows, whole

if TYPE_CHECKING:
    from quire.lake.feed.blocks import ChangeBlock
    from quire.lake.feed.feed import Feed

SHOWN = 200
LONGEST = 4096
"""Bytes of a file that may hold a cursor."""


class Shape(StrEnum):
    """How changes are printed."""

    table = "table"
    jsonl = "jsonl"
    arrow = "arrow"


class Pictures(StrEnum):
    """Which versions of an updated row are printed."""

    after = "after"
    both = "both"
    none = "none"


@command("changes", rows=True)
def changes(
    session: Session,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE]...", help="Only these tables.", autocompletion=completion.tables),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="WHERE",
            help="A commit, a cursor, beginning, now, or baseline: all rows first. Default: the beginning; with "
            "--follow now.",
            autocompletion=completion.points,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
    wait: Annotated[
        float | None, typer.Option("--wait", metavar="SECONDS", min=0, help="End after so long without news.")
    ] = None,
    poll: Annotated[
        float, typer.Option("--poll", metavar="SECONDS", min=0.01, help="How often others' commits are looked for.")
    ] = 1.0,
    ops: Annotated[
        list[str] | None, typer.Option("--op", metavar="OP", help="Only insert, update or delete. Repeatable.")
    ] = None,
    images: Annotated[
        Pictures, typer.Option("--images", help="Updated rows as they are (after), as they were too, or no rows.")
    ] = Pictures.after,
    net: Annotated[bool, typer.Option("--net", help="One block that leads to the newest commit.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most so many commits.")] = None,
    format: Annotated[Shape | None, typer.Option("--format", help="table (default), jsonl, or arrow.")] = None,
    cursor_file: Annotated[
        Path | None,
        typer.Option(
            "--cursor-file",
            metavar="FILE",
            help="Go on from the cursor in this file, and write it anew after every commit that was printed.",
        ),
    ] = None,
    consumer: Annotated[
        str | None,
        typer.Option(
            "--consumer",
            metavar="NAME",
            help="Go on where the consumer of this name stands, and move it on after every commit that was printed. "
            "The lake keeps it; a new one begins at --since.",
        ),
    ] = None,
    hold: Annotated[
        str | None,
        typer.Option(
            "--hold", metavar="TIME", help="Cleanup keeps what the consumer has not read, for so long: 12h, 7d."
        ),
    ] = None,
) -> None:
    """Print what changed, commit by commit, and wait for more."""
    start = "now" if follow else "beginning"
    done: Callable[[str], None] | None = None
    if consumer is not None:
        if net or cursor_file is not None:
            raise InvalidInput(
                "A consumer has a place of its own, commit by commit.", next="Leave out --net and --cursor-file."
            )
        named = session.write(backfill=False).consumers.open(
            consumer,
            since=since or start,
            tables=tables or None,
            ops=ops or None,  # type: ignore[arg-type]
            images=None if images is Pictures.after else images.value,  # type: ignore[arg-type]
            hold=length(hold).total_seconds() if hold is not None else None,
        )
        feed, done = named.changes(follow=follow, poll=poll, timeout=wait), named.commit
    elif hold is not None:
        raise InvalidInput("Only a consumer holds changes.", next="Name it: --consumer NAME.")
    else:
        given = _stored(cursor_file) if since is None and cursor_file is not None else since
        feed = session.read().changes(
            given or start,
            tables=tables or None,
            ops=ops or None,  # type: ignore[arg-type]
            images=images.value,
            net=net,
            follow=follow,
            poll=poll,
            timeout=wait,
        )
        if cursor_file is not None:
            done = partial(_store, cursor_file)
    if session.output.as_json and not follow:
        last = _document(session, feed, limit, format)
    else:
        last, printer = None, _printer(session, format, tables)
        for block in islice(feed, limit):
            printer(block)
            sys.stdout.flush()
            last = block.cursor
            if done is not None:
                done(last)
    if done is not None and (consumer is None or last is not None):
        done(feed.cursor)


@command("consumer list", branch=False)
def list_consumers(session: Session) -> None:
    """List the consumers of changes, where they stand, and what they hold."""
    found = session.read().consumers.list()
    if session.output.as_json:
        session.output.document({"consumers": [one.to_dict() for one in found]})
        return
    session.output.table(
        ("consumer", "branch", "after", "changed (UTC)", "hold (s)", "holds"),
        [
            (c.name, c.branch, c.commit, f"{c.changed:%Y-%m-%d %H:%M:%S}", f"{c.hold:.0f}", "yes" if c.holds else "no")
            for c in found
        ],
    )


@command("consumer drop", branch=False, writes=True)
def drop_consumer(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the consumer.")],
) -> None:
    """Forget a consumer of changes, and let go of what it holds."""
    with session.write(backfill=False) as lake:
        lake.consumers.drop(name)
    if session.output.as_json:
        session.output.document({"dropped": name})
    else:
        session.output.line(f"dropped consumer {name}")


def _printer(session: Session, format: Shape | None, tables: list[str] | None) -> Callable[[ChangeBlock], None]:
    if session.output.as_json:
        _refuse_both(format)
        return lambda block: _write(_told(block))
    if format is Shape.jsonl:
        return _lines
    if format is Shape.arrow:
        if not tables or len(tables) != 1:
            raise InvalidInput("A stream of Arrow has one table.", next="Name it: quire changes LAKE TABLE.")
        return _Stream(tables[0])
    return lambda block: _shown(session, block)


def _refuse_both(format: Shape | None) -> None:
    if format is not None:
        raise InvalidInput(f"--json and --format {format} contradict each other.", next="Leave one out.")


# -- for people --------------------------------------------------------------------------------------------------------


def _shown(session: Session, block: ChangeBlock) -> None:
    out = session.output
    out.line(f"{block.commit}  {block.time:%Y-%m-%d %H:%M:%S}  {block.author}  {block.message}".rstrip())
    for table in block.tables.values():
        was = f" (was {table.was})" if table.was else ""
        columns = "".join(f", {what} {', '.join(names)}" for what, names in table.columns.items() if names)
        said = ", ".join(e for e in table.events if e not in ("columns", "renamed"))
        out.line(f"  {table.name}{was}{f': {said}' if said else ''}{f': columns{columns}' if columns else ''}")
        rows = table.rows
        if not rows.num_rows:
            continue
        # The kind of change stands first; the commit is in the heading.
        names = ["_change_type", *(name for name in rows.column_names if name not in ADDED)]
        lines = (tuple(row.values()) for row in json_rows(rows.select(names)))
        out.rows(["change", *names[1:]], lines, most=SHOWN)


# -- for programs ------------------------------------------------------------------------------------------------------


def _document(session: Session, feed: Feed, limit: int | None, format: Shape | None) -> str | None:
    """Print all as one document; the cursor of its last block."""
    _refuse_both(format)
    blocks = [_told(block) for block in islice(feed, limit)]
    session.output.document({"changes": blocks, "cursor": feed.cursor})
    sys.stdout.flush()
    return blocks[-1]["cursor"] if blocks else None


def _told(block: ChangeBlock) -> dict[str, Any]:
    found = block.to_dict()
    for said, table in zip(found["tables"], block.tables.values(), strict=True):
        said["rows"] = [row for batch in table.batches() for row in json_rows(batch)]
    return found


def _lines(block: ChangeBlock) -> None:
    """A line per event and per row, and one at the end of the commit."""
    for table in block.tables.values():
        if table.events or table.reset:
            said = {k: v for k, v in table.to_dict().items() if k not in ("table", "id")}
            _write({"_table": table.name, "_event": said, "_commit": block.commit})
        for batch in table.batches():
            for row in json_rows(batch):
                _write({"_table": table.name, **row})
    _write({"_commit": block.commit, "_message": block.message, "_author": block.author, "_cursor": block.cursor})


def _write(value: Any) -> None:
    sys.stdout.write(to_json(value).decode() + "\n")


class _Stream:
    """A stream of Arrow to stdout. Its columns cannot change on the way."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._writer: Any = None
        self._schema: Any = None

    def __call__(self, block: ChangeBlock) -> None:
        for table in block.tables.values():
            for batch in table.batches():
                if batch.num_rows:
                    self._put(batch, block)

    def _put(self, batch: Any, block: ChangeBlock) -> None:
        import pyarrow as pa

        if self._writer is None:
            self._schema = batch.schema
            self._writer = pa.ipc.new_stream(sys.stdout.buffer, batch.schema)
        if batch.schema != self._schema:
            raise InvalidInput(
                f"Commit {block.commit} changed the columns of {self._table!r}, and a stream of Arrow keeps its own.",
                next="Run it again from the last cursor (--cursor-file), or use --format jsonl.",
                commit=block.commit,
            )
        self._writer.write_batch(batch)


# -- cursors -----------------------------------------------------------------------------------------------------------


def _stored(path: Path) -> str | None:
    """The cursor in a file; None when there is no file yet."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(LONGEST).strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, error) from None
    return text or None


def _store(path: Path, cursor: str) -> None:
    try:
        with whole(path) as file:
            file.write(cursor.encode() + b"\n")
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: Exception) -> QuireError:
    said = error.strerror if isinstance(error, OSError) else "it is no text"
    return InvalidInput(
        f"The cursor file {str(path)!r} cannot be used: {said}.",
        next="Name a file that can be read and written; it is made if it is not there.",
        file=str(path),
    )
