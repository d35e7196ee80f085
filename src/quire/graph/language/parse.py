"""From text to tree.

parse('query all() { match { $p: Person } return { $p.name } }').queries[0].name     # all
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeVar, cast

from quire.errors import InvalidQuery
from quire.graph.language import ast
from quire.graph.language.ast import At
from quire.graph.language.ast_builder import Build, Path
from quire.graph.language.position import within, wrong
from quire.graph.names import nearest

if TYPE_CHECKING:
    from lark import Lark
    from lark.exceptions import UnexpectedInput

T = TypeVar("T")
LONGEST = 1 << 20
"""Characters of a text."""
DEEPEST = 100
"""How deep clauses and expressions may be nested: what comes after the parser is written with recursion."""


def parse(text: str, *, file: str = "") -> ast.File:
    """Every query of a text, or `InvalidQuery` with line, column and what was expected there."""
    from lark.exceptions import UnexpectedInput

    try:
        if len(text) > LONGEST:
            raise wrong(At(1, 1), f"the text has {len(text)} characters; {LONGEST} are the most.", "Split it.")
        try:
            queries: tuple[ast.Query, ...] = _parser().parse(text)  # type: ignore[assignment]
        except UnexpectedInput as error:
            raise _unexpected(error, text) from None
        for query in queries:
            _check_depth(query)
        return ast.File(tuple(_settled(query) for query in queries), file)
    except InvalidQuery as error:
        raise within(error, file=file) from None


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = resources.files("quire.graph.language").joinpath("grammar.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", transformer=Build())


# -- what the grammar leaves open -------------------------------------------------------------------------------------


def _check_depth(query: ast.Query) -> None:
    """Refuse what is nested too deeply, and a path without a name. Without recursion, since it guards the rest."""
    todo: list[tuple[Any, int, At]] = [(query, 0, query.at)]
    while todo:
        node, depth, at = todo.pop()
        if isinstance(node, tuple):
            todo += [(item, depth, at) for item in node]
            continue
        if not dataclasses.is_dataclass(node) or isinstance(node, At):
            continue
        at = getattr(node, "at", at)
        if isinstance(node, Path):
            raise wrong(at, "a path can be named only in match.", "Write $p = shortest(…), then use $p.length.")
        if depth > DEEPEST:
            raise wrong(at, f"this is nested more than {DEEPEST} levels deep.", "Split the expression or the query.")
        todo += [(getattr(node, field.name), depth + 1, at) for field in dataclasses.fields(node)]


def _settled(query: ast.Query) -> ast.Query:
    """With `$a contains $b` read as a traversal where neither is a parameter."""
    if isinstance(query.body, ast.Mutation):
        return query
    parameters = {p.name for p in query.parameters}
    body = dataclasses.replace(query.body, match=tuple(_clauses(query.body.match, parameters)))
    return dataclasses.replace(query, body=_counted(body, parameters))


def _counted(part: T, parameters: set[str]) -> T:
    """A part of the tree in which that is so within `count { … }` too."""
    if isinstance(part, tuple):
        found = tuple(_counted(item, parameters) for item in part)
        return cast(T, found) if any(a is not b for a, b in zip(found, part, strict=True)) else part
    if isinstance(part, At) or not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    old = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    if isinstance(part, ast.CountOf):
        old["clauses"] = tuple(_clauses(part.clauses, parameters))
    new = {name: _counted(value, parameters) for name, value in old.items()}
    if all(new[f.name] is getattr(part, f.name) for f in dataclasses.fields(part)):
        return part
    return dataclasses.replace(part, **new)


def _clauses(clauses: Iterable[ast.Clause], parameters: set[str]) -> Iterator[ast.Clause]:
    for clause in clauses:
        match clause:
            case ast.Compare("contains" | "starts_with" | "in", ast.Variable() as left, ast.Variable() as right):
                if left.name in parameters or right.name in parameters:
                    yield clause
                else:
                    yield ast.Traverse(left, clause.operator, right, at=clause.at)
            case ast.Not() | ast.Exists() | ast.Optional():
                yield dataclasses.replace(clause, clauses=tuple(_clauses(clause.clauses, parameters)))
            case ast.Or():
                alternatives = tuple(tuple(_clauses(a, parameters)) for a in clause.alternatives)
                yield dataclasses.replace(clause, alternatives=alternatives)
            case _:
                yield clause


# -- errors -----------------------------------------------------------------------------------------------------------

_WORDS = {
    "VARIABLE": "a variable such as $x",
    "TYPE": "a type name (with a capital first letter)",
    "NAME": "a name (with a small first letter)",
    "FUNCTION": "a function",
    "ANNOTATION": "an annotation",
    "ENUM_VALUE": "an enum value",
    "STRING": "a text in quotes",
    "FLOAT": "a number",
    "INT": "a whole number",
    "EITHER_WAY": "an edge as <name>",
    "$END": "the end of the text",
}
_OPERATORS = {"=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in", "is"}
_ARITHMETIC = {"+", "-", "*", "/", "%"}
_VALUES = {"STRING", "FLOAT", "INT", "true", "false", "FUNCTION", "[", "("}
_HIDDEN = {"EDGE_WORD", "COMMENT"}


def _unexpected(error: UnexpectedInput, text: str) -> InvalidQuery:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    expected: set[str] = set()
    if isinstance(error, UnexpectedToken):
        expected = set(error.accepts or error.expected)
        found, at = str(error.token), At(error.line, error.column)
        if error.token.type == "$END":
            found, at = "", _end(text)
    else:
        assert isinstance(error, UnexpectedCharacters)
        expected = set(error.allowed or ())
        found, at = error.char, At(error.line, error.column)
    words = {_word(name) for name in expected} - _HIDDEN
    said = f"{_shown(found)} was not expected here" if found else "the text ends too early"
    advice = _advice(found, words)
    return wrong(at, f"{said}; expected {_listed(words)}.", advice, expected=sorted(_plain(words)))


def _word(name: str) -> str:
    """A terminal as it is written, where it is always written in the same way."""
    if name == "$END":
        return name
    terminal = _terminals().get(name)
    return terminal if terminal is not None else name


@cache
def _terminals() -> dict[str, str]:
    from lark.lexer import PatternStr

    return {t.name: t.pattern.value for t in _parser().terminals if isinstance(t.pattern, PatternStr)}


def _plain(words: set[str]) -> list[str]:
    """What was expected, in words, the most telling first."""
    said = []
    rest = set(words)
    if len(rest & _OPERATORS) > 5:
        rest -= _OPERATORS
        said.append("a comparison such as = or contains")
    if rest >= _ARITHMETIC:
        rest -= _ARITHMETIC
        if not said:
            said.append("an arithmetic sign")
    if len(rest & _VALUES) > 5:
        rest -= _VALUES | {"-"}
        said.append("a value")
    names = [_WORDS[w] for w in _WORDS if w in rest]
    return [*names, *said, *(f"`{w}`" for w in sorted(rest - _WORDS.keys()))]


def _listed(words: set[str]) -> str:
    said = _plain(words)
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}" if said else "something else"


def _advice(found: str, words: set[str]) -> str:
    """The keyword that was probably meant, or what is commonly mistaken."""
    keywords = [w for w in words if w.isidentifier() and w not in _WORDS]
    if found.isidentifier() and found not in keywords:
        near = nearest(found, keywords)
        if near:
            return near
    if ":" in words and found[:1].isupper():
        return f"A variable is bound with a colon: $x: {found}."
    if found == "'":
        return 'Texts stand in double quotes: "…".'
    return ""


def _shown(found: str) -> str:
    return repr(found) if len(found) <= 40 else f"{found[:37]!r}…"


def _end(text: str) -> At:
    lines = text.rstrip().split("\n")
    return At(len(lines), len(lines[-1]) + 1)
