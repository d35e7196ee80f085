"""JSON values as columns and back: what JSON has no type for is text, in the same form in which Quire writes it.

`column` makes values those of a type that is known; `built` makes a column of whatever values there are, for which
`shape` and `merged` say the types. Numbers keep their value: one that a double does not hold is a decimal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from quire.conversion import python_values, text_values
from quire.conversion.rules import Unfit
from quire.errors import SchemaMismatch
from quire.rowfiles.write import json_columns as columns
from quire.rowfiles.write import json_rows as rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["built", "column", "columns", "merged", "number", "rows", "shape"]

WIDEST = 38
"""Digits of a decimal that DuckDB takes too."""
LONGEST = 100
"""Digits up to which a number is written out rather than with an exponent."""
FAITHFUL = 15
"""Digits that every double keeps."""

WHOLE = frozenset({"UBIGINT", "BIGINT", "HUGEINT"})
NUMBERS = WHOLE | {"DOUBLE"}


def column(
    values: Sequence[Any],
    kind: pa.DataType | None,
    name: str,
    where: Callable[[int], str] | None = None,
    *,
    guessed: bool = False,
) -> pa.Array:
    """One column from JSON values; without a type it is inferred. `where` says where a value, by its position, is.

    A type that was `guessed` from values before has no text for its values, but for NaN and the infinities.
    """
    import pyarrow as pa

    if kind is None:
        values = _with_floats(values)
    elif pa.types.is_floating(kind):
        values = [float(v) if _is_fraction(v) else v for v in values]
    try:
        return python_values.column(values, kind, _not_finite if guessed else text_values.read)
    except Unfit as unfit:
        raise located(unfit, pa.field(name, kind or pa.null()), None if where is None else where(unfit.at)) from None


def table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None) -> pa.Table:
    """Rows of JSON as columns: of the types of a schema where it has them, of those that the values show elsewhere."""
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    if not rows and schema is not None:
        return schema.empty_table()
    kinds = {} if schema is None else {field.name: field.type for field in schema}
    columns = [
        column([row.get(name) for row in rows], kinds.get(name), name, lambda at: f"row {at + 1}") for name in names
    ]
    return pa.Table.from_arrays(columns, names=names)


def _not_finite(texts: pa.Array, want: pa.DataType) -> pa.Array | None:
    """NaN and the infinities; any other text is `Unfit`, and there is none for other types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(want):
        return texts
    known = pa.array(list(text_values.NOT_FINITE) if pa.types.is_floating(want) else [], pa.string())
    at = pc.index(pc.or_(pc.is_null(texts), pc.is_in(texts, known)), pa.scalar(False)).as_py()
    if at >= 0:
        raise Unfit(at, texts[at].as_py(), f"is text beside values of {want}")
    return text_values.read(texts, want)


def located(unfit: Unfit, field: pa.Field, place: str | None, **fields: Any) -> SchemaMismatch:
    """What is wrong with a value of a file, and where it is."""
    import pyarrow as pa

    value = repr(unfit.value) if len(repr(unfit.value)) <= 80 else f"{repr(unfit.value)[:77]}…"
    why = f", which {unfit.why}" if unfit.why.startswith(("is ", "has ")) else f": {unfit.why}" if unfit.why else ""
    wanted = "" if pa.types.is_null(field.type) else f" is {field.type} and"
    return SchemaMismatch(
        f"{f'{place}: ' if place else ''}Column {field.name!r}{wanted} has the value {value}{why}.",
        next="Times are written in ISO 8601, bytes in base64; --schema sets the types of a new table.",
        column=field.name,
        value=value,
        **fields,
    )


def _with_floats(values: Sequence[Any]) -> Sequence[Any]:
    """Values without a type, in which NaN and the infinities beside numbers are floats again."""
    if any(isinstance(v, list) for v in values):
        flat = [one for v in values if isinstance(v, list) for one in v]
        if not _is_floats(flat):
            return values
        read = iter(_with_floats(flat))
        return [[next(read) for _ in v] if isinstance(v, list) else v for v in values]
    if not _is_floats(values):
        return values
    return [text_values.NOT_FINITE.get(v, v) if isinstance(v, str) else v for v in values]


def _is_floats(values: Sequence[Any]) -> bool:
    """Whether all text among the values stands for floats, and there are numbers too."""
    texts = {v for v in values if isinstance(v, str)}
    return bool(texts) and texts <= text_values.NOT_FINITE.keys() and any(type(v) in (int, float) for v in values)


# -- numbers ----------------------------------------------------------------------------------------------------------


def number(text: str) -> float | Decimal | str:
    """A number with a fraction or an exponent: as a double where that says the same, else as a decimal."""
    found = float(text)
    if (len(text) <= FAITHFUL or repr(found) == text) and math.isfinite(found):
        return found
    try:
        return found if math.isfinite(found) and is_faithful(text, found) else Decimal(text)
    except InvalidOperation:  # an exponent beyond reason
        return text


def whole(text: str) -> float | Decimal | str:
    """The same, but that only a whole number is a decimal: for columns that are no decimals."""
    found = number(text)
    return float(found) if _is_fraction(found) else found


def _is_fraction(value: Any) -> bool:
    """Whether a decimal is no whole number, so that a double is about it."""
    return isinstance(value, Decimal) and value.adjusted() < LONGEST and value != value.to_integral_value()


def is_faithful(text: str, found: float) -> bool:
    """Whether a double, with as many digits as a text has, says the same."""
    given = Decimal(text)
    digits = len(given.as_tuple().digits)
    return given == Decimal(f"{Decimal(found):.{max(0, digits - 1)}e}")


def written(value: Any) -> str:
    """A value as text: a whole number without a fraction, whatever it was written with; what is no number as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return _json(value)
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if exact.adjusted() > LONGEST or int(exact.as_tuple().exponent) < -LONGEST:
        return str(exact)
    return format(exact.to_integral_value() if exact == exact.to_integral_value() else exact, "f")


def _json(value: Any) -> str:
    """JSON with numbers as they are."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {_json(v)}" for k, v in value.items()) + "}"
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return written(value) if is_number else json.dumps(value, ensure_ascii=False)


# -- columns of whatever there is -------------------------------------------------------------------------------------


def shape(value: Any) -> Any:
    """The type of a value: a word, a list of one, or a dict of them."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -(2**63) <= value < 2**63 else "UBIGINT" if 0 <= value < 2**64 else "HUGEINT"
    if isinstance(value, str):
        return "VARCHAR"
    if isinstance(value, list):
        found: Any = "NULL"
        for one in value:
            found = merged(found, shape(one))
        return [found]
    return {name: shape(one) for name, one in value.items()} if isinstance(value, dict) else "DOUBLE"


def merged(one: Any, other: Any) -> Any:
    """A type that holds the values of both; text for what has nothing in common."""
    if one == other or other in ("NULL", None):
        return one
    if one in ("NULL", None) or one == {}:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {k: merged(one.get(k), other.get(k)) for k in dict.fromkeys([*one, *other])}
    if isinstance(one, list) and isinstance(other, list):
        return [merged(one[0], other[0])]
    if isinstance(one, str) and isinstance(other, str):
        for together, wider in ((WHOLE, "HUGEINT"), (NUMBERS, "DOUBLE")):
            if {one, other} <= together:
                return wider
    return "JSON"


def built(values: Sequence[Any], known: Any = None, *, exact: bool = False) -> pa.Array:
    """Values as one column: of numbers, lists or objects where all are; of text where they are mixed.

    `known` is the shape that values elsewhere have. With `exact`, numbers are whole ones or decimals where they can be.
    """
    import pyarrow as pa

    given = [v for v in values if v is not None]
    kinds = set(map(type, given))
    if not given:
        return pa.nulls(len(values), pa.string())
    if kinds <= {int, float, Decimal} and known != "JSON":
        return _numbers(values, given, exact=exact or known != "DOUBLE")
    if kinds == {list}:
        offsets: list[int] = [0]
        flat: list[Any] = []
        for value in values:
            flat += value or ()
            offsets.append(len(flat))
        mask = pa.array([value is None for value in values])
        inner = built(flat, known[0] if isinstance(known, list) else None, exact=exact)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, mask=mask)
    if kinds == {dict} and all(given):
        shapes = known if isinstance(known, dict) else {}
        names = list(dict.fromkeys([*shapes, *(name for value in given for name in value)]))
        fields = [built([None if v is None else v.get(n) for v in values], shapes.get(n), exact=exact) for n in names]
        return pa.StructArray.from_arrays(fields, names, mask=pa.array([v is None for v in values]))
    if kinds == {bool} and known != "JSON":
        return pa.array(values, pa.bool_())
    return pa.array([None if v is None else written(v) for v in values], pa.string())


def _numbers(values: Sequence[Any], given: Sequence[Any], *, exact: bool) -> pa.Array:
    """As doubles if those hold them; else as whole numbers, as decimals if those are wide enough, or as text."""
    import pyarrow as pa

    texts = [None if v is None else written(v) for v in values]
    if not exact:
        doubles = all(_is_double(v) for v in given)
        return pa.array([float(v) if v is not None else None for v in values] if doubles else texts)
    for kind in (pa.int64(), pa.uint64()):
        try:
            return pa.array(texts, pa.string()).cast(kind)
        except pa.ArrowException:
            continue
    decimals = [Decimal(text) for text in texts if text is not None]
    scale = max(0, *(-int(v.as_tuple().exponent) for v in decimals))
    if scale <= WIDEST and max(v.adjusted() for v in decimals) + 1 + scale <= WIDEST:
        return pa.array(texts, pa.string()).cast(pa.decimal128(WIDEST, scale))
    return pa.array(texts, pa.string())


def _is_double(value: Any) -> bool:
    return isinstance(value, float) or _is_fraction(value) or (isinstance(value, int) and abs(value) <= 2**53)


def read_values(texts: Iterable[str | None]) -> list[Any]:
    """What texts of JSON say; what is none stays text."""
    decode = json.JSONDecoder(parse_float=number, parse_constant=str).decode
    found: list[Any] = []
    for text in texts:
        try:
            found.append(None if text is None else decode(text))
        except (ValueError, RecursionError):
            found.append(text)
    return found


# -- numbers that Arrow reads -----------------------------------------------------------------------------------------


def is_exact(kind: pa.DataType) -> bool:
    """Whether a type holds whole numbers or decimals, itself or within."""
    import pyarrow.types as t

    if t.is_integer(kind) or t.is_decimal(kind):
        return True
    if is_list(kind):
        return is_exact(kind.value_type)
    return bool(t.is_struct(kind) and any(is_exact(f.type) for f in kind))


def is_list(kind: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))


def within(kind: pa.DataType | None, name: str | None = None) -> pa.DataType | None:
    """What the values of a list, or a field of a struct, become."""
    import pyarrow.types as t

    if kind is None:
        return None
    if name is None:
        return kind.value_type if is_list(kind) else None
    found = kind.get_field_index(name) if t.is_struct(kind) else -1
    return kind.field(found).type if found >= 0 else None


def number_type(kind: pa.DataType) -> pa.DataType:
    """The type that Arrow reads a number as, so that one that it cannot hold exactly is an error."""
    import pyarrow as pa

    if pa.types.is_decimal256(kind):
        return pa.decimal256(76, kind.scale)
    return pa.decimal128(WIDEST, kind.scale if pa.types.is_decimal(kind) else 0)


def settled(column: Any, kind: pa.DataType) -> Any:
    """A column that was read so, in a type that DuckDB has: whole numbers as such, very wide decimals as text."""
    target = _settled_type(column.type, kind)
    return column if target == column.type else column.cast(target)


def _settled_type(have: pa.DataType, want: pa.DataType | None) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_list(have):
        return pa.list_(_settled_type(have.value_type, within(want)))
    if t.is_struct(have):
        return pa.struct([(f.name, _settled_type(f.type, within(want, f.name))) for f in have])
    if not t.is_decimal(have):
        return have
    if want is not None and t.is_integer(want):
        return pa.uint64() if t.is_unsigned_integer(want) else pa.int64()
    return pa.string() if t.is_decimal256(have) else have
