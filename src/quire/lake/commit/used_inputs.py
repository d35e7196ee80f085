"""Inputs that can be read once: the same one given again would add nothing, and nobody would notice.

A program that runs again (`transact`) may hold an iterator that its first run has read to the end. Every transaction of
such a program therefore shares a list of what was read, and whoever gives one of those again is told so. An iterator
that is read by another one (a generator expression, `map`, `itertools.chain`) counts as read with it. What reads from
it in other ways is told by its rows: a statement that has fewer than in an earlier run, from something both runs hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from quire.errors import InvalidInput
from quire.lake.commit.input_sources import held, is_finished, is_opaque, is_stream, pipes, reads_once, was_read

_ADVICE = "Create it inside the function that transact runs, or pass a list or a table."


@dataclass
class _Used:
    """Something that is read once, and was read."""

    one: Any
    again: int
    """The run from which on it may not be read again."""


class UsedInputs:
    """What the runs of one program have read so far, and cannot read again."""

    def __init__(self) -> None:
        self._run = 0
        self._used: list[_Used] = []
        self._gave: list[Any] = []
        """Objects of which only a second look shows whether they can be read again, and that have given rows."""
        self._rows: dict[tuple[Any, ...], int] = {}
        """Rows that a statement had at most, by table, kind of input, and its place among those of the run."""
        self._places: dict[tuple[Any, ...], int] = {}
        self._held: list[Any] = []
        """What the inputs of all runs so far held."""
        self._holds: list[Any] = []
        """What the input holds that is being read."""

    def begin(self) -> None:
        """The program is run, maybe for the second time."""
        self._run += 1
        self._places.clear()

    def take(self, data: Any, table: str) -> Any:
        """An input that is about to be read. `InvalidInput` when it was read before."""
        once = [(one, whole) for one, whole in pipes(data) if reads_once(one)]
        for one, _ in once:
            if is_finished(one) or any(one is used.one and self._run >= used.again for used in self._used):
                raise InvalidInput(
                    f"The rows for table {table!r} come from a {type(one).__name__} that was read before and is now "
                    "empty.",
                    next=_ADVICE,
                    table=table,
                )
        # Others may go on where a part was read, until the program runs again.
        self._used += [_Used(one, self._run if whole else self._run + 1) for one, whole in once]
        for one, _ in once:
            if is_stream(one):
                was_read(one)
        self._holds = [] if hasattr(data, "__len__") else held(data)
        return data

    def gave(self, data: Any, rows: int, table: str) -> None:
        """Note what an input gave. `InvalidInput` when it gave rows before and has none or fewer left now.

        An object that can be asked for its rows again and again may hold one iterator that it hands out each time.
        """
        if data is None or hasattr(data, "__len__"):
            return  # a container may have been emptied on purpose
        if not reads_once(data):
            known = any(one is data for one in self._gave)
            if known and not rows:
                raise _empty(data, table)
            if rows and not known:
                self._gave.append(data)
        self._compare(data, rows, table)

    def _compare(self, data: Any, rows: int, table: str) -> None:
        """What came of an input of its kind in an earlier run is compared with what comes now.

        Fewer rows are right where the program has found fewer. They are wrong where the two inputs read from one
        thing, and nobody can tell where an Arrow stream reads from.
        """
        kind = (table, data.gi_code if isinstance(data, GeneratorType) else type(data))
        place = (*kind, self._places.get(kind, 0))
        self._places[kind] = place[-1] + 1
        before = self._rows.get(place, 0)
        if rows < before:
            shared = [one for one in self._holds if any(one is other for other in self._held)]
            if any(reads_once(one) for one in shared):
                raise _fewer(data, table, before, rows)
            if not rows and (shared or is_opaque(data)):
                raise _empty(data, table)
        self._rows[place] = max(rows, before)
        self._held += [one for one in self._holds if not any(one is other for other in self._held)]
        self._holds = []


def _empty(data: Any, table: str) -> InvalidInput:
    return InvalidInput(
        f"The {type(data).__name__} for table {table!r} had rows when it was read before, and is now empty.",
        next=_ADVICE,
        table=table,
    )


def _fewer(data: Any, table: str, before: int, rows: int) -> InvalidInput:
    return InvalidInput(
        f"The {type(data).__name__} for table {table!r} had {before} rows when it was read before, and has {rows} now:"
        " both runs of the program read from the same iterator.",
        next=_ADVICE,
        table=table,
        before=before,
        rows=rows,
    )
