"""Scans with a filter: Lance applies what it tells exactly, and the rest is told here of the rows that it gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidExpression, InvalidInput, QuireError
from quire.filters import Computing, Condition, Expression, arrow, read_filter
from quire.formats.lance import filter_sql
from quire.formats.lance.lookups import candidates
from quire.formats.lance.metering import streamed
from quire.formats.lance.session import first_line, is_gone, is_panic, translate

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from lance import LanceDataset

_LOST = re.compile(r"Object at location|[Nn]ot found: \S*/|No such file")
"""What is said of a file, and of nothing that a caller could have written in a filter."""
Filter = Any
"""What a person or a layer above gives: text, a condition, a pyarrow expression, or None."""


@dataclass(frozen=True)
class Split:
    """A filter in two parts."""

    text: str = ""
    """The whole, for people."""
    lance: Any = None
    """What Lance is given: its SQL."""
    rest: Expression | None = None
    """What is told here, by DuckDB."""
    arrow: pc.Expression | None = None
    """What is told here, by pyarrow."""
    columns: tuple[str, ...] = ()
    """What is read for that."""
    condition: Condition | None = None
    """The whole, as far as it is understood."""

    @property
    def exact(self) -> bool:
        """Whether Lance tells it all."""
        return self.rest is None and self.arrow is None

    def kept(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows for which the rest holds."""
        if self.exact:
            yield from batches
            return
        with Computing() as computing:
            for batch in batches:
                yield batch.filter(self._mask(computing, batch))

    def _mask(self, computing: Computing, batch: pa.RecordBatch) -> pa.Array:
        if self.rest is not None:
            return computing.mask(self.rest, batch)
        import pyarrow as pa

        assert self.arrow is not None
        try:
            return arrow.mask(self.arrow, batch.select(self.columns))
        except pa.ArrowException as error:
            raise _invalid(self.text, first_line(error), "") from None


def split(filter: Filter, schema: pa.Schema, *, table: str = "", part: str = "filter") -> Split:
    """What Lance is given of a filter on a table with these columns, and what is told here."""
    import pyarrow.compute as pc

    if filter is None:
        return Split()
    if isinstance(filter, pc.Expression):
        return _split_arrow(filter, schema, table)
    if not isinstance(filter, str | Condition):
        raise InvalidInput(
            f"A {part} is SQL text or a pyarrow expression, not a {type(filter).__name__}.",
            next=f'For example {part}="year > 2020".',
        )
    found = read_filter(filter, schema, part=part, table=table)
    sql, exact = filter_sql.pushed(found.condition, schema)
    if exact:
        return Split(str(filter), sql, condition=found.condition)
    return Split(str(filter), sql, found.whole, columns=found.whole.columns, condition=found.condition)


def _split_arrow(filter: pc.Expression, schema: pa.Schema, table: str) -> Split:
    """Lance takes what is plain, as SQL; of the rest only pyarrow knows what it means."""
    import pyarrow as pa

    text = str(filter)
    try:
        arrow.mask(filter, schema.empty_table())
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise _invalid(text, first_line(error), table) from None
    condition = arrow.plain(filter, schema)
    sql = None if condition is None else filter_sql.exactly(condition, schema)
    if sql is not None:
        return Split(text, sql, condition=condition)
    return Split(text, arrow=filter, columns=arrow.named(filter, schema))


def scan(
    handle: LanceDataset,
    filter: Split,
    columns: Sequence[str] | None = None,
    *,
    limit: int | None = None,
    offset: int | None = None,
    table: str = "",
    **options: Any,
) -> pa.RecordBatchReader:
    """Rows that satisfy a filter."""
    given = {"columns": list(columns) if columns is not None else None, "filter": filter.lance, **options}
    if filter.exact:
        if limit is not None:
            given["limit"] = limit
        if offset is not None:
            given["offset"] = offset
        return checked(_opened(handle, filter, given, table), filter, table)
    import pyarrow as pa

    shown = handle.scanner(**{k: v for k, v in given.items() if k != "filter"}).projected_schema
    if columns is not None:
        given["columns"] = list(dict.fromkeys([*columns, *filter.columns]))
    reader = _opened(handle, filter, given, table)
    names = shown.names
    rows = (batch.select(names) for batch in filter.kept(checked(reader, filter, table)) if batch.num_rows)
    return pa.RecordBatchReader.from_batches(
        pa.schema([reader.schema.field(n) for n in names]), _cut(rows, limit, offset or 0)
    )


def _cut(batches: Iterator[pa.RecordBatch], limit: int | None, offset: int) -> Iterator[pa.RecordBatch]:
    """Some rows of a stream; it is read no further than them."""
    if limit == 0:
        return
    for batch in batches:
        skipped = min(offset, batch.num_rows)
        offset -= skipped
        rows = batch.slice(skipped, limit)
        if rows.num_rows:
            yield rows
        if limit is not None:
            limit -= rows.num_rows
            if limit <= 0:
                return


def _opened(handle: LanceDataset, filter: Split, options: dict[str, Any], table: str) -> pa.RecordBatchReader:
    with reading(filter, table):
        some = candidates.for_condition(handle, filter.condition)
        return streamed(handle, options if some is None else {**options, "fragments": some})


def checked(reader: pa.RecordBatchReader, filter: Split, table: str) -> pa.RecordBatchReader:
    """The same rows; what goes wrong while they are read is told as what it is."""
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        with reading(filter, table):
            yield from reader

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


class reading:  # noqa: N801 - used as a context manager
    """Turns what Lance says while it reads into a typed error: of the filter, if there is one, else of the storage."""

    def __init__(self, filter: Split, table: str) -> None:
        self.filter, self.table = filter, table

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, QuireError):
            return
        if is_panic(error):
            raise translate(error, f"table {self.table!r}" if self.table else "a scan") from None
        if not isinstance(error, Exception):
            return
        # A file that is gone in the middle of a scan comes as the same class as what Lance cannot compute.
        lost = is_gone(error) or "LanceError(IO)" in str(error) or _LOST.search(str(error)) is not None
        if isinstance(error, ValueError | NotImplementedError) and not lost:
            reason = first_line(error).removeprefix("Invalid user input: ")
            raise _invalid(self.filter.text, reason, self.table) from None
        raise translate(error, f"table {self.table!r}" if self.table else "a scan") from error


def _invalid(text: str, reason: str, table: str) -> InvalidExpression:
    of = f" of table {table!r}" if table else ""
    return InvalidExpression(
        f"{text!r} cannot be computed on the rows{of}: {reason}."
        if text
        else f"The rows{of} cannot be read: {reason}.",
        next="Check the filter against the columns.",
        expression=text,
    )


def count(handle: LanceDataset, filter: Split, table: str) -> int:
    """How many rows satisfy a filter."""
    return sum(batch.num_rows for batch in scan(handle, filter, [*filter.columns] or ["_rowid"], table=table))


def grown(
    read: Callable[[int], pa.RecordBatchReader], filter: Split, wanted: int, most: int
) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """The first rows of a search that satisfy what Lance does not tell: it is asked for more until they are enough."""
    ask = max(4 * wanted, 100)
    while True:
        reader = read(min(ask, most))
        batches = list(reader)
        kept = [batch for batch in filter.kept(batches) if batch.num_rows]
        if sum(batch.num_rows for batch in kept) >= wanted or ask >= most or _short(batches, ask):
            return reader.schema, list(islice(_cut(iter(kept), wanted, 0), len(kept)))
        ask *= 8


def _short(batches: Sequence[pa.RecordBatch], asked: int) -> bool:
    return bool(sum(batch.num_rows for batch in batches) < asked)
