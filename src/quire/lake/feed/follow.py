"""Waiting for commits: this handle's own are seen at once, those of others with one request every so often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quire.lake.names import closed
from quire.store import clock

if TYPE_CHECKING:
    from quire.lake.branch.live import LiveBranch
    from quire.lake.context import Core
    from quire.ledger import State

GLANCE = 0.05
"""Seconds after which a reader that waits looks whether this very handle has committed."""


def wait_for_news(core: Core, live: LiveBranch, seen: State, poll: float, timeout: float | None) -> bool:
    """Wait until the branch is further than a state; False when time ran out.

    Whoever waits on one handle shares what it hears, so many readers ask the store no more often than one.
    """
    until = None if timeout is None else clock.monotonic() + timeout
    while live.state.slot <= seen.slot:
        now = clock.monotonic()
        if now >= live.heard + poll:
            core.check()
            if live.refresh().slot > seen.slot:
                return True
        if until is not None and now >= until:
            return False
        clock.sleep(min(GLANCE, poll))
    return True


def watch(core: Core, live: LiveBranch, poll: float, timeout: float | None) -> Iterator[str]:
    """The newest commit, each time that there is a newer one."""
    seen = live.refresh()
    while wait_for_news(core, live, seen, poll, timeout):
        now = live.state
        if now.closed:
            raise closed(live.name)
        if now.head != seen.head:
            yield now.head.commit
        seen = now
