"""The tools of agents on a server: made once for those who read and once for those who write, whoever they are."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quire.agents.workspace import Workspace

KEPT = 32
"""Sets of tools that are kept."""
working_in: ContextVar[Workspace] = ContextVar("quire_agent_workspace")


class Tools:
    """The tools that were made already: making them takes longer than most calls."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, space: Workspace) -> Any:
        """The MCP server of a workspace, whoever works in it."""
        from quire.agents.tools import build

        with space.working():
            queries = "".join(space.graph().stored().values())
        digest = hashlib.sha256(queries.encode()).hexdigest()
        key = (space.name, space.branch is not None, space.may_merge, digest)
        with self._lock:
            found = self._made.get(key)
        if found is None:
            found = build(space, working_in.get)
        with self._lock:
            self._made[key] = found
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        return found
