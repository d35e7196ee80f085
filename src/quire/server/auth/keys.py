"""API keys: `qk_<id>_<secret>`, of which the server keeps the SHA-256 alone, in a file of its own.

A key is shown once, when it is created. The file is replaced as a whole, under a lock, so that a server never reads
half of it, and a server sees within a second what was created or revoked.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from quire.errors import InvalidInput, NotFound, Unauthenticated
from quire.ledger.records import reader
from quire.server.auth.actors import ROLES, Actor

PREFIX = "qk_"
LOOK = 1.0
"""Seconds after which the file is looked at again."""
MOST_NAME = 200

_SHAPE = re.compile(r"qk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key as the file has it."""

    id: str
    sha256: str
    actor: str
    roles: list[str]
    created: datetime
    lakes: list[str] | None = None
    expires: datetime | None = None
    revoked: datetime | None = None

    def state(self, now: datetime) -> str:
        """Whether it is valid, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "valid"


class KeyFile:
    """The keys of a server."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> list[Key]:
        """Every key that was ever created, oldest first."""
        try:
            body = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unusable(self.path, error.strerror or "it cannot be read") from None
        try:
            found: list[Key] = reader(list[Key]).decode(body)
            return found
        except msgspec.MsgspecError as error:
            raise _unusable(self.path, f"it does not hold keys: {error}") from None

    def create(
        self,
        actor: str,
        roles: Sequence[str],
        *,
        lakes: Sequence[str] | None = None,
        days: float | None = None,
        policy_roles: Sequence[str] = (),
    ) -> tuple[Key, str]:
        """A new key for an actor, and its text, which is not kept. `policy_roles` are those that policies know."""
        if not actor or len(actor) > MOST_NAME or not actor.isprintable():
            raise InvalidInput(f"{actor[:40]!r} cannot name an actor.", next=f"Use at most {MOST_NAME} characters.")
        wrong = [role for role in roles if role not in ROLES]
        if wrong or not roles:
            raise InvalidInput(
                f"{wrong[0]!r} is not a role." if wrong else "A key needs a role.", next=f"Use {', '.join(ROLES)}."
            )
        unfit = [role for role in policy_roles if not role.isprintable() or not 0 < len(role) <= MOST_NAME]
        if unfit or set(policy_roles) & set(ROLES):
            raise InvalidInput(
                f"{(unfit or sorted(set(policy_roles) & set(ROLES)))[0][:40]!r} cannot be a role of policies.",
                next=f"Use other printable words than {', '.join(ROLES)}.",
            )
        if days is not None and not 0 < days <= 36_500:
            raise InvalidInput(f"A key cannot last {days:g} days.", next="Use a number of days above 0.")
        now = datetime.now(UTC)
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = Key(
            id=id,
            sha256=digest(secret),
            actor=actor,
            roles=[*sorted(set(roles), key=ROLES.index), *sorted(set(policy_roles))],
            created=now,
            lakes=sorted(set(lakes)) if lakes else None,
            expires=None if days is None else now + timedelta(days=days),
        )
        with self._changing() as keys:
            keys.append(key)
        return key, f"{PREFIX}{id}_{secret}"

    def revoke(self, id: str) -> Key:
        """End a key for good. One that was revoked before stays as it is."""
        with self._changing() as keys:
            for place, key in enumerate(keys):
                if key.id == id:
                    if key.revoked is None:
                        keys[place] = msgspec.structs.replace(key, revoked=datetime.now(UTC))
                    return keys[place]
            raise NotFound(f"There is no key {id!r} in {self.path}.", next="List them with quire token list.", key=id)

    @contextmanager
    def _changing(self) -> Iterator[list[Key]]:
        """The keys, to be changed; written at the end of the block if it ends well."""
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
        try:
            with open(self.path.with_name(f".{self.path.name}.lock"), "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                keys = self.read()
                yield keys
                with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(msgspec.json.format(msgspec.json.encode(keys), indent=1) + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(beside, self.path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise _unusable(self.path, error.strerror or "it cannot be written") from None


class Keys:
    """The keys of a file as a server knows them: looked at again when the file changed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = KeyFile(path)
        self._lock = threading.Lock()
        self._known: dict[str, Key] = {}
        self._looked = float("-inf")
        self._seen: tuple[int, int, int] | None = None
        self._look()

    def actor(self, text: str) -> Actor:
        """Whose key this is. What is wrong with one that is refused is not told."""
        found = _SHAPE.fullmatch(text)
        id, secret = (found[1], found[2]) if found is not None else ("", "")
        with self._lock:
            if time.monotonic() >= self._looked + LOOK:
                self._look()
            key = self._known.get(id)
        same = hmac.compare_digest(digest(secret), key.sha256 if key is not None else _NOBODY)
        if key is None or not same or key.state(datetime.now(UTC)) != "valid":
            raise unknown()
        return Actor(key.actor, frozenset(key.roles), None if key.lakes is None else frozenset(key.lakes))

    def _look(self) -> None:
        """Read the file if it is another one. One that cannot be read lets nobody in."""
        self._looked = time.monotonic()
        try:
            stat = self._file.path.stat()
            seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if seen != self._seen:
                self._known = {key.id: key for key in self._file.read()}
                self._seen = seen
        except (OSError, InvalidInput):
            self._known, self._seen = {}, None


def digest(secret: str) -> str:
    """What is kept of a secret of 32 random bytes: nobody finds it by trying, so it needs no salt."""
    return hashlib.sha256(secret.encode()).hexdigest()


def unknown() -> Unauthenticated:
    """The one answer to every token that lets nobody in."""
    return Unauthenticated(
        "The token is not valid.", next="Send a valid one in Authorization: Bearer …, or ask for a new one."
    )


def _unusable(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"The key file {str(path)!r} cannot be used: {why}.", next="Name another file.", file=str(path))
