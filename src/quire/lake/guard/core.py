"""A lake as an actor may use it: the same store and log, and the branches, tables, rows and columns that it may see.

What is denied is taken away here, below every reader, so that it looks as if it were not there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from quire.errors import Denied
from quire.lake.context import Core
from quire.lake.guard.protocol import Guard, Kind, Who, both
from quire.lake.guard.seen import SeenView, seen_through
from quire.ledger import MAIN, Commit, Pin, Ref, State, TableState

if TYPE_CHECKING:
    import pyarrow as pa

    from quire.formats import View

LAKE = "lake"
"""What rules call the lake that they are stored in."""


class GovernedCore(Core):
    """A core that knows who acts, on which branch."""

    guard: Guard

    def __init__(self, base: Core, guard: Guard, who: Who, branch: str, *, strict: bool = True) -> None:
        self.__dict__.update(base.__dict__)
        self._base, self.guard, self.who, self.branch = base, guard, who, branch
        self._strict = strict
        """Whether it is closed to nobody also where there are no rules."""
        self._author = who.name or base._author
        self.refs = GovernedRefs(self)  # type: ignore[assignment]
        self._names: dict[str, set[str]] = {}
        """By location the names of the tables that may be read through this core."""
        self._hidden: set[str] = set()
        """Names of tables that there are and that must not be told."""
        self._pins: dict[tuple[str, str], Pin] = {}
        self.approvals = 0
        """Of a merge request that is being merged: how many have approved what is merged."""

    @property
    def base(self) -> Core:
        return self._base

    def aside(self) -> Core:
        found = super().aside()
        assert isinstance(found, GovernedCore)
        found._base = self.base.aside()
        return found

    def on(self, branch: str) -> GovernedCore:
        """The same on another branch."""
        return GovernedCore(self.base, self.guard, self.who, branch, strict=self._strict)

    def signed(self) -> Core:
        """All of the lake, for a verb that was allowed; what it does is by the actor."""
        found = copy.copy(self.base)
        found._author = self.who.name or found._author
        return found

    # -- may it? ------------------------------------------------------------------------------------------------

    def check_known(self) -> None:
        """Refuse whoever has not said who it is."""
        if not self.who.name and (self._strict or self.guard.active()):
            raise Denied(
                "This lake is open to actors only, and nobody is named.",
                next='Name one: quire.open(…, actor="ada", roles=["analyst"]).',
            )

    def may(self, action: str, kind: Kind, name: str, **context: Any) -> bool:
        """Whether the actor may do something on this branch."""
        return self.guard.allows(self.who, action, kind, name, {"branch": self.branch, "via": self.who.via, **context})

    def allow(self, action: str, kind: Kind, name: str, **context: Any) -> None:
        """Refuse what the actor may not do, and write that down."""
        self.check_known()
        if self.guard.active() and not self.may(action, kind, name, **context):
            raise self.denied(action, kind, name)

    def did(self, action: str, kind: str, name: str) -> None:
        self.guard.did(self.who, action, kind, name, self.branch)

    def denied(self, action: str, kind: Kind, name: str) -> Denied:
        """The error for what the actor may not do."""
        self.guard.refused(self.who, action, kind, name, self.branch)
        what = "the lake" if kind == "Lake" else f"{kind.lower()} {name!r}"
        return Denied(
            f"{self.who.name!r} may not {_WORDS.get(action, action)} {what}.",
            next="Ask whoever keeps the policy of the lake; `quire policy explain` says which rules decide.",
            action=action,
        )

    # -- branches -----------------------------------------------------------------------------------------------

    def sees_branch(self, name: str) -> bool:
        return not self.guard.active() or self.may("read", "Branch", name)

    def see_branch(self, name: str) -> None:
        """Refuse a branch that must not be told as one that does not exist, and after as many requests."""
        if not self.sees_branch(name):
            from quire.lake.branch.live import looked_up, no_branch

            self.guard.refused(self.who, "read", "Branch", name, self.branch)
            looked_up(self.base, name)
            raise no_branch(name)

    # -- tables -------------------------------------------------------------------------------------------------

    def sees_table(self, name: str) -> bool:
        return not self.guard.active() or self.may("read", "Table", name)

    def narrow(self, state: State) -> State:
        """A state without the tables that must not be told, and without sizes that may count what is hidden."""
        if not self.guard.active():
            return state
        tables = {id: seen for id, found in state.tables.items() if (seen := self.narrow_table(found)) is not None}
        return msgspec.structs.replace(state, tables=tables)

    def narrow_table(self, found: TableState | None) -> TableState | None:
        """A table of a state, if it may be read."""
        if found is None or not self.guard.active():
            return found
        if not self.sees_table(found.info.name):
            self._hidden.add(found.info.name)
            return None
        self._names.setdefault(found.pin.location, set()).add(found.info.name)
        self._pins[found.pin.location, found.pin.version] = found.pin
        return msgspec.structs.replace(found, pin=msgspec.structs.replace(found.pin, rows=0, bytes=0, fragments=0))

    def real_pin(self, pin: Pin) -> Pin:
        return self._pins.get((pin.location, pin.version), pin)

    def missed(self, names: Collection[str]) -> None:
        """Write down that somebody asked for tables that must not be told."""
        for name in names:
            if name in self._hidden:
                self.guard.refused(self.who, "read", "Table", name, self.branch)

    def told(self, commit: Commit) -> Commit:
        """A commit as it may be told: nothing of tables that are hidden, and no counts of rows that may be."""
        if not self.guard.active():
            return commit
        seen = [change for change in commit.changes if self.sees_table(change.name)]
        changes = tuple(msgspec.structs.replace(change, added=0, removed=0) for change in seen)
        if len(seen) == len(commit.changes):
            return msgspec.structs.replace(commit, changes=changes, cost=None)
        return msgspec.structs.replace(
            commit, changes=changes, message="", metadata={}, cost=None, token=None, stream=None
        )

    def format(self, name: str) -> Any:
        found = self.base.format(name)
        return SeenFormat(found, self) if self.guard.active() else found

    def seen(self, view: View, *names: str) -> View:
        """A view of a table as the actor sees it, by the name that it has, or by all that it had."""
        if not self.guard.active():
            return view
        columns = dict(zip(view.schema.names, view.schema.types, strict=True))
        sight = both([self.guard.sight(self.who, self.branch, name, columns) for name in names])
        return view if sight.whole else seen_through(view, sight, names[0], partial(self._missed_column, names[0]))

    def _missed_column(self, table: str, column: str) -> None:
        self.guard.refused(self.who, "readColumn", "Column", f"{table}/{column}", self.branch)

    def names_at(self, pin: Pin) -> list[str]:
        """The names by which a location was found readable; refused if there is none."""
        names = sorted(self._names.get(pin.location, ()))
        if not names:
            raise self.denied("read", "Table", "")
        return names

    def sees_all(self, found: TableState) -> bool:
        """Whether the actor sees every row and column of a table as it is."""
        if not self.sees_table(found.info.name):
            return False
        view = self.base.format(found.pin.format).open(found.pin, found.info.name)
        return self.seen(view, found.info.name) is view

    def sees_rows(self, found: TableState, columns: Collection[str]) -> bool:
        """Whether the actor sees every row of a table, and these columns of it as they are."""
        name = found.info.name
        if not self.sees_table(name):
            return False
        schema = self.base.format(found.pin.format).open(found.pin, name).schema
        sight = self.guard.sight(self.who, self.branch, name, dict(zip(schema.names, schema.types, strict=True)))
        return sight.rows is None and not set(columns) & (sight.hidden | sight.masks.keys())

    def see_all_of(self, state: State, validator: str) -> None:
        """Refuse to change what one validator judges, unless all columns of all of its tables may be seen."""
        self.check_known()
        if not self.guard.active():
            return
        for found in state.tables.values():
            if found.info.validator == validator and not self.sees_all(found):
                raise self.denied("schema", "Lake", LAKE)

    def need_all(self, action: str, tables: Iterator[TableState]) -> None:
        """Refuse a verb that would tell of rows or columns that are hidden."""
        if not self.guard.active():
            return
        for found in tables:
            if not self.sees_all(found):
                raise self.denied(action, "Branch", self.branch)


_WORDS = {
    "write": "write to",
    "mergeInto": "merge into",
    "branchCreate": "create",
    "branchDelete": "delete",
    "maintain": "maintain",
    "admin": "administer",
    "schema": "change the schema of",
    "index": "build indexes of",
    "revert": "revert commits of",
    "tag": "tag commits of",
    "invoke": "run",
    "vend": "be given credentials for the files of",
}


class SeenFormat:
    """A format whose tables are seen as an actor may see them."""

    def __init__(self, format: Any, core: GovernedCore) -> None:
        self._format, self._core = format, core
        self.name = format.name

    def open(self, pin: Pin, table: str = "") -> View:
        names = self._core.names_at(pin)
        return self._core.seen(self._format.open(self._core.real_pin(pin), table or names[0]), *names)

    def changed_rows(
        self, before: Pin, after: Pin, columns: Sequence[str] | None = None
    ) -> tuple[pa.RecordBatchReader, pa.RecordBatchReader]:
        """Rows that are gone and rows that are new, of those that are seen."""
        core = self._core
        before, after = core.real_pin(before), core.real_pin(after)
        views = [self.open(before), self.open(after)]
        if not any(isinstance(view, SeenView) for view in views):
            found: tuple[pa.RecordBatchReader, pa.RecordBatchReader] = self._format.changed_rows(before, after, columns)
            return found
        gone, come = self._format.changed_rows(before, after, None)
        seen = [
            view.visible(rows) if isinstance(view, SeenView) else rows
            for view, rows in zip(views, (gone, come), strict=True)
        ]
        if columns is not None:
            seen = [_some(rows, columns) for rows in seen]
        return seen[0], seen[1]

    def __getattr__(self, name: str) -> Any:
        """What else a format can do goes past what is seen."""
        raise Denied(
            "This way into a table goes past the policy of the lake, so it is closed.",
            next="Use tables, SQL, the graph or transactions; or open the lake with the credentials of its store.",
        )


def _some(rows: pa.RecordBatchReader, columns: Sequence[str]) -> pa.RecordBatchReader:
    import pyarrow as pa

    names = [n for n in columns if n in rows.schema.names]
    schema = pa.schema([rows.schema.field(n) for n in names])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(names) for batch in rows))


class GovernedRefs:
    """The branches and tags that an actor may see."""

    def __init__(self, core: GovernedCore) -> None:
        self._core, self._refs = core, core.base.refs

    def get(self, space: Literal["branch", "tag"], name: str) -> tuple[Ref | None, int]:
        ref, generation = self._refs.get(space, name)
        if ref is not None and not self._sees(space, ref):
            self._core.guard.refused(self._core.who, "read", "Branch", name, self._core.branch)
            return None, -1
        if ref is None and space == "tag" and self._core.guard.active():
            self._branch_of("")  # a tag that must not be told takes this look, too
        return ref, generation

    def lives(self, space: Literal["branch", "tag"], name: str) -> bool:
        ref, _ = self.get(space, name)
        return ref is not None and ref.kind == space

    def create(self, space: Literal["branch", "tag"], ref: Ref, generation: int) -> bool:
        return self._refs.create(space, ref, generation)

    def every(self, space: Literal["branch", "tag"]) -> Iterator[tuple[Ref, datetime | None]]:
        return ((ref, end) for ref, end in self._refs.every(space) if self._sees(space, ref))

    def list(self, space: Literal["branch", "tag"], bad: Callable[[str, Any], None] | None = None) -> Iterator[Ref]:
        return (ref for ref in self._refs.list(space, bad) if self._sees(space, ref))

    def _sees(self, space: str, ref: Ref) -> bool:
        core = self._core
        if not core.guard.active():
            return True
        if space == "branch":
            return core.sees_branch(ref.name)
        if ref.target is None:
            return True
        log = ref.line.branch if ref.line is not None else core.about.main
        if log == core.about.main:
            return core.sees_branch(MAIN)
        name = self._branch_of(log)
        return name is not None and core.sees_branch(name)

    def _branch_of(self, log: str) -> str | None:
        """The name of the branch with a log. All are looked at, wherever it is found."""
        names = {ref.line.branch: ref.name for ref, _ in self._refs.every("branch") if ref.line is not None}
        return names.get(log)
