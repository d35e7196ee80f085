"""Finding the last existing slot of a log. Existence is monotone, so probing may gallop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

FANOUT = 32

Probe = Callable[[Sequence[int]], Sequence[bool]]


def last_existing(exists: Probe, believed: int, first: int = 0) -> int:
    """The largest n for which slot n exists, or -1. `believed` is where to look first; it may be wrong both ways.

    The log's first slot is `first`: a branch starts where its parent was. Costs one round of probes when `believed` is
    right, and O(log32(distance from what exists)) rounds otherwise, however large the lie.
    """
    believed = max(believed, first)
    ahead = [believed, *(believed + (1 << k) for k in range(40))]
    found = list(exists(ahead[:6]))
    if not found[0] and believed == first:
        return -1
    if not found[0]:
        # Gallop up from the start instead of searching down from the lie.
        ahead = [first + (1 << k) - 1 for k in range(40)]
        found = list(exists(ahead))
    elif all(found):
        found += exists(ahead[6:])
    below = next((i for i, there in enumerate(found) if not there), len(found))
    low = ahead[below - 1] if below else first - 1
    high = ahead[below] if below < len(found) else ahead[-1] + (1 << 40)
    last = _bisect(exists, low, high)
    return last if last >= first else -1


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
