"""Writing gathered rows into a transaction: strict insert, upsert, or in place of all that is there."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quire.graph.integrity.changes import Looks
from quire.graph.load import index, merge
from quire.graph.load.clash import TEXT, Ids, Mode, by_unique, clash, clashing, goes_by, incomplete, merged_ids
from quire.graph.load.gather import FILE, LINE, Gathered, Gathering
from quire.graph.load.receipt import Loaded
from quire.graph.load.rejects import Rejects, as_given

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.transaction import Transaction

__all__ = ["TEXT", "Mode", "Writing", "as_stored"]


@dataclass
class Writing:
    """Writes the types of one load, one after the other."""

    tx: Transaction
    mode: Mode
    gathering: Gathering
    rejects: Rejects

    def write(self, one: Gathered) -> Loaded:
        """Write all rows of a type but those that clash by their ids, which are rejected."""
        table = self.tx[one.entity.table]
        ids = self._merged_ids(one) if self.mode == "merge" else None
        left_out = self._clashing(one, ids)
        if self.mode == "merge" and one.partial:
            return self._merge(one, ids, left_out)
        rows = self._rows(one, ids, left_out)
        if self.mode == "overwrite":
            before = table.count()
            return Loaded(inserted=self._overwrite(one, rows), removed=before)
        if self.mode == "merge":
            counted = table.upsert(rows)
            return Loaded(inserted=counted["inserted"], updated=counted["updated"])
        return Loaded(inserted=table.insert(rows))

    def _merge(self, one: Gathered, ids: Ids | None, left_out: Any) -> Loaded:
        """Rows that give every property replace those that are there; the others are merged into them."""
        import numpy as np

        table, lacks = self.tx[one.entity.table], merge.lacks_of(one)
        known_by = one.table(["id"]).column("id") if ids is None else ids.column
        homeless = merge.homeless(lambda: Looks(self.tx).at(one.entity), one.entity, known_by, lacks)
        for position in set(homeless) & set(left_out.tolist()):
            del homeless[position]
        self._reject_incomplete(one, homeless)
        left_out = np.union1d(left_out, np.array(sorted(homeless), np.int64))
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
        index.rebuild(self.tx, one.entity)
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
        self._reject(one, bad)
        return np.array(sorted(bad), np.int64)

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


def as_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in the types of a table, for whoever writes its files: Lance has a type of its own for blobs."""
    from quire.formats.lance.blobs import stored_batch

    return stored_batch(batch, schema)


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


def _at(one: Gathered, positions: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Whole rows at positions, which are sorted."""
    if not positions:
        return
    left, start = deque(positions), 0
    for batch in one.read(one.schema.names):
        stop = start + batch.num_rows
        while left and left[0] < stop:
            position = left.popleft()
            yield position, batch.slice(position - start, 1).to_pylist()[0]
        start = stop
