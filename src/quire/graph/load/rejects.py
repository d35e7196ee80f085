"""Rows that cannot be loaded: collected up to a number, written to a file or a folder on request."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from quire.graph.catalog import Entity
from quire.graph.integrity.violations import MOST, Violation, Violations
from quire.rowfiles.rejects import FileSink, RejectSink

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction


@dataclass(frozen=True)
class Culprit:
    """A row of a load that breaks a rule together with others."""

    violation: Violation
    """With the file and the line that it comes from."""
    original: Any = None
    """What it held, if rejects are written here."""
    written: bool = False
    """Whether a task has written it."""


class Rejects:
    """Collects what is wrong. Unless rows may be skipped, it stops the load when there is enough to tell."""

    def __init__(self, most: int, to: RejectSink | str | os.PathLike[str] | None, skip: bool | int) -> None:
        self.found = Violations(most=MOST if skip else max(1, most))
        self._most = (None if skip is True else int(skip)) if skip else max(1, most)
        self.skips = bool(skip)
        self.rows = 0
        """Rows that were left out; one may break several rules."""
        self.by_type: Counter[str] = Counter()
        """Those of them whose type is known."""
        self._sink = FileSink(to) if isinstance(to, str | os.PathLike) else to

    @property
    def writes(self) -> bool:
        """Whether rows are written somewhere."""
        return self._sink is not None

    @property
    def enough(self) -> bool:
        """Whether no more are wanted."""
        over = self._most is not None and self.found.count >= self._most
        return over and (not self.skips or self._most is None or self.found.count > self._most)

    def add(self, violation: Violation, row: Any) -> None:
        """One row that breaks a rule. Raises `IntegrityError` when that is enough."""
        self.found.add([violation])
        self._write(violation, row)
        if self.enough:
            raise self.error()

    def blame(self, culprit: Culprit) -> None:
        """Tell of a row that was found by what is wrong with it."""
        if culprit.written:
            self.tell([culprit.violation], 1)
        else:
            self.add(culprit.violation, culprit.original)

    def tell(self, violations: Sequence[Violation], count: int) -> None:
        """So many that others have collected, of which some are told; they have written the rows.

        Raises `IntegrityError` when that is enough, with no more of them than one process would have found.
        """
        for number in range(count):
            self.found.add(violations[number : number + 1], 1)
            if self.enough:
                raise self.error()

    @property
    def room(self) -> int | None:
        """How many more can be added before it is enough; None for any number."""
        if self._most is None:
            return None
        return max(1, self._most - self.found.count + (1 if self.skips else 0))

    def leave_out(self, type: str, rows: int) -> None:
        """Count rows that are not loaded."""
        self.rows += rows
        if type and rows:
            self.by_type[type] += rows

    def record(self, tx: Transaction) -> None:
        """Let the commit say how many rows were left out. Those of no known type are under no name."""
        unknown = self.rows - self.by_type.total()
        tx.left_out.update({**self.by_type, **({"": unknown} if unknown else {})})

    def error(self) -> Exception:
        self.close()
        self.found.stopped = self.found.stopped or self.enough
        error = self.found.error()
        if self._sink is not None:
            error.fields["rejects"] = self._sink.shown
        return error

    def close(self) -> None:
        """Finish what is written."""
        if self._sink is not None:
            self._sink.close()

    def _write(self, violation: Violation, row: Any) -> None:
        if self._sink is not None:
            self._sink.write(told_line(violation, row) + b"\n")


def as_given(entity: Entity, row: Mapping[str, Any], *, id: bool) -> dict[str, Any]:
    """A stored row as NDJSON has it, so that it can be corrected and loaded again; with its `id` if that was given."""
    told: dict[str, Any] = {"type" if entity.kind == "node" else "edge": entity.name}
    if id and not entity.defined.key:
        told["id"] = row["id"]
    if entity.kind == "edge":
        told |= {"from": row["src"], "to": row["dst"]}
    data = {p.name: row[p.column] for p in entity.defined.properties if row[p.column] is not None}
    return {**told, "data": {name: _written(value) for name, value in data.items()}}


def _written(value: Any) -> Any:
    return f"base64:{base64.b64encode(value).decode()}" if isinstance(value, bytes) else value


def told_line(violation: Violation, row: Any) -> bytes:
    """A line of a file of rejects: what is wrong, and the row."""
    return _line({**violation.to_dict(), "row": row})


def _line(told: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(told, enc_hook=str)
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError):
        # A row that JSON has no form for: too deep, a huge number, text that is no Unicode.
        return msgspec.json.encode({**told, "message": _plain(told["message"]), "row": _plain(told["row"])})


def _plain(value: Any) -> str:
    """A value as text, whatever it is."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except (RecursionError, ValueError):
        text = f"<{type(value).__name__}>"
    return text.encode("utf-8", "replace").decode()
