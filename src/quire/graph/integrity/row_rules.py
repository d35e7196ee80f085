"""Rules that a row keeps or breaks by itself: required, enum, range, check, finite numbers, an id that fits its key.

All of them are computed by columns; Python sees a row only when it breaks a rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quire.graph.types import Type, identity

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.catalog import Entity
from collections.abc import Iterator
from dataclasses import dataclass

from quire.graph.integrity.violations import Violation, Violations
from quire.graph.types import FLOATS

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.graph.catalog import Check, Entity, Property, Range


_CASTS = ("Bool", "I32", "I64", "U32", "U64", "Date")
"""Types whose canonical text is what Arrow prints."""


def ids(columns: Sequence[Any], kinds: Sequence[Type]) -> pa.Array:
    """The id of every row of key columns. Null where a part of the key is null."""
    import pyarrow as pa

    if len(columns) == 1:
        return texts(columns[0], kinds[0])
    parts = [column.to_pylist() for column in columns]
    made = [None if None in row else identity(row) for row in zip(*parts, strict=True)]
    return pa.array(made, pa.string())


def texts(column: Any, kind: Type) -> pa.Array:
    """The canonical text of every value of a column that is stored as this type."""
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if kind.is_text:
        return whole
    if kind.base in _CASTS:
        return whole.cast(pa.string())
    return pa.array([None if v is None else identity([v]) for v in whole.to_pylist()], pa.string())


def key_columns(entity: Entity) -> tuple[list[str], list[Type]]:
    """Where the key of a node type is stored, and as what."""
    names = entity.defined.key
    return list(entity.columns(names)), [entity.property(n).type for n in names]


_DAY = 86_400_000_000
CALENDAR = {"Date": (-719_162, 2_932_896), "DateTime": (-719_162 * _DAY, 2_932_897 * _DAY - 1)}
"""The first and the last that Python has, as they are stored: days, and microseconds."""


@dataclass(frozen=True)
class Broken:
    """The rows of a batch that break one rule."""

    rule: str
    property: str | None
    rows: Any
    """Their positions, as a numpy array."""
    said: str
    """The end of a sentence that begins with the name of the property."""
    column: str | None = None
    """The column whose value is shown."""


def broken(entity: Entity, batch: pa.RecordBatch) -> Iterator[Broken]:
    """Every rule that a batch in the shape of the type's table breaks. Columns that it lacks are not looked at."""
    for prop in entity.defined.properties:
        if batch.schema.get_field_index(prop.column) >= 0:
            yield from _of_property(prop, batch.column(prop.column))
    for limits in entity.defined.ranges:
        prop = entity.property(limits.property)
        if batch.schema.get_field_index(prop.column) >= 0:
            yield from _of_range(prop, limits, batch.column(prop.column))
    for check in entity.defined.checks:
        prop = entity.property(check.property)
        if batch.schema.get_field_index(prop.column) >= 0:
            yield from _of_check(prop, check, batch.column(prop.column))
    if entity.kind == "node" and entity.defined.key:
        yield from _of_key(entity, batch)


def check_rows(entity: Entity, batch: pa.RecordBatch, found: Violations) -> None:
    """Add what is wrong with the rows of a batch, each with its id."""
    for one in broken(entity, batch):
        found.add((_told(entity, batch, one, int(row)) for row in one.rows[: found.room]), len(one.rows))


def _told(entity: Entity, batch: pa.RecordBatch, one: Broken, row: int) -> Violation:
    id = batch.column("id")[row].as_py()
    return Violation(entity.name, one.rule, sentence(entity, one, batch, row, id), id=id, property=one.property)


def sentence(entity: Entity, one: Broken, batch: pa.RecordBatch, row: int, id: str | None) -> str:
    """What is wrong with one row, for people."""
    who = f"{entity.name} {id!r}" if id is not None else entity.name
    what = f"{who}: {one.property} {one.said}" if one.property else f"{who} {one.said}"
    if one.column is not None:
        value = repr(batch.column(one.column)[row].as_py())
        what += f", not {value if len(value) <= 60 else value[:57] + '…'}"
    return what + "."


def _rows(mask: Any) -> Any:
    """Positions where a mask is true; null is false."""
    import numpy as np
    import pyarrow.compute as pc

    return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))


def _of_property(prop: Property, column: Any) -> Iterator[Broken]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = prop.type
    if not kind.optional and column.null_count:
        yield Broken("required", prop.name, _rows(column.is_null()), "is required and missing")
    if kind.base == "enum":
        allowed = pc.is_in(column, value_set=pa.array(kind.values, pa.string()))
        rows = _rows(pc.and_(pc.invert(allowed), column.is_valid()))
        if len(rows):
            yield Broken("enum", prop.name, rows, f"must be one of {', '.join(kind.values)}", prop.column)
    if kind.base in FLOATS and not kind.many:
        rows = _rows(pc.invert(pc.is_finite(column)))
        if len(rows):
            yield Broken("type", prop.name, rows, f"must be a finite number ({kind.base})", prop.column)
    if kind.is_time:
        rows = beyond_calendar(column, kind)
        if len(rows):
            yield Broken("type", prop.name, rows, "must be within the years 1 to 9999")
    if kind.many or kind.base == "Vector":
        yield from _of_items(prop, column)


def beyond_calendar(column: Any, kind: Type) -> Any:
    """Rows with a time that Arrow can hold and Python cannot: it would break whoever reads it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = column.cast(pa.int32() if kind.base == "Date" else pa.int64())
    low, high = CALENDAR[kind.base]
    return _rows(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)))


def _of_items(prop: Property, column: Any) -> Iterator[Broken]:
    """Lists hold no null, and no number that is none."""
    import numpy as np
    import pyarrow.compute as pc

    items, parents = pc.list_flatten(column), pc.list_parent_indices(column)
    if items.null_count:
        rows = np.unique(parents.filter(items.is_null()).to_numpy())
        yield Broken("type", prop.name, rows, "must not have a null in its list")
    if prop.type.base in (*FLOATS, "Vector"):
        wrong = pc.fill_null(pc.invert(pc.is_finite(items)), False)
        rows = np.unique(parents.filter(wrong).to_numpy())
        if len(rows):
            yield Broken("type", prop.name, rows, "must hold finite numbers only")


def _of_range(prop: Property, limits: Range, column: Any) -> Iterator[Broken]:
    import numpy as np

    low, high = limits.low, limits.high
    wrong = [_beyond(column, prop.type, bound, less) for bound, less in ((low, True), (high, False))]
    rows = np.unique(np.concatenate(wrong))
    if len(rows):
        said = f"must be within {'' if low is None else low}..{'' if high is None else high}"
        yield Broken("range", prop.name, rows, said, prop.column)


def _beyond(column: Any, kind: Type, bound: float | None, less: bool) -> Any:
    """Rows on the wrong side of a bound, which may lie outside the numbers that the type can hold."""
    import math

    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if bound is None:
        return np.empty(0, np.int64)
    if not kind.is_integer:
        compared = pc.less if less else pc.greater
        return _rows(compared(column.cast(pa.float64()), pa.scalar(float(bound), pa.float64())))
    whole = math.ceil(bound) if less else math.floor(bound)
    try:
        limit = pa.scalar(whole, column.type)
    except (pa.ArrowInvalid, OverflowError):
        # All values of the type lie on one side of such a bound.
        outside = (whole > 0) == less
        return _rows(column.is_valid()) if outside else np.empty(0, np.int64)
    return _rows((pc.less if less else pc.greater)(column, limit))


def _of_check(prop: Property, check: Check, column: Any) -> Iterator[Broken]:
    import pyarrow.compute as pc

    matched = pc.match_substring_regex(column, pattern=whole_match(check.pattern))
    rows = _rows(pc.invert(matched))
    if len(rows):
        yield Broken("check", prop.name, rows, f"must match {check.pattern!r}", prop.column)


def whole_match(pattern: str) -> str:
    """A pattern that the whole text has to match."""
    return rf"\A(?:{pattern})\z"


def _of_key(entity: Entity, batch: pa.RecordBatch) -> Iterator[Broken]:
    import pyarrow.compute as pc

    names, kinds = key_columns(entity)
    if any(batch.schema.get_field_index(name) < 0 for name in names):
        return
    expected = ids([batch.column(name) for name in names], kinds)
    rows = _rows(pc.not_equal(batch.column("id"), expected))
    if len(rows):
        said = f"has an id that does not follow from its key ({', '.join(entity.defined.key)})"
        yield Broken("key", None, rows, said)
