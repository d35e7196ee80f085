"""Reading one table at one pin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from quire.filters import Condition


@dataclass(frozen=True)
class Search:
    """A vector or full-text search, as part of a scan."""

    vector: tuple[str, Any] | None = None
    text: str | None = None
    text_columns: tuple[str, ...] = ()
    metric: str | None = None
    nprobes: int | None = None
    refine: int | None = None
    exact: bool = False
    """Look at every vector, also where there is an index."""


@dataclass(frozen=True)
class TextIndex:
    """What a text index scores by: counts of its own, which deleted and later rows are not taken out of or into."""

    documents: int
    """Texts that it counts, of which some may be gone."""
    fragments: frozenset[int]
    """Those that it covers. Rows of others are found too."""
    options: dict[str, Any]
    """How it makes tokens."""


class Cell(Protocol):
    """Bytes that are stored in one row and read by range."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """These bytes, which must be there."""
        ...


class View(Protocol):
    """One table at one pin, for reading. Never sees anything newer."""

    @property
    def schema(self) -> pa.Schema: ...

    def count(self, filter: Any = None) -> int: ...

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        search: Search | None = None,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader: ...

    def dataset(self) -> Any:
        """An object that DuckDB can scan with filter and column pushdown."""
        ...

    def indexes(self) -> list[dict[str, Any]]: ...

    def config(self) -> dict[str, str]:
        """The format's own settings of the table."""
        ...

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        """The distinct rows of `values` for which the table has a row with equal `columns`."""
        ...

    def cell(self, column: str, on: Sequence[str], key: pa.Table) -> Cell | None:
        """The bytes in `column` of the row whose columns `on` are the one row of `key`.

        None where they are null, `NotFound` where there is no such row. Of a blob nothing is read before it is asked.
        """
        ...


ROW_ID = "_rowid"
"""The column in which rows come with their ids."""


@runtime_checkable
class Indexed(Protocol):
    """A view whose scans and searches go through indexes, and which tells how."""

    def used_indexes(self, columns: Sequence[str], filter: Condition) -> list[str]:
        """Names of the indexes through which a scan of these columns would go for its filter."""
        ...

    def index_details(self, column: str, kind: str) -> list[dict[str, Any]]:
        """How the indexes of a column were built whose kind begins so."""
        ...

    def text_index(self, column: str) -> TextIndex | None:
        """The text index of a column, if there is one and it is in one piece."""
        ...


@runtime_checkable
class Addressed(Protocol):
    """A view whose rows have ids, by which some of them are read again."""

    def addressed(self, columns: Sequence[str], filter: Any = None) -> pa.RecordBatchReader:
        """These columns of the rows that pass the filter, and the id of each as `ROW_ID`."""
        ...

    def take(self, ids: NDArray[np.uint64], columns: Sequence[str]) -> pa.Table:
        """The rows with these ids, in this order."""
        ...
