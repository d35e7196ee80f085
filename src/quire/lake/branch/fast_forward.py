"""Fast-forward: a branch takes over, in one commit, what another branch that began on it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from quire.errors import Conflict, ExpectationFailed, NotFastForward, Revoked
from quire.lake.branch.lineage import vector_of
from quire.lake.branch.live import LiveBranch
from quire.lake.commit.table_change import Edit
from quire.lake.names import closed
from quire.lake.receipt import Receipt
from quire.ledger import Learnt, State
from quire.ledger.version_vector import contains, joined, without

if TYPE_CHECKING:
    from quire.lake.lake import Lake


def fast_forward(
    lake: Lake, source: LiveBranch, message: str | None = None, metadata: Mapping[str, str] | None = None
) -> Receipt:
    """Adopt what another branch has. When a cleanup comes between, look again at where that branch is."""
    for _ in range(2):
        try:
            return _fast_forward(lake, source, message, metadata)
        except Revoked:
            source.refresh()
    return _fast_forward(lake, source, message, metadata)


def _fast_forward(lake: Lake, source: LiveBranch, message: str | None, metadata: Mapping[str, str] | None) -> Receipt:
    """One commit that adopts every pin by which `source` is ahead. The commits of `source` stay in its own log."""
    target = lake._live
    here = target.refresh()
    there = source.refresh()  # afterwards: what is its head now stays until a floor comes after `here`
    if there.closed:
        raise closed(source.name)
    last = target.history.commit(here.head)
    known = last.adopts or here.head
    mine, its = vector_of(lake._core, target.line, here), vector_of(lake._core, source.line, there)
    if known == there.head or contains(mine, there.head):
        return Receipt(None, target.name)
    if not contains(its, known) and not contains(its, here.head):
        raise _diverged(target.name, source.name, here)
    said = message or f"fast-forward to {source.name} at {there.head.commit}"
    tx = lake.transaction(said, if_head=here.head.commit, metadata=metadata)
    tx.at = here
    tx.parents = (there.head,)
    tx.adopts = there.head
    tx.reaches = without(joined(mine, its), target.line.branch)
    tx.learnt = learnt(here, there)
    source.history.pages.write(there.fresh)  # before a record names them
    for table in sorted(here.tables.keys() | there.tables.keys()):
        edit = adopt_pin(here, there, table)
        if edit is not None:
            tx.edits[table] = edit
    try:
        receipt = tx.commit()
        return replace(receipt, adopted=f"{source.name}:{there.head.commit}")
    except Revoked:
        raise
    except (ExpectationFailed, Conflict):
        raise _diverged(target.name, source.name, target.state) from None


def learnt(here: State, there: State) -> Learnt:
    """The tokens that were used there and are not known here."""
    return Learnt(
        streams={s: n for s, n in there.streams.items() if n > here.streams.get(s, -1)},
        tokens={t: at for t, at in there.tokens.items() if t not in here.tokens},
        since=there.tokens_since,
        pages=tuple(ref for ref in there.token_pages if ref not in here.token_pages),
        stream_pages=tuple(ref for ref in there.stream_pages if ref not in here.stream_pages),
    )


def adopt_pin(here: State, there: State, table: str) -> Edit | None:
    """The edit that makes `table` here what it is there; None when it is the same."""
    mine, theirs = here.tables.get(table), there.tables.get(table)
    same_place = mine and theirs and mine.pin.location == theirs.pin.location and mine.info == theirs.info
    if mine and theirs and same_place and mine.pin.version == theirs.pin.version:
        return None  # the same state; counters are each branch's own
    if theirs is None:
        assert mine is not None
        return Edit(mine.info, mine, ops=["drop"], dropped=True)
    if mine is None:
        return Edit(theirs.info, None, ops=["restore"], pin=theirs.pin)
    renamed = mine.info.name != theirs.info.name
    return Edit(theirs.info, mine, ops=["restore"], pin=theirs.pin, renamed=renamed)


def _diverged(target: str, source: str, here: State) -> NotFastForward:
    return NotFastForward(
        f"Branch {target!r} has commits that {source!r} does not contain (its head is {here.head.commit}).",
        next="Create a new branch at the head, and apply the work there.",
        target=target,
        source=source,
    )
