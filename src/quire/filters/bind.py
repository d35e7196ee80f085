"""What an expression means for the columns of a table: names resolved, types known, constants typed by their column.

Names are found as DuckDB finds them: as they are spelt, else the only one that differs in case alone.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidExpression, QuireError
from quire.filters import ast, duckdb_engine
from quire.filters.conditions import condition
from quire.filters.parse import Problem, nodes, parse, place, refused, too_deep

if TYPE_CHECKING:
    import pyarrow as pa

OWN = "__"
"""How the names begin that columns have for DuckDB. No name of a person's can be one of them there."""


@dataclass(frozen=True)
class Expression:
    """An expression over the columns of a table, as DuckDB computes it."""

    text: str
    """As it was given."""
    part: str
    """Which of the expressions of a call it is, such as `where`."""
    table: str
    columns: tuple[str, ...]
    """The columns that it reads; for DuckDB they have the names `names`."""
    sql: str
    type: pa.DataType

    @property
    def names(self) -> list[str]:
        return [f"{OWN}{i}" for i in range(len(self.columns))]

    def failed(self, error: Exception) -> QuireError:
        """The error for what DuckDB says of it."""
        return refused(self.text, self.part, _explained(error, self.columns), self.table)


@dataclass(frozen=True)
class Filter:
    """A condition: what readers may take of it, and the whole of it for DuckDB."""

    condition: ast.Condition
    whole: Expression


def read_filter(given: str | ast.Condition, schema: pa.Schema, *, part: str = "filter", table: str = "") -> Filter:
    """A condition on the rows of a table with these columns."""
    if isinstance(given, ast.Condition):
        return Filter(given, _of_condition(given, schema, part, table))
    whole = read(given, schema, part=part, table=table)
    import pyarrow.types as t

    if not (t.is_boolean(whole.type) or t.is_null(whole.type)):
        problem = Problem(f"it is {whole.type}, not a condition", "Compare it with something.")
        raise refused(given, part, problem, table)
    return Filter(_condition(given, schema, part, table), whole)


def read(given: str, schema: pa.Schema, *, part: str = "expression", table: str = "") -> Expression:
    """An expression over the columns of a table."""
    try:
        return _bound(given, _Schema(schema), part, table)
    except Problem as problem:
        raise refused(given, part, problem, table) from None
    except RecursionError:  # a level of the text may be several of the tree
        raise refused(given, part, too_deep(), table) from None


class _Schema:
    """A schema as a key of a cache."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._key = (tuple(schema.names), tuple(map(str, schema.types)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Schema) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=4096)
def _bound(text: str, held: _Schema, part: str, table: str) -> Expression:
    found = copy.deepcopy(parse(text))
    columns: dict[str, int] = {}
    _rename(found, held.schema, columns, frozenset(), text)
    expression = Expression(text, part, table, tuple(columns), duckdb_engine.written(found), _null())
    return _typed(expression, held.schema)


def _null() -> Any:
    import pyarrow as pa

    return pa.null()


def _typed(expression: Expression, schema: pa.Schema) -> Expression:
    """The expression with its type, as DuckDB finds it: there is no row that it could fail on."""
    import dataclasses

    import duckdb
    import pyarrow as pa

    empty = pa.schema([schema.field(n) for n in expression.columns]).empty_table()
    with duckdb_engine.connected() as connection:
        try:
            given = duckdb_engine.rows(empty, expression.columns, expression.names)
            kind = duckdb_engine.computed(connection, given, [expression.sql]).schema.field(0).type
        except (duckdb.Error, pa.ArrowException) as error:
            raise _explained(error, expression.columns) from None
    return dataclasses.replace(expression, type=kind)


def _of_condition(given: ast.Condition, schema: pa.Schema, part: str, table: str) -> Expression:
    import pyarrow as pa

    names = tuple(dict.fromkeys(ast.columns(given)))
    for name in names:
        if schema.get_field_index(name) < 0:
            raise refused(str(given), part, unknown(name, schema), table)
    own = {name: f"{OWN}{i}" for i, name in enumerate(names)}
    return Expression(str(given), part, table, names, str(_renamed(given, own)), pa.bool_())


def _renamed(given: ast.Condition, own: Mapping[str, str]) -> ast.Condition:
    import dataclasses

    match given:
        case ast.Both() | ast.Either():
            return dataclasses.replace(given, parts=tuple(_renamed(part, own) for part in given.parts))
        case ast.Not():
            return ast.Not(_renamed(given.inner, own))
        case ast.Compare() | ast.In() | ast.IsNull() | ast.Flag() | ast.Part() | ast.Has():
            return dataclasses.replace(given, column=own[given.column])
    return given


def _rename(
    node: Any, schema: pa.Schema, columns: dict[str, int], within: frozenset[str], text: str, around: str = ""
) -> None:
    """Give every column that a tree names its name for DuckDB. What a lambda names is its own."""
    if node["class"] == "COLUMN_REF":
        path = node["column_names"]
        if path[0].lower() in within:
            return
        name = resolve(path[0], schema, place(node, text))
        _check_use(_at(schema.field(name).type, path[1:]), [name, *path[1:]], around, place(node, text))
        node["column_names"] = [f"{OWN}{columns.setdefault(name, len(columns))}", *path[1:]]
        return
    if node["class"] == "LAMBDA":
        own = {str(ref["column_names"][0]).lower() for ref in _references(node["lhs"])}
        if any(name.startswith(OWN) for name in own):
            raise Problem(f"a name in a lambda begins with {OWN}", "Choose another name.")
        _rename(node["expr"], schema, columns, within | own, text)
        return
    for inner in nodes(node):
        _rename(inner, schema, columns, within, text, str(node["type"]))


_NULL_TESTS = ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL")


def _check_use(kind: pa.DataType, path: Sequence[str], around: str, position: int | None) -> None:
    """Refuse what would be computed on something else than the values: what DuckDB has no type for is shown to it as
    another type. `around` is what the column stands in; a column that is the whole expression is only passed on."""
    name, known = path[0], ".".join(path)
    if around in _NULL_TESTS:
        return
    if duckdb_engine.is_closed(kind):
        said, advice = (
            f"column {name!r} is {kind}, of which a filter knows only whether it is null",
            "Use other columns.",
        )
        raise Problem(said, advice, position, column=name)
    if around not in ("", "OPERATOR_CAST") and duckdb_engine.is_text_there(kind):
        said = f"{known!r} is {kind}, and decimals of more than 38 digits are not compared or computed with"
        kind_of_cast = "DECIMAL(38, …)" if kind.num_fields else f"DECIMAL(38, {kind.scale})"
        advice = f"Cast it where its values have at most 38 digits, {known}::{kind_of_cast}, or test it for null."
        raise Problem(said, advice, position, column=name)


def _at(kind: pa.DataType, path: Sequence[str]) -> pa.DataType:
    """The type of a field of a struct; that of what holds it, where there is no such field."""
    import pyarrow.types as t

    for name in path:
        found = [field.type for field in kind if _folded(field.name) == _folded(name)] if t.is_struct(kind) else []
        if len(found) != 1:
            return kind
        kind = found[0]
    return kind


def _references(node: Any) -> list[Any]:
    if node["class"] == "COLUMN_REF":
        return [node]
    return [ref for inner in nodes(node) for ref in _references(inner)]


def resolve(name: str, schema: pa.Schema, position: int | None = None) -> str:
    """The column that a name means."""
    if schema.get_field_index(name) >= 0:
        return name
    alike = [n for n in schema.names if _folded(n) == _folded(name)]
    if len(alike) > 1:
        raise Problem(
            f"{name!r} could be any of {', '.join(alike)}", "Spell it as the column is spelt.", position, column=name
        )
    if alike:
        return str(alike[0])
    raise unknown(name, schema, position)


def _folded(name: str) -> str:
    """As DuckDB compares names: of the letters, only those of ASCII have two cases."""
    return "".join(character.lower() if character.isascii() else character for character in name)


def unknown(name: str, schema: pa.Schema, position: int | None = None) -> Problem:
    """There is no such column; perhaps a text was meant, or another column."""
    if name.lower() in ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"):
        advice = "Write the date or time itself, in single quotes."
        return Problem(f"{name} is not the same tomorrow", advice, position, column=name)
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in schema.names], 1)
    found = next((n for n in schema.names if near and n.lower() == near[0]), None)
    text = "'" + name.replace("'", "''") + "'"
    advice = f"Did you mean {found}?" if found else f"Its columns are {', '.join(schema.names)}."
    return Problem(
        f"there is no column {name!r}",
        f"{advice} A text is written in single quotes: {text}.",
        position,
        column=name,
        suggestion=found,
    )


def _condition(text: str, schema: pa.Schema, part: str, table: str) -> ast.Condition:
    try:
        return _understood(text, _Schema(schema))
    except Problem as problem:
        raise refused(text, part, problem, table) from None
    except RecursionError:
        raise refused(text, part, too_deep(), table) from None


@lru_cache(maxsize=4096)
def _understood(text: str, held: _Schema) -> ast.Condition:
    return condition(parse(text), held.schema, resolve, text)


def _explained(error: Exception, columns: Sequence[str]) -> Problem:
    """What DuckDB says, in the names that the columns have."""
    said = re.split(r"\n\s*(?:LINE |Candidate )", str(error), maxsplit=1)[0].strip().split("\n")[0]
    said = re.sub(rf'"?\b{OWN}(\d+)\b"?', lambda m: columns[int(m[1])] if int(m[1]) < len(columns) else m[0], said)
    said = re.sub(r"^(?:\w+ )*Error: ", "", said)
    return Problem(said[:400] or type(error).__name__)


__all__ = ["Expression", "Filter", "InvalidExpression", "Problem", "read", "read_filter", "resolve"]
