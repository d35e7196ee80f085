"""The change feed behind a server: pages of commits as a stream of Arrow, and long polls while there is no news."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from quire.arguments import bounded
from quire.client.told import consumer_of
from quire.client.transport import segment
from quire.errors import InvalidInput
from quire.lake.feed.blocks import ADDED, ChangeBlock
from quire.lake.feed.consumers import ConsumerInfo
from quire.prompt import one_line
from quire.store import clock

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.client.lake import RemoteLake

PAGE = 100
LONGEST_POLL = 25.0


@dataclass(frozen=True, repr=False)
class RemoteChanges:
    """What a commit did to one table; see `TableChanges`."""

    name: str
    id: str
    events: tuple[str, ...]
    was: str | None
    columns: dict[str, list[str]]
    reset: bool
    key: tuple[str, ...]
    _parts: list[bytes] = field(default_factory=list)
    _whole: Any = None
    """Of a baseline: what reads the table at its commit."""

    @cached_property
    def rows(self) -> pa.Table:
        """The changed rows, with `_change_type`, `_commit`, `_commit_seq` and `_commit_time`."""
        import pyarrow as pa

        return pa.concat_tables(map(_table, self.batches()), promote_options="default")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same a batch at a time; those of a baseline are read as they are looked at."""
        import pyarrow as pa

        if self._whole is not None:
            yield from self._whole()
            return
        for part in self._parts:
            found = pa.ipc.open_stream(part).read_all()
            yield from found.to_batches() or [_none(found.schema)]

    def to_dict(self) -> dict[str, Any]:
        """What happened to the table itself, as plain values."""
        told = {"table": self.name, "id": self.id, "events": list(self.events), "was": self.was}
        return {**told, "columns": self.columns, "reset": self.reset}

    def __repr__(self) -> str:
        return one_line(f"<TableChanges {' '.join([self.name, *self.events])}>")


class RemoteFeed:
    """The changes of a branch behind a server, a commit at a time; see `Feed`."""

    def __init__(
        self,
        lake: RemoteLake,
        path: str,
        asked: dict[str, Any],
        since: str | None,
        *,
        follow: bool = False,
        timeout: float | None = None,
    ) -> None:
        if asked.get("net") and follow:
            raise InvalidInput(
                "The net change has an end, so it cannot be followed.",
                next="Ask for net=True again, from its cursor, when there is something new.",
            )
        self._lake, self._path, self._asked, self._follow = lake, path, asked, follow
        self._timeout = bounded("timeout", timeout, 0, math.inf)
        self._since: str | None = since
        """What the next question names in place of the cursor: a consumer stands where it stands, and names nothing."""
        self._named = True
        self.cursor: str = self._page(0)["cursor"]
        """Where it stands: after the last block that was read."""
        self._named = since in (None, "baseline")

    @property
    def _where(self) -> dict[str, Any]:
        return {"since": self._since} if self._named else {"cursor": self.cursor}

    def _move(self, cursor: str) -> None:
        self.cursor, self._named = cursor, False

    def _page(self, limit: int, wait: float = 0.0) -> dict[str, Any]:
        asked = {**self._asked, **self._where, "limit": limit, "rows": "false", "wait": wait}
        found: dict[str, Any] = self._lake.server.ask("GET", self._path, query=asked)
        return found

    def __iter__(self) -> Iterator[ChangeBlock]:
        waited = clock.monotonic()
        while True:
            count = 0
            for block in self._blocks():
                count += 1
                yield block
                waited = clock.monotonic()
            if count == PAGE:
                continue
            if not self._follow:
                return
            if not count and not self._news(waited):
                return

    def _news(self, since: float) -> bool:
        """Wait for a commit; False when there was none in time."""
        while True:
            left = LONGEST_POLL if self._timeout is None else since + self._timeout - clock.monotonic()
            if left <= 0:
                return False
            page = self._page(1, min(left, LONGEST_POLL))
            if page["changes"]:
                return True
            self._move(page["cursor"])

    def _blocks(self) -> Iterator[ChangeBlock]:
        asked = {**self._asked, **self._where, "limit": PAGE}
        lines = self._lake.server.rows("GET", self._path, query=asked)
        head: dict[str, Any] | None = None
        parts: dict[int, list[bytes]] = {}
        with closing(_each(lines)) as each:
            for line in each:
                if line["rows"] is not None:
                    parts.setdefault(line["table"], []).append(line["rows"])
                    continue
                if head is not None:
                    yield self._made(head, parts)
                head, parts = (json.loads(line["block"]) if line["block"] is not None else None), {}
                if line["cursor"] is not None:
                    self._move(line["cursor"])

    def _made(self, head: dict[str, Any], parts: dict[int, list[bytes]]) -> ChangeBlock:
        time = datetime.fromisoformat(head["time"])
        tables: dict[str, Any] = {}
        for place, told in enumerate(head["tables"]):
            whole = partial(self._whole, told["table"], head, time) if head["baseline"] else None
            tables[told["table"]] = RemoteChanges(
                told["table"],
                told["id"],
                tuple(told["events"]),
                told["was"],
                told["columns"],
                told["reset"],
                tuple(told["key"]),
                parts.get(place, []),
                whole,
            )
        self._move(head["cursor"])
        return ChangeBlock(**{**head, "time": time, "parents": tuple(head["parents"]), "tables": tables})

    def _whole(self, name: str, head: dict[str, Any], time: datetime) -> Iterator[pa.RecordBatch]:
        """All rows of a table at a commit, as if they had just been inserted."""
        import pyarrow as pa

        kinds = (pa.string(), pa.string(), pa.int64(), pa.timestamp("us", "UTC"))
        said = ("insert", head["commit"], head["sequence"], time)
        rows = self._lake.at(commit=head["commit"])[name].scan()
        for batch in chain([_none(rows.schema)], rows):
            table = pa.Table.from_batches([batch])
            for column, kind, value in zip(ADDED, kinds, said, strict=True):
                table = table.append_column(column, pa.array([value] * table.num_rows, kind))
            yield from table.to_batches() or [_none(table.schema)]

    def __repr__(self) -> str:
        return one_line(f"<Feed of {self._lake.branch_name!r} by {self._lake.uri}>")


def _table(batch: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _none(schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=schema)


def _each(lines: pa.RecordBatchReader) -> Generator[dict[str, Any], None, None]:
    for batch in lines:
        yield from batch.to_pylist()


class RemoteConsumers:
    """The named consumers of a lake behind a server; see `Consumers`."""

    def __init__(self, lake: RemoteLake) -> None:
        self._lake = lake

    def list(self) -> list[ConsumerInfo]:
        """Every consumer of the lake, by name."""
        return [consumer_of(one) for one in self._lake.server.ask("GET", "consumers")["consumers"]]

    def open(
        self,
        name: str,
        *,
        since: str | None = None,
        tables: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
        images: str | None = None,
        hold: float | None = None,
    ) -> RemoteConsumer:
        """The consumer of this name on this branch; a new one begins at `since`."""
        asked: dict[str, Any] = {
            "name": name,
            "branch": self._lake.branch_name,
            "since": since,
            "images": images,
            "hold": hold,
        }
        asked |= {"tables": None if tables is None else list(tables), "ops": None if ops is None else list(ops)}
        told = self._lake.server.ask("POST", "consumers", asked)
        return RemoteConsumer(self._lake, told["name"], told["commit"])

    def drop(self, name: str) -> None:
        """Forget a consumer, and let go of what it holds."""
        self._lake.server.ask("DELETE", f"consumers/{segment(name)}")


class RemoteConsumer:
    """A named reader of changes behind a server; see `Consumer`."""

    def __init__(self, lake: RemoteLake, name: str, at: str) -> None:
        self._lake, self.name, self.at = lake, name, at
        self._path = f"consumers/{segment(name)}"

    def changes(self, *, follow: bool = False, poll: float = 1.0, timeout: float | None = None) -> RemoteFeed:
        """What was committed since it was last here, whichever process that was."""
        bounded("poll", poll, 0.01)
        asked = {"branch": self._lake.branch_name}
        return RemoteFeed(self._lake, f"{self._path}/changes", asked, None, follow=follow, timeout=timeout)

    def commit(self, upto: ChangeBlock | str) -> None:
        """It is done with a block, or with everything up to a cursor."""
        self._do("commit", {"cursor": upto if isinstance(upto, str) else upto.cursor})

    def renew(self) -> None:
        """Let its hold run from now, without moving on."""
        self._do("commit", {})

    def reset(self, since: str) -> None:
        """Begin anew: at "baseline", "now", "beginning", a commit or a cursor."""
        self._do("reset", {"since": since})

    def _do(self, verb: str, asked: dict[str, Any]) -> None:
        told = self._lake.server.ask("POST", f"{self._path}/{verb}", {**asked, "branch": self._lake.branch_name})
        self.at = told["commit"]

    def __repr__(self) -> str:
        return one_line(f"<Consumer {self.name!r} of {self._lake.branch_name!r} after {self.at}>")
