"""What a table holds as a transaction leaves it, told without staging or reading back what the transaction wrote.

The base is asked through its indexes; what came and what is gone is at hand, and is added to the answer and taken from
it. So a rule costs look-ups in tables that are known already, and a load into an empty table none at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.duckdb_engines import PLAIN, connected
from quire.formats.row_hashes import suspects
from quire.graph.integrity.lookups import CHUNK, FEW, Places, counts, distinct, joining
from quire.graph.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import View


@dataclass(frozen=True)
class Held:
    """The rows of a view, with those that came and without those that are gone: of both, their keys."""

    view: View
    came: pa.Table | None = None
    gone: pa.Table | None = None

    def counts(self, columns: Sequence[str], kinds: Sequence[Type], wanted: pa.Table, enough: int | None = None) -> Any:
        """For every row of `wanted`, how many rows have these values in columns; see `lookups.counts`."""
        import numpy as np

        found = occurrences(self.came, columns, wanted)
        asked = np.arange(wanted.num_rows) if enough is None else np.flatnonzero(found < enough)
        if not len(asked):
            return found
        part = wanted if len(asked) == wanted.num_rows else wanted.take(asked)
        lost = occurrences(self.gone, columns, part)
        limit = None if enough is None else enough + int(lost.max())
        found[asked] += counts(self.view, columns, kinds, part, limit) - lost
        return found

    def repeated(self, columns: Sequence[str], kinds: Sequence[Type], rows: pa.Table) -> pa.Table:
        """Values in columns of `rows` that more than one row has, each once. `rows` are here, and none is null."""
        chosen = rows.select(list(columns))
        if rows.num_rows > CHUNK and not self._others(rows):
            return _twice(chosen, columns)
        wanted = distinct(chosen, columns)
        return wanted.filter(self.counts(columns, kinds, wanted, enough=2) > 1)

    def _others(self, rows: pa.Table) -> bool:
        """Whether there is any row but these."""
        came = 0 if self.came is None else self.came.num_rows
        gone = 0 if self.gone is None else self.gone.num_rows
        return bool(self.view.count() + came - gone != rows.num_rows)


def occurrences(rows: pa.Table | None, columns: Sequence[str], wanted: pa.Table) -> Any:
    """How often each row of `wanted` is among rows: a numpy array."""
    import numpy as np

    if rows is None or not rows.num_rows or not wanted.num_rows:
        return np.zeros(wanted.num_rows, np.int64)
    found = Places(wanted).of([rows.column(name) for name in columns])
    return np.bincount(found[found >= 0], minlength=wanted.num_rows)


def _twice(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Values that several of the rows have."""
    keys = [f"k{i}" for i in range(len(columns))]
    names = ", ".join(keys)
    given = " and ".join(f"{key} is not null" for key in keys)
    with connected(PLAIN) if rows.num_rows <= FEW else joining() as connection:
        connection.register("rows", suspects(rows.drop_null(), columns).rename_columns(keys))
        found: pa.Table = connection.sql(
            f"select {names} from rows where {given} group by {names} having count(*) > 1"
        ).to_arrow_table()
    return found.rename_columns(list(columns)).cast(rows.schema)
