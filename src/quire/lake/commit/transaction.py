"""A transaction: statements on any number of tables, one commit."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from quire.arguments import bounded, checks_arguments
from quire.errors import (
    AlreadyExists,
    Conflict,
    DeadlineExceeded,
    InvalidInput,
    NotFound,
    QuireError,
    Refused,
    Revoked,
    SnapshotExpired,
    StorageError,
    TableExists,
    TransactionClosed,
)
from quire.formats import View
from quire.lake.commit import attempt, first_receipt, preconditions, record_values, tokens
from quire.lake.commit.revoked_reads import explained
from quire.lake.commit.table_change import Check, Edit
from quire.lake.commit.transaction_table import TransactionTable
from quire.lake.commit.used_inputs import UsedInputs
from quire.lake.guard.handles import transaction_gate
from quire.lake.guard.verbs import TRANSACTION, guarded
from quire.lake.names import as_columns, check_table, no_table, parse_commit
from quire.lake.read import sql
from quire.lake.read.table import Rows
from quire.lake.receipt import Receipt
from quire.ledger import Joining, Learnt, Point, State, TableInfo, new_id
from quire.ledger.version_vector import Vector
from quire.prompt import Escaped, one_line
from quire.store import Meter, attached, clock, is_outside, phase

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.commit.back_pressure import Slowed
    from quire.lake.upkeep.background import Background

IDLE_SECONDS = 60.0
"""After so long without a word from the store a transaction looks for news before it begins."""

Isolation = Literal["snapshot", "serializable"]
Status = Literal["open", "publishing", "committed", "discarded", "unknown"]


class TransactionOptions(TypedDict, total=False):
    """The options of `lake.transaction`, for verbs that begin one and hand them on."""

    author: str | None
    token: tokens.Token | None
    expect: Mapping[str, int] | None
    if_head: str | None
    isolation: Isolation
    timeout: float | None
    fresh: bool
    metadata: Mapping[str, str] | None


@guarded(TRANSACTION)
@checks_arguments
class Transaction(Escaped):
    """Changes several tables in one commit. As a context manager it commits on exit and discards on an exception.

    >>> import quire
    >>> lake = quire.create("memory://transaction-example")
    >>> with lake.transaction("nightly ingest") as tx:
    ...     documents = tx.create_table("documents", [{"id": 1}])
    ...     chunks = tx.create_table("chunks", [{"id": 1, "text": "A lake holds still."}], key="id")
    ...     rows = documents.append([{"id": 2}])
    ...     counts = chunks.upsert([{"id": 1, "text": "A lake holds water."}])
    >>> counts
    {'inserted': 0, 'updated': 1}
    >>> tx.receipt.commit
    '1.0'
    """

    def __init__(
        self,
        live: LiveBranch,
        background: Background | None,
        *,
        message: str = "",
        author: str | None = None,
        token: tokens.Token | None = None,
        expect: Mapping[str, int] | None = None,
        if_head: str | None = None,
        isolation: Isolation = "snapshot",
        timeout: float | None = None,
        fresh: bool = False,
        backfill: bool = True,
        base: State | None = None,
        epoch: int | None = None,
        metadata: Mapping[str, str] | None = None,
        gate: Any = None,
    ) -> None:
        self._gate = None if gate is None else transaction_gate(gate)
        if isolation not in ("snapshot", "serializable"):
            raise InvalidInput(f"{isolation!r} is not an isolation level.", next='Use "snapshot" or "serializable".')
        bounded("timeout", timeout, 0, math.inf)
        live.core.check_writable()
        self.live, self.background, self.backfill = live, background, backfill
        self.message = record_values.message(message)
        self.author = live.core.author if author is None else record_values.author(author) or live.core.author
        self.metadata = {**live.core.noted, **({} if metadata is None else record_values.metadata(metadata))}
        self.stream, self.token = (None, None) if token is None else tokens.parse(token)
        self.expect = dict(expect or {})
        self.if_head = parse_commit(if_head) if if_head is not None else None
        self.isolation: Isolation = isolation
        if fresh:
            live.refresh()
        elif clock.monotonic() - live.heard > IDLE_SECONDS:
            with contextlib.suppress(StorageError):
                live.refresh()  # a handle that slept for long may know nothing that is still there
        self.deadline = None if timeout is None else clock.monotonic() + timeout
        self.write = new_id()
        self.epoch = live.epoch if epoch is None else epoch
        """In which its work began, maybe elsewhere: a claim that came since ends it."""
        self.own_claims = live.claims if epoch is None else frozenset[int]()
        self.at = base or live.state
        """The state this transaction is based on; a rebase moves it forward."""
        self.expected = preconditions.bound(self.expect, self.at) if self.expect else []
        self.begun = self.at.head
        """Where it began: what its program read is no newer."""
        self.edits: dict[str, Edit] = {}
        self.checks: list[Check] = []
        self.read_tables: set[str] = set()
        self.read_names: set[str] = set()
        """Names of tables that its program has asked for, whether there was a table or not."""
        self.listed_names = False
        """Whether it has asked for all of them."""
        self.read_columns: set[str] = set()
        """Tables whose columns its program has asked for."""
        self.has_read = False
        """Whether its program has looked at rows, or has been told something of them: how many a condition chose, or
        that a statement was refused.
        """
        self.counts_told = True
        """Whether its program can act on what upserts return. A verb of the library that only reports it, after the
        commit, says no: then an upsert may be run again whatever it counts.
        """
        self.reverts: Point | None = None
        self.adopts: Point | None = None
        self.reaches: Vector | None = None
        """Of a commit that joins another log: its last ancestor in every log but its own."""
        self.joining: Joining | None = None
        """Of a commit that merges: of what, and how."""
        self.learnt: Learnt | None = None
        self.left_out: Counter[str] = Counter()
        """Rows that a load left out, by table or type: the commit records them."""
        self.parents: tuple[Point, ...] = ()
        self.status: Status = "open"
        self._broken: BaseException | None = None
        self._committing = clock.lock()
        self.committing = False
        self.validated = False
        """Whether its validators have seen it, on a state whose tables they looked at have not moved since."""
        self.slot: int | None = None
        self.until = -1
        """The last slot into which others may take its commit; -1 when it was never offered."""
        self._receipt: Receipt | None = None
        self.meter = Meter()
        self.slowed: Slowed | None = None
        self.notes: set[str] = set()
        """Ids of the notes that this transaction was open under."""
        self.floors: set[int] = set()
        """Floors that were met and found to be no danger."""
        self.durable: set[str] = set()
        """Files already made durable on a local disk."""
        self._names = self.at.names()
        self.first_names: Mapping[str, str] = dict(self._names)
        """What names meant where it began."""
        live.core.writers.began(self, background)

    @cached_property
    def _inputs(self) -> UsedInputs:
        """What this transaction, or an earlier run of the same program, was given and has read."""
        return UsedInputs()

    def __dir__(self) -> list[str]:
        """What programs use, without what the way of a commit keeps here."""
        return sorted({"status", *(name for name in dir(type(self)) if not name.startswith("_"))})

    # -- life -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None and self._broken is not None and self.status == "discarded":
            raise TransactionClosed(
                "This transaction was discarded when a statement failed halfway. Nothing was committed.",
                next="Run it again from the start.",
                status=self.status,
            ) from self._broken
        if self.status == "open" and error is None:
            self.commit()
            return False
        self.discard()
        return isinstance(error, QuireError) and self._was_done_before()

    def _was_done_before(self) -> bool:
        """Whether a statement failed only because this token's work is already committed: then all is well."""
        if (self.stream is None and self.token is None) or self.status != "discarded":
            return False
        done = tokens.used(self.live.refresh(), self.stream, self.token, self.live.history.pages)
        if done is False:
            return False
        self.status = "committed"
        where = done.commit if isinstance(done, Point) else None
        self._receipt = Receipt(where, self.live.name, repeated=True, cost=self.meter.to_dict())
        return True

    def repeated(self) -> Receipt | None:
        """The receipt of the first time, when the token of this transaction was committed before.

        Then the work is done, and this transaction is over: ask before the work is begun. None when it is to be done.
        """
        told = self._receipt if self._receipt is not None and self._receipt.repeated else None
        if self.status != "open" and (told is None or told.tables):
            return told
        done = tokens.used(
            self.at if self.status == "open" else self.live.state, self.stream, self.token, self.live.history.pages
        )
        if done is False:
            return None
        with attached(self.meter):
            self._receipt = first_receipt.first_receipt(self, done)
        self.status = "committed"
        return self._receipt

    def commit(self) -> Receipt:
        """Publish.

        Afterwards `receipt` holds the proof; on an error nothing was committed, except for `CommitUnknown`.
        """
        if not self._committing.acquire(blocking=False):
            raise TransactionClosed(
                "Another thread is committing this transaction.", next="Use a transaction in one thread only."
            )
        try:
            self._check_open()
            self.committing = True
            with attached(self.meter):
                self._receipt = attempt.commit(self)
        finally:
            if self.status in ("open", "publishing"):
                self.status = "discarded" if self.status == "open" else "unknown"
            if self.status == "unknown":
                self.live.core.writers.unsettled(self)
            self.committing = False
            self._committing.release()
        return self.receipt

    @property
    def receipt(self) -> Receipt:
        """What the commit did; there is none before it."""
        if self._receipt is None:
            raise Refused(
                f"The transaction is {self.status}, so it has no receipt.",
                next="Read the receipt after a commit; `status` says whether there was one.",
                status=self.status,
            )
        return self._receipt

    def discard(self) -> None:
        """Forget everything. What was staged is invisible and will be cleaned up."""
        if self.status == "open":
            self.status = "discarded"

    def _check_open(self) -> None:
        self.live.core.check_writable()
        if self.status != "open":
            raise TransactionClosed(
                f"This transaction is {self.status}.",
                next="Begin a new one with lake.transaction().",
                status=self.status,
            )
        self._check_deadline()

    def _check_deadline(self) -> None:
        if self.deadline is not None and clock.monotonic() >= self.deadline:
            raise DeadlineExceeded(
                "The deadline of the transaction passed before it was published. Nothing was committed.",
                next="Pass a longer timeout, or make the transaction smaller.",
            )

    @contextlib.contextmanager
    def _guarded(self, *, read: bool = False, on: Edit | None = None) -> Iterator[None]:
        """Meter a step, and give the transaction up when the step may have stopped half-way.

        A refusal, an exception of the program's own iterator and a read that fails leave it as it was before the step.
        A refusal of a statement tells of the rows of the table that it was `on`, so it is a read of them.
        """
        try:
            with attached(self.meter), phase("statements"):
                yield
        except BaseException as error:
            refused = isinstance(error, InvalidInput | NotFound | AlreadyExists | Conflict | Refused)
            harmless = refused or (read and isinstance(error, Exception))
            if refused and on is not None:
                self._rests_on(on)
            if not harmless and (isinstance(error, QuireError | MemoryError) or not isinstance(error, Exception)):
                self._broken = error
                self.discard()
            if isinstance(error, SnapshotExpired):
                self._slept(error)
            raise

    def _slept(self, error: SnapshotExpired) -> None:
        """A file is gone: when a cleanup came between, running again from there will do."""
        now = self.live.refresh()
        if now.floor > self.at.floor or now.floor > self.at.slot:
            self.discard()
            raise Revoked(
                f"The commit that this transaction is based on was cleaned up: {error.message}",
                next="Run the transaction again on a fresh snapshot; lake.transact does this by itself.",
                branch=self.live.name,
            ) from error

    def __repr__(self) -> str:
        names = ", ".join(e.info.name for e in self.edits.values() if e.changed) or "nothing"
        return one_line(f"<Transaction {self.message!r} on {self.live.name!r}, {self.status}: {names} changed>")

    # -- tables -----------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Names of the tables as this transaction sees them."""
        self.listed_names = True
        return sorted(self._names_seen())

    def _names_seen(self) -> Mapping[str, str]:
        """Tables by name; of those that an actor may not see, none."""
        return self._names if self._gate is None else self._gate.names_seen(self, self._names)

    def __getitem__(self, name: str) -> TransactionTable:
        self._check_open()
        if name not in self:
            raise no_table(name, self._names_seen())
        return TransactionTable(self, self._edit(self._names[name]))

    def __contains__(self, name: object) -> bool:
        """Whether there is such a table. What a name means is read, as rows are."""
        if not isinstance(name, str):
            return False
        self.read_names.add(name)
        if self._gate is not None and name in self._names:
            return bool(self._gate.sees(self, name))
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def _ipython_key_completions_(self) -> list[str]:
        return sorted(self._names_seen())  # a completion is not a read of the program

    def _edit(self, table: str) -> Edit:
        if table not in self.edits:
            found = self.at.tables[table]
            self.edits[table] = Edit(found.info, found)
        return self.edits[table]

    def edited(self) -> list[TransactionTable]:
        """Every table that is changed so far; one that is dropped under the name it had."""
        self._check_open()
        return [TransactionTable(self, edit) for edit in self.edits.values() if edit.changed]

    def create_table(
        self,
        name: str,
        data: Any = None,
        *,
        schema: Any = None,
        key: str | Sequence[str] | None = None,
        stable_row_ids: bool = False,
        validator: str | None = None,
        rules: str = "",
        format: str = "lance",
        options: Mapping[str, Any] | None = None,
    ) -> TransactionTable:
        """Create a table from data, or from a schema alone. With a key, appends are strict inserts.

        The `format` is `"lance"` or `"delta"`. Delta tables take `options`: `{"partition_by": ["day"]}`, and
        `{"dialect": "managedCommit"}` for the older way of owning commits.
        `validator` names who judges every change of the table, by the `rules`, which are kept with it.
        """
        self._check_open()
        self._free(check_table(name))
        columns = as_columns(key)
        info = TableInfo(
            id=new_id(),
            name=name,
            key=columns,
            stable_row_ids=record_values.flag("stable_row_ids", stable_row_ids),
            validator=record_values.validator(validator),
            rules=record_values.rules(rules),
        )
        edit = Edit(info, None)
        with attached(self.meter), phase("statements"):
            edit.work = attempt.create_work(self, edit, self._inputs.take(data, name), schema, format, options)
            if data is not None and not hasattr(data, "__len__"):
                self._inputs.gave(data, edit.work.view().count(), name)
        edit.did("create")
        self.edits[info.id] = edit
        self._names[name] = info.id
        return TransactionTable(self, edit)

    def register_table(
        self,
        name: str,
        uri: str,
        *,
        key: str | Sequence[str] | None = None,
        format: str = "lance",
        take_over: bool = False,
    ) -> TransactionTable:
        """Take an existing table into the lake where it lies. Its files are not moved or copied.

        With a key, its rows are checked. A table that belongs to another lake is refused, unless that lake is gone and
        its table is to be taken over.
        """
        self._check_open()
        self._free(check_table(name))
        columns = as_columns(key)
        core, location = self.live.core, attempt.registered_location(self, uri)
        if is_outside(location):
            core.store.reach.allow(location)  # whoever registers it here has named it
        with attached(self.meter), phase("statements"):
            pin, _ = core.format(format).register(location)
        taken = [s.info.name for s in self.at.tables.values() if s.pin.location == pin.location]
        taken += [e.info.name for e in self.edits.values() if e.created and e.pin and e.pin.location == pin.location]
        if taken:
            self.listed_names = True
            raise TableExists(
                f"The table at {uri} is already in this lake, with the name {taken[0]!r}.",
                next="Use that table.",
                table=taken[0],
            )
        if pin.location.startswith("tables/"):
            raise Refused(
                f"{pin.location} belongs to this lake, which may be deleting it in a cleanup.",
                next="Revert the commit that dropped the table, or copy it to another place and register the copy.",
                uri=uri,
            )
        with attached(self.meter), phase("statements"):
            known = core.owners.check(pin.location, take_over=take_over)
            if columns:
                attempt.check_key(core.format(format).open(pin, name), columns, name)
        if take_over:
            core.owners.will_take_over(pin.location)
        # A table that was here before, or is on another branch, is that very table.
        info = TableInfo(id=known or new_id(), name=name, key=columns)
        edit = Edit(info, None, pin=pin)
        edit.did("register")
        self.edits[info.id] = edit
        self._names[name] = info.id
        return TransactionTable(self, edit)

    def drop_table(self, name: str) -> None:
        """Drop a table. Its files stay until cleanup, for time travel and revert."""
        edit = self[name]._edit
        del self._names[name]
        created, edit.dropped, edit.work, edit.pin = edit.created, True, None, None
        if created:
            del self.edits[edit.info.id]
            return
        edit.ops = ["drop"]

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table. Nothing is moved: its folder is named by its id."""
        edit = self[old]._edit
        self._free(check_table(new))
        edit.info = msgspec.structs.replace(edit.info, name=new)
        if not edit.created:
            edit.renamed = True
            edit.did("rename")
        self._names[new] = self._names.pop(old)

    def _free(self, name: str) -> None:
        if name in self._names:
            self.read_names.add(name)  # the refusal tells what the name means
            raise TableExists(
                f"Table {name!r} already exists.", next="Choose another name, or write to that table.", table=name
            )

    # -- reading ----------------------------------------------------------------------------------------------

    def sql(
        self,
        query: str,
        params: Sequence[Any] | dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        max_rows: int | None = None,
    ) -> Rows:
        """A SELECT over all tables as this transaction sees them, its own writes included.

        Limits are those of `Snapshot.sql`.
        """
        self._check_open()
        tables = sql.Tables(
            lambda _: self._names_seen(), lambda names: [self[name]._view().dataset() for name in names]
        )
        with self._guarded(read=True):
            try:
                limits = sql.Limits(timeout, memory, max_rows)
                return sql.run(query, params, tables, limits)
            except QuireError:
                self.listed_names = True  # a name may not be there
                raise

    def _view(self, edit: Edit, *, note: bool = True) -> View:
        """The table as this transaction sees it.

        A read by the user's program is noted: its decisions may rest on it.
        """
        if note:
            self._rests_on(edit)
        try:
            return explained(self._seen(edit, self._opened(edit)), self._slept)
        except SnapshotExpired as error:
            self._slept(error)
            raise

    def _rests_on(self, edit: Edit) -> None:
        """What the program does next may rest on the rows of this table."""
        self.has_read = True
        self.read_tables.add(edit.info.id)

    def _seen(self, edit: Edit, view: View) -> View:
        """What an actor sees of a table. What judges a commit sees all of it."""
        if self._gate is None or self.committing:
            return view
        found: View = self._gate.seen(edit, view)
        return found

    def _opened(self, edit: Edit) -> View:
        if edit.work is not None:
            return edit.work.view()
        pin = edit.pin or (edit.base.pin if edit.base else None)
        assert pin is not None
        return self.live.core.format(pin.format).open(pin, edit.info.name)
