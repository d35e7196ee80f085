"""One transaction's staged work on one Lance table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
import numpy as np

from quire.errors import InvalidInput, KeyConflict, Refused, SchemaMismatch
from quire.formats import keys as keylib
from quire.formats.arrow import Missing, Source, empty, fit, fitting, scalar, selected, source
from quire.formats.lance import blobs, columns, match
from quire.formats.lance.changes import changed_rows, removed_rows, rows_of
from quire.formats.lance.indexes import Indexes, normalise
from quire.formats.lance.metering import Scan, metered, sending
from quire.formats.lance.net import Added, Net, Stager, data_bytes, numbers, written
from quire.formats.lance.rebase import MOVES_NO_ROW, Rebase
from quire.formats.lance.session import LanceSession, schema_of, translating
from quire.formats.lance.statements import (
    Append,
    Delete,
    Keyed,
    Patch,
    Sought,
    Staging,
    Statement,
    Tap,
    Update,
    done,
    patched,
)
from quire.formats.lance.upkeep import Tidying
from quire.formats.lance.verify import needed
from quire.formats.lance.view import LanceView
from quire.formats.protocol import (
    Built,
    Compacted,
    Found,
    Handed,
    IndexSpec,
    Overlap,
    Place,
    Progress,
    Run,
    Split,
    Staged,
    Upkeep,
    Work,
)
from quire.ledger import Change, Keys, Pin
from quire.store import submit

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


KEPT_BYTES = 8 << 20
"""Rows that are not larger stay in memory until the end of their transaction."""


class LanceWork:
    """Statements run on `base` plus the net effect so far; `stage` makes one version of the sum."""

    def __init__(
        self,
        session: LanceSession,
        pin: Pin,
        base: LanceDataset,
        *,
        properties: dict[str, str],
        table: str,
        created: bool = False,
    ) -> None:
        self.session = session
        self.table = table
        self.pin = pin
        self.base = base
        self.created = created
        self._first = base if created else None
        self.stager = Stager(session, pin.location, properties)
        self.statements: list[Statement] = []
        self.net = Net()
        self.exclusive = False
        self._rows = pin.rows
        self._bytes = pin.bytes
        self._added = pin.rows if created else 0
        self._removed = 0
        self._view: tuple[LanceDataset, dict[int, int]] | None = None
        self._staged: Staged | None = None
        self._pending: list[Append] = []
        self._pinned_to_base = False
        self._drifted = False
        self._indexes = Indexes()
        self._upkeep = Tidying(self.stager, table)

    # -- reading own writes -----------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        rows = self.net or any(p.staging.rows for p in self._pending)
        return bool(self.created or self.exclusive or rows or self._indexes.changed or self._upkeep)

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.base)

    @property
    def additive(self) -> bool:
        plain = not (self.created or self.exclusive or self._indexes.changed or self._upkeep or self._pinned_to_base)
        adds = all(isinstance(s, Append) or (isinstance(s, Keyed) and s.mode == "insert") for s in self.statements)
        return plain and adds and bool(self.statements) and not self.net.deleted and not self._has_own_deletes()

    def on(self, pin: Pin) -> bool:
        return self.pin == pin

    def view(self) -> LanceView:
        handle, _ = self._current()
        return LanceView(self.session, self._with_indexes(handle), self.table)

    def _current(self) -> tuple[LanceDataset, dict[int, int]]:
        """The base with the net effect so far, and which of its fragments are this transaction's own."""
        self._absorb()
        if not self.net and not self._upkeep:
            return self.base, {}
        if self._view is None:
            handle = self._apply()
            own = numbers(handle, self.net.added)
            self._view = handle, own
        return self._view

    def _touch(self) -> None:
        self._view = None
        self._staged = None

    def _absorb(self) -> None:
        """Take the results of background appends into the net effect, in order."""
        while self._pending:
            # A write that failed stays pending, so that nothing later can commit without it.
            fragments = self._pending[0].staging.fragments()
            self.net.add(fragments)
            self._pending.pop(0)

    def settle(self) -> None:
        self._absorb()

    def delta(self, columns: Sequence[str] | None = None) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        self.settle()
        if self.created:
            now = self.view()
            return empty(now.schema, columns), now.scan(columns=columns)
        if self.exclusive:
            return changed_rows(self.session.open(self.pin, self.table), self._current()[0], columns)
        return removed_rows(self.base, self.net, columns), self._added_rows(columns)

    def _added_rows(self, columns: Sequence[str] | None) -> pa.RecordBatchReader:
        """Rows that the statements added: those that are in memory from there, the others from their files."""
        kept = {}
        for statement in self.statements:
            staging = statement.staging if isinstance(statement, Append | Keyed | Patch) else None
            if staging is not None and staging.table is not None:
                fragments = staging.fragments()
                if len(fragments) == 1:
                    kept[str(fragments[0].files[0].path)] = staging.table
        added = [a for a in self.net.added if a.rows]
        if all(a.path in kept and not len(a.deleted) for a in added):
            batches = [batch for a in added for batch in kept[a.path].to_batches()]
            return selected(Source(self.schema, batches, whole=True).reader(), columns)
        handle, own = self._current()
        return rows_of(handle, sorted(own), columns)

    # -- statements -------------------------------------------------------------------------------------------

    def append(self, data: Any, *, missing: Missing) -> int:
        self._not_in_upkeep()
        rows = self._fit(data, missing=missing)
        staging = self._write(rows)
        statement = Append(staging)
        self.statements.append(statement)
        self._pending.append(statement)
        self._touch()
        return staging.rows

    def insert(self, data: Any, on: Sequence[str], *, missing: Missing) -> int:
        statement = self._keyed("insert", self._fit(data, missing=missing), on)
        self._run(statement)
        return statement.staging.rows

    def upsert(self, data: Any, on: Sequence[str], *, keep: Mapping[str, Any] | None = None) -> tuple[int, int]:
        keylib.check_columns(on, self.schema, self.table)
        rows = self._fit(data, only=True)
        absent = [n for n in on if rows.schema.get_field_index(n) < 0]
        if absent:
            raise SchemaMismatch(
                f"The data for table {self.table!r} lacks key column {absent[0]!r}.",
                next="An upsert needs every key column.",
                table=self.table,
                missing=absent,
            )
        whole = len(rows.schema.names) == len(self.schema.names)
        if whole and not keep:
            keyed = self._keyed("upsert", rows, on)
            matched = self._run(keyed)
            return keyed.staging.rows - matched, matched
        table = rows.table()
        keylib.check_distinct(table.select(list(on)), on, self.table)
        patch = Patch(table, tuple(on), keylib.masks(keep or {}, table, on, self.table))
        if whole and table.nbytes <= KEPT_BYTES:
            patch.fresh = self._write(Source(table.schema, table.to_batches(), True))
        matched = self._run(patch)
        return table.num_rows - matched, matched

    def upserted(self) -> tuple[int, int]:
        self.settle()
        added = replaced = 0
        for statement in self.statements:
            if isinstance(statement, Patch) or (isinstance(statement, Keyed | Sought) and statement.mode == "upsert"):
                rows = statement.source.num_rows if isinstance(statement, Patch) else statement.staging.rows
                added, replaced = added + rows - statement.matched, replaced + statement.matched
        return added, replaced

    def update(self, exprs: dict[str, str], values: dict[str, Any], where: str | None, key: Sequence[str]) -> int:
        if not exprs and not values:
            raise InvalidInput("An update needs at least one column to set.", next='update({"v": "v + 1"}, where="…").')
        columns.require(self.base, [*exprs, *values], self.table)
        touched = tuple(key) if any(n in key for n in (*exprs, *values)) else ()
        fields = blobs.given(self.schema)
        typed = {n: scalar(v, fields.field(n), self.table) for n, v in values.items()}
        return self._run(Update(dict(exprs), typed, where, touched))

    def delete(self, where: str) -> int:
        return self._run(Delete(where))

    def overwrite(self, data: Any, key: Sequence[str], *, schema: Literal["keep", "replace"]) -> int:
        from lance.fragment import write_fragments

        self._not_in_upkeep()
        rows = source(data, blobs.given(self.schema), table=self.table)
        if schema == "keep":
            rows = fit(blobs.stored(rows, self.schema), self.schema, table=self.table)
        columns.check_schema(rows.schema, self.table)
        keylib.check_columns(key, rows.schema, self.table)
        tap = Tap(tuple(key))
        flow = tap.through(rows)
        self.settle()

        def write(reader: Any) -> Any:
            with metered("write", self.base.uri, steps=1) as window, translating(f"data of {self.table}"):
                made: Any = write_fragments(
                    reader,
                    self.base,
                    schema=flow.schema,
                    mode="overwrite",
                    return_transaction=True,
                    max_bytes_per_file=1 << 30,
                )
                window.steps, window.in_turn = sending(file for f in made.operation.fragments for file in f.files)
                return made

        transaction = flow.feed(write)
        if key:
            keylib.check_distinct(tap.table(rows.schema), key, self.table)
        fragments = transaction.operation.fragments
        self.stager.files.extend(written(fragments, rows.schema))
        return self._replaced(self.stager.detach(self.base, transaction.operation), fragments, tap.rows)

    def add_columns(self, spec: Any) -> None:
        self._chain(columns.add(self.stager, self._settled(), spec, self.table))

    def drop_columns(self, names: Sequence[str]) -> None:
        self._chain(columns.drop(self.stager, self._settled(), names, self.table))

    def rename_column(self, old: str, new: str) -> None:
        self._chain(columns.rename(self.stager, self._settled(), old, new, self.table))

    def alter_column(self, name: str, *, type: Any = None, nullable: bool | None = None) -> None:
        if type is None and nullable is None:
            raise InvalidInput("alter_column needs a type or nullable=.", next='alter_column("v", type=pa.float64()).')
        handle = self._settled()
        if type is not None:
            handle = columns.retype(self.stager, handle, name, type, self.table)
        if nullable is not None:
            handle = columns.set_nullable(self.stager, handle, name, nullable, self.table)
        self._chain(handle)

    def create_index(self, spec: IndexSpec, *, replace: bool, run: Run | None = None) -> None:
        wanted = IndexSpec(spec.column, normalise(spec.kind), spec.name, spec.options)
        if run is not None:
            self.session.place(self.base)  # others must be able to read it
        self._indexes.want(self.base, wanted, replace=replace, table=self.table, run=run)
        self._staged = None

    def drop_index(self, name: str) -> None:
        self._indexes.drop(self.base, name, table=self.table)
        self._staged = None

    # -- files that others wrote ------------------------------------------------------------------------------

    def place(self) -> Place:
        self._not_in_upkeep()
        return self.session.place(self.base)

    def hand_in(self, handed: Handed) -> int:
        from lance.fragment import FragmentMetadata

        self._not_in_upkeep()
        fragments = [FragmentMetadata.from_json(text) for text in handed.fragments]
        rows = sum(int(f.physical_rows) for f in fragments)
        self._pinned_to_base = self._pinned_to_base or handed.rests_on_base
        if handed.op == "overwrite":
            self._settled_files(fragments, handed.schema or self.schema)
            self._replace(fragments, handed.schema or self.schema, rows)
            return rows - self._leave_out(fragments, handed.without)
        self._settled_files(fragments, self.schema)
        staging = Staging(rows - sum(map(len, handed.without.values())), done(fragments))
        if handed.op == "append":
            self._run(Append(staging))
            return rows
        assert handed.seek is not None
        return self._run(Sought(handed.op, staging, handed.on, handed.seek, handed.without, handed.build))

    def _leave_out(self, fragments: Sequence[Any], without: Mapping[int, Any]) -> int:
        """Take rows out of fragments that the table was just replaced with; how many."""
        from lance import LanceOperation

        own = numbers(self.base, [Added(f) for f in fragments])
        deleted = {number: without[i] for number, i in own.items() if i in without and len(without[i])}
        if not deleted:
            return 0
        updated, removed = self.stager.remove_rows(self.base, deleted)
        self.base = self.stager.detach(self.base, LanceOperation.Delete(updated, removed, "quire"))
        count = sum(map(len, deleted.values()))
        self._rows, self._added = self._rows - count, self._added - count
        self._touch()
        return count

    def _settled_files(self, fragments: list[Any], schema: pa.Schema) -> None:
        self.settle()
        self.stager.files.extend(written(fragments, schema))

    def _replace(self, fragments: list[Any], schema: pa.Schema, rows: int) -> int:
        """Go on from fragments of their own as all that the table holds."""
        from lance import LanceOperation
        from lance.schema import LanceSchema

        operation = LanceOperation.Overwrite(LanceSchema.from_pyarrow(schema), fragments)
        return self._replaced(self.stager.detach(self.base, operation), fragments, rows)

    def _replaced(self, handle: LanceDataset, fragments: list[Any], rows: int) -> int:
        old = self.pin.rows
        self.base = handle
        self.net, self.statements = Net(), []
        self.exclusive = True
        self._rows, self._bytes = rows, data_bytes(fragments)
        self._added, self._removed = rows, old
        self._indexes = Indexes()
        self._touch()
        return rows

    # -- upkeep -----------------------------------------------------------------------------------------------

    def compact(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> Compacted:
        self._no_rows_changed()
        self._not_in_upkeep()
        found = self._upkeep.compact(self.base, how, mode, progress)
        self._touch()
        return found

    def extend_indexes(
        self, how: Upkeep, *, mode: Literal["do", "plan"] = "do", progress: Progress | None = None
    ) -> list[str]:
        self._no_rows_changed()
        leave = self._indexes.names
        if mode == "plan":
            return self._upkeep.would_extend(self.base, how, leave)
        self._staged = None
        return self._upkeep.extend(self._current()[0], leave, progress)

    def compacting(self, how: Upkeep) -> Split[Compacted]:
        self._no_rows_changed()
        self._not_in_upkeep()
        found = self._upkeep.compacting(self.base, how)

        def take(answers: Sequence[bytes]) -> Compacted:
            self._touch()
            return found.take(answers)

        return Split(found.parts, take)

    def extending(self) -> Split[list[str]]:
        self._no_rows_changed()
        self._staged = None
        return self._upkeep.extending(self._current()[0], self._indexes.names)

    def _no_rows_changed(self) -> None:
        if self.created or self.exclusive or self.net or self._pending:
            raise self._apart()

    def _not_in_upkeep(self) -> None:
        if self._upkeep:
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
        self._absorb()
        before = self.net.copy()
        try:
            matched = self._apply_statement(statement)
        except BaseException:
            self.net = before
            raise
        if not again:
            self.statements.append(statement)
        self._touch()
        return matched

    def _apply_statement(self, statement: Statement) -> int:
        if isinstance(statement, Append):
            self.net.add(statement.staging.fragments())
            return 0
        if isinstance(statement, Keyed):
            return self._run_keyed(statement)
        if isinstance(statement, Sought):
            return self._run_sought(statement)
        if isinstance(statement, Patch):
            return self._run_patch(statement)
        if isinstance(statement, Update):
            return self._run_update(statement)
        return self._run_delete(statement)

    def _run_keyed(self, statement: Keyed) -> int:
        handle, own = self._current()
        addresses, _, positions = match.where_key(handle, statement.on, statement.keys)
        if statement.mode == "insert" and len(addresses):
            raise self.key_conflict(statement.keys.select(list(statement.on)).take(positions).to_pylist())
        fragments = statement.staging.fragments()
        self.net.remove(addresses, own, hard=False)
        self.net.add(fragments)
        statement.matched = len(np.unique(positions.to_numpy()))
        return statement.matched

    def _run_sought(self, statement: Sought) -> int:
        handle, own = self._current()
        place = self.session.place(handle)
        found = (
            statement.seek(place, None) if statement.build is None else self._build(statement, statement.build(place))
        )
        if statement.mode == "insert" and found.matched:
            raise self.key_conflict(list(found.examples))
        self.net.remove(found.addresses, own, hard=statement.mode == "delete")
        self.net.add(statement.staging.fragments(), statement.without)
        statement.matched = found.matched
        return found.matched

    def _build(self, statement: Sought, built: Built) -> Found:
        """Take over the rows that were made for this base."""
        from lance.fragment import FragmentMetadata

        fragments = [FragmentMetadata.from_json(text) for text in built.fragments]
        self.stager.files.extend(written(fragments, self.schema))
        statement.staging = Staging(sum(int(f.physical_rows) for f in fragments), done(fragments))
        return built.found

    def _run_patch(self, statement: Patch) -> int:
        """Given values from the input, the others from the row that is there, or null."""
        handle, own = self._current()
        addresses, rowids, positions = match.where_key(handle, statement.on, statement.keys)
        if len(np.unique(positions.to_numpy())) != len(positions):
            raise KeyConflict(
                f"Table {self.table!r} has several rows for one key, so some columns alone cannot be upserted.",
                next="Supply whole rows, or remove the duplicates first.",
                table=self.table,
            )
        given = statement.source
        others = [f for f in self.schema if f.name not in given.schema.names]
        fresh = given.num_rows - len(addresses)
        required = [f.name for f in others if not f.nullable]
        if fresh and required:
            raise SchemaMismatch(
                f"{fresh} rows for table {self.table!r} are new and lack required column {required[0]!r}.",
                next="Supply the column for new rows.",
                table=self.table,
                missing=required,
            )
        if not len(addresses) and statement.fresh is not None:
            statement.staging = statement.fresh
        else:
            wanted = [*(f.name for f in others), *statement.keep]
            old = match.rows_at(handle, rowids, wanted) if len(addresses) else None
            merged = patched(self.schema, statement, old, positions.to_numpy())
            fragments = self.stager.write(merged.to_reader(), self.base, self.schema) if merged.num_rows else []
            small = merged.get_total_buffer_size() <= KEPT_BYTES
            statement.staging = Staging(merged.num_rows, done(fragments), merged if small else None)
        self.net.remove(addresses, own, hard=False)
        self.net.add(statement.staging.fragments())
        statement.matched = len(addresses)
        return len(addresses)

    def _run_update(self, statement: Update) -> int:
        handle, own = self._current()
        tap = Tap(statement.on)
        addresses: list[Any] = []
        scan = Scan(handle)
        flow = Source(self.schema, self._updated(handle, statement, addresses, scan), whole=False)
        rows = tap.through(fit(flow, self.schema, table=self.table))
        fragments = self._write_stream(rows, scan)
        found = np.concatenate(addresses) if addresses else np.empty(0, np.uint64)
        if statement.on:
            statement.keys = tap.table(self.schema)
            keylib.check_distinct(statement.keys, statement.on, self.table)
            taken, _, positions = match.where_key(handle, statement.on, statement.keys)
            clash = ~np.isin(taken, found)
            if clash.any():
                raise self.key_conflict(statement.keys.take(positions.to_numpy()[clash]).to_pylist())
        self.net.remove(found, own, hard=True)
        self.net.add(fragments)
        return len(found)

    def _updated(
        self, handle: LanceDataset, statement: Update, addresses: list[Any], scan: Scan
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in match.computed(handle, statement.exprs, statement.where, scan):
            addresses.append(batch.column(batch.schema.get_field_index("_rowaddr")).to_numpy().astype(np.uint64))
            arrays, fields = [], []
            for field in self.schema:
                if field.name in statement.values:
                    column = pa.repeat(statement.values[field.name], batch.num_rows)
                else:
                    column = batch.column(batch.schema.get_field_index(field.name))
                arrays.append(column)
                fields.append(pa.field(field.name, column.type))
            computed = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
            rows = blobs.stored(Source(computed.schema, [computed], True), self.schema)
            yield from fit(rows, self.schema, table=self.table).batches

    def _run_delete(self, statement: Delete) -> int:
        handle, own = self._current()
        addresses = match.where(handle, statement.where)
        self.net.remove(addresses, own, hard=True)
        return len(addresses)

    def take_away(self, addresses: Any) -> None:
        """Remove rows of the base by address, as a statement that cannot be run again elsewhere."""
        self.net.remove(addresses, {}, hard=True)
        self._pinned_to_base = True
        self._touch()

    # -- input ------------------------------------------------------------------------------------------------

    def _fit(self, data: Any, *, missing: Missing = "error", only: bool = False) -> Source:
        schema, table = self.schema, self.table
        ready = fitting(data, schema)
        if ready is not None:
            return ready
        rows = blobs.stored(source(data, blobs.given(schema), table=table), schema)
        return fit(rows, schema, table=table, missing=missing, only=only)

    def _keyed(self, mode: Literal["insert", "upsert"], rows: Source, on: Sequence[str]) -> Keyed:
        keylib.check_columns(on, self.schema, self.table)
        on = tuple(on)
        if rows.whole:
            keys = rows.table().select(list(on))
            keylib.check_distinct(keys, on, self.table)
            return Keyed(mode, self._write(rows), on, keys)
        tap = Tap(on)
        fragments = self._write_stream(tap.through(rows))
        keys = tap.table(rows.schema)
        keylib.check_distinct(keys, on, self.table)
        return Keyed(mode, Staging(tap.rows, done(fragments)), on, keys)

    def _write(self, rows: Source) -> Staging:
        """Rows in memory are written in the background; a stream is consumed here, by the thread that owns it."""
        if not rows.whole:
            tap = Tap(())
            fragments = self._write_stream(tap.through(rows))
            return Staging(tap.rows, done(fragments))
        table = rows.table()
        if table.num_rows == 0:
            return Staging(0, done([]))
        base, schema = self.base, self.schema
        future: Future[Any] = submit(lambda: self.stager.write(table.to_reader(), base, schema))
        return Staging(table.num_rows, future, table if table.get_total_buffer_size() <= KEPT_BYTES else None)

    def _write_stream(self, rows: Source, scan: Scan | None = None) -> list[Any]:
        """Write batches as they come, perhaps from a scan."""
        return rows.feed(lambda reader: self.stager.write(reader, self.base, self.schema, scan=scan))

    # -- moving to a newer base, staging ----------------------------------------------------------------------

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        self.settle()
        head = self.session.open(onto)
        self._upkeep.move(head)
        place = self.session.place(head) if any(isinstance(s, Sought) for s in self.statements) else None
        overlap = Rebase(
            self.base, head, self.net, self.statements, theirs, place=place, drifted=self._drifted
        ).overlap()
        if overlap is None:
            self._drifted = self._drifted or any(not MOVES_NO_ROW.issuperset(change.ops) for change in theirs)
            self._rebind(onto, head)
        elif self._pinned_to_base and not overlap.hard:
            overlap = replace(overlap, kind="rows", hard=True)
        return overlap

    def replay(self, onto: Pin) -> None:
        self.settle()
        self._rebind(onto, self.session.open(onto))
        self.net = Net()
        for statement in self.statements:
            self._run(statement, again=True)

    def _rebind(self, onto: Pin, head: LanceDataset) -> None:
        self.pin, self.base = onto, head
        self._rows, self._bytes = onto.rows, onto.bytes
        self._added = self._removed = 0
        # The manifests and deletion vectors staged on the old base are garbage now; data and index files are kept.
        self.stager.files = [f for f in self.stager.files if f.startswith(("data/", "_indices/"))]
        self._touch()

    def stage(self, behind: Sequence[Work] = ()) -> Staged:
        if behind:
            return self._stage_behind([cast("LanceWork", other) for other in behind])
        if self._staged is None:
            handle, _ = self._current() if self._view or self._has_own_deletes() else (self._apply(), {})
            handle = self._with_indexes(handle)
            added, removed = self._added + self.net.rows_added, self._removed + self.net.rows_removed
            pin = msgspec.structs.replace(
                self.pin,
                version=str(handle.version),
                counter=self.pin.counter if self.created else self.pin.counter + 1,
                rows=self._rows + self.net.rows_added - self.net.rows_removed,
                bytes=max(0, self._bytes + self.net.bytes_added + self._upkeep.growth),
                fragments=len(handle.fragment_ids()),
            )
            self._staged = Staged(pin, self.keys(), added, removed, tuple(self.stager.files))
        return self._staged

    def _stage_behind(self, others: Sequence[LanceWork]) -> Staged:
        """One version on the base with the rows of others and then our own; nobody else's work changes by it."""
        together = Net()
        for work in (*others, self):
            together.added.extend(work.net.added)
        handle = self.stager.apply(self.base, together)
        pin = msgspec.structs.replace(
            self.pin,
            version=str(handle.version),
            counter=self.pin.counter + len(others) + 1,
            rows=self.pin.rows + together.rows_added,
            bytes=self.pin.bytes + together.bytes_added,
            fragments=len(handle.fragment_ids()),
        )
        return Staged(pin, self.keys(), self.net.rows_added, 0, tuple(self.stager.files))

    def written(self) -> tuple[str, Sequence[str]]:
        names = [name for name in self.stager.files if name]
        if self._first is not None:
            names += [name for name in needed(self._first) if not name.endswith("/")]
        return self.pin.location, tuple(dict.fromkeys(names))

    def _has_own_deletes(self) -> bool:
        return any(len(a.deleted) for a in self.net.added)

    def _apply(self) -> LanceDataset:
        self._absorb()
        return self.stager.apply(self._upkeep.rows(self.base), self.net)

    def _with_indexes(self, handle: LanceDataset) -> LanceDataset:
        handle = self._indexes.apply(self.stager, handle, self.table)
        return self._upkeep.indexes(handle, self._indexes.names)

    def _settled(self) -> LanceDataset:
        """The current rows as one staged version, pending indexes included: a schema change goes on from there."""
        self._not_in_upkeep()
        return self._indexes.apply(self.stager, self._current()[0], self.table)

    def _chain(self, handle: LanceDataset) -> None:
        """Go on from a staged version that changed more than rows. From here on any rival change is a conflict."""
        self._rows += self.net.rows_added - self.net.rows_removed
        self._bytes += self.net.bytes_added
        self._added += self.net.rows_added
        self._removed += self.net.rows_removed
        self.base, self.net = handle, Net()
        self.exclusive = True
        self._indexes = Indexes()
        self._touch()

    def keys(self) -> tuple[Keys, ...]:
        by_columns: dict[tuple[str, ...], list[pa.Table]] = {}
        for statement in self.statements:
            if isinstance(statement, Keyed | Patch | Update) and statement.on and statement.keys is not None:
                by_columns.setdefault(tuple(statement.on), []).append(statement.keys.select(list(statement.on)))
        import pyarrow as pa

        sought = [s for s in self.statements if isinstance(s, Sought) and s.mode != "delete"]
        unlisted = tuple(Keys(columns=s.on, count=s.staging.rows) for s in sought)
        return unlisted + tuple(keylib.summarise(on, pa.concat_tables(parts)) for on, parts in by_columns.items())

    def key_conflict(self, found: list[dict[str, Any]]) -> KeyConflict:
        return KeyConflict(
            f"Table {self.table!r} already has a row with {keylib.show(found)}.",
            next="Use upsert to replace it, or leave those rows out.",
            table=self.table,
            keys=found[:20],
        )
