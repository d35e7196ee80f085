"""Rules that a higher layer puts on tables.

A table's record names its validator. The lake knows only the name; when no validator of that name is installed,
writes to the table are refused. A validator is called before every publish, on the base the commit would land on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quire.errors import ValidatorMissing

Validator = Callable[[Any, list[str]], None]
"""Called with the transaction and the names of the changed tables it guards; raises a `QuireError` to refuse."""

_installed: dict[str, Validator] = {}


def install(name: str, validator: Validator) -> None:
    _installed[name] = validator


def known(name: str) -> bool:
    return name in _installed


def missing(name: str, table: str) -> ValidatorMissing:
    return ValidatorMissing(
        f"Table {table!r} is guarded by {name!r}, which is not installed here.",
        next="Install the package that provides it; reading works without.",
        table=table,
        validator=name,
    )


def get(name: str) -> Validator | None:
    return _installed.get(name)
