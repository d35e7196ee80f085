"""Merging rows that do not give every property: those that are there keep the values that are not given.

Rows that give everything replace those that are there. For the others the table keeps, cell by cell, what it has; what
a row brings for a property that it does not give (a default, or null) is for a row that is new. That is decided on the
state that the commit lands on, so nobody's change of another property is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from quire.graph.catalog import Entity
from quire.graph.embed.fill import made
from quire.graph.integrity.lookups import counts, distinct
from quire.graph.load.gather import LACKS, Gathered
from quire.graph.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import View
    from quire.graph.catalog import Entity
    from quire.lake.commit.transaction_table import TransactionTable


NEEDS = "!"
"""Before the ids of a row that lacks what is required: it can only be merged into one that is there."""


class Absent:
    """Tells what rows of a type lack, by the names that they give."""

    def __init__(self, entity: Entity) -> None:
        self._ids = {p.name: p.id for p in entity.defined.properties}
        self._vectors = [(one.vector.name, one.text.name) for one in made(entity)]
        self._known: dict[frozenset[str], frozenset[int]] = {}

    def among(self, names: Iterable[str]) -> frozenset[int]:
        """The ids of the properties that are not among these names. Rows are alike, so most answers are known."""
        given = frozenset(names)
        if given not in self._known:
            there = set(given)
            there.update(vector for vector, text in self._vectors if text in given)
            self._known[given] = frozenset(id for name, id in self._ids.items() if name not in there)
        return self._known[given]


@lru_cache(maxsize=1024)
def lacks_text(ids: frozenset[int], needs: bool) -> str:
    """As it is kept with a row; empty when it lacks nothing."""
    return (NEEDS if needs else "") + ",".join(map(str, sorted(ids)))


def read_lacks(text: str) -> frozenset[int]:
    ids = text.removeprefix(NEEDS)
    return frozenset(map(int, ids.split(","))) if ids else frozenset()


AT_ONCE = 50_000
"""So many rows are merged by one statement: their old values are in memory with them."""


def lacks_of(one: Gathered) -> pa.Array:
    """What each row lacks, by position."""
    return one.table([LACKS]).column(LACKS).combine_chunks()


def whole(lacks: pa.Array) -> Any:
    """A mask of the rows that give every property."""
    import pyarrow.compute as pc

    return pc.equal(lacks, "").to_numpy(zero_copy_only=False)


def homeless(at: Callable[[], View], entity: Entity, ids: pa.ChunkedArray, lacks: pa.Array) -> dict[int, str]:
    """Positions of rows that are new and lack what is required, with what that is. `at` opens the table, if need be."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    needy = np.flatnonzero(pc.starts_with(lacks, NEEDS).to_numpy(zero_copy_only=False))
    if not len(needy):
        return {}
    asked = pa.table({"id": ids.take(pa.array(needy))})
    wanted = distinct(asked, ["id"])
    new = wanted.filter(counts(at(), ["id"], [Type("String")], wanted, enough=1) == 0)
    if not new.num_rows:
        return {}
    mask = pc.is_in(asked.column("id"), value_set=new.column("id").combine_chunks()).to_numpy()
    return {position: missing(entity, lacks[position].as_py()) for position in needy[mask].tolist()}


def missing(entity: Entity, lacks: str) -> str:
    """The required properties that a row lacks, for people."""
    properties = entity.defined.properties
    required = {p.id: p.name for p in properties if not p.type.optional and p.annotation("default") is None}
    return ", ".join(required[id] for id in sorted(read_lacks(lacks) & required.keys()))


def kept(entity: Entity, lacks: pa.Array) -> dict[str, Any]:
    """By column, a mask of the rows that do not give it."""
    import numpy as np

    texts = lacks.dictionary_encode()
    kinds = [read_lacks(text) for text in texts.dictionary.to_pylist()]
    places = texts.indices.to_numpy()
    keep = {}
    for prop in entity.defined.properties:
        absent = np.array([prop.id in kind for kind in kinds], bool)
        if absent.any():
            keep[prop.column] = absent[places]
    return keep


def upsert(table: TransactionTable, one: Gathered, batches: Iterator[pa.RecordBatch], lacks: pa.Array) -> Counter[str]:
    """Merge rows that do not give everything; `lacks` says of each of them what it does not give."""
    counted: Counter[str] = Counter()
    start = 0
    for rows in _in_parts(batches, one.entity.schema()):
        counted.update(table.upsert(rows, keep=kept(one.entity, lacks.slice(start, rows.num_rows))))
        start += rows.num_rows
    return counted


def _in_parts(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    import pyarrow as pa

    some: list[pa.RecordBatch] = []
    for batch in batches:
        some.append(batch)
        if sum(b.num_rows for b in some) >= AT_ONCE:
            yield pa.Table.from_batches(some, schema=schema)
            some = []
    if any(batch.num_rows for batch in some):
        yield pa.Table.from_batches(some, schema=schema)
