"""The table as one transaction has it so far: a base, and the net change that stands on it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from quire.conversion.source import Source
from quire.errors import Refused
from quire.formats import Place, Staged
from quire.formats.delta.files import parquet as data_files
from quire.formats.delta.files.deletion_vectors import Vector, in_file, inline
from quire.formats.delta.find_rows import RowsByFile
from quire.formats.delta.folder import Folder
from quire.formats.delta.log.actions import Action, Follows, Made
from quire.formats.delta.log.names import Name, state_path
from quire.formats.delta.log.state import DataFile, Metadata, State, now
from quire.formats.delta.staging.compaction import Compaction
from quire.formats.delta.staging.net import Net
from quire.formats.delta.staging.statements import StagedStatement
from quire.formats.outbox import Outbox
from quire.formats.row_bitmap import Marks
from quire.formats.tally import Tally
from quire.formats.tasks import place_of
from quire.ledger import Pin

if TYPE_CHECKING:
    import pyarrow as pa

STANDING = ("pin", "base", "net", "tally", "origin", "follows")
"""What says on which base a draft stands, and what it does there."""


class Draft:
    """`base` plus `net`. RowsByFile change the net; what changes more than rows becomes the next base.

    The statements that led here are kept, so that they can be run again on another base. `origin` is the state on which
    the commit will stand in the log of the table.
    """

    def __init__(
        self,
        folder: Folder,
        pin: Pin,
        origin: State,
        follows: Follows,
        *,
        base: State | None = None,
        lake: str,
        write: str,
        table: str,
        created: bool = False,
    ) -> None:
        self.outbox = Outbox(folder.files, folder.location)
        self.folder = folder.during(self.outbox.data)
        self.pin = pin
        self.origin, self.follows = origin, follows
        self.base = origin if base is None else base
        self.table = table
        self.created = created
        self.lake, self.write_id = lake, write
        self.time = now()
        self.statements: list[StagedStatement] = []
        self.net = Net()
        self.tally = Tally(pin.rows, pin.bytes, added=pin.rows if created else 0, owned=created)
        self.compaction = Compaction()
        self.exclusive = False
        self.pinned_to_base = False
        """Whether something in the net means nothing on another base."""
        self.rewritten: dict[tuple[str, str], tuple[DataFile, ...]] = {}
        """What files became whose rows were deleted, in a table without deletion vectors."""
        self.given: tuple[Action, ...] | None = None
        """The actions of a client, which are committed as they are."""
        self.client_file: tuple[Name, bytes] | None = None
        """The file in which the client has staged them, if it has."""
        self.operation: str | None = None
        """What Delta clients are to call the commit, where its statements do not say it."""
        self.files: list[str] = []
        self.staged: Staged | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.base.schema

    # -- what is there ----------------------------------------------------------------------------------------

    def rows_so_far(self) -> State:
        """The base with its rows as they are now, not written."""
        return self.net.on(self.base, self.folder)

    def current(self) -> State:
        """The base with everything done so far, not written."""
        return self.compaction.on(self.rows_so_far())

    def settled(self) -> State:
        """The current rows: a schema change goes on from there."""
        self.check_no_upkeep()
        return self.current()

    # -- what changes it --------------------------------------------------------------------------------------

    def write(self, rows: Source, state: State | None = None) -> list[DataFile]:
        """RowsByFile as data files, which wait to be sent unless they are too large for that."""
        return [self.keep(*made) for made in data_files.written(rows, self.base if state is None else state)]

    def keep(self, file: DataFile, body: bytes) -> DataFile:
        self.put(file.path, body)
        return file

    def put(self, path: str, body: bytes) -> None:
        if path in self.files:
            return
        if len(body) > self.outbox.room:
            self.folder.files.write(self.folder.location, path, body)
        else:
            self.outbox.add({path: body})
        self.files.append(path)

    def start_with(self, state: State) -> None:
        """The first rows of a table that is being created."""
        self.base = state
        self.pin = msgspec.structs.replace(self.pin, rows=state.rows, bytes=state.bytes, fragments=len(state.files))
        self.tally = Tally(state.rows, state.bytes, added=state.rows, owned=True)

    def take_away(self, rows: RowsByFile) -> None:
        """Remove rows of the base, as a statement that cannot be run again elsewhere."""
        self.net.remove(rows, hard=True)
        self.pinned_to_base = True
        self.staged = None

    def chain(self, state: State) -> None:
        """Go on from a state that changed more than rows. From here on any rival change is a conflict."""
        self.tally = self.tally.after(self.net)
        self._start_from(state)

    def propose(self, actions: Sequence[Action], state: State) -> None:
        """Take a client's commit as it is. It means something on this base alone."""
        before = self.base
        came = sum(f.alive for f in state.files if f.path not in before.by_path)
        self.tally = Tally(state.rows, state.bytes, added=came, removed=before.rows + came - state.rows)
        self.given = tuple(actions)
        self._start_from(state.change(version=before.version, time=before.time))

    def go_back(self, state: State) -> None:
        """Go on from what the table was earlier."""
        more = state.rows - self.base.rows
        self.tally = Tally(state.rows, state.bytes, added=max(0, more), removed=max(0, -more))
        self._start_from(state.change(version=self.base.version, time=self.base.time))

    def replace(self, metadata: Metadata, files: Sequence[DataFile]) -> int:
        """Go on from files of their own as all that the table holds; how many rows that is."""
        state = self.base.change(metadata=metadata, files=tuple(files))
        self.tally = Tally(state.rows, state.bytes, added=state.rows, removed=self.pin.rows, owned=True)
        self.statements = []
        self._start_from(state)
        return state.rows

    def _start_from(self, state: State) -> None:
        self.base, self.net = state, Net()
        self.exclusive = True
        self.staged = None

    def rebind(self, onto: Pin) -> None:
        """Stand on a newer base, with the same net."""
        self.pin = onto
        self.base, self.follows = self.folder.known(onto.version)
        self.origin = self.base
        self.tally = Tally(onto.rows, onto.bytes, owned=self.tally.owned)
        # The commits staged on the old base are garbage now; data files are kept.
        self.files = [f for f in self.files if f.startswith("data/")]
        self.staged = None

    # -- how it is written ------------------------------------------------------------------------------------

    def made(self, counter: int, follows: Follows) -> Made:
        return Made(self.lake, self.write_id, counter, follows)

    def settled_files(self, state: State) -> State:
        """The state when all that is deleted in it is written down: as vectors, or by files without those rows."""
        if not any(f.unwritten for f in state.files):
            return state
        files: list[DataFile] = []
        for file in state.files:
            files += [file] if not file.unwritten else self._written_down(file, state)
        return state.change(files=tuple(files))

    def _written_down(self, file: DataFile, state: State) -> list[DataFile]:
        marks = self.folder.marks(file)
        if state.marks_rows:
            return [replace(file, vector=self._vector(marks))]
        known = (file.path, str(hash(marks)))
        if known not in self.rewritten:
            source = Source(state.schema, (b for _, _, b in self.folder.rows(state, state.schema.names, [file])), False)
            self.rewritten[known] = tuple(self.write(source, state))
        return list(self.rewritten[known])

    def _vector(self, rows: Marks) -> Vector:
        small = inline(rows)
        if small is not None:
            return small
        vector, body = in_file(rows, uuid.uuid4().bytes)
        self.put(vector.file(), body)
        return vector

    # -- for other processes ----------------------------------------------------------------------------------

    def place(self) -> tuple[Place, State]:
        """The rows so far as other processes open them, and the state as they number its files."""
        state = self.rows_so_far()
        files = (replace(f, vector=self._vector(self.folder.marks(f))) if f.unwritten else f for f in state.files)
        state = state.change(files=tuple(files))
        name = Name(state.version if state.version >= 0 else 0, "r", str(uuid.uuid4()))
        self.put(state_path(name), Folder.whole_file(state))
        self.outbox.send(lambda path: not path.startswith("_delta_log/"))
        store = self.folder.store
        place = place_of(store, "delta", store.reach.address(self.folder.location), name.text)
        return place, state

    # -- rows and upkeep do not mix ---------------------------------------------------------------------------

    def check_no_rows_changed(self) -> None:
        if self.created or self.exclusive or self.net:
            raise self._apart()

    def check_no_upkeep(self) -> None:
        if self.compaction:
            raise self._apart()

    def _apart(self) -> Refused:
        return Refused(
            f"A transaction that compacts table {self.table!r} cannot change its rows too.",
            next="Use a transaction for each.",
            table=self.table,
        )
