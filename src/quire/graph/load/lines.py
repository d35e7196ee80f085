"""Which line of a file each row begins on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Lines:
    """Counts on, batch by batch. In a CSV file quoted text may hold line breaks, and some rows are left out."""

    row: int = 2
    """The number of the next row; the first one of a CSV file is its header."""
    line: int = 2
    _skipped: dict[int, tuple[int, Callable[[int], None]]] = field(default_factory=dict)

    def skip(self, row: int, text: str, tell: Callable[[int], None]) -> None:
        """Leave out a row that a later batch would have held; `tell` gets its line."""
        self._skipped[row] = 1 + text.rstrip("\n").count("\n"), tell

    def of(self, rows: int) -> Any:
        """The lines of rows that take one line each."""
        import numpy as np

        found = np.arange(self.line, self.line + rows)
        self.row, self.line = self.row + rows, self.line + rows
        return found

    def of_text(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """The rows of a batch of text in which anything is written, and their lines."""
        import numpy as np
        import pyarrow.compute as pc

        taken = np.ones(batch.num_rows, np.int64)
        blank = np.ones(batch.num_rows, bool)
        for column in batch.columns:
            taken += pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy(zero_copy_only=False)
            blank &= column.is_null().to_numpy(zero_copy_only=False)
        starts = self._starts(taken)
        return (batch.filter(~blank), starts[~blank]) if blank.any() else (batch, starts)

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
