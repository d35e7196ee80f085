"""Checkpoints: a state of a log, stored so that it is reached without the records before it."""

from __future__ import annotations

import msgspec

from quire.errors import StorageError
from quire.ledger import repairs
from quire.ledger.records import Point, corrupt, encode
from quire.ledger.state import State
from quire.ledger.token_pages import TokenPages
from quire.store import Outcome, Store

CHECKPOINT_EVERY = 32


class Checkpoints:
    """The checkpoints of a lake, and the pages of tokens that they name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.pages = TokenPages(store)

    def write(self, state: State) -> Point:
        """Store a state. Its bytes follow from its slot alone, so it does not matter who writes it or how often."""
        at = Point(branch=state.branch, slot=state.slot)
        self.pages.write(state.fresh)
        body = encode(msgspec.structs.replace(state, checkpoint=None, fresh={}))
        created = self._store.create(checkpoint_key(at), body, mine=lambda found: found == body)
        if created.outcome is Outcome.UNKNOWN:
            raise StorageError(
                f"The store did not confirm that {checkpoint_key(at)} was written.",
                next="Nothing depends on it; the next commit tries again.",
                object=checkpoint_key(at),
            )
        return at

    def read(self, at: Point | None) -> State | None:
        """The state that is stored for a slot; None when there is none."""
        if at is None:
            return None
        key = checkpoint_key(at)
        state = repairs.fetch(self._store, key, State)
        if state is None:
            return None
        state.checked(key)
        if state.slot != at.slot or state.branch != at.branch:
            raise corrupt(key, f"it says that it is the state at slot {state.slot} of log {state.branch}")
        return msgspec.structs.replace(state, checkpoint=at)


def checkpoint_key(at: Point) -> str:
    return f"_quire/log/{at.branch}/checkpoint-{at.slot:020d}"
