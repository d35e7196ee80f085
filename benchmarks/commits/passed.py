"""What passed over a wire, request by request, to be asked by time.

Times are `time.perf_counter()`, which all processes of a machine share: a client says when it began and when it was
acknowledged, and the wire says what began in between.
"""

from __future__ import annotations

import bisect
from collections import Counter
from dataclasses import dataclass, field

LOST = float("inf")


@dataclass(frozen=True)
class Tally:
    """What began between two times."""

    requests: int
    hops: int
    bytes_in: int
    bytes_out: int
    kinds: dict[str, int]


@dataclass
class Passed:
    """Columns of one row per request, in the order of their beginning."""

    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    bytes_in: list[int] = field(default_factory=list)
    bytes_out: list[int] = field(default_factory=list)

    def began(self, at: float, method: bytes, conditional: bool, size: int) -> int:
        """A request came; its number. No request is older than the one before it."""
        self.starts.append(max(at, self.starts[-1]) if self.starts else at)
        self.ends.append(LOST)
        self.kinds.append("create" if conditional and method == b"PUT" else method.decode())
        self.bytes_in.append(0)
        self.bytes_out.append(size)
        return len(self.starts) - 1

    def ended(self, number: int, at: float, size: int) -> None:
        """It was answered."""
        self.ends[number] = at
        self.bytes_in[number] = size

    def clear(self) -> None:
        """Forget all of it."""
        for column in (self.starts, self.ends, self.kinds, self.bytes_in, self.bytes_out):
            column.clear()

    def count(self, since: float, until: float) -> int:
        """How many requests began in this time."""
        return bisect.bisect_right(self.starts, until) - bisect.bisect_left(self.starts, since)

    def tally(self, since: float, until: float) -> Tally:
        """What began in this time."""
        own = slice(bisect.bisect_left(self.starts, since), bisect.bisect_right(self.starts, until))
        return Tally(
            requests=own.stop - own.start,
            hops=longest_chain(self.starts[own], self.ends[own]),
            bytes_in=sum(self.bytes_in[own]),
            bytes_out=sum(self.bytes_out[own]),
            kinds=dict(Counter(self.kinds[own])),
        )


def longest_chain(starts: list[float], ends: list[float]) -> int:
    """The longest chain of requests of which each began after the one before had ended: the sequential hops."""
    items = sorted((end, start) for start, end in zip(starts, ends, strict=True) if end != LOST)
    times = [end for end, _ in items]
    best = [0]
    for position, (_, start) in enumerate(items):
        before = bisect.bisect_right(times, start, hi=position)
        best.append(max(best[-1], best[before] + 1))
    return best[-1]
