"""Quire: many tables on object storage move in one atomic commit.

>>> import quire
>>> lake = quire.create("memory://example")
>>> with lake.transaction("first commit") as tx:
...     people = tx.create_table("people", [{"id": 1, "name": "Ada"}], key="id")
...     places = tx.create_table("places", [{"id": 1, "city": "London"}], key="id")
>>> lake.snapshot().sql("select name, city from people join places using (id)").to_pylist()
[{'name': 'Ada', 'city': 'London'}]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quire import errors
    from quire.client.lake import connect
    from quire.errors import CommitUnknown, Conflict, KeyConflict, QuireError
    from quire.graph.graph import Graph
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
        repair,
        token,
    )
    from quire.ledger import StreamToken
    from quire.store import Outcome
    from quire.telemetry import prometheus as metrics

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
    "connect",
    "create",
    "errors",
    "metrics",
    "open",
    "repair",
    "token",
]


_ELSEWHERE = {
    "Graph": "quire.graph.graph",
    "Outcome": "quire.store",
    "StreamToken": "quire.ledger",
    "connect": "quire.client.lake",
    "metrics": "quire.telemetry",
    **dict.fromkeys(("CommitUnknown", "Conflict", "KeyConflict", "QuireError"), "quire.errors"),
}
"""Where a name is defined, if not in `quire.lake`."""

if not TYPE_CHECKING:  # type checkers see the imports above, and no name but those

    def __getattr__(name: str) -> Any:
        """Names are loaded when they are first asked for, so that `import quire` costs next to nothing."""
        if name in ("delta", "errors"):
            return import_module(f"quire.{name}")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_ELSEWHERE.get(name, "quire.lake")), "prometheus" if name == "metrics" else name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
