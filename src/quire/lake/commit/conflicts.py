"""Who may commit after whom: the conflict table, by what both did to one table.

The table decides by kind of operation. Where it says *rebase*, the format still looks at rows and keys before
anything is moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from quire.errors import Conflict, KeyConflict
from quire.formats import Overlap
from quire.formats.keys import show
from quire.ledger import Change

Verdict = Literal["rebase", "conflict"]
Kind = Literal["append", "insert", "upsert", "update", "exclusive", "upkeep", "neutral"]

KINDS: dict[str, Kind] = {
    "append": "append",
    "insert": "insert",
    "upsert": "upsert",
    "update": "update",
    "delete": "update",
    "overwrite": "exclusive",
    "schema": "exclusive",
    "drop": "exclusive",
    "create": "exclusive",
    "restore": "exclusive",
    "register": "exclusive",
    "rename": "neutral",
    "adopt": "neutral",
    "index": "upkeep",
    "compact": "upkeep",
}
"""What a rival's operation counts as.

A rename moves no row and a table's identity is not its name: others rebase over it.
"""


def verdict(mine: str, theirs: str) -> Verdict:
    """Whether one operation of mine may follow one of theirs on the same table.

    >>> verdict("append", "delete"), verdict("append", "overwrite"), verdict("rename", "append")
    ('rebase', 'conflict', 'conflict')
    """
    a: Kind = "exclusive" if mine == "rename" else KINDS[mine]
    b = KINDS[theirs]
    if a == "exclusive" or b == "exclusive":
        return "conflict"
    if a == "upkeep" and b == "upkeep":
        return "conflict"
    return "rebase"


@dataclass(frozen=True)
class Rival:
    """One commit that came between, as far as it touched one table."""

    commit: str
    author: str
    change: Change


def judge(table: str, mine: Iterable[str], rivals: Sequence[Rival]) -> None:
    """Raise `Conflict` when the table forbids that `mine` follows what the rivals did."""
    for rival in rivals:
        for op in mine:
            for theirs in rival.change.ops:
                if verdict(op, theirs) == "conflict":
                    raise Conflict(
                        f"Table {table!r}: {op} cannot follow {theirs}, which commit {rival.commit} ({rival.author}) "
                        "made first.",
                        next="Run the transaction again on a fresh snapshot; lake.transact does this by itself.",
                        table=table,
                        mine=op,
                        theirs=theirs,
                        commit=rival.commit,
                    )


def refuse(table: str, overlap: Overlap, rivals: Sequence[Rival], *, why: str = "") -> Conflict:
    """The error for an overlap that cannot be resolved by running again here."""
    who = ", ".join(f"{r.commit} ({r.author})" for r in rivals)
    if overlap.kind == "keys" and overlap.hard:
        return KeyConflict(
            f"Table {table!r}: a row with {show(overlap.items)} was inserted first, by commit {who}.",
            next="Use upsert to replace it, or insert(…, exists='ignore') to leave those rows out.",
            table=table,
            keys=list(overlap.items),
            commit=rivals[-1].commit,
        )
    if overlap.kind == "counts":
        what = "rows were changed first, so a statement of this transaction would return another count"
    else:
        row = f"the row with {show(overlap.items)}" if overlap.items else "a row that this transaction also changed"
        what = f"{row} was changed or moved first"
    return Conflict(
        f"Table {table!r}: {what}, by commit {who}.{' ' + why if why else ''}",
        next="Run the transaction again on a fresh snapshot; lake.transact does this by itself.",
        table=table,
        commit=rivals[-1].commit,
        keys=list(overlap.items),
    )
