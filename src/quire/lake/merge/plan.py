"""A merge as it stands before it is committed: what it would do, what is in conflict, and how that is resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from quire.arguments import checks_arguments
from quire.errors import (
    Conflict,
    ExpectationFailed,
    InvalidInput,
    NotFastForward,
    Refused,
    Revoked,
    SnapshotExpired,
    shown,
)
from quire.lake import display
from quire.lake.branch.fast_forward import adopt_pin, learnt
from quire.lake.commit.fairness import MergeTurns
from quire.lake.commit.transaction import Transaction
from quire.lake.merge.conflicts import Conflicts, MergeConflict, counted, unresolved
from quire.lake.merge.decide import Deciding, Options
from quire.lake.merge.heads import Tip, heads, picked, reverted
from quire.lake.merge.rules import ROUNDS, Orphans, Sides, broken, conflicts, is_guarded, keep_or_drop, put_right, ready
from quire.lake.merge.strategies import Decision, Resolving, checked_decision
from quire.lake.merge.tables import TableMerge
from quire.lake.names import no_table
from quire.lake.read import sql
from quire.lake.read.table import Rows
from quire.lake.receipt import Receipt
from quire.ledger import Joining, Point, State, TableState
from quire.prompt import Escaped, one_line
from quire.store import Meter, attached

if TYPE_CHECKING:
    from quire.lake.lake import Lake

Mode = Literal["auto", "ff-only", "no-ff", "squash"]
How = Literal["fast-forward", "merged", "squashed", "picked", "reverted"]
Outcome = Literal["up-to-date", "fast-forward", "merged"]
TRIES = 8
"""How often a merge is planned again when others commit to the same branch first."""


@dataclass
class Asked:
    """What a merge was asked for."""

    source: str
    mode: Mode = "auto"
    base: str | None = None
    options: Options = field(default_factory=Options)
    resolving: Resolving = field(default_factory=lambda: Resolving(None))
    orphans: Orphans = "fail"
    """What becomes of edges that lost a node."""
    verb: Literal["merge", "pick", "revert"] = "merge"
    parent: int = 1
    """Of a commit that is picked or reverted: which parent it is compared with."""
    message: str | None = None
    transaction: dict[str, Any] = field(default_factory=dict)
    """Options of the transaction that commits it."""


@checks_arguments
class MergePlan(Escaped):
    """What a merge would do. Nothing is written before `commit()`.

    >>> import quire
    >>> lake = quire.create("memory://merge-plan-example")
    >>> made = lake.create_table("people", [{"id": 1, "name": "Ada", "city": "Paris"}], key="id")
    >>> trial = lake.create_branch("trial")
    >>> for branch, name in ((lake, "Ada L."), (trial, "Ada Lovelace")):
    ...     with branch.transaction() as tx:
    ...         count = tx["people"].update(values={"name": name}, where="id = 1")
    >>> plan = lake.merge("trial", preview=True)
    >>> plan.outcome, plan.conflicts
    ('merged', <update-update in 'people' at id=1 in name>)
    >>> plan.resolve("people", 1, choose="theirs")
    1
    >>> plan.commit().outcome
    'merged'
    """

    def __init__(self, lake: Lake, asked: Asked) -> None:
        self._lake, self._asked = lake, asked
        self._meter = Meter()
        self._made: dict[str, tuple[Any, TableMerge]] = {}
        self._decisions: dict[tuple[str, str], tuple[MergeConflict, Decision]] = {}
        """By table and fingerprint: what was resolved by hand."""
        self._how: dict[tuple[str, str], str] = {}
        self._stale: list[MergeConflict] = []
        self._receipt: Receipt | None = None
        self._broken: list[MergeConflict] | None = None
        """Rules that are broken in the merged state; None while nobody has looked."""
        self._fixes: dict[str, tuple[MergeConflict, Decision]] = {}
        """By fingerprint: what is decided about these."""
        self._plan(asked.source)

    # -- planning ---------------------------------------------------------------------------------------------

    def _plan(self, source: str | Tip) -> None:
        core, live, asked = self._lake._core, self._lake._live, self._asked
        with attached(self._meter):
            if asked.verb == "merge":
                self._heads = heads(core, live, source, asked.base)
            else:
                look = picked if asked.verb == "pick" else reverted
                self._heads = look(core, live, asked.source, asked.parent)
            self._tables: list[TableMerge] = []
            self._conflicts: Conflicts | None = None
            self._broken = None
            if self.outcome != "merged":
                return
            deciding = Deciding(self._heads, self._asked.options, self._made)
            self._tables = deciding.all()
            self._made = deciding.made
            self._resolve_again()

    def _resolve_again(self) -> None:
        """Apply what was resolved by hand, then what the strategies say of the rest."""
        open_ = {(t.id, c.fingerprint): t for t in self._tables for c in t.conflicts() if c.open}
        self._stale = []
        for (table, fingerprint), (conflict, decision) in list(self._decisions.items()):
            found = open_.get((table, fingerprint))
            if found is not None:
                found.decide(conflict, decision)
            elif not any(c.fingerprint == fingerprint for t in self._tables if t.id == table for c in t.conflicts()):
                self._stale.append(conflict)
                del self._decisions[table, fingerprint]
        for made in self._tables:
            self._by_strategy(made)

    def _by_strategy(self, made: TableMerge) -> None:
        strategy = self._asked.resolving.of(made.name)
        if strategy is None or not made.open_count():
            return
        if isinstance(strategy, str):
            for conflict in made.conflicts():
                if conflict.open:
                    self._how[made.id, conflict.fingerprint] = strategy
            made.decide_all(strategy)
            return
        for conflict in made.conflicts():
            if conflict.open:
                decision = checked_decision(strategy(conflict), conflict)
                if decision is not None:
                    made.decide(conflict, decision)
                    self._how[made.id, conflict.fingerprint] = "function"

    # -- what it is -------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """What is merged, as it was named."""
        return self._heads.theirs.name

    @property
    def target(self) -> str:
        """The branch that it is merged into."""
        return self._heads.ours.name

    @property
    def ours(self) -> str:
        """The commit that it is merged into."""
        return self._heads.ours.point.commit

    @property
    def theirs(self) -> str:
        """The commit that is merged."""
        return self._heads.theirs.point.commit

    @property
    def outcome(self) -> Outcome:
        """What it comes to: "up-to-date", "fast-forward" or "merged"."""
        found = self._heads.outcome
        return "merged" if found == "fast-forward" and self._asked.mode in ("no-ff", "squash") else found

    @property
    def bases(self) -> list[str]:
        """The commits from which the two parted, as `show` takes them."""
        line = self._heads.ours.line
        return [p.commit if line.contains(p) else f"{p.branch}:{p.commit}" for p in self._heads.bases]

    @property
    def tables(self) -> list[dict[str, Any]]:
        """What becomes of each table that is changed here: its action, conflicts, and rows that come from there."""
        return [t.to_dict() for t in self._tables if t.changes]

    @property
    def conflicts(self) -> Conflicts:
        """Every conflict, those that are resolved included; `.open` are the others."""
        if self._conflicts is None:
            rows = [c for t in self._tables for c in t.conflicts()]
            if self._broken is None and self._receipt is None and not any(c.open for c in rows):
                self._broken = self._look_at_rules()
            self._conflicts = Conflicts([*rows, *map(self._fixed, self._fixes.values()), *(self._broken or ())])
        return self._conflicts

    def _fixed(self, fix: tuple[MergeConflict, Decision]) -> MergeConflict:
        conflict, decision = fix
        if isinstance(decision, Mapping):
            return replace(conflict, resolution="values", merged=dict(decision))
        return replace(conflict, resolution=decision)

    def _look_at_rules(self) -> list[MergeConflict]:
        """Rules that the merged rows break: asked of a transaction that is not committed."""
        if not any(t.guarded for t in self._tables if t.changes):
            return []
        tx = self._look()
        tx.at = self._heads.ours.state
        try:
            with attached(self._meter):
                self._edit(tx)
                return self._judge(tx)
        finally:
            tx.discard()

    def _look(self) -> Transaction:
        """A transaction that is not committed; of a handle that may not write, one that sends nothing to the store."""
        about = "look at the rules of a merge"
        if not self._lake._core.read_only:
            return self._lake.transaction(about)
        live = copy(self._lake._live)
        live.core = live.core.aside()
        return Transaction(live, None, message=about, gate=self._lake._gate)

    def _judge(self, tx: Transaction) -> list[MergeConflict]:
        """Put right what is decided about broken rules; what is still broken then."""
        ready(tx)
        if not is_guarded(tx):
            return []
        sides = Sides(self._lake._core, self._heads.ours.state, self._heads.theirs.state)
        ids = {name: state.info.id for s in (sides.ours, sides.theirs) for name, state in _by_name(s).items()}
        for conflict, decision in self._fixes.values():
            put_right(tx, conflict, decision, sides)
        for _ in range(ROUNDS):
            found = broken(tx)
            if not found or not keep_or_drop(tx, found, self._asked.orphans, sides):
                break
        left = [c for c in conflicts(found, sides, ids) if c.fingerprint not in self._fixes]
        decided = [(c, d) for c in left for d in [self._by_rule(c)] if d is not None]
        if not decided:
            return left
        for conflict, decision in decided:
            self._fixes[conflict.fingerprint] = conflict, decision
            self._how[ids.get(conflict.table, ""), conflict.fingerprint] = (
                decision if isinstance(decision, str) else "values"
            )
            put_right(tx, conflict, decision, sides)
        return conflicts(broken(tx), sides, ids)

    def _by_rule(self, conflict: MergeConflict) -> Decision:
        """What the strategies say of a broken rule. A side can be taken only where the sides differ."""
        strategy = self._asked.resolving.of(conflict.table)
        if strategy is None or conflict.key is None:
            return None
        decision = strategy if isinstance(strategy, str) else checked_decision(strategy(conflict), conflict)
        if isinstance(decision, str) and decision != "delete" and conflict.ours == conflict.theirs:
            return None
        return decision

    @property
    def stale(self) -> Conflicts:
        """Resolutions that were not applied, because what they were made for is not what is in conflict now."""
        return Conflicts(self._stale)

    @property
    def cost(self) -> dict[str, Any]:
        """What planning it took so far: requests, hops, bytes."""
        return self._meter.to_dict()

    @property
    def receipt(self) -> Receipt | None:
        """That of its commit, once there is one."""
        return self._receipt

    def sql(self, query: str, params: Sequence[Any] | dict[str, Any] | None = None) -> Rows:
        """A SELECT over its conflicts: table `conflicts` holds all, with rows as JSON text."""
        found = self.conflicts.to_arrow()
        return sql.run(query, params, sql.Tables(lambda _: ["conflicts"], lambda names: [found for _ in names]))

    # -- resolving --------------------------------------------------------------------------------------------

    def resolve(
        self,
        table: str | Iterable[Any],
        key: Any = None,
        *,
        choose: Literal["ours", "theirs", "delete"] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> int:
        """Resolve one conflict, or all of a table when no key is given; how many were resolved.

        `values` are those of the columns in conflict, and may be of others. Instead of a table, conflicts can be given
        that were edited: as dicts, each with `table`, `key`, `fingerprint`, `resolution` ("ours", "theirs", "delete" or
        "values") and `merged`. One whose fingerprint does not fit any more is not applied, and is in `stale`.
        """
        self._check_open()
        _ = self.conflicts  # with the rules that are broken
        self._conflicts = None
        if not isinstance(table, str):
            return sum(self._edited(row) for row in table)
        found = [t for t in self._tables if t.name == table]
        if not found:
            raise no_table(table, [t.name for t in self._tables])
        decision = decision_of(choose, values)
        rules = [c for c in self._broken or () if c.table == table and (key is None or same_key(c.key, key))]
        for conflict in rules:
            self._fix(conflict, decision)
        meant = [(t, c) for t in found for c in t.conflicts() if key is None or same_key(c.key, key)]
        if not meant and not rules:
            raise InvalidInput(
                f"No conflict of table {table!r} has the key {shown(key)}.",
                next="plan.conflicts lists the conflicts with their keys.",
                table=table,
            )
        for made, conflict in meant:
            self._decide(made, conflict, decision)
        return len(meant) + len(rules)

    def _fix(self, conflict: MergeConflict, decision: Decision) -> None:
        if conflict.key is None:
            raise InvalidInput(
                f"What is wrong with table {conflict.table!r} is not about one row: {conflict.rule}",
                next="Correct it on one of the branches, and merge again.",
                table=conflict.table,
            )
        self._fixes[conflict.fingerprint] = conflict, decision
        self._how[conflict.table, conflict.fingerprint] = decision if isinstance(decision, str) else "values"
        self._broken = None

    def _decide(self, made: TableMerge, conflict: MergeConflict, decision: Decision) -> None:
        made.decide(conflict, decision)
        self._decisions[made.id, conflict.fingerprint] = conflict, decision
        self._how[made.id, conflict.fingerprint] = decision if isinstance(decision, str) else "values"

    def _edited(self, row: Any) -> int:
        told = row.to_dict() if isinstance(row, MergeConflict) else row
        if not isinstance(told, Mapping) or not {"table", "fingerprint", "resolution"} <= told.keys():
            raise InvalidInput(
                f"{shown(row)} is not a conflict that was resolved.",
                next="Give dicts with table, key, fingerprint, resolution and, for values, merged.",
            )
        if told["resolution"] is None:
            return 0
        for conflict in list(self._broken or ()):
            if conflict.fingerprint == told["fingerprint"]:
                merged = told.get("merged") if told["resolution"] == "values" else None
                self._fix(conflict, decision_of(None if merged is not None else told["resolution"], merged))
                return 1
        for made in self._tables:
            for conflict in made.conflicts() if made.name == told["table"] else ():
                if conflict.fingerprint == told["fingerprint"]:
                    chosen = told["resolution"]
                    merged = told.get("merged") if chosen == "values" else None
                    if isinstance(merged, Mapping) and conflict.key is not None:
                        merged = {n: v for n, v in merged.items() if n not in conflict.key}
                    self._decide(made, conflict, decision_of(None if chosen == "values" else chosen, merged))
                    return 1
        self._stale.append(_as_conflict(told))
        return 0

    # -- committing -------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._receipt is not None:
            raise Refused("This merge is committed.", next="Plan another one with lake.merge(…, preview=True).")

    def commit(self, message: str | None = None) -> Receipt:
        """Commit it: one transaction on the state that it was planned for.

        When others commit to the branch first, tables that they touched are planned again; a conflict that is new then
        is `UnresolvedConflicts`, and nothing is committed.
        """
        self._check_open()
        said = message if message is not None else self._asked.message
        live = self._lake._live
        turns = MergeTurns(live, live.seat)
        try:
            with attached(self._meter):
                turns.wait(None)  # only where others were met lately
            for attempt in range(TRIES):
                try:
                    self._receipt = self._commit(said)
                    return self._receipt
                except (ExpectationFailed, Revoked, SnapshotExpired, Conflict) as error:
                    again = isinstance(error, ExpectationFailed | Revoked) or error.retryable
                    if not again or attempt == TRIES - 1 or not self._moved(error, turns):
                        raise
            raise AssertionError("unreachable")
        finally:
            turns.close()

    def _moved(self, error: Exception, turns: MergeTurns) -> bool:
        """Plan again where the branch has moved, when it is our turn; False when nothing did, so the error stands."""
        before = self._heads.ours.state.slot
        turns.lost(1)
        with attached(self._meter):
            turns.wait(None)
        # After a cleanup what was looked at there may be gone: look at its newest state.
        self._plan(self._asked.source if isinstance(error, Revoked) else self._heads.theirs)
        return isinstance(error, Revoked) or self._heads.ours.state.slot != before

    def _commit(self, message: str | None) -> Receipt:
        if self._heads.outcome == "merged" and self._asked.mode == "ff-only":
            raise _diverged(self.target, self.source, self.ours)
        if self.outcome == "up-to-date":
            return Receipt(None, self.target, outcome="up-to-date")
        left = self.conflicts.open
        if left:
            raise unresolved(self.source, self.target, left)
        here, there = self._heads.ours.state, self._heads.theirs.state
        tx = self._lake.transaction(
            message if message is not None else self._told(), if_head=here.head.commit, **self._asked.transaction
        )
        tx.at, tx.meter = here, self._meter
        repeated = tx.repeated()
        if repeated is not None:
            return repeated
        try:
            with attached(self._meter):
                self._describe(tx)
                if tx.learnt is not None:
                    self._heads.theirs.history.pages.write(there.fresh)  # before a record names them
                self._edit(tx)
                left = Conflicts(self._judge(tx))
                if left:
                    self._broken, self._conflicts = list(left), None
                    raise unresolved(self.source, self.target, left)
        except BaseException:
            tx.discard()
            raise
        receipt = tx.commit()
        adopted = f"{self.source}:{self.theirs}" if self.outcome == "fast-forward" else None
        return replace(receipt, adopted=adopted, outcome=self.outcome)

    def _describe(self, tx: Transaction) -> None:
        """What the record says of where the commit comes from."""
        here, there = self._heads.ours.state, self._heads.theirs.state
        if self._asked.verb != "merge":
            [base] = self._heads.bases
            picking = self._asked.verb == "pick"
            tx.reverts = None if picking else base
            tx.joining = self._joining("picked" if picking else "reverted", there.head if picking else base)
            return
        tx.learnt = learnt(here, there)
        squash = self._asked.mode == "squash"
        if not squash:
            tx.parents, tx.reaches = (there.head,), self._heads.reaches
        if self.outcome == "fast-forward":
            tx.adopts = there.head
        how: How = "squashed" if squash else "fast-forward" if self.outcome == "fast-forward" else "merged"
        tx.joining = self._joining(how, there.head)

    def _joining(self, how: How, commit: Point) -> Joining:
        return Joining(
            how=how,
            source=self.source,
            commit=commit,
            bases=self._heads.bases,
            conflicts=self.conflicts.counts,
            resolved=counted(self._how.values()),
        )

    def _edit(self, tx: Transaction) -> None:
        here, there = self._heads.ours.state, self._heads.theirs.state
        if self._heads.outcome == "fast-forward":
            for table in sorted(here.tables.keys() | there.tables.keys()):
                taken = adopt_pin(here, there, table)
                if taken is not None:
                    tx.edits[table] = taken
            return
        for made in self._tables:
            edit = made.edit(tx)
            if edit is not None:
                tx.edits[made.id] = edit

    def _told(self) -> str:
        """Its message, where nobody gives one."""
        if self._asked.verb != "merge":
            return f"{'cherry-pick' if self._asked.verb == 'pick' else 'revert'} {self.source}"
        if self.outcome == "fast-forward":
            return f"fast-forward to {self.source} at {self.theirs}"
        return f"merge {self.source} at {self.theirs}"

    # -- display ----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "outcome": self.outcome,
            "source": self.source,
            "target": self.target,
            "ours": self.ours,
            "theirs": self.theirs,
            "bases": self.bases,
            "tables": self.tables,
            "counts": self.conflicts.counts,
            "open": len(self.conflicts.open),
            "conflicts": self.conflicts.to_list(),
            "cost": self.cost,
        }

    def _said(self) -> str:
        if self.outcome == "up-to-date":
            return f"{self.target!r} has everything of {self.source!r}"
        head = f"{self.source!r} at {self.theirs} into {self.target!r} at {self.ours}: {self.outcome}"
        open_ = len(self.conflicts.open)
        return f"{head}, {sum(t.changes for t in self._tables)} tables, {open_} open conflicts"

    def __repr__(self) -> str:
        return one_line(f"<Merge of {self._said()}>")

    def _repr_html_(self) -> str:
        rows = [(t["table"], t["action"], t["open"], t["note"]) for t in self.tables]
        head = f"<b>{escape(self._said())}</b>"
        return display.shown(head, lambda: display.html_table(("table", "action", "open", "note"), rows), html=True)


def _by_name(state: State) -> dict[str, TableState]:
    return {table.info.name: table for table in state.tables.values()}


def merge(lake: Lake, asked: Asked, *, preview: bool) -> MergePlan | Receipt:
    """Plan a merge, and commit it unless it is a preview."""
    plan = MergePlan(lake, asked)
    return plan if preview else plan.commit()


def decision_of(choose: str | None, values: Mapping[str, Any] | None) -> Decision:
    if (choose is None) == (values is None):
        raise InvalidInput(
            "A conflict is resolved by choosing or by values.", next='Pass choose="theirs", or values={"name": …}.'
        )
    if choose is None:
        return values
    if choose in ("ours", "theirs", "delete"):
        return choose  # type: ignore[return-value]
    raise InvalidInput(f"{shown(choose)} is no choice.", next='Choose "ours", "theirs" or "delete".')


def same_key(key: Mapping[str, Any] | None, given: Any) -> bool:
    if key is None:
        return False
    if isinstance(given, Mapping):
        return dict(given) == dict(key)
    if isinstance(given, tuple | list) and len(key) > 1:
        return list(given) == list(key.values())
    return len(key) == 1 and bool(next(iter(key.values())) == given)


def _as_conflict(told: Mapping[str, Any]) -> MergeConflict:
    """A resolution that fits nothing, as it was given."""
    key, merged = told.get("key"), told.get("merged")
    return MergeConflict(
        table=str(told["table"]),
        kind=told.get("kind", "update-update"),
        key=dict(key) if isinstance(key, Mapping) else None,
        columns=tuple(told.get("columns") or ()),
        base=None,
        ours=None,
        theirs=None,
        ours_op="none",
        theirs_op="none",
        fingerprint=str(told["fingerprint"]),
        resolution=told["resolution"],
        merged=dict(merged) if isinstance(merged, Mapping) else None,
    )


def _diverged(target: str, source: str, head: str) -> NotFastForward:
    return NotFastForward(
        f"Branch {target!r} has commits that {source!r} does not contain (its head is {head}).",
        next='Merge without mode="ff-only".',
        target=target,
        source=source,
    )
