"""Rows that fit a table's schema: its columns, in its order and types.

Which values fit which column is the same for whatever the rows came from: the rules are in `rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from quire.conversion.misfit import misfit, quoted, wrong_type
from quire.conversion.rules import Unfit, converted, verdict
from quire.conversion.source import Source, finite, is_same
from quire.errors import SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa

Missing = Literal["error", "null"]


def fit(
    data: Source, schema: pa.Schema, *, table: str, missing: Missing = "error", only: bool = False, first: int = 0
) -> Source:
    """The same rows in the table's column order and types, or `SchemaMismatch`.

    With `only` the data may lack columns of the table and keeps its own subset. `first` is the number of the first row.
    """
    import pyarrow as pa

    if is_same(data.schema, schema):
        return finite(data, table)
    have, want = set(data.schema.names), set(schema.names)
    extra = [n for n in data.schema.names if n not in want]
    absent = [n for n in schema.names if n not in have]
    if len(have) != len(data.schema.names):
        raise SchemaMismatch(
            f"The data for table {table!r} has two columns of one name.", next="Rename one.", table=table
        )
    if extra:
        raise SchemaMismatch(
            f"Table {table!r} has no column {quoted(extra)}.",
            next=f"Its columns are {quoted(schema.names)}; drop the extra ones or add them with add_columns"
            " (`quire table add-column`).",
            table=table,
            unexpected=extra,
        )
    required = [n for n in absent if not schema.field(n).nullable]
    if not only and (required or (absent and missing == "error")):
        lacking = required if missing == "null" else absent
        raise SchemaMismatch(
            f"The data for table {table!r} lacks column {quoted(lacking)}.",
            next="Supply it" + ("." if required else ', or pass missing="null" (`--fill-missing`) to fill in nulls.'),
            table=table,
            missing=lacking,
        )
    target = pa.schema([f for f in schema if not only or f.name in have])
    for field in target:
        if field.name not in have or _all_null(data, field.name):
            continue
        given = data.schema.field(field.name).type
        if verdict(given, field.type) == "never":
            raise wrong_type(table, field, given)
    if is_same(data.schema, target):
        return finite(data, table)
    convert = _Fitter(target, table, first)
    if data.whole:
        return finite(Source(target, [convert(b) for b in data.batches], whole=True, own=data.own), table)
    return finite(Source(target, (convert(b) for b in data.batches), whole=False, own=data.own), table)


def _all_null(data: Source, name: str) -> bool:
    """Whether a column in memory has no value at all: then it has no type either, whatever pandas called it."""
    return data.whole and all(b.column(name).null_count == b.num_rows for b in data.batches)


@dataclass
class _Fitter:
    target: pa.Schema
    table: str
    rows: int = 0
    """Of the batches before this one."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = []
        for field in self.target:
            index = batch.schema.get_field_index(field.name)
            if index < 0:
                arrays.append(pa.nulls(batch.num_rows, field.type))
                continue
            try:
                column = converted(batch.column(index), field.type)
            except Unfit as unfit:
                raise misfit(unfit, field, self.table, self.rows, batch.column(index).type) from None
            if column.null_count and not field.nullable:
                at = self.rows + int(first_true(column.is_null()))
                raise SchemaMismatch(
                    f"Column {field.name!r} of table {self.table!r} is required, but row {at} (counted from 0) has a"
                    " null in it.",
                    next="Fill or drop those rows.",
                    table=self.table,
                    column=field.name,
                    row=at,
                )
            arrays.append(column)
        self.rows += batch.num_rows
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)


def first_true(wrong: pa.BooleanArray) -> int:
    import pyarrow.compute as pc

    return int(pc.index(wrong, True).as_py())
