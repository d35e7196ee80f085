"""From the text of an expression to its tree: exactly one expression, of what an expression may be made of.

The tree is DuckDB's own, as its parser gives it. What reads other rows, other files or settings, what has no value of
its own for each row, and what may answer differently tomorrow is refused here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from quire.errors import InvalidExpression
from quire.filters import duckdb_engine
from quire.filters.quotes import plain_quotes

LENGTH = 1_000_000
"""Characters that an expression may have."""
BEFORE = "select \n"
ADVICE = (
    "Columns are written bare, or in double quotes where the name is a word of SQL or holds other signs;"
    " text in single quotes."
)

_CLASSES = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "LAMBDA",
        "OPERATOR",
        "TYPE",
    }
)
_REFUSED = {
    "SUBQUERY": ("it holds a subquery", "Query with sql(), and use the values that it finds."),
    "WINDOW": ("it holds a window function", "Query with sql(), and use the values that it finds."),
    "PARAMETER": ("it holds a parameter", "Write the value itself."),
    "STAR": ("it holds a star", "Name the columns one by one."),
    "POSITIONAL_REFERENCE": ("it names a column by its position", "Name the column."),
    "DEFAULT": ("it holds DEFAULT", "Write the value itself."),
}
_MACROS = re.compile(
    r"array_(append|p(op|ush)_(back|front)|prepend|reverse|to_string\w*)|list_\w+|date_add|days_in_month|fdiv|fmod|if"
    r"|map_contains_\w+|md5_number_\w+|nullif|split_part|json"
)
_UNSTEADY = re.compile(
    r"age|current_\w+|version|json_(de)?serialize_\w+|parse_duckdb\w*|index_key|hive_\w+|try_cast_\w+|\w*aggregate_state"
    r"|combine|finalize|st_\w+|enum_\w+|get_type|make_type|cast_to_type"
)


class Problem(Exception):
    """Why an expression cannot be used, where in it, and what to do."""

    def __init__(self, reason: str, next: str = "", position: int | None = None, **fields: Any) -> None:
        super().__init__(reason)
        self.reason, self.next, self.position, self.fields = reason, next, position, fields


def refused(text: str, part: str, problem: Problem, table: str) -> InvalidExpression:
    """The error for a person: `part` says which of the expressions of a call it is, such as `where`."""
    shortened = text if len(text) <= 500 else text[:497] + "…"
    where = "" if problem.position is None else f" (at character {problem.position + 1})"
    on = f" on table {table!r}" if table else ""
    return InvalidExpression(
        f"The {part} {shortened!r} is not a valid expression{on}: {problem.reason.rstrip('.')}{where}.",
        next=problem.next or ADVICE,
        expression=text,
        part=part,
        position=problem.position,
        **problem.fields,
    )


@lru_cache(maxsize=2048)
def parse(text: str) -> Any:
    """The tree of an expression. Raises `Problem`."""
    if len(text) > LENGTH:
        raise Problem(f"it has {len(text)} characters, and at most {LENGTH} are allowed", "Split it.")
    if not text.strip():
        raise Problem("it is empty", 'Write a condition; "true" holds for every row.')
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Problem("it is not valid Unicode", "Correct the text.", error.start) from None
    if "\x00" in text:
        raise Problem("it holds a zero character", "Remove it.", text.index("\x00"))
    found = duckdb_engine.parsed(f"{BEFORE}{plain_quotes(text)}\n")
    if found.get("error"):
        raise _syntax(found, text)
    node = _only_expression(found)
    _check(node)
    return node


def _syntax(found: Any, text: str) -> Problem:
    said = str(found.get("error_message", "it cannot be parsed")).splitlines()[0]
    place = found.get("position")
    position = _position(int(place), text) if place is not None and str(place).isdigit() else None
    if "Only SELECT" in said:
        return _several()
    if "depth limit" in said:
        return too_deep()
    return Problem(said, position=position)


def too_deep() -> Problem:
    return Problem(f"it nests deeper than {duckdb_engine.DEPTH} levels", "Write it with fewer levels.")


def _position(byte: int, text: str) -> int | None:
    """The character of the text that DuckDB means by a byte of the statement."""
    given = plain_quotes(text).encode()
    place = byte - len(BEFORE)
    return min(len(given[: max(place, 0)].decode(errors="ignore")), len(text)) if place <= len(given) else len(text)


def place(node: Any, text: str) -> int | None:
    """Where a node of the tree begins in the text."""
    byte = node.get("query_location")
    return _position(byte, text) if isinstance(byte, int) and byte < 1 << 40 else None


def _only_expression(found: Any) -> Any:
    """The one expression, which is all that the statement consists of."""
    statements = found.get("statements", [])
    [template] = duckdb_engine.parsed("select null")["statements"]
    if len(statements) == 1 and not statements[0].get("named_param_map"):
        node = statements[0]["node"]
        chosen = node.get("select_list", [])
        others = {k: v for k, v in node.items() if k != "select_list"}
        plain = others == {k: v for k, v in template["node"].items() if k != "select_list"}
        if plain and len(chosen) == 1 and not chosen[0].get("alias"):
            return chosen[0]
    if len(statements) == 1 and statements[0].get("named_param_map"):
        raise Problem(*_REFUSED["PARAMETER"])
    raise _several()


def _several() -> Problem:
    return Problem("it is more than one expression", "Write one expression, without SELECT, FROM or ;.")


def nodes(tree: Any) -> Iterator[Any]:
    """The expressions directly below one."""
    for value in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(value, dict) and "class" in value:
            yield value
        elif isinstance(value, dict | list):
            yield from nodes(value)


def _check(node: Any) -> None:
    kind = node["class"]
    if kind not in _CLASSES:
        reason, advice = _REFUSED.get(kind, (f"it holds {kind.lower()}", "Write it another way."))
        raise Problem(reason, advice)
    if kind == "FUNCTION":
        _check_function(node)
    if kind == "OPERATOR" and node["type"] == "OPERATOR_UNPACK":
        raise Problem(*_REFUSED["STAR"])
    if kind == "LAMBDA" and node.get("syntax_type") != "LAMBDA_KEYWORD":
        raise Problem(
            "-> could be a path into JSON or a function", "Write json_extract(…), or lambda x: … for a function."
        )
    for inner in nodes(node):
        _check(inner)


def _check_function(node: Any) -> None:
    name = str(node.get("function_name", ""))
    path = (node.get("qualified_name") or {}).get("path") or [name]
    if len(path) != 1:
        raise Problem(f"functions are named alone, not {'.'.join(map(str, path))!r}", "Leave the schema out.")
    if node.get("distinct") or node.get("filter") or (node.get("order_bys") or {}).get("orders"):
        raise Problem(f"{name} is used as an aggregate", "Query with sql(), and use the values that it finds.")
    if node.get("is_operator") or name.lower() in _functions():
        return
    kinds = _kinds(name.lower())
    if "aggregate" in kinds:
        raise Problem(f"{name} is an aggregate", "Query with sql(), and use the values that it finds.")
    if kinds:
        raise Problem(
            f"the function {name} cannot be used here: its value does not follow from the row alone",
            "Compute the value in your program, and write it into the expression.",
            function=name,
        )
    near = difflib.get_close_matches(name.lower(), sorted(n for n in _functions() if n.isidentifier()), 1)
    advice = f"Did you mean {near[0]}?" if near else "The functions are those of DuckDB."
    raise Problem(f"there is no function {name!r}", advice, function=name)


@lru_cache(maxsize=1)
def _functions() -> frozenset[str]:
    """Functions whose value follows from their arguments, and from nothing else."""
    with duckdb_engine.connected() as connection:
        found = connection.sql(
            "select lower(function_name), function_type, bool_and(coalesce(stability = 'CONSISTENT', false))"
            " from duckdb_functions() where function_type in ('scalar', 'macro') group by all"
        ).fetchall()
    steady = {name for name, kind, is_steady in found if kind == "scalar" and is_steady}
    usable = {name for name in steady if not _UNSTEADY.fullmatch(name)}
    return frozenset(usable | {name for name, kind, _ in found if kind == "macro" and _MACROS.fullmatch(name)})


def _kinds(name: str) -> set[str]:
    with duckdb_engine.connected() as connection:
        found = connection.sql(
            "select distinct function_type from duckdb_functions() where lower(function_name) = ?", params=[name]
        ).fetchall()
    return {kind for (kind,) in found} | ({"aggregate"} if name == "count_star" else set())
