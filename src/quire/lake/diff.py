"""What changed between two commits: rows by key, or as a multiset where there is no key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from quire.lake.core import Core
from quire.lake.names import no_table
from quire.ledger import State, TableState

if TYPE_CHECKING:
    import pyarrow as pa


class Diff:
    """Tables that differ between two commits. Rows are read only when a table's numbers or rows are looked at."""

    def __init__(self, core: Core, before: State, after: State, tables: list[str] | None) -> None:
        self.before, self.after = before.head.commit, after.head.commit
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

    def __iter__(self) -> Iterator[TableDiff]:
        return iter(self._tables)

    def __getitem__(self, name: str) -> TableDiff:
        """The entry of a table; of two with one name, the living one."""
        for entry in reversed(self._tables):
            if entry.name == name:
                return entry
        raise no_table(name, (t.name for t in self._tables))

    def __contains__(self, name: object) -> bool:
        return any(t.name == name for t in self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def to_dict(self) -> dict[str, Any]:
        return {"before": self.before, "after": self.after, "tables": [t.to_dict() for t in self]}

    def __repr__(self) -> str:
        lines = [f"{t.name}: {t.kind}, +{t.added} ~{t.changed} -{t.removed}" for t in self]
        return "\n".join(lines) or "no difference"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><td>{escape(t.name)}</td><td>{t.kind}</td><td>{t.added}</td><td>{t.changed}</td><td>{t.removed}</td></tr>"
            for t in self
        )
        head = "<tr><th>table</th><th></th><th>added</th><th>changed</th><th>removed</th></tr>"
        return f"<table>{head}{rows}</table>"


@dataclass
class _Rows:
    added: pa.Table
    changed_before: pa.Table
    changed_after: pa.Table
    removed: pa.Table


@dataclass
class TableDiff:
    """One table between two commits."""

    core: Core = field(repr=False)
    old: TableState | None = field(repr=False)
    new: TableState | None = field(repr=False)

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
    def added(self) -> int:
        if self.old is None and self.new is not None:
            return self.new.pin.rows
        return self.rows.added.num_rows if self.kind == "changed" else 0

    @property
    def removed(self) -> int:
        if self.new is None and self.old is not None:
            return self.old.pin.rows
        return self.rows.removed.num_rows if self.kind == "changed" else 0

    @property
    def changed(self) -> int:
        return self.rows.changed_after.num_rows if self.kind == "changed" else 0

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
    def rows(self) -> _Rows:
        """The rows themselves, as Arrow tables: added, changed_before, changed_after, removed."""
        if self.old is None or self.new is None:
            state = self.new or self.old
            assert state is not None
            whole = self.core.format(state.pin.format).open(state.pin, state.info.name).scan().read_all()
            none = whole.slice(0, 0)
            return _Rows(whole if self.new else none, none, none, whole if self.old else none)
        assert self.old is not None
        assert self.new is not None
        format_ = self.core.format(self.new.pin.format)
        gone, come = format_.changed_rows(self.old.pin, self.new.pin)
        key = tuple(self.new.info.key) if self.new.info.key == self.old.info.key else ()
        return _compare(gone.read_all(), come.read_all(), key)

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.name,
            "kind": self.kind,
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "columns": self.columns,
        }


def _compare(gone: pa.Table, come: pa.Table, key: tuple[str, ...]) -> _Rows:
    """Cancel rows that were only moved.

    Pair the rest by key. Columns are matched by position, never by pasted names.
    """
    import duckdb
    import pyarrow as pa

    common = [n for n in come.schema.names if n in gone.schema.names]
    names = [f"c{i}" for i in range(len(common))]
    fields = ", ".join(names)
    numbered = {
        label: pa.table([*(t.column(n) for n in common), pa.array(range(t.num_rows), pa.int64())], names=[*names, "n"])
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
    return _Rows(
        added=pick(come, set(range(come.num_rows)) - paired_new),
        changed_before=gone.take(pa.array([d[0] for d in differ], pa.int64())),
        changed_after=come.take(pa.array([d[1] for d in differ], pa.int64())),
        removed=pick(gone, set(range(gone.num_rows)) - paired_old),
    )
