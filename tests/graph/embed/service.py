"""A small embedding service on this machine, which answers as it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from quire.graph.embed import HashEmbedder

Answer = tuple[int, Any, dict[str, str]]
"""Status, body (JSON unless it is bytes), headers."""


@dataclass
class Service:
    """What was asked, and what is answered: `script` first, one for each request, then vectors."""

    url: str = ""
    dimension: int = 4
    script: list[Answer | Callable[[Any], Answer]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    delay: float = 0.0
    drip: float = 0.0
    """Seconds between the bytes of an answer."""

    def answer(self, request: dict[str, Any]) -> Answer:
        if self.script:
            scripted = self.script.pop(0)
            return scripted(request) if callable(scripted) else scripted
        return 200, self.vectors(request["input"]), {}

    def vectors(self, texts: list[str]) -> Any:
        found = HashEmbedder(self.dimension).embed(texts)
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(found)]
        return {"object": "list", "data": data[::-1], "model": "m"}  # in another order, which the index tells


@contextmanager
def serving() -> Iterator[Service]:
    service, lock = Service(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                service.asked.append(request)
                service.headers.append({**dict(self.headers), "path": self.path})
                status, body, headers = service.answer(request)
            time.sleep(service.delay)
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            try:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(raw)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for start in range(0, len(raw), 8 if service.drip else len(raw) or 1):
                    self.wfile.write(raw[start : start + (8 if service.drip else len(raw))])
                    self.wfile.flush()
                    time.sleep(service.drip)
            except OSError:
                pass  # the client did not wait

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
