"""What an agent may look at. Every answer has the commit that it is of, and says whether it was cut."""

from __future__ import annotations

from itertools import islice
from typing import Any, Literal

from quire.agents.bounds import fitted
from quire.agents.workspace import Workspace, text, word
from quire.errors import InvalidQuery
from quire.lake.names import no_table
from quire.rowfiles.write import json_rows

Params = dict[str, Any]


class ReadTools:
    """The tools that read; their docstrings are what an agent is told."""

    def __init__(self, space: Workspace) -> None:
        self.space = space

    def describe(self, name: str | None = None, at: str | None = None) -> dict[str, Any]:
        """Describe the lake: its tables, branches, graph schema and stored queries; with a name, one table or graph
        type with columns, key, indexes and three rows. Call it first. `at` is a commit (12.0), tag, branch or time."""
        snap = self.space.snapshot(at)
        graph = self.space.graph()
        if name is None:
            tables = [{"name": t, "rows": snap[t].count(), "key": list(snap[t].key)} for t in snap]
            branches = [b.to_dict() for b in self.space.lake().branches()]
            told: dict[str, Any] = {"lake": self.space.name, "commit": snap.commit, "branch": snap.branch}
            told |= {"writes_to": self.space.branch, "tables": tables, "branches": branches}
            told |= {"schema": graph.schema(snap), "stored_queries": list(graph.stored(snap))}
            return fitted(told, ("tables", "branches", "stored_queries"), self.space.bounds)
        known = {e.name: e.table for e in graph.catalog(snap).entities}
        if name not in snap and name not in known:
            raise no_table(name, [*snap.tables(), *known])
        table = snap[name if name in snap else known[name]]
        said = {k: v for k, v in table.describe().items() if k not in ("location", "config")}
        shown = [f.name for f in table.schema if not getattr(f.type, "list_size", None)]
        sample = self.space.rows(snap, table.scan(columns=shown, limit=3), 3)["rows"]
        return fitted({**said, "commit": snap.commit, "sample": sample}, ("columns", "sample"), self.space.bounds)

    def query(
        self,
        query: str,
        params: Params | None = None,
        which: str | None = None,
        at: str | None = None,
        limit: int = 100,
    ) -> dict[str, Any]:
        """Run a graph query: its text (`query q($n: String) { match { $p: Person { name: $n } } return { $p.name } }`)
        or the name of a stored query. Errors say line and column. At most 100 rows: count or aggregate in the query."""
        snap, graph = self.space.snapshot(at), self.space.graph()
        given = query if query in graph.stored(snap) else text(query)
        if "{" not in query and given is not query:
            raise InvalidQuery(f"There is no stored query {query[:80]!r}.", next="describe lists the stored queries.")
        return self.space.rows(snap, graph.query(given, which, at=snap, params=params or {}), limit)

    def sql(
        self, query: str, params: list[Any] | Params | None = None, at: str | None = None, limit: int = 100
    ) -> dict[str, Any]:
        """Run one SELECT (DuckDB) over all tables of one commit; `params` bind ? or $name. Quote names with a colon:
        "node:Person". At most 100 rows are returned: aggregate, or use LIMIT and OFFSET with ORDER BY."""
        snap = self.space.snapshot(at)
        return self.space.rows(snap, snap.sql(query, params), limit)

    def lint(self, queries: str, at: str | None = None) -> dict[str, Any]:
        """Check graph queries without running them: errors and warnings with line, column and what was expected."""
        snap = self.space.snapshot(at)
        found = [one.to_dict() for one in self.space.graph().lint(text(queries), snap)]
        return fitted({"commit": snap.commit, "findings": found}, ("findings",), self.space.bounds)

    def search(
        self,
        table: str,
        text: str | None = None,
        vector: list[float] | None = None,
        filter: str | None = None,
        columns: list[str] | None = None,
        limit: int = 10,
        at: str | None = None,
    ) -> dict[str, Any]:
        """Search one table by text, by a vector, or by both; `filter` is a condition in SQL."""
        snap = self.space.snapshot(at)
        found = snap[table]
        shown = columns or [f.name for f in found.schema if not getattr(f.type, "list_size", None)]
        most = max(1, min(limit, self.space.bounds.rows))
        rows = found.search(text=text, vector=vector, filter=filter, columns=shown, limit=most)
        return self.space.rows(snap, rows, most)

    def neighbours(
        self,
        type: str,
        key: str | int | list[Any],
        edge: str | None = None,
        direction: Literal["out", "in", "both"] = "both",
        limit: int = 20,
        at: str | None = None,
    ) -> dict[str, Any]:
        """The edges of a node of the graph and the nodes at their other ends. `limit` is for each type of edge."""
        snap = self.space.snapshot(at)
        values = key if isinstance(key, list) else [key]
        most = max(1, min(limit, self.space.bounds.rows))
        found = self.space.graph().neighbours(type, *values, edge=edge, direction=direction, limit=most, at=snap)
        told = [
            {"edge": n.edge, "direction": n.direction, "properties": n.properties, "type": n.type, "node": n.node}
            for n in found
        ]
        return fitted({"commit": snap.commit, "neighbours": told}, ("neighbours",), self.space.bounds)

    def history(self, name: str, key: Any, limit: int = 20) -> dict[str, Any]:
        """Every version of one row of a table, or of a node or edge of the graph, newest first: who, when, what."""
        lake = self.space.lake()
        snap = lake.snapshot()
        most = max(1, min(limit, self.space.bounds.rows))
        if name in snap:
            versions = lake.history(name, tuple(key) if isinstance(key, list) else key, limit=most)
        else:
            versions = self.space.graph().history(name, *(key if isinstance(key, list) else [key]), limit=most)
        found = [one.to_dict() for one in versions]
        return fitted({"commit": snap.commit, "versions": found}, ("versions",), self.space.bounds)

    def diff(
        self, a: str, b: str | None = None, since_base: bool = False, tables: list[str] | None = None, rows: int = 5
    ) -> dict[str, Any]:
        """What differs from commit, tag or branch `a` to `b` (default: newest), by table, with some rows of each kind.
        With `since_base`, what `b` did since the two parted."""
        lake = self.space.lake()
        other = None if b is None else word(b, "commit")
        found = lake.diff(word(a, "commit"), other, tables=tables, since_base=since_base)
        told = []
        for entry in found:
            said = entry.to_dict()
            if rows and entry.kind != "renamed":
                some = entry.some(max(0, min(rows, self.space.bounds.rows)))
                before, after = json_rows(some.changed_before), json_rows(some.changed_after)
                said["rows"] = {"added": json_rows(some.added), "removed": json_rows(some.removed)}
                said["rows"]["changed"] = [{"before": x, "after": y} for x, y in zip(before, after, strict=True)]
            told.append(said)
        answer = {"commit": found.after, "before": found.before, "after": found.after, "tables": told}
        return fitted(answer, ("tables",), self.space.bounds)

    def changes(self, since: str = "beginning", tables: list[str] | None = None, limit: int = 20) -> dict[str, Any]:
        """What was committed after a commit or a cursor, commit by commit with the changed rows. Go on with the
        `cursor` of the answer as `since`."""
        feed = self.space.lake().changes(word(since, "commit") if len(since) < 300 else since, tables=tables)
        most = max(1, min(limit, self.space.bounds.rows))
        found = []
        for block in islice(feed, most):
            said = block.to_dict()
            for told, table in zip(said["tables"], block.tables.values(), strict=True):
                kept = table.rows.slice(0, self.space.bounds.rows)
                told |= {"rows": json_rows(kept), "row_count": table.rows.num_rows}
            found.append(said)
            if len(str(said)) > self.space.bounds.characters:
                break
        told = fitted({"commit": self.space.lake().head, "changes": found}, ("changes",), self.space.bounds)
        last = told["changes"][-1] if told["changes"] else None
        return {**told, "cursor": last["cursor"] if last is not None else feed.cursor}

    def log(self, limit: int = 20) -> dict[str, Any]:
        """The newest commits: id, author, time, message and tables."""
        entries = [{k: v for k, v in c.to_dict().items() if k != "cost"} for c in self.space.lake().log(max(1, limit))]
        head = entries[0]["id"] if entries else None
        return fitted({"commit": head, "commits": entries}, ("commits",), self.space.bounds)

    def requests(self, number: int | None = None, state: str = "open") -> dict[str, Any]:
        """The merge requests in a state (open, merged, closed, all), or one by its number, with its reviews."""
        lake = self.space.lake()
        if number is not None:
            return fitted({"commit": lake.head, **lake.requests.get(number).to_dict()}, ("reviews",), self.space.bounds)
        states: Any = state
        found = [one.to_dict() for one in lake.requests.list(states)]
        return fitted({"commit": lake.head, "requests": found}, ("requests",), self.space.bounds)


READ = (
    "describe", "query", "sql", "lint", "search", "neighbours", "history", "diff", "changes", "log", "requests",
)  # fmt: skip
