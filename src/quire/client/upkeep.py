"""Upkeep of a lake behind a server: jobs that the server runs, whose results are the library's own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from quire.client.reading import refuse_engine
from quire.client.transport import Reply, error_of
from quire.errors import Throttled
from quire.formats import Promotion
from quire.progress import Progress
from quire.rowfiles.write import to_json

if TYPE_CHECKING:
    from quire.client.lake import RemoteLake
    from quire.lake.upkeep.cleanup.collector import Cleaned
    from quire.lake.upkeep.optimize import Optimized
    from quire.lake.upkeep.recovery import Recovered
    from quire.lake.upkeep.verify import Verification

SLOWEST = 2.0


class UpkeepVerbs:
    """The verbs of upkeep. A role that may administer the lake is needed on a server that asks for tokens."""

    def _job(self, verb: str, progress: Progress | None = None, **wanted: Any) -> Any:
        """Begin a job, wait for its end, and give its result."""
        lake: RemoteLake = self  # type: ignore[assignment]
        asked = {name: value for name, value in wanted.items() if value is not None}
        while True:
            try:
                job = lake.server.ask("POST", f"maintenance/{verb}", {**asked, "branch": lake.branch_name})
                break
            except Throttled as error:  # another job of this lake runs
                time.sleep(float(error.fields.get("retry_after", 1)))
        pause = 0.02
        while job["state"] == "running":
            time.sleep(pause)
            pause = min(2 * pause, SLOWEST)
            job = lake.server.ask("GET", f"jobs/{job['id']}")
        if job["error"] is not None:
            told = {**job["error"], "detail": job["error"]["message"]}
            raise error_of(Reply(500, {}, to_json(told)))
        if progress is not None:
            progress(verb, 1, 1)
        return job["result"]

    def optimize(
        self,
        tables: Sequence[str] | None = None,
        *,
        target_rows: int = 1 << 20,
        deleted: float = 0.1,
        dry_run: bool = False,
        progress: Progress | None = None,
        engine: Any = "local",
    ) -> Optimized:
        """Merge small fragments, extend indexes, write a checkpoint; see `Lake.optimize`."""
        from quire.lake.upkeep.optimize import Optimized, TableOptimized

        refuse_engine(engine)
        names = None if tables is None else list(tables)
        how: dict[str, Any] = {"target_rows": target_rows, "deleted": deleted, "dry_run": dry_run}
        told = self._job("optimize", progress, tables=names, **how)
        done = tuple(TableOptimized(**{**one, "indexes": tuple(one["indexes"])}) for one in told["tables"])
        return Optimized(done, told["dry_run"], told["checkpoint"])

    def cleanup(
        self,
        *,
        keep: int = 10,
        older_than: timedelta | float = timedelta(days=7),
        grace: timedelta | float = timedelta(hours=1),
        dead_after: timedelta | float = timedelta(days=1),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Cleaned:
        """Delete what no kept commit, tag, branch, lease or writer needs; see `Lake.cleanup`."""
        from quire.lake.upkeep.cleanup.collector import Cleaned

        times = {"older_than": older_than, "grace": grace, "dead_after": dead_after}
        how = {n: v.total_seconds() if isinstance(v, timedelta) else v for n, v in times.items()}
        told = self._job("cleanup", progress, keep=keep, dry_run=dry_run, **how)
        horizon = None if told["horizon"] is None else datetime.fromisoformat(told["horizon"])
        return Cleaned(**{**told, "horizon": horizon})

    def recover(self, progress: Progress | None = None) -> Recovered:
        """Finish backfills and checkpoints that dead writers left; see `Lake.recover`."""
        from quire.lake.upkeep.recovery import Recovered, Step

        told = self._job("recover", progress)
        steps = tuple(Step(**one) for one in told["steps"])
        return Recovered(**{**told, "format": 1, "time": datetime.fromisoformat(told["time"]), "steps": steps})

    def backfill(self) -> list[Promotion]:
        """Bring every table's plain HEAD to its published state now."""
        return [Promotion(**one) for one in self._job("backfill")["tables"]]

    def verify(self, progress: Progress | None = None, *, deep: bool = False, engine: Any = "local") -> Verification:
        """Check the whole lake; see `Lake.verify`."""
        from quire.lake.upkeep.verify import Finding, Verification

        refuse_engine(engine)
        told = self._job("verify", progress, deep=deep)
        counts = {name: value for name, value in told.items() if name not in ("ok", "findings")}
        return Verification(**counts, findings=[Finding(**one) for one in told["findings"]])
