"""One transaction's staged work on one Delta table: its life from the first statement to the staged commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from quire.conversion.source import empty, selected
from quire.errors import StorageError
from quire.formats import Overlap, Ran, Staged, Work
from quire.formats.delta.changes import changed_rows
from quire.formats.delta.log.names import LOG
from quire.formats.delta.log.published import data_of
from quire.formats.delta.log.state import State
from quire.formats.delta.staging.columns_and_upkeep import DeltaColumns, DeltaIndexes, DeltaUpkeep
from quire.formats.delta.staging.commit import Base, Version, version_of_client, version_on
from quire.formats.delta.staging.draft import STANDING, Draft
from quire.formats.delta.staging.handed_files import DeltaFiles
from quire.formats.delta.staging.net import Net, Rebase
from quire.formats.delta.staging.rows import DeltaRows
from quire.formats.delta.staging.run import run
from quire.formats.delta.staging.statements import (
    Append,
    Delete,
    Update,
    by_condition,
    keys_of,
    only_adds,
    told_otherwise,
    wrote,
)
from quire.formats.delta.view import DeltaView
from quire.formats.tasks import place_of
from quire.ledger import Change, Keys, Pin
from quire.store import Outcome, run_parallel

if TYPE_CHECKING:
    import pyarrow as pa


class DeltaWork:
    """Statements change a draft; it moves to a newer base, and `stage` writes it as one commit that nobody sees."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.rows = DeltaRows(draft)
        self.columns = DeltaColumns(draft)
        self.indexes = DeltaIndexes(draft)
        self.upkeep = DeltaUpkeep(draft)
        self.files = DeltaFiles(draft)

    # -- what the statements came to --------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        draft = self.draft
        return bool(draft.created or draft.exclusive or draft.net or draft.compaction)

    @property
    def exclusive(self) -> bool:
        return self.draft.exclusive

    @property
    def additive(self) -> bool:
        draft = self.draft
        other = draft.created or draft.exclusive or draft.compaction or draft.pinned_to_base
        if other or not draft.statements or not only_adds(draft.statements):
            return False
        return not draft.net.deleted and not any(len(a.deleted) for a in draft.net.added)

    def on(self, pin: Pin) -> bool:
        return self.draft.pin == pin

    def keys(self) -> tuple[Keys, ...]:
        return keys_of(self.draft.statements)

    def ran(self) -> Ran:
        draft = self.draft
        return Ran(draft.base if draft.exclusive else None, tuple(draft.statements))

    def view(self) -> DeltaView:
        return DeltaView(self.draft.folder, self.draft.current(), self.draft.table)

    def delta(self, columns: Sequence[str] | None = None) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        now = self.view()
        if self.draft.created:
            return empty(now.schema, columns), selected(now.scan(), columns)
        before = DeltaView(self.draft.folder, self._before(), self.draft.table)
        removed, added = changed_rows(before, now)
        return selected(removed, columns), selected(added, columns)

    def _before(self) -> State:
        """The state that the work began on, or was moved to."""
        draft = self.draft
        return draft.folder.state(draft.pin.version) if draft.exclusive else draft.base

    # -- going back -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Nothing is written in the background."""

    def mark(self) -> object:
        draft = self.draft
        return len(draft.statements), draft.net.copy(), draft.pinned_to_base, draft.base

    def take_back(self, mark: object) -> None:
        count, net, pinned, base = cast("tuple[int, Net, bool, State]", mark)
        draft = self.draft
        assert base is draft.base, "only rows may have changed"
        draft.statements, draft.net, draft.pinned_to_base = draft.statements[:count], net.copy(), pinned
        draft.staged = None

    # -- moving to a newer base -------------------------------------------------------------------------------

    def rebase(self, onto: Pin, theirs: Sequence[Change]) -> Overlap | None:
        draft = self.draft
        if draft.given is not None:
            return Overlap("rows", hard=True)
        head = draft.folder.state(onto.version)
        draft.compaction = draft.compaction.moved(draft.folder, head)
        store, place = draft.folder.store, None
        if any(mine.seek is not None for mine in wrote(draft.statements)):
            place = place_of(store, "delta", store.reach.address(draft.folder.location), onto.version)
        way = Rebase(draft.folder, draft.base, head, draft.net, wrote(draft.statements), theirs, place)
        overlap = way.overlap()
        if overlap is None:
            draft.net = way.moved or draft.net
            draft.rebind(onto)
        elif draft.pinned_to_base or any(map(by_condition, draft.statements)):
            overlap = replace(overlap, hard=True)  # it cannot be run again here
        return overlap

    def replay(self, onto: Pin, *, told: bool = True) -> Overlap | None:
        draft = self.draft
        known: list[tuple[Any, Mapping[str, Any]]] = [(draft, {name: getattr(draft, name) for name in STANDING})]
        known += [(statement, dict(vars(statement))) for statement in draft.statements]
        overlap: Overlap | None = None
        try:
            draft.rebind(onto)
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
        draft = self.draft
        base = Base(draft.origin, draft.follows, draft.pin.counter)
        if behind:
            for other in behind:
                base = cast("DeltaWork", other)._added_on(base).base(base.counter + 1)
            return self._written(self._added_on(base), base.counter + 1)
        if draft.staged is None:
            if self.additive:
                draft.staged = self._written(self._added_on(base), base.counter + 1)
                return draft.staged
            counter = draft.pin.counter if draft.created else draft.pin.counter + 1
            if draft.client_file is not None:
                draft.staged = self._written(version_of_client(base, *draft.client_file), counter)
                return draft.staged
            target = draft.settled_files(draft.current())
            version = version_on(
                base,
                target,
                counter=0 if draft.origin.version < 0 else counter,
                lake=draft.lake,
                write=draft.write_id,
                time=draft.time,
                operation=self._operation(),
                rearranged=bool(draft.compaction),
                given=draft.given,
            )
            draft.staged = self._written(version, counter)
            if draft.created:
                draft.origin, draft.follows = version.state, version.follows
        return draft.staged

    def _added_on(self, base: Base) -> Version:
        """The commit of work that only adds rows, on a state with others' rows too. It is the same in every process."""
        draft = self.draft
        files = (*base.state.files, *(a.file for a in draft.net.added if a.file.rows))
        return version_on(
            base,
            base.state.change(files=files),
            counter=base.counter + 1,
            lake=draft.lake,
            write=draft.write_id,
            time=draft.time,
            operation="WRITE",
        )

    def _operation(self) -> str:
        """What Delta clients call the commit in the history of the table."""
        draft = self.draft
        if draft.operation is not None:
            return draft.operation
        if draft.created:
            return "CREATE TABLE"
        if draft.compaction:
            return "OPTIMIZE"
        if draft.exclusive:
            return "REPLACE TABLE"
        kinds = {Append: "WRITE", Update: "UPDATE", Delete: "DELETE"}
        names = {kinds.get(type(statement), "MERGE") for statement in draft.statements}
        return names.pop() if len(names) == 1 else "MERGE"

    def _written(self, version: Version, counter: int) -> Staged:
        """Send what the commit needs, all at once, and say what it is."""
        draft, state = self.draft, version.state
        needed = set(data_of(state))
        needed &= set(draft.files)
        for path, body in version.beside.items():
            draft.put(path, body)
        needed |= version.beside.keys()
        calls: list[Any] = []
        if version.name.kind == "u":
            pass  # its client has written it
        elif version.name.kind:
            draft.put(version.name.path, version.body)
        else:
            calls.append(lambda: self._create(version))
            draft.files.append(version.name.path)
        needed.add(version.name.path)
        calls.append(lambda: draft.outbox.send(needed.__contains__))
        run_parallel(calls)
        draft.folder.states.keep(draft.folder.location, version.name.text, state, version.follows)
        pin = msgspec.structs.replace(
            draft.pin,
            version=version.name.text,
            counter=counter,
            rows=state.rows,
            bytes=state.bytes,
            fragments=len(state.files),
        )
        tally = draft.tally.after(draft.net)
        return Staged(pin, self.keys(), tally.added, tally.removed, tuple(sorted(needed)))

    def _create(self, version: Version) -> None:
        """The first commit of a table: it lies where every client looks, in a folder that no commit names yet."""
        folder = self.draft.folder
        made = folder.files.of(folder.location).create(
            version.name.path, version.body, mine=lambda found: found == version.body
        )
        if made.outcome is not Outcome.COMMITTED:
            raise StorageError(
                f"There is already a table at {folder.location}, or the store did not say whether it was created.",
                next="Run the transaction again; nothing was committed.",
                table=self.draft.table,
            )

    def written(self) -> tuple[str, Sequence[str]]:
        draft = self.draft
        names = [path for path in draft.files if path not in draft.outbox]
        if draft.created:
            names += [f"{LOG}/"]
        return draft.pin.location, tuple(dict.fromkeys(names))
