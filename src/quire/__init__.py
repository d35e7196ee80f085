"""Quire: many tables on object storage move in one atomic commit.

>>> import quire
>>> lake = quire.create("memory://example")
>>> with lake.transaction("first commit") as tx:
...     people = tx.create_table("people", [{"id": 1, "name": "Ada"}], key="id")
...     places = tx.create_table("places", [{"id": 1, "city": "London"}], key="id")
>>> lake.snapshot().sql("select name, city from people join places using (id)").to_pylist()
[{'name': 'Ada', 'city': 'London'}]
"""

from typing import TYPE_CHECKING, Any

from quire import errors
from quire.errors import (
    CommitUnknown,
    Conflict,
    KeyConflict,
    QuireError,
)
from quire.lake import (
    CommitInfo,
    Lake,
    Log,
    Receipt,
    Rows,
    Snapshot,
    Table,
    TableReceipt,
    Transaction,
    TransactionTable,
    create,
    open,
    token,
)
from quire.lake import validators as _validators
from quire.ledger import StreamToken
from quire.store import Outcome
from quire.store.telemetry import prometheus as metrics

if TYPE_CHECKING:
    from quire.graph.graph import Graph as Graph

_validators.provide("graph", "quire.graph")

__version__ = "0.1.0"

__all__ = [
    "CommitInfo",
    "CommitUnknown",
    "Conflict",
    "Graph",
    "KeyConflict",
    "Lake",
    "Log",
    "Outcome",
    "QuireError",
    "Receipt",
    "Rows",
    "Snapshot",
    "StreamToken",
    "Table",
    "TableReceipt",
    "Transaction",
    "TransactionTable",
    "create",
    "errors",
    "metrics",
    "open",
    "token",
]


def __getattr__(name: str) -> Any:
    """The graph and its languages are loaded when they are first asked for."""
    if name == "Graph":
        from quire.graph.graph import Graph

        globals()[name] = Graph
        return Graph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
