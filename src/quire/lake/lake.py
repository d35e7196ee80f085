"""The lake: many tables, one commit."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from quire.arguments import LONGEST_WAIT, bounded, checks_arguments
from quire.errors import CommitUnknown, QuireError, Unsupported
from quire.formats import Promotion
from quire.lake import display, status
from quire.lake.branch import adopt, branches, tags
from quire.lake.branch.lineage import base_of
from quire.lake.branch.live import LiveBranch, open_branch
from quire.lake.commit import outcome, tokens, transact
from quire.lake.commit.transaction import Isolation, Transaction
from quire.lake.context import Core
from quire.lake.cost_report import measured
from quire.lake.engines import Engine
from quire.lake.guard import Who, provided
from quire.lake.guard.handles import acting, gate_of, on_branch
from quire.lake.guard.verbs import LAKE, guarded
from quire.lake.publish.control_records import claim
from quire.lake.read import diff, log, sql
from quire.lake.read.snapshot import Snapshot, opened
from quire.lake.read.table import Rows, Table
from quire.lake.receipt import CommitInfo, Log, Receipt
from quire.lake.resolve import resolve as resolve_commit
from quire.lake.resolve import state_at, state_of
from quire.lake.upkeep import recovery
from quire.lake.upkeep.background import Background
from quire.ledger import MAIN, State
from quire.progress import Progress
from quire.prompt import PublicNames, one_line
from quire.store import Outcome, run_parallel

if TYPE_CHECKING:
    from quire.lake.branch.requests import Requests
    from quire.lake.feed.consumers import Consumers
    from quire.lake.feed.feed import Feed
    from quire.lake.merge.plan import MergePlan
    from quire.lake.read.export import Exported, ExportKind
    from quire.lake.read.row_history import RowHistory
    from quire.lake.register import lancedb_database
    from quire.lake.upkeep import repair, verify
    from quire.lake.upkeep.cleanup import collector
    from quire.lake.upkeep.optimize import Optimized

T = TypeVar("T")


@guarded(LAKE)
@checks_arguments
class Lake(PublicNames):
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
        self, core: Core, live: LiveBranch, background: Background, backfill: bool, cost: dict[str, Any]
    ) -> None:
        self._core, self._live, self._background, self._backfill, self._cost = core, live, background, backfill, cost
        self._gate = None if core.guard is None else gate_of(core)

    def acting(self, actor: str, roles: Sequence[str] = (), *, via: str = "library", request: str = "") -> Lake:
        """A handle by which an actor with these roles acts, of a lake that was opened with a policy or an actor.

        It sees and does what the policy of the lake allows, and what it commits is by the actor.
        """
        if self._core.guard is None:
            raise Unsupported(
                "This lake was opened without a guard.", next='Open it with quire.open(…, actor="…", roles=[…]).'
            )
        return acting(self, Who.of(actor, roles, via=via, request=request))

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
        state, cost = measured(self._core, self._live.name, "snapshot", lambda: self._core.narrow(find()))
        return Snapshot(self._core, state, self._live.name, self._live, cost)

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

    def _ipython_key_completions_(self) -> list[str]:
        return sorted(self._core.narrow(self._live.state).names())  # nothing is asked for while somebody types

    def sql(
        self,
        query: str,
        params: Sequence[Any] | dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        max_rows: int | None = None,
    ) -> Rows:
        """A SELECT over the newest commit, within limits as in `Snapshot.sql`.

        Tables are opened as they are known while the store is asked for news.
        """
        self._core.check()
        found: list[Snapshot] = []

        def names(wanted: Collection[str]) -> list[str]:
            known = Snapshot(self._core, self._core.narrow(self._live.state), self._live.name, self._live)
            looks: list[Callable[[], None]] = [lambda: found.append(self.snapshot())]
            looks += [partial(_look_at, known[name]) for name in sql.likely(wanted, known.tables())]
            run_parallel(looks)
            self._core.missed(wanted)
            return found[0].tables()

        limits = sql.Limits(timeout, memory, max_rows)
        return sql.run(query, params, sql.Tables(names, lambda tables: opened(found[0], tables)), limits)

    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        tables: Sequence[str] | None = None,
        format: ExportKind = "parquet",
        engine: Engine = "local",
        storage_options: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Exported:
        """Write the tables of the newest commit as files; see `Snapshot.export`."""
        return self.snapshot().export(
            folder, tables=tables, format=format, engine=engine, storage_options=storage_options, progress=progress
        )

    def at(self, *, commit: str | None = None, tag: str | None = None, time: Any = None) -> Snapshot:
        """Time travel: the state at a commit, a tag, or a time (the last commit not after it).

        A commit is `12.0`, `exp:12.0` of another branch, `HEAD`, or the name of a tag or a branch; `tag:v1` and
        `branch:exp` where a name is both.
        """
        core = self._core.check()
        return self._snapshot(lambda: state_at(core, self._live, commit, tag, time))

    def log(self, limit: int | None = None, *, parents: Literal["first", "all"] = "first") -> Log:
        """Commits of this branch, newest first, its ancestors' included. Read as it is looked at.

        With `parents="all"` also those of every branch that was merged into it or taken over, as long as they are kept;
        `branch` is then the name of their branch, or the id of its log if it was deleted.
        """
        return log.log(self._core.check(), self._live, limit, parents)

    def show(self, commit: str) -> CommitInfo:
        """One commit of the log, by its id, a tag or a branch."""
        return log.show(self._core.check(), self._live, commit)

    def diff(
        self,
        a: str,
        b: str | None = None,
        *,
        since_base: bool = False,
        tables: list[str] | None = None,
        engine: Engine = "local",
    ) -> diff.Diff:
        """What changed from `a` to `b` (default: now): rows added, changed and removed per table. Commits or tags.

        With `since_base` what `b` did since the two parted: from their merge base to `b`. On a Spark session as
        `engine`, its executors read and compare the rows.
        """
        core = self._core.check()
        before = base_of(core, self._live, a, b) if since_base else state_of(core, self._live, a)
        return diff.Diff(core, before, state_of(core, self._live, b), tables, engine)

    def history(self, table: str, key: Any, *, limit: int | None = None) -> RowHistory:
        """Every version of the row with this key, newest first: commit, author, time, the row and what changed.

        `key` is a value, a tuple for a key of several columns, or a dict. `blame()` says where each value came from.
        """
        from quire.lake.read.row_history import row_history

        return row_history(self._core.check(), self._live, table, key, limit)

    def changes(
        self,
        since: str = "now",
        *,
        tables: Sequence[str] | None = None,
        ops: Sequence[Literal["insert", "update", "delete"]] | None = None,
        images: Literal["after", "both", "none"] = "after",
        net: bool = False,
        follow: bool = False,
        poll: float = 1.0,
        timeout: float | None = None,
    ) -> Feed:
        """The changes of this branch, a block for every commit, in the order of its log.

        `since` is "now", "beginning", a commit, the `cursor` of a block or feed, or "baseline": all rows of the newest
        commit, then what comes. With `follow` it waits for more, and `timeout` seconds without news end it; others'
        commits are seen within `poll` seconds. `net` gives one block up to the newest commit. `images` of updated rows
        are "after", "both" or "none". What cleanup has removed is a `FeedGap`.
        """
        from quire.lake.feed.feed import Feed

        asked: dict[str, Any] = {"tables": tables, "ops": ops, "images": images, "net": net, "follow": follow}
        return Feed(self._core.check(), self._live, since, poll=poll, timeout=timeout, **asked)

    @property
    def consumers(self) -> Consumers:
        """Named readers of changes, of which the lake knows how far they have come: `open`, `list`, `drop`."""
        from quire.lake.feed.consumers import Consumers

        return Consumers(self)

    def watch(self, *, poll: float = 1.0, timeout: float | None = None) -> Iterator[str]:
        """The newest commit, each time that there is a newer one, for programs that only want to know that.

        Others' commits are seen within `poll` seconds. `timeout` seconds without one end it.
        """
        from quire.lake.feed.follow import watch

        bounded("timeout", timeout, 0, math.inf)
        return watch(self._core.check(), self._live, bounded("poll", poll, 0.01), timeout)

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
        metadata: Mapping[str, str] | None = None,
    ) -> Transaction:
        """Begin a transaction on the newest commit this handle knows of; it costs no request.

        Commits that others made since this handle last looked are met when it publishes. With `fresh=True` it looks
        first, for one request, so that reads and conditions see them.

        `token` makes the commit idempotent; `expect={"table": version}` and `if_head="12.0"` are the caller's own
        compare-and-swap; `timeout` is in seconds and counts until publish. `metadata={"job": "42"}` is kept with the
        commit for everybody to read, so it is no place for secrets.
        """
        asked: dict[str, Any] = {"expect": expect, "if_head": if_head, "isolation": isolation, "timeout": timeout}
        asked |= {
            "author": self._by(author),
            "token": token,
            "metadata": metadata,
            "fresh": fresh,
            "backfill": self._backfill,
        }
        return Transaction(self._live, self._background, message=message, gate=self._gate, **asked)

    def _by(self, author: str | None) -> str | None:
        """Who a commit is by: an actor, where there is one, and nobody that it names instead."""
        if self._gate is not None or self._core.author != self._live.core.author:
            return self._core.author
        return author

    def transact(
        self,
        fn: Callable[[Transaction], T],
        message: str = "",
        *,
        retries: int = 10,
        token: tokens.Token | None = None,
        author: str | None = None,
        expect: Mapping[str, int] | None = None,
        if_head: str | None = None,
        isolation: Isolation = "snapshot",
        timeout: float | None = None,
        fresh: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> T | None:
        """Run `fn(tx)` and commit; after a retryable conflict run it again on a fresh snapshot.

        What `fn` gives to its statements must be there again: an iterator that its first run has read is refused.
        Returns what `fn` returned, or None when the `token` was committed before; then `fn` is not run, or in vain.
        """
        self._core.check_writable()
        asked: dict[str, Any] = {"author": author, "token": token, "expect": expect, "if_head": if_head}
        asked |= {"isolation": isolation, "fresh": fresh, "metadata": metadata}
        return transact.transact(self, fn, message, retries=retries, timeout=timeout, asked=asked)

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
        metadata: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Create one table in a commit of its own; see `Transaction.create_table`."""
        asked: dict[str, Any] = {"schema": schema, "key": key, "stable_row_ids": stable_row_ids}
        asked |= {"validator": validator, "rules": rules, "format": format, "options": options}
        with self.transaction(f"create {name}", metadata=metadata) as tx:
            tx.create_table(name, data, **asked)
        return tx.receipt

    @overload
    def revert(
        self,
        commit: str,
        message: str | None = None,
        *,
        preview: Literal[True],
        parent: int = 1,
        resolve: Any = None,
        metadata: Mapping[str, str] | None = None,
    ) -> MergePlan: ...
    @overload
    def revert(
        self,
        commit: str,
        message: str | None = None,
        *,
        preview: Literal[False] = False,
        parent: int = 1,
        resolve: Any = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Receipt: ...
    def revert(
        self,
        commit: str,
        message: str | None = None,
        *,
        preview: bool = False,
        parent: int = 1,
        resolve: Any = None,
        metadata: Mapping[str, str] | None = None,
    ) -> MergePlan | Receipt:
        """A new commit that undoes an earlier one, by its id or tag; rows that were changed again are a conflict.

        It is a merge of the state before the commit, from the commit on. Of a merge, `parent=1` undoes what came from
        the other branch, and `parent=2` what this one had. `preview` and `resolve` are those of `merge`.
        """
        from quire.lake.branch import revert

        core = self._core.check() if preview else self._core.check_writable()
        if not preview and parent == 1 and resolve is None:
            return revert.revert(self, resolve_commit(core, self._live, commit).point, message, metadata)
        return self._one_commit("revert", commit, parent, preview, resolve, message, metadata)

    @overload
    def cherry_pick(
        self,
        commit: str,
        message: str | None = None,
        *,
        preview: Literal[True],
        parent: int = 1,
        resolve: Any = None,
        metadata: Mapping[str, str] | None = None,
    ) -> MergePlan: ...
    @overload
    def cherry_pick(
        self,
        commit: str,
        message: str | None = None,
        *,
        preview: Literal[False] = False,
        parent: int = 1,
        resolve: Any = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Receipt: ...
    def cherry_pick(
        self,
        commit: str,
        message: str | None = None,
        *,
        preview: bool = False,
        parent: int = 1,
        resolve: Any = None,
        metadata: Mapping[str, str] | None = None,
    ) -> MergePlan | Receipt:
        """Do here what one commit of another branch did there: a merge of that commit, from its parent on.

        The new commit has one parent and does not remember the other branch. `preview` and `resolve` are those of
        `merge`.
        """
        _ = self._core.check() if preview else self._core.check_writable()
        return self._one_commit("pick", commit, parent, preview, resolve, message, metadata)

    def _one_commit(
        self,
        verb: Literal["pick", "revert"],
        commit: str,
        parent: int,
        preview: bool,
        resolve: Any,
        message: str | None,
        metadata: Mapping[str, str] | None,
    ) -> MergePlan | Receipt:
        from quire.lake.merge.plan import Asked, merge
        from quire.lake.merge.strategies import Resolving

        about = {"metadata": metadata}
        how: dict[str, Any] = {"resolving": Resolving(resolve), "verb": verb, "parent": parent}
        return merge(self, Asked(commit, message=message, transaction=about, **how), preview=preview)

    def restore(
        self,
        at: str | datetime,
        *,
        tables: Sequence[str] | None = None,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Receipt:
        """A new commit in which all tables, or those named, are what they were at an earlier commit, tag or time.

        No data is read or written: their states are pinned again. Tables that were dropped since come back, and of a
        whole lake those that were made since are dropped. Names are those that tables had then. A table that somebody
        changes at the same moment is a conflict.
        """
        from quire.lake.branch import restore

        self._core.check_writable()
        return restore.restore(self, at, tables, message, metadata)

    def claim(self, branch: str | None = None) -> int:
        """Take a branch over, this one or another: every handle that was open before can never publish on it again.

        Its commits are refused with `Fenced`, in every process and on every machine, without clock or lease, and so are
        those of handles that it makes later, and of work that it began for other processes. Handles opened later go on
        from here. Returns the branch's new epoch.
        """
        self._core.check_writable()
        return claim(self._live if branch is None else self.branch(branch)._live)

    def outcome(self, unsettled: CommitUnknown | Transaction | str) -> Outcome:
        """Settle an unknown commit with one read: COMMITTED, CONFLICT, or UNKNOWN while the slot is still empty.

        It is named by the error, by its `token`, or by the transaction.
        """
        return outcome.outcome(self._core.check(), self._live, unsettled)

    # -- branches and tags ------------------------------------------------------------------------------------

    def branch(self, name: str) -> Lake:
        """A handle on another branch of the same lake."""
        core = self._core.check()
        if name == self._live.name:
            return self
        core.see_branch(name)
        return self._handle(name, lambda: open_branch(core.base, name))

    def _handle(self, name: str, find: Callable[[], LiveBranch]) -> Lake:
        live, cost = measured(self._core, name, "open", find)
        core = self._core if self._gate is None else on_branch(self._core, name)
        return Lake(core, live, self._background, self._backfill, cost)

    def branches(self) -> list[branches.BranchInfo]:
        """Every branch with its head and where it started; main first."""
        return branches.list_branches(self._core.check())

    def create_branch(self, name: str, *, at: str | None = None) -> Lake:
        """A new branch from a commit or tag of this one (default: its head), at one cost for any number of tables."""
        point, line, _ = resolve_commit(self._core.check_writable(), self._live, at)
        return self._handle(name, lambda: branches.create(self._core, self._live, line, name, point))

    def delete_branch(self, name: str) -> None:
        """Close a branch for good: writers that still hold it are refused."""
        branches.delete(self._core.check_writable(), name)

    def fast_forward(
        self, source: str, message: str | None = None, *, metadata: Mapping[str, str] | None = None
    ) -> Receipt:
        """Bring this branch to the head of `source`, which must contain everything this branch has."""
        from quire.lake.branch import fast_forward

        self._core.check_writable()
        return fast_forward.fast_forward(self, open_branch(self._core, source), message, metadata)

    # -- who may do what --------------------------------------------------------------------------------------

    @property
    def policy(self) -> Any:
        """The rules of the lake about who may do what: `show`, `set`, `check`, `test`, `explain`."""
        return provided("policies").Policies(self)

    def audit(self, *, limit: int | None = None, actor: str | None = None, denied: bool = False) -> list[Any]:
        """What was written and what was refused, newest first: who, what, when, and by which request.

        Commits come from the log of this branch, everything else from what guarded handles wrote down. With `denied`
        only what was refused.
        """
        return list(provided("audit").entries(self, limit=limit, actor=actor, denied=denied))

    @property
    def requests(self) -> Requests:
        """The merge requests of the lake: `open`, `list`, `get`, `review`, `close` and others."""
        from quire.lake.branch.requests import Requests

        return Requests(self)

    @overload
    def merge(
        self,
        source: str,
        *,
        preview: Literal[True],
        into: str | None = None,
        mode: Literal["auto", "ff-only", "no-ff", "squash"] = "auto",
        resolve: Any = None,
        granularity: Literal["cell", "row", "table"] | Mapping[str, str] = "cell",
        groups: Mapping[str, Sequence[Sequence[str]]] | None = None,
        orphans: Literal["fail", "drop-edges", "keep-node"] = "fail",
        base: str | None = None,
        message: str | None = None,
        author: str | None = None,
        token: tokens.Token | None = None,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> MergePlan: ...
    @overload
    def merge(
        self,
        source: str,
        *,
        preview: Literal[False] = False,
        into: str | None = None,
        mode: Literal["auto", "ff-only", "no-ff", "squash"] = "auto",
        resolve: Any = None,
        granularity: Literal["cell", "row", "table"] | Mapping[str, str] = "cell",
        groups: Mapping[str, Sequence[Sequence[str]]] | None = None,
        orphans: Literal["fail", "drop-edges", "keep-node"] = "fail",
        base: str | None = None,
        message: str | None = None,
        author: str | None = None,
        token: tokens.Token | None = None,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Receipt: ...
    def merge(
        self,
        source: str,
        *,
        preview: bool = False,
        into: str | None = None,
        mode: Literal["auto", "ff-only", "no-ff", "squash"] = "auto",
        resolve: Any = None,
        granularity: Literal["cell", "row", "table"] | Mapping[str, str] = "cell",
        groups: Mapping[str, Sequence[Sequence[str]]] | None = None,
        orphans: Literal["fail", "drop-edges", "keep-node"] = "fail",
        base: str | None = None,
        message: str | None = None,
        author: str | None = None,
        token: tokens.Token | None = None,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> MergePlan | Receipt:
        """Bring what another branch did since it parted into this one, or into branch `into`, in one commit.

        With `preview=True` nothing is written, and the plan says what it would do, with all conflicts; it can be
        resolved and committed. Otherwise open conflicts are `UnresolvedConflicts`, and nothing is committed.

        `mode` is "auto", "ff-only" (refuse anything but a fast-forward), "no-ff" (always make a merge commit) or
        "squash" (one commit that does not remember the other branch). `resolve` decides conflicts: "ours", "theirs", a
        function of the conflict, or a dict of these by table. Rows are compared by `granularity` "cell", "row" or
        "table", for all tables or by table; columns in one of the `groups` of a table are never taken from both sides.
        In a graph, `orphans` says what becomes of edges that lose a node by it: "fail", "drop-edges" or "keep-node".
        `base` names the commit from which changes count, instead of the one from which the branches parted.
        """
        from quire.lake.merge.decide import Options
        from quire.lake.merge.plan import Asked, merge
        from quire.lake.merge.strategies import Resolving

        _ = self._core.check() if preview else self._core.check_writable()
        target = self if into is None else self.branch(into)
        about = {"author": author, "token": token, "timeout": timeout, "metadata": metadata}
        options = Options.of(granularity, groups)
        how: dict[str, Any] = {"orphans": orphans, "message": message, "transaction": about}
        return merge(target, Asked(source, mode, base, options, Resolving(resolve), **how), preview=preview)

    def tag(self, name: str, *, at: str | None = None, message: str | None = "") -> str:
        """Name a commit; the tagged commit. No branch may have the same name."""
        point, line, _ = resolve_commit(self._core.check_writable(), self._live, at)
        tags.create(self._core, self._live, name, point, line, message)
        return point.commit

    def tags(self) -> dict[str, tags.TagInfo]:
        """Tags and the commits they name, each with its `message`, `author` and `time`."""
        return tags.every(self._core.check(), self._live.line)

    def delete_tag(self, name: str) -> None:
        """Forget a tag; the name may be used again."""
        tags.delete(self._core.check_writable(), name)

    # -- upkeep -----------------------------------------------------------------------------------------------

    def backfill(self) -> list[Promotion]:
        """Bring every table's plain HEAD to its published state now; says what happened to each."""
        self._core.check_writable()
        return self._live.backfill_all()

    def recover(self, progress: Progress | None = None) -> recovery.Recovered:
        """Finish backfills and checkpoints that dead writers left, and remove their temporary files.

        Opening a lake for writing runs it, and so does `maintain`. Live writers are left alone, and nothing that is
        visible changes. A side log keeps what it did, see `recoveries`.
        """
        self._core.check_writable()
        return recovery.recover(self._main(), progress=progress)

    def recoveries(self) -> list[recovery.Recovered]:
        """What recoveries of this lake did, newest first."""
        return recovery.reports(self._core.check())

    def _main(self) -> LiveBranch:
        return self._live if self._live.is_main else open_branch(self._core, MAIN)

    def optimize(
        self,
        tables: Sequence[str] | None = None,
        *,
        target_rows: int = 1 << 20,
        deleted: float = 0.1,
        dry_run: bool = False,
        progress: Progress | None = None,
        engine: Engine = "local",
    ) -> Optimized:
        """Merge small fragments, extend indexes to new rows, write a checkpoint: ordinary commits, beside writers.

        Fragments with fewer than `target_rows` rows are merged, and those of which more than the share `deleted` is
        deleted are written anew. With `dry_run` nothing is written. A table that others keep changing is left "busy".
        On a Spark session as `engine`, its executors write the data and index files.
        """
        from quire.lake.upkeep.optimize import optimize

        how: dict[str, Any] = {"target_rows": target_rows, "deleted": deleted, "dry_run": dry_run}
        return optimize(self, tables, progress=progress, engine=engine, **how)

    def cleanup(
        self,
        *,
        keep: int = 10,
        older_than: timedelta | float = timedelta(days=7),
        grace: timedelta | float = timedelta(hours=1),
        dead_after: timedelta | float = timedelta(days=1),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> collector.Cleaned:
        """Delete what no kept commit, tag, branch, lease or writer needs, in every branch of the lake.

        A commit is kept if it was the newest within `older_than` or is among the last `keep` of its branch. Nothing
        younger than `grace` is ever deleted. A writer that has given no sign for `dead_after` is revoked: what it
        staged goes, and it can never publish it. Lengths of time are timedeltas or seconds. It can be interrupted and
        run again at any time.
        """
        from quire.lake.upkeep.cleanup import collector, retained

        retention = retained.Retention.of(keep, older_than, grace, dead_after)
        return collector.cleanup(self, retention, dry_run=dry_run, progress=progress)

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
        return recovery.maintain(self, every, optimize=optimize, cleanup=cleanup)

    def register_database(
        self,
        uri: str | os.PathLike[str],
        *,
        tables: Sequence[str] | None = None,
        keys: Mapping[str, str | Sequence[str]] | None = None,
        prefix: str = "",
        dry_run: bool = False,
        message: str | None = None,
    ) -> lancedb_database.RegisteredDatabase:
        """Take all tables of a LanceDB database, or those named, into the lake where they lie: in one commit.

        Table `NAME.lance` is called `prefix` + NAME. `keys` gives key columns by name; rows that do not keep one are a
        problem, as is a name that is taken or a table of another lake. With a problem nothing is committed, and the
        error names them all. With `dry_run` the answer tells them, and nothing is written.
        """
        from quire.lake.register import lancedb_database

        return lancedb_database.register_database(
            self, uri, tables=tables, keys=keys, prefix=prefix, dry_run=dry_run, message=message
        )

    def take_over(self, table: str) -> None:
        """Make this lake the owner of a table that was registered where it lies, whatever its mark says.

        For a lake that was moved, and for a table whose former lake is gone. If that lake is still in use, its commits
        to the table are foreign writes from then on, and this one's are to it.
        """
        from quire.lake.register import owner_mark

        owner_mark.take_over(self._core.check_writable(), self._live.refresh(), table)

    def adopt(self, table: str) -> adopt.Adoption:
        """Take what a plain Lance client wrote to a table into the lake, as a commit; on a conflict onto a branch."""
        self._core.check_writable()
        return adopt.adopt(self, table)

    def status(self) -> dict[str, Any]:
        """Where the lake stands: head, tables, what is not backfilled, foreign writes, recent background failures."""
        self._core.check()
        return status.status(self)

    def verify(
        self, progress: Progress | None = None, *, deep: bool = False, engine: Engine = "local"
    ) -> verify.Verification:
        """Check the whole lake: every branch's log, its checkpoints, every pinned file, and what plain readers see.

        Reads only. With `deep` every data file is read from end to end, not just looked for. On a Spark session as
        `engine`, its executors look at the tables. `progress(what, done, total)` is called as it goes on.
        """
        from quire.lake.upkeep import verify

        return verify.verify(self._core.check(), progress, deep=deep, engine=engine)

    def repair(self, *, dry_run: bool = False) -> repair.Repaired:
        """Write repairs for objects that hold values which no version reads; see `quire.repair`."""
        from quire.lake.upkeep import repair

        core = self._core.check() if dry_run else self._core.check_writable()
        return repair.repair_store(core.store, core.about.ledger, dry_run=dry_run)

    def foreign(self) -> list[Promotion]:
        """Tables to which a plain Lance client wrote behind Quire's back."""
        return adopt.find_foreign(self._core.check(), self._main().refresh())

    def flush(self, timeout: float = 60.0) -> bool:
        """Wait for background work (backfill, checkpoint, hint). False when time ran out first."""
        bounded("timeout", timeout, 0, math.inf)
        written = self._core.guard is None or self._core.guard.flush(min(timeout, LONGEST_WAIT))
        return self._background.drain(min(timeout, LONGEST_WAIT)) and written

    def close(self) -> None:
        """Finish background work, as leaving a `with` block does; the handle stays usable. A fork leaves it alone."""
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
            next="Pickle lake.snapshot() to read elsewhere. To write there, open the lake there.",
        )

    def __repr__(self) -> str:
        return one_line(f"<Lake {self.uri} on {self._live.name!r} at {self.head}>")

    def _repr_html_(self) -> str:
        return display.shown(f"<b>{escape(self.uri)}</b><br>", lambda: self.snapshot()._repr_html_(), html=True)


def _look_at(table: Table) -> None:
    """Open a table, which may be another one by now: whoever reads it is told what is wrong with it."""
    with suppress(QuireError):
        table._view()
