"""Where an agent works: one lake that is fixed when the session starts, and one branch that it may write to.

No tool takes the name of a branch to write to, a path or an address: whatever an agent sends, it cannot leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from quire.agents.bounds import Bounds, fitted
from quire.errors import Denied, InvalidInput, ReadOnly, Refused
from quire.graph.graph import Graph
from quire.lake import Lake, Rows, Snapshot
from quire.lake.context import acting_as
from quire.lake.handles import snapshot_at
from quire.lake.names import check_ref
from quire.lake.read.sql_limits import SqlLimits, limited
from quire.ledger import MAIN
from quire.rowfiles.write import distinct, json_rows

PREFIX = "agents/"
"""Names of the branches of agents begin so."""


@dataclass(frozen=True)
class Workspace:
    """What the tools work on. `lake_of` gives the handle of a branch; who asks is known to it."""

    name: str
    lake_of: Callable[[str], Lake]
    actor: str | None = None
    """Who writes; None for the author of the handle."""
    branch: str | None = None
    """The branch that may be written; without one nothing is."""
    may_merge: bool = False
    """Whether a policy lets this actor merge into the branch that its own began at."""
    bounds: Bounds = field(default_factory=Bounds)
    metadata: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def working(self) -> Iterator[None]:
        """A call of a tool: by whom, and within which bounds."""
        limits = SqlLimits(self.bounds.memory, 2, self.bounds.seconds)
        with limited(limits):
            if self.actor is None:
                yield
            else:
                with acting_as(self.actor):
                    yield

    # -- reading ----------------------------------------------------------------------------------------------

    def lake(self) -> Lake:
        """What is read: the agent's branch once it has begun, main until then."""
        return self.lake_of(self.branch) if self.branch is not None and self.has_begun() else self.lake_of(MAIN)

    def snapshot(self, at: str | None) -> Snapshot:
        """All tables at a commit, a tag, a branch or a time; else at the newest commit."""
        lake = self.lake()
        return lake.snapshot() if not at else snapshot_at(lake, word(at, "at"))

    def graph(self) -> Graph:
        """The graph of what is read."""
        return Graph(self.lake())

    def rows(self, snap: Snapshot, rows: Rows, limit: int | None, **more: Any) -> dict[str, Any]:
        """Rows of a commit as an answer."""
        most = min(self.bounds.rows, self.bounds.rows if limit is None else max(0, limit))
        found: list[dict[str, Any]] = []
        for batch in rows:
            for start in range(0, batch.num_rows, most + 1):
                piece = batch.slice(start, most + 1)
                names = distinct(piece.schema.names)
                found += json_rows(piece if names == piece.schema.names else piece.rename_columns(names))
                if len(found) > most:
                    break
            if len(found) > most:
                break
        columns = [{"name": f.name, "type": str(f.type)} for f in rows.schema]
        answer: dict[str, Any] = {"commit": snap.commit, "branch": snap.branch, "columns": columns, **more}
        answer |= {"rows": found[:most], "truncated": len(found) > most}
        return fitted(answer, ("rows",), self.bounds)

    # -- writing ----------------------------------------------------------------------------------------------

    def own(self) -> str:
        """The branch that may be written."""
        if self.branch is None:
            raise ReadOnly(
                "This session reads only.", next="Ask whoever started it to allow writing (quire mcp LAKE --write)."
            )
        return self.branch

    def has_begun(self) -> bool:
        """Whether the agent's branch is there."""
        return any(one.name == self.branch for one in self.lake_of(MAIN).branches())

    def begin(self) -> tuple[Lake, bool]:
        """The agent's branch, and whether it was made now. One that somebody else made is not this agent's."""
        name, main = self.own(), self.lake_of(MAIN)
        found = next((one for one in main.branches() if one.name == name), None)
        if found is None:
            main.create_branch(name)
            return self.lake_of(name), True
        if self.actor is not None and found.author != self.actor:
            raise Denied(
                f"Branch {name!r} belongs to somebody else.", next="Ask for a branch of your own.", branch=name
            )
        return self.lake_of(name), False

    def writing(self) -> Lake:
        """The agent's branch, which must have begun."""
        self.own()
        if not self.has_begun():
            raise Refused("Nothing has begun yet.", next="Call begin first: it makes the branch that you write to.")
        return self.begin()[0]


def own_branch(name: str | None, actor: str) -> str:
    """The branch of an agent: below `agents/`, whatever is asked for."""
    if name is None:
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in actor)
        name = PREFIX + (plain.replace("..", "-").strip("-./") or "agent")
    if not name.startswith(PREFIX) or len(name) == len(PREFIX):
        raise InvalidInput(
            f"An agent's branch is called {PREFIX}NAME, not {name!r}.", next=f"Use --branch {PREFIX}NAME.", branch=name
        )
    return check_ref(name, "branch")


def word(text: str, what: str) -> str:
    """A word for a commit: never an address."""
    if "://" in text or len(text) > 300 or "\x00" in text:
        raise InvalidInput(
            f"{text[:60]!r} is no {what}.", next="Give a commit such as 12.0, a tag, a branch or a time."
        )
    return text


def text(given: str) -> str:
    """A text of a language, and never a name of a file: those have one line only."""
    return f"{given}\n"
