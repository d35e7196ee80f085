"""Mistakes in merging that can be planted: histories with merges find them."""

from __future__ import annotations

from typing import Any

from quire.lake.merge.heads import Heads
from quire.testing.memory import carry_over
from quire.testing.simulation.planting import Patch, swap


def what_they_removed_stays() -> Patch:
    """Rows that the other side has removed are not removed."""
    difference: Any = carry_over.difference  # type: ignore[attr-defined]

    def grown(before: Any, after: Any) -> Any:
        net = difference(before, after)
        net.deleted.clear()
        return net

    return swap(carry_over, "difference", grown)


def merge_does_not_remember() -> Patch:
    """A merge commit does not know that it has the other branch."""
    return swap(Heads, "reaches", property(lambda self: ()))


BUGS = {made.__name__: made for made in (what_they_removed_stays, merge_does_not_remember)}
