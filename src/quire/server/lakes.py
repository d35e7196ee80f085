"""The lakes of a server: opened once, and one shared handle for every branch, so that its clients share slots."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from quire.errors import LakeNotFound
from quire.lake import Lake, open
from quire.lake.guard import acting_now
from quire.lake.guard.handles import governed
from quire.lake.handles import core_of, is_closed, see_branch
from quire.ledger import MAIN
from quire.policy.guard import PolicyGuard
from quire.store.vended_credentials import Sessions

if TYPE_CHECKING:
    from quire.lake.guard.protocol import Kind, Who
    from quire.server.config import Config

MANY = 1_000
KEPT = 256
"""Branches, other than main, that are kept open for each lake."""


class OpenLakes:
    """Every lake by the name that clients call it by. An address is never taken from a client."""

    def __init__(self, config: Config) -> None:
        self._lakes: dict[str, Lake] = {}
        self._branches: dict[str, OrderedDict[str, Lake]] = {}
        self._guards: dict[str, PolicyGuard] = {}
        self._sessions: dict[str, Sessions] = {}
        self._lock = threading.Lock()
        self._private = config.private
        for name, lake in config.lakes.items():
            self._lakes[name] = open(
                lake.uri,
                storage_options=lake.storage_options,
                read_only=lake.read_only or config.read_only,
                external=list(lake.external),
            )
            self._branches[name] = OrderedDict()
            self._guards[name] = PolicyGuard(core_of(self._lakes[name]))
            if lake.sessions is not None:
                how = lake.sessions
                self._sessions[name] = Sessions(
                    self._lakes[name].uri,
                    lake.storage_options,
                    how.role,
                    endpoint=how.endpoint,
                    seconds=how.seconds,
                    external_id=how.external_id,
                )

    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._lakes)

    def get(self, name: str, branch: str = MAIN, *, audited: bool = False) -> Lake:
        """The handle that all clients of a branch share; where the lake has a policy, whoever asks is held to it.

        By one that is `audited`, whoever asks does what is written down beside the commits, also without a policy.
        """
        shared = self._shared(name, branch)
        guard = self._guards[name]
        return governed(shared, guard, acting_now(), strict=False) if guard.active() or audited else shared

    def sessions(self, name: str) -> Sessions | None:
        """What gives clients of a lake short credentials of its store, where the configuration has a role for them."""
        return self._sessions.get(name)

    def did(self, name: str, action: str, kind: Kind, what: str, branch: str) -> None:
        """Write down that whoever asks did what no commit tells of."""
        self._guards[name].did(acting_now(), action, kind, what, branch)

    def refused(self, name: str, who: Who, action: str) -> None:
        """Write down that somebody was refused before a lake was asked, if there is a lake of this name."""
        guard = self._guards.get(name)
        if guard is not None:
            guard.refused(who, action, "Lake", name, "")

    def may_merge(self, name: str, source: str) -> bool:
        """Whether a policy of the lake lets whoever asks merge a branch into main, once it has its approvals."""
        guard, who = self._guards[name], acting_now()
        context = {"branch": MAIN, "via": who.via, "source": source, "approvals": MANY}
        return guard.active() and guard.allows(who, "mergeInto", "Branch", MAIN, context)

    def _shared(self, name: str, branch: str) -> Lake:
        lake = self._lakes.get(name)
        if lake is None:
            raise LakeNotFound(f"This server has no lake {name!r}.", next="GET /v1/lakes lists them.", lake=name)
        if branch == MAIN:
            return lake
        if self._guards[name].active():
            see_branch(governed(lake, self._guards[name], acting_now(), strict=False), branch)
        kept = self._branches[name]
        with self._lock:
            found = kept.get(branch)
            if found is not None and not is_closed(found):
                kept.move_to_end(branch)
                return found
        opened = lake.branch(branch)
        with self._lock:
            found = kept.get(branch)
            if found is None or is_closed(found):  # else somebody else was faster, and its handle is the shared one
                found = kept[branch] = opened
            while len(kept) > KEPT:
                kept.popitem(last=False)
        return found

    def forget(self, name: str, branch: str) -> None:
        """Let go of the handle of a branch that was deleted."""
        with self._lock:
            self._branches.get(name, OrderedDict()).pop(branch, None)

    def is_read_only(self, name: str) -> bool:
        """Whether nobody can write to a lake here."""
        return self._lakes[name].read_only

    def copied(self, name: str) -> str | None:
        """Where a lake lies, for who may know: on a private server alone."""
        return self._lakes[name].uri if self._private and name in self._lakes else None

    def addresses(self) -> dict[str, str]:
        """Where the lakes lie, each with the name that clients know."""
        return {lake.uri: name for name, lake in self._lakes.items()}

    def every(self) -> list[Lake]:
        """All lakes on their main branch."""
        return list(self._lakes.values())

    def close(self, timeout: float) -> bool:
        """Finish background work; False when time ran out first."""
        done = [lake.flush(timeout) for lake in self.every()]
        done += [guard.flush(timeout) for guard in self._guards.values()]
        for lake in self.every():
            lake.close()
        return all(done)
