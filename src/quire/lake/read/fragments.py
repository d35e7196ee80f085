"""Reading a table fragment by fragment, so that what was computed of one is kept for as long as it does not change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from quire.errors import Unsupported
from quire.formats import task_table

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


def fragment_reader(view: Any, columns: Sequence[str]) -> Callable[[int], Iterable[pa.RecordBatch]]:
    """Reads a fragment of a view in parts, with at least these columns."""
    try:
        table = task_table(view.place())
    except Unsupported:  # a lake in memory, of which only whole rows are read in parts
        return lambda number: view.whole([number], here=True).batches()
    return lambda number: table.read_rows([number], list(columns))


def brought_to(
    view: Any, before: Any, kept: Mapping[int, T], read: Callable[[Sequence[int]], dict[int, T]]
) -> dict[int, T]:
    """What was kept of the fragments of a view, brought to another state of its table: only what is new is read.

    `before` is the view that it was kept of, None where nothing was.
    """
    numbers = [n for n, _ in view.parts()]
    if before is None or type(before) is not type(view):
        return read(numbers)
    gone, new = view.parts_since(before)
    left = {n: one for n, one in kept.items() if n not in {number for number, _ in gone}}
    left |= read([n for n, _ in new])
    return left if left.keys() == set(numbers) else read(sorted(numbers))  # states that do not follow each other
