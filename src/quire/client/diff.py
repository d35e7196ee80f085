"""What changed between two commits behind a server. Rows are read when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quire.arguments import bounded
from quire.client.transport import segment
from quire.lake.names import no_table
from quire.lake.read.diff import RowDiff

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.client.lake import RemoteLake


@dataclass(frozen=True)
class RemoteTableDiff:
    """One table between two commits; see `TableDiff`."""

    name: str
    kind: str
    added: int
    changed: int
    removed: int
    columns: dict[str, list[str]] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    _read: Any = field(default=None, repr=False, compare=False)

    @cached_property
    def rows(self) -> RowDiff:
        """The rows themselves, as Arrow tables: added, changed_before, changed_after, removed. They are read here."""
        return RowDiff(
            *(self._read(self.name, what) for what in ("added", "changed_before", "changed_after", "removed"))
        )

    def some(self, most: int) -> RowDiff:
        """At most so many of the rows of each kind."""
        return self.rows.first(bounded("most", most, 0))

    def to_dict(self) -> dict[str, Any]:
        """All of it but the rows, as plain values."""
        counts = {"added": self.added, "changed": self.changed, "removed": self.removed}
        return {"table": self.name, "kind": self.kind, **counts, "columns": self.columns}


@dataclass(frozen=True)
class RemoteDiff:
    """Tables that differ between two commits; see `Diff`."""

    before: str
    after: str
    tables: tuple[RemoteTableDiff, ...]

    @staticmethod
    def of(lake: RemoteLake, a: str, b: str | None, since_base: bool, tables: list[str] | None) -> RemoteDiff:
        """Ask for it."""
        path, base = f"diff/{segment(a)}/{segment(b or 'HEAD')}", "true" if since_base else "false"
        told = lake.server.ask(
            "GET", path, query={"branch": lake.branch_name, "tables": tables or [], "since_base": base}
        )
        exact = f"diff/{segment(told['before'])}/{segment(told['after'])}" if b is None and not since_base else path

        def read(name: str, what: str) -> pa.Table:
            asked = {"branch": lake.branch_name, "what": what, "since_base": base}
            return lake.server.rows("GET", f"{exact}/{segment(name)}", query=asked).read_all()

        found = [
            RemoteTableDiff(
                t["table"], t["kind"], t["added"], t["changed"], t["removed"], t["columns"], tuple(t["key"]), read
            )
            for t in told["tables"]
        ]
        return RemoteDiff(told["before"], told["after"], tuple(found))

    def __iter__(self) -> Iterator[RemoteTableDiff]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __contains__(self, name: object) -> bool:
        return any(t.name == name for t in self.tables)

    def __getitem__(self, name: str) -> RemoteTableDiff:
        for entry in reversed(self.tables):
            if entry.name == name:
                return entry
        raise no_table(name, (t.name for t in self.tables))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"before": self.before, "after": self.after, "tables": [t.to_dict() for t in self]}
