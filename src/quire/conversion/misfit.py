"""What is wrong with rows that do not fit a table: where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from quire.conversion.rules import ONE_VALUE, Unfit, refusal
from quire.errors import InvalidInput, SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa


def misfit(
    unfit: Unfit, field: pa.Field, table: str, first: int = 0, have: pa.DataType | None = None
) -> SchemaMismatch:
    """What is wrong with a value: in which column and row, and what to do about it."""
    import pyarrow as pa

    row, value = first + unfit.at, _short(unfit.value)
    typed = "" if pa.types.is_null(field.type) else f" is {field.type}, but"
    why = f", which {unfit.why}" if unfit.why.startswith(("is ", "has ")) else f": {unfit.why}" if unfit.why else ""
    where = f"row {row} (counted from 0)"
    return SchemaMismatch(
        f"Column {field.name!r}{of_table(table)}{typed or ':'} {where} has {value}{why}.",
        next=_advice(unfit, field.type, have),
        table=table,
        column=field.name,
        row=row,
        value=value,
        expected=None if pa.types.is_null(field.type) else str(field.type),
        actual=str(have) if have is not None else type(unfit.value).__name__,
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _advice(unfit: Unfit, want: pa.DataType, have: pa.DataType | None = None) -> str:
    """The next step for a value that does not fit."""
    import pyarrow.types as t

    value = unfit.value

    if t.is_null(want) and unfit.why != ONE_VALUE:
        return "Give the values of a column one type, or pass a schema."
    if isinstance(value, str) and (t.is_date(want) or t.is_timestamp(want) or t.is_time(want)):
        return "Read the text as a time first, for example with datetime.date.fromisoformat or pandas.to_datetime."
    if unfit.why == ONE_VALUE:
        return "Give a list of values for every column, or a list with one dict per row."
    if isinstance(value, str) and (t.is_string(want) or t.is_large_string(want)):
        return "Correct the text: half of a surrogate pair stands for no character, and no file can hold it."
    if isinstance(value, str) and not _is_nested(want):
        return f"Convert the text to {want} first."
    if getattr(value, "tzinfo", None) is not None and t.is_timestamp(want) and want.tz is None:
        return "Drop the zone with .astimezone(UTC).replace(tzinfo=None), or make the column a timestamp with a zone."
    if isinstance(value, int) and not isinstance(value, bool) and t.is_integer(want):
        return "Make the column wider with alter_column: int64, decimal128(38, 0), or text for larger numbers."
    if t.is_fixed_size_list(want) and "values instead of" in unfit.why:
        return f"Give every row {want.list_size} values: embed with the model that made the column."
    return "Correct the value, convert it before writing, or change the column with alter_column."


def _is_nested(want: pa.DataType) -> bool:
    return bool(want.num_fields)


def wrong_type(table: str, field: pa.Field, have: pa.DataType) -> SchemaMismatch:
    why = refusal(have, field.type)
    return SchemaMismatch(
        f"Column {field.name!r} of table {table!r} is {field.type}, but the data has {have}"
        + (f": {why}." if why else "."),
        next="Cast the column before writing, or change the table with alter_column.",
        table=table,
        column=field.name,
        expected=str(field.type),
        actual=str(have),
    )


def illegible(error: BaseException, table: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"The data{for_table(table)} cannot be read as columns: {(str(error).splitlines() or [repr(error)])[0]}.",
        next="Give every column one type and one name.",
        table=table,
    )


def unreadable(data: Any, why: str = "") -> InvalidInput:
    return InvalidInput(
        f"Cannot read rows from a {type(data).__name__}" + (f": {why.rstrip('.')}." if why else "."),
        next="Correct what makes the rows, and run it again."
        if why
        else "Pass an Arrow table or reader, a pandas or polars frame, a list of dicts, or an iterator of batches.",
        type=type(data).__name__,
    )


def no_columns() -> InvalidInput:
    return InvalidInput(
        "There are no rows, so the columns are unknown.", next="Pass a schema, or an empty Arrow table with one."
    )


def for_table(table: str) -> str:
    return f" for table {table!r}" if table else ""


def of_table(table: str) -> str:
    return f" of table {table!r}" if table else ""


def quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(n) for n in names)
