"""An engine of numbered tasks without a cluster: what crosses the seam is pickled, as it would be on its way."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field

from quire.errors import QuireError
from quire.lake.engines import Answer, rebuilt
from quire.progress import Progress


@dataclass
class PickledTasks:
    """Gives every task a copy of the work and brings a copy of its answer, in an order that is not that of numbers.

    With `repeats` every task runs twice and only its second answer counts, as when a session loses an executor.
    """

    repeats: bool = False
    jobs: list[int] = field(default_factory=list)
    """How many tasks each job had."""
    largest: int = 0
    """Bytes of the largest work or answer that crossed."""

    def run_tasks(self, count: int, work: Callable[[int], Answer], progress: Progress | None = None) -> list[Answer]:
        self.jobs.append(count)
        sent = self._crossing(pickle.dumps(work))
        answers: dict[int, Answer] = {}
        for done, number in enumerate(reversed(range(count)), start=1):
            for _ in range(2 if self.repeats else 1):
                answers[number] = self._answer(sent, number)
            if progress is not None:
                progress("tasks", done, count)
        return [answers[number] for number in range(count)]

    def _answer(self, sent: bytes, number: int) -> Answer:
        try:
            head, body = pickle.loads(sent)(number)
        except QuireError as error:
            raise rebuilt(json.loads(json.dumps(error.to_dict()))) from None
        return json.loads(self._crossing(json.dumps(head).encode())), self._crossing(bytes(body))

    def _crossing(self, data: bytes) -> bytes:
        self.largest = max(self.largest, len(data))
        return data
