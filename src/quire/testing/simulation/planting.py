"""How bugs are planted: by name, for as long as a context lasts, in this process only."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from quire.errors import NotFound

Patch = contextlib.AbstractContextManager[Any]
BUGS: dict[str, Callable[[], Patch]] = {}
"""By name: a context in which the bug is there. The docstring says what is wrong."""


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """The bug of that name; None: the protocol as it is. `module:name` imports the module that makes the bug known."""
    if name is None:
        yield
        return
    module, _, bug = name.rpartition(":")
    if module:
        importlib.import_module(module)
    if bug not in BUGS:
        raise NotFound(f"There is no bug {bug!r} to plant.", next=f"Known are: {', '.join(sorted(BUGS)) or 'none'}.")
    with BUGS[bug]():
        yield


@contextlib.contextmanager
def swap(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Something else under this name."""
    known = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, known)


def bug(make: Callable[[], Patch]) -> Callable[[], Patch]:
    """Make a function a bug that can be planted under its name."""
    BUGS[make.__name__.strip("_").replace("_", "-")] = make
    return make
