"""Reads of a transaction whose files a cleanup has removed: each ends as `Revoked`, also in the middle of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from quire.errors import SnapshotExpired
from quire.formats import Cell, Parted, Parts, Place, Search, View, WholeRows

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

Explain = Callable[[SnapshotExpired], None]
"""Raises what a file that is gone means, or returns when it means no more than that."""


def explained(view: View, explain: Explain) -> View:
    """The same view; what it finds to be gone is explained."""
    return _ExplainedParts(view, explain) if isinstance(view, Parted) else _Explained(view, explain)


class _Explained:
    def __init__(self, view: Any, explain: Explain) -> None:
        self._inner, self._explain = view, explain

    def __getattr__(self, name: str) -> Any:
        """What only some kinds of views can."""
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        return lambda *args, **options: self._told(self._ask(lambda: found(*args, **options)))

    def _told(self, answer: Any) -> Any:
        """The same answer; of a stream what comes later is explained, too."""
        import pyarrow as pa

        if not isinstance(answer, pa.RecordBatchReader):
            return answer

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from answer
            except SnapshotExpired as error:
                self._explain(error)
                raise

        return pa.RecordBatchReader.from_batches(answer.schema, batches())

    def _ask(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except SnapshotExpired as error:
            self._explain(error)
            raise

    @property
    def schema(self) -> pa.Schema:
        return self._ask(lambda: self._inner.schema)

    def count(self, filter: Any = None) -> int:
        return int(self._ask(lambda: self._inner.count(filter)))

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        search: Search | None = None,
        batch_size: int | None = None,
    ) -> pa.RecordBatchReader:
        reader: pa.RecordBatchReader = self._told(
            self._ask(
                lambda: self._inner.scan(
                    columns=columns, filter=filter, limit=limit, offset=offset, search=search, batch_size=batch_size
                )
            )
        )
        return reader

    def dataset(self) -> Any:
        return self._ask(self._inner.dataset)

    def indexes(self) -> list[dict[str, Any]]:
        return list(self._ask(self._inner.indexes))

    def config(self) -> dict[str, str]:
        return dict(self._ask(self._inner.config))

    def has(self, columns: Sequence[str], values: pa.Table) -> pa.Table:
        return self._ask(lambda: self._inner.has(columns, values))

    def cell(self, column: str, on: Sequence[str], key: pa.Table) -> Cell | None:
        found: Cell | None = self._ask(lambda: self._inner.cell(column, on, key))
        return found


class _ExplainedParts(_Explained):
    def place(self) -> Place:
        place: Place = self._ask(self._inner.place)
        return place

    def parts(self) -> Parts:
        return list(self._ask(self._inner.parts))

    def parts_since(self, before: View) -> tuple[Parts, Parts]:
        inner = before._inner if isinstance(before, _Explained) else before
        gone, came = self._ask(lambda: self._inner.parts_since(inner))
        return list(gone), list(came)

    def whole(self, fragments: Sequence[int], *, here: bool) -> WholeRows:
        whole: WholeRows = self._ask(lambda: self._inner.whole(fragments, here=here))
        return whole
