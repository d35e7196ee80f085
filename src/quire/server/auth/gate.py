"""The gate: who a request is by, from its `Authorization` header alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from quire.errors import Unauthenticated
from quire.server.auth.actors import ANYBODY, Actor
from quire.server.auth.keys import PREFIX, Keys, unknown
from quire.server.config import AuthConfig

MOST_TOKEN = 16 << 10


class Gate:
    """Lets in whom it knows; everybody, on a server without authentication."""

    def __init__(self, config: AuthConfig | None) -> None:
        self._open = config is None
        self._keys = Keys(config.keys) if config is not None and config.keys is not None else None
        self._tokens: Any = None
        if config is not None and config.jwt is not None:
            from quire.server.auth.jwt_tokens import JwtTokens

            self._tokens = JwtTokens(config.jwt)

    async def actor(self, headers: Mapping[str, str], in_thread: Callable[[Any], Awaitable[Any]]) -> Actor:
        """Who asks, or `Unauthenticated`."""
        if self._open:
            return ANYBODY
        scheme, _, token = headers.get("authorization", "").partition(" ")
        token = token.strip()
        if not token:
            raise Unauthenticated("There is no token.", next="Send one in Authorization: Bearer ….")
        if scheme.lower() != "bearer" or len(token) > MOST_TOKEN or not token.isascii():
            raise unknown()
        if token.startswith(PREFIX):
            if self._keys is None:
                raise unknown()
            return self._keys.actor(token)
        if self._tokens is None:
            raise unknown()
        found: Actor = await in_thread(partial(self._tokens.actor, token))
        return found
