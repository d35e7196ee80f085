"""Lake, snapshot, transaction: many tables that move in one commit."""

from quire.lake.lake import Lake, create, open
from quire.lake.receipt import CommitInfo, Log, Receipt, TableReceipt
from quire.lake.snapshot import Snapshot
from quire.lake.table import Rows, Table
from quire.lake.tokens import token
from quire.lake.transaction import Transaction
from quire.lake.verbs import TransactionTable

__all__ = [
    "CommitInfo",
    "Lake",
    "Log",
    "Receipt",
    "Rows",
    "Snapshot",
    "Table",
    "TableReceipt",
    "Transaction",
    "TransactionTable",
    "create",
    "open",
    "token",
]
