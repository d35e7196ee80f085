"""A transaction: statements on any number of tables, one commit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

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
from quire.lake import publish, sql, tokens
from quire.lake.edits import Check, Edit
from quire.lake.names import as_columns, check_table, no_table, parse_commit
from quire.lake.receipt import Receipt
from quire.lake.reports import reported
from quire.lake.table import Rows
from quire.lake.verbs import TransactionTable
from quire.ledger import Learnt, Point, State, TableInfo, new_id
from quire.store import Meter, attached, clock, phase

if TYPE_CHECKING:
    from quire.lake.background import Background
    from quire.lake.line import LiveBranch
    from quire.lake.pressure import Slowed

IDLE_SECONDS = 60.0
"""After so long without a word from the store a transaction looks for news before it begins."""

Isolation = Literal["snapshot", "serializable"]
Status = Literal["open", "publishing", "committed", "discarded", "unknown"]


class Transaction:
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
    ) -> None:
        if isolation not in ("snapshot", "serializable"):
            raise InvalidInput(f"There is no isolation {isolation!r}.", next='Use "snapshot" or "serializable".')
        for what, text in (("message", message), ("author", author or "")):
            _check_text(what, text)
        live.core.check_writable()
        self.live, self.background, self.backfill = live, background, backfill
        self.message, self.author = message, author or live.core.author
        self.stream, self.token = tokens.parse(token)
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
        self.at = base or live.state
        """The state this transaction is based on; a rebase moves it forward."""
        self.begun = self.at.head
        """Where it began: what its program read is no newer."""
        self.edits: dict[str, Edit] = {}
        self.checks: list[Check] = []
        self.read_tables: set[str] = set()
        self.has_read = False
        self.reverts: Point | None = None
        self.adopts: Point | None = None
        self.learnt: Learnt | None = None
        self.parents: tuple[Point, ...] = ()
        self.status: Status = "open"
        self._broken: BaseException | None = None
        self._committing = clock.lock()
        self.committing = False
        self.validated = False
        """Whether its validators have seen it, on a state whose tables they looked at have not moved since."""
        self.slot: int | None = None
        self.receipt: Receipt | None = None
        self.meter = Meter()
        self.slowed: Slowed | None = None
        self.notes: set[str] = set()
        """Ids of the notes that this transaction was open under."""
        self.floors: set[int] = set()
        """Floors that were met and found to be no danger."""
        self.durable: set[str] = set()
        """Files already made durable on a local disk."""
        self._names = self.at.names()
        live.core.writers.began(self, background)

    # -- life -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None and self._broken is not None and self.status == "discarded":
            raise TransactionClosed(
                "This transaction was given up when a statement failed half-way; nothing was committed.",
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
        done = tokens.used(self.live.refresh(), self.stream, self.token)
        if done is False:
            return False
        self.status = "committed"
        where = done.commit if isinstance(done, Point) else None
        self.receipt = Receipt(where, self.live.name, repeated=True, cost=self.meter.to_dict())
        return True

    def commit(self) -> Receipt:
        """Publish.

        Afterwards `receipt` holds the proof; on an error nothing was committed, except for `CommitUnknown`.
        """
        if not self._committing.acquire(blocking=False):
            raise TransactionClosed(
                "This transaction is being committed by another thread.", next="A transaction belongs to one thread."
            )
        try:
            self._check_open()
            self.committing = True
            with attached(self.meter), reported(self):
                self.receipt = publish.commit(self)
        finally:
            if self.status in ("open", "publishing"):
                self.status = "discarded" if self.status == "open" else "unknown"
            if self.status == "unknown":
                self.live.core.writers.unsettled(self)
            self.committing = False
            self._committing.release()
        return self.receipt

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
                "The transaction's time ran out before it was published; nothing was committed.",
                next="Give it a longer timeout, or make it smaller.",
            )

    @contextlib.contextmanager
    def _guarded(self, *, read: bool = False) -> Iterator[None]:
        """Meter a step, and give the transaction up when the step may have stopped half-way.

        A refusal, an exception of the program's own iterator and a read that fails leave it as it was before the step.
        """
        try:
            with attached(self.meter), phase("statements"):
                yield
        except BaseException as error:
            refused = isinstance(error, InvalidInput | NotFound | AlreadyExists | Conflict | Refused)
            harmless = refused or (read and isinstance(error, Exception))
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
                f"What this transaction is based on was cleaned up: {error.message}",
                next="Run the transaction again on a fresh snapshot; lake.transact does it for you.",
                branch=self.live.name,
            ) from error

    def __repr__(self) -> str:
        names = ", ".join(e.info.name for e in self.edits.values() if e.changed) or "nothing"
        return f"<Transaction {self.message!r} on {self.live.name!r}, {self.status}: {names} changed>"

    # -- tables -----------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Names of the tables as this transaction sees them."""
        return sorted(self._names)

    def __getitem__(self, name: str) -> TransactionTable:
        self._check_open()
        if name not in self._names:
            raise no_table(name, self._names)
        return TransactionTable(self, self._edit(self._names[name]))

    def __contains__(self, name: object) -> bool:
        return name in self._names

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
    ) -> TransactionTable:
        """Create a table from data, or from a schema alone. With a key, appends are strict inserts.

        `validator` names who judges every change of the table, by the `rules`, which are kept with it.
        """
        self._check_open()
        self._free(check_table(name))
        columns = as_columns(key)
        info = TableInfo(
            id=new_id(), name=name, key=columns, stable_row_ids=stable_row_ids, validator=validator, rules=rules
        )
        edit = Edit(info, None)
        with attached(self.meter), phase("statements"):
            edit.work = publish.create_work(self, edit, data, schema, format)
        edit.did("create")
        self.edits[info.id] = edit
        self._names[name] = info.id
        return TransactionTable(self, edit)

    def register_table(
        self, name: str, uri: str, *, key: str | Sequence[str] | None = None, format: str = "lance"
    ) -> TransactionTable:
        """Take an existing table into the lake where it lies. Its files are not moved or copied."""
        self._check_open()
        self._free(check_table(name))
        columns = as_columns(key)
        with attached(self.meter), phase("statements"):
            pin, _ = self.live.core.format(format).register(publish.registered_location(self, uri))
        taken = [s.info.name for s in self.at.tables.values() if s.pin.location == pin.location]
        taken += [e.info.name for e in self.edits.values() if e.created and e.pin and e.pin.location == pin.location]
        if taken:
            raise TableExists(
                f"The table at {uri} is already in this lake, as {taken[0]!r}.", next="Use that one.", table=taken[0]
            )
        if pin.location.startswith("tables/"):
            raise Refused(
                f"{pin.location} belongs to this lake, which may be cleaning it up.",
                next="Revert the commit that dropped the table, or copy it to a place of its own and register that.",
                uri=uri,
            )
        if columns:
            with attached(self.meter), phase("statements"):
                publish.check_key(self.live.core.format(format).open(pin, name), columns, name)
        info = TableInfo(id=new_id(), name=name, key=columns)
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
            raise TableExists(
                f"There is already a table {name!r}.", next="Choose another name, or write to that table.", table=name
            )

    # -- reading ----------------------------------------------------------------------------------------------

    def sql(self, query: str, params: Sequence[Any] | dict[str, Any] | None = None) -> Rows:
        """A SELECT over all tables as this transaction sees them, its own writes included."""
        self._check_open()
        with self._guarded(read=True):
            return sql.run(query, params, self._names, lambda name: self[name]._view().dataset())

    def _view(self, edit: Edit, *, note: bool = True) -> View:
        """The table as this transaction sees it.

        A read by the user's program is noted: its decisions may rest on it.
        """
        if note:
            self.has_read = True
            self.read_tables.add(edit.info.id)
        if edit.work is not None:
            return edit.work.view()
        pin = edit.pin or (edit.base.pin if edit.base else None)
        assert pin is not None
        return self.live.core.format(pin.format).open(pin, edit.info.name)


def _check_text(what: str, text: Any) -> None:
    try:
        text.encode()
    except (AttributeError, UnicodeEncodeError):
        raise InvalidInput(f"The {what} {text!r} is not text that can be stored.", next="Use plain text.") from None
