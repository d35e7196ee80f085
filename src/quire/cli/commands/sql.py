"""SQL over every table of one commit."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quire.cli import arguments
from quire.cli.options import Session, command
from quire.cli.output import to_json
from quire.errors import InvalidInput
from quire.rowfiles import json_values, write
from quire.rowfiles.kinds import STANDARD, Kind, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from quire import Rows

SHOWN = 200
MEMORY = 16 << 20


class Shape(StrEnum):
    """How the result of a query is written."""

    table = "table"
    json = "json"
    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"
    arrow = "arrow"


Format = Annotated[
    Shape | None,
    typer.Option("--format", help="Format of the result: table (default), json, csv, jsonl, parquet, arrow."),
]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="End the query after so long.")]
Memory = Annotated[int | None, typer.Option("--memory", metavar="MIB", help="Memory that the query may take.")]
MaxRows = Annotated[int | None, typer.Option("--max-rows", metavar="N", help="Fail if the answer has more rows.")]
Target = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")]


@command("sql", at=True, rows=True)
def sql(
    session: Session,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT over the tables; - is stdin.")],
    format: Format = None,
    output: Target = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="A value for $NAME in the query.")
    ] = None,
    timeout: Timeout = None,
    memory: Memory = None,
    max_rows: MaxRows = None,
) -> None:
    """Run one SELECT over all tables of one commit. On a terminal the first 200 rows are shown."""
    text = sys.stdin.read() if query == STANDARD else query
    params = arguments.scalars(param, "--param") or None
    limits = bounds(timeout, memory, max_rows)
    if session.at is None:
        lake = session.read()
        rows = lake.sql(text, params, **limits)
        commit = lake.head
    else:
        snap = session.snapshot()
        rows, commit = snap.sql(text, params, **limits), snap.commit
    answer(session, rows, commit, format, output)


def bounds(timeout: float | None, memory: int | None, max_rows: int | None) -> dict[str, Any]:
    """The limits of a query as the library takes them."""
    return {"timeout": timeout, "memory": None if memory is None else memory << 20, "max_rows": max_rows}


def answer(session: Session, rows: Rows, commit: str, format: Shape | None, output: str | None) -> None:
    """Print the rows of a query, or write them to a file, as the options say."""
    if output is not None and output != STANDARD:
        count = write.write(rows, rows.schema, output, _file_kind(output, format))
        if session.output.as_json:
            session.output.document({"commit": commit, "file": output, "rows": count})
        else:
            session.output.line(f"wrote {count} rows to {output}")
    elif session.output.as_json:
        _refuse_both(format)
        _print_whole(_document(rows, rows.schema, commit))
    elif format in (None, Shape.table):
        lines = (line for batch in rows for line in zip(*json_values.columns(batch), strict=True))
        session.output.rows(rows.schema.names, lines, most=SHOWN)
    elif format is Shape.json:
        _print_whole(_array(rows, rows.schema, ""))
    else:
        write.write(rows, rows.schema, STANDARD, Kind(format))


def _file_kind(path: str, shape: Shape | None) -> Kind:
    if shape in (Shape.table, Shape.json):
        raise InvalidInput(f"--format {shape} cannot be written to a file.", next=f"Use one of {', '.join(Kind)}.")
    return kind_of(path, Kind(shape) if shape is not None else None)


def _refuse_both(shape: Shape | None) -> None:
    if shape not in (None, Shape.json):
        raise InvalidInput(f"--json and --format {shape} contradict each other.", next="Leave one out.")


def _print_whole(parts: Iterable[str]) -> None:
    """Print when all is there: a query that fails half-way must not leave half a document. Large ones wait on disk."""
    with tempfile.SpooledTemporaryFile(max_size=MEMORY, mode="w+", encoding="utf-8") as spool:
        for part in parts:
            spool.write(part)
        spool.seek(0)
        shutil.copyfileobj(spool, sys.stdout)
    sys.stdout.write("\n")


def _document(batches: Iterable[pa.RecordBatch], schema: pa.Schema, commit: str) -> Iterator[str]:
    columns = [{"name": n, "type": str(f.type)} for n, f in zip(write.distinct(schema.names), schema, strict=True)]
    yield f'{{\n  "commit": {to_json(commit).decode()},\n  "columns": {to_json(columns).decode()},\n  "rows": '
    yield from _array(batches, schema, "  ")
    yield "\n}"


def _array(batches: Iterable[pa.RecordBatch], schema: pa.Schema, indent: str) -> Iterator[str]:
    names = write.distinct(schema.names)
    opening = "["
    for batch in batches:
        for row in json_values.rows(batch.rename_columns(names)):
            yield f"{opening}\n{indent}  {to_json(row).decode()}"
            opening = ","
    yield "[]" if opening == "[" else f"\n{indent}]"
