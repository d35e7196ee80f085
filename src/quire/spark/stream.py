"""Streams: several tables per micro-batch, one commit per batch, each batch exactly once.

Spark may run a batch again after a crash, or after its own record of finished batches was lost. The commit carries the
stream's name and the batch's number; the ledger remembers the last number of every stream, for ever, so a batch that is
there already is not written again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import quire
from quire.arguments import checked
from quire.errors import InvalidInput, Unsupported
from quire.lake import Lake
from quire.lake.handles import epoch_of, hold_epoch, store_of
from quire.ledger import StreamToken
from quire.prompt import Escaped
from quire.spark.write import SparkTransaction
from quire.store.forwarded_credentials import carried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WriteBatch = Callable[[SparkTransaction, "DataFrame"], None]


@checked
def sink(lake: Lake, write: WriteBatch, *, stream: str, message: str | None = None, retries: int = 10) -> Sink:
    """A function for `foreachBatch`: it calls `write(tx, batch)` and commits, once for every batch.

    `events.writeStream.foreachBatch(quire.spark.sink(lake, write, stream="events")).start()` starts one. `write` gets a
    `SparkTransaction` and the frame of the batch, and may change any number of tables.

    `stream` names the stream in the ledger. Batches are numbered by Spark's checkpoint: whoever starts with a new
    checkpoint and means to write everything again takes a new name, or all numbers that were used are skipped.
    `write` runs again on a newer state when a rival was first, up to `retries` times; the batch is kept meanwhile.
    """
    if not isinstance(stream, str) or not stream:
        raise InvalidInput("A sink needs the name of its stream.", next='Say stream="events".')
    return Sink(lake, write, stream, message if message is not None else f"stream {stream}", retries)


class Sink(Escaped):
    """What `foreachBatch` calls. Over Spark Connect it is sent to the server, and opens the lake there."""

    def __init__(self, lake: Lake, write: WriteBatch, stream: str, message: str, retries: int) -> None:
        self.lake, self.write, self.stream = lake, write, stream
        self.message, self.retries = message, retries

    def __call__(self, rows: DataFrame, number: int) -> None:
        spark, token = rows.sparkSession, StreamToken(scope=self.stream, sequence=number)
        self.lake.refresh()  # a batch that another process committed is then not even read
        rows.persist()
        try:
            self.lake.transact(
                lambda tx: self.write(SparkTransaction(spark, tx), rows),
                self.message,
                token=token,
                retries=self.retries,
            )
        finally:
            rows.unpersist()

    def __reduce__(self) -> tuple[Any, ...]:
        store = store_of(self.lake)
        if store.scheme == "memory":
            raise Unsupported(
                f"The lake {store.uri} is in memory, so other processes cannot write to it.",
                next="Use a directory or a bucket.",
                uri=store.uri,
            )
        options = carried(store.scheme, store.options)
        held = epoch_of(self.lake)  # what is opened there is as old as this handle: a claim in between ends it
        where = (store.uri, options, self.lake.branch_name, held)
        return _opened, (*where, self.write, self.stream, self.message, self.retries)

    def __repr__(self) -> str:
        return f"<Sink of stream {self.stream!r} into {self.lake.uri}>"


def _opened(
    uri: str,
    options: dict[str, str],
    branch: str,
    held: int,
    write: WriteBatch,
    stream: str,
    message: str,
    retries: int,
) -> Sink:
    lake = quire.open(uri, branch=branch, storage_options=options)
    hold_epoch(lake, held)
    return Sink(lake, write, stream, message, retries)
