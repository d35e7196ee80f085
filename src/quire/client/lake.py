"""A lake behind a server, with the verbs of `quire.Lake`."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import unquote, urlsplit

from quire.arguments import bounded, checked
from quire.client.branching import Branching
from quire.client.diff import RemoteDiff
from quire.client.feed import RemoteConsumers, RemoteFeed
from quire.client.reading import RemoteSnapshot, RemoteTable, refuse_engine
from quire.client.told import commit_of, receipt_of, version_of
from quire.client.transaction import RemoteTransaction
from quire.client.transport import LakeServer, Transport, key_of, segment
from quire.client.upkeep import UpkeepVerbs
from quire.errors import CommitUnknown, Conflict, InvalidInput, LakeNotFound, Unsupported
from quire.lake import Lake
from quire.lake.commit.tokens import Token
from quire.lake.commit.tokens import token as new_token
from quire.lake.read.row_history import RowHistory
from quire.lake.read.table import Rows
from quire.lake.receipt import CommitInfo, Log, Receipt
from quire.prompt import one_line
from quire.store import Outcome

if TYPE_CHECKING:
    from quire.client.graph import RemoteGraph
    from quire.lake.read.export import Exported

T = TypeVar("T")


@checked
def connect(url: str, *, token: str | None = None, branch: str = "main", timeout: float = 300.0) -> RemoteLake:
    """A lake behind a server: `http://host:8080/demo`. The verbs are those of a lake that is opened.

    `token` says who asks; commits are by that actor. `timeout` is how long to wait for an answer, in seconds.
    """
    transport = Transport(url, token, bounded("timeout", timeout, 0.001, 1e9))
    names = [unquote(part) for part in urlsplit(url).path.split("/") if part]
    if names[:2] == ["v1", "lakes"]:
        names = names[2:]
    if not names:
        known = [one["name"] for one in transport.ask("GET", "/v1/lakes").json["lakes"]]
        if len(known) != 1:
            raise LakeNotFound(
                f"The server has {len(known)} lakes.", next=f"Name one: {transport.url}/NAME ({', '.join(known)})."
            )
        names = known
    if len(names) != 1:
        raise InvalidInput("The address names no lake.", next=f"Write {transport.url}/NAME.")
    lake = RemoteLake(transport, names[0], branch)
    lake.refresh()
    return lake


@dataclass(frozen=True)
class _Complete:
    """What a history says of itself at its end."""

    complete: bool


class RemoteLake(Branching, UpkeepVerbs):
    """A handle on one branch of a lake behind a server. Safe to share between threads."""

    def __init__(self, transport: Transport, name: str, branch: str) -> None:
        self.server = LakeServer(transport, name)
        """What asks the server."""
        self._transport, self._name, self._base = transport, name, self.server.base
        self.branch_name = branch
        self.head = ""
        self.cost: dict[str, Any] = {}
        """Nothing of its own: the server's answers say what they took."""

    @property
    def uri(self) -> str:
        """The address by which it was reached."""
        return f"{self._transport.url}/{self._name}"

    @property
    def read_only(self) -> bool:
        """Whether the server writes nothing to it."""
        found = self._transport.ask("GET", "/v1/lakes").json["lakes"]
        return any(one["name"] == self._name and one["read_only"] for one in found)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(Lake, name):
            raise Unsupported(
                f"{name} is not done through a server.", next="Open the lake itself with quire.open().", verb=name
            )
        raise AttributeError(f"'RemoteLake' object has no attribute {name!r}")

    # -- reading ----------------------------------------------------------------------------------------------

    def refresh(self) -> str:
        """Look for news; the newest commit."""
        return self.snapshot().commit

    def snapshot(self) -> RemoteSnapshot:
        """The newest commit, for as long as you hold it."""
        found = self._snapshot(None)
        self.head = found.commit
        return found

    def _snapshot(self, at: str | None) -> RemoteSnapshot:
        told = self.server.ask("GET", "tables", query={"branch": self.branch_name, "at": at})
        return RemoteSnapshot(self._transport, self._base, self.branch_name, told)

    def at(self, *, commit: str | None = None, tag: str | None = None, time: Any = None) -> RemoteSnapshot:
        """Time travel: the state at a commit, a tag, or a time."""
        if sum(word is not None for word in (commit, tag, time)) != 1:
            raise InvalidInput("at takes one of commit, tag and time.", next="Pass one of them.")
        if time is not None:
            return self._snapshot(time.isoformat() if hasattr(time, "isoformat") else str(time))
        return self._snapshot(commit if tag is None else f"tag:{tag}")

    def tables(self) -> list[str]:
        """Names of the tables at the newest commit, sorted."""
        return self.snapshot().tables()

    def __getitem__(self, name: str) -> RemoteTable:
        return self.snapshot()[name]

    def __contains__(self, name: object) -> bool:
        return name in self.snapshot()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def sql(
        self,
        query: str,
        params: Sequence[Any] | dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        max_rows: int | None = None,
    ) -> Rows:
        """A SELECT over the newest commit."""
        given = params if params is None or isinstance(params, dict) else list(params)
        asked = {"query": query, "params": given, "timeout": timeout, "memory": memory, "max_rows": max_rows}
        return Rows(self._transport.rows("POST", f"{self._base}/sql", asked, query={"branch": self.branch_name}))

    def export(self, folder: Any, **how: Any) -> Exported:
        """Write the tables of the newest commit as files; see `Snapshot.export`."""
        return self.snapshot().export(folder, **how)

    def log(self, limit: int | None = None, *, parents: Literal["first", "all"] = "first") -> Log:
        """Commits of this branch, newest first, read as they are looked at; see `Lake.log`."""
        return Log(lambda: self._log(limit, parents), limit)

    def _log(self, limit: int | None, parents: str) -> Iterator[CommitInfo]:
        word = None
        while True:
            asked = {"branch": self.branch_name, "limit": min(100, limit or 100), "next": word, "parents": parents}
            page = self.server.ask("GET", "commits", query=asked)
            yield from map(commit_of, page["commits"])
            word = page["next"]
            if word is None:
                return

    def show(self, commit: str) -> CommitInfo:
        """One commit of the log, by its id, a tag or a branch."""
        return commit_of(self.server.ask("GET", f"commits/{segment(commit)}", query={"branch": self.branch_name}))

    def diff(
        self,
        a: str,
        b: str | None = None,
        *,
        since_base: bool = False,
        tables: list[str] | None = None,
        engine: Any = "local",
    ) -> RemoteDiff:
        """What changed from `a` to `b` (default: now), by table; see `Lake.diff`."""
        refuse_engine(engine)
        return RemoteDiff.of(self, a, b, since_base, tables)

    def history(self, table: str, key: Any, *, limit: int | None = None) -> RowHistory:
        """Every version of the row with this key, newest first; see `Lake.history`."""
        asked = {"key": _sortable(key), "branch": self.branch_name, "limit": limit}
        told = self.server.ask("GET", f"tables/{segment(table)}/history", query=asked)
        snap = self.snapshot()
        schema = snap[table].schema if table in snap else None
        source: Any = _Complete(told["complete"])
        return RowHistory((version_of(one, schema) for one in told["versions"]), source)

    def changes(
        self,
        since: str = "now",
        *,
        tables: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
        images: str = "after",
        net: bool = False,
        follow: bool = False,
        poll: float = 1.0,
        timeout: float | None = None,
    ) -> RemoteFeed:
        """The changes of this branch, a block for every commit; see `Lake.changes`. The server tells news at once."""
        bounded("poll", poll, 0.01)
        asked: dict[str, Any] = {"branch": self.branch_name, "images": images, "net": "true" if net else None}
        asked |= {"tables": list(tables or ()), "ops": list(ops or ())}
        return RemoteFeed(self, "changes", asked, since, follow=follow, timeout=timeout)

    @property
    def consumers(self) -> RemoteConsumers:
        """Named readers of changes, of which the lake knows how far they have come."""
        return RemoteConsumers(self)

    def watch(self, *, poll: float = 1.0, timeout: float | None = None) -> Iterator[str]:
        """The newest commit, each time that there is a newer one."""
        for block in self.changes("now", images="none", follow=True, poll=poll, timeout=timeout):
            yield block.commit

    def outcome(self, unsettled: CommitUnknown | str) -> Outcome:
        """Settle an unknown commit: COMMITTED, CONFLICT, or UNKNOWN while its slot is still empty."""
        token = unsettled if isinstance(unsettled, str) else str(unsettled.fields.get("token", ""))
        told = self.server.ask(
            "GET", f"outcomes/{segment(token.replace('/', '.'))}", query={"branch": self.branch_name}
        )
        return Outcome[told["outcome"].upper()]

    def credentials(self, tables: Sequence[str], *, at: str | None = None) -> dict[str, Any]:
        """Storage options that read the files of these tables for a short time, and where each of them lies."""
        asked = {"tables": list(tables), "branch": self.branch_name, "at": at}
        found: dict[str, Any] = self.server.ask("POST", "credentials", asked)
        return found

    def remote_graph(self, embedder: Any) -> RemoteGraph:
        """What `quire.Graph` gives for this lake."""
        from quire.client.graph import RemoteGraph

        return RemoteGraph(self, embedder=embedder)

    # -- writing ----------------------------------------------------------------------------------------------

    def transaction(
        self,
        message: str = "",
        *,
        author: str | None = None,
        token: Token | None = None,
        expect: Mapping[str, int] | None = None,
        if_head: str | None = None,
        isolation: str = "snapshot",
        timeout: float | None = None,
        fresh: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> RemoteTransaction:
        """Begin a transaction on the newest commit. It stays open on the server until it is committed or discarded."""
        if author is not None:
            raise Unsupported("The author is whom the token of the server names.", next="Leave author= out.")
        wanted: dict[str, Any] = {"message": message, "branch": self.branch_name, "isolation": isolation}
        wanted |= {"expect": {k: int(v) for k, v in (expect or {}).items()}, "if_head": if_head, "timeout": timeout}
        wanted |= {"metadata": dict(metadata or {})}
        return RemoteTransaction(self._transport, self._base, self.branch_name, wanted, key_of(token))

    def transact(
        self, fn: Callable[[RemoteTransaction], T], message: str = "", *, retries: int = 10, **options: Any
    ) -> T | None:
        """Run `fn(tx)` and commit; after a retryable conflict run it again on a fresh snapshot."""
        options["token"] = options.get("token") or new_token()
        for left in range(retries, -1, -1):
            tx = self.transaction(message, **options)
            if tx.repeated() is not None:
                return None
            try:
                with tx:
                    found = fn(tx)
                return found
            except Conflict as error:
                if not error.retryable or not left:
                    raise
                clock.sleep(0.02 * (retries - left + 1))
        raise AssertionError("the last try returns or raises")

    def create_table(
        self, name: str, data: Any = None, *, metadata: Mapping[str, str] | None = None, **how: Any
    ) -> Receipt:
        """Create one table in a commit of its own; see `Transaction.create_table`."""
        with self.transaction(f"create {name}", metadata=metadata) as tx:
            tx.create_table(name, data, **how)
        return tx.receipt

    def restore(
        self,
        at: str | datetime,
        *,
        tables: Sequence[str] | None = None,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Receipt:
        """A new commit in which tables are what they were at an earlier commit, tag or time."""
        word = at if isinstance(at, str) else at.isoformat()
        wanted = {"at": word, "branch": self.branch_name, "tables": list(tables) if tables is not None else None}
        return self._verb("restore", {**wanted, "message": message, "metadata": dict(metadata or {})})

    def _verb(self, path: str, wanted: dict[str, Any]) -> Receipt:
        return receipt_of(self.server.ask("POST", path, {k: v for k, v in wanted.items() if v is not None}))

    # -- life -------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Where the lake stands."""
        found: dict[str, Any] = self.server.ask("GET", "status")
        return found

    def close(self) -> None:
        """Let go of connections; the handle stays usable."""
        self._transport.close()

    def __enter__(self) -> RemoteLake:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return one_line(f"<Lake {self.uri} on {self.branch_name!r} at {self.head}>")


def _sortable(key: Any) -> str:
    return json.dumps(list(key) if isinstance(key, tuple) else key, default=str)
