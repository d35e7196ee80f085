"""What the clients write through, in a process of its own, so that it shares no interpreter with whom it measures.

Either the counting proxy in front of a real server, or the server in memory that counts by itself.

    with Wire(server.endpoint) as wire:         # Wire(None): the server in memory
        wire.latency = 0.005
        began = time.perf_counter()
        …
        wire.tally(began, time.perf_counter())  # what began meanwhile: requests, hops, bytes
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import asdict
from types import TracebackType
from typing import Any, Protocol, Self

from benchmarks.commits.memory_s3 import MemoryS3, fast_loop
from benchmarks.commits.passed import LOST, Passed, Tally

from quire.testing.proxy import Proxy

IN_MEMORY = "memory"


class Wire:
    """A proxy in front of `upstream`, or a server in memory, that is told by messages what to do."""

    def __init__(self, upstream: str | None) -> None:
        self._upstream = upstream or IN_MEMORY
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

    def tally(self, since: float, until: float) -> Tally:
        """What began between two times of `time.perf_counter()`, when all of it has ended."""
        return Tally(**self._ask("tally", since, until))

    def count(self, since: float, until: float) -> int:
        """How many requests began between two times."""
        return int(self._ask("count", since, until))

    def settle(self) -> None:
        """Wait until no request is under way."""
        self._ask("settle")

    def cpu(self) -> float:
        """Seconds of CPU that this process took so far."""
        return float(self._ask("cpu"))

    def empty(self) -> None:
        """Let the server in memory forget every object, and what passed; no request may be under way."""
        self._ask("empty")

    def _ask(self, *message: Any) -> Any:
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("The wire is not running.")
        print(json.dumps(message), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("The wire ended.")
        return json.loads(line)


# -- in the other process -------------------------------------------------------------------------------------------


class _Carrier(Protocol):
    """What passes requests on: the latency to be added, and what passed."""

    latency: float

    def passed(self) -> Passed: ...
    def settle(self) -> object: ...
    def empty(self) -> None: ...


class _Memory:
    def __init__(self, server: MemoryS3) -> None:
        self._server = server

    @property
    def latency(self) -> float:
        return self._server.latency

    @latency.setter
    def latency(self, seconds: float) -> None:
        self._server.latency = seconds

    def passed(self) -> Passed:
        return self._server.passed

    def settle(self) -> None:
        while any(end == LOST for end in self._server.passed.ends[-1_000:]):
            time.sleep(0.001)

    def empty(self) -> None:
        self._server.empty()


class _Proxied:
    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._read = 0
        self._passed = Passed()

    @property
    def latency(self) -> float:
        return self._proxy.latency

    @latency.setter
    def latency(self, seconds: float) -> None:
        self._proxy.latency = seconds

    def passed(self) -> Passed:
        """Only what has ended is kept: what is still under way is looked at again the next time."""
        found, requests = self._passed, self._proxy.since(self._read)
        kept = next((n for n, request in enumerate(requests) if request.ended is None), len(requests))
        for request in requests[:kept]:
            _add(found, request)
        self._read += kept
        if kept == len(requests):
            return found
        whole = deepcopy(found)
        for request in requests[kept:]:
            _add(whole, request)
        return whole

    def settle(self) -> object:
        return self._proxy.settle()

    def empty(self) -> None:
        raise RuntimeError("A real server keeps what it has.")


def _add(passed: Passed, request: Any) -> None:
    number = passed.began(request.started, request.kind.encode(), False, request.bytes_out)
    passed.ended(number, LOST if request.ended is None else request.ended, request.bytes_in)


def _obey(carrier: _Carrier, order: str, *args: Any) -> Any:
    if order == "latency":
        carrier.latency = args[0]
    elif order == "settle":
        carrier.settle()
    elif order == "empty":
        carrier.empty()
    elif order == "cpu":
        return time.process_time()
    elif order == "count":
        return carrier.passed().count(*args)
    elif order == "tally":
        return asdict(carrier.passed().tally(*args))
    return None


def _serve(upstream: str) -> None:
    served: MemoryS3 | Proxy = MemoryS3() if upstream == IN_MEMORY else Proxy(upstream, loop=fast_loop)
    with served:
        carrier: _Carrier = _Memory(served) if isinstance(served, MemoryS3) else _Proxied(served)
        print(json.dumps(served.endpoint), flush=True)
        for line in sys.stdin:
            print(json.dumps(_obey(carrier, *json.loads(line))), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
