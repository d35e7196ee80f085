"""Arguments of public functions are checked against their annotations before anything is done.

A wrong one is an `InvalidArgument` that names the function, the argument, what it takes and what it was given. What an
annotation leaves open (`Any`, protocols, types that are only imported for type checkers) is not looked at here.

    @checks_arguments
    class Lake: ...

    @checked
    def open(uri: str | os.PathLike[str], *, read_only: bool = False) -> Lake: ...
"""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import numbers
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, TypeVar

from quire.errors import InvalidArgument, shown

C = TypeVar("C", bound=type)
N = TypeVar("N", int, int | None, float, float | None)
F = TypeVar("F", bound=Callable[..., Any])

Test = Callable[[Any], bool]


@dataclass(frozen=True)
class Kind:
    """What an annotation admits: a test, and its words. A test of None admits everything."""

    test: Test | None
    words: str = "anything"


ANYTHING = Kind(None)


def checks_arguments(cls: C) -> C:
    """Check the arguments of every public method of a class, and of `x[name]`."""
    for name, found in list(vars(cls).items()):
        if isinstance(found, types.FunctionType) and (not name.startswith("_") or name == "__getitem__"):
            setattr(cls, name, checked(found))
    return cls


def checked(function: F) -> F:
    """Check the arguments of one function whenever it is called."""
    kinds: dict[str, Kind] | None = None
    code = function.__code__
    positional: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @wraps(function)
    def wrapper(*args: Any, **named: Any) -> Any:
        nonlocal kinds
        if kinds is None:
            kinds = _kinds_of(function)
        for place, value in enumerate(args):
            name = positional[place] if place < len(positional) else "*"
            kind = kinds.get(name)
            if kind is not None and not kind.test(value):  # type: ignore[misc]
                raise _refused(function, name, kind, value)
        for name, value in named.items():
            kind = kinds.get(name) or (kinds.get("**") if name not in known else None)
            if kind is not None and not kind.test(value):  # type: ignore[misc]
                raise _refused(function, name, kind, value)
        try:
            return function(*args, **named)
        except TypeError as error:
            # Raised by the call itself, before the first line of the function.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise _misnamed(function, args, named) from None
            raise

    return typing.cast(F, wrapper)


def _refused(function: Callable[..., Any], name: str, kind: Kind, value: Any) -> InvalidArgument:
    return InvalidArgument(
        f"{_called(name)} of {_title(function)} must be {kind.words}, not {shown(value)}.",
        next=_advice(kind, value),
        function=_title(function),
        argument=name,
        expected=kind.words,
        actual=type(value).__name__,
    )


def _called(name: str) -> str:
    return "Every argument" if name == "*" else repr(name)


def _advice(kind: Kind, value: Any) -> str:
    if isinstance(value, str):
        if "a list of text" in kind.words:
            return f"Write [{shown(value)}]."
        if "number" in kind.words and value.lstrip("-").replace(".", "", 1).isdigit():
            return f"Write {value}, without quotes."
    return f"Give {kind.words}."


def _misnamed(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> InvalidArgument:
    signature = inspect.signature(function)
    known = [p.name for p in signature.parameters.values() if p.name != "self" and p.kind is not p.VAR_KEYWORD]
    strange = [name for name in named if name not in known]
    try:
        signature.bind(*args, **named)
        reason = "the arguments do not match"
    except TypeError as error:
        reason = str(error)
    close = difflib.get_close_matches(strange[0], known, 1) if strange else []
    return InvalidArgument(
        f"{_title(function)}: {reason}.",
        next=f"Did you mean {close[0]!r}?" if close else f"It takes {', '.join(known) or 'no arguments'}.",
        function=_title(function),
        argument=strange[0] if strange else None,
    )


def _title(function: Callable[..., Any]) -> str:
    name = function.__qualname__.removesuffix(".__init__")
    return f"{name.removesuffix('.__getitem__')}[…]" if name.endswith(".__getitem__") else f"{name}()"


def _kinds_of(function: Callable[..., Any]) -> dict[str, Kind]:
    """What the annotated parameters of a function admit, without those that admit everything."""
    names = {**vars(typing), **function.__globals__}
    kinds = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.annotation is parameter.empty:
            continue
        kind = _parsed(parameter.annotation, names)
        if kind.test is not None:
            kinds[_REST.get(parameter.kind, parameter.name)] = kind
    return kinds


# -- annotations as they stand in the source ------------------------------------------------------------------


def _parsed(annotation: Any, names: Mapping[str, Any]) -> Kind:
    if not isinstance(annotation, str):
        return _meant(annotation)
    return _read(ast.parse(annotation, mode="eval").body, names)


def _read(node: ast.expr, names: Mapping[str, Any]) -> Kind:
    if isinstance(node, ast.BinOp):
        return _either([_read(node.left, names), _read(node.right, names)])
    if isinstance(node, ast.Constant):
        return _parsed(node.value, names) if isinstance(node.value, str) else _meant(node.value)
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        base = _found(node.value, names)
        if base is Literal:
            return _one_of([item.value for item in inner if isinstance(item, ast.Constant)])
        inner = [item for item in inner if not isinstance(item, ast.List) and not _is_ellipsis(item)]
        return _of_items(base, [_read(item, names) for item in inner])
    return _meant(_found(node, names))


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _found(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The object that a name stands for; `Any` where only type checkers know it."""
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        if node.id in _BY_NAME:
            return _BY_NAME[node.id]
        lake = sys.modules.get("quire.lake")  # its classes are named for type checkers only in the modules above it
        return getattr(builtins, node.id, None) or getattr(lake, node.id, Any)
    if isinstance(node, ast.Attribute):
        return getattr(_found(node.value, names), node.attr, Any)
    return Any


# -- annotations as objects -----------------------------------------------------------------------------------


def _meant(hint: Any) -> Kind:
    if isinstance(hint, Kind):
        return hint
    if hint is None or hint is types.NoneType:
        return Kind(lambda value: value is None, "None")
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return _one_of(inner)
    if origin in (typing.Union, types.UnionType):
        return _either([_meant(item) for item in inner])
    if origin is not None:
        return _of_items(origin, [_meant(item) for item in inner if not isinstance(item, list) and item is not ...])
    if typing.is_typeddict(hint):
        return Kind(_is_named, "a dict of options by their names")  # whoever is handed them checks each of them
    if isinstance(hint, type) and not getattr(hint, "_is_protocol", False):
        return _of_items(hint, [])
    return ANYTHING


def _either(kinds: list[Kind]) -> Kind:
    if any(kind.test is None for kind in kinds):
        return ANYTHING
    tests = [kind.test for kind in kinds if kind.test is not None]
    words = list(dict.fromkeys(kind.words for kind in kinds))
    return Kind(lambda value: any(test(value) for test in tests), _or(words))


def _one_of(values: typing.Sequence[Any]) -> Kind:
    return Kind(
        lambda value: any(type(one) is type(value) and one == value for one in values), _or([repr(v) for v in values])
    )


def _or(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _of_items(base: Any, inner: list[Kind]) -> Kind:
    """A container with what it holds, or any other class."""
    if not isinstance(base, type) or base is object:
        return ANYTHING
    if base in (type, os.PathLike) or (not inner and not issubclass(base, Collection)):
        words = {type: "a class", os.PathLike: "a path"}.get(base, f"a {base.__name__}")
        return Kind(lambda value: isinstance(value, base), words)
    if issubclass(base, str | bytes):
        return Kind(lambda value: isinstance(value, base), f"a {base.__name__}")
    if issubclass(base, Mapping):
        return _mapping(*(inner if len(inner) == 2 else [ANYTHING, ANYTHING]))
    if base is tuple and len(inner) > 1:
        return _items(inner)
    if issubclass(base, Collection) and base.__module__ in ("builtins", "collections.abc"):
        return _collection(inner[0] if inner else ANYTHING)
    return Kind(lambda value: isinstance(value, base), f"a {base.__name__}")


def _mapping(key: Kind, value: Kind) -> Kind:
    def test(given: Any) -> bool:
        if not isinstance(given, Mapping):
            return False
        return (key.test is None or all(map(key.test, given))) and (
            value.test is None or all(map(value.test, given.values()))
        )

    of = f" from {key.words} to {value.words}" if key.test or value.test else ""
    return Kind(test, f"a dict{of}")


def _items(kinds: list[Kind]) -> Kind:
    """A tuple (or list) of so many items, each of its own kind."""

    def test(given: Any) -> bool:
        if not isinstance(given, tuple | list) or len(given) != len(kinds):
            return False
        return all(kind.test is None or kind.test(value) for kind, value in zip(kinds, given, strict=True))

    return Kind(test, f"a tuple ({', '.join(kind.words for kind in kinds)})")


def _collection(item: Kind) -> Kind:
    """Lists and their like, also where the annotation asks for a tuple: what is taken is only looked through."""

    def test(given: Any) -> bool:
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Collection):
            return False
        return item.test is None or all(map(item.test, given))

    return Kind(test, f"a list of {_PLURAL.get(item.words, item.words)}" if item.test else "a list")


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False  # half of a character: no file, no record and no name can hold it
    return True


def _is_named(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ == "bool"  # numpy has its own


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not _is_truth(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not _is_truth(value)


_SIMPLE: dict[Any, Kind] = {
    Any: ANYTHING,
    object: ANYTHING,
    str: Kind(_is_text, "text"),
    bool: Kind(_is_truth, "True or False"),
    int: Kind(_is_whole, "a whole number"),
    float: Kind(_is_number, "a number"),
    Callable: Kind(callable, "a function"),
}
_REST: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
"""What the arguments without a parameter of their own are kept under."""
_BY_NAME = {"SparkSession": Kind(lambda value: type(value).__module__.startswith("pyspark."), "a Spark session")}
"""Classes that are too heavy to import for a check."""
_PLURAL = {"a whole number": "whole numbers", "a number": "numbers", "a path": "paths"}


# -- bounds ---------------------------------------------------------------------------------------------------

LARGEST = 2**63 - 1
"""What Arrow, Lance and every store can count to."""

LONGEST_WAIT = 1e8
"""Seconds; threads cannot wait for much longer."""


def bounded(name: str, value: N, least: float, most: float = LARGEST) -> N:
    """A number within its bounds, as Python's own kind; NaN is within none. None stands for "not given"."""
    if value is None or least <= value <= most:
        return operator.index(value) if isinstance(value, numbers.Integral) else value
    words = f"between {least} and {most}" if most < LARGEST else f"at least {least}"
    if value > most == LARGEST:
        words = f"at most {most}"
    raise InvalidArgument(
        f"{name} must be {words}, not {shown(value)}.", next="Correct it.", argument=name, expected=words
    )
