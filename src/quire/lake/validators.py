"""Rules that a higher layer puts on tables.

A table's record names its validator. The lake knows only the name; when no validator of that name is installed,
writes to the table are refused. A validator is called before the publish, on the base the commit would land on, and
again when a table that the transaction writes, checks or has read was moved meanwhile. It may read through the
transaction, and must not commit.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from quire.errors import ValidatorMissing

Validator = Callable[[Any, list[str]], None]
"""Called with the transaction and the names of the changed tables it guards; raises a `QuireError` to refuse."""

_installed: dict[str, Validator] = {}
_provided: dict[str, str] = {}


def install(name: str, validator: Validator) -> None:
    _installed[name] = validator


def provide(name: str, module: str) -> None:
    """Say which module installs a validator, so that it is imported when the first table asks for it."""
    _provided[name] = module


def known(name: str) -> bool:
    return get(name) is not None


def missing(name: str, table: str) -> ValidatorMissing:
    return ValidatorMissing(
        f"Table {table!r} is guarded by {name!r}, which is not installed here.",
        next="Install the package that provides it; reading works without.",
        table=table,
        validator=name,
    )


def get(name: str) -> Validator | None:
    if name not in _installed and name in _provided:
        importlib.import_module(_provided[name])
    return _installed.get(name)
