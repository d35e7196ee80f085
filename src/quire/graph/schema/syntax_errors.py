"""Why a text is no schema, in words: what was found, what would have fitted, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidSchema
from quire.graph.names import nearest
from quire.graph.schema.ast import Position, where
from quire.graph.types import SCALARS

if TYPE_CHECKING:
    from lark.exceptions import UnexpectedInput

TYPES = (*SCALARS, "Vector", "enum")

WORDS = {
    "INTERFACE": "interface",
    "NODE": "node",
    "EDGE": "edge",
    "IMPLEMENTS": "implements",
    "ENUM": "enum(…)",
    "TYPE": "a name that starts with a capital",
    "NAME": "a name that starts with a small letter",
    "VALUE": "a value of letters, digits, _ and -",
    "STRING": "a text in double quotes",
    "INT": "a whole number",
    "NUMBER": "a number",
    "TRUE": "true",
    "FALSE": "false",
    "CARD": "@card(…)",
    "SET": "@key(…), @unique(…) or @index(…)",
    "RANGE": "@range(…)",
    "CHECK": "@check(…)",
    "ANNOTATION": "an annotation",
    "END": "@src or @dst",
    "OPTIONAL": "?",
    "ARROW": "->",
    "DOTS": "..",
    "LBRACE": "{",
    "RBRACE": "}",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COLON": ":",
    "COMMA": ",",
    "EQUAL": "=",
    "$END": "the end of the text",
}
"""Terminals of the grammar as people call them."""

EXAMPLES = {
    "ARROW": "An edge type is written edge WorksAt: Person -> Company.",
    "DOTS": "Bounds are written 0..1, with either end left out where it is open.",
    "VALUE": "An enum is written enum(draft, sent).",
    "END": "A rule names properties: @unique(name, city).",
    "STRING": 'A check is written @check(code, "[A-Z]+").',
    "COLON": "A property is written name: String.",
}
"""How it is written where a terminal is expected."""

KEYWORDS = {"INTERFACE": "interface", "NODE": "node", "EDGE": "edge", "IMPLEMENTS": "implements", "ENUM": "enum"}
TYPE_PLACE = frozenset({"TYPE", "LSQB", "ENUM"})
"""What fits where the type of a property belongs."""


def unexpected(error: UnexpectedInput, text: str, file: str) -> InvalidSchema:
    """The parser's complaint as an error for people."""
    from lark.exceptions import UnexpectedEOF, UnexpectedToken

    fits = _fitting(error)
    token = error.token if isinstance(error, UnexpectedToken) else None
    ended = isinstance(error, UnexpectedEOF) or (token is not None and token.type == "$END")
    at = _end(text) if ended else Position(error.line, error.column)
    found = "the end of the text" if ended else _word_at(text, at)
    message, advice = _reason(found, ended, fits)
    return InvalidSchema(
        f"{where(file, at)}: {message}",
        next=advice,
        file=file,
        line=at.line,
        column=at.column,
        found=found,
        expected=_words(fits),
    )


def misspelt(name: str) -> tuple[str, str]:
    """The message and the advice for a type that does not exist."""
    return f"There is no type {name!r}.", nearest(name, TYPES) or f"The types are {', '.join(TYPES)}."


def _reason(found: str, ended: bool, fits: set[str]) -> tuple[str, str]:
    if found.startswith("/*"):
        return "This comment does not end.", "Close it with */."
    if found.startswith('"'):
        return "This text does not end.", "Close it with a double quote."
    expected = _words(fits)
    shown = found if ended else repr(found)
    if fits >= TYPE_PLACE:
        return f"Expected a type, but found {shown}.", nearest(found, TYPES) or f"The types are {', '.join(TYPES)}."
    message = f"Expected {_either(expected)}, but found {shown}."
    return message, nearest(found, [KEYWORDS[t] for t in fits if t in KEYWORDS]) or _advice(found, fits)


def _advice(found: str, fits: set[str]) -> str:
    if found[:1].islower() and "TYPE" in fits:
        return f"Names of types start with a capital: {found[:1].upper()}{found[1:]}."
    if found[:1].isupper() and "NAME" in fits:
        return f"Names of properties start with a small letter: {found[:1].lower()}{found[1:]}."
    if found == "," and "NAME" in fits:
        return "Properties are not separated by commas; leave it out."
    for terminal, example in EXAMPLES.items():
        if terminal in fits:
            return example
    return "A schema is a list of: interface Name { … }, node Name { … }, edge Name: From -> To { … }."


def _fitting(error: Any) -> set[str]:
    """Terminals that would have fitted. What the parser could only have reduced by is left out."""
    accepts = getattr(error, "accepts", None) or getattr(error, "expected", None) or getattr(error, "allowed", None)
    return {str(name) for name in accepts or ()} & WORDS.keys()


def _words(fits: Iterable[str]) -> list[str]:
    known = set(fits)
    return [word for terminal, word in WORDS.items() if terminal in known]


def _either(words: list[str]) -> str:
    quoted = [w if " " in w else f"'{w}'" for w in words]
    return (
        quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}" if quoted else "something else"
    )


def _end(text: str) -> Position:
    lines = text.rstrip().split("\n")
    return Position(len(lines), len(lines[-1]) + 1)


def _word_at(text: str, at: Position) -> str:
    """The word, or the sign, that stands at a place."""
    lines = text.split("\n")
    rest = lines[at.line - 1][at.column - 1 :] if at.line <= len(lines) else ""
    if rest.startswith(("/*", '"')):
        return rest[:40]
    length = next((n for n, c in enumerate(rest) if not (c.isalnum() or c in "_-")), len(rest))
    return rest[: max(length, 1)][:40]
