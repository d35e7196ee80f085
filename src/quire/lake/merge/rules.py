"""Rules on the merged state: what validators find there becomes conflicts, and is put right as it is decided.

Rows of either side may keep all rules, and break one together: an edge that one side added to a node that the other
removed, the same value in two rows where it has to be unique.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from quire.errors import InvalidInput
from quire.filters import Condition, In, every
from quire.lake.commit import validators
from quire.lake.commit.rebase import guarded
from quire.lake.commit.validators import Breach
from quire.lake.merge.conflicts import MergeConflict, Op, sealed
from quire.lake.merge.strategies import Decision
from quire.ledger import State

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction

Orphans = Literal["fail", "drop-edges", "keep-node"]
AT_ONCE = 10_000
"""So many broken rules are looked at together."""
ROUNDS = 20
"""How often what is put right by rule is looked at again."""


@dataclass
class Sides:
    """The two states that are merged, to look rows up in."""

    core: Any
    ours: State
    theirs: State

    def row(self, side: str, table: str, key: Mapping[str, Any]) -> Any:
        """A row of one side, as a table of one row or none; None where the table is not there."""
        state = (self.ours if side == "ours" else self.theirs).by_name(table)
        if state is None:
            return None
        view = self.core.format(state.pin.format).open(state.pin, table)
        return view.scan(filter=_is(key)).read_all()

    def shown(self, side: str, table: str, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """The same for people."""
        from quire.conversion import held

        found = self.row(side, table, key)
        return held.rows(found)[0] if found is not None and found.num_rows else None


def ready(tx: Transaction) -> None:
    """Let statements and validators see the tables as the edits of a merge leave them."""
    names = tx.at.names()
    for table, edit in tx.edits.items():
        names = {name: holder for name, holder in names.items() if holder != table}
        if not edit.dropped:
            names[edit.info.name] = table
        if edit.pin is not None and edit.base is not None and edit.work is None:
            # Statements go on from the version that is there, whatever number the other branch has for it.
            edit.pin = msgspec.structs.replace(edit.pin, counter=edit.base.pin.counter)
    tx._names = names
    tx.begun = tx.at.head  # what rows of others break here is no news to this program


def is_guarded(tx: Transaction) -> bool:
    """Whether somebody judges the tables that are changed."""
    return any(validators.merging(name) is not None for name in guarded(tx))


def broken(tx: Transaction, most: int = AT_ONCE) -> list[Breach]:
    """Rows that break a rule in what a transaction would leave."""
    found: list[Breach] = []
    for name, tables in guarded(tx).items():
        judge = validators.merging(name)
        if judge is not None:
            found += judge.breaches(tx, tables, most)
    return found


def conflicts(found: Iterable[Breach], sides: Sides, ids: Mapping[str, str]) -> list[MergeConflict]:
    """What is broken as conflicts."""
    made = []
    for one in found:
        key = one.key or {}
        ours, theirs = (sides.shown(side, one.table, key) if key else None for side in ("ours", "theirs"))
        conflict = MergeConflict(
            table=one.table,
            kind=one.rule,
            key=one.key,
            columns=one.columns,
            base=None,
            ours=ours,
            theirs=theirs,
            ours_op=_op(ours),
            theirs_op=_op(theirs),
            rule=one.message,
            partners=one.partners,
        )
        made.append(sealed(conflict, ids.get(one.table, one.table)))
    return list({c.fingerprint: c for c in made}.values())


def _op(row: Any) -> Op:
    return "none" if row is None else "update"


def put_right(tx: Transaction, conflict: MergeConflict, decision: Decision, sides: Sides) -> None:
    """Make the row of a broken rule what is decided about it."""
    if conflict.key is None:
        raise InvalidInput(
            f"What is wrong with table {conflict.table!r} is not about one row: {conflict.rule}",
            next="Correct it on one of the branches.",
            table=conflict.table,
        )
    table = tx[conflict.table]
    if isinstance(decision, Mapping):
        table.upsert([{**conflict.key, **decision}])
        return
    row = None if decision == "delete" else sides.row(str(decision), conflict.table, conflict.key)
    if row is not None and row.num_rows:
        table.upsert(row)
    else:
        table.delete(_is(conflict.key))


def keep_or_drop(tx: Transaction, found: Iterable[Breach], orphans: Orphans, sides: Sides) -> int:
    """Put edges right that lost a node: remove them, or bring the node back. How many rows that are."""
    done = 0
    some = [one for one in found if one.rule == "orphan" and one.key is not None and one.partners]
    if orphans == "drop-edges":
        by_table: dict[str, list[Any]] = {}
        for one in some:
            assert one.key is not None
            by_table.setdefault(one.table, []).append(one.key["id"])
        for table, ids in by_table.items():
            done += tx[table].delete(In("id", tuple(dict.fromkeys(ids))))
    elif orphans == "keep-node":
        for table, id in dict.fromkeys(one.partners[0] for one in some):
            rows = [sides.row(side, table, {"id": id}) for side in ("ours", "theirs")]
            row = next((r for r in rows if r is not None and r.num_rows), None)
            if row is not None:
                tx[table].upsert(row)
                done += 1
    return done


def _is(key: Mapping[str, Any]) -> Condition:
    return every([In(name, (value,)) for name, value in key.items()])
