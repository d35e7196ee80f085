"""Which line of a file each row begins on, and bytes that are no text."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.rowfiles.kinds import NotText

if TYPE_CHECKING:
    import pyarrow as pa

_BLANK = re.compile(rb"^\r?\n", re.MULTILINE)


class Checked(io.RawIOBase):
    """A stream of bytes of text, as UTF-8, that ends with an error where they are none.

    Arrow hands rows that it cannot split to Python as text, and has no way to say that they are none.
    """

    def __init__(self, stream: Any, encoding: str = "utf-8") -> None:
        self._stream = stream
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._lines = 1
        self._begins = True
        """Whether the next byte is the first of a line."""
        self.blank: set[int] = set()
        """The lines that hold nothing, as far as it is read."""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = bytes(self._stream.read() if size < 0 else self._stream.read(size))
        held = self._decoder.getstate()[0]
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line = self._lines + (held + data)[: error.start].count(b"\n")
            name = "UTF-8" if self._encoding == "utf-8" else self._encoding
            raise NotText(f"line {line} is not {name} text") from None
        if self._encoding == "utf-8":
            return self._counted(data)
        # A piece without a whole letter is not the end.
        return self._counted(text.encode()) if text or not data else self.read(size)

    def _counted(self, data: bytes) -> bytes:
        at = 0
        for found in _BLANK.finditer(data):
            self._lines, at = self._lines + data.count(b"\n", at, found.start()), found.start()
            if at or self._begins:
                self.blank.add(self._lines)
        self._lines += data.count(b"\n", at)
        self._begins = data.endswith(b"\n") if data else self._begins
        return data


@dataclass
class Lines:
    """Counts on, batch by batch. In a CSV file quoted text may hold line breaks, and some rows are left out."""

    row: int = 2
    """The number of the next row; the first one of a CSV file is its header."""
    line: int = 2
    blank: set[int] = field(default_factory=set)
    """Lines that hold nothing."""
    _skipped: dict[int, tuple[int, Callable[[int], None]]] = field(default_factory=dict)

    def skip(self, row: int, text: str, tell: Callable[[int], None]) -> None:
        """Leave out a row that a later batch would have held; `tell` gets its line."""
        self._skipped[row] = 1 + text.rstrip("\n").count("\n"), tell

    def none(self) -> Any:
        """The lines of no rows."""
        import numpy as np

        return np.empty(0, np.int64)

    def of(self, rows: int) -> Any:
        """The lines of rows that take one line each."""
        import numpy as np

        found = np.arange(self.line, self.line + rows)
        self.row, self.line = self.row + rows, self.line + rows
        return found

    def of_text(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """The rows of a batch of text that are no blank lines, and their lines."""
        import numpy as np
        import pyarrow.compute as pc

        taken = np.ones(batch.num_rows, np.int64)
        nothing = np.ones(batch.num_rows, bool)
        for column in batch.columns:
            taken += pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy(zero_copy_only=False)
            nothing &= pc.fill_null(pc.equal(column, ""), True).to_numpy(zero_copy_only=False)
        starts = self._starts(taken)
        for at in np.flatnonzero(nothing).tolist():  # `,` is a row of nulls, and what holds nothing is none
            nothing[at] = int(starts[at]) in self.blank
        return (batch.filter(~nothing), starts[~nothing]) if nothing.any() else (batch, starts)

    def _starts(self, taken: Any) -> Any:
        import numpy as np

        if not self._skipped:
            ends = self.line + np.cumsum(taken)
            starts = np.concatenate([[self.line], ends])[: len(taken)]
            self.row += len(taken)
            self.line = int(ends[-1]) if len(taken) else self.line
            return starts
        found = []
        for lines in taken.tolist():
            self._pass()
            found.append(self.line)
            self.row, self.line = self.row + 1, self.line + lines
        return np.asarray(found, np.int64)

    def _pass(self) -> None:
        """Go past rows that are left out."""
        while self.row in self._skipped:
            lines, tell = self._skipped.pop(self.row)
            tell(self.line)
            self.row, self.line = self.row + 1, self.line + lines

    def finish(self) -> None:
        """Tell the rows that are left out at the end."""
        self._pass()
