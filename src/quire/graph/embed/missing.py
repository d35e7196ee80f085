"""Making the vectors that stored texts lack, in commits of bounded size.

Each commit is complete by itself: whoever ends the work keeps what was committed, and the next call goes on with the
rest. Which vectors lack is what the tables say, so there is no other state to lose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput, QuireError, Unsupported
from quire.filters import Condition, In, IsNull, Not, every
from quire.graph.catalog import Catalog, Entity
from quire.graph.embed.embedder import Embedder
from quire.graph.embed.fill import Made, Vectors, check, made
from quire.graph.integrity.changes import catalog_of
from quire.lake.handles import need_rows
from quire.progress import Progress, silent
from quire.prompt import OneLine, counts

if TYPE_CHECKING:
    from quire.lake import Lake, Snapshot
    from quire.lake.commit.transaction import Transaction
    from quire.lake.receipt import Receipt

ROWS_PER_COMMIT = 10_000
MOST_PER_COMMIT = 20_000
"""So many ids go into one filter."""


@dataclass(frozen=True, repr=False)
class Embedded(OneLine):
    """How many vectors were made, by property (`Page.vector`), and the receipts of the commits, in their order."""

    rows: dict[str, int] = field(default_factory=dict)
    receipts: tuple[Receipt, ...] = ()

    def _facts(self) -> str:
        commits = f"{len(self.receipts)} commit{'s' if len(self.receipts) != 1 else ''}"
        return f"{commits}; {counts(self.rows)}" if self.rows else commits

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"rows": dict(self.rows), "commits": [receipt.commit for receipt in self.receipts]}


def properties_of(catalog: Catalog, types: Sequence[str] | None) -> list[Made]:
    """The properties that can lack a vector, of the types named or of all; a required one never lacks it."""
    known = {e.name: e for e in catalog.entities}
    # The catalog says of a name that is not known which one is near.
    entities = catalog.entities if types is None else [known.get(n) or catalog.node(n) for n in dict.fromkeys(types)]
    for entity in entities if types is not None else ():
        if not made(entity):
            raise InvalidInput(
                f"{entity.name} has no property with @embed, so nothing is made from its texts.",
                next='Add one to the schema: vector: Vector(384)? @embed("text").',
                type=entity.name,
            )
    return [one for entity in entities for one in made(entity) if one.vector.type.optional]


@dataclass
class Missing:
    """Makes the vectors that lack, property by property."""

    lake: Lake
    embedder: Embedder | None
    rows_per_commit: int = ROWS_PER_COMMIT
    progress: Progress = silent
    message: str | None = None
    metadata: Mapping[str, str] | None = None
    _done: Counter[str] = field(default_factory=Counter)
    _receipts: list[Receipt] = field(default_factory=list)

    def fill(self, snapshot: Snapshot, properties: Sequence[Made]) -> Embedded:
        """Go through the rows that lack a vector at a snapshot. A wrong model is told before any commit."""
        for one in properties:
            if self.embedder is None:
                raise Unsupported(
                    f"{one.name} is made from {one.text.name}, and no embedder is configured.",
                    next="Configure one: --embedder or QUIRE_EMBEDDER, Graph(lake, embedder=…).",
                    property=one.name,
                )
            check(one.name, one.vector, self.embedder)
        try:
            for one in properties:
                self._fill(snapshot, one)
        except QuireError as error:
            if self._receipts:
                said = f"{self._done.total():,} vectors are committed already; run it again for the rest."
                error.next = f"{said} {error.next or ''}".rstrip()
            raise
        return Embedded({name: rows for name, rows in self._done.items() if rows}, tuple(self._receipts))

    def _fill(self, snapshot: Snapshot, one: Made) -> None:
        found = snapshot[one.entity.table].scan(columns=["id"], filter=_lacking(one)).to_arrow().column("id")
        for start in range(0, len(found), self.rows_per_commit):
            self._commit(one, found.slice(start, self.rows_per_commit).to_pylist(), start, len(found))

    def _commit(self, one: Made, ids: Sequence[str], start: int, total: int) -> None:
        """The vectors of some rows, in one commit. If others come first, no text is embedded twice."""
        begun: list[Transaction] = []

        def tell(what: str, done: int, _: int | None) -> None:
            self.progress(what, min(start + done, total), total)

        vectors = Vectors(self.embedder, tell, remember=True)

        def run(tx: Transaction) -> int:
            begun.append(tx)
            return _write(tx, one, ids, vectors)

        message = self.message if self.message is not None else f"embed {one.name}"
        rows = self.lake.transact(run, message, fresh=True, metadata=self.metadata)
        if rows:
            self._done[one.name] += rows
            self._receipts.append(begun[-1].receipt)


def _write(tx: Transaction, one: Made, ids: Sequence[str], vectors: Vectors) -> int:
    """Write vectors to those rows that still lack one. Their texts were read, so nobody else may have changed them."""
    import pyarrow as pa

    now = _now(catalog_of(tx), one)
    if now is None:
        return 0
    entity, text, vector = now.entity, now.text.column, now.vector.column
    need_rows(tx, entity.id, [*entity.system, text, vector], entity.table)
    table = tx[entity.table]
    rows = table.scan(columns=["id", text], filter=every([In("id", tuple(ids)), _lacking(now)])).to_arrow()
    if not rows.num_rows:
        return 0
    found = vectors.of(now, rows.column(text).to_pylist())
    schema = pa.schema([entity.schema().field("id"), entity.schema().field(vector)])
    written = pa.table([rows.column("id"), found], schema=schema)
    return table.upsert(written)["updated"]


def _now(catalog: Catalog, one: Made) -> Made | None:
    """The property as the schema has it now; None if it is gone."""
    return next((found for found in _all(catalog.entities, one.entity) if found.vector.id == one.vector.id), None)


def _all(entities: Sequence[Entity], wanted: Entity) -> Iterator[Made]:
    for entity in entities:
        if entity.id == wanted.id:
            yield from made(entity)


def _lacking(one: Made) -> Condition:
    """Rows with a text and without its vector."""
    return every([IsNull(one.vector.column), Not(IsNull(one.text.column))])
