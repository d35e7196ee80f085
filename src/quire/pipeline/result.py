"""What a run of a pipeline reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from quire.graph.integrity.violations import Violation
from quire.graph.load.receipt import Loaded as Counted
from quire.graph.load.receipt import load_facts
from quire.lake import Receipt
from quire.pipeline.mapping import Feed, Pipeline
from quire.prompt import OneLine


@dataclass(repr=False)
class Fed(OneLine):
    """What was done to one table or type."""

    inserted: int = 0
    updated: int = 0
    removed: int = 0
    rejected: int = 0
    files: int = 0

    def __str__(self) -> str:
        rejected = f", {self.rejected:,} rejected" if self.rejected else ""
        return f"+{self.inserted} ~{self.updated} -{self.removed}{rejected}"

    def _facts(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class Loaded(OneLine):
    """Rows by table and type, and the proof of the commit."""

    mode: str
    tables: dict[str, Fed] = field(default_factory=dict)
    """By table and by type of the graph; as `node:Person` where a table is called so too."""
    rejected: int = 0
    dry_run: bool = False
    violations: tuple[Violation, ...] = ()
    """Why rows were left out: the first `SHOWN` of them."""
    violation_count: int = 0
    """How many violations there were."""
    receipt: Receipt | None = None

    def _facts(self) -> str:
        return load_facts(self.mode, self.tables, self.receipt, self.rejected, dry_run=self.dry_run)

    @property
    def repeated(self) -> bool:
        """Whether the token had been committed before: this tells what was done then, as far as the log has it.

        It has the rows by table and type and how many were left out, but neither why, nor how many files there were.
        """
        return self.receipt is not None and self.receipt.repeated

    @property
    def rows(self) -> int:
        """How many rows are there by this load."""
        return sum(fed.inserted + fed.updated for fed in self.tables.values())

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "mode": self.mode,
            "commit": self.receipt.commit if self.receipt else None,
            "tables": {name: asdict(fed) for name, fed in self.tables.items()},
            "rows": self.rows,
            "rejected": self.rejected,
            "dry_run": self.dry_run,
            "violations": [v.to_dict() for v in self.violations],
            "violation_count": self.violation_count,
            "repeated": self.repeated,
        }


def again(plan: Pipeline, first: Receipt, *, dry_run: bool = False) -> Loaded:
    """What a run reports whose token was committed before, from the receipt of the first time."""
    found = {name: Fed(rejected=rows) for name, rows in first.left_out.items()}
    for table, done in first.tables.items():
        fed = next((feed for feed in plan.sources if feed.stored_as == table), None)
        name = table if fed is None else told_name(plan, fed)
        one = Counted.of((fed.mode if fed is not None else None) or plan.mode, done)
        found[name] = Fed(one.inserted, one.updated, one.removed, first.left_out.get(name, 0))
    return Loaded(plan.mode, found, sum(first.left_out.values()), dry_run, receipt=first)


def told_name(plan: Pipeline, feed: Feed) -> str:
    """A table or type as it is told to people: a type with its kind where something else that is fed has its name."""
    if feed.table is not None:
        return feed.table
    others = {(one.table, one.node, one.edge) for one in plan.sources if one.target == feed.target}
    return feed.target if len(others) < 2 else feed.stored_as
