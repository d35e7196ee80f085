"""What changed between two commits: rows by key, or as a multiset where there is no key.

Only what differs is read. With an engine, tasks read and compare, all tables in one job, and the driver learns numbers;
the rows themselves are frames there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from quire.arguments import bounded, checks_arguments
from quire.errors import InvalidInput, Unsupported
from quire.formats import Changed, Comparable
from quire.formats.row_hashes import comparable
from quire.lake import display
from quire.lake.context import Core
from quire.lake.engines import Engine, chosen, provided
from quire.lake.names import no_table
from quire.lake.read.table import Table
from quire.ledger import State, TableState
from quire.prompt import Escaped

if TYPE_CHECKING:
    import pyarrow as pa


@checks_arguments
class Diff:
    """Tables that differ between two commits. Rows are read only when a table's numbers or rows are looked at."""

    def __init__(
        self, core: Core, before: State, after: State, tables: list[str] | None, engine: Engine = "local"
    ) -> None:
        self.before, self.after = before.head.commit, after.head.commit
        chosen(engine)
        found: list[TableDiff] = []
        for table in before.tables.keys() | after.tables.keys():
            old, new = before.tables.get(table), after.tables.get(table)
            if old and new and old.pin.version == new.pin.version and old.info == new.info:
                continue
            found.append(TableDiff(core, old, new))
        known = before.names().keys() | after.names().keys()
        for name in tables or ():
            if name not in known:
                raise no_table(name, known)
        # A table that was dropped and made again under its name gives two entries, the old one first.
        found.sort(key=lambda t: (t.name, t.new is not None))
        self._tables = [t for t in found if tables is None or t.name in tables]
        changed = [t for t in self._tables if t.kind == "changed"]
        session = chosen(engine, lambda: sum(t.bytes for t in changed))
        if session is not None and changed:
            counted = _Counted(session, changed)
            for entry in changed:
                entry.counted = counted

    def __iter__(self) -> Iterator[TableDiff]:
        return iter(self._tables)

    def __getitem__(self, name: str) -> TableDiff:
        """The entry of a table; of two with one name, the living one."""
        for entry in reversed(self._tables):
            if entry.name == name:
                return entry
        raise no_table(name, (t.name for t in self._tables))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(t.name == name for t in self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"before": self.before, "after": self.after, "tables": [t.to_dict() for t in self]}

    def _ipython_key_completions_(self) -> list[str]:
        return list(dict.fromkeys(t.name for t in self._tables))

    def __repr__(self) -> str:
        return "\n".join(repr(t) for t in self) or "no difference"

    def _repr_html_(self) -> str:
        head = f"<b>{escape(self.before)} → {escape(self.after)}</b>"
        names = ("table", "", "added", "changed", "removed")
        rows = ((t.name, t.kind, t.added, t.changed, t.removed) for t in self)
        return display.shown(head, lambda: display.html_table(names, rows), html=True)


@checks_arguments
@dataclass
class RowDiff(Escaped):
    """Rows that differ, as Arrow tables. A changed row stands at the same place as it was and as it is."""

    added: pa.Table
    changed_before: pa.Table
    changed_after: pa.Table
    removed: pa.Table

    def __repr__(self) -> str:
        added, changed, removed = self.counts
        return f"<RowDiff: {added} added, {changed} changed, {removed} removed>"

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many were added, changed and removed."""
        return self.added.num_rows, self.changed_after.num_rows, self.removed.num_rows

    def first(self, most: int) -> RowDiff:
        """At most so many of each."""
        most = bounded("most", most, 0)
        return RowDiff(
            self.added.slice(0, most),
            self.changed_before.slice(0, most),
            self.changed_after.slice(0, most),
            self.removed.slice(0, most),
        )


What = Literal["added", "changed_before", "changed_after", "removed"]


class _Counted:
    """What a session counted in all tables of a diff. It is asked once, for all of them."""

    def __init__(self, session: Any, tables: Sequence[TableDiff]) -> None:
        self._session, self._tables = session, tuple(tables)
        self._found: dict[int, tuple[int, int, int]] | None = None

    def of(self, table: TableDiff) -> tuple[int, int, int]:
        if self._found is None:
            pairs = [entry.pair() for entry in self._tables]
            counts = provided(self._session, "diff").counts(self._session, pairs)
            self._found = {id(entry): found for entry, found in zip(self._tables, counts, strict=True)}
        return self._found[id(table)]

    def some(self, table: TableDiff, most: int) -> RowDiff:
        found: RowDiff = provided(self._session, "diff").some(self._session, table.pair(), most)
        return found


@dataclass(frozen=True)
class Pair:
    """Two states of one table for tasks that compare them."""

    name: str
    changed: Changed
    before: pa.Schema
    after: pa.Schema
    key: tuple[str, ...]


@checks_arguments
@dataclass
class TableDiff:
    """One table between two commits."""

    core: Core = field(repr=False)
    old: TableState | None = field(repr=False)
    new: TableState | None = field(repr=False)
    counted: _Counted | None = field(default=None, repr=False)
    """Who counts, if it is not this process."""

    def __repr__(self) -> str:
        return display.shown(f"{self.name}: {self.kind}", lambda: f", +{self.added} ~{self.changed} -{self.removed}")

    def _repr_html_(self) -> str:
        """Counts, and some rows of each kind; of a changed row what it is now."""
        return display.shown(f"<b>{escape(self.name)}</b>: {self.kind}", self._html, html=True)

    def _html(self) -> str:
        found = f", {self.added} added, {self.changed} changed, {self.removed} removed"
        if self.kind == "renamed":
            return found
        part = self.some(display.ROWS)
        for what, count, rows in (
            ("added", self.added, part.added),
            ("changed", self.changed, part.changed_after),
            ("removed", self.removed, part.removed),
        ):
            if count:
                found += f"<p>{what}</p>{display.preview(rows.schema, rows.to_batches(), total=count).html()}"
        return found

    @property
    def name(self) -> str:
        state = self.new or self.old
        assert state is not None
        return state.info.name

    @property
    def kind(self) -> Literal["created", "dropped", "renamed", "changed"]:
        if self.old is None:
            return "created"
        if self.new is None:
            return "dropped"
        return "renamed" if self.old.pin.version == self.new.pin.version else "changed"

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns as they are now; none of a table that was dropped."""
        return tuple(self.new.info.key) if self.new is not None else ()

    @property
    def bytes(self) -> int:
        """Size of both states: more than is ever read."""
        return sum(state.pin.bytes for state in (self.old, self.new) if state is not None)

    @property
    def added(self) -> int:
        if self.old is None and self.new is not None:
            return self._held(self.new)
        return self._counts()[0]

    @property
    def removed(self) -> int:
        if self.new is None and self.old is not None:
            return self._held(self.old)
        return self._counts()[2]

    @property
    def changed(self) -> int:
        return self._counts()[1]

    def _held(self, state: TableState) -> int:
        if self.core.guard is None:
            return state.pin.rows
        return self.core.format(state.pin.format).open(state.pin, state.info.name).count()

    def _counts(self) -> tuple[int, int, int]:
        if self.kind != "changed":
            return 0, 0, 0
        return self.rows.counts if self.counted is None else self.counted.of(self)

    @property
    def columns(self) -> dict[str, list[str]]:
        """Columns that only one side has, and columns whose type differs."""
        if self.old is None or self.new is None:
            return {"added": [], "removed": [], "retyped": []}
        a, b = self._schema(self.old), self._schema(self.new)
        return {
            "added": [n for n in b.names if n not in a.names],
            "removed": [n for n in a.names if n not in b.names],
            "retyped": [n for n in b.names if n in a.names and a.field(n).type != b.field(n).type],
        }

    def _schema(self, state: TableState) -> pa.Schema:
        return self.core.format(state.pin.format).open(state.pin).schema

    @cached_property
    def rows(self) -> RowDiff:
        """The rows themselves, as Arrow tables: added, changed_before, changed_after, removed. They are read here."""
        if self.old is None or self.new is None:
            return self._whole(None)
        format_ = self.core.format(self.new.pin.format)
        gone, come = format_.changed_rows(self.old.pin, self.new.pin)
        return compare(gone.read_all(), come.read_all(), self._key)

    def some(self, most: int) -> RowDiff:
        """At most so many of the rows of each kind."""
        most = bounded("most", most, 0)
        if self.old is None or self.new is None:
            return self._whole(most)
        return self.rows.first(most) if self.counted is None else self.counted.some(self, most)

    def frame(self, spark: Any, what: What, *, columns: Sequence[str] | None = None) -> Any:
        """Rows of one kind as a frame of Spark: `added`, `removed`, `changed_before` or `changed_after`.

        Executors read and compare them, whichever engine the diff was asked for. The columns are those of the table
        before or after, whichever the rows belong to, or some of them.
        """
        if what not in ("added", "changed_before", "changed_after", "removed"):
            raise InvalidInput(
                f"{what!r} is not a kind of row in a diff.", next="Use added, removed, changed_before or changed_after."
            )
        session = chosen(spark)
        if session is None:
            raise InvalidInput("A frame needs a Spark session.", next="Pass a session, or read .rows in this process.")
        module = provided(session, "diff")
        if self.old is None or self.new is None:
            state = self.new or self.old
            assert state is not None
            held = Table(state, lambda: self.core.format(state.pin.format).open(state.pin, state.info.name))
            return module.whole(session, held, what == ("added" if self.new is not None else "removed"), columns)
        return module.frame(session, self.pair(), what, columns)

    def pair(self) -> Pair:
        """Both states for tasks."""
        assert self.old is not None
        assert self.new is not None
        format_ = self.core.format(self.new.pin.format)
        if not isinstance(format_, Comparable):
            raise Unsupported(f"Table {self.name!r} cannot be compared by other processes.", next='Use engine="local".')
        changed = format_.changed(self.old.pin, self.new.pin)
        return Pair(self.name, changed, self._schema(self.old), self._schema(self.new), self._key)

    @property
    def _key(self) -> tuple[str, ...]:
        assert self.old is not None
        assert self.new is not None
        return tuple(self.new.info.key) if self.new.info.key == self.old.info.key else ()

    def _whole(self, limit: int | None) -> RowDiff:
        state = self.new or self.old
        assert state is not None
        whole = self.core.format(state.pin.format).open(state.pin, state.info.name).scan(limit=limit).read_all()
        none = whole.slice(0, 0)
        return RowDiff(whole if self.new else none, none, none, whole if self.old else none)

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.name,
            "kind": self.kind,
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "columns": self.columns,
        }


def compare(gone: pa.Table, come: pa.Table, key: tuple[str, ...]) -> RowDiff:
    """Cancel rows that were only moved.

    Pair the rest by key. Columns are matched by position, never by pasted names.
    """
    import duckdb
    import pyarrow as pa

    if not gone.num_rows or not come.num_rows:
        return RowDiff(come, gone.slice(0, 0), come.slice(0, 0), gone)
    common = [n for n in come.schema.names if n in gone.schema.names]
    names = [f"c{i}" for i in range(len(common))]
    fields = ", ".join(names)
    numbered = {
        label: pa.table(
            [*(comparable(t.column(n)) for n in common), pa.array(range(t.num_rows), pa.int64())], names=[*names, "n"]
        )
        for label, t in (("gone", gone), ("come", come))
    }

    def pick(table: pa.Table, positions: Any) -> pa.Table:
        return table.take(pa.array(sorted(positions), pa.int64()))

    with duckdb.connect() as link:
        for label, table in numbered.items():
            link.register(label, table)
        if key:
            on = " and ".join(f"g.c{common.index(k)} = c.c{common.index(k)}" for k in key)
            same = " and ".join(f"g.{n} is not distinct from c.{n}" for n in names)
            pairs = link.execute(f"select g.n, c.n, {same} from gone g join come c on {on}").fetchall()
            paired_old, paired_new = {p[0] for p in pairs}, {p[1] for p in pairs}
            differ = [(p[0], p[1]) for p in pairs if not p[2]]
        else:
            ranked = "select n, {f}, row_number() over (partition by {f} order by n) as r from {t}"
            same = " and ".join(f"g.{n} is not distinct from c.{n}" for n in [*names, "r"])
            pairs = link.execute(
                f"select g.n, c.n from ({ranked.format(f=fields, t='gone')}) g "
                f"join ({ranked.format(f=fields, t='come')}) c on {same}"
            ).fetchall()
            paired_old, paired_new, differ = {p[0] for p in pairs}, {p[1] for p in pairs}, []
    return RowDiff(
        added=pick(come, set(range(come.num_rows)) - paired_new),
        changed_before=gone.take(pa.array([d[0] for d in differ], pa.int64())),
        changed_after=come.take(pa.array([d[1] for d in differ], pa.int64())),
        removed=pick(gone, set(range(gone.num_rows)) - paired_old),
    )
