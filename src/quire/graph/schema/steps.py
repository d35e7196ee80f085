"""The steps of a schema change, and what prevents one, as sentences and as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quire.errors import SchemaRefused


@dataclass(frozen=True)
class Step:
    """One thing that a schema change does. `action` is stable and safe to branch on; the sentence is not."""

    action: str
    type: str
    """The node or edge type, or interface; empty for the schema as a whole."""
    sentence: str
    property: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """The step as `quire schema plan --json` prints it."""
        plain: dict[str, Any] = {"action": self.action, "type": self.type, "sentence": self.sentence}
        if self.property:
            plain["property"] = self.property
        return {**plain, **self.details}


@dataclass(frozen=True)
class Refusal:
    """Why a step is not done, and what to do about it. `code` is stable."""

    code: str
    type: str
    sentence: str
    next: str
    property: str = ""
    rows: int = 0
    """How many rows prevent it; 0 when no row does."""
    examples: tuple[str, ...] = ()
    """Ids of up to five of them."""

    def __str__(self) -> str:
        return f"{self.sentence} {self.next}"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        plain: dict[str, Any] = {"code": self.code, "type": self.type, "sentence": self.sentence, "next": self.next}
        if self.property:
            plain["property"] = self.property
        if self.rows:
            plain |= {"rows": self.rows, "examples": list(self.examples)}
        return plain


def refused(refusals: list[Refusal]) -> SchemaRefused:
    """The error for a plan that cannot be applied. It lists every refusal."""
    first = refusals[0]
    more = f" ({len(refusals) - 1} more in `refusals`.)" if len(refusals) > 1 else ""
    return SchemaRefused(
        f"The schema was not applied: {first.sentence}",
        next=f"{first.next}{more}",
        code=first.code,
        type=first.type,
        property=first.property,
        refusals=[r.to_dict() for r in refusals],
    )
