"""What a merge makes of one table: decided by its states, and by its rows where both sides changed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from quire.errors import InvalidInput
from quire.lake.commit.table_change import Edit
from quire.lake.merge.conflicts import Kind, MergeConflict, Op, Side, sealed
from quire.lake.merge.keyed_rows import begin, pin_of
from quire.lake.merge.strategies import Decision
from quire.ledger import TableInfo, TableState

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction

Action = Literal["keep", "adopt", "create", "drop", "merge"]
"""Ours stays as it is, theirs is pinned, also as a new table, ours goes, or rows of both come together."""


class RowsMerge(Protocol):
    """The rows of a table that both sides changed."""

    def conflicts(self) -> list[MergeConflict]: ...
    def open_count(self) -> int: ...
    def decide(self, conflict: MergeConflict, decision: Decision) -> None: ...
    def decide_all(self, side: Side) -> None: ...
    def build(self, tx: Transaction, edit: Edit) -> None:
        """Put the merged rows into the edit of a transaction on our state."""
        ...

    def counts(self) -> dict[str, int]:
        """Rows that come from them: added, changed, removed."""
        ...


@dataclass
class Dispute:
    """A conflict about a table as a whole, and how it is decided."""

    conflict: MergeConflict
    taken: bool = False
    """Whether it is about a name that another table has on our side."""
    choice: Side | None = None
    name: str | None = None
    """Another name than both sides have given."""

    @property
    def shown(self) -> MergeConflict:
        if self.name is not None:
            return replace(self.conflict, resolution="values", merged={"name": self.name})
        if self.choice is None:
            return self.conflict
        return replace(self.conflict, resolution=self.choice, merged=getattr(self.conflict, self.choice))


@dataclass
class TableMerge:
    """One table of a merge."""

    id: str
    base: TableState | None
    ours: TableState | None
    theirs: TableState | None
    action: Action
    info: TableInfo | None
    """Its record afterwards; None when it is dropped."""
    rows: RowsMerge | None = None
    disputes: list[Dispute] = field(default_factory=list)
    gives_way: Dispute | None = None
    """That about its name, which a table of theirs wants: where theirs is chosen, this one is dropped."""
    indexes: Side | None = None
    """The side whose new indexes are taken over, where the table is as the other has it."""
    note: str = ""
    """What a reader of the preview should know."""

    @property
    def name(self) -> str:
        """Its name afterwards, or the last that it had."""
        state = self.ours or self.theirs
        assert state is not None
        return self.info.name if self.info is not None else state.info.name

    @property
    def changes(self) -> bool:
        """Whether our side is changed by it."""
        renamed = self.ours is not None and self.info is not None and self.info != self.ours.info
        return self.action != "keep" or renamed or bool(self.disputes) or self.indexes is not None

    @property
    def guarded(self) -> bool:
        """Whether a validator judges it."""
        return any(s is not None and s.info.validator is not None for s in (self.ours, self.theirs))

    # -- conflicts --------------------------------------------------------------------------------------------

    def conflicts(self) -> list[MergeConflict]:
        whole = [replace(dispute.shown, table=self.name) for dispute in self.disputes]
        return whole + (self.rows.conflicts() if self.rows is not None and not self._settled_as_whole else [])

    @property
    def _settled_as_whole(self) -> bool:
        return any(d.conflict.kind in ("dropped", "schema", "update-update", "count") for d in self.disputes)

    def open_count(self) -> int:
        """How many conflicts are open."""
        whole = sum(d.shown.open for d in self.disputes)
        return whole + (self.rows.open_count() if self.rows is not None and not self._settled_as_whole else 0)

    def decide(self, conflict: MergeConflict, decision: Decision) -> None:
        """Resolve one of its conflicts."""
        if decision is None:
            return
        if conflict.key is not None:
            assert self.rows is not None
            self.rows.decide(conflict, decision)
            return
        dispute = next(d for d in self.disputes if d.conflict.fingerprint == conflict.fingerprint)
        if decision == "ours" or decision == "theirs":
            dispute.choice, dispute.name = decision, None
        elif isinstance(decision, Mapping) and set(decision) == {"name"} and conflict.kind == "name":
            dispute.name = str(decision["name"])
        else:
            raise InvalidInput(
                f"A conflict of kind {conflict.kind} about table {self.name!r} cannot be resolved by {decision!r}.",
                next='Choose "ours" or "theirs"' + (', or values={"name": …}.' if conflict.kind == "name" else "."),
                table=self.name,
            )

    def decide_all(self, side: Side) -> None:
        """Resolve everything that is open in favour of one side."""
        for dispute in self.disputes:
            if dispute.shown.open:
                dispute.choice = side
        if self.rows is not None and not self._settled_as_whole:
            self.rows.decide_all(side)

    # -- the result -------------------------------------------------------------------------------------------

    def edit(self, tx: Transaction) -> Edit | None:
        """What a transaction on our state has to do; None for nothing. Everything in it is decided."""
        action, info, rows = self.action, self.info, self.rows
        if self.gives_way is not None and self.gives_way.choice == "theirs":
            assert self.ours is not None
            return Edit(self.ours.info, self.ours, ops=["drop"], dropped=True)
        for dispute in self.disputes:
            if dispute.conflict.kind == "name":
                info = self._named(dispute, info)
                continue
            rows = None
            state = self.ours if dispute.choice == "ours" else self.theirs
            action, info = _whole(self.ours, state), None if state is None else state.info
            if state is not None and state is self.ours:
                action = "keep"
        if action == "drop":
            assert self.ours is not None
            return Edit(self.ours.info, self.ours, ops=["drop"], dropped=True)
        if info is None:
            return None
        if action == "create":
            assert self.theirs is not None
            return Edit(info, None, ops=["restore"], pin=self.theirs.pin)
        assert self.ours is not None
        renamed = info.name != self.ours.info.name
        if self.indexes is not None and not self.disputes:
            return self._with_indexes(tx, Edit(info, self.ours, ops=["rename"] if renamed else [], renamed=renamed))
        if action == "adopt":
            assert self.theirs is not None
            return Edit(info, self.ours, ops=["restore"], pin=self.theirs.pin, renamed=renamed)
        edit = Edit(info, self.ours, ops=["rename"] if renamed else [], renamed=renamed)
        if rows is not None:
            rows.build(tx, edit)
        if not edit.ops and info != self.ours.info:
            edit.did("schema")
        return edit if edit.ops else None

    def _with_indexes(self, tx: Transaction, edit: Edit) -> Edit | None:
        """The rows as one side has them, and the indexes of both."""
        assert self.base is not None
        assert self.ours is not None
        assert self.theirs is not None
        mine = self.action == "keep"
        state, other = (self.ours, self.theirs) if mine else (self.theirs, self.ours)
        work = begin(tx, edit, state)
        format: Any = tx.live.core.format(state.pin.format)
        carried = format.carry_indexes(work, self.base.pin, other.pin)
        if not mine:
            pin_of(tx, edit, work, state.pin)
            edit.did("restore")
        elif carried:
            edit.work = work
            edit.did("index")
        return edit if edit.ops or edit.info != self.ours.info else None

    def _named(self, dispute: Dispute, info: TableInfo | None) -> TableInfo | None:
        if info is None:
            return None
        if dispute.taken and dispute.choice is not None:
            if dispute.choice == "theirs":
                return info
            return None if self.ours is None else msgspec.structs.replace(info, name=self.ours.info.name)
        if dispute.name is not None:
            return msgspec.structs.replace(info, name=dispute.name)
        state = self.ours if dispute.choice == "ours" else self.theirs
        return info if state is None else msgspec.structs.replace(info, name=state.info.name)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "table": self.name,
            "action": self.action,
            "conflicts": len(self.conflicts()),
            "open": self.open_count(),
            **({} if self.rows is None else self.rows.counts()),
            "note": self.note,
        }


def _whole(ours: TableState | None, state: TableState | None) -> Action:
    if state is None:
        return "drop" if ours is not None else "keep"
    return "create" if ours is None else "adopt"


def same_pin(a: TableState | None, b: TableState | None) -> bool:
    """Whether two sides have a table in the same state."""
    if a is None or b is None:
        return a is b
    return a.pin.location == b.pin.location and a.pin.version == b.pin.version


def dispute(
    kind: Kind,
    states: tuple[TableState | None, TableState | None, TableState | None],
    ops: tuple[Op, Op],
    columns: Sequence[str] = (),
) -> Dispute:
    """A conflict about a table as a whole."""
    base, ours, theirs = states
    state = ours or theirs or base
    assert state is not None
    found = MergeConflict(
        table=state.info.name,
        kind=kind,
        key=None,
        columns=tuple(columns),
        base=_shown(base),
        ours=_shown(ours),
        theirs=_shown(theirs),
        ours_op=ops[0],
        theirs_op=ops[1],
        ours_commit=ours.commit.commit if ours else None,
        theirs_commit=theirs.commit.commit if theirs else None,
    )
    return Dispute(sealed(found, state.info.id))


def _shown(state: TableState | None) -> dict[str, Any] | None:
    """What a conflict tells of the state of a table."""
    if state is None:
        return None
    return {"name": state.info.name, "key": list(state.info.key), "rows": state.pin.rows, "state": state.pin.version}
