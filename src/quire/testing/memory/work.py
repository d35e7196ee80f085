"""One transaction's staged work on one table: its life from the first statement to the staged version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from quire.conversion.source import empty, selected
from quire.formats import Overlap, Ran, Staged, Work
from quire.ledger import Change, Keys, Pin
from quire.testing.memory.columns_and_indexes import MemoryColumns, MemoryIndexes, MemoryUpkeep
from quire.testing.memory.draft import STANDING, Draft
from quire.testing.memory.files import Folder, Version, version_path
from quire.testing.memory.handed_files import MemoryFiles
from quire.testing.memory.net import Net, Rebase
from quire.testing.memory.rows import MemoryRows
from quire.testing.memory.run import run
from quire.testing.memory.statements import by_condition, keys_of, only_adds, told_otherwise, wrote
from quire.testing.memory.view import MemoryView

if TYPE_CHECKING:
    import pyarrow as pa


class MemoryWork:
    """Statements change a draft; it moves to a newer base, and `stage` writes it as one version."""

    def __init__(
        self,
        folder: Folder,
        pin: Pin,
        base: Version,
        *,
        properties: dict[str, str],
        table: str,
        created: bool = False,
    ) -> None:
        self.draft = Draft(folder, pin, base, properties=properties, table=table, created=created)
        self.rows = MemoryRows(self.draft)
        self.columns = MemoryColumns(self.draft)
        self.indexes = MemoryIndexes(self.draft)
        self.upkeep = MemoryUpkeep(self.draft)
        self.files = MemoryFiles(self.draft)
        self._first = base if created else None

    # -- what the statements came to --------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        draft = self.draft
        return bool(draft.created or draft.exclusive or draft.net or draft.indexes.changed or draft.compaction)

    @property
    def exclusive(self) -> bool:
        return self.draft.exclusive

    @property
    def additive(self) -> bool:
        draft = self.draft
        other = draft.created or draft.exclusive or draft.indexes.changed or draft.compaction or draft.pinned_to_base
        if other or not draft.statements or not only_adds(draft.statements):
            return False
        return not draft.net.deleted and not any(a.deleted for a in draft.net.added)

    def on(self, pin: Pin) -> bool:
        return self.draft.pin == pin

    def keys(self) -> tuple[Keys, ...]:
        return keys_of(self.draft.statements)

    def ran(self) -> Ran:
        draft = self.draft
        return Ran(draft.base if draft.exclusive else None, tuple(draft.statements))

    def view(self) -> MemoryView:
        return MemoryView(self.draft.folder, self.draft.current(), self.draft.table)

    def delta(self, columns: Sequence[str] | None = None) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        from quire.testing.memory.changes import changed_rows

        now = self.view()
        if self.draft.created:
            return empty(now.schema, columns), selected(now.scan(), columns)
        before = MemoryView(self.draft.folder, self._before(), self.draft.table)
        removed, added = changed_rows(before, now)
        return selected(removed, columns), selected(added, columns)

    def _before(self) -> Version:
        """The state that the work began on, or was moved to."""
        draft = self.draft
        return draft.folder.version(draft.pin.version, draft.table) if draft.exclusive else draft.base

    # -- going back -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Nothing is written in the background."""

    def mark(self) -> object:
        draft = self.draft
        return len(draft.statements), draft.net.copy(), draft.pinned_to_base, draft.base

    def take_back(self, mark: object) -> None:
        count, net, pinned, base = cast("tuple[int, Net, bool, Version]", mark)
        draft = self.draft
        assert base is draft.base, "only rows may have changed"
        draft.statements, draft.net, draft.pinned_to_base = draft.statements[:count], net.copy(), pinned
        draft.staged = None

    # -- moving to a newer base -------------------------------------------------------------------------------

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        draft = self.draft
        head = draft.folder.version(onto.version, draft.table)
        draft.compaction = draft.compaction.moved(head)
        draft.indexes.moved(draft.compaction.on(head))
        way = Rebase(draft.folder, draft.base, head, draft.net, wrote(draft.statements), theirs)
        overlap = way.overlap()
        if overlap is None:
            draft.net = way.moved or draft.net
            draft.rebind(onto, head)
        elif draft.pinned_to_base or any(map(by_condition, draft.statements)):
            overlap = replace(overlap, hard=True)  # it cannot be run again here
        return overlap

    def replay(self, onto: Pin, *, told: bool = True) -> Overlap | None:
        draft = self.draft
        known: list[tuple[Any, Mapping[str, Any]]] = [(draft, {name: getattr(draft, name) for name in STANDING})]
        known += [(statement, dict(vars(statement))) for statement in draft.statements]
        overlap: Overlap | None = None
        try:
            draft.rebind(onto, draft.folder.version(onto.version, draft.table))
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
        self.draft.staged = None

    # -- staging ----------------------------------------------------------------------------------------------

    def stage(self, behind: Sequence[Work] = ()) -> Staged:
        if behind:
            return self._stage_behind([cast("MemoryWork", other) for other in behind])
        draft = self.draft
        if draft.staged is None:
            state = draft.current()
            if not state.id:
                state = draft.folder.write_version(state, draft.properties)
                draft.files.append(version_path(state.id))
            tally = draft.tally.after(draft.net)
            pin = msgspec.structs.replace(
                draft.pin,
                version=state.id,
                counter=draft.pin.counter if draft.created else draft.pin.counter + 1,
                rows=tally.rows,
                bytes=max(0, tally.bytes + draft.compaction.growth),
                fragments=len(state.fragments),
            )
            draft.staged = Staged(pin, self.keys(), tally.added, tally.removed, tuple(draft.files))
        return draft.staged

    def _stage_behind(self, others: Sequence[MemoryWork]) -> Staged:
        """One version on the base with the rows of others and then our own; nobody else's work changes by it."""
        draft = self.draft
        together = Net(added=[added for work in (*others, self) for added in work.draft.net.added])
        state = draft.folder.write_version(together.on(draft.base), draft.properties)
        draft.files.append(version_path(state.id))
        pin = msgspec.structs.replace(
            draft.pin,
            version=state.id,
            counter=draft.pin.counter + len(others) + 1,
            rows=draft.pin.rows + together.rows_added,
            bytes=draft.pin.bytes + together.bytes_added,
            fragments=len(state.fragments),
        )
        return Staged(pin, self.keys(), draft.net.rows_added, 0, tuple(draft.files))

    def written(self) -> tuple[str, Sequence[str]]:
        names = [name for name in self.draft.files if name]
        if self._first is not None:
            names += [version_path(self._first.id), *(p for f in self._first.fragments for p in f.paths)]
        return self.draft.pin.location, tuple(dict.fromkeys(names))
