"""A tiny S3 in memory that fails on command. It checks no signature."""

from __future__ import annotations

import threading
from collections import deque
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from quire.store import Store

SECRET = "THE-SECRET-KEY-0123456789"
KEY_ID = "THE-ACCESS-KEY-ID"
ECHO = f"<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId></Error>"


class FaultyS3:
    """`fail("PUT", "lost", 409, …)` says how the next requests of a method end; later ones succeed.

    A number is answered without doing anything; a number with a plus, as "+500", is answered after doing it. "lost"
    does it and drops the connection; "dropped" drops the connection at once.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.log: list[str] = []
        self.ignore_conditions = False
        self.lock = threading.Lock()
        self._faults: dict[str, deque[str | int]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def fail(self, method: str, *faults: str | int) -> None:
        self._faults.setdefault(method, deque()).extend(faults)

    def next_fault(self, method: str) -> str | int | None:
        with self.lock:
            self.log.append(method)
            waiting = self._faults.get(method)
            return waiting.popleft() if waiting else None

    @property
    def options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": KEY_ID,
            "aws_secret_access_key": SECRET,
            "aws_endpoint": f"http://127.0.0.1:{self._server.server_port}",
            "allow_http": "true",
        }

    @property
    def store(self) -> Store:
        return Store.open("s3://bucket/lake", self.options)

    def put(self, key: str, data: bytes) -> None:
        """As another writer would."""
        self.objects[f"/bucket/lake/{key}"] = data

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fault = server.next_fault(self.command)
                if fault == "dropped":
                    self.drop()
                elif isinstance(fault, int):
                    self.answer(fault, ECHO.encode())
                else:
                    status, payload = self.apply(body)
                    if fault == "lost":
                        self.drop()
                    elif fault is not None:
                        self.answer(int(fault.removeprefix("+")), ECHO.encode())
                    else:
                        self.answer(status, payload)

            do_GET = do_HEAD = do_PUT = do_DELETE = handle_request  # noqa: N815

            def apply(self, body: bytes) -> tuple[int, bytes]:
                with server.lock:
                    if self.command == "PUT":
                        conditional = self.headers.get("If-None-Match") == "*" and not server.ignore_conditions
                        if conditional and self.path in server.objects:
                            return 412, b""
                        server.objects[self.path] = body
                        return 200, b""
                    if self.command == "DELETE":
                        server.objects.pop(self.path, None)
                        return 204, b""
                    found = server.objects.get(self.path)
                    return (404, b"") if found is None else (200, found)

            def answer(self, status: int, payload: bytes) -> None:
                self.send_response(status)
                self.send_header("ETag", '"x"')
                self.send_header("Last-Modified", formatdate(usegmt=True))
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(payload)

            def drop(self) -> None:
                self.close_connection = True
                self.connection.close()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
