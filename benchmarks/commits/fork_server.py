"""Processes that write, forked from one that has imported the libraries and used none of them.

Sixty-four interpreters that start from nothing need a minute of CPU and share no memory. Each environment (other
versions of libraries, an older Quire) has a server of its own, since a process can load only one of each.

    with ForkServer(HERE) as server:
        seat = server.start()
        seat.call("open", "quire-log", place)          # see `seat.Seat`
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
LIBRARIES = ("pyarrow.compute", "pyarrow.dataset", "benchmarks.commits.seat")
READY = b"r"
ENDED = "A process ended instead of answering."


@dataclass(frozen=True)
class Environment:
    """What a process can import: folders that come before all others, and what is imported beforehand."""

    name: str
    preload: tuple[str, ...] = ()
    path: tuple[str, ...] = ()


class ForkServer:
    """Starts processes of one environment. They end with it, and with this process."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._seats: list[Remote] = []

    def __enter__(self) -> Self:
        self._control, theirs = socket.socketpair()
        command = [sys.executable, "-m", __name__, str(theirs.fileno()), *LIBRARIES, *self._environment.preload]
        path = os.pathsep.join([*self._environment.path, str(ROOT)])
        # Lance warns of every lost race.
        environment = {"LANCE_LOG": "error", "RUST_LOG": "error", **os.environ, "PYTHONPATH": path}
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
            )
        if self._control.recv(1) != READY:
            raise RuntimeError(f"The environment {self._environment.name!r} does not start.")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._control.close()
        self._process.wait()
        for seat in self._seats:
            seat.kill()

    def start(self) -> Remote:
        """A new process."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"f"], [theirs.fileno()])
            pid = int.from_bytes(self._control.recv(4), "big")
        seat = Remote(pid, Connection(ours.detach()))
        self._seats.append(seat)
        return seat


class Remote:
    """A process that was started: calls go to the methods of its `Seat`."""

    def __init__(self, pid: int, pipe: Connection) -> None:
        self.pid, self.pipe = pid, pipe

    def call(self, method: str, *args: Any, timeout: float = 600.0) -> Any:
        """Call a method and wait for what it returns; what it raises is a `RuntimeError` here."""
        self.send(method, *args)
        return gather([self], timeout)[0]

    def send(self, method: str, *args: Any) -> None:
        """Call a method and go on; `gather` waits for what it returns."""
        try:
            self.pipe.send((method, args))
        except ConnectionError:
            raise RuntimeError(ENDED) from None

    def kill(self) -> None:
        """End the process with whatever is under way, and return when it has ended."""
        if self.pipe.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(EOFError, OSError):
            while True:
                self.pipe.recv_bytes()  # its end of the pipe closes with it
        self.pipe.close()


def gather(seats: Sequence[Remote], seconds: float) -> list[Any]:
    """What each of these processes answers, in their order."""
    found: dict[Any, Any] = {}
    pipes = [seat.pipe for seat in seats]
    while len(found) < len(pipes):
        ready = wait([pipe for pipe in pipes if pipe not in found], seconds)
        if not ready:
            raise TimeoutError(f"{len(pipes) - len(found)} of {len(pipes)} processes did not answer in {seconds:.0f} s")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            try:
                done, value = pipe.recv()
            except (EOFError, ConnectionError):
                raise RuntimeError(ENDED) from None
            if not done:
                raise RuntimeError(value)
            found[pipe] = value
    return [found[pipe] for pipe in pipes]


def _serve(control: socket.socket, preload: Sequence[str]) -> None:
    # Lance warns of every fork. It may not be used in both; here it is only imported in the process that forks.
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    for name in preload:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    control.send(READY)
    while True:
        told, fds, _, _ = socket.recv_fds(control, 1, 1)
        if not told:
            return
        pid = os.fork()
        if not pid:
            _become(control, fds[0])
        os.close(fds[0])
        control.send(pid.to_bytes(4, "big"))


def _become(control: socket.socket, fd: int) -> None:
    """The new process, from its first step to its end."""
    from benchmarks.commits.seat import Seat

    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        seat, pipe = Seat(), Connection(fd)
        while True:
            method, args = pipe.recv()
            try:
                answer = (True, getattr(seat, method)(*args))
            except Exception as error:
                answer = (False, f"{type(error).__name__}: {error}")
            pipe.send(answer)
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)  # with whatever is under way


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
