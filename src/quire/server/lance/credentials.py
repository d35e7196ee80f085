"""What clients are told of the store: fixed settings, and credentials that expire.

Those are a session of the store for the folder of one table, with the rights that its reader or writer needs, or what
a program prints. Lance asks for them again, by describing the table, before `expires_at_millis`.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from quire.errors import ServerUnavailable
from quire.lake.guard import acting_now
from quire.server.auth.actors import ADMIN, WRITE
from quire.store.vended_credentials import Sessions

EXPIRES = "expires_at_millis"
EARLY = 120.0
"""Seconds before their end at which credentials are made anew: a client has at least so long."""
SECONDS = 30.0


class ClientOptions:
    """Settings of the store for clients of one lake. Safe to share between threads."""

    def __init__(self, fixed: Mapping[str, str], command: Sequence[str], sessions: Sessions | None = None) -> None:
        self._fixed, self._command, self._sessions = dict(fixed), list(command), sessions
        self._lock = threading.Lock()
        self._made: dict[str, str] = {}
        self._until = 0.0

    def __call__(self, uri: str, writes: bool) -> dict[str, str]:
        """What to tell whoever asks now, for the table at an address, which clients may write here or not."""
        if self._sessions is not None and uri.startswith("s3://"):
            who = acting_now()
            found = self._sessions.open(
                who.name, [uri], "stage" if writes and not who.roles.isdisjoint((WRITE, ADMIN)) else "read"
            )
            until = {EXPIRES: str(int(found.expires.timestamp() * 1000))}
            return {**self._fixed, **found.options, **until}
        if not self._command:
            return self._fixed
        with self._lock:
            if time.time() >= self._until - EARLY:
                self._made = {**self._fixed, **self._run()}
                expires = self._made.get(EXPIRES, "")
                self._until = int(expires) / 1000 if expires.isdecimal() else float("inf")
            return self._made

    def _run(self) -> dict[str, str]:
        try:
            done = subprocess.run(self._command, capture_output=True, timeout=SECONDS, check=True)
            found = json.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise _failed(type(error).__name__) from None  # its output may hold secrets
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise _failed("it printed no object of texts")
        return found


def _failed(why: str) -> ServerUnavailable:
    return ServerUnavailable(
        f"The program that makes credentials for clients failed: {why}.",
        next="Whoever runs the server should run its client_command by hand.",
    )
