"""What a commit reports, and what the log shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any

from quire.lake.pressure import Slowed
from quire.lake.reports import told_cost
from quire.ledger import Commit, Point


@dataclass(frozen=True)
class TableReceipt:
    """What the commit did to one table. `version` is the table's own counter."""

    version: int | None
    ops: tuple[str, ...]
    added: int = 0
    removed: int = 0


@dataclass(frozen=True)
class Receipt:
    """Proof of a commit. `commit` is None when there was nothing to commit."""

    commit: str | None
    branch: str
    time: datetime | None = None
    tables: dict[str, TableReceipt] = field(default_factory=dict)
    attempts: int = 0
    rebased: int = 0
    replayed: int = 0
    slowed: Slowed | None = None
    """Whether and why the commit was held up because upkeep lags behind."""
    repeated: bool = False
    """The token had been committed before: this receipt is about that commit, and nothing was written now."""
    cost: dict[str, Any] = field(default_factory=dict, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "commit": self.commit,
            "branch": self.branch,
            "time": self.time.isoformat() if self.time else None,
            "tables": {
                name: {"version": t.version, "ops": list(t.ops), "added": t.added, "removed": t.removed}
                for name, t in self.tables.items()
            },
            "attempts": self.attempts,
            "rebased": self.rebased,
            "replayed": self.replayed,
            "slowed": self.slowed.to_dict() if self.slowed else None,
            "repeated": self.repeated,
            "cost": self.cost,
        }


@dataclass(frozen=True)
class CommitInfo:
    """One entry of the log."""

    id: str
    branch: str
    parents: tuple[str, ...]
    author: str
    message: str
    time: datetime
    tables: dict[str, TableReceipt]
    write: str
    token: str | None = None
    reverts: str | None = None
    point: Point = field(default=Point(branch="", slot=0), repr=False)
    cost: dict[str, Any] | None = field(default=None, compare=False)
    """What the commit took, as it is stored with it; None for one that does not say."""

    @staticmethod
    def of(point: Point, commit: Commit, branch: str, *, ledger: str = "log", shared: int | None = None) -> CommitInfo:
        """An entry as the `ledger` of that kind holds it, in a slot that is `shared` by so many commits."""
        token = commit.token.id if commit.token else None
        if commit.stream is not None:
            token = f"{commit.stream.scope}:{commit.stream.sequence}"
        return CommitInfo(
            id=point.commit,
            branch=branch,
            parents=tuple(p.commit if p.branch == point.branch else f"{p.branch}:{p.commit}" for p in commit.parents),
            author=commit.author,
            message=commit.message,
            time=commit.time,
            tables={
                c.name: TableReceipt(c.pin.counter if c.pin else None, c.ops, c.added, c.removed)
                for c in commit.changes
            },
            write=commit.write,
            token=token,
            reverts=commit.reverts.commit if commit.reverts else None,
            point=point,
            cost=told_cost(commit.cost, ledger, shared),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "branch": self.branch,
            "parents": list(self.parents),
            "author": self.author,
            "message": self.message,
            "time": self.time.isoformat(),
            "write": self.write,
            "token": self.token,
            "reverts": self.reverts,
            "tables": {
                name: {"version": t.version, "ops": list(t.ops), "added": t.added, "removed": t.removed}
                for name, t in self.tables.items()
            },
            "cost": self.cost,
        }


class Log:
    """Commits, newest first, read as they are looked at."""

    def __init__(self, source: Any, limit: int | None) -> None:
        self._source, self._limit = source, limit

    def __iter__(self) -> Iterator[CommitInfo]:
        for count, entry in enumerate(self._source()):
            if self._limit is not None and count >= self._limit:
                return
            yield entry

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        if index < 0:
            return list(self)[index]
        for count, entry in enumerate(self):
            if count == index:
                return entry
        raise IndexError(index)

    def __repr__(self) -> str:
        most = 20 if self._limit is None else self._limit
        shown = [f"{c.id}  {c.time:%Y-%m-%d %H:%M:%S}  {c.author}  {c.message}" for c in Log(self._source, most)]
        return "\n".join(shown)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(c.id)}</td><td>{c.time:%Y-%m-%d %H:%M:%S}</td><td>{escape(c.author)}</td>"
            f"<td>{escape(c.message)}</td><td>{escape(', '.join(c.tables))}</td></tr>"
            for c in Log(self._source, 50 if self._limit is None else self._limit)
        )
        head = "<tr><th>commit</th><th>time</th><th>author</th><th>message</th><th>tables</th></tr>"
        return f"<table>{head}{rows}</table>"
