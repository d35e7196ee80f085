"""What a list of times says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """The value that 99 in 100 do not exceed: of fewer than a hundred, the largest."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def in_ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
