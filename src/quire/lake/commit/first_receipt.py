"""What a token did the first time, as the log has it."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from quire.errors import SnapshotExpired, StorageError
from quire.lake.receipt import Receipt, TableReceipt
from quire.ledger import Point

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction
    from quire.ledger import Commit

SEARCHED = 200
"""The log says which commit used an opaque token. The commit of a stream's position is looked for among so many."""


def first_receipt(tx: Transaction, done: Point | bool) -> Receipt:
    """The receipt of the commit that used the token of a transaction first: `done` says where, if that is known.

    It has the commit, its time and tables, and the rows that a load left out. Of a commit that was cleaned up, and of
    a stream's position that lies far back, nothing but `repeated` is known, or the id alone.
    """
    point: Point | None = done if isinstance(done, Point) else None
    commit: Commit | None = None
    with suppress(StorageError, SnapshotExpired):  # the work is done, whatever can be told of it
        if point is not None:
            commit = tx.live.history.commit(point)
        else:
            point, commit = _of_stream(tx)
    return Receipt(
        point.commit if point is not None else None,
        tx.live.name,
        time=commit.time if commit is not None else None,
        tables=TableReceipt.all_of(commit) if commit is not None else {},
        left_out=dict(commit.left_out) if commit is not None else {},
        repeated=True,
        cost=tx.meter.to_dict(),
    )


def _of_stream(tx: Transaction) -> tuple[Point, Commit] | tuple[None, None]:
    """The newest commit of a stream, if it is the one that is asked for and is not far back."""
    stream = tx.stream
    if stream is None:  # an opaque token of another branch
        return None, None
    for point, commit in islice(tx.live.history.commits(tx.live.state), SEARCHED):
        if commit.stream is not None and commit.stream.scope == stream.scope:
            if commit.stream.sequence == stream.sequence:
                return point, commit
            if commit.stream.sequence < stream.sequence:
                break  # it was passed over
    return None, None
