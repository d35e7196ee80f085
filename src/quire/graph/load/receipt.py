"""What a load reports."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from quire.graph.integrity.violations import Violation
from quire.lake.receipt import Receipt

if TYPE_CHECKING:
    from quire.lake.transaction import Transaction


def upserted_in(tx: Transaction, table: str) -> tuple[int, int] | None:
    """How many rows the upserts of a transaction added to a table, and how many they replaced, as it stands now."""
    for edit in tx.edits.values():
        if edit.info.name == table and edit.work is not None:
            return edit.work.upserted()
    return None


@dataclass(frozen=True)
class Loaded:
    """What was done to one type."""

    inserted: int = 0
    updated: int = 0
    removed: int = 0
    rejected: int = 0
    unembedded: int = 0
    """Rows whose text has no vector, because no embedder was configured."""

    @property
    def written(self) -> int:
        """Rows that are there now by this load."""
        return self.inserted + self.updated

    def to_dict(self) -> dict[str, int]:
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "removed": self.removed,
            "rejected": self.rejected,
            "unembedded": self.unembedded,
        }


@dataclass(frozen=True)
class LoadReceipt:
    """Rows by type. `receipt` is the proof of the commit; None while it is not committed, and after a dry run."""

    mode: str
    types: dict[str, Loaded] = field(default_factory=dict)
    rejected: int = 0
    dry_run: bool = False
    violations: tuple[Violation, ...] = ()
    """Why rows were left out: the first of them."""
    receipt: Receipt | None = None

    def committed(self, tx: Transaction) -> LoadReceipt:
        """The same after the commit, as it came to be: a row that others inserted first was updated instead."""
        types = dict(self.types)
        for name, one in types.items() if self.mode == "merge" else ():
            found = upserted_in(tx, f"node:{name}") or upserted_in(tx, f"edge:{name}")
            if found is not None:
                types[name] = replace(one, inserted=found[0], updated=found[1])
        return replace(self, types=types, receipt=tx.receipt)

    @property
    def inserted(self) -> dict[str, int]:
        """Rows that are new, by type; types without any are left out, as in the receipt of a mutation."""
        return {name: one.inserted for name, one in self.types.items() if one.inserted}

    @property
    def updated(self) -> dict[str, int]:
        """Rows that were there before, by type."""
        return {name: one.updated for name, one in self.types.items() if one.updated}

    @property
    def rows(self) -> int:
        """How many rows were written."""
        return sum(t.written for t in self.types.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "commit": self.receipt.commit if self.receipt else None,
            "types": {name: loaded.to_dict() for name, loaded in self.types.items()},
            "rows": self.rows,
            "rejected": self.rejected,
            "dry_run": self.dry_run,
            "violations": [violation.to_dict() for violation in self.violations],
        }
