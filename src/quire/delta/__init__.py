"""Delta tables of a lake for clients of Delta: the owner of their commits, and tables that have none.

owner = quire.delta.CommitOwner(lake)
orders = owner.table("orders")
orders.commit(orders.latest_version() + 1, actions)
"""

from quire.delta.commit_owner import CommitOwner, Commits, OwnedTable
from quire.delta.convert import Converted, convert
from quire.formats import OwnedCommit

__all__ = ["CommitOwner", "Commits", "Converted", "OwnedCommit", "OwnedTable", "convert"]
