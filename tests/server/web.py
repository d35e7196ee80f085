"""Asking a server over a real socket, without the client of the library."""

from __future__ import annotations

import io
import json
import os
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

ARROW = "application/vnd.apache.arrow.stream"


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def table(self) -> pa.Table:
        return pa.ipc.open_stream(self.body).read_all()


@dataclass(frozen=True)
class Web:
    """A server by its address."""

    url: str
    lake: str = "demo"
    token: str | None = None

    def __call__(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        body: bytes | None = None,
        status: int | None = 200,
        timeout: float = 60.0,
        **headers: str,
    ) -> Reply:
        """Ask below the lake, or with a leading slash anywhere; `headers` have `_` for `-`."""
        url = self.url + (path if path.startswith("/") else f"/v1/lakes/{self.lake}/{path}")
        sent = body if value is None else json.dumps(value).encode()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        if self.token is not None:
            named.setdefault("authorization", f"Bearer {self.token}")
        request = urllib.request.Request(url, data=sent, headers=named, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                reply = Reply(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read())
        except urllib.error.HTTPError as error:
            reply = Reply(error.code, {k.lower(): v for k, v in error.headers.items()}, error.read())
        assert status is None or reply.status == status, reply
        return reply

    def get(self, path: str, **more: Any) -> Reply:
        return self("GET", path, **more)

    def commit(self, *operations: dict[str, Any], status: int = 200, key: str | None = None, **more: Any) -> Reply:
        """One transaction."""
        headers = {} if key is None else {"idempotency_key": key}
        return self("POST", "commits", {"operations": list(operations), **more}, status=status, **headers)


def uuid7(millis: int | None = None) -> str:
    """A UUID of version 7, of now or of a time."""
    when = int(time.time() * 1000) if millis is None else millis
    made = bytearray(when.to_bytes(6, "big") + os.urandom(10))
    made[6], made[8] = (made[6] & 0x0F) | 0x70, (made[8] & 0x3F) | 0x80
    return str(uuid.UUID(bytes=bytes(made)))


def arrow(table: pa.Table) -> bytes:
    """A table as a stream of Arrow."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)
    return sink.getvalue()


def multipart(*parts: tuple[str, bytes], boundary: str = "frontier") -> bytes:
    """A body of parts."""
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="'.encode()
    return (
        b"".join(head + name.encode() + b'"\r\n\r\n' + body + b"\r\n" for name, body in parts)
        + f"--{boundary}--\r\n".encode()
    )
