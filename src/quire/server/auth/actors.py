"""Who asks: a name and roles that come from a token alone."""

from __future__ import annotations

from dataclasses import dataclass, field

READ, WRITE, ADMIN = "read", "write", "admin"
ROLES = (READ, WRITE, ADMIN)
"""What each role may do, the ones before included: read; commit, branch, tag; delete branches, run upkeep."""


@dataclass(frozen=True)
class Actor:
    """Who makes a request."""

    name: str
    roles: frozenset[str] = field(default_factory=frozenset)
    lakes: frozenset[str] | None = None
    """The lakes that exist for it; None for all."""

    def may(self, access: str) -> bool:
        """Whether a role of it allows this kind of request."""
        allowed = ROLES.index(access)
        return any(ROLES.index(role) >= allowed for role in self.roles if role in ROLES)

    def sees(self, lake: str) -> bool:
        """Whether a lake exists for it."""
        return self.lakes is None or lake in self.lakes


ANYBODY = Actor("anonymous", frozenset(ROLES))
"""Everybody, on a server without authentication."""
