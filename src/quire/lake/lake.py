"""The lake: many tables, one commit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from quire.errors import BranchNotFound, CommitUnknown, Conflict, DeadlineExceeded, InvalidInput, Unsupported
from quire.formats import Promotion
from quire.lake import adopt, branches, cleanup, diff, pressure, recovery, revert, tokens, verify
from quire.lake.background import Background
from quire.lake.core import Core
from quire.lake.engines import Engine
from quire.lake.line import LiveBranch, open_branch
from quire.lake.marks import mark
from quire.lake.names import parse_commit, parse_time
from quire.lake.receipt import CommitInfo, Log, Receipt
from quire.lake.reports import opening
from quire.lake.retention import Retention
from quire.lake.snapshot import Snapshot
from quire.lake.table import Rows, Table
from quire.lake.transaction import Isolation, Transaction
from quire.ledger import MAIN, History, Line, Point, State
from quire.store import Outcome, clock, phase

if TYPE_CHECKING:
    from quire.lake.export import Exported
    from quire.lake.optimize import Optimized

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
    with opening("open", uri, branch) as it:
        with phase("format"):
            core = Core.open(uri, storage_options, read_only=read_only, author=author)
        with phase("log"):
            live = open_branch(core, branch)
        it.found(core, live.state)
    return Lake(core, live, Background(), backfill=backfill, opened=True, cost=it.cost)


def create(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    author: str | None = None,
    backfill: bool = True,
    exist_ok: bool = False,
    ledger: Literal["log", "manifest"] = "log",
) -> Lake:
    """Make a new lake, after proving that the store honours create-if-absent.

    With `exist_ok` an existing one is opened. The `ledger` is the log of objects, or a single Lance table that plain
    clients can look into (`_quire/__manifest.lance`), at a higher price per commit.
    """
    from quire.errors import LakeExists

    try:
        with opening("open", uri, MAIN) as it:
            with phase("create"):
                core = Core.create(uri, storage_options, author=author, ledger=ledger)
            live = LiveBranch(core, MAIN, Line(branch=core.about.main), None, None, core.born)
            it.found(core, live.state)
    except LakeExists:
        if not exist_ok:
            raise
        return open(uri, storage_options=storage_options, author=author, backfill=backfill)
    return Lake(core, live, Background(), backfill=backfill, cost=it.cost)


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
        self,
        core: Core,
        live: LiveBranch,
        background: Background,
        *,
        backfill: bool,
        opened: bool = False,
        cost: Mapping[str, Any] | None = None,
    ) -> None:
        self._core, self._live, self._background, self._backfill = core, live, background, backfill
        self._cost = dict(cost or {})
        if opened and backfill and not core.read_only and live.is_main and live.pending():
            background.submit(("recover", live.name), lambda: recovery.recover(live, every=False))

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

    @property
    def cost(self) -> dict[str, Any]:
        """What opening, or making, this handle took: requests, hops, retries, bytes, seconds and time by phase."""
        return self._cost

    def refresh(self) -> str:
        """Look for news, at the cost of one request when there is none; the newest commit."""
        self._core.check()
        return self._live.refresh().head.commit

    # -- reading ----------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The newest commit, for as long as you hold it. Asks the store for news: one request when there is none."""
        self._core.check()
        return self._snapshot(self._live.refresh)

    def _snapshot(self, find: Callable[[], State]) -> Snapshot:
        with opening("snapshot", self.uri, self._live.name) as it:
            with phase("log"):
                state = find()
            it.found(self._core, state)
        return Snapshot(self._core, state, self._live.name, self._live, it.cost)

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

    def export(self, folder: str | os.PathLike[str], **options: Any) -> Exported:
        """Write the tables of the newest commit as files; see `Snapshot.export` for the options."""
        return self.snapshot().export(folder, **options)

    def at(self, *, commit: str | None = None, tag: str | None = None, time: Any = None) -> Snapshot:
        """Time travel: the state at a commit, a tag, or a time (the last commit not after it)."""
        self._core.check()
        if sum(x is not None for x in (commit, tag, time)) != 1:
            raise InvalidInput("Say one of commit=, tag= or time=.", next='lake.at(tag="v1").')
        return self._snapshot(lambda: self._state_at(commit, tag, time))

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
        """`12.0` of this branch's line, `HEAD`, a tag, or `name:12.0` of another branch, whose line comes along."""
        if commit == "HEAD":
            return self._live.refresh().head, None
        if isinstance(commit, str) and not _is_commit(commit) and branches.has_tag(self._core, commit):
            tagged, along = branches.tag_target(self._core, commit)
            return tagged, None if self._live.line.contains(tagged) else along
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
                yield CommitInfo.of(point, entry, self._live.name, ledger=self._core.about.ledger)

        return Log(entries, limit)

    def show(self, commit: str) -> CommitInfo:
        """One commit of the log, by its id or a tag."""
        self._core.check()
        point, line = self._point(commit)
        [record] = self._core.ledger.read(point.branch, [point.slot])
        if record is not None and record.buried:
            raise self._live.history.expired(commit)
        inside = (line or self._live.line).contains(point)
        if record is None or point.index >= len(record.commits) or not inside:
            raise self._live.history.no_commit(commit)
        name = self._live.name if line is None else commit.rpartition(":")[0] or line.branch
        shared = len(record.commits)
        return CommitInfo.of(point, record.commits[point.index], name, ledger=self._core.about.ledger, shared=shared)

    def diff(
        self, a: str, b: str | None = None, *, tables: list[str] | None = None, engine: Engine = "local"
    ) -> diff.Diff:
        """What changed from `a` to `b` (default: now): rows added, changed and removed per table. Commits or tags.

        On a Spark session as `engine`, its executors read and compare the rows.
        """
        self._core.check()
        before = self._resolve(a)
        after = self._resolve(b) if b is not None else self._live.refresh()
        return diff.Diff(self._core, before, after, tables, engine)

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
        deadline = None if timeout is None else clock.monotonic() + timeout
        if token is not None and tokens.used(self._live.state, *tokens.parse(token)) is not False:
            return None
        for attempt in range(retries + 1):
            left = None if deadline is None else max(0.0, deadline - clock.monotonic())
            tx = self.transaction(message, token=token, timeout=left, **options)
            try:
                with tx:
                    result = fn(tx)
                return None if tx.receipt is not None and tx.receipt.repeated else result
            except Conflict as conflict:
                if not conflict.retryable or attempt == retries:
                    raise
            if deadline is not None and clock.monotonic() > deadline:
                raise DeadlineExceeded("Time ran out between two attempts; nothing was committed.", next="Allow more.")
            clock.sleep(clock.uniform(0, min(0.01 * 2**attempt, 1.0)))
            self._live.refresh()
        raise AssertionError("unreachable")

    def create_table(self, name: str, data: Any = None, **options: Any) -> Receipt:
        """Create one table in a commit of its own."""
        with self.transaction(f"create {name}") as tx:
            tx.create_table(name, data, **options)
        assert tx.receipt is not None
        return tx.receipt

    def revert(self, commit: str, message: str | None = None) -> Receipt:
        """A new commit that undoes an earlier one, named by its id or a tag.

        Rows that later commits changed again are a conflict.
        """
        self._core.check_writable()
        return revert.revert(self, self._point(commit)[0], message)

    def claim(self, branch: str | None = None) -> int:
        """Take a branch over, this one or another: every handle that was open before can never publish on it again.

        Its commits are refused with `Fenced`, in every process and on every machine, without clock or lease. Handles
        opened later go on from here. Returns the branch's new epoch.
        """
        self._core.check_writable()
        if branch is not None and branch != self._live.name:
            return self.branch(branch).claim()
        with self._live.publishing:
            self._live.refresh()
            self._live.checkpoint()
            mark(self._live, "claim")
        return self._live.epoch

    def outcome(self, unsettled: CommitUnknown | Transaction | str) -> Outcome:
        """Settle an unknown commit with one read: COMMITTED, CONFLICT, or UNKNOWN while the slot is still empty.

        It is named by the error, by its `token`, or by the transaction.
        """
        self._core.check()
        told: dict[str, Any] = {}
        if isinstance(unsettled, str):
            told = _parse_unknown(unsettled)
        elif isinstance(unsettled, Transaction):
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
        return Outcome.COMMITTED if record.wrote(write) else Outcome.CONFLICT

    # -- branches and tags ------------------------------------------------------------------------------------

    def branch(self, name: str) -> Lake:
        """A handle on another branch of the same lake."""
        self._core.check()
        if name == self._live.name:
            return self
        return self._handle(name, lambda: open_branch(self._core, name))

    def _handle(self, name: str, find: Callable[[], LiveBranch]) -> Lake:
        with opening("open", self.uri, name) as it:
            with phase("log"):
                live = find()
            it.found(self._core, live.state)
        return Lake(self._core, live, self._background, backfill=self._backfill, cost=it.cost)

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
        return self._handle(name, lambda: branches.create(self._core, self._live, line, name, point))

    def _place(self, at: str | None) -> tuple[Point, Line]:
        """The commit that a commit id, tag or branch name means (None: this branch's head), and a line to it."""
        if at is None:
            return self._live.refresh().head, self._live.line
        if _is_commit(at) or at == "HEAD":
            point, line = self._point(at)
            return point, line or self._live.line
        if branches.has_tag(self._core, at):
            return branches.tag_target(self._core, at)
        try:
            other = open_branch(self._core, at)
        except BranchNotFound:
            raise branches.no_place(at) from None
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
        branches.create_tag(self._core, self._live, name, point, line, message)
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

    def recover(self, progress: recovery.Progress | None = None) -> recovery.Recovered:
        """Finish what published commits still ask for: backfills, checkpoints, and the litter of dead processes.

        It is run by itself when a lake is opened for writing, and by `maintain`. Live writers are left alone, and
        nothing that is visible changes. What it did is kept in a side log, see `recoveries`.
        """
        self._core.check_writable()
        return recovery.recover(self._main(), progress=progress)

    def recoveries(self) -> list[recovery.Recovered]:
        """What recoveries of this lake did, newest first."""
        self._core.check()
        return recovery.reports(self._core)

    def _main(self) -> LiveBranch:
        return self._live if self._live.is_main else open_branch(self._core, MAIN)

    # -- upkeep -----------------------------------------------------------------------------------------------

    def optimize(
        self,
        tables: Sequence[str] | None = None,
        *,
        target_rows: int = 1 << 20,
        deleted: float = 0.1,
        dry_run: bool = False,
        progress: cleanup.Progress | None = None,
        engine: Engine = "local",
    ) -> Optimized:
        """Merge small fragments, extend indexes to new rows, write a checkpoint: ordinary commits, beside writers.

        Fragments with fewer than `target_rows` rows are merged, and those of which more than the share `deleted` is
        deleted are written anew. With `dry_run` nothing is written. A table that others keep changing is left "busy".
        On a Spark session as `engine`, its executors write the data and index files.
        """
        from quire.lake.optimize import optimize

        return optimize(
            self,
            tables,
            target_rows=target_rows,
            deleted=deleted,
            dry_run=dry_run,
            progress=progress,
            engine=engine,
        )

    def cleanup(
        self,
        *,
        keep: int = 10,
        older_than: timedelta | float = timedelta(days=7),
        grace: timedelta | float = timedelta(hours=1),
        dead_after: timedelta | float = timedelta(days=1),
        dry_run: bool = False,
        progress: cleanup.Progress | None = None,
    ) -> cleanup.Cleaned:
        """Delete what no kept commit, tag, branch, lease or writer needs, in every branch of the lake.

        A commit is kept if it was the newest within `older_than` or is among the last `keep` of its branch. Nothing
        younger than `grace` is ever deleted. A writer that has given no sign for `dead_after` is revoked: what it
        staged goes, and it can never publish it. Lengths of time are timedeltas or seconds. It can be interrupted and
        run again at any time.
        """
        if dry_run:
            self._core.check()
        else:
            self._core.check_writable()
        retention = Retention(keep, _length(older_than), _length(grace), _length(dead_after))
        return cleanup.Collector(self, retention, dry_run=dry_run, progress=progress).run()

    def maintain(
        self,
        *,
        every: float = 60.0,
        optimize: bool | Mapping[str, Any] = False,
        cleanup: bool | Mapping[str, Any] = False,
    ) -> recovery.Maintenance:
        """Keep the lake in order in a background thread until `stop()`, or to the end of a `with` block.

        Recovers every `every` seconds; `optimize` and `cleanup` are off, on, or the options to run them with. A round
        that fails is logged as a warning of the logger "quire" and kept in `done.failures`; the next one tries again.
        """
        self._core.check_writable()
        recovery.check_rounds(every, optimize=(optimize, self.optimize), cleanup=(cleanup, self.cleanup))
        jobs: list[tuple[str, Callable[[], Any]]] = [("recover", lambda: recovery.recover(self._main(), every=False))]
        if optimize is not False:
            given = dict(optimize) if isinstance(optimize, Mapping) else {}
            jobs.append(("optimize", lambda: self.optimize(**given)))
        if cleanup is not False:
            kept = dict(cleanup) if isinstance(cleanup, Mapping) else {}
            jobs.append(("cleanup", lambda: self.cleanup(**kept)))
        return recovery.Maintenance(self, every, jobs)

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
            "floor": state.floor,
            "load": {
                bound: {"now": now, "bound": getattr(self._core.bounds, bound), "table": where or None}
                for bound, (now, where) in pressure.load(self._live).items()
            },
            "background_failures": list(self._background.failures),
        }

    def verify(
        self, progress: verify.Progress | None = None, *, deep: bool = False, engine: Engine = "local"
    ) -> verify.Verification:
        """Check the whole lake: every branch's log, its checkpoints, every pinned file, and what plain readers see.

        Reads only. With `deep` every data file is read from end to end, not just looked for. On a Spark session as
        `engine`, its executors look at the tables. `progress(what, count)` is told as it goes on.
        """
        self._core.check()
        return verify.verify(self._core, progress, deep=deep, engine=engine)

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
        """Finish background work. The handle stays usable; leaving a `with` block does the same.

        In a forked child this does nothing: what is open belongs to the parent.
        """
        if self._core.is_forked:
            return
        self.flush()
        if not self._core.read_only:
            self._core.writers.close()

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


def _parse_unknown(token: str) -> dict[str, Any]:
    """The commit that the token of a `CommitUnknown` names."""
    parts = re.fullmatch(r"([0-9A-Za-z_-]{1,64})/([0-9]{1,18})/([0-9A-Za-z_-]{1,64})", token)
    if parts is None:
        raise InvalidInput(f"{token!r} is not the token of an unknown commit.", next="Give error.token as it was.")
    return {"log": parts[1], "slot": int(parts[2]), "write": parts[3]}


def _length(given: timedelta | float) -> timedelta:
    if isinstance(given, timedelta):
        return given
    try:
        return timedelta(seconds=given)
    except (TypeError, OverflowError, ValueError):
        raise InvalidInput(f"{given!r} is not a length of time.", next="Give a timedelta or seconds.") from None


def _is_commit(text: str) -> bool:
    return text.rpartition(":")[2].replace(".", "", 1).isdigit()
