"""Tokens of an identity provider (JWT). The configuration fixes issuer, audience and algorithms, never the token.

Keys of the provider come from its JWKS, which is kept. A token by a key that is not known makes it be fetched again, at
most every half minute, so that made-up tokens cannot make the server ask the provider without end.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import jwt

from quire.errors import InvalidInput, Unauthenticated
from quire.server.auth.actors import Actor
from quire.server.auth.keys import MOST_NAME, unknown
from quire.server.config import JwtConfig

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those with a private key that only the provider has."""
AGAIN = 30.0
FRESH = 3600.0
"""Seconds after which keys are fetched again in any case: the provider may have withdrawn one."""
MOST_JWKS = 1 << 20


class JwtTokens:
    """Checks the tokens of one provider."""

    def __init__(self, config: JwtConfig) -> None:
        wrong = [name for name in config.algorithms if name not in ALGORITHMS]
        if wrong or not config.algorithms:
            raise InvalidInput(
                f"{wrong[0] if wrong else 'Nothing'!r} is no algorithm for tokens here.",
                next=f"Use some of {', '.join(ALGORITHMS)}.",
            )
        if not config.issuer or not config.audience:
            raise InvalidInput("Tokens need a fixed issuer and audience.", next="Set auth.jwt.issuer and .audience.")
        self._config = config
        self._lock = threading.Lock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched = float("-inf")

    def actor(self, text: str) -> Actor:
        """Who a token says it is, if all of it holds. It may ask the provider, so it belongs in a thread."""
        config = self._config
        try:
            head = jwt.get_unverified_header(text)
            if head.get("alg") not in config.algorithms:
                raise unknown()
            claims = jwt.decode(
                text,
                self._key(head.get("kid")),
                algorithms=list(config.algorithms),
                issuer=config.issuer,
                audience=config.audience,
                leeway=config.leeway,
                options={"require": ["exp", "iss", "aud", config.actor_claim]},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            raise unknown() from None
        return _actor(claims, config)

    def _key(self, kid: Any) -> jwt.PyJWK:
        if kid is not None and not isinstance(kid, str):
            raise unknown()
        with self._lock:
            age = time.monotonic() - self._fetched
            if age > FRESH or (kid not in self._keys and age > AGAIN):
                self._fetch()
            found = self._keys.get(kid)
        if found is None:
            raise unknown()
        return found

    def _fetch(self) -> None:
        """Ask for the keys. If they cannot be had, those that are known stay."""
        where = self._config.jwks
        self._fetched = time.monotonic()
        try:
            if where.startswith(("https://", "http://")):
                with urllib.request.urlopen(where, timeout=5) as answer:
                    body = answer.read(MOST_JWKS)
            else:
                body = Path(where).read_bytes()
            found = jwt.PyJWKSet.from_json(body.decode())
        except (OSError, ValueError, jwt.PyJWTError):
            return
        self._keys = {key.key_id: key for key in found.keys}


def _actor(claims: dict[str, Any], config: JwtConfig) -> Actor:
    name, roles = claims.get(config.actor_claim), claims.get(config.roles_claim, [])
    if not isinstance(name, str) or not name or len(name) > MOST_NAME or not name.isprintable():
        raise Unauthenticated(
            f"The claim {config.actor_claim!r} of the token names nobody.", next="Ask the provider for another token."
        )
    words = roles.split() if isinstance(roles, str) else [r for r in roles if isinstance(r, str)] if roles else []
    return Actor(name, frozenset(config.role_names.get(word, word) for word in words))
