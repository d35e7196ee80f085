"""Policies as they are stored: create-only generations, each by an author. The newest one holds."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Annotated

import msgspec

from quire.errors import CommitUnknown, Conflict
from quire.ledger import FORMAT, new_id
from quire.ledger.head_search import last_existing
from quire.ledger.records import GivenText, Moment, Stored, corrupt, decode, encode, in_calendar, readable
from quire.policy.document import BranchTags, Document, TableTags, Tags
from quire.store import Outcome, Store

FOLDER = "_quire/policy"
Number = Annotated[int, msgspec.Meta(ge=0)]


class StoredTable(Stored, frozen=True):
    """Words for a table and its columns."""

    tags: tuple[GivenText, ...] = ()
    columns: dict[str, tuple[GivenText, ...]] = {}


class StoredPolicy(Stored, frozen=True):
    """One generation."""

    format: int
    write: str
    generation: Number
    author: GivenText
    time: Moment
    text: str
    salt: str
    message: GivenText = ""
    tables: dict[str, StoredTable] = {}
    protected: tuple[str, ...] = ()
    """Branches that rules know as protected."""

    def __post_init__(self) -> None:
        in_calendar(self.time)

    @property
    def document(self) -> Document:
        """What somebody wrote."""
        tables = {name: TableTags(one.tags, dict(one.columns)) for name, one in self.tables.items()}
        return Document(self.text, Tags(tables, {name: BranchTags(True) for name in self.protected}))

    @property
    def secret(self) -> bytes:
        """What hashes of masked values are made with."""
        return base64.b64decode(self.salt)


readable(StoredPolicy)


class StoredPolicies:
    """The policies of a lake."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def newest(self, after: int = -1) -> StoredPolicy | None:
        """The newest generation beyond one that is known; None when there is none. One request when nothing came."""
        bodies: dict[int, bytes | None] = {}

        def exists(numbers: list[int]) -> list[bool]:
            fresh = [n for n in numbers if n not in bodies]
            bodies.update(zip(fresh, self._store.get_many([_key(n) for n in fresh]), strict=True))
            return [bodies[n] is not None for n in numbers]

        first = self._store.get_or_none(_key(after + 1))
        if first is None:
            return None
        bodies[after + 1] = first
        found = last_existing(exists, after + 1)  # type: ignore[arg-type]
        body = bodies[found]
        assert body is not None
        return _decoded(body, found)

    def get(self, generation: int) -> StoredPolicy | None:
        """One generation."""
        body = self._store.get_or_none(_key(generation))
        return None if body is None else _decoded(body, generation)

    def every(self) -> Iterator[StoredPolicy]:
        """All of them, oldest first."""
        number = 0
        while (found := self.get(number)) is not None:
            yield found
            number += 1

    def create(self, policy: StoredPolicy) -> StoredPolicy:
        """Create the next generation; `Conflict` when somebody else did so first."""
        key = _key(policy.generation)
        made = self._store.create(
            key, encode(policy), mine=lambda found: _decoded(found, policy.generation).write == policy.write
        )
        if made.outcome is Outcome.UNKNOWN:
            raise CommitUnknown(
                "The store did not confirm that the policy was written.",
                next="Look with `quire policy show`; set it again if it is not the newest.",
                write=policy.write,
            )
        if made.outcome is not Outcome.COMMITTED:
            raise Conflict(
                "Somebody else set a policy at the same moment.",
                next="Look at it, and set yours again.",
                retryable=True,
            )
        return policy


def stored(
    document: Document, generation: int, *, author: str, time: Moment, salt: bytes, message: str
) -> StoredPolicy:
    """A policy as it is stored."""
    return StoredPolicy(
        format=FORMAT,
        write=new_id(),
        generation=generation,
        author=author,
        time=time,
        text=document.text,
        salt=base64.b64encode(salt).decode(),
        message=message,
        tables={name: StoredTable(one.tags, dict(one.columns)) for name, one in document.tags.tables.items()},
        protected=tuple(sorted(n for n, one in document.tags.branches.items() if one.protected)),
    )


def _decoded(body: bytes, generation: int) -> StoredPolicy:
    key = _key(generation)
    found = decode(body, StoredPolicy, key)
    if found.generation != generation:
        raise corrupt(key, f"it says that it is generation {found.generation}")
    return found


def _key(generation: int) -> str:
    return f"{FOLDER}/{generation:010d}"
