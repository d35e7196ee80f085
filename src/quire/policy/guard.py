"""The guard of a lake: the newest policy, asked for every verb."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput
from quire.lake.guard.protocol import Kind, Sight, Who
from quire.ledger import MAIN
from quire.policy.audit import Writer
from quire.policy.document import Document, rules_of
from quire.policy.rules import Rules
from quire.policy.stored import StoredPolicies

if TYPE_CHECKING:
    from quire.lake.context import Core

LOOK = 1.0
"""Seconds after which a newer policy is looked for: one request, when somebody asks."""


class PolicyGuard:
    """Holds everybody who acts on a lake to its policy: the one that is stored there, or one that was given."""

    def __init__(self, core: Core, given: Document | None = None) -> None:
        self._core, self._stored = core, StoredPolicies(core.store)
        self._fixed = given is not None
        self._rules = Rules(given, b"given") if given is not None else None
        self._generation = -1
        self._looked = float("-inf")
        self._lock = threading.Lock()
        self._writer = Writer(core)
        self._owners: dict[str, tuple[float, str]] = {}

    def rules(self) -> Rules | None:
        """The policy that holds now; None when there is none."""
        if self._fixed or time.monotonic() < self._looked + LOOK:
            return self._rules
        with self._lock:
            if time.monotonic() >= self._looked + LOOK:
                found = self._stored.newest(self._generation)  # where it cannot be read, nothing is allowed
                if found is not None:
                    self._rules = Rules(found.document, found.secret)
                    self._generation = found.generation
                self._looked = time.monotonic()
        return self._rules

    def look_again(self) -> None:
        """Look for a newer policy the next time that somebody asks."""
        self._looked = float("-inf")

    # -- the protocol -------------------------------------------------------------------------------------------

    def active(self) -> bool:
        return self.rules() is not None

    def allows(self, who: Who, action: str, kind: Kind, name: str, context: Mapping[str, Any]) -> bool:
        rules = self.rules()
        if rules is None:
            return bool(who.name)
        owner = self._owner(name) if kind == "Branch" and rules.asks_for_owner else ""
        return bool(who.name) and rules.decide(who, action, kind, name, context, owner=owner).allowed

    def sight(self, who: Who, branch: str, table: str, columns: Mapping[str, Any]) -> Sight:
        rules = self.rules()
        return Sight() if rules is None else rules.sight(who, branch, table, columns)

    def refused(self, who: Who, action: str, kind: Kind, name: str, branch: str) -> None:
        self._writer.add("denied", who, action, kind, name, branch)

    def did(self, who: Who, action: str, kind: str, name: str, branch: str) -> None:
        self._writer.add("did", who, action, kind, name, branch)

    def flush(self, timeout: float) -> bool:
        return self._writer.flush(timeout)

    def _owner(self, branch: str) -> str:
        """Who made a branch; known for a second."""
        if branch == MAIN:
            return ""
        known = self._owners.get(branch)
        if known is None or time.monotonic() > known[0] + LOOK:
            ref, _ = self._core.refs.get("branch", branch)
            known = time.monotonic(), ref.author if ref is not None and ref.kind == "branch" else ""
            if len(self._owners) > 1000:
                self._owners.clear()
            self._owners[branch] = known
        return known[1]


def document(given: Any) -> Document | None:
    """A policy that a program gave: a text, a path of a file with one, or a `Document`."""
    import os
    from pathlib import Path

    if given is None or isinstance(given, Document):
        return given
    if isinstance(given, os.PathLike):
        try:
            return Document(Path(given).read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"The policy {str(given)!r} cannot be read: {error}.", next="Check the path.") from None
    if not isinstance(given, str):
        raise InvalidInput(f"{given!r} is no policy.", next="Give a text in Cedar, or the path of a file.")
    rules_of(given)
    return Document(given)
