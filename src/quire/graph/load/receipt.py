"""What a load reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from quire.graph.integrity.violations import Violation
from quire.lake.commit.validators import Proposal
from quire.lake.receipt import Receipt, TableReceipt, committed_as
from quire.prompt import OneLine

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction


SHOWN = 20
"""So many violations are kept with a receipt."""


def upserted_in(tx: Transaction, table: str) -> tuple[int, int] | None:
    """How many rows the upserts of a transaction added to a table, and how many they replaced, as it stands now."""
    proposal = Proposal(tx)
    change = proposal.change_of(proposal.names.get(table, ""))
    return None if change is None else change.upserted()


@dataclass(frozen=True, repr=False)
class Loaded(OneLine):
    """What was done to one type."""

    inserted: int = 0
    updated: int = 0
    removed: int = 0
    rejected: int = 0
    unembedded: int = 0
    """Rows whose text has no vector, because no embedder was configured."""

    def __str__(self) -> str:
        rejected = f", {self.rejected:,} rejected" if self.rejected else ""
        return f"+{self.inserted} ~{self.updated} -{self.removed}{rejected}"

    def _facts(self) -> str:
        return str(self)

    @staticmethod
    def of(mode: str, table: TableReceipt, rejected: int = 0) -> Loaded:
        """What a commit of such a load did to one type, from what the log has of it."""
        replaced = table.removed if mode == "merge" else 0
        return Loaded(table.added - replaced, replaced, table.removed - replaced, rejected)

    @property
    def written(self) -> int:
        """Rows that are there now by this load."""
        return self.inserted + self.updated

    def to_dict(self) -> dict[str, int]:
        """All of it as plain values."""
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "removed": self.removed,
            "rejected": self.rejected,
            "unembedded": self.unembedded,
        }


def load_facts(mode: str, rows: Mapping[str, object], receipt: Receipt | None, rejected: int, *, dry_run: bool) -> str:
    """What a load did, in a line."""
    left = [f"{rejected:,} rejected"] if rejected else []
    state = committed_as(receipt, dry_run=dry_run)
    return "; ".join([f"{mode}, {state}", *left, *(f"{name} {done}" for name, done in rows.items())])


@dataclass(frozen=True, repr=False)
class LoadReceipt(OneLine):
    """Rows by type. `receipt` is the proof of the commit; None while it is not committed, and after a dry run."""

    mode: str
    types: dict[str, Loaded] = field(default_factory=dict)
    rejected: int = 0
    dry_run: bool = False
    violations: tuple[Violation, ...] = ()
    """Why rows were left out: the first `SHOWN` of them."""
    violation_count: int = 0
    """How many violations there were."""
    receipt: Receipt | None = None

    def _facts(self) -> str:
        return load_facts(self.mode, self.types, self.receipt, self.rejected, dry_run=self.dry_run)

    @property
    def repeated(self) -> bool:
        """Whether the token had been committed before: this tells what was done then, as far as the log has it.

        It has the rows by type and how many were left out, but not why, nor how many lack a vector.
        """
        return self.receipt is not None and self.receipt.repeated

    @staticmethod
    def again(mode: str, first: Receipt, *, dry_run: bool = False) -> LoadReceipt:
        """What a load reports whose token was committed before, from the receipt of the first time."""
        types = {name: Loaded(rejected=rows) for name, rows in first.left_out.items() if name}
        for table, done in first.tables.items():
            kind, _, name = table.partition(":")
            if kind in ("node", "edge"):
                types[name] = Loaded.of(mode, done, first.left_out.get(name, 0))
        return LoadReceipt(mode, types, sum(first.left_out.values()), dry_run, receipt=first)

    def committed(self, tx: Transaction) -> LoadReceipt:
        """The same after the commit, as it came to be: a row that others inserted first was updated instead."""
        first = tx.repeated()
        if first is not None:
            return LoadReceipt.again(self.mode, first)
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
        """All of it as plain values."""
        return {
            "mode": self.mode,
            "commit": self.receipt.commit if self.receipt else None,
            "types": {name: loaded.to_dict() for name, loaded in self.types.items()},
            "rows": self.rows,
            "rejected": self.rejected,
            "dry_run": self.dry_run,
            "violations": [violation.to_dict() for violation in self.violations],
            "violation_count": self.violation_count,
            "repeated": self.repeated,
        }
