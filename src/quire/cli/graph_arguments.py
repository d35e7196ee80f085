"""What graph commands are given: a text or a file that holds it, and values for the parameters of a query."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from quire.cli import arguments
from quire.conversion.json_keys import repeated
from quire.errors import InvalidInput, NotFound
from quire.rowfiles.kinds import STANDARD

if TYPE_CHECKING:
    from quire.graph.types import Type

Param = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="A value for the parameter $NAME, of its type; lists and vectors are JSON; null is null.",
    ),
]
Params = Annotated[
    str | None,
    typer.Option("--params", metavar="JSON", help="All parameters as one JSON object; @FILE reads a file, @- stdin."),
]

Embedder = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        envvar="QUIRE_EMBEDDER",
        help="What makes vectors from texts: openai:MODEL (with $OPENAI_BASE_URL, $OPENAI_API_KEY) or hash:SIZE.",
    ),
]

_STORED_NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_JSON_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def text_or_file(given: str, what: str) -> str | Path:
    """The text itself, read from stdin for `-`, or the path of the file that holds it."""
    if given == STANDARD:
        return _standard()
    if "{" in given:
        return given
    if os.path.isfile(given):
        return Path(given)
    raise _neither(given, what, "file")


def text_file_or_stored(given: str, what: str) -> str | Path:
    """The same; a name that is no file is left to be that of a stored query."""
    if given == STANDARD:
        text = _standard()
        if "{" not in text:
            raise InvalidInput(f"There is no {what} on stdin.", next="Pipe the text of one: query name() { … }.")
        return text
    if "{" in given:
        return given
    if os.path.isfile(given):
        return Path(given)
    if not _STORED_NAME.fullmatch(given):
        raise _neither(given, what, "file or stored query")
    return given


def one_query(given: str | Path, name: str | None) -> None:
    """A stored query is one query: there is nothing to choose from in it."""
    if name is not None and isinstance(given, str) and "{" not in given:
        raise InvalidInput(f"{given} is the name of a stored query, and {name} another one.", next="Give one of them.")


def contents(given: str | Path) -> tuple[str, str]:
    """A text and the file that it is from."""
    if isinstance(given, str):
        return given, ""
    try:
        return given.read_text("utf-8"), str(given)
    except UnicodeDecodeError:
        raise InvalidInput(f"{given} is not UTF-8 text.", next="Save it as UTF-8.", file=str(given)) from None
    except OSError as error:
        raise InvalidInput(f"{given}: {error.strerror}.", next="Check it.", file=str(given)) from None


def parameters(given: Sequence[str] | None, whole: str | None, types: Mapping[str, Type]) -> dict[str, Any]:
    """The values of `--params` and of every `-p`, which come first, each as the type of its parameter reads it.

    What a type cannot read is passed on as text: whoever binds it says what is wrong with it.
    """
    found = _object(whole) if whole is not None else {}
    for name, text in arguments.pairs(given, "--param", "name=value").items():
        kind = types.get(name)
        found[name] = text if kind is None else typed(text, kind)
    return found


def typed(text: str, kind: Type) -> Any:
    """A word of a shell as a value of a type.

    >>> from quire.graph.types import Type
    >>> typed("36", Type("I32")), typed("36", Type("String")), typed("[1, 2]", Type("I64", many=True))
    (36, '36', [1, 2])
    """
    if text == "null" and kind.optional:
        return None
    if kind.many or kind.base == "Vector":
        return _json(text)
    if kind.base == "Bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind.is_integer:
        return int(text) if _WHOLE.fullmatch(text) else text
    if kind.is_number:
        return float(text) if _JSON_NUMBER.fullmatch(text) else text
    return text


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _object(given: str) -> dict[str, Any]:
    text = given
    if given.startswith("@"):
        path = given[1:]
        text = _standard() if path == STANDARD else _file(path)
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"--params is not valid JSON: {error}.", next='Write an object: {"name": "Ada"}.') from None
    twice = repeated(text.encode(), found)
    if twice is not None:
        raise InvalidInput(f"--params has the key {twice!r} twice.", next="Give each once.", key=twice)
    if not isinstance(found, dict):
        raise InvalidInput("--params must be a JSON object.", next='Write an object: {"name": "Ada"}.')
    return found


def _file(path: str) -> str:
    if not os.path.isfile(path):
        raise NotFound(f"There is no file {path}.", next="Check the name after the @.", file=path)
    return contents(Path(path))[0]


def _standard() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("The input on stdin is not UTF-8 text.", next="Convert it to UTF-8.") from None


def _neither(given: str, what: str, sought: str) -> Exception:
    shown = given if len(given) <= 60 else f"{given[:59]}…"
    if os.path.isdir(given):
        return InvalidInput(f"{shown} is a directory.", next=f"Name a file in it that holds the {what}.", file=given)
    return NotFound(
        f"There is no {sought} {shown!r}, and it is not the text of a {what}, which would contain {{.",
        next=f"Check the name, or write the {what} itself.",
        given=given,
    )
