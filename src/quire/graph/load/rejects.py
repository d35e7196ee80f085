"""Rows that cannot be loaded: collected up to a number, written to a file on request."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from quire.errors import StorageError
from quire.graph.catalog import Entity
from quire.graph.integrity.violations import MOST, Found, Violation


class Rejects:
    """Collects what is wrong. Unless rows may be skipped, it stops the load when there is enough to tell."""

    def __init__(self, most: int, path: str | os.PathLike[str] | None, skip: bool | int) -> None:
        self.found = Found(most=MOST if skip else max(1, most))
        self._most = (None if skip is True else int(skip)) if skip else max(1, most)
        self.skips = bool(skip)
        self.rows = 0
        """Rows that were left out; one may break several rules."""
        self.by_type: Counter[str] = Counter()
        """Those of them whose type is known."""
        self._path = Path(path) if path is not None else None
        self._file: IO[bytes] | None = None
        self._opened = False

    @property
    def writes(self) -> bool:
        """Whether rows are written to a file."""
        return self._path is not None

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

    def error(self) -> Exception:
        self.close()
        error = self.found.error()
        if self._path is not None:
            error.fields["rejects"] = str(self._path)
        return error

    def close(self) -> None:
        """Finish the file. What an earlier load left there is gone, also when there was nothing to reject."""
        if self._path is not None and not self._opened and self._path.exists():
            self._file = self._open()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> IO[bytes]:
        assert self._path is not None
        try:
            file = self._path.open("ab" if self._opened else "wb")
        except OSError as error:
            raise StorageError(
                f"The rejects cannot be written to {str(self._path)!r}: {error.strerror or error}.",
                next="Give another file.",
                retryable=False,
                file=str(self._path),
            ) from None
        self._opened = True
        return file

    def _write(self, violation: Violation, row: Any) -> None:
        if self._path is None:
            return
        if self._file is None:
            self._file = self._open()
        self._file.write(told_line(violation, row) + b"\n")


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
