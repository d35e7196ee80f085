"""What a server tells of schemas and loads of the graph, as the library's own classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quire.client.told import receipt_of
from quire.graph.integrity.violations import Violation
from quire.graph.load.receipt import Loaded, LoadReceipt
from quire.graph.schema.steps import Refusal, Step

_STEP = ("action", "type", "sentence", "property")


@dataclass(frozen=True)
class RemoteSchemaPlan:
    """What applying a schema would do, and what prevents it; see `Plan`."""

    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...]

    @staticmethod
    def of(told: dict[str, Any]) -> RemoteSchemaPlan:
        """A plan from what the server says."""
        refusals = [Refusal(**{**one, "examples": tuple(one.get("examples", ()))}) for one in told["refusals"]]
        return RemoteSchemaPlan(tuple(map(step_of, told["steps"])), tuple(refusals))

    def __bool__(self) -> bool:
        return bool(self.steps)

    def to_dict(self) -> dict[str, Any]:
        """The plan as `quire schema plan --json` prints it."""
        return {"steps": [s.to_dict() for s in self.steps], "refusals": [r.to_dict() for r in self.refusals]}


def step_of(told: dict[str, Any]) -> Step:
    """A step of a schema change."""
    known = {name: told[name] for name in _STEP if name in told}
    return Step(**known, details={name: value for name, value in told.items() if name not in _STEP})


def loaded(told: dict[str, Any]) -> LoadReceipt:
    """What a load did."""
    return LoadReceipt(
        told["mode"],
        {name: Loaded(**one) for name, one in told["types"].items()},
        told["rejected"],
        told["dry_run"],
        tuple(Violation(**one) for one in told["violations"]),
        told["violation_count"],
        None if told["receipt"] is None else receipt_of(told["receipt"]),
    )
