"""What a command prints: one JSON document, or text for people: rich on a terminal, plain columns in a pipe."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import QuireError
from quire.lake.display import NULL, clean
from quire.lake.display import cell as value_cell
from quire.rowfiles.write import to_json as to_json

if TYPE_CHECKING:
    import pyarrow as pa

    from quire import Receipt

_CHUNK = 1000
_CELL = 400
"""Characters of a value that a terminal shows; a pipe gets them all."""
_SUBJECTS = {"tables": "Rows do not fit their tables,", "rows": "Rows of tables and of the graph are wrong,"}
"""How errors of many rows are headed, if they are not of the graph alone."""


class Output:
    """Where the answers and the errors of one command go."""

    def __init__(self, *, as_json: bool, vertical: bool | None = None) -> None:
        self.as_json = as_json
        self.vertical = vertical
        """Whether rows of tables are printed one value per line; None: on a terminal that is too narrow for them."""

    def document(self, document: Any) -> None:
        """The whole answer of a command with `--json`."""
        sys.stdout.write(msgspec.json.format(to_json(document), indent=2).decode() + "\n")

    def line(self, text: str) -> None:
        """One line for people; nothing with `--json`."""
        if not self.as_json:
            sys.stdout.write(clean(text) + "\n")

    def table(self, head: Sequence[str], rows: Iterable[Sequence[Any]], *, most: int | None = None) -> int:
        """Rows for people; the number of rows printed. `most` limits a terminal only: a pipe gets everything."""
        cells = ([cell(value) for value in row] for row in rows)
        if sys.stdout.isatty():
            return _pretty(head, cells, most)
        return _plain(head, cells)

    def rows(self, head: Sequence[str], rows: Iterable[Sequence[Any]], *, most: int | None = None) -> int:
        """Rows of tables for people: null and an empty text look different. A pipe gets every value whole."""
        on_terminal = sys.stdout.isatty()
        cells = ([value_cell(value, _CELL if on_terminal else None) for value in row] for row in rows)
        if not on_terminal:
            return _vertical(head, cells, None) if self.vertical else _plain(head, cells)
        first = list(islice(cells, most))
        rest = chain(first, cells)
        if self.vertical or (self.vertical is None and _width(head, first) > shutil.get_terminal_size().columns):
            return _vertical(head, rest, most)
        return _pretty(head, rest, most)

    def fields(self, pairs: Sequence[tuple[str, Any]]) -> None:
        """Names and values, one per line."""
        width = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.line(f"{name:<{width}}  {cell(value)}".rstrip())

    def receipt(self, receipt: Receipt, extra: dict[str, Any] | None = None) -> None:
        """The proof of a commit."""
        if self.as_json:
            self.document({**receipt.to_dict(), **(extra or {})})
            return
        self.committed(receipt)
        if receipt.repeated:
            return
        for name, table in receipt.tables.items():
            version = f", version {table.version}" if table.version is not None else ""
            self.line(f"  {name}: {', '.join(table.ops)} +{table.added} -{table.removed}{version}")

    def committed(self, receipt: Receipt) -> None:
        """Whether and as what it was committed, in one line for people."""
        if receipt.repeated:
            self.line(f"already committed{f' as {receipt.commit}' if receipt.commit else ''}; nothing was written now")
            return
        if receipt.commit is None:
            self.line("nothing to commit")
            return
        self.line(f"committed {receipt.commit} on {receipt.branch}")
        if receipt.adopted is not None:
            branch, _, commit = receipt.adopted.rpartition(":")
            self.line(f"  one commit that takes over all tables as of its parent, {commit} of branch {branch};")
            self.line(f"  the commits of {branch} stay in its own log: quire log LAKE -b {branch}")
        if receipt.slowed is not None:
            self.note(f"slowed by {receipt.slowed.seconds:.2f} s: {'; '.join(receipt.slowed.reasons)}")

    def error(self, error: QuireError, *, kind: str | None = None) -> None:
        """What happened, then what to do next. With `--json` on stdout, as the one document."""
        if self.as_json:
            self.document({"error": {**error.to_dict(), **({"kind": kind} if kind else {})}})
            return
        said, details, advice = _told(error)
        sys.stderr.write(f"error: {clean(said)}\n")
        for detail in details:
            sys.stderr.write(f"  {clean(detail)}\n")
        if advice:
            sys.stderr.write(f"next:  {clean(advice)}\n")

    def warn(self, text: str) -> None:
        """Something that is probably not meant, on stderr, also with `--json`."""
        sys.stderr.write(f"warning: {clean(text)}\n")

    def note(self, text: str) -> None:
        """A remark beside the answer, on stderr."""
        if not self.as_json:
            sys.stderr.write(clean(text) + "\n")

    @contextmanager
    def progress(self, what: str, total: int | None = None, *, unit: str = "rows") -> Iterator[Bar]:
        """A bar on a terminal for work that may take long; nothing in a pipe or with `--json`."""
        if self.as_json or not sys.stderr.isatty():
            yield Bar()
            return
        from rich import progress as bars
        from rich.console import Console

        columns = (
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.TextColumn("{task.completed:,.0f} " + unit),
            bars.TimeElapsedColumn(),
        )
        with bars.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            yield Bar(shown, shown.add_task(what, total=total))


class Bar:
    """Counts rows as they pass, and shows the count if there is somewhere to show it."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar, self._task = bar, task
        self.rows = 0

    def through(self, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """The same rows, counted as they are read."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(reader.schema, self.watch(reader))

    def count(self, done: int) -> None:
        """So many more are done."""
        self.rows += done
        if self._bar is not None:
            self._bar.update(self._task, completed=self.rows)

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """A step of something longer: what it is, and how far it has come."""
        if self._bar is not None:
            self._bar.update(self._task, description=what, completed=done, total=total)

    def watch(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            self.count(batch.num_rows)


def _told(error: QuireError) -> tuple[str, list[str], str | None]:
    """What happened in one sentence, every detail that was collected (rows, refused changes), and what to do next."""
    violations, refusals = error.fields.get("violations") or [], error.fields.get("refusals") or []
    if len(violations) > 1:
        count = error.fields.get("count", len(violations))
        left = [f"and {count - len(violations)} more"] if count > len(violations) else []
        said = f"{_SUBJECTS.get(error.fields.get('subject', ''), 'Rules of the graph are broken')} {count} times."
        return said, [*map(_violation, violations), *left], error.next
    if len(violations) == 1:
        return _violation(violations[0]), [], error.next
    if len(refusals) > 1:
        advice = " ".join(dict.fromkeys(r["next"] for r in refusals))
        return "The schema was not applied.", [r["sentence"] for r in refusals], advice
    problems = error.fields.get("problems") or []
    if problems:
        return f"The pipeline does not fit in {len(problems)} places.", problems, error.next
    return error.message, [], error.next


def _violation(found: dict[str, Any]) -> str:
    """`people.csv:12: what is wrong (rule)`."""
    line = f":{found['line']}" if "line" in found else ""
    where = f"{found['file']}{line}: " if "file" in found else ""
    return f"{where}{found['message']} ({found['rule']})"


def cell(value: Any) -> str:
    """One value as people read it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | dict | bytes):
        text = to_json(value).decode()
        return text if len(text) <= 80 else text[:79] + "…"
    return clean(str(value))


def _width(head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Characters of a line of a drawn table."""
    from rich.cells import cell_len

    return 2 + sum(2 + max([cell_len(name), *(cell_len(row[i]) for row in rows)]) for i, name in enumerate(head))


def _vertical(head: Sequence[str], rows: Iterable[Sequence[str]], most: int | None) -> int:
    """Every value on a line of its own, after the name of its column."""
    width = max((len(clean(name)) for name in head), default=0)
    names = [f"{clean(name):<{width}}" for name in head]
    waiting, count = iter(rows), 0
    for count, row in enumerate(islice(waiting, most), 1):
        sys.stdout.write(f"-- row {count} --\n" + "".join(f"{n}  {t}\n" for n, t in zip(names, row, strict=True)))
    if most is not None and next(waiting, None) is not None:
        sys.stdout.write(f"… more rows; the first {most} are shown\n")
    return count


def _pretty(head: Sequence[str], rows: Iterator[list[str]], most: int | None) -> int:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = list(islice(rows, most))
    table = Table(box=box.SIMPLE_HEAD)
    for name in head:
        table.add_column(Text(clean(name)))
    for row in shown:
        table.add_row(*(Text(text, style="dim" if text == NULL else "") for text in row))
    Console().print(table)
    if most is not None and next(rows, None) is not None:
        sys.stdout.write(f"… more rows; the first {most} are shown\n")
    return len(shown)


def _plain(head: Sequence[str], rows: Iterator[list[str]]) -> int:
    """Columns two spaces apart, aligned a chunk at a time, so that any number of rows streams through."""
    count, widths = 0, [len(name) for name in head]
    pending: list[list[str]] = [[clean(name) for name in head]]
    while True:
        chunk = list(islice(rows, _CHUNK))
        count += len(chunk)
        for row in [*pending, *chunk]:
            widths = [max(width, len(text)) for width, text in zip(widths, row, strict=True)]
        for row in [*pending, *chunk]:
            line = "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True))
            sys.stdout.write(line.rstrip() + "\n")
        pending = []
        if len(chunk) < _CHUNK:
            return count
