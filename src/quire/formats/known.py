"""Which table formats there are. A format is made when the first table of its kind is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quire.formats.protocol import TableFormat
from quire.store import Store

Factory = Callable[[Store, str], TableFormat]
"""Makes a format for one lake, given its store and its id."""

_known: dict[str, Factory] = {}


def register(name: str, make: Factory) -> None:
    """Make a format known under the name that pins use for it."""
    _known[name] = make


def factory(name: str) -> Factory | None:
    return _known.get(name)


def _lance(store: Store, lake: str) -> Any:
    from quire.formats.lance import LanceFormat

    return LanceFormat(store, lake)


register("lance", _lance)
