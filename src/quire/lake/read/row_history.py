"""Every version of one row: which commits inserted, updated or deleted it.

The log tells which commits changed the table, and often the hashes of the keys that they wrote: of those that did not
touch the key nothing is read. For the others the row is looked up in the state before and after.

Where a merge or a fast-forward brought a change, the commits of the merged branch that made it are told in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from quire.arguments import bounded
from quire.conversion import held
from quire.errors import InvalidInput, SnapshotExpired
from quire.formats.keys import hashes, hashes_of
from quire.lake import display
from quire.lake.branch.branches import line_of
from quire.lake.branch.lineage import vector_of
from quire.lake.commit.table_change import values_table
from quire.lake.names import no_table
from quire.lake.read.all_parents import LogNames
from quire.ledger import Change, Commit, History, Line, Pin, Point, State
from quire.ledger.version_vector import Vector, contains
from quire.prompt import PublicNames, one_line
from quire.rowfiles.write import json_rows
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.lake.branch.live import LiveBranch
    from quire.lake.context import Core

AT_ONCE = 16
"""States in which the row is looked up side by side."""
MOVES_NO_ROW = frozenset({"compact", "index", "rename"})
KEYED_ONLY = frozenset({"insert", "upsert"})
"""What writes rows by key alone: if it lists its keys, other rows are as they were."""


@dataclass(frozen=True, repr=False)
class RowVersion(PublicNames):
    """One change of a row, and the commit that made it: `exp:3.0`, if it was made on a branch that was merged."""

    commit: str
    change: Literal["insert", "update", "delete"]
    author: str
    message: str
    time: datetime
    row: dict[str, Any] | None
    """The row as the commit left it; None when it was deleted."""
    columns: tuple[str, ...] = ()
    """The columns whose values an update changed."""
    metadata: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        what = f" of {', '.join(self.columns)}" if self.columns else ""
        return one_line(f"<RowVersion {self.commit} by {self.author}: {self.change}{what}>")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "commit": self.commit,
            "change": self.change,
            "author": self.author,
            "message": self.message,
            "time": self.time.isoformat(),
            "row": self.row,
            "columns": list(self.columns),
            "metadata": self.metadata,
        }


class RowHistory(PublicNames):
    """The versions of a row, newest first, read as they are looked at.

    `complete` is false once they are read and cleanup has removed older ones, or the row was there before a limit.
    """

    def __init__(self, versions: Iterator[RowVersion], source: _Versions) -> None:
        self._left, self._known, self._source = versions, list[RowVersion](), source

    @property
    def complete(self) -> bool:
        """Whether the oldest version is the one with which the row began."""
        list(self)
        return self._source.complete

    def __iter__(self) -> Iterator[RowVersion]:
        yield from self._known
        for version in self._left:
            self._known.append(version)
            yield version

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: int) -> RowVersion:
        return list(self)[index]

    def blame(self) -> dict[str, RowVersion | None]:
        """For each column of the newest row the version that gave it its value; None where that is not kept."""
        newest = next(iter(self), None)
        if newest is None or newest.row is None:
            return {}
        found: dict[str, RowVersion | None] = dict.fromkeys(newest.row)
        for version in self:
            columns = list(found) if version.change == "insert" else version.columns
            for column in columns:
                if column in found and found[column] is None:
                    found[column] = version
            if version.change != "update" or None not in found.values():
                break
        return found

    def renamed(self, shown: Mapping[str, str]) -> RowHistory:
        """The same with other names of columns."""

        def one(version: RowVersion) -> RowVersion:
            row = None if version.row is None else {shown.get(n, n): value for n, value in version.row.items()}
            return replace(version, row=row, columns=tuple(shown.get(n, n) for n in version.columns))

        return RowHistory(map(one, iter(self)), self._source)

    def __repr__(self) -> str:
        return display.shown("", lambda: "\n".join(map(repr, self)) or "<RowHistory: no such row>")

    def _repr_html_(self) -> str:
        rows = ((v.commit, f"{v.time:%Y-%m-%d %H:%M:%S}", v.author, v.change, ", ".join(v.columns)) for v in self)
        head = ("commit", "time (UTC)", "author", "change", "columns")
        return display.shown("", lambda: display.html_table(head, rows), html=True)


def row_history(core: Core, live: LiveBranch, table: str, key: Any, limit: int | None) -> RowHistory:
    """The versions of the row with this key, of the table that has the name now or had it last."""
    limit, head = bounded("limit", limit, 0), core.narrow(live.refresh())
    found = _Versions(core, live, head, table, key)
    return RowHistory(found.read(limit), found)


class _Versions:
    """The way back through the commits of one table."""

    def __init__(self, core: Core, live: LiveBranch, head: State, table: str, key: Any) -> None:
        self._core, self._live, self._head = core, live, head
        self._names, self._seen = LogNames(core), set[Point]()
        self.complete = True
        state = head.by_name(table)
        if state is None:
            core.missed([table])
            raise no_table(table, head.names())
        if not state.info.key:
            raise InvalidInput(
                f"Table {table!r} has no key, so its rows have no history of their own.",
                next="Compare commits with lake.diff, or read lake.changes.",
                table=table,
            )
        self._id, self._name, self._columns = state.info.id, table, tuple(state.info.key)
        self._format = state.pin.format
        schema = core.format(state.pin.format).open(state.pin, table).schema
        given = key if isinstance(key, dict) else tuple(key) if isinstance(key, list) else key
        self._key = values_table([given], self._columns, schema, table)
        [self._hash] = hashes(self._columns, self._key)

    def read(self, limit: int | None) -> Iterator[RowVersion]:
        """Its versions, newest first."""
        commits = self._live.history.commits(self._head)
        for told, version in enumerate(self._told(commits, self._live.line, {})):
            if limit is not None and told >= limit:
                self.complete = False
                return
            yield version

    def _told(self, commits: Iterator[tuple[Point, Commit]], line: Line, known: Vector) -> Iterator[RowVersion]:
        """The versions that the commits of a line made, down to those that are `known` from another line."""
        for now, before in self._pairs(commits, known):
            if now.at in self._seen:
                continue
            self._seen.add(now.at)
            version = self._version(now, before)
            if version is None:
                continue
            brought = [found for parent in now.commit.parents[1:] for found in self._brought(now, line, parent)]
            if not any(is_it for is_it, _ in brought):
                yield version
            for _, versions in brought:
                yield from versions

    def _brought(self, merge: _Step, line: Line, parent: Point) -> Iterator[tuple[bool, list[RowVersion]]]:
        """Whether a merged commit has the row as the merge has it, and the versions that led there."""
        with suppress(SnapshotExpired):
            first = merge.commit.parents[0]
            known = vector_of(self._core, line, History(self._core.store, self._core.ledger, line).at(first))
            other = line_of(self._core, parent.branch)
            history = History(self._core.store, self._core.ledger, other)
            head = history.at(parent)
            versions = list(self._told(history.commits(head), other, known))
            yield bool(versions) and self._same(merge, head), versions

    def _same(self, merge: _Step, state: State) -> bool:
        there = state.tables.get(self._id)
        step = replace(merge, pin=there.pin if there is not None else None, row=None, looked=False, lost=False)
        self._read_row(step)
        if step.lost or step.row is None or merge.row is None:
            return not step.lost and step.row is merge.row
        return json_rows(step.row) == json_rows(merge.row)

    def _pairs(self, commits: Iterator[tuple[Point, Commit]], known: Vector) -> Iterator[tuple[_Step, _Step | None]]:
        """Commits that may have changed the row, each with the state of the table before it; looked up together."""
        waiting: list[tuple[_Step, _Step | None]] = []
        later: _Step | None = None
        for step in self._steps(commits):
            if later is not None and later.touches:
                waiting.append((later, step))
            later = step
            if contains(known, step.at):
                break  # from here on it is the past of the other line, too
            if len(waiting) >= AT_ONCE:
                self._look_up(waiting)
                yield from waiting
                waiting = []
        else:
            if later is not None:
                if later.born:
                    waiting.append((later, None))
                else:
                    self.complete = False
        self._look_up(waiting)
        yield from waiting

    def _steps(self, commits: Iterator[tuple[Point, Commit]]) -> Iterator[_Step]:
        """The commits that moved the table, newest first, as far as they are kept."""
        try:
            for at, commit in commits:
                change = next((c for c in commit.changes if c.table == self._id), None)
                if change is not None and (change.pin is not None or "drop" in change.ops):
                    yield _Step(at, commit, change.pin, self._may_touch(change), _makes(change))
        except SnapshotExpired:
            return

    def _may_touch(self, change: Change) -> bool:
        """Whether a commit may have changed the row, as far as its record tells."""
        ops = set(change.ops)
        if ops <= MOVES_NO_ROW:
            return False
        if not ops <= KEYED_ONLY | MOVES_NO_ROW or not change.keys:
            return True
        listed = [hashes_of(keys) if keys.columns == self._columns else None for keys in change.keys]
        return any(found is None or self._hash in found for found in listed)

    def _look_up(self, pairs: Sequence[tuple[_Step, _Step | None]]) -> None:
        wanted = {id(step): step for pair in pairs for step in pair if step is not None and not step.looked}
        run_parallel([partial(self._read_row, step) for step in wanted.values()])

    def _read_row(self, step: _Step) -> None:
        """The row in the state that a commit left; none when the table was not there."""
        if step.pin is not None:
            view = self._core.format(step.pin.format).open(step.pin, self._name)
            try:
                rows = view.scan(filter=self._is_it()).read_all()
            except SnapshotExpired:
                step.lost = True
                rows = None
            step.row = rows if rows is not None and rows.num_rows else None
        step.looked = True

    def _is_it(self) -> Any:
        import pyarrow.compute as pc

        found: Any = None
        for name in self._columns:
            part = pc.field(name) == self._key.column(name)[0]
            found = part if found is None else found & part
        return found

    def _version(self, now: _Step, before: _Step | None) -> RowVersion | None:
        if now.lost or (before is not None and before.lost):
            self.complete = False
            return None
        new, old = now.row, before.row if before is not None else None
        if new is None and old is None:
            return None
        changed: tuple[str, ...] = ()
        if new is not None and old is not None:
            [a], [b] = json_rows(old), json_rows(new)
            changed = tuple(name for name in b if name not in a or a[name] != b[name])
            if not changed and a.keys() <= b.keys():
                return None
        told = self._core.told(now.commit)
        return RowVersion(
            commit=self._word(now.at),
            change="delete" if new is None else "insert" if old is None else "update",
            author=told.author,
            message=told.message,
            time=now.commit.time,
            row=None if new is None else held.rows(new)[0],
            columns=changed,
            metadata=dict(told.metadata),
        )

    def _word(self, at: Point) -> str:
        """A commit, so that it can be found from this branch."""
        return at.commit if self._live.line.contains(at) else f"{self._names.of(at.branch)}:{at.commit}"


@dataclass
class _Step:
    """A commit that moved the table, and the row as it left it."""

    at: Point
    commit: Commit
    pin: Pin | None
    touches: bool
    born: bool
    """Whether the table was made by it."""
    row: pa.Table | None = None
    looked: bool = False
    lost: bool = False
    """Whether cleanup has removed what it would take to tell."""


def _makes(change: Change) -> bool:
    return bool({"create", "register"} & set(change.ops))
