"""Lake, snapshot, transaction: many tables that move in one commit."""

from quire.lake.commit.tokens import token
from quire.lake.commit.transaction import Transaction
from quire.lake.commit.transaction_table import TransactionTable
from quire.lake.lake import Lake
from quire.lake.opening import create, open
from quire.lake.read.snapshot import Snapshot
from quire.lake.read.table import Rows, Table
from quire.lake.receipt import CommitInfo, Log, Receipt, TableReceipt
from quire.lake.upkeep.repair import repair

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
    "repair",
    "token",
]
