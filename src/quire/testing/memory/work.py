"""One transaction's staged work on one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from quire.errors import InvalidInput, Refused, SchemaMismatch
from quire.formats import Compacted, IndexSpec, Overlap, Progress, Run, Staged, Upkeep, Work
from quire.formats import keys as keylib
from quire.formats.arrow import Missing, Source, empty, fit, scalar, selected, source
from quire.ledger import Change, Keys, Pin
from quire.testing.memory import columns
from quire.testing.memory.compact import Compaction, execute, plan, summary
from quire.testing.memory.files import Place, Version, version_path
from quire.testing.memory.indexes import Indexes
from quire.testing.memory.net import MOVES_NO_ROW, Address, Net, Rebase, Wrote
from quire.testing.memory.statements import Append, Delete, Keyed, Patch, Running, Statement, Update
from quire.testing.memory.view import MemoryView, require

if TYPE_CHECKING:
    import pyarrow as pa


class MemoryWork(Running):
    """Statements run on `base` plus the net effect so far; `stage` writes the sum as one version."""

    def __init__(
        self,
        place: Place,
        pin: Pin,
        base: Version,
        *,
        properties: dict[str, str],
        table: str,
        created: bool = False,
    ) -> None:
        self.place = place
        self.pin = pin
        self.base = base
        self.table = table
        self.created = created
        self._first = base if created else None
        self.properties = properties
        self.statements: list[Statement] = []
        self.net = Net()
        self.exclusive = False
        self.files: list[str] = []
        self._rows, self._bytes = pin.rows, pin.bytes
        self._added = pin.rows if created else 0
        self._removed = 0
        self._indexes = Indexes()
        self._compaction = Compaction()
        self._pinned_to_base = False
        self._drifted = False
        self._staged: Staged | None = None

    # -- reading own writes -----------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        return bool(self.created or self.exclusive or self.net or self._indexes.changed or self._compaction)

    @property
    def additive(self) -> bool:
        plain = not (self.created or self.exclusive or self._indexes.changed or self._pinned_to_base)
        adds = all(isinstance(s, Append) or (isinstance(s, Keyed) and s.mode == "insert") for s in self.statements)
        untouched = not self._compaction and not self.net.deleted and not any(a.deleted for a in self.net.added)
        return plain and adds and bool(self.statements) and untouched

    def on(self, pin: Pin) -> bool:
        return self.pin == pin

    def current(self) -> Version:
        """The base with everything done so far, not written."""
        return self._indexes.on(self._compaction.on(self.net.on(self.base)))

    def view(self) -> MemoryView:
        return MemoryView(self.place, self.current(), self.table)

    def delta(self, columns: Sequence[str] | None = None) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        from quire.testing.memory.changes import changed_rows

        now = self.view()
        if self.created:
            return empty(now.schema, columns), selected(now.scan(), columns)
        before = MemoryView(self.place, self._before(), self.table)
        removed, added = changed_rows(before, now)
        return selected(removed, columns), selected(added, columns)

    def _before(self) -> Version:
        """The state that the work began on, or was moved to."""
        return self.place.version(self.pin.version, self.table) if self.exclusive else self.base

    def settle(self) -> None:
        """Nothing is written in the background."""

    # -- statements -------------------------------------------------------------------------------------------

    def append(self, data: Any, *, missing: Missing) -> int:
        self._not_in_upkeep()
        rows = self._fit(data, missing=missing).table()
        self._run(Append(self._write(rows)))
        return int(rows.num_rows)

    def insert(self, data: Any, on: Sequence[str], *, missing: Missing) -> int:
        rows = self._fit(data, missing=missing).table()
        self._run(self._keyed("insert", rows, on))
        return int(rows.num_rows)

    def upsert(self, data: Any, on: Sequence[str], *, keep: Mapping[str, Any] | None = None) -> tuple[int, int]:
        keylib.check_columns(on, self.schema, self.table)
        rows = self._fit(data, only=True).table()
        absent = [n for n in on if rows.schema.get_field_index(n) < 0]
        if absent:
            raise SchemaMismatch(
                f"The data for table {self.table!r} lacks key column {absent[0]!r}.",
                next="An upsert needs every key column.",
                table=self.table,
                missing=absent,
            )
        statement: Statement
        if len(rows.schema.names) == len(self.schema.names) and not keep:
            statement = self._keyed("upsert", rows, on)
        else:
            keylib.check_distinct(rows.select(list(on)), on, self.table)
            statement = Patch(rows, tuple(on), keylib.masks(keep or {}, rows, on, self.table))
        matched = self._run(statement)
        return rows.num_rows - matched, matched

    def upserted(self) -> tuple[int, int]:
        added = replaced = 0
        for statement in self.statements:
            if isinstance(statement, Patch) or (isinstance(statement, Keyed) and statement.mode == "upsert"):
                rows = (statement.source if isinstance(statement, Patch) else statement.keys).num_rows
                added, replaced = added + rows - statement.matched, replaced + statement.matched
        return added, replaced

    def update(self, exprs: dict[str, str], values: dict[str, Any], where: str | None, key: Sequence[str]) -> int:
        if not exprs and not values:
            raise InvalidInput("An update needs at least one column to set.", next='update({"v": "v + 1"}, where="…").')
        require(self.base, [*exprs, *values], self.table)
        touched = tuple(key) if any(n in key for n in (*exprs, *values)) else ()
        typed = {n: scalar(v, self.schema.field(n), self.table) for n, v in values.items()}
        return self._run(Update(dict(exprs), typed, where, touched))

    def delete(self, where: str) -> int:
        return self._run(Delete(where))

    def overwrite(self, data: Any, key: Sequence[str], *, schema: Literal["keep", "replace"]) -> int:
        self._not_in_upkeep()
        rows = source(data, self.schema, table=self.table)
        if schema == "keep":
            rows = fit(rows, self.schema, table=self.table)
        fields = columns.fields_of(rows.schema, self.table, first=self.base.next_field)
        keylib.check_columns(key, rows.schema, self.table)
        table = rows.table()
        if key:
            keylib.check_distinct(table.select(list(key)), key, self.table)
        fragment = self._write(table, numbers=[f.id for f in fields])
        self.base = self.base.change(
            fields=fields,
            fragments=() if fragment is None else (fragment,),
            indexes=(),
            next_field=self.base.next_field + len(fields),
        )
        self.net, self.statements, self._indexes = Net(), [], Indexes()
        self.exclusive = True
        self._rows, self._bytes = table.num_rows, self.base.bytes
        self._added, self._removed = table.num_rows, self.pin.rows
        self._staged = None
        return int(table.num_rows)

    def add_columns(self, spec: Any) -> None:
        self._chain(columns.add(self.place, self._settled(), spec, self.table))

    def drop_columns(self, names: Sequence[str]) -> None:
        self._chain(columns.drop(self._settled(), names, self.table))

    def rename_column(self, old: str, new: str) -> None:
        self._chain(columns.rename(self._settled(), old, new, self.table))

    def alter_column(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None:
        if type is None and nullable is None:
            raise InvalidInput("alter_column needs a type or nullable=.", next='alter_column("v", type=pa.float64()).')
        state = self._settled()
        if type is not None:
            state = columns.retype(self.place, state, name, type, self.table)
        if nullable is not None:
            state = columns.set_nullable(self.place, state, name, nullable, self.table)
        self._chain(state)

    def create_index(self, spec: IndexSpec, *, replace: bool, run: Run | None = None) -> None:
        self._indexes.want(self.base, spec, replace=replace, table=self.table)
        self._staged = None

    def drop_index(self, name: str) -> None:
        self._indexes.drop(self.base, name, table=self.table)
        self._staged = None

    def compact(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> Compacted:
        self._no_rows_changed()
        self._not_in_upkeep()
        groups = plan(self.base, how)
        if mode == "do":
            self._compaction = execute(self.place, self.base, groups, how, self.table)
            self.files.extend(self._compaction.files)
            self._staged = None
            if progress is not None:
                progress(len(groups), len(groups))
        return summary(self.base, groups, how)

    def extend_indexes(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> list[str]:
        self._no_rows_changed()
        if mode == "plan":
            rewritten = bool(plan(self.base, how))
            return [i.name for i in self.base.indexes] if rewritten else self._indexes.short(self.base)
        extended = self._indexes.extend(self._compaction.on(self.base))
        self._staged = None
        if progress is not None:
            progress(len(extended), len(extended))
        return extended

    def _no_rows_changed(self) -> None:
        if self.created or self.exclusive or self.net:
            raise self._apart()

    def _not_in_upkeep(self) -> None:
        if self._compaction or self._indexes.extended:
            raise self._apart()

    def _apart(self) -> Refused:
        return Refused(
            f"A transaction that compacts table {self.table!r} or extends its indexes cannot change its rows too.",
            next="Use a transaction for each.",
            table=self.table,
        )

    # -- running a statement on the current base --------------------------------------------------------------

    def _run(self, statement: Statement, *, again: bool = False) -> int:
        """Apply a statement to the net effect, whole or not at all; the number of existing rows it matched."""
        self._not_in_upkeep()
        before = self.net.copy()
        try:
            matched = self._apply(statement)
        except BaseException:
            self.net = before
            raise
        if not again:
            self.statements.append(statement)
        self._staged = None
        return matched

    def take_away(self, addresses: Sequence[Address]) -> None:
        """Remove rows of the base by address, as a statement that cannot be run again elsewhere."""
        self.net.remove(addresses, hard=True)
        self._pinned_to_base = True
        self._staged = None

    # -- input ------------------------------------------------------------------------------------------------

    def _fit(self, data: Any, *, missing: Missing = "error", only: bool = False) -> Source:
        rows = source(data, self.schema, table=self.table)
        return fit(rows, self.schema, table=self.table, missing=missing, only=only)

    def _keyed(self, mode: Literal["insert", "upsert"], rows: pa.Table, on: Sequence[str]) -> Keyed:
        keylib.check_columns(on, self.schema, self.table)
        keys = rows.select(list(on))
        keylib.check_distinct(keys, on, self.table)
        return Keyed(mode, self._write(rows), tuple(on), keys)

    # -- moving to a newer base, staging ----------------------------------------------------------------------

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        head = self.place.version(onto.version, self.table)
        self._compaction = self._compaction.moved(head)
        self._indexes.moved(self._compaction.on(head))
        wrote = [
            Wrote(s.on, s.keys, isinstance(s, Update) or (isinstance(s, Keyed) and s.mode == "insert"))
            for s in self.statements
            if isinstance(s, Keyed | Patch | Update) and s.on and s.keys is not None
        ]
        overlap = Rebase(self.place, self.base, head, self.net, wrote, theirs, self._drifted).overlap()
        if overlap is None:
            self._drifted = self._drifted or any(not MOVES_NO_ROW.issuperset(change.ops) for change in theirs)
            self._rebind(onto, head)
        elif self._pinned_to_base:
            overlap = replace(overlap, hard=True)
        return overlap

    def replay(self, onto: Pin) -> None:
        self._rebind(onto, self.place.version(onto.version, self.table))
        self.net = Net()
        for statement in self.statements:
            self._run(statement, again=True)

    def _rebind(self, onto: Pin, head: Version) -> None:
        self.pin, self.base = onto, head
        self._rows, self._bytes = onto.rows, onto.bytes
        self._added = self._removed = 0
        # The versions staged on the old base are garbage now; data files are kept.
        self.files = [f for f in self.files if f.startswith("data/")]
        self._staged = None

    def stage(self, behind: Sequence[Work] = ()) -> Staged:
        if behind:
            return self._stage_behind([cast("MemoryWork", other) for other in behind])
        if self._staged is None:
            state = self.current()
            if not state.id:
                state = self.place.write_version(state, self.properties)
                self.files.append(version_path(state.id))
            pin = msgspec.structs.replace(
                self.pin,
                version=state.id,
                counter=self.pin.counter if self.created else self.pin.counter + 1,
                rows=self._rows + self.net.rows_added - self.net.rows_removed,
                bytes=self._bytes + self.net.bytes_added + self._compaction.growth,
                fragments=len(state.fragments),
            )
            added, removed = self._added + self.net.rows_added, self._removed + self.net.rows_removed
            self._staged = Staged(pin, self.keys(), added, removed, tuple(self.files))
        return self._staged

    def _stage_behind(self, others: Sequence[MemoryWork]) -> Staged:
        together = Net(added=[added for work in (*others, self) for added in work.net.added])
        state = self.place.write_version(together.on(self.base), self.properties)
        self.files.append(version_path(state.id))
        pin = msgspec.structs.replace(
            self.pin,
            version=state.id,
            counter=self.pin.counter + len(others) + 1,
            rows=self.pin.rows + together.rows_added,
            bytes=self.pin.bytes + together.bytes_added,
            fragments=len(state.fragments),
        )
        return Staged(pin, self.keys(), self.net.rows_added, 0, tuple(self.files))

    def written(self) -> tuple[str, Sequence[str]]:
        names = [name for name in self.files if name]
        if self._first is not None:
            names += [version_path(self._first.id), *(p for f in self._first.fragments for p in f.paths)]
        return self.pin.location, tuple(dict.fromkeys(names))

    def _settled(self) -> Version:
        """The current rows and indexes: a schema change goes on from there."""
        self._not_in_upkeep()
        return self.current()

    def _chain(self, state: Version) -> None:
        """Go on from a state that changed more than rows. From here on any rival change is a conflict."""
        self._rows += self.net.rows_added - self.net.rows_removed
        self._bytes += self.net.bytes_added
        self._added += self.net.rows_added
        self._removed += self.net.rows_removed
        known = set(self.files)
        self.files.extend(p for f in state.fragments for p in f.paths if p not in known)
        self.base, self.net, self._indexes = state, Net(), Indexes()
        self.exclusive = True
        self._staged = None

    def keys(self) -> tuple[Keys, ...]:
        import pyarrow as pa

        by_columns: dict[tuple[str, ...], list[pa.Table]] = {}
        for statement in self.statements:
            if isinstance(statement, Keyed | Patch | Update) and statement.on and statement.keys is not None:
                by_columns.setdefault(tuple(statement.on), []).append(statement.keys.select(list(statement.on)))
        return tuple(keylib.summarise(on, pa.concat_tables(parts)) for on, parts in by_columns.items())
