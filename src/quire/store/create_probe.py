"""Proof that a store keeps the one promise everything rests on: a second create of a key loses."""

from __future__ import annotations

import contextlib

from quire.errors import QuireError, StorageError, UnsafeStore
from quire.store import clock
from quire.store.conditional_put import Created, Outcome
from quire.store.store import Store

FOLDER = "_quire/probe"


def probe(store: Store) -> None:
    """Create a random key twice with two bodies; return only if the second lost and the first is there.

    Raises `UnsafeStore` for a store that let both win, `PermissionDenied` for one that may not be written, and
    `StorageError` for one that cannot be reached. The key is removed in any case, as far as that is possible.
    """
    key = f"{FOLDER}/{clock.token(16)}"
    first, second = clock.random_bytes(16), clock.random_bytes(16)
    # Tells an unreachable store from an unsafe one before anything is written.
    store.stat(key)
    try:
        _expect(store, _create(store, key, first), Created(Outcome.COMMITTED))
        _expect(store, _create(store, key, second), Created(Outcome.CONFLICT, first))
        if store.get_or_none(key) != first:
            raise _unsafe(store, "the second of two creates replaced the first")
    finally:
        with contextlib.suppress(QuireError):
            store.delete(key)


def _create(store: Store, key: str, body: bytes) -> Created:
    return store.create(key, body, mine=lambda found: found == body)


def _expect(store: Store, actual: Created, expected: Created) -> None:
    if actual.outcome is Outcome.UNKNOWN:
        raise StorageError(
            f"{store.uri} did not confirm whether an object was created.", next="Try again.", uri=store.uri
        )
    if actual != expected:
        raise _unsafe(store, f"a create ended as {actual.outcome.value}, but {expected.outcome.value} was expected")


def _unsafe(store: Store, what: str) -> UnsafeStore:
    return UnsafeStore(
        f"{store.uri} does not honour create-if-absent: {what}.",
        next="Concurrent commits would overwrite each other there. Keep the lake on a store with conditional writes.",
        uri=store.uri,
    )
