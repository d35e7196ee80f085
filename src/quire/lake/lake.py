"""The lake: many tables, one commit."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any, TypeVar

from quire.errors import CommitUnknown, Conflict, DeadlineExceeded, InvalidInput, Unsupported
from quire.formats import Promotion
from quire.lake import adopt, branches, diff, revert, tokens, verify
from quire.lake.background import Background
from quire.lake.core import Core
from quire.lake.line import LiveBranch, open_branch
from quire.lake.marks import mark
from quire.lake.names import parse_commit, parse_time
from quire.lake.receipt import CommitInfo, Log, Receipt
from quire.lake.snapshot import Snapshot
from quire.lake.table import Rows, Table
from quire.lake.transaction import Isolation, Transaction
from quire.ledger import MAIN, History, Line, Point, State
from quire.store import Outcome

T = TypeVar("T")


def open(
    uri: str | os.PathLike[str],
    *,
    branch: str = MAIN,
    storage_options: Mapping[str, str] | None = None,
    read_only: bool = False,
    author: str | None = None,
    backfill: bool = True,
) -> Lake:
    """Open a lake: a local path, `file://`, `memory://`, `s3://`, `gs://` or `az://`.

    Credentials come from the environment or from `storage_options`. A read-only lake writes nothing, ever. With
    `backfill=False` plain Lance readers see new commits only after `lake.backfill()`.
    """
    core = Core.open(uri, storage_options, read_only=read_only, author=author)
    return Lake(core, open_branch(core, branch), Background(), backfill=backfill, opened=True)


def create(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    author: str | None = None,
    backfill: bool = True,
    exist_ok: bool = False,
) -> Lake:
    """Make a new lake, after proving that the store honours create-if-absent.

    With `exist_ok` an existing one is opened.
    """
    from quire.errors import LakeExists

    try:
        core = Core.create(uri, storage_options, author=author)
    except LakeExists:
        if not exist_ok:
            raise
        return open(uri, storage_options=storage_options, author=author, backfill=backfill)
    return Lake(core, open_branch(core, MAIN), Background(), backfill=backfill)


class Lake:
    """A handle on one branch of a lake. Safe to share between threads.

    >>> import quire
    >>> lake = quire.create("memory://lake-example")
    >>> with lake.transaction("nightly ingest") as tx:
    ...     docs = tx.create_table("documents", [{"id": 1, "title": "Lakes"}], key="id")
    ...     chunks = tx.create_table("chunks", [{"doc": 1, "text": "A lake holds still."}])
    >>> tx.receipt.commit
    '1.0'
    >>> lake.snapshot()["documents"].count()
    1
    """

    def __init__(
        self, core: Core, live: LiveBranch, background: Background, *, backfill: bool, opened: bool = False
    ) -> None:
        self._core, self._live, self._background, self._backfill = core, live, background, backfill
        if opened and backfill and not core.read_only and live.is_main and live.pending():
            background.submit(("backfill", live.name), live.backfill_reporting)

    # -- identity ---------------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        """The lake's address, as it was understood: an absolute path, or a URI."""
        return self._core.store.uri

    @property
    def branch_name(self) -> str:
        """The branch this handle reads and writes."""
        return self._live.name

    @property
    def read_only(self) -> bool:
        """Whether the lake was opened read-only: then nothing is ever written through this handle."""
        return self._core.read_only

    @property
    def head(self) -> str:
        """The newest commit this handle knows of; `refresh()` asks the store."""
        return self._live.state.head.commit

    def refresh(self) -> str:
        """Look for news, at the cost of one request when there is none; the newest commit."""
        self._core.check()
        return self._live.refresh().head.commit

    # -- reading ----------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The newest commit, for as long as you hold it. Asks the store for news: one request when there is none."""
        self._core.check()
        return Snapshot(self._core, self._live.refresh(), self._live.name)

    def tables(self) -> list[str]:
        """Names of the tables at the newest commit, sorted."""
        return self.snapshot().tables()

    def __getitem__(self, name: str) -> Table:
        """A table at the newest commit; use `snapshot()` to read several tables of one commit."""
        return self.snapshot()[name]

    def __contains__(self, name: object) -> bool:
        return name in self.snapshot()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def sql(self, query: str, params: Any = None) -> Rows:
        """A SELECT over the newest commit."""
        return self.snapshot().sql(query, params)

    def at(self, *, commit: str | None = None, tag: str | None = None, time: Any = None) -> Snapshot:
        """Time travel: the state at a commit, a tag, or a time (the last commit not after it)."""
        self._core.check()
        if sum(x is not None for x in (commit, tag, time)) != 1:
            raise InvalidInput("Say one of commit=, tag= or time=.", next='lake.at(tag="v1").')
        return Snapshot(self._core, self._state_at(commit, tag, time), self._live.name)

    def _state_at(self, commit: str | None, tag: str | None, when: Any) -> State:
        history = self._live.history
        if commit is not None:
            point, line = self._point(commit)
            return history.at(point) if line is None else branches.state_anywhere(self._core, point, line)
        if tag is not None:
            point, line = branches.tag_target(self._core, tag)
            if history.line.contains(point):
                return history.at(point)
            return branches.state_anywhere(self._core, point, line)
        return history.at_time(self._live.refresh(), parse_time(when))

    def _point(self, commit: str) -> tuple[Point, Line | None]:
        """`12.0` of this branch's line, `HEAD`, or `name:12.0` of another branch, whose line comes along."""
        if commit == "HEAD":
            return self._live.refresh().head, None
        name, separator, rest = commit.rpartition(":") if isinstance(commit, str) else ("", "", commit)
        if separator:
            line = branches.line_of(self._core, name)
            slot, index = parse_commit(rest)
            point = Point(branch=line.owner(slot), slot=slot, index=index)
            return point, None if self._live.line.contains(point) else line
        slot, index = parse_commit(commit)
        return Point(branch=self._live.line.owner(slot), slot=slot, index=index), None

    def log(self, limit: int | None = None) -> Log:
        """Commits of this branch, newest first, its ancestors' included. Read as it is looked at."""
        self._core.check()
        head = self._live.refresh()

        def entries() -> Iterator[CommitInfo]:
            for point, entry in self._live.history.commits(head):
                yield CommitInfo.of(point, entry, self._live.name)

        return Log(entries, limit)

    def show(self, commit: str) -> CommitInfo:
        """One commit of the log."""
        self._core.check()
        point, line = self._point(commit)
        [record] = self._core.ledger.read(point.branch, [point.slot])
        inside = (line or self._live.line).contains(point)
        if record is None or point.index >= len(record.commits) or not inside:
            raise self._live.history.no_commit(commit)
        name = self._live.name if line is None else commit.rpartition(":")[0]
        return CommitInfo.of(point, record.commits[point.index], name)

    def diff(self, a: str, b: str | None = None, *, tables: list[str] | None = None) -> diff.Diff:
        """What changed from `a` to `b` (default: now): rows added, changed and removed per table. Commits or tags."""
        self._core.check()
        before = self._resolve(a)
        after = self._resolve(b) if b is not None else self._live.refresh()
        return diff.Diff(self._core, before, after, tables)

    def _resolve(self, name: str) -> State:
        """A commit id, a tag, or a branch name."""
        point, line = self._place(str(name))
        return History(self._core.store, self._core.ledger, line).at(point)

    # -- writing ----------------------------------------------------------------------------------------------

    def transaction(
        self,
        message: str = "",
        *,
        author: str | None = None,
        token: tokens.Token | None = None,
        expect: Mapping[str, int] | None = None,
        if_head: str | None = None,
        isolation: Isolation = "snapshot",
        timeout: float | None = None,
        fresh: bool = False,
    ) -> Transaction:
        """Begin a transaction on the newest commit this handle knows of; it costs no request.

        Commits that others made since this handle last looked are met when it publishes. With `fresh=True` it looks
        first, for one request, so that reads and conditions see them.

        `token` makes the commit idempotent; `expect={"table": version}` and `if_head="12.0"` are the caller's own
        compare-and-swap; `timeout` is in seconds and counts until publish.
        """
        return Transaction(
            self._live,
            self._background,
            message=message,
            author=author,
            token=token,
            expect=expect,
            if_head=if_head,
            isolation=isolation,
            timeout=timeout,
            fresh=fresh,
            backfill=self._backfill,
        )

    def transact(
        self,
        fn: Callable[[Transaction], T],
        message: str = "",
        *,
        retries: int = 10,
        token: tokens.Token | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> T | None:
        """Run `fn(tx)` and commit; after a retryable conflict run it again on a fresh snapshot.

        Returns what `fn` returned, or None when the `token` was committed before; then `fn` is not run, or in vain.
        """
        self._core.check_writable()
        deadline = None if timeout is None else time.monotonic() + timeout
        if token is not None and tokens.used(self._live.state, *tokens.parse(token)) is not False:
            return None
        for attempt in range(retries + 1):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            tx = self.transaction(message, token=token, timeout=left, **options)
            try:
                with tx:
                    result = fn(tx)
                return None if tx.receipt is not None and tx.receipt.repeated else result
            except Conflict as conflict:
                if not conflict.retryable or attempt == retries:
                    raise
            if deadline is not None and time.monotonic() > deadline:
                raise DeadlineExceeded("Time ran out between two attempts; nothing was committed.", next="Allow more.")
            time.sleep(random.uniform(0, min(0.01 * 2**attempt, 1.0)))
            self._live.refresh()
        raise AssertionError("unreachable")

    def create_table(self, name: str, data: Any = None, **options: Any) -> Receipt:
        """Create one table in a commit of its own."""
        with self.transaction(f"create {name}") as tx:
            tx.create_table(name, data, **options)
        assert tx.receipt is not None
        return tx.receipt

    def revert(self, commit: str, message: str | None = None) -> Receipt:
        """A new commit that undoes an earlier one. Rows that later commits changed again are a conflict."""
        self._core.check_writable()
        return revert.revert(self, self._point(commit)[0], message)

    def claim(self) -> int:
        """Take this branch over: every handle that was open before can never publish on it again.

        Its commits are refused with `Fenced`, in every process and on every machine, without clock or lease. Handles
        opened later go on from here. Returns the branch's new epoch.
        """
        self._core.check_writable()
        with self._live.publishing:
            self._live.refresh()
            self._live.epoch = mark(self._live, "claim").epoch
        return self._live.epoch

    def outcome(self, unsettled: CommitUnknown | Transaction) -> Outcome:
        """Settle an unknown commit with one read: COMMITTED, CONFLICT, or UNKNOWN while the slot is still empty."""
        self._core.check()
        told: dict[str, Any] = {}
        if isinstance(unsettled, Transaction):
            told = {"log": unsettled.live.line.branch, "slot": unsettled.slot, "write": unsettled.write}
        else:
            told = unsettled.fields
        log, slot, write = (told.get(name) for name in ("log", "slot", "write"))
        if slot is None or write is None:
            raise InvalidInput(
                "This names no slot of a log, so there is no commit to look for.",
                next="For a branch or tag, list them; for a transaction, look at its status.",
            )
        if log is None:
            log = branches.line_of(self._core, told.get("branch") or self._live.name).owner(slot)
        [record] = self._core.ledger.read(log, [slot])
        if record is None:
            return Outcome.UNKNOWN
        return Outcome.COMMITTED if record.write == write else Outcome.CONFLICT

    # -- branches and tags ------------------------------------------------------------------------------------

    def branch(self, name: str) -> Lake:
        """A handle on another branch of the same lake."""
        self._core.check()
        if name == self._live.name:
            return self
        return Lake(self._core, open_branch(self._core, name), self._background, backfill=self._backfill)

    def branches(self) -> list[branches.BranchInfo]:
        """Every branch with its head and where it started; main first."""
        self._core.check()
        return branches.list_branches(self._core)

    def create_branch(self, name: str, *, at: str | None = None) -> Lake:
        """A new branch that starts at a commit (or tag) of this branch.

        Default: its head. Costs the same for any number of tables.
        """
        self._core.check_writable()
        point, line = self._place(at)
        branches.create(self._core, line, name, point)
        return self.branch(name)

    def _place(self, at: str | None) -> tuple[Point, Line]:
        """The commit that a commit id, tag or branch name means (None: this branch's head), and a line to it."""
        if at is None:
            return self._live.refresh().head, self._live.line
        if _is_commit(at) or at == "HEAD":
            point, line = self._point(at)
            return point, line or self._live.line
        if branches.has_tag(self._core, at):
            return branches.tag_target(self._core, at)
        other = open_branch(self._core, at)
        return other.state.head, other.line

    def delete_branch(self, name: str) -> None:
        """Close a branch for good: writers that still hold it are refused."""
        self._core.check_writable()
        branches.delete(self._core, name)

    def fast_forward(self, source: str) -> Receipt:
        """Bring this branch to the head of `source`, which must contain everything this branch has."""
        self._core.check_writable()
        return branches.fast_forward(self, open_branch(self._core, source))

    def tag(self, name: str, *, at: str | None = None, message: str = "") -> str:
        """Name a commit; the tagged commit."""
        self._core.check_writable()
        point, line = self._place(at)
        branches.create_tag(self._core, name, point, line, message)
        return point.commit

    def tags(self) -> dict[str, str]:
        """Tags and the commits they name."""
        self._core.check()
        return branches.list_tags(self._core, self._live.line)

    def delete_tag(self, name: str) -> None:
        """Forget a tag; the name may be used again."""
        self._core.check_writable()
        branches.delete_tag(self._core, name)

    # -- plain readers and writers ----------------------------------------------------------------------------

    def backfill(self) -> list[Promotion]:
        """Bring every table's plain HEAD to its published state now; says what happened to each."""
        self._core.check_writable()
        if not self._live.is_main or self._core.store.scheme == "memory":
            return []
        self._live.refresh()
        done = self._live.backfill(every=True)
        self._live.hint()
        return done

    def adopt(self, table: str) -> adopt.Adoption:
        """Take what a plain Lance client wrote to a table into the lake, as a commit; on a conflict onto a branch."""
        self._core.check_writable()
        return adopt.adopt(self, table)

    def status(self) -> dict[str, Any]:
        """Where the lake stands: head, tables, what is not backfilled, foreign writes, recent background failures."""
        self._core.check()
        state = self._live.refresh()
        pending = [state.tables[i].info.name for i in self._live.pending() if i in state.tables]
        return {
            "uri": self.uri,
            "lake": self._core.about.lake,
            "branch": self._live.name,
            "head": state.head.commit,
            "time": state.time.isoformat(),
            "tables": len(state.tables),
            "rows": sum(t.pin.rows for t in state.tables.values()),
            "bytes": sum(t.pin.bytes for t in state.tables.values()),
            "checkpoint": state.checkpoint.slot if state.checkpoint else None,
            "uncheckpointed": state.slot - (state.checkpoint.slot if state.checkpoint else -1),
            "pending_backfill": sorted(pending) if self._live.is_main else [],
            "background_failures": list(self._background.failures),
        }

    def verify(self, progress: verify.Progress | None = None) -> verify.Verification:
        """Check the whole lake: every branch's log, its checkpoints, every pinned file, and what plain readers see.

        Reads only. `progress(what, count)` is told as it goes on.
        """
        self._core.check()
        return verify.verify(self._core, progress)

    def foreign(self) -> list[Promotion]:
        """Tables to which a plain Lance client wrote behind Quire's back."""
        self._core.check()
        main = self._live if self._live.is_main else open_branch(self._core, MAIN)
        return adopt.find_foreign(self._core, main.refresh())

    # -- life -------------------------------------------------------------------------------------------------

    def flush(self, timeout: float = 60.0) -> bool:
        """Wait for background work (backfill, checkpoint, hint). False when time ran out first."""
        return self._background.drain(timeout)

    def close(self) -> None:
        """Finish background work. The handle stays usable; leaving a `with` block does the same."""
        self.flush()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise Unsupported(
            "A lake handle cannot be pickled: it holds connections.",
            next="Pickle lake.snapshot() to read elsewhere, or open the lake there to write.",
        )

    def __repr__(self) -> str:
        return f"<Lake {self.uri} on {self._live.name!r} at {self.head}>"

    def _repr_html_(self) -> str:
        return f"<b>{escape(self.uri)}</b><br>{self.snapshot()._repr_html_()}"


def _is_commit(text: str) -> bool:
    return text.rpartition(":")[2].replace(".", "", 1).isdigit()
