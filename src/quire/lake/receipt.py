"""What a commit reports, and what the log shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any, Literal

from quire.arguments import checks_arguments
from quire.lake import display
from quire.lake.commit.back_pressure import Slowed
from quire.lake.commit.preconditions import TableVersion
from quire.lake.cost_report import told_cost
from quire.ledger import Change, Commit, Point
from quire.prompt import OneLine, PublicNames, one_line


@dataclass(frozen=True, repr=False)
class TableReceipt(OneLine):
    """What the commit did to one table. `version` is the table's own counter."""

    version: TableVersion | None
    ops: tuple[str, ...]
    added: int = 0
    removed: int = 0

    def __str__(self) -> str:
        version = f", version {self.version}" if self.version is not None else ""
        return f"{', '.join(self.ops)} +{self.added} -{self.removed}{version}"

    def _facts(self) -> str:
        return str(self)

    @staticmethod
    def all_of(commit: Commit) -> dict[str, TableReceipt]:
        """By name, what a commit did to its tables."""
        return {c.name: TableReceipt(version_of(c), c.ops, c.added, c.removed) for c in commit.changes}


def version_of(change: Change) -> TableVersion | None:
    """The version of a table after a change; None where no state of it came of that."""
    pin = change.pin
    return TableVersion(pin.counter, change.table, pin.version) if pin is not None else None


@checks_arguments
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
    left_out: dict[str, int] = field(default_factory=dict)
    """Rows that a load left out because they broke a rule, by table or type."""
    adopted: str | None = None
    """Of a fast-forward: the commit whose tables this one took over, by its branch, such as `exp:12.0`."""
    outcome: Literal["up-to-date", "fast-forward", "merged"] | None = None
    """Of a merge: what it came to."""
    cost: dict[str, Any] = field(default_factory=dict, compare=False)

    def __hash__(self) -> int:
        """By the commit: the counts of its tables have no hash."""
        return hash((self.commit, self.branch, self.time))

    def __repr__(self) -> str:
        return one_line(f"<Receipt: {'; '.join([self._said(), *_did(self.tables)])}>")

    def _repr_html_(self) -> str:
        return f"<b>{escape(self._said())}</b>{_tables_html(self.tables)}"

    def _said(self) -> str:
        """Whether and as what it was committed, in a few words."""
        if self.repeated:
            return f"committed before{(f' as {self.commit}' if self.commit else '')}; nothing was written now"
        if self.commit is None:
            return "up to date: nothing to commit" if self.outcome == "up-to-date" else "nothing to commit"
        over = f", which takes over {self.adopted} as one commit" if self.adopted else ""
        return f"committed {self.commit} on {self.branch!r}{over}"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "commit": self.commit,
            "branch": self.branch,
            "time": self.time.isoformat() if self.time else None,
            "tables": {
                name: {
                    "version": None if t.version is None else int(t.version),
                    "ops": list(t.ops),
                    "added": t.added,
                    "removed": t.removed,
                }
                for name, t in self.tables.items()
            },
            "attempts": self.attempts,
            "rebased": self.rebased,
            "replayed": self.replayed,
            "slowed": self.slowed.to_dict() if self.slowed else None,
            "repeated": self.repeated,
            "adopted": self.adopted,
            "outcome": self.outcome,
            "cost": self.cost,
        }


@checks_arguments
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
    metadata: dict[str, str] = field(default_factory=dict)
    """What its maker says about it, by key."""
    adopts: str | None = None
    """Of a fast-forward: the commit, on another branch's log, whose tables this one took over. It is a parent, too."""
    kept: tuple[Point, ...] | None = field(default=None, repr=False, compare=False)
    """In a log over all parents: the parents that cleanup has kept."""

    def __repr__(self) -> str:
        return one_line(f"<Commit {'; '.join([_line(self), *_did(self.tables)])}>")

    def _repr_html_(self) -> str:
        who = f"{escape(self.author)}, {self.time:%Y-%m-%d %H:%M:%S} UTC"
        return f"<b>{escape(self.id)}</b> {escape(self.message)}<br>{who}{_tables_html(self.tables)}"

    @staticmethod
    def of(
        point: Point,
        commit: Commit,
        branch: str,
        *,
        ledger: str = "log",
        shared: int | None = None,
        kept: tuple[Point, ...] | None = None,
    ) -> CommitInfo:
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
            tables=TableReceipt.all_of(commit),
            write=commit.write,
            token=token,
            reverts=commit.reverts.commit if commit.reverts else None,
            point=point,
            cost=told_cost(commit.cost, ledger, shared),
            metadata=dict(commit.metadata),
            adopts=f"{commit.adopts.branch}:{commit.adopts.commit}" if commit.adopts else None,
            kept=kept,
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
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
            "metadata": self.metadata,
            "adopts": self.adopts,
            "tables": {
                name: {
                    "version": None if t.version is None else int(t.version),
                    "ops": list(t.ops),
                    "added": t.added,
                    "removed": t.removed,
                }
                for name, t in self.tables.items()
            },
            "cost": self.cost,
        }


@checks_arguments
class Log(PublicNames):
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
        return display.shown("", lambda: "\n".join(map(_line, Log(self._source, most))))

    def _repr_html_(self) -> str:
        commits = Log(self._source, 50 if self._limit is None else self._limit)
        rows = ((c.id, f"{c.time:%Y-%m-%d %H:%M:%S}", c.author, c.message, ", ".join(c.tables)) for c in commits)
        head = ("commit", "time (UTC)", "author", "message", "tables")
        return display.shown("", lambda: display.html_table(head, rows), html=True)


def _line(commit: CommitInfo) -> str:
    words = (commit.id, f"{commit.time:%Y-%m-%d %H:%M:%S}", commit.author, commit.message)
    return display.clean("  ".join(words)).rstrip()


def committed_as(receipt: Receipt | None, *, dry_run: bool = False) -> str:
    """Whether and as what something was committed, in a few words."""
    if dry_run:
        return "dry run"
    if receipt is None:
        return "not committed"
    if receipt.commit is None:
        return "nothing to commit"
    return f"{'committed before as' if receipt.repeated else 'committed'} {receipt.commit}"


def _did(tables: dict[str, TableReceipt]) -> list[str]:
    return [f"{name}: {table}" for name, table in tables.items()]


def _tables_html(tables: dict[str, TableReceipt]) -> str:
    rows = [(name, ", ".join(t.ops), t.added, t.removed, t.version) for name, t in tables.items()]
    return display.html_table(("table", "did", "added", "removed", "version"), rows) if rows else ""
