"""The rows of a load in this process: gathered in memory, or in files of its own, and written by statements.

Each type is written by a strict insert, an upsert, or in place of all that is there.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from quire.graph.catalog import Catalog, Entity
from quire.graph.embed.fill import Vectors
from quire.graph.integrity.changes import Looks
from quire.graph.integrity.violations import Violation
from quire.graph.load import merge
from quire.graph.load.build_indexes import build, rebuild
from quire.graph.load.gather import FILE, LINE, Gathered, Gathering
from quire.graph.load.readers import Reader
from quire.graph.load.receipt import Loaded
from quire.graph.load.rejects import Culprit, Rejects, as_given
from quire.graph.load.row_identity import TWICE, Ids, Mode, by_unique, clash, clashing, goes_by, incomplete, merged_ids
from quire.graph.load.sources import Part
from quire.lake.commit.validators import Proposal, ProposedTable
from quire.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.commit.table_change import Mark
    from quire.lake.commit.transaction import Transaction


@dataclass(frozen=True)
class Prepared:
    """What is known of the rows of a type before they are written."""

    table: ProposedTable
    mark: Mark
    """Where its table stood."""
    ids: Ids | None
    left_out: Any
    """Positions of rows that are not written, in order."""

    def less(self, positions: Sequence[int]) -> Prepared:
        """The same without some more rows."""
        import numpy as np

        return replace(self, left_out=np.union1d(self.left_out, np.array(sorted(positions), np.int64)))

    def lacks(self, position: int) -> bool:
        at = int(self.left_out.searchsorted(position))
        return at < len(self.left_out) and int(self.left_out[at]) == position


@dataclass
class InMemory:
    """Reads, keeps and writes the rows of one load; the types one after the other."""

    tx: Transaction
    catalog: Catalog
    mode: Mode
    parts: Sequence[Part]
    rejects: Rejects
    vectors: Vectors
    progress: Progress | None = None
    _prepared: dict[str, Prepared] = field(default_factory=dict)
    _blamed: dict[str, dict[str, int]] = field(default_factory=dict)
    """By type, the positions of rows that were found by their ids last."""

    def __post_init__(self) -> None:
        self.gathering = Gathering(lacks=self.mode == "merge")

    @property
    def entities(self) -> list[Entity]:
        return [one.entity for one in self.gathering.types.values()]

    @property
    def unembedded(self) -> Mapping[str, int]:
        return self.vectors.missing

    def close(self) -> None:
        self.gathering.close()

    def read(self) -> None:
        reader = Reader(self.catalog, self.gathering, self.rejects, self.progress, self.vectors)
        for part in self.parts:
            reader.read(part)

    def write(self, entity: Entity) -> Loaded:
        """Write all rows of a type but those that clash by their ids, which are rejected, and those left out since."""
        one = self.gathering.types[entity.id]
        if entity.id not in self._prepared:
            self._prepared[entity.id] = self._prepare(one)
        prepared = self._prepared[entity.id]
        table, ids, left_out = self.tx[entity.table], prepared.ids, prepared.left_out
        if self.mode == "merge" and one.partial:
            return self._merge(one, prepared)
        rows = self._rows(one, ids, left_out)
        if self.mode == "overwrite":
            before = table.count()
            return Loaded(inserted=self._overwrite(one, rows), removed=before)
        if self.mode == "merge":
            counted = table.upsert(rows)
            return Loaded(inserted=counted["inserted"], updated=counted["updated"])
        return Loaded(inserted=table.insert(rows))

    def write_without(self, entity: Entity, ids: Collection[str]) -> tuple[int, Loaded]:
        """Merge the rows of a type once more as if some had never come."""
        prepared = self._prepared[entity.id]
        prepared.table.take_back(prepared.mark)
        self._prepared[entity.id] = prepared.less([self._blamed[entity.id][id] for id in ids])
        return len(ids), self.write(entity)

    def culprits(self, entity: Entity, wanted: Mapping[str, Violation], name: str) -> dict[str, Culprit]:
        """The rows of a type that are written under some ids."""
        one, prepared, positions = self.gathering.types[entity.id], self._prepared[entity.id], {}
        for position, id in _named(one, prepared.ids, wanted):
            if id not in positions and not prepared.lacks(position):
                positions[id] = position
        self._blamed[entity.id] = positions
        by_position = {position: id for id, position in positions.items()}
        names = one.schema.names if self.rejects.writes else [FILE, LINE]
        found = {}
        for position, row in _at(one, sorted(by_position), names):
            id, file = by_position[position], self.gathering.files[row[FILE]]
            original = as_given(entity, row, id=not one.generated) if self.rejects.writes else None
            found[id] = Culprit(replace(wanted[id], file=file, line=row[LINE]), original)
        return found

    def finish(self, entity: Entity) -> None:
        """Build the indexes that wait for rows. An overwrite has made all of them again already."""
        if self.mode != "overwrite":
            build(self.tx, entity, self.gathering.types[entity.id].rows)

    def _prepare(self, one: Gathered) -> Prepared:
        """Find out which rows are there already, and reject those that cannot be written."""
        import numpy as np

        table = Proposal(self.tx).table(one.entity.id)
        ids = self._merged_ids(one) if self.mode == "merge" else None
        left_out = self._clashing(one, ids)
        if self.mode == "merge" and one.partial:
            known_by = one.table(["id"]).column("id") if ids is None else ids.column
            homeless = merge.homeless(lambda: Looks(self.tx).at(one.entity), one.entity, known_by, merge.lacks_of(one))
            for position in set(homeless) & set(left_out.tolist()):
                del homeless[position]
            self._reject_incomplete(one, homeless)
            left_out = np.union1d(left_out, np.array(sorted(homeless), np.int64))
        return Prepared(table, table.mark(), ids, left_out)

    def _merge(self, one: Gathered, prepared: Prepared) -> Loaded:
        """Rows that give every property replace those that are there; the others are merged into them."""
        import numpy as np

        table, lacks, ids, left_out = self.tx[one.entity.table], merge.lacks_of(one), prepared.ids, prepared.left_out
        whole = merge.whole(lacks)
        counted: Counter[str] = Counter()
        if whole.any():
            counted.update(table.upsert(self._rows(one, ids, np.union1d(left_out, np.flatnonzero(~whole)))))
        partial = np.setdiff1d(np.flatnonzero(~whole), left_out)
        others = np.setdiff1d(np.arange(len(whole)), partial)
        counted += merge.upsert(table, one, _chosen(one, ids, others), lacks.take(partial))
        return Loaded(inserted=counted["inserted"], updated=counted["updated"])

    def _overwrite(self, one: Gathered, rows: Any) -> int:
        """An overwrite drops the indexes of the rows that go; they are made again over those that come."""
        count = self.tx[one.entity.table].overwrite(rows)
        rebuild(self.tx, one.entity)
        return count

    # -- identity ---------------------------------------------------------------------------------------------

    def _merged_ids(self, one: Gathered) -> Ids | None:
        """Under merge an edge with a unique rule is the one that is there already: the ids of all rows, then."""
        columns = goes_by(one.entity, lacking=one.lacking)
        if not columns:
            return None
        return merged_ids(Looks(self.tx).at(one.entity), one.entity, columns, one.table(["id", *columns]))

    # -- clashes ----------------------------------------------------------------------------------------------

    def _clashing(self, one: Gathered, new: Ids | None) -> Any:
        """Positions of rows whose id is there already, or was given by an earlier row; each is rejected."""
        import numpy as np

        if one.generated and not one.entity.defined.key and new is None:
            return np.empty(0, np.int64)
        ids = one.table(["id"]).column("id") if new is None else new.column
        known = None if new is None else new.known
        unique = by_unique(one.entity, self.mode, lacking=one.lacking)
        bad = clashing(lambda: Looks(self.tx).at(one.entity), self.mode, ids, known, unique=unique)
        left_out = sorted(bad)
        if self.mode == "merge" and one.entity.kind == "edge":
            self._compare(one, ids, bad)
        self._reject(one, bad)
        return np.array(left_out, np.int64)

    def _compare(self, one: Gathered, ids: pa.ChunkedArray, bad: dict[int, str]) -> None:
        """An edge that came before with the same content is one row with it; others tell where both are."""
        import pyarrow as pa

        later = [position for position, said in bad.items() if said == TWICE]
        if not later:
            return
        id_of = dict(zip(later, ids.take(pa.array(later)).to_pylist(), strict=True))
        first: dict[str, int] = {}
        for position, id in _named(one, Ids(ids, None), dict.fromkeys(id_of.values())):
            first.setdefault(id, position)
        rows = dict(_at(one, sorted({*later, *first.values()})))
        for position in later:
            row, other = rows[position], rows[first[id_of[position]]]
            if _content(row) == _content(other):
                del bad[position]
            else:
                file = self.gathering.files[other[FILE]]
                place = f"line {other[LINE]}" if other[FILE] == row[FILE] or file is None else f"{file}:{other[LINE]}"
                bad[position] = f"{TWICE}, with other content: here and in {place}"

    def _reject(self, one: Gathered, bad: dict[int, str]) -> None:
        for position, row in _at(one, sorted(bad)):
            file, line = self.gathering.files[row[FILE]], row[LINE]
            self.rejects.leave_out(one.entity.name, 1)
            violation = replace(clash(one.entity, row["id"], bad[position]), file=file, line=line)
            self.rejects.add(violation, as_given(one.entity, row, id=not one.generated))

    def _reject_incomplete(self, one: Gathered, missing: dict[int, str]) -> None:
        for position, row in _at(one, sorted(missing)):
            file, line = self.gathering.files[row[FILE]], row[LINE]
            self.rejects.leave_out(one.entity.name, 1)
            violation = replace(incomplete(one.entity, row["id"], missing[position]), file=file, line=line)
            self.rejects.add(violation, as_given(one.entity, row, id=not one.generated))

    # -- rows -------------------------------------------------------------------------------------------------

    def _rows(self, one: Gathered, ids: Ids | None, left_out: Any) -> Any:
        """All rows but some: a table when they are in memory, so that several types are written side by side."""
        import pyarrow as pa

        schema, batches = one.entity.schema(), _chosen(one, ids, left_out)
        if one.path is None:
            return pa.Table.from_batches(batches, schema=schema)
        return pa.RecordBatchReader.from_batches(schema, batches)


def _chosen(one: Gathered, ids: Ids | None, left_out: Any) -> Iterator[pa.RecordBatch]:
    import numpy as np
    import pyarrow as pa

    schema = one.entity.schema()
    start = 0
    for batch in one.read(schema.names):
        stop = start + batch.num_rows
        if ids is not None:
            mine = ids.column.slice(start, batch.num_rows).combine_chunks()
            batch = batch.set_column(0, schema.field("id"), mine)
        low, high = np.searchsorted(left_out, [start, stop])
        some = left_out[low:high] - start
        if len(some):
            keep = np.ones(batch.num_rows, bool)
            keep[some] = False
            batch = batch.filter(keep)
        start = stop
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _content(row: dict[str, Any]) -> str:
    """What a row says, whatever it is called and wherever it comes from. Not a number is equal to itself here."""
    return repr([(name, value) for name, value in row.items() if name not in ("id", FILE, LINE)])


def _named(one: Gathered, ids: Ids | None, wanted: Collection[str]) -> Iterator[tuple[int, str]]:
    """Positions of the rows that are written under some ids, in order."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    asked, start = pa.array(sorted(wanted), pa.string()), 0
    chunks = (batch.column(0) for batch in one.read(["id"])) if ids is None else ids.column.chunks
    for chunk in chunks:
        inside = np.flatnonzero(pc.is_in(chunk, value_set=asked).to_numpy(zero_copy_only=False))
        yield from zip((start + inside).tolist(), chunk.take(pa.array(inside)).to_pylist(), strict=True)
        start += len(chunk)


def _at(
    one: Gathered, positions: Sequence[int], names: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows at positions, which are sorted; whole ones, if no columns are named."""
    if not positions:
        return
    left, start = deque(positions), 0
    for batch in one.read(one.schema.names if names is None else names):
        stop = start + batch.num_rows
        while left and left[0] < stop:
            position = left.popleft()
            yield position, batch.slice(position - start, 1).to_pylist()[0]
        start = stop
