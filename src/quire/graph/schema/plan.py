"""What applying a schema would do, and what prevents it.

found = plan(catalog, text, snapshot=lake.snapshot())
for step in found.steps: print(step)
for refusal in found.refusals: print(refusal)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.graph.catalog import Catalog
from quire.graph.schema.broken_queries import broken, refusal_of, step_of
from quire.graph.schema.data_checks import refusals_of
from quire.graph.schema.describe import interface_steps, steps_of
from quire.graph.schema.diff import TypeChange, allowed, compare
from quire.graph.schema.parse import parse
from quire.graph.schema.resolve import Schema, resolve
from quire.graph.schema.steps import Refusal, Step
from quire.lake import display

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quire.lake.commit.transaction import Transaction
    from quire.lake.read.snapshot import Snapshot


@dataclass(frozen=True)
class Plan:
    """The steps from one catalog to another. Without steps there is nothing to commit."""

    old: Catalog
    schema: Schema
    changes: tuple[TypeChange, ...]
    """The types that change, those that are dropped first."""
    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...]
    """What prevents it: rules of the language, and rows if they were checked."""

    def __bool__(self) -> bool:
        return bool(self.steps)

    def __repr__(self) -> str:
        said = f"<Plan: {len(self.steps)} steps, {len(self.refusals)} refusals>"
        lines = [f"- {step}" for step in self.steps] + [f"refused: {refusal}" for refusal in self.refusals]
        return "\n".join([said, *map(display.clean, lines)])

    def _repr_html_(self) -> str:
        steps = display.html_table(("type", "property", "step"), [(s.type, s.property, s) for s in self.steps])
        refused = [(r.type, r.property, r.sentence, r.next) for r in self.refusals]
        against = display.html_table(("type", "property", "refused because", "what to do"), refused)
        return (steps if self.steps else "<i>nothing to do</i>") + (against if refused else "")

    def to_dict(self) -> dict[str, Any]:
        """The plan as `quire schema plan --json` prints it."""
        return {"steps": [s.to_dict() for s in self.steps], "refusals": [r.to_dict() for r in self.refusals]}


def plan(
    old: Catalog,
    text: str,
    *,
    file: str = "",
    drop_data: bool = False,
    break_queries: bool = False,
    snapshot: Snapshot | Transaction | None = None,
) -> Plan:
    """Compare a schema with a catalog.

    A text that is no schema is `InvalidSchema`; a change that is not done is a refusal in the plan, never an error.
    With a `snapshot`, or a transaction, of the graph its rows are looked at too, and refusals count them. Its stored
    queries are checked again: one that would no longer run is a refusal, or a step with `break_queries`.
    """
    schema = resolve(parse(text, file=file))
    changes, refusals = compare(old, schema)
    changes = [change for change in changes if change.changed]
    steps = list(interface_steps(old, schema.interfaces))
    for change in changes:
        steps += steps_of(change)
        forbidden = list(_forbidden(change))
        refusals += forbidden
        if snapshot is not None and not forbidden:
            refusals += refusals_of(change, old, snapshot, drop_data=drop_data)
    for name, error in broken(old, text, changes, snapshot) if snapshot is not None else ():
        if break_queries:
            steps.append(step_of(name, error))
        else:
            refusals.append(refusal_of(name, error))
    if old.text != text or not old:
        steps += _text_steps(old, schema, steps)
    return Plan(old, schema, tuple(changes), tuple(steps), tuple(refusals))


def _text_steps(old: Catalog, schema: Schema, others: list[Step]) -> Iterator[Step]:
    """The text is kept as it was written. Alone, that is a step of its own: comments are worth a commit."""
    if not others and (schema.text or old.text):
        yield Step("keep-text", "", "Keep the new text of the schema; no type changes.")


def _forbidden(change: TypeChange) -> Iterator[Refusal]:
    """Changes of a type that no row could make possible."""
    for old, new in change.kept():
        if not allowed(old, new):
            yield Refusal(
                "type-changed",
                change.name,
                f"{change.name}.{new.name} is {old.type.bare} and cannot become {new.type.bare}.",
                "Add a property with another name and fill it; numbers may only widen (I32 to I64, F32 to F64, …).",
                new.name,
            )
