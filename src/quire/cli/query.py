"""SQL over every table of one commit."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from quire.cli import jsonrows, values, writers
from quire.cli.kinds import STANDARD, Kind, kind_of
from quire.cli.output import to_json
from quire.cli.program import app
from quire.cli.session import Session, command
from quire.errors import InvalidInput

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
    typer.Option("--format", help="How to write the result: table (default), json, csv, jsonl, parquet, arrow."),
]
Target = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")]


@command(app, "sql", at=True)
def sql(
    session: Session,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT over the tables; - reads it from stdin.")],
    format: Format = None,
    output: Target = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="A value for $NAME in the query.")
    ] = None,
) -> None:
    """Run one SELECT over all tables of one commit, with DuckDB. On a terminal the first 200 rows are shown."""
    text = sys.stdin.read() if query == STANDARD else query
    snap = session.snapshot()
    rows = snap.sql(text, values.scalars(param, "--param") or None)
    answer(session, rows, snap.commit, format, output)


def answer(session: Session, rows: Rows, commit: str, format: Shape | None, output: str | None) -> None:
    """Print the rows of a query, or write them to a file, as the options say."""
    if output is not None and output != STANDARD:
        count = writers.write(rows, rows.schema, output, _file_kind(output, format))
        if session.output.as_json:
            session.output.document({"commit": commit, "file": output, "rows": count})
        else:
            session.output.line(f"wrote {count} rows to {output}")
    elif session.output.as_json:
        _refuse_both(format)
        _print_whole(_document(rows, rows.schema, commit))
    elif format in (None, Shape.table):
        lines = (line for batch in rows for line in zip(*jsonrows.columns(batch), strict=True))
        session.output.table(rows.schema.names, lines, most=SHOWN)
    elif format is Shape.json:
        _print_whole(_array(rows, rows.schema, ""))
    else:
        writers.write(rows, rows.schema, STANDARD, Kind(format))


def _file_kind(path: str, shape: Shape | None) -> Kind:
    if shape in (Shape.table, Shape.json):
        raise InvalidInput(f"A file of format {shape} is not written.", next=f"Use one of {', '.join(Kind)}.")
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
    columns = [{"name": n, "type": str(f.type)} for n, f in zip(jsonrows.distinct(schema.names), schema, strict=True)]
    yield f'{{\n  "commit": {to_json(commit).decode()},\n  "columns": {to_json(columns).decode()},\n  "rows": '
    yield from _array(batches, schema, "  ")
    yield "\n}"


def _array(batches: Iterable[pa.RecordBatch], schema: pa.Schema, indent: str) -> Iterator[str]:
    names = jsonrows.distinct(schema.names)
    opening = "["
    for batch in batches:
        for row in jsonrows.rows(batch.rename_columns(names)):
            yield f"{opening}\n{indent}  {to_json(row).decode()}"
            opening = ","
    yield "[]" if opening == "[" else f"\n{indent}]"
