"""One transaction's staged work on one Lance table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from quire.errors import InvalidInput, KeyConflict, SchemaMismatch
from quire.formats import keys as keylib
from quire.formats.arrow import Missing, Source, fit, scalar, source
from quire.formats.lance import columns, match
from quire.formats.lance.indexes import Indexes, normalise
from quire.formats.lance.net import Net, Stager, data_bytes, numbers
from quire.formats.lance.rebase import Rebase
from quire.formats.lance.session import LanceSession
from quire.formats.lance.statements import Append, Delete, Keyed, Patch, Staging, Statement, Tap, Update, done
from quire.formats.lance.view import LanceView
from quire.formats.protocol import IndexSpec, Overlap, Staged
from quire.ledger import Change, Keys, Pin
from quire.store import submit

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


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
        self._indexes = Indexes()

    # -- reading own writes -----------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        rows = self.net or any(p.staging.rows for p in self._pending)
        return bool(self.created or self.exclusive or rows or self._indexes.changed)

    @property
    def schema(self) -> pa.Schema:
        return self.base.schema

    def on(self, pin: Pin) -> bool:
        return self.pin == pin

    def view(self) -> LanceView:
        handle, _ = self._current()
        handle = self._indexes.apply(self.stager, handle, self.table)
        return LanceView(self.session, handle, self.table)

    def _current(self) -> tuple[LanceDataset, dict[int, int]]:
        """The base with the net effect so far, and which of its fragments are this transaction's own."""
        self._absorb()
        if not self.net:
            return self.base, {}
        if self._view is None:
            handle = self.stager.apply(self.base, self.net)
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

    # -- statements -------------------------------------------------------------------------------------------

    def append(self, data: Any, *, missing: Missing) -> int:
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

    def upsert(self, data: Any, on: Sequence[str]) -> tuple[int, int]:
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
        statement: Statement
        if len(rows.schema.names) == len(self.schema.names):
            statement = self._keyed("upsert", rows, on)
            count = statement.staging.rows
        else:
            table = rows.table()
            keylib.check_distinct(table.select(list(on)), on, self.table)
            statement, count = Patch(table, tuple(on)), table.num_rows
        matched = self._run(statement)
        return count - matched, matched

    def update(self, exprs: dict[str, str], values: dict[str, Any], where: str | None, key: Sequence[str]) -> int:
        if not exprs and not values:
            raise InvalidInput("An update needs at least one column to set.", next='update({"v": "v + 1"}, where="…").')
        columns.require(self.base, [*exprs, *values], self.table)
        touched = tuple(key) if any(n in key for n in (*exprs, *values)) else ()
        typed = {n: scalar(v, self.schema.field(n), self.table) for n, v in values.items()}
        return self._run(Update(dict(exprs), typed, where, touched))

    def delete(self, where: str) -> int:
        return self._run(Delete(where))

    def overwrite(self, data: Any, key: Sequence[str], *, schema: Literal["keep", "replace"]) -> int:
        from lance.fragment import write_fragments

        rows = source(data, self.schema, table=self.table)
        if schema == "keep":
            rows = fit(rows, self.schema, table=self.table)
        columns.check_schema(rows.schema, self.table)
        keylib.check_columns(key, rows.schema, self.table)
        tap = Tap(tuple(key))
        flow = tap.through(rows)
        self.settle()
        old = self.pin.rows
        transaction: Any = flow.feed(
            lambda reader: self.session.call(
                "write",
                lambda: write_fragments(
                    reader,
                    self.base,
                    schema=flow.schema,
                    mode="overwrite",
                    return_transaction=True,
                    max_bytes_per_file=1 << 30,
                ),
                hops=1,
                what=f"data of {self.table}",
            )
        )
        if key:
            keylib.check_distinct(tap.table(rows.schema), key, self.table)
        fragments = transaction.operation.fragments
        self.stager.files.extend(f"data/{f.path}" for fragment in fragments for f in fragment.files)
        self.base = self.stager.detach(self.base, transaction.operation)
        self.net, self.statements = Net(), []
        self.exclusive = True
        self._rows, self._bytes = tap.rows, data_bytes(fragments)
        self._added, self._removed = tap.rows, old
        self._indexes = Indexes()
        self._touch()
        return tap.rows

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

    def create_index(self, spec: IndexSpec, *, replace: bool) -> None:
        wanted = IndexSpec(spec.column, normalise(spec.kind), spec.name, spec.options)
        self._indexes.want(self.base, wanted, replace=replace, table=self.table)
        self._staged = None

    def drop_index(self, name: str) -> None:
        self._indexes.drop(self.base, name, table=self.table)
        self._staged = None

    # -- running a statement on the current base --------------------------------------------------------------

    def _run(self, statement: Statement, *, again: bool = False) -> int:
        """Apply a statement to the net effect, whole or not at all; the number of existing rows it matched."""
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
        return len(np.unique(positions.to_numpy()))

    def _run_patch(self, statement: Patch) -> int:
        """Given columns from the input, the others from the row that is there, or null."""
        import pyarrow as pa

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
        source_row = np.full(given.num_rows, -1, np.int64)
        source_row[positions.to_numpy()] = np.arange(len(addresses))
        index = pa.array(source_row, mask=source_row < 0)
        old = match.rows_at(self.session, handle, rowids, [f.name for f in others]) if len(addresses) else None
        parts = []
        for field in self.schema:
            if field.name in given.schema.names:
                parts.append(given.column(field.name))
            elif old is None:
                parts.append(pa.nulls(given.num_rows, field.type))
            else:
                parts.append(old.column(field.name).take(index))
        merged = pa.table(parts, schema=self.schema)
        fragments = self.stager.write(merged.to_reader(), self.base, self.schema) if merged.num_rows else []
        self.net.remove(addresses, own, hard=False)
        self.net.add(fragments)
        return len(addresses)

    def _run_update(self, statement: Update) -> int:
        handle, own = self._current()
        tap = Tap(statement.on)
        addresses: list[Any] = []
        flow = Source(self.schema, self._updated(handle, statement, addresses), whole=False)
        rows = tap.through(fit(flow, self.schema, table=self.table))
        fragments = self._write_stream(rows)
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

    def _updated(self, handle: LanceDataset, statement: Update, addresses: list[Any]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in match.computed(handle, statement.exprs, statement.where):
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
            yield from fit(Source(computed.schema, [computed], True), self.schema, table=self.table).batches

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
        return fit(
            source(data, self.schema, table=self.table), self.schema, table=self.table, missing=missing, only=only
        )

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
        return Staging(table.num_rows, future)

    def _write_stream(self, rows: Source) -> list[Any]:
        """Write batches as they come."""
        return rows.feed(lambda reader: self.stager.write(reader, self.base, self.schema))

    # -- moving to a newer base, staging ----------------------------------------------------------------------

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        self.settle()
        head = self.session.open(onto)
        overlap = Rebase(self.base, head, self.net, self.statements, theirs).overlap()
        if overlap is None:
            self._rebind(onto, head)
        elif self._pinned_to_base:
            overlap = replace(overlap, hard=True)
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

    def stage(self) -> Staged:
        if self._staged is None:
            handle, _ = self._current() if self._view or self._has_own_deletes() else (self._apply(), {})
            handle = self._indexes.apply(self.stager, handle, self.table)
            added, removed = self._added + self.net.rows_added, self._removed + self.net.rows_removed
            pin = msgspec.structs.replace(
                self.pin,
                version=str(handle.version),
                counter=self.pin.counter if self.created else self.pin.counter + 1,
                rows=self._rows + self.net.rows_added - self.net.rows_removed,
                bytes=self._bytes + self.net.bytes_added,
            )
            self._staged = Staged(pin, self._keys(), added, removed, tuple(self.stager.files))
        return self._staged

    def _has_own_deletes(self) -> bool:
        return any(len(a.deleted) for a in self.net.added)

    def _apply(self) -> LanceDataset:
        self._absorb()
        return self.stager.apply(self.base, self.net)

    def _settled(self) -> LanceDataset:
        """The current rows as one staged version, pending indexes included: a schema change goes on from there."""
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

    def _keys(self) -> tuple[Keys, ...]:
        by_columns: dict[tuple[str, ...], list[pa.Table]] = {}
        for statement in self.statements:
            if isinstance(statement, Keyed | Patch | Update) and statement.on and statement.keys is not None:
                by_columns.setdefault(tuple(statement.on), []).append(statement.keys.select(list(statement.on)))
        import pyarrow as pa

        return tuple(keylib.summarise(on, pa.concat_tables(parts)) for on, parts in by_columns.items())

    def key_conflict(self, found: list[dict[str, Any]]) -> KeyConflict:
        return KeyConflict(
            f"Table {self.table!r} already has a row with {keylib.show(found)}.",
            next="Use upsert to replace it, or leave those rows out.",
            table=self.table,
            keys=found[:20],
        )
