"""Branches, tags, merges and merge requests of a lake behind a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from quire.client.merging import RemotePlan, RemoteRequests
from quire.client.told import tag_of
from quire.client.transport import LakeServer, key_of, segment
from quire.errors import Unsupported
from quire.lake.branch.tags import TagInfo
from quire.lake.commit.tokens import Token
from quire.lake.receipt import Receipt
from quire.rowfiles.write import to_json

if TYPE_CHECKING:
    from quire.client.lake import RemoteLake
    from quire.client.transport import Transport


class Branching:
    """What a lake does with its branches."""

    if TYPE_CHECKING:
        _transport: Transport
        _name: str
        branch_name: str
        server: LakeServer
        _verb: Callable[[str, dict[str, Any]], Receipt]
        refresh: Callable[[], str]

    def branch(self, name: str) -> RemoteLake:
        """A handle on another branch of the same lake."""
        from quire.client.lake import RemoteLake

        if name == self.branch_name:
            return self._self
        lake = RemoteLake(self._transport, self._name, name)
        lake.refresh()
        return lake

    def branches(self) -> list[Any]:
        """Every branch with its head and where it started; main first."""
        from quire.lake.branch.branches import BranchInfo

        return [
            BranchInfo(b["name"], b["head"], b["start"], b["author"], datetime.fromisoformat(b["time"]))
            for b in self.server.ask("GET", "branches")["branches"]
        ]

    def create_branch(self, name: str, *, at: str | None = None) -> RemoteLake:
        """A new branch from a commit or tag of this one (default: its head)."""
        self.server.ask("POST", "branches", {"name": name, "at": at, "source": self.branch_name})
        return self.branch(name)

    def delete_branch(self, name: str) -> None:
        """Close a branch for good."""
        self.server.ask("DELETE", f"branches/{segment(name)}")

    def fast_forward(
        self, source: str, message: str | None = None, *, metadata: Mapping[str, str] | None = None
    ) -> Receipt:
        """Bring this branch to the head of `source`, which must contain everything this branch has."""
        wanted = {"source": source, "message": message, "metadata": dict(metadata or {})}
        return self._verb(f"branches/{segment(self.branch_name)}/fast-forward", wanted)

    def tag(self, name: str, *, at: str | None = None, message: str | None = "") -> str:
        """Name a commit; the tagged commit."""
        wanted = {"name": name, "at": at, "message": message or "", "branch": self.branch_name}
        return str(self.server.ask("POST", "tags", wanted)["commit"])

    def tags(self) -> dict[str, TagInfo]:
        """Tags and the commits they name, each with its `message`, `author` and `time`."""
        return {tag["name"]: tag_of(tag) for tag in self.server.ask("GET", "tags")["tags"]}

    def delete_tag(self, name: str) -> None:
        """Forget a tag."""
        self.server.ask("DELETE", f"tags/{segment(name)}")

    # -- merges -----------------------------------------------------------------------------------------------

    @property
    def requests(self) -> RemoteRequests:
        """The merge requests of the lake: `open`, `list`, `get`, `review`, `close` and others."""
        return RemoteRequests(self._self)

    @property
    def _self(self) -> RemoteLake:
        return self  # type: ignore[return-value]

    def merge(
        self,
        source: str,
        *,
        preview: bool = False,
        into: str | None = None,
        mode: Literal["auto", "ff-only", "no-ff", "squash"] = "auto",
        resolve: Any = None,
        granularity: str | Mapping[str, str] = "cell",
        groups: Mapping[str, Sequence[Sequence[str]]] | None = None,
        orphans: Literal["fail", "drop-edges", "keep-node"] = "fail",
        base: str | None = None,
        message: str | None = None,
        author: str | None = None,
        token: Token | None = None,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Any:
        """Bring what another branch did since it parted into this one, or into branch `into`; see `Lake.merge`."""
        if author is not None:
            raise Unsupported("The author is whom the token of the server names.", next="Leave author= out.")
        wanted: dict[str, Any] = {"source": source, "into": into or self.branch_name, "mode": mode}
        wanted |= {"orphans": orphans, "base": base, "message": message, "timeout": timeout}
        wanted["granularity"] = granularity if isinstance(granularity, str) else dict(granularity)
        wanted |= {"groups": None if groups is None else {n: [list(g) for g in of] for n, of in groups.items()}}
        return self._planned("merges", {**wanted, "metadata": dict(metadata or {})}, resolve, token, preview=preview)

    def cherry_pick(
        self,
        commit: str,
        message: str | None = None,
        *,
        preview: bool = False,
        parent: int = 1,
        resolve: Any = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Any:
        """Do here what one commit of another branch did there; see `Lake.cherry_pick`."""
        wanted = self._picked(message, parent, metadata)
        return self._planned(f"commits/{segment(commit)}/cherry-pick", wanted, resolve, None, preview=preview)

    def revert(
        self,
        commit: str,
        message: str | None = None,
        *,
        preview: bool = False,
        parent: int = 1,
        resolve: Any = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Any:
        """A new commit that undoes an earlier one; see `Lake.revert`."""
        path, wanted = f"commits/{segment(commit)}/revert", self._picked(message, parent, metadata)
        if not preview and parent == 1 and resolve is None:
            return self._verb(path, wanted)
        return self._planned(path, wanted, resolve, None, preview=preview)

    def _picked(self, message: str | None, parent: int, metadata: Mapping[str, str] | None) -> dict[str, Any]:
        return {
            "branch": self.branch_name, "message": message, "parent": parent, "metadata": dict(metadata or {})
        }  # fmt: skip

    def _planned(self, path: str, wanted: dict[str, Any], resolve: Any, token: Token | None, *, preview: bool) -> Any:
        def ask(asked: dict[str, Any], key: str | None) -> Any:
            given = {name: value for name, value in asked.items() if value is not None}
            headers = {"content-type": "application/json"} | ({} if key is None else {"idempotency-key": key})
            return self.server.ask(
                "POST", path, body=to_json(given), headers=headers, again=key is None or "merges" in path
            )

        plan = RemotePlan(self._self, ask, wanted, resolve, key_of(token))
        return plan if preview else plan.commit()
