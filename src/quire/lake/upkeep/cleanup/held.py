"""What named consumers of changes hold: everything after where they stand, for as long as they come back in time.

A consumer writes itself down and reads the floor afterwards, and a collector publishes its floors and lists consumers
afterwards, like any protector. Those that are known before the floors are published lower them. What another one holds
below a floor stays as it is, slot by slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from quire.lake.context import Core
from quire.ledger import Line, Point
from quire.ledger.consumers import StoredConsumers


@dataclass(frozen=True)
class Stretch:
    """A part of a log that is held, up to a slot or to its head."""

    line: Line
    first: int
    last: int | None


def held(core: Core, now: datetime) -> list[Stretch]:
    """Every part of a log that a consumer holds. A consumer that cannot be read is an error."""
    found: list[Stretch] = []
    for consumer in StoredConsumers(core.store).every():
        if consumer.holds(now):
            found += stretches(consumer.what.line, consumer.what.at)
    return found


def stretches(line: Line, at: Point) -> Iterator[Stretch]:
    """The parts of the logs of a line from one of its commits on."""
    low = at.slot
    for number, segment in enumerate(line.inherited):
        if segment.slot >= low:
            yield Stretch(Line(branch=segment.branch, inherited=line.inherited[:number]), low, segment.slot)
            low = segment.slot + 1
    yield Stretch(line, max(low, line.start), None)


def lowered(floors: Mapping[str, int], known: Mapping[str, int], held: list[Stretch]) -> dict[str, int]:
    """Floors that leave what is held, if they are not `known` to be higher already."""
    found = dict(floors)
    for stretch in held:
        branch = stretch.line.branch
        if branch in found:
            found[branch] = max(known.get(branch, 0), min(found[branch], stretch.first))
    return found
