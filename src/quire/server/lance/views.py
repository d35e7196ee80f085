"""What an address below `/lance/{lake}` shows: the lake, one commit, a branch, or an open transaction."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quire.lance.branches import BranchNamespace
from quire.lance.namespace import Namespace
from quire.lance.transactions import TransactionNamespace
from quire.lance.views import CommitNamespace
from quire.ledger import MAIN
from quire.server.lance.credentials import ClientOptions

if TYPE_CHECKING:
    from quire.lake import Lake
    from quire.lance.structure import StructureOperations
    from quire.server.calls import Call
    from quire.server.open_transactions import OpenTransaction
    from quire.server.state import Server

WAIT = 60.0
"""Seconds for which a request waits for another one in the same transaction."""
KEPT = 256
"""Views that are kept open."""


class Views:
    """The namespaces of one server. Requests for one table wait for each other in the namespace that they share."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._options = {
            name: ClientOptions(lake.client_options, lake.client_command, server.lakes.sessions(name))
            for name, lake in server.config.lakes.items()
        }
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], tuple[Lake, Any]] = OrderedDict()

    def options(self, lake: str) -> ClientOptions:
        """What clients of a lake are told of the store."""
        return self._options[lake]

    def main(self, lake: str) -> Namespace:
        handle = self._server.lakes.get(lake, MAIN)
        found: Namespace = self._shared(("main", lake), handle, lambda: Namespace(handle))
        return found

    def at(self, lake: str, commit: str) -> CommitNamespace:
        handle = self._server.lakes.get(lake, MAIN)
        if not commit.replace(".", "").isdigit():
            return CommitNamespace(handle, commit)  # a tag
        found: CommitNamespace = self._shared(("at", lake, commit), handle, lambda: CommitNamespace(handle, commit))
        return found

    def branch(self, lake: str, branch: str) -> BranchNamespace | Namespace:
        if branch == MAIN:
            return self.main(lake)
        handle = self._server.lakes.get(lake, branch)
        found: BranchNamespace = self._shared(("branch", lake, branch), handle, lambda: BranchNamespace(handle))
        return found

    def _shared(self, key: tuple[Any, ...], handle: Lake, make: Callable[[], Any]) -> Any:
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found[0] is handle:
                self._kept.move_to_end(key)
                return found[1]
        made = make()
        made.client_options = self._options[key[1]]
        with self._lock:
            found = self._kept.get(key)
            if found is None or found[0] is not handle:  # else somebody was faster: its locks are the shared ones
                found = self._kept[key] = (handle, made)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found[1]


def transaction_view(server: Server, found: OpenTransaction) -> TransactionNamespace:
    """An open transaction for clients of Lance, the same from its first request to its last."""
    views = server.kept("lance", Views)
    view = found.views.get("lance")
    if view is None:
        view = found.views["lance"] = TransactionNamespace(found.lake, found.tx, found.id)
        view.client_options = views.options(found.lake_name)
    assert isinstance(view, TransactionNamespace)
    return view


@contextmanager
def viewed(call: Call) -> Iterator[StructureOperations]:
    """The namespace that an address names."""
    views: Views = call.server.kept("lance", Views)
    lake = call.path["lake"]
    if "txn" in call.path:
        registry = call.server.transactions
        with registry.used(call.path["txn"], call.actor.name, lake, wait=WAIT) as found:
            try:
                yield transaction_view(call.server, found)
            finally:
                if found.tx.status != "open":  # a statement that stopped half-way has ended it
                    registry.end(found, None)
    elif "branch" in call.path:
        yield views.branch(lake, call.path["branch"])
    elif "commit" in call.path:
        yield views.at(lake, call.path["commit"])
    else:
        yield views.main(lake)
