"""Running a server: uvicorn around the application, signals, and the way down.

SIGTERM: `/readyz` says 503, waiting clients are let go, commits that are under way end, background work is flushed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput, Unsupported
from quire.server.config import Config
from quire.server.request_log import RequestLog

if TYPE_CHECKING:
    from quire.server.lakes import OpenLakes

FILES = 1024
"""Files that a server opens beside its connections."""


def need() -> None:
    """Say what to install when the server's own libraries are not there."""
    try:
        import anyio  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise Unsupported(
            "The server needs packages that are not installed.", next="pip install 'quire[server]'.", package="uvicorn"
        ) from None


def run(config: Config, *, started: Callable[[str], None] | None = None, log: RequestLog | None = None) -> None:
    """Serve until a signal ends it. `started` is told the address, once clients are answered.

    The address of a private server has the one-time word that lets one browser in.
    """
    need()
    with _bound(config) as listening:
        server = _Uvicorn(config, listening, log)
        if started is not None:
            server.when_started(lambda: started(server.link))
        server.run()


@dataclass
class Running:
    """A server that runs in a thread of this process."""

    url: str
    stop: Callable[[], None]
    lakes: OpenLakes
    """The handles that it serves."""


@contextlib.contextmanager
def running(config: Config, log: RequestLog | None = None, *, check_answers: bool = False) -> Iterator[Running]:
    """A server in a thread of this process, for tests and notebooks. It ends with the block."""
    need()
    with _bound(config) as listening:
        server = _Uvicorn(config, listening, log, check_answers=check_answers)
        ready = threading.Event()
        server.when_started(ready.set)
        here = contextvars.copy_context()  # whose clock and guard hold there too
        thread = threading.Thread(target=here.run, args=(server.run,), name="quire-server", daemon=True)
        thread.start()
        try:
            while not ready.wait(0.05):
                if not thread.is_alive():
                    raise InvalidInput("The server did not start.", next="Its log says why.")
            yield Running(server.link, server.stop, server.state.lakes)
        finally:
            server.stop()
            thread.join(config.limits.shutdown_seconds + 10)


def _open_files(connections: int) -> None:
    """Let the process open as many files as its connections take, as far as the system lets it."""
    try:
        import resource
    except ImportError:  # Windows has no such bound
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == -1 else min(wanted, hard), hard))


class _Uvicorn:
    """Uvicorn, told what Quire needs of it."""

    def __init__(
        self, config: Config, listening: socket.socket, log: RequestLog | None = None, *, check_answers: bool = False
    ) -> None:
        import uvicorn

        from quire.server.app import App
        from quire.server.http_protocol import bounded
        from quire.server.state import Server

        for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # requests are logged here, without addresses
        self.state = Server(config, log)
        self._listening = listening
        host, port = listening.getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        settings: dict[str, Any] = {
            "log_config": None,
            "access_log": False,
            "lifespan": "on",
            "proxy_headers": False,
            "server_header": False,
            "ws": "none",
            "timeout_graceful_shutdown": int(config.limits.shutdown_seconds) + 1,
            "http": bounded(config.limits.connections),
        }
        word = self.state.sessions.word
        self.link = f"{self.url}/ui/enter?word={word}" if word else self.url
        self._uvicorn = uvicorn.Server(uvicorn.Config(App(self.state, check_answers=check_answers), **settings))
        self._started: Callable[[], None] | None = None

    def when_started(self, call: Callable[[], None]) -> None:
        self._started = call

    def stop(self) -> None:
        """End: from any thread."""
        self._uvicorn.should_exit = True

    def run(self) -> None:
        """Serve until it is stopped, or a signal comes."""
        _open_files(self.state.config.limits.connections)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        watching = asyncio.ensure_future(self._watch())
        try:
            await self._uvicorn.serve([self._listening])
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        """Tell when it has started, and let waiting clients go as soon as it is to end."""
        while not self._uvicorn.started:
            await asyncio.sleep(0.01)
        if self._started is not None:
            self._started()
        while not self._uvicorn.should_exit:
            await asyncio.sleep(0.05)
        self.state.stop()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@contextlib.contextmanager
def _bound(config: Config) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((config.host.strip("[]"), config.port))
        except OSError as error:
            raise InvalidInput(
                f"The server cannot listen on {config.host}:{config.port}: {error.strerror}.",
                next="Choose another --host or --port.",
            ) from None
        listening.listen(2048)
        yield listening
    finally:
        listening.close()
