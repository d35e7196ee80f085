"""Merges and merge requests behind a server. A plan is a preview that is asked for again with each resolution."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from quire.client.told import receipt_of, request_of, typed
from quire.errors import InvalidInput, Refused, shown
from quire.lake.branch.requests import MergeRequest
from quire.lake.commit.tokens import token as new_token
from quire.lake.merge.conflicts import Conflicts, MergeConflict
from quire.lake.merge.plan import decision_of, same_key
from quire.lake.merge.strategies import Resolving, checked_decision
from quire.lake.names import no_table
from quire.lake.read import sql
from quire.lake.read.table import Rows
from quire.lake.receipt import Receipt
from quire.prompt import one_line

if TYPE_CHECKING:
    from quire.client.lake import RemoteLake

PAGE = 1_000
"""Conflicts that are asked for at once."""
Ask = Callable[[dict[str, Any], str | None], Any]


class RemotePlan:
    """What a merge would do; see `MergePlan`. Nothing is written before `commit()`."""

    def __init__(self, lake: RemoteLake, ask: Ask, wanted: dict[str, Any], resolve: Any, token: str | None) -> None:
        self._lake, self._ask, self._wanted, self._key = lake, ask, wanted, token or new_token()
        self._receipt: Receipt | None = None
        self._resolutions: dict[str, dict[str, Any]] = {}
        """By fingerprint."""
        self._deciding: Resolving | None = None
        if resolve is not None and _is_plain(resolve):
            wanted["resolve"] = resolve
        elif resolve is not None:
            self._deciding = Resolving(resolve)
        self._stale: list[MergeConflict] = []
        self._look()
        if "source" in wanted:
            wanted["theirs"] = self.theirs

    def _look(self) -> None:
        asked = {**self._wanted, "preview": True, "limit": PAGE, "resolutions": list(self._resolutions.values())}
        self._told = self._ask(asked, None)
        found = self._told["conflicts"]
        while self._told.get("more") and not self._resolutions and len(found) < sum(self._told["counts"].values()):
            path = self._told["more"]
            found += self._lake.server.transport.ask("GET", path, query={"offset": len(found), "limit": PAGE}).json[
                "conflicts"
            ]
        schemas = self._schemas({one["table"] for one in found})
        self._conflicts = Conflicts([_conflict(one, schemas.get(one["table"])) for one in found])
        self._stale += [_conflict(one, None) for one in self._told["stale"]]
        if self._deciding is not None and self._decide(self._deciding):
            self._look()

    def _schemas(self, tables: Iterable[str]) -> dict[str, Any]:
        branch = self._lake.branch(self.target) if tables else self._lake
        snap = branch.snapshot() if tables else None
        return {name: snap[name].schema for name in tables if snap is not None and name in snap}

    def _decide(self, deciding: Resolving) -> bool:
        """Ask the functions about what is open; whether they resolved something."""
        done = False
        for conflict in self._conflicts.open:
            strategy = deciding.of(conflict.table)
            if strategy is None or conflict.fingerprint in self._resolutions:
                continue
            decision = strategy if isinstance(strategy, str) else checked_decision(strategy(conflict), conflict)
            if decision is not None:
                self._resolutions[conflict.fingerprint] = _resolution(conflict, decision)
                done = True
        return done

    # -- what it is -------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """What is merged, as it was named."""
        return str(self._told["source"])

    @property
    def target(self) -> str:
        """The branch that it is merged into."""
        return str(self._told["target"])

    @property
    def ours(self) -> str:
        """The commit that it is merged into."""
        return str(self._told["ours"])

    @property
    def theirs(self) -> str:
        """The commit that is merged."""
        return str(self._told["theirs"])

    @property
    def outcome(self) -> str:
        """What it comes to: "up-to-date", "fast-forward" or "merged"."""
        return str(self._told["outcome"])

    @property
    def bases(self) -> list[str]:
        """The commits from which the two parted."""
        return list(self._told["bases"])

    @property
    def tables(self) -> list[dict[str, Any]]:
        """What becomes of each table that is changed here."""
        return list(self._told["tables"])

    @property
    def conflicts(self) -> Conflicts:
        """Every conflict, those that are resolved included; `.open` are the others."""
        return self._conflicts

    @property
    def stale(self) -> Conflicts:
        """Resolutions that were not applied, because they do not fit what is in conflict now."""
        return Conflicts(self._stale)

    @property
    def cost(self) -> dict[str, Any]:
        """What planning it took on the server."""
        return dict(self._told["cost"])

    @property
    def receipt(self) -> Receipt | None:
        """That of its commit, once there is one."""
        return self._receipt

    def sql(self, query: str, params: Sequence[Any] | dict[str, Any] | None = None) -> Rows:
        """A SELECT over its conflicts: table `conflicts` holds all, with rows as JSON text."""
        found = self.conflicts.to_arrow()
        return sql.run(query, params, sql.Tables(lambda _: ["conflicts"], lambda names: [found for _ in names]))

    # -- resolving and committing -----------------------------------------------------------------------------

    def resolve(
        self,
        table: str | Iterable[Any],
        key: Any = None,
        *,
        choose: Literal["ours", "theirs", "delete"] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> int:
        """Resolve one conflict, all of a table, or the conflicts that are given; see `MergePlan.resolve`."""
        self._check_open()
        if not isinstance(table, str):
            return self._edited([row.to_dict() if isinstance(row, MergeConflict) else row for row in table])
        if not any(one["table"] == table for one in self.tables) and not self._conflicts[table]:
            raise no_table(table, [one["table"] for one in self.tables])
        decision = decision_of(choose, values)
        meant = [c for c in self._conflicts[table] if key is None or same_key(c.key, key)]
        if not meant:
            raise InvalidInput(
                f"No conflict of table {table!r} has the key {shown(key)}.",
                next="plan.conflicts lists the conflicts with their keys.",
                table=table,
            )
        for conflict in meant:
            self._resolutions[conflict.fingerprint] = _resolution(conflict, decision)
        self._look()
        return len(meant)

    def _edited(self, rows: list[Any]) -> int:
        known = {c.fingerprint for c in self._conflicts}
        for row in rows:
            if not isinstance(row, Mapping) or not {"table", "fingerprint", "resolution"} <= row.keys():
                raise InvalidInput(
                    f"{shown(row)} is not a conflict that was resolved.",
                    next="Give dicts with table, key, fingerprint, resolution and, for values, merged.",
                )
        given = [dict(row) for row in rows if row["resolution"] is not None]
        self._resolutions |= {row["fingerprint"]: row for row in given}
        self._look()
        for row in given:
            if row["fingerprint"] not in known:
                del self._resolutions[row["fingerprint"]]
        return sum(row["fingerprint"] in known for row in given)

    def _check_open(self) -> None:
        if self._receipt is not None:
            raise Refused("This merge is committed.", next="Plan another one with lake.merge(…, preview=True).")

    def commit(self, message: str | None = None) -> Receipt:
        """Commit it; see `MergePlan.commit`."""
        self._check_open()
        asked = {**self._wanted, "resolutions": list(self._resolutions.values())}
        if message is not None:
            asked["message"] = message
        self._receipt = receipt_of(self._ask(asked, self._key))
        return self._receipt

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        names = ("outcome", "source", "target", "ours", "theirs", "bases", "tables", "cost")
        told = {name: self._told[name] for name in names}
        return {**told, "counts": self.conflicts.counts, "open": len(self.conflicts.open)} | {
            "conflicts": self.conflicts.to_list()
        }

    def __repr__(self) -> str:
        where = f"{self.source!r} at {self.theirs} into {self.target!r} at {self.ours}"
        return one_line(f"<Merge of {where}: {self.outcome}, {len(self.conflicts.open)} open conflicts>")


def _is_plain(resolve: Any) -> bool:
    try:
        json.dumps(resolve)
    except (TypeError, ValueError):
        return False
    return True


def _resolution(conflict: MergeConflict, decision: Any) -> dict[str, Any]:
    told = conflict.to_dict()
    kept = {name: told[name] for name in ("table", "kind", "key", "columns", "fingerprint")}
    if isinstance(decision, str):
        return {**kept, "resolution": decision}
    return {**kept, "resolution": "values", "merged": dict(decision)}


def _conflict(told: dict[str, Any], schema: Any) -> MergeConflict:
    rows = {n: None if told.get(n) is None else typed(told[n], schema) for n in ("key", "base", "ours", "theirs")}
    merged = None if told["merged"] is None else typed(told["merged"], schema)
    partners = tuple((table, key) for table, key in told["partners"])
    return MergeConflict(**{**told, **rows, "merged": merged, "columns": tuple(told["columns"]), "partners": partners})


class RemoteRequests:
    """The merge requests of a lake behind a server; see `Requests`."""

    def __init__(self, lake: RemoteLake) -> None:
        self._lake = lake

    def list(self, state: Literal["open", "merged", "closed", "all"] = "open") -> list[MergeRequest]:
        """The requests in a state, the newest first."""
        found = self._lake.server.ask("GET", "requests", query={"state": state})["requests"]
        return [request_of(one) for one in found]

    def get(self, number: int) -> MergeRequest:
        """One request by its number."""
        return request_of(self._lake.server.ask("GET", f"requests/{_number(number)}"))

    def open(self, source: str, title: str, text: str = "", *, into: str | None = None) -> MergeRequest:
        """Ask for branch `source` to be merged into another one: by default into the branch of this handle."""
        asked = {"source": source, "title": title, "text": text, "into": into or self._lake.branch_name}
        return request_of(self._lake.server.ask("POST", "requests", asked))

    def comment(self, number: int, text: str) -> MergeRequest:
        """Say something of a request, whatever its state."""
        return self.review(number, "comment", text)

    def review(self, number: int, verdict: str, text: str = "") -> MergeRequest:
        """Approve a request, object to it, or comment on it."""
        return self._do(number, "reviews", {"verdict": verdict, "text": text})

    def resolve(self, number: int, conflicts: Iterable[Any]) -> MergeRequest:
        """Keep how conflicts are to be resolved, for when the request is merged."""
        given = [one.to_dict() if isinstance(one, MergeConflict) else one for one in conflicts]
        return self._do(number, "resolutions", {"resolutions": given})

    def close(self, number: int, text: str = "") -> MergeRequest:
        """Close a request without merging it."""
        return self._do(number, "close", {"text": text})

    def reopen(self, number: int) -> MergeRequest:
        """Open a request again that was closed."""
        return self._do(number, "reopen", {})

    def _do(self, number: int, verb: str, asked: dict[str, Any]) -> MergeRequest:
        return request_of(self._lake.server.ask("POST", f"requests/{_number(number)}/{verb}", asked))

    def merge(
        self, number: int, *, mode: str = "auto", resolve: Any = None, force: bool = False, message: str | None = None
    ) -> Receipt:
        """Merge what a request asks for, with the resolutions that it keeps. It happens once, also if asked again."""
        asked = {"mode": mode, "resolve": resolve, "force": force, "message": message}
        return receipt_of(self._lake.server.ask("POST", f"requests/{_number(number)}/merge", asked, again=True))

    def __repr__(self) -> str:
        return f"<Requests of {self._lake.uri}>"


def _number(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidInput(f"{shown(number)} is not the number of a request.", next="requests.list() lists them.")
    return number
