"""Processes that are killed and started again, many times.

`quire.testing.processes` starts them within a fraction of a second.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Any


class Children:
    """Numbered processes, each of which can be killed and started again with the same arguments."""

    def __init__(self, context: Any, target: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> None:
        self._context, self._target, self._arguments = context, target, arguments
        self._running: dict[int, BaseProcess] = {}
        self.failed: list[str] = []
        """Processes that ended by themselves with an error."""

    def __len__(self) -> int:
        return len(self._arguments)

    def __enter__(self) -> Children:
        for number in range(len(self._arguments)):
            self.start(number)
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._running.values():
            process.kill()
            process.join()

    def start(self, number: int) -> None:
        self._running[number] = self._context.Process(
            target=self._target, args=(number, *self._arguments[number]), daemon=True
        )
        self._running[number].start()

    def kill(self, number: int) -> bool:
        """SIGKILL; False when it had ended before."""
        process = self._running[number]
        self.look(number)
        alive = process.is_alive()
        process.kill()
        process.join()
        return alive

    def look(self, number: int) -> bool:
        """Whether it was killed, by us or by itself; any other end with an error is noted."""
        code = self._running[number].exitcode
        if code not in (None, 0, -signal.SIGKILL):
            self.failed.append(f"process {number} ended with {code}")
        return code == -signal.SIGKILL

    def revive(self) -> int:
        """Start those again that have killed themselves; how many there were."""
        dead = [number for number in self._running if self.look(number)]
        for number in dead:
            self.start(number)
        return len(dead)

    def join(self, seconds: float) -> None:
        """Wait for all to end by themselves."""
        for number, process in self._running.items():
            process.join(seconds)
            if process.is_alive():
                self.failed.append(f"process {number} does not end")
            self.look(number)
