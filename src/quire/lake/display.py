"""How rows and records show themselves at a prompt and in a notebook: bounded, escaped, and never an exception.

A preview reads at most `ROWS` rows of `COLUMNS` columns. A null and an empty text look different.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from quire import prompt
from quire.rowfiles.write import json_columns, to_json

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 10
COLUMNS = 8
CELL = 32
"""Characters of a value that a preview shows."""
LINE = 100
"""Characters of a line of a preview."""
NULL = "NULL"

clean = prompt.clean


def cell(value: Any, most: int | None = None) -> str:
    """One stored value as people read it, cut to `most` characters.

    Null is NULL. A text stands in quotes where it could be taken for something else: empty, NULL, spaces at an end.

    >>> cell(None), cell(""), cell("NULL"), cell("Ada"), cell(True)
    ('NULL', '""', '"NULL"', 'Ada', 'true')
    """
    if value is None:
        text = NULL
    elif isinstance(value, str):
        unclear = not value or value == NULL or value != value.strip() or value[0] == '"'
        text = clean(to_json(value).decode() if unclear else value)
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, list | tuple | dict | bytes):
        text = clean(to_json(value).decode())
    else:
        text = clean(str(value))
    return text if most is None or len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True)
class Preview:
    """The first rows of something as cells, and what is not shown of it."""

    names: list[str]
    types: list[str]
    rows: list[list[str]]
    more: str = ""
    """What is said of rows that are not shown."""
    hidden: int = 0
    """Columns that are not shown."""

    def text(self) -> str:
        """Aligned columns, as many as fit into a line."""
        widths = [
            max(len(name), *(len(row[i]) for row in self.rows), 0) if self.rows else len(name)
            for i, name in enumerate(self.names)
        ]
        fit, used = 0, 0
        while fit < len(widths) and (fit == 0 or used + widths[fit] <= LINE):
            used += widths[fit] + 2
            fit += 1
        lines = [
            "  ".join(f"{text:<{width}}" for text, width in zip(row[:fit], widths[:fit], strict=True)).rstrip()
            for row in [self.names, *self.rows]
        ]
        return "\n".join([*lines, *self._left_out(len(self.names) - fit)])

    def html(self) -> str:
        """The same as a table, with the types of the columns."""
        head = "".join(
            f"<th>{escape(name)}<br><small>{escape(kind)}</small></th>"
            for name, kind in zip(self.names, self.types, strict=True)
        )
        body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in self.rows)
        more = "".join(f"<p>{escape(note)}</p>" for note in self._left_out(0))
        return f"<table><tr>{head}</tr>{body}</table>{more}"

    def _left_out(self, too_wide: int) -> list[str]:
        hidden = self.hidden + too_wide
        notes = [note for note in (self.more, _more(hidden, "column") if hidden else "") if note]
        return [f"… {', '.join(notes)}"] if notes else []


def preview(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, columns: int | None = None, total: int | None = None
) -> Preview:
    """The first `ROWS` rows. `columns` is how many there are in all, `total` the number of all rows, if it is known."""
    shown = [f for f in schema][:COLUMNS]
    rows: list[list[str]] = []
    known = True
    for batch in batches:
        left = ROWS - len(rows)
        if left == 0:
            known = batch.num_rows == 0
            break
        part = batch.slice(0, left).select(list(range(len(shown))))
        rows += [[cell(v, CELL) for v in row] for row in zip(*json_columns(part), strict=True)]
        if batch.num_rows > left:
            known = False
            break
    left_out = None if total is None else total - len(rows)
    more = _more(left_out, "row") if left_out else "more rows" if left_out is None and not known else ""
    hidden = (len(schema) if columns is None else columns) - len(shown)
    return Preview([clean(f.name) for f in shown], [clean(str(f.type)) for f in shown], rows, more, hidden)


def shown(head: str, show: Callable[[], str], *, html: bool = False) -> str:
    """What is to be shown below its head; when that cannot be read, why."""
    try:
        return f"{head}{show()}"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a library is no Exception
        said = clean(f"cannot be shown: {type(error).__name__}: {error}")
        return f"{head}<p><i>{escape(said)}</i></p>" if html else f"{head}\n({said})"


def columns_of(rows: Sequence[Sequence[Any]], head: Sequence[str]) -> str:
    """Facts as aligned columns."""
    table = [list(head), *([_fact(v) for v in row] for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return "\n".join("  ".join(f"{t:<{w}}" for t, w in zip(row, widths, strict=True)).rstrip() for row in table)


def html_table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, most: int | None = None) -> str:
    """Facts as an HTML table, everything escaped; at most so many rows."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_fact(v))}</td>' for v in row)}</tr>" for row in islice(rows, most))
    return f"<table><tr>{top}</tr>{body}</table>"


def _fact(value: Any) -> str:
    return "" if value is None else clean(str(value))


def _more(count: int, what: str) -> str:
    return f"{count:,} more {what}{'' if count == 1 else 's'}"
