"""Quire: many tables on object storage move in one atomic commit.

>>> import quire
>>> lake = quire.create("memory://example")
>>> with lake.transaction("first commit") as tx:
...     people = tx.create_table("people", [{"id": 1, "name": "Ada"}], key="id")
...     places = tx.create_table("places", [{"id": 1, "city": "London"}], key="id")
>>> lake.snapshot().sql("select name, city from people join places using (id)").to_pylist()
[{'name': 'Ada', 'city': 'London'}]
"""

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
from quire.ledger import StreamToken
from quire.store import Outcome

__version__ = "0.1.0"

__all__ = [
    "CommitInfo",
    "CommitUnknown",
    "Conflict",
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
    "open",
    "token",
]
