"""Finding the last existing slot of a log. Existence is monotone, so probing may gallop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

FANOUT = 32

Probe = Callable[[Sequence[int]], Sequence[bool]]


def last_existing(exists: Probe, believed: int) -> int:
    """The largest n for which slot n exists, or -1. `believed` is where to look first; it may be wrong both ways.

    Costs one round of probes when `believed` is right, and O(log32(distance)) rounds otherwise.
    """
    believed = max(believed, 0)
    ahead = [believed, *(believed + (1 << k) for k in range(40))]
    found = list(exists(ahead[:6]))
    if not found[0]:
        return _bisect(exists, -1, believed)
    if all(found):
        found += exists(ahead[6:])
    below = next(i for i, there in enumerate(found) if not there)
    return _bisect(exists, ahead[below - 1], ahead[below])


def _bisect(exists: Probe, low: int, high: int) -> int:
    """Slot `low` exists (or is -1), slot `high` does not."""
    while high - low > 1:
        step = max(1, (high - low) // (FANOUT + 1))
        points = list(range(low + step, high, step))[: FANOUT + 1]
        there = exists(points)
        for point, found in zip(points, there, strict=True):
            if found:
                low = max(low, point)
            else:
                high = min(high, point)
                break
    return low
