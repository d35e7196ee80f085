"""From `.pg` text to declarations.

>>> parse("node Person { name: String @key }").nodes[0].properties[0].type
Type(base='String', optional=False, many=False, values=(), size=0)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, cast

from quire.errors import InvalidSchema
from quire.graph.catalog import Annotation, Scalar
from quire.graph.names import nearest
from quire.graph.schema.ast import (
    Cardinality,
    Constraint,
    Declared,
    DeclaredInterface,
    DeclaredProperty,
    DeclaredType,
    Named,
    Note,
    Position,
    where,
)
from quire.graph.schema.syntax_errors import misspelt, unexpected
from quire.graph.types import LARGEST_VECTOR, SCALARS, Type

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def parse(text: str, *, file: str = "") -> Declared:
    """Read a schema. What cannot be read is `InvalidSchema` with its file, line and column, and what was expected."""
    from lark.exceptions import UnexpectedInput

    if not isinstance(text, str):
        raise InvalidSchema(f"A schema is text, not a {type(text).__name__}.", next="Pass the content of the file.")
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise unexpected(error, text, file) from None
    return _Reader(text, file).declared(tree)


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = files("quire.graph.schema").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", maybe_placeholders=True)


class _Reader:
    """Makes declarations of the parser's tree, whose shape is that of the grammar."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file

    def declared(self, tree: Tree[Token]) -> Declared:
        interfaces, nodes, edges = [], [], []
        for part in _trees(tree):
            if part.data == "interface":
                interfaces.append(self._interface(part))
            elif part.data == "node":
                nodes.append(self._node(part))
            else:
                edges.append(self._edge(part))
        return Declared(self.text, self.file, tuple(interfaces), tuple(nodes), tuple(edges))

    # -- declarations -----------------------------------------------------------------------------------------

    def _interface(self, tree: Tree[Token]) -> DeclaredInterface:
        [name] = _tokens(tree)
        return DeclaredInterface(str(name), self._properties(tree), _place(name))

    def _node(self, tree: Tree[Token]) -> DeclaredType:
        [name] = _tokens(tree)
        implements = [_named(t) for part in _trees(tree, "implements") for t in _tokens(part)]
        return DeclaredType(
            "node",
            str(name),
            _place(name),
            self._properties(tree),
            self._constraints(tree),
            self._notes(tree),
            implements=tuple(implements),
        )

    def _edge(self, tree: Tree[Token]) -> DeclaredType:
        name, source, target = (t for t in _tokens(tree) if t.type == "TYPE")
        return DeclaredType(
            "edge",
            str(name),
            _place(name),
            self._properties(tree),
            self._constraints(tree),
            self._notes(tree),
            source=_named(source),
            target=_named(target),
            cards=tuple(self._card(part) for part in _trees(tree, "card")),
        )

    def _card(self, tree: Tree[Token]) -> Cardinality:
        sign, low, _, high = cast("list[Token]", tree.children)
        return Cardinality(int(low), None if high is None else int(high), _place(sign))

    # -- properties -------------------------------------------------------------------------------------------

    def _properties(self, tree: Tree[Token]) -> tuple[DeclaredProperty, ...]:
        return tuple(self._property(part) for part in _trees(tree, "property"))

    def _property(self, tree: Tree[Token]) -> DeclaredProperty:
        [name] = _tokens(tree)
        [kind] = _trees(tree, "type")
        return DeclaredProperty(str(name), self._type(kind), self._notes(tree), _place(name))

    def _type(self, tree: Tree[Token]) -> Type:
        core, mark = cast("list[Any]", tree.children)
        optional = mark is not None
        tokens = list(_tokens(core))
        if core.data == "enum":
            return Type("enum", optional=optional, values=tuple(str(t) for t in tokens))
        if core.data == "vector":
            return self._vector(tokens, optional)
        [base] = tokens
        if base not in SCALARS:
            raise self._wrong(base, *misspelt(str(base)))
        if core.data == "list" and base == "Blob":
            raise self._wrong(base, "There are no lists of Blob.", "Keep each blob in a node of its own.")
        return Type(str(base), optional=optional, many=core.data == "list")

    def _vector(self, tokens: list[Token], optional: bool) -> Type:
        base, size = tokens
        if base != "Vector":
            advice = nearest(str(base), ["Vector"]) or "Only a vector has a size: Vector(128)."
            raise self._wrong(base, f"{str(base)!r} takes nothing in parentheses.", advice)
        if not 1 <= int(size) <= LARGEST_VECTOR:
            raise self._wrong(
                size, f"A vector has between 1 and {LARGEST_VECTOR} dimensions, not {size}.", "Write Vector(128)."
            )
        return Type("Vector", optional=optional, size=int(size))

    # -- annotations and rules --------------------------------------------------------------------------------

    def _notes(self, tree: Tree[Token]) -> tuple[Note, ...]:
        return tuple(self._note(part) for part in _trees(tree, "annotation"))

    def _note(self, tree: Tree[Token]) -> Note:
        sign = cast("Token", tree.children[0])
        value: Scalar = None
        named: dict[str, Scalar] = {}
        for number, argument in enumerate(_trees(tree, "argument")):
            key, given = cast("list[Token]", argument.children)
            if key is None and number:
                raise self._wrong(
                    given, f"{sign} takes one value without a name.", 'Name the others: @embed("text", model="…").'
                )
            if key is None:
                value = self._value(given)
            elif str(key) in named:
                raise self._wrong(key, f"{sign} is given {str(key)!r} twice.", "Leave one out.")
            else:
                named[str(key)] = self._value(given)
        return Note(Annotation(str(sign)[1:], value, named), _place(sign))

    def _constraints(self, tree: Tree[Token]) -> tuple[Constraint, ...]:
        readers = {"set": self._set, "range": self._range, "check": self._check}
        return tuple(readers[part.data](part) for part in _trees(tree) if part.data in readers)

    def _set(self, tree: Tree[Token]) -> Constraint:
        sign, *names = _tokens(tree)
        kind = cast('Literal["key", "unique", "index"]', str(sign)[1:])
        return Constraint(kind, tuple(_named(n) for n in names), _place(sign))

    def _range(self, tree: Tree[Token]) -> Constraint:
        sign, name, low, _, high = cast("list[Token]", tree.children)
        if low is None and high is None:
            raise self._wrong(sign, "A range has at least one end.", "Write @range(age, 0..150) or @range(age, 0..).")
        bounds = [None if bound is None else self._number(bound) for bound in (low, high)]
        return Constraint("range", (_named(name),), _place(sign), low=bounds[0], high=bounds[1])

    def _check(self, tree: Tree[Token]) -> Constraint:
        sign, name, pattern = cast("list[Token]", tree.children)
        return Constraint("check", (_named(name),), _place(sign), pattern=self._string(pattern))

    # -- values -----------------------------------------------------------------------------------------------

    def _value(self, token: Token) -> Scalar:
        if token.type == "STRING":
            return self._string(token)
        if token.type == "NUMBER":
            return self._number(token)
        return token == "true" if token.type in ("TRUE", "FALSE") else str(token)

    def _number(self, token: Token) -> int | float:
        whole = token.lstrip("-").isdigit()
        fits = -(2**63) <= int(token) < 2**64 if whole else math.isfinite(float(token))
        if not fits:
            raise self._wrong(token, f"No property can hold the number {_short(token)}.", "Use a smaller one.")
        return int(token) if whole else float(token)

    def _string(self, token: Token) -> str:
        def plain(found: re.Match[str]) -> str:
            letter = found[1]
            if letter in _ESCAPES:
                return _ESCAPES[letter]
            if letter[0] == "u" and len(letter) == 5:
                return chr(int(letter[1:], 16))
            raise self._wrong(
                token,
                f"Invalid escape \\{letter} in a string.",
                f"For a backslash write two: \\\\{letter}.",
                found=found[0],
            )

        text = re.sub(r"\\(u[0-9A-Fa-f]{4}|[\s\S])", plain, str(token)[1:-1])
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self._wrong(token, "The string is not valid Unicode.", "Write the characters themselves.") from None

    def _wrong(self, token: Token, message: str, advice: str, found: str | None = None) -> InvalidSchema:
        at = _place(token)
        return InvalidSchema(
            f"{where(self.file, at)}: {message}",
            next=advice,
            file=self.file,
            line=at.line,
            column=at.column,
            found=found or str(token),
        )


def _trees(tree: Tree[Token], kind: str | None = None) -> Iterator[Any]:
    for child in tree.children:
        if hasattr(child, "data") and kind in (None, child.data):
            yield child


def _tokens(tree: Tree[Token]) -> Iterator[Token]:
    for child in tree.children:
        if child is not None and not hasattr(child, "data"):
            yield child


def _place(token: Token) -> Position:
    return Position(token.line or 1, token.column or 1)


def _named(token: Token) -> Named:
    return Named(str(token).removeprefix("@"), _place(token))


def _short(token: str) -> str:
    return token if len(token) <= 40 else f"{token[:39]}…"
