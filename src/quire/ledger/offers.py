"""Offers: commits that their writers hand over to whoever publishes a slot next.

An offer is an immutable object at `_quire/offers/<log id>/<until>-<base>-<write id>`. It holds a commit as it would
stand in a record, and what that commit needs to find as it was. It makes nothing visible: only the record that takes it
does. An offer that cannot be read, or says what its name does not, is no offer. Nobody needs one to be there.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from quire.errors import FormatError
from quire.ledger.records import Commit, Count, Keys, Slot, Stored, corrupt, decode, encode, readable
from quire.store import Store

FOLDER = "_quire/offers"

SPAN = 8
"""Slots after its base into which an offer may be taken."""
LARGEST_OFFER = 48 * 1024
"""Bytes of an offer. A commit that takes more is not offered: few would fit into a slot."""
MOST_LISTED = 2_000
"""Names of offers that are looked at for one slot."""

ROW_OPS = frozenset({"append", "insert", "upsert", "update", "delete", "overwrite"})
"""What an offered commit may have done to its tables."""

_NAME = re.compile(r"([0-9]{20})-([0-9]{20})-([0-9A-Za-z_]{1,64})")


class Offer(Stored, frozen=True):
    """A commit, and until when and upon what it may be taken into a record."""

    format: int
    branch: str
    """The log that it is for."""
    base: Slot
    """The slot of the state on which it was staged."""
    previous: str
    """Write id of the record in that slot."""
    until: Slot
    """The last slot that may hold it."""
    epoch: Count
    commit: Commit
    needs: dict[str, str]
    """By id of every table that it writes, checks or rests on: the version of its pin at the base."""
    additions: dict[str, str] = {}
    """By id of a table to which it only adds rows: those rows as the table's format tells them."""
    note: str | None = None
    """The note of its writer."""

    def __post_init__(self) -> None:
        commit = self.commit
        if not self.base < self.until <= self.base + SPAN:
            raise ValueError(f"it may be taken until slot {self.until}, and was staged on slot {self.base}")
        beside = (commit.learnt, commit.adopts, commit.reverts, commit.reaches, commit.joining)
        if commit.parents or any(what is not None for what in beside):
            raise ValueError("such a commit cannot be offered")
        tables = [change.table for change in commit.changes]
        if not tables or len(set(tables)) != len(tables):
            raise ValueError("it changes no table, or one twice")
        for change in commit.changes:
            if change.info is not None or change.pin is None or not change.ops or not ROW_OPS.issuperset(change.ops):
                raise ValueError(f"what it does to table {change.table} cannot be offered")
        if not self.needs.keys() >= set(tables) or not self.additions.keys() <= set(tables):
            raise ValueError("it does not say what it needs")
        if not self.needs.keys() >= {read.table for read in commit.reads}:
            raise ValueError("it does not say what it has read")
        for change in commit.changes:
            if change.table in self.additions and change.ops not in (("append",), ("insert",)):
                raise ValueError(f"it does more to table {change.table} than add rows")
            if not all(map(_listed, change.keys)):
                raise ValueError(f"the keys of table {change.table} are not what they say")

    @property
    def key(self) -> str:
        return offer_key(self.branch, self.until, self.base, self.commit.write)


def _listed(keys: Keys) -> bool:
    """Whether as many hashes are listed as there are keys, or none."""
    if keys.hashes is None:
        return True
    try:
        return len(base64.b64decode(keys.hashes, validate=True)) == 8 * keys.count
    except (binascii.Error, ValueError):
        return False


readable(Offer)


@dataclass(frozen=True)
class Named:
    """What the name of an offer says."""

    key: str
    until: int
    base: int
    write: str


def offer_key(branch: str, until: int, base: int, write: str) -> str:
    return f"{FOLDER}/{branch}/{until:020d}-{base:020d}-{write}"


def encode_offer(offer: Offer) -> bytes | None:
    """The bytes to store; None when it is too large to be offered."""
    body = encode(offer)
    return body if len(body) <= LARGEST_OFFER else None


def named(key: str) -> Named | None:
    """What a key says of its offer; None when it is not that of one."""
    parts = _NAME.fullmatch(key.rpartition("/")[2])
    if parts is None or not int(parts[2]) < int(parts[1]) <= int(parts[2]) + SPAN:
        return None
    return Named(key, int(parts[1]), int(parts[2]), parts[3])


def living(store: Store, branch: str, head: int) -> list[Named]:
    """Offers that may still be taken after slot `head`, those that end first in front. Old ones are not listed."""
    found: dict[str, Named] = {}
    for number, entry in enumerate(store.list(f"{FOLDER}/{branch}", after=f"{FOLDER}/{branch}/{head + 1:020d}")):
        one = named(entry.key)
        if one is not None and one.until > head and entry.size <= LARGEST_OFFER:
            found[entry.key] = one
        if number >= MOST_LISTED:
            break
    return list(found.values())


def read_offer(body: bytes, key: str, *, whole: bool = True) -> Offer:
    """The offer that is stored under a key; `FormatError` when it is not one, or another one.

    Whoever takes it writes it again, so what this reader does not know of would be lost: it must be read as a `whole`.
    """
    found = decode(body, Offer, key)
    if found.key != key or len(body) > LARGEST_OFFER:
        raise corrupt(key, "it is not the offer that its name says")
    if whole and encode(found) != body:
        raise corrupt(key, "it says more than this version of Quire knows of")
    return found


def read_offers(store: Store, keys: list[str]) -> Mapping[str, Offer | None]:
    """The offers under these keys; None for what is not there or cannot be used."""
    found: dict[str, Offer | None] = {}
    for key, body in zip(keys, store.get_many(keys), strict=True):
        try:
            found[key] = read_offer(body, key) if body is not None else None
        except (FormatError, msgspec.MsgspecError):
            found[key] = None
    return found


def every(store: Store) -> Iterator[tuple[str, bytes | None]]:
    """Every object in the folder of offers: for maintenance."""
    keys = [entry.key for entry in store.list(FOLDER)]
    for low in range(0, len(keys), 256):
        chunk = keys[low : low + 256]
        yield from zip(chunk, store.get_many(chunk), strict=True)
