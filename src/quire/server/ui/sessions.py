"""Who a browser is. A one-time word in the address (`quire ui`) or a key that is typed in becomes a cookie.

The cookie is a random word that only this process knows what it stands for: scripts cannot read it (HttpOnly), other
sites cannot make browsers send it (SameSite=Strict), and it ends with the process or after a day.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from quire.errors import Unauthenticated
from quire.server.auth.actors import ADMIN, READ, WRITE, Actor

COOKIE = "quire_session"
SECONDS = 86_400.0
MOST = 10_000


@dataclass(frozen=True)
class Session:
    """One signed-in browser: an actor, or the token by which the gate knows who it is, each time anew."""

    until: float
    actor: Actor | None = None
    token: str = ""


class Sessions:
    """All of a server's, in memory."""

    def __init__(self, *, private: bool = False, write: bool = False, author: str = "") -> None:
        self.private = private
        """Whether nobody comes in but by the one-time word."""
        roles = frozenset((READ, WRITE, ADMIN) if write else (READ,))
        self._owner = Actor(author or "owner", roles)
        self._word = secrets.token_urlsafe(32) if private else ""
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Session] = OrderedDict()

    @property
    def word(self) -> str:
        """The one-time word; empty when it was used."""
        return self._word

    def enter(self, word: str) -> str:
        """A cookie for the one-time word, which is worth nothing afterwards."""
        with self._lock:
            if not self._word or not hmac.compare_digest(self._word.encode(), word.encode()):
                raise Unauthenticated(
                    "This link was used already, or is of an earlier `quire ui`.", next="Run `quire ui` again."
                )
            self._word = ""
        return self._made(Session(time.monotonic() + SECONDS, self._owner))

    def sign_in(self, token: str) -> str:
        """A cookie for a token that the gate knows."""
        return self._made(Session(time.monotonic() + SECONDS, None, token))

    def sign_out(self, headers: Mapping[str, str]) -> None:
        """End the session of a browser."""
        with self._lock:
            self._open.pop(_cookie(headers), None)

    def find(self, headers: Mapping[str, str]) -> Session | None:
        """The session of a request, if it has one."""
        name = _cookie(headers)
        if not name or "authorization" in headers:
            return None
        with self._lock:
            found = self._open.get(name)
            if found is not None and found.until < time.monotonic():
                found = self._open.pop(name, None) and None
        return found

    def refuse(self, headers: Mapping[str, str]) -> Unauthenticated:
        """Why a browser without a session does not come in to a private server."""
        if _cookie(headers):
            return Unauthenticated("Your session has expired.", next="Run `quire ui` again.", expired=True)
        return Unauthenticated("This server is for whoever started it.", next="Open the link that `quire ui` printed.")

    def _made(self, session: Session) -> str:
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._open[name] = session
            while len(self._open) > MOST:
                self._open.popitem(last=False)
        return name


def cookie(value: str) -> str:
    """The header that gives a browser its cookie; an empty value takes it away."""
    age = int(SECONDS) if value else 0
    return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}"


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""
