"""Running a program and committing what it did; after a retryable conflict running it again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from quire.arguments import bounded
from quire.errors import Conflict, DeadlineExceeded
from quire.lake.commit import tokens
from quire.lake.commit.used_inputs import UsedInputs
from quire.store import clock

if TYPE_CHECKING:
    from quire.lake.commit.transaction import Transaction
    from quire.lake.lake import Lake

T = TypeVar("T")


def transact(
    lake: Lake,
    fn: Callable[[Transaction], T],
    message: str,
    *,
    retries: int,
    timeout: float | None,
    asked: dict[str, Any],
) -> T | None:
    """See `Lake.transact`."""
    bounded("retries", retries, 0)
    bounded("timeout", timeout, 0, math.inf)
    deadline = None if timeout is None else clock.monotonic() + timeout
    inputs = UsedInputs()
    for attempt in range(retries + 1):
        left = None if deadline is None else max(0.0, deadline - clock.monotonic())
        tx = lake.transaction(message, timeout=left, **asked)
        tx._inputs = inputs
        inputs.begin()
        if tokens.used(tx.at, tx.stream, tx.token, lake._live.history.pages) is not False:
            return None
        try:
            with tx:
                result = fn(tx)
            return None if tx.status == "committed" and tx.receipt.repeated else result
        except Conflict as conflict:
            if not conflict.retryable or attempt == retries:
                raise
        if deadline is not None and clock.monotonic() > deadline:
            raise DeadlineExceeded(
                "The deadline passed between two attempts. Nothing was committed.",
                next="Allow more time with timeout=.",
            )
        clock.sleep(clock.uniform(0, min(0.01 * 2**attempt, 1.0)))
        lake._live.refresh()
    raise AssertionError("unreachable")
