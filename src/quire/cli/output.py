"""What a command prints: one JSON document, or text for people: rich on a terminal, plain columns in a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from quire.errors import QuireError
from quire.formats.rowfiles import to_json as to_json

if TYPE_CHECKING:
    import pyarrow as pa

    from quire import Receipt

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CHUNK = 1000
_SUBJECTS = {"tables": "Rows do not fit their tables,", "rows": "Rows of tables and of the graph are wrong,"}
"""How errors of many rows are headed, if they are not of the graph alone."""


class Output:
    """Where the answers and the errors of one command go."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

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

    def note(self, text: str) -> None:
        """A remark beside the answer, on stderr."""
        if not self.as_json:
            sys.stderr.write(clean(text) + "\n")

    @contextmanager
    def progress(self, what: str, total: int | None = None, *, unit: str = "rows") -> Iterator[Progress]:
        """A bar on a terminal for work that may take long; nothing in a pipe or with `--json`."""
        if self.as_json or not sys.stderr.isatty():
            yield Progress()
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
            yield Progress(shown, shown.add_task(what, total=total))


class Progress:
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

    def step(self, what: str, done: int, total: int | None = None) -> None:
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


def clean(text: str) -> str:
    """Text that cannot move the cursor or break the line."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


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
        table.add_row(*(Text(text) for text in row))
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
