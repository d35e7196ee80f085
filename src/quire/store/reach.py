"""How far beyond its own root the records of a lake may lead a process.

A record is data: whoever can write one can name any place in it. So a location in a record is an address only after it
was looked at here. Below the root it must be a plain relative path. Elsewhere it is read only from the store that the
lake itself lies in, so that no credential goes where its owner did not send it, and it is written only where whoever
opened the lake has said so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Literal

from quire.errors import CorruptRecord, InvalidInput, InvalidUri, OutsideLake, Refused
from quire.store.address import Address, check_key, parse

External = Literal["allow"] | Sequence[str | os.PathLike[str]] | None
"""Places outside a lake that its records may lead to: named ones with all below them, or "allow" for every one."""

LONGEST = 4096
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
_WRITTEN = ("_versions", "_transactions", "data", "_deletions", "_indices", "_keys")
"""Folders of a table that a write goes to."""


def is_outside(location: str) -> bool:
    """Whether a location in a record is an address of its own, not a path below the lake."""
    return "://" in location or location.startswith("/") or os.path.isabs(location)


class Reach:
    """What the records of one lake may lead to. Places can be added, never taken away."""

    def __init__(self, root: Address, external: External = None) -> None:
        self._root = root
        # What is in memory was written by this very process.
        self._every = external == "allow" or root.scheme == "memory"
        self._named: list[str] = []
        self._known: dict[str, str] = {}
        if isinstance(external, str) and external != "allow":
            raise InvalidInput(
                f"external={external!r} is not valid.", next='Give a list of locations, or "allow" for any location.'
            )
        for place in () if external is None or isinstance(external, str) else external:
            self.allow(place)

    @property
    def external(self) -> External:
        """What was allowed, so that another process can be given the same."""
        return "allow" if self._every and self._root.scheme != "memory" else tuple(self._named)

    def allow(self, place: str | os.PathLike[str]) -> None:
        """Let records lead to a place outside the lake, and to everything below it."""
        self._named.append(parse(place).uri)

    def allows(self, location: str) -> bool:
        """Whether a location may be written: it lies below the lake, or was named by whoever opened it."""
        if not is_outside(location):
            return True
        try:
            uri = self._outside(location).uri
        except CorruptRecord:
            return False
        return self._every or any(uri == place or uri.startswith(place.rstrip("/") + "/") for place in self._named)

    def address(self, location: str) -> str:
        """Where a location is read."""
        found = self._known.get(location)
        if found is None:
            found = self._known[location] = self._address(location)
        return found

    def writable(self, location: str) -> None:
        """Raise unless a location may be written. What can be redirected by a symbolic link may not."""
        self.address(location)
        if not self.allows(location):
            raise self._refused(location, "was not written")
        if self._root.scheme == "file" and not is_outside(location):
            link = first_link_of(self._root.path, location.split("/"), _WRITTEN)
            if link is not None:
                raise Refused(
                    f"{link} in the lake at {self._root.uri} is a symbolic link. Quire does not write through links.",
                    next="Replace the link with the folder itself, or register the table at its real location.",
                    uri=self._root.uri,
                    key=link,
                )

    def _address(self, location: str) -> str:
        if is_outside(location):
            address = self._outside(location)
            same = (address.scheme, address.container) == (self._root.scheme, self._root.container)
            if not same and not self.allows(location):
                raise self._refused(location, "was not read")
            return address.uri
        try:
            check_key(location)
        except InvalidInput:
            raise _no_location(location) from None
        if len(location) > LONGEST or location.split("/")[0] == "_quire":
            raise _no_location(location)
        return (
            os.path.join(self._root.path, *location.split("/"))
            if self._root.scheme == "file"
            else (f"{self._root.uri}/{location}")
        )

    def _outside(self, location: str) -> Address:
        """An address in the one form in which a registration writes it."""
        if len(location) > LONGEST or _CONTROL.search(location.replace("\\", "" if os.name == "nt" else "\\")):
            raise _no_location(location)
        if "://" not in location:
            if os.path.normpath(location) != location or location.startswith("//"):
                raise _no_location(location)
            return Address("file", "", location)
        try:
            address = parse(location)
        except InvalidUri:
            raise _no_location(location) from None
        if address.uri != location:
            raise _no_location(location)
        return address

    def _refused(self, location: str, what: str) -> OutsideLake:
        return OutsideLake(
            f"A table of the lake at {self._root.uri} is outside the lake, at {location}, and {what}.",
            next=f'If you trust this lake, open it with external=["{location}"] (`--external {location}`).',
            uri=self._root.uri,
            location=location,
        )


def first_link(root: str, parts: Sequence[str]) -> str | None:
    """The first name on a path below a root that is a symbolic link."""
    for depth in range(1, len(parts) + 1):
        if os.path.islink(os.path.join(root, *parts[:depth])):
            return "/".join(parts[:depth])
    return None


def first_link_of(root: str, parts: Sequence[str], names: Sequence[str]) -> str | None:
    """The same for a folder, and for some names in it."""
    link = first_link(root, parts)
    base = os.path.join(root, *parts)
    found = (name for name in names if link is None and os.path.islink(os.path.join(base, name)))
    return link or next(("/".join([*parts, name]) for name in found), None)


def _no_location(location: str) -> CorruptRecord:
    shown = location if len(location) <= 200 else f"{location[:200]}…"
    return CorruptRecord(
        f"A record gives a table the location {shown!r}, which is not valid.",
        next="Restore that record from a backup; `quire verify` names it.",
        location=shown,
    )
