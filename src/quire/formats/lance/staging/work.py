"""One transaction's staged work on one Lance table: its life from the first statement to the staged version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import msgspec

from quire.conversion.source import Source, empty, selected
from quire.formats import Overlap, Ran, Staged, Work
from quire.formats.lance.compaction.work import LanceUpkeep
from quire.formats.lance.inspect.contents import needed
from quire.formats.lance.inspect.row_diff import changed_rows, removed_rows, rows_of
from quire.formats.lance.lookups.stored import notes
from quire.formats.lance.session import LanceSession
from quire.formats.lance.staging.columns_and_indexes import LanceColumns, LanceIndexes
from quire.formats.lance.staging.draft import STANDING, Draft
from quire.formats.lance.staging.handed_files import LanceFiles
from quire.formats.lance.staging.net_change import Net
from quire.formats.lance.staging.rebase import Rebase
from quire.formats.lance.staging.rows import LanceRows
from quire.formats.lance.staging.run import run
from quire.formats.lance.staging.statements import (
    Append,
    Keyed,
    Patch,
    Sought,
    by_condition,
    keys_of,
    only_adds,
    told_otherwise,
)
from quire.formats.lance.view import LanceView
from quire.ledger import Change, Keys, NotedKeys, Pin
from quire.store import run_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


class LanceWork:
    """Statements change a draft; it moves to a newer base, and `stage` makes one version of it."""

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
        self.draft = Draft(session, pin, base, properties=properties, table=table, created=created)
        self.rows = LanceRows(self.draft)
        self._first = base if created else None

    @cached_property
    def columns(self) -> LanceColumns:
        return LanceColumns(self.draft)

    @cached_property
    def indexes(self) -> LanceIndexes:
        return LanceIndexes(self.draft)

    @cached_property
    def upkeep(self) -> LanceUpkeep:
        return LanceUpkeep(self.draft)

    @cached_property
    def files(self) -> LanceFiles:
        return LanceFiles(self.draft)

    # -- what the statements came to --------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        draft = self.draft
        rows = draft.net or any(p.staging.rows for p in draft.pending)
        return bool(draft.created or draft.exclusive or rows or draft.changes_indexes or draft.has_upkeep)

    @property
    def exclusive(self) -> bool:
        return self.draft.exclusive

    @property
    def additive(self) -> bool:
        draft = self.draft
        other = draft.created or draft.exclusive or draft.changes_indexes or draft.has_upkeep or draft.pinned_to_base
        if other or not draft.statements or not only_adds(draft.statements):
            return False
        return not draft.net.deleted and not draft.has_own_deletes()

    def on(self, pin: Pin) -> bool:
        return self.draft.pin == pin

    def keys(self) -> tuple[Keys, ...]:
        return keys_of(self.draft.statements)

    def ran(self) -> Ran:
        draft = self.draft
        return Ran(draft.base.version if draft.exclusive else None, tuple(draft.statements))

    def view(self) -> LanceView:
        handle, _ = self.draft.current()
        shown = self.draft.readable(self.draft.with_indexes(handle))
        return LanceView(self.draft.session, shown, self.draft.table)

    def delta(self, columns: Sequence[str] | None = None) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        draft = self.draft
        draft.absorb()
        if draft.created:
            now = self.view()
            return empty(now.schema, columns), now.scan(columns=columns)
        if draft.exclusive:
            return changed_rows(draft.session.open(draft.pin, draft.table), draft.current()[0], columns)
        return removed_rows(draft.base, draft.net, columns), self._added_rows(columns)

    def _added_rows(self, columns: Sequence[str] | None) -> pa.RecordBatchReader:
        """Rows that the statements added: those that are in memory from there, the others from their files."""
        draft, kept = self.draft, {}
        for statement in draft.statements:
            staging = statement.staging if isinstance(statement, Append | Keyed | Patch) else None
            if staging is not None and staging.table is not None:
                fragments = staging.fragments()
                if len(fragments) == 1:
                    kept[str(fragments[0].files[0].path)] = staging.table
        added = [a for a in draft.net.added if a.rows]
        if all(a.path in kept and not len(a.deleted) for a in added):
            batches = [batch for a in added for batch in kept[a.path].to_batches()]
            return selected(Source(draft.schema, batches, whole=True).reader(), columns)
        handle, own = draft.current()
        return rows_of(handle, sorted(own), columns)

    # -- going back -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        self.draft.absorb()
        self.draft.stager.send_rows()  # whoever waits for others can do that meanwhile

    def mark(self) -> object:
        draft = self.draft
        draft.absorb()
        return len(draft.statements), draft.net.copy(), draft.pinned_to_base, draft.base

    def take_back(self, mark: object) -> None:
        self.draft.absorb()
        count, net, pinned, base = cast("tuple[int, Net, bool, LanceDataset]", mark)
        draft = self.draft
        assert base is draft.base, "only rows may have changed"
        draft.statements, draft.net, draft.pinned_to_base = draft.statements[:count], net.copy(), pinned
        draft.touch()

    # -- moving to a newer base -------------------------------------------------------------------------------

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        draft = self.draft
        draft.absorb()
        head = draft.session.open(onto)
        if draft.has_upkeep:
            draft.upkeep.move(head)
        place = draft.session.place(head) if any(isinstance(s, Sought) for s in draft.statements) else None
        way = Rebase(draft.base, head, draft.net, draft.statements, theirs, place=place)
        overlap = way.overlap()
        if overlap is None:
            draft.net = way.moved or draft.net
            draft.rebind(onto, head)
        elif (draft.pinned_to_base or any(map(by_condition, draft.statements))) and not overlap.hard:
            overlap = replace(overlap, kind="rows", hard=True)  # it cannot be run again here
        return overlap

    def replay(self, onto: Pin, *, told: bool = True) -> Overlap | None:
        draft = self.draft
        draft.absorb()
        known: list[tuple[Any, Mapping[str, Any]]] = [(draft, {name: getattr(draft, name) for name in STANDING})]
        known += [(statement, dict(vars(statement))) for statement in draft.statements]
        overlap: Overlap | None = None
        try:
            draft.rebind(onto, draft.session.open(onto))
            draft.net = Net()
            for statement in draft.statements:
                run(draft, statement, again=True)
            if told and told_otherwise(draft.statements):
                overlap = Overlap("counts", hard=True)
        except BaseException:
            self._stand(known)
            raise
        if overlap is not None:
            self._stand(known)
        return overlap

    def _stand(self, known: Sequence[tuple[Any, Mapping[str, Any]]]) -> None:
        """Back to where the work stood."""
        for owner, values in known:
            vars(owner).update(values)
        self.draft.touch()

    # -- staging ----------------------------------------------------------------------------------------------

    def stage(self, behind: Sequence[Work] = ()) -> Staged:
        if behind:
            return self._stage_behind([cast("LanceWork", other) for other in behind])
        draft = self.draft
        if draft.staged is None:
            handle = draft.final()
            tally = draft.tally.after(draft.net)
            pin = msgspec.structs.replace(
                draft.pin,
                version=str(handle.version),
                counter=draft.pin.counter if draft.created else draft.pin.counter + 1,
                rows=tally.rows,
                bytes=max(0, tally.bytes + (draft.upkeep.growth if draft.has_upkeep else 0)),
                fragments=len(handle.fragment_ids()),
            )
            draft.stager.send(handle.version, *self._own_first())
            draft.staged = Staged(pin, self.keys(), tally.added, tally.removed, draft.stager.sent, self._noted())
        return draft.staged

    def _own_first(self) -> list[int]:
        """The version that plain clients see of a new table until the first backfill."""
        return [] if self._first is None else [int(self._first.version)]

    def _stage_behind(self, others: Sequence[LanceWork]) -> Staged:
        """One version on the base with the rows of others and then our own; nobody else's work changes by it."""
        draft = self.draft
        together = Net()
        for work in (*others, self):
            together.added.extend(work.draft.net.added)
        handle = draft.stager.apply(draft.base, together)
        pin = msgspec.structs.replace(
            draft.pin,
            version=str(handle.version),
            counter=draft.pin.counter + len(others) + 1,
            rows=draft.pin.rows + together.rows_added,
            bytes=draft.pin.bytes + together.bytes_added,
            fragments=len(handle.fragment_ids()),
        )
        rows = [other.draft.stager.send_rows for other in others if other.draft.stager.outbox.holds_any]
        run_parallel([lambda: draft.stager.send(handle.version), *rows])
        return Staged(pin, self.keys(), draft.net.rows_added, 0, draft.stager.sent, self._noted())

    def _noted(self) -> tuple[NotedKeys, ...]:
        if not self.draft.session.keys.asked(self.draft.pin.location):
            return ()
        return notes(self.draft.base, [added.fragment for added in self.draft.net.added])

    def written(self) -> tuple[str, Sequence[str]]:
        names = [name for name in self.draft.stager.sent if name]
        if self._first is not None:
            outbox = self.draft.stager.outbox
            names += [name for name in needed(self._first) if not name.endswith("/") and name not in outbox]
        return self.draft.pin.location, tuple(dict.fromkeys(names))
