"""All tables at one commit: what a reader holds for as long as it likes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from quire.arguments import checks_arguments
from quire.errors import Unsupported
from quire.lake.cost_report import opening
from quire.lake.engines import Engine
from quire.lake.guard.handles import snapshot_gate
from quire.lake.guard.verbs import SNAPSHOT, guarded
from quire.lake.names import no_table
from quire.lake.read import sql
from quire.lake.read.table import Rows, Table
from quire.ledger import State, TableState, decode, encode
from quire.progress import Progress
from quire.prompt import PublicNames
from quire.store import External, phase, run_parallel

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.context import Core
    from quire.lake.read.export import Exported, ExportKind
    from quire.lake.upkeep.cleanup.leases import SnapshotLease


@guarded(SNAPSHOT)
@checks_arguments
class Snapshot(PublicNames):
    """A consistent view of every table at one commit.

    >>> import quire
    >>> lake = quire.create("memory://snapshot-example")
    >>> receipt = lake.create_table("documents", [{"id": 1}, {"id": 2}])
    >>> snap = lake.snapshot()
    >>> snap.sql("select max(id) as newest from documents").to_pylist()
    [{'newest': 2}]

    A snapshot can be pickled and opened in another process; it then reads the same commit.
    """

    def __init__(
        self,
        core: Core,
        state: State,
        branch: str,
        live: LiveBranch | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> None:
        self._core = core
        self._state = state
        self._live = live
        self._cost = dict(cost or {})
        self.branch = branch
        self._gate = None if core.guard is None else snapshot_gate(core)

    @property
    def commit(self) -> str:
        """The commit this snapshot shows."""
        return self._state.head.commit

    @property
    def time(self) -> datetime:
        """When that commit was made."""
        return self._state.committed or self._state.time

    @property
    def cost(self) -> dict[str, Any]:
        """What opening this snapshot took: requests, hops, retries, bytes, seconds. Reading its tables is not in it."""
        return self._cost

    def tables(self) -> list[str]:
        """Names of the tables, sorted."""
        return sorted(t.info.name for t in self._state.tables.values())

    def __getitem__(self, name: str) -> Table:
        found = self._state.by_name(name)
        if found is None:
            self._core.missed([name])
            raise no_table(name, self.tables())
        return self._table(found)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._state.by_name(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def __len__(self) -> int:
        return len(self._state.tables)

    def __bool__(self) -> bool:
        """A snapshot is true, also one without tables."""
        return True

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables()

    def sql(
        self,
        query: str,
        params: Sequence[Any] | dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        max_rows: int | None = None,
    ) -> Rows:
        """Run one SELECT over the tables of this snapshot; `params` bind `?` or `$name`. Results stream.

        `timeout` in seconds, `memory` in bytes and `max_rows` end the query with `LimitExceeded`; without them it may
        take half of the memory, and more on disk. Ctrl-C ends it too.
        """
        self._core.check()
        limits = sql.Limits(timeout, memory, max_rows)

        def names(wanted: Collection[str]) -> list[str]:
            self._core.missed(wanted)
            return self.tables()

        return sql.run(query, params, sql.Tables(names, partial(opened, self)), limits)

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
        """Write the tables of this commit, or some, as files: `folder`/table/part-….parquet; also arrow, csv, jsonl.

        With `format="delta"` every folder is a plain Delta table of one version, for any client of Delta.
        The folder must be empty. The file `_export.json` is written last: where it is, the export is whole. Options
        of the object store are those of the lake, unless others are given. On a Spark session as `engine`, its
        executors write the files.
        """
        from quire.lake.read.export import export

        self._core.check()
        return export(
            self,
            folder,
            tables=tables,
            format=format,
            engine=engine,
            storage_options=storage_options,
            progress=progress,
        )

    def lease(self, seconds: float = 3600.0) -> SnapshotLease:
        """Keep the files of this snapshot from cleanup, for as long as the lease is held.

        It is renewed in the background and runs out `seconds` after the last renewal, so a reader that died holds
        nothing up. `SnapshotExpired` when cleanup was there first.
        """
        from quire.lake.branch import branches
        from quire.lake.upkeep.cleanup.leases import SnapshotLease

        live, at = self._live, self._state.head
        line = live.line if live is not None and live.line.contains(at) else branches.line_of(self._core, at.branch)
        return SnapshotLease(self._core, live, line, at, seconds)

    def _table(self, found: TableState) -> Table:
        core = self._core
        core.check()
        return Table(found, lambda: core.format(found.pin.format).open(found.pin, found.info.name), owner=self)

    def __reduce__(self) -> tuple[Any, ...]:
        core = self._core
        if core.guard is not None:
            raise Unsupported(
                "A snapshot that an actor reads cannot be pickled: elsewhere nobody would hold it to the policy.",
                next="Read it in this process, or open the lake as the actor there.",
            )
        external = core.store.reach.external
        state = encode(msgspec.structs.replace(self._state, fresh={}))
        return _reopen, (core.store.uri, core.store.options, state, self.branch, external)

    def __repr__(self) -> str:
        return f"<Snapshot {self.commit} of {self.branch!r}: {len(self)} tables>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(t.info.name)}</td><td>{t.pin.counter}</td><td>{t.pin.rows}</td><td>{t.pin.bytes}</td></tr>"
            for t in sorted(self._state.tables.values(), key=lambda t: t.info.name)
        )
        head = "<tr><th>table</th><th>version</th><th>rows</th><th>bytes</th></tr>"
        return f"<b>{escape(self.branch)}</b> at {self.commit}<table>{head}{rows}</table>"


def opened(snapshot: Snapshot, tables: Sequence[str]) -> list[Any]:
    """What DuckDB reads tables by, opened side by side."""
    views = run_parallel([snapshot[name]._view for name in tables])
    return [view.dataset() for view in views]  # here, because that says whose bill the requests are on


def _reopen(uri: str, options: dict[str, str], state: bytes, branch: str, external: External = None) -> Snapshot:
    from quire.lake.context import Core

    with opening("snapshot", uri, branch) as it:
        with phase("format"):
            core = Core.open(uri, options, read_only=True, external=external)
        known = decode(state, State, "a pickled snapshot").checked("a pickled snapshot")
        it.found(core, known)
    return Snapshot(core, known, branch, cost=it.cost)
