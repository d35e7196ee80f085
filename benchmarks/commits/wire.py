"""The counting proxy in a process of its own, so that it does not share an interpreter with the client it measures.

with Wire(server.endpoint) as wire:
    wire.latency = 0.005
    start = wire.mark()
    …
    wire.tally(start)           # what passed since: requests, hops, bytes
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from quire.testing.proxy import Proxy, longest_chain


@dataclass(frozen=True)
class Tally:
    """What passed between two marks."""

    requests: int
    hops: int
    bytes_in: int
    bytes_out: int
    kinds: dict[str, int]


class Wire:
    """A proxy in front of `upstream` that is told by messages what to do. It ends with this process."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._latency = 0.0
        self._process: subprocess.Popen[str] | None = None
        self.endpoint = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.commits.wire", self._upstream]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self._read()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.communicate()

    @property
    def latency(self) -> float:
        """Seconds that every request is held up."""
        return self._latency

    @latency.setter
    def latency(self, seconds: float) -> None:
        self._latency = seconds
        self._ask("latency", seconds)

    def mark(self) -> int:
        """A place in the sequence of requests."""
        return int(self._ask("mark"))

    def tally(self, since: int, until: int | None = None) -> Tally:
        """What came after one mark, and before another."""
        return Tally(**self._ask("tally", since, until))

    def total(self, since: int) -> int:
        """How many requests came after a mark."""
        return self.mark() - since

    def settle(self) -> None:
        """Wait until no request is under way."""
        self._ask("settle")

    def _ask(self, *message: Any) -> Any:
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("The proxy is not running.")
        print(json.dumps(message), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("The proxy ended.")
        return json.loads(line)


def _obey(proxy: Proxy, order: str, *args: Any) -> Any:
    if order == "latency":
        proxy.latency = args[0]
    elif order == "mark":
        return proxy.mark()
    elif order == "settle":
        return proxy.settle()
    elif order == "tally":
        since, until = args
        passed = proxy.since(since)[: None if until is None else until - since]
        return {
            "requests": len(passed),
            "hops": longest_chain(passed),
            "bytes_in": sum(r.bytes_in for r in passed),
            "bytes_out": sum(r.bytes_out for r in passed),
            "kinds": Counter(r.kind for r in passed),
        }
    return None


def _serve(upstream: str) -> None:
    with Proxy(upstream) as proxy:
        print(json.dumps(proxy.endpoint), flush=True)
        for line in sys.stdin:
            print(json.dumps(_obey(proxy, *json.loads(line))), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
