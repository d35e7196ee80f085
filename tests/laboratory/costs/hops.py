"""Hops three ways: by the slope of wall time over latency, by the longest chain on the wire, and by the meter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.laboratory.costs.laboratory import Bill, Laboratory, Measured, Verb
from tests.laboratory.costs.lakes import SMALLEST, Condition

from quire.lake.receipt import Receipt

LEAST = 0.02
LATENCIES = (0.12, 0.12, 0.24, 0.48, 0.96, 0.96, 0.96)
"""Each is compared with the least. The larger it is, the less it matters that a machine is busy."""
TOLERANCE = 0.3


@dataclass
class Hops:
    """What the three say of one verb. The quickest run at each latency counts: a busy machine only ever adds."""

    verb: Verb
    walls: dict[float, float] = field(default_factory=dict)
    chains: dict[float, int] = field(default_factory=dict)
    meter: int = 0
    counted: int = 0
    """Requests by the meter."""
    receipt: int | None = None
    bill: Bill = field(default_factory=lambda: Bill({}, {}, 0))
    """Of the last run, with the hops of the longest chain."""

    def take(self, latency: float, run: Measured) -> None:
        self.walls[latency] = min(run.seconds, self.walls.get(latency, run.seconds))
        self.chains[latency] = min(run.bill.hops, self.chains.get(latency, run.bill.hops))
        self.meter, self.counted = run.meter.hops, run.meter.total + sum(run.meter.external.values())
        self.bill = replace(run.bill, hops=self.chain)
        if isinstance(run.result, Receipt):
            self.receipt = int(run.result.cost["hops"])

    @property
    def slope(self) -> float:
        """Seconds per second of latency."""
        return slope(list(self.walls.items()))

    @property
    def chain(self) -> int:
        """The longest chain, at the largest latency: there what is side by side overlaps for sure."""
        return self.chains[max(self.chains)]

    @property
    def agree(self) -> bool:
        metered = abs(self.slope - self.meter) <= TOLERANCE or not self.verb.metered
        return abs(self.slope - self.chain) <= TOLERANCE and metered

    def __str__(self) -> str:
        told = f"{self.verb.name}: slope {self.slope:.2f}, wire {self.chain}, meter {self.meter}"
        return told if self.receipt is None else f"{told}, receipt {self.receipt}"


def three_ways(laboratory: Laboratory, verb: Verb, condition: Condition = SMALLEST) -> Hops:
    """Measure a verb at two latencies, and at larger ones while the three do not agree, but not for ever."""
    hops = Hops(verb)
    for latency in LATENCIES:
        for each in (LEAST, latency):
            hops.take(each, laboratory.measure(verb, condition, latency=each))
        if hops.agree:
            break
    return hops


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The least-squares slope of a line through these points."""
    count = len(points)
    x0, y0 = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    return sum((x - x0) * (y - y0) for x, y in points) / sum((x - x0) ** 2 for x, _ in points)
