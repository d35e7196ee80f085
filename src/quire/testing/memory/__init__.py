"""A second, small and complete table format, for tests: rows in JSON objects, every byte through `quire.store`.

It does what Lance tables do (the conformance suite in `quire.testing.formats` runs on both) without Lance, without
threads, clocks or randomness of its own, so a simulated store can fail, delay or lose any of its requests and replay
them from a seed.

    from quire.testing import memory

    memory.install()
    lake = quire.create("memory://lake")
    with lake.transaction("first") as tx:
        tx.create_table("t", [{"id": 1, "v": 10}], key="id", format="memory")
    lake.snapshot()["t"].to_arrow()

Columns hold numbers, text, booleans and lists of them. Indexes are names only. `PlainTable` is a client that knows
nothing of Quire, for tests of foreign writes.
"""

from __future__ import annotations

from functools import partial

from quire.formats import register
from quire.testing.memory.format import MemoryFormat
from quire.testing.memory.head import PlainTable
from quire.testing.memory.tasks import MemoryTaskTable

__all__ = ["MemoryFormat", "PlainTable", "install"]


def install(*, cached: int = 0) -> None:
    """From now on, in this process, lakes know tables of format "memory"."""
    register(MemoryFormat.name, partial(MemoryFormat, cached=cached), MemoryTaskTable)
