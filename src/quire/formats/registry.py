"""Which table formats there are. A format is made when the first table of its kind is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quire.errors import Unsupported
from quire.formats.protocol.distributed import Place, TaskTable
from quire.formats.protocol.table_format import TableFormat
from quire.store import Store

Factory = Callable[[Store, str], TableFormat]
"""Makes a format for one lake, given its store and its id."""
Opener = Callable[[Place], TaskTable]
"""Opens a place in the process of a task."""

_known: dict[str, Factory] = {}
_openers: dict[str, Opener] = {}


def register(name: str, make: Factory, open_place: Opener | None = None) -> None:
    """Make a format known under the name that pins use for it; with `open_place`, one to which tasks contribute."""
    _known[name] = make
    if open_place is not None:
        _openers[name] = open_place


def factory(name: str) -> Factory | None:
    return _known.get(name)


def task_table(place: Place) -> TaskTable:
    """A place as its format opens it, in this process."""
    opened = _openers.get(place.format)
    if opened is None:
        raise Unsupported(
            f"Tasks cannot work on tables of format {place.format!r}.",
            next="Read and write the table in one process.",
            format=place.format,
        )
    return opened(place)


def _lance(store: Store, lake: str) -> Any:
    from quire.formats.lance import LanceFormat

    return LanceFormat(store, lake)


def _lance_place(place: Place) -> TaskTable:
    from quire.formats.lance.distributed import LanceTaskTable

    return LanceTaskTable(place)


def _delta(store: Store, lake: str) -> Any:
    from quire.formats.delta import DeltaFormat

    return DeltaFormat(store, lake)


def _delta_place(place: Place) -> TaskTable:
    from quire.formats.delta.tasks import DeltaTaskTable

    return DeltaTaskTable(place)


register("lance", _lance, _lance_place)
register("delta", _delta, _delta_place)
