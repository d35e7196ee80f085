"""What an agent may do: change a branch of its own, and propose it. Merging is up to people, or to a policy."""

from __future__ import annotations

from typing import Any, Literal

from quire.agents.bounds import fitted
from quire.agents.workspace import Workspace, text
from quire.errors import InvalidInput, Refused
from quire.graph.graph import Graph
from quire.lake import Lake
from quire.lake.commit.tokens import token as new_token
from quire.lake.commit.transaction import TransactionOptions
from quire.ledger import MAIN
from quire.rowfiles import json_values

MOST_ROWS = 10_000
"""Rows of one load: they pass through a model."""


class WriteTools:
    """The tools that write, all to the agent's own branch; their docstrings are what an agent is told."""

    def __init__(self, space: Workspace) -> None:
        self.space = space

    def begin(self) -> dict[str, Any]:
        """Begin to write: make your own branch from main, or go on with the one that you have. Everything that you
        write goes there and nowhere else; nobody sees it in main before it is merged."""
        lake, made = self.space.begin()
        return {"branch": lake.branch_name, "commit": lake.refresh(), "created": made}

    def mutate(
        self,
        query: str,
        params: dict[str, Any] | None = None,
        which: str | None = None,
        message: str | None = None,
        token: str | None = None,
    ) -> dict[str, Any]:
        """Run a mutation of the graph on your branch, as one commit: its text (`query add($n: String) { insert Person
        { name: $n } }`) or the name of a stored one. Send the `token` of an answer again to repeat a call safely."""
        lake = self.space.writing()
        graph = Graph(lake)
        given = query if query in graph.stored() else text(query)
        if "{" not in query and given is not query:
            raise InvalidInput(
                f"There is no stored mutation {query[:80]!r}.", next="describe lists the stored queries."
            )
        options = self._options(token)
        said = message or f"mutate {which or ''}".strip()
        done = graph.mutate(given, which, params=params or {}, message=said, options=options)
        return {
            **done.to_dict(),
            "branch": lake.branch_name,
            "token": options["token"],
            "repeated": _again(done.receipt),
        }

    def load(
        self,
        rows: list[dict[str, Any]],
        mode: Literal["append", "merge"] = "append",
        type: str | None = None,
        table: str | None = None,
        message: str | None = None,
        token: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Write rows to your branch, in one commit. For the graph: {"type": "Person", "data": {…}} and
        {"edge": "Knows", "from": …, "to": …, "data": {…}}, or plain rows with `type`. For a plain table: `table`,
        where mode merge replaces rows by key. At most 10,000 rows. What breaks a rule is told row by
        row, and nothing is written."""
        lake = self.space.writing()
        if not rows or len(rows) > MOST_ROWS:
            raise InvalidInput(f"A load has 1 to {MOST_ROWS:,} rows, not {len(rows):,}.", next="Send them in parts.")
        options = self._options(token)
        if table is not None:
            return self._into_table(lake, table, rows, mode, message, options, dry_run=dry_run)
        given: Any = [{"type": type, "data": row} for row in rows] if type is not None else rows
        done = Graph(lake).load(given, mode, dry_run=dry_run, message=message or "load", options=options)
        return {**done.to_dict(), "branch": lake.branch_name, "token": options["token"]}

    def _into_table(
        self,
        lake: Lake,
        table: str,
        rows: list[dict[str, Any]],
        mode: str,
        message: str | None,
        options: TransactionOptions,
        *,
        dry_run: bool,
    ) -> dict[str, Any]:
        tx = lake.transaction(message or f"{mode} {table}", **options)
        told: dict[str, Any] = {"branch": lake.branch_name, "table": table, "token": options["token"]}
        first = tx.repeated()
        if first is not None:
            return {**told, "commit": first.commit, "repeated": True}
        with tx:
            found = tx[table]
            data = json_values.table(rows, found.schema)
            done: Any = found.upsert(data) if mode == "merge" else {"inserted": found.append(data)}
            if dry_run:
                tx.discard()
        return {**told, **done, "commit": None if dry_run else tx.receipt.commit, "dry_run": dry_run, "repeated": False}

    def preview_merge(self) -> dict[str, Any]:
        """Say what merging your branch into main would do, with every conflict and its fingerprint. Writes nothing."""
        plan = self.space.lake_of(MAIN).merge(self.space.writing().branch_name, preview=True)
        told = {**plan.to_dict(), "commit": plan.ours}
        return fitted(told, ("conflicts", "tables"), self.space.bounds)

    def resolve(self, request: int, resolutions: list[dict[str, Any]]) -> dict[str, Any]:
        """Say how conflicts of your own merge request are resolved: those of preview_merge (table, key, fingerprint),
        each with `resolution` "ours" (main), "theirs" (yours), "delete", or "values" with `merged`."""
        self._own_request(request)
        done = self.space.lake_of(MAIN).requests.resolve(request, resolutions)
        return {"request": done.number, "resolutions": len(done.resolutions), "commit": self.space.lake_of(MAIN).head}

    def propose(self, title: str, text: str = "") -> dict[str, Any]:
        """Ask people to merge your branch into main: opens a merge request, or gives the one that is open already."""
        lake = self.space.writing()
        main = self.space.lake_of(MAIN)
        known = next((r for r in main.requests.list() if r.source == lake.branch_name and r.target == MAIN), None)
        made = known or main.requests.open(lake.branch_name, title, text, into=MAIN)
        plan = main.merge(lake.branch_name, preview=True)
        told = {"request": made.number, "state": made.state, "new": known is None, "commit": lake.refresh()}
        return {**told, "outcome": plan.outcome, "open_conflicts": len(plan.conflicts.open)}

    def merge(self, request: int) -> dict[str, Any]:
        """Merge your own request into main. You have this tool because a policy allows it."""
        if not self.space.may_merge:
            raise Refused("Merging is up to people here.", next="Call propose, and wait for a review.")
        self._own_request(request)
        done = self.space.lake_of(MAIN).requests.merge(request)
        return {"commit": done.commit, "outcome": done.outcome, "request": request}

    def _own_request(self, number: int) -> None:
        found = self.space.lake_of(MAIN).requests.get(number)
        if found.source != self.space.own() or found.target != MAIN:
            raise Refused(
                f"Merge request {number} is not about your branch.",
                next="Use the number that propose gave.",
                request=number,
            )

    def _options(self, token: str | None) -> TransactionOptions:
        return {"token": token or new_token(), "metadata": {"via": "mcp", **self.space.metadata}}


def _again(receipt: Any) -> bool:
    return receipt is not None and bool(receipt.repeated)


WRITE = ("begin", "mutate", "load", "preview_merge", "resolve", "propose")
