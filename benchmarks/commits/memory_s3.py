"""A small S3 server in memory that counts and delays by itself: for throughput, where a real server would be measured.

One process, one thread, raw asyncio protocols: a small request takes it some 40 µs, a tenth of what a real server and a
proxy take together. It speaks what the compared clients say: GET with ranges, HEAD, PUT with `If-None-Match` and
`If-Match`, DELETE, LIST version 2, copies, deletes of many, uploads in parts, `aws-chunked` bodies. Conditions are
atomic, because one thread does one request at a time. Signatures are not checked, and nothing is kept.
"""

from __future__ import annotations

import asyncio
import bisect
import hashlib
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Self, cast
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape, unescape

from benchmarks.commits.passed import Passed

Answer = tuple[int, bytes, bytes]
"""Status, headers beyond the length, body."""

REASONS = {200: b"OK", 204: b"No Content", 206: b"Partial Content", 304: b"Not Modified", 404: b"Not Found"}
NEEDED = re.compile(
    rb"\r\n(content-length|transfer-encoding|if-none-match|if-match|range|expect|x-amz-copy-source"
    rb"|x-amz-decoded-content-length|content-encoding):[ \t]*([^\r]*)",
    re.IGNORECASE,
)
EMPTY: dict[bytes, bytes] = {}


@dataclass(frozen=True, slots=True)
class Stored:
    body: bytes
    etag: bytes
    at: float

    def has(self, etag: bytes) -> bool:
        """Whether this is its tag; some clients leave the quotes out."""
        return etag.strip(b'"') == self.etag.strip(b'"')

    @staticmethod
    def of(body: bytes) -> Stored:
        return Stored(body, b'"' + hashlib.md5(body, usedforsecurity=False).hexdigest().encode() + b'"', time.time())


@dataclass
class Objects:
    """What is stored, and what each kind of request does to it."""

    stored: dict[str, Stored] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    uploads: dict[str, dict[int, Stored]] = field(default_factory=dict)

    def clear(self) -> None:
        self.stored.clear()
        self.order.clear()
        self.uploads.clear()

    def do(self, method: bytes, target: str, headers: dict[bytes, bytes], body: bytes) -> Answer:
        path, _, text = target.partition("?")
        name = unquote(path) if "%" in path else path
        query = {key: values[0] for key, values in parse_qs(text, keep_blank_values=True).items()} if text else {}
        _, _, key = name.lstrip("/").partition("/")
        if method in (b"GET", b"HEAD"):
            return self._get(name, headers) if key else self._list(name.rstrip("/") + "/", query)
        if method == b"PUT":
            return self._put(name, query, headers, body) if key else (200, b"", b"")
        if method == b"DELETE":
            return self._delete([name])
        if method == b"POST" and "delete" in query:
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            self._delete([name.rstrip("/") + "/" + unescape(one) for one in keys])
            done = "".join(f"<Deleted><Key>{one}</Key></Deleted>" for one in keys)
            return 200, b"", _xml("DeleteResult", done)
        if method == b"POST":
            return self._upload(name, query, headers, body)
        return _error(501, "NotImplemented")

    def _get(self, name: str, headers: dict[bytes, bytes]) -> Answer:
        found = self.stored.get(name)
        if found is None:
            return _error(404, "NoSuchKey")
        if b"if-match" in headers and not found.has(headers[b"if-match"]):
            return _error(412, "PreconditionFailed")
        if b"if-none-match" in headers and found.has(headers[b"if-none-match"]):
            return 304, b"", b""
        about = b"ETag: %b\r\nLast-Modified: %b\r\nAccept-Ranges: bytes\r\n" % (
            found.etag,
            formatdate(found.at, usegmt=True).encode(),
        )
        asked, size = headers.get(b"range"), len(found.body)
        if asked is None:
            return 200, about, found.body
        first, _, last = asked.removeprefix(b"bytes=").partition(b"-")
        begin = int(first) if first else max(0, size - int(last))
        end = min(int(last), size - 1) if first and last else size - 1
        if begin > end:
            return _error(416, "InvalidRange")
        return 206, about + b"Content-Range: bytes %d-%d/%d\r\n" % (begin, end, size), found.body[begin : end + 1]

    def _put(self, name: str, query: dict[str, str], headers: dict[bytes, bytes], body: bytes) -> Answer:
        source = headers.get(b"x-amz-copy-source")
        if source is not None:
            copied = self.stored.get("/" + unquote(source.decode()).lstrip("/"))
            if copied is None:
                return _error(404, "NoSuchKey")
            body = copied.body
        new = Stored.of(body)
        if "uploadId" in query:
            if query["uploadId"] not in self.uploads:
                return _error(404, "NoSuchUpload")
            self.uploads[query["uploadId"]][int(query["partNumber"])] = new
        elif (refusal := self._keep(name, new, headers)) is not None:
            return refusal
        if source is not None:
            return 200, b"", _xml("CopyObjectResult", f"<ETag>{escape(new.etag.decode())}</ETag>")
        return 200, b"ETag: %b\r\n" % new.etag, b""

    def _keep(self, name: str, new: Stored, headers: dict[bytes, bytes]) -> Answer | None:
        """The one place where an object comes to be, if its conditions hold."""
        old = self.stored.get(name)
        if b"if-none-match" in headers and old is not None:
            return _error(412, "PreconditionFailed")
        if b"if-match" in headers and (old is None or not old.has(headers[b"if-match"])):
            return _error(404 if old is None else 412, "NoSuchKey" if old is None else "PreconditionFailed")
        if old is None:
            bisect.insort(self.order, name)
        self.stored[name] = new
        return None

    def _delete(self, names: list[str]) -> Answer:
        for name in names:
            if self.stored.pop(name, None) is not None:
                del self.order[bisect.bisect_left(self.order, name)]
        return 204, b"", b""

    def _upload(self, name: str, query: dict[str, str], headers: dict[bytes, bytes], body: bytes) -> Answer:
        """An upload in parts begins, or is made an object."""
        bucket, _, key = name.lstrip("/").partition("/")
        if "uploads" in query:
            made = f"upload-{len(self.uploads) + 1}"
            self.uploads[made] = {}
            about = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{made}</UploadId>"
            return 200, b"", _xml("InitiateMultipartUploadResult", about)
        parts = self.uploads.get(query.get("uploadId", ""))
        if parts is None:
            return _error(404, "NoSuchUpload")
        numbers = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        if any(number not in parts for number in numbers):
            return _error(400, "InvalidPart")
        new = Stored.of(b"".join(parts[number].body for number in numbers))
        if (refusal := self._keep(name, new, headers)) is not None:
            return refusal
        about = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><ETag>{escape(new.etag.decode())}</ETag>"
        return 200, b"", _xml("CompleteMultipartUploadResult", about)

    def _list(self, bucket: str, query: dict[str, str]) -> Answer:
        if "list-type" not in query:
            return 200, b"", _xml("LocationConstraint", "us-east-1")
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = int(query.get("max-keys", 1000))
        begin = bisect.bisect_left(self.order, bucket + prefix)
        if after:
            begin = max(begin, bisect.bisect_right(self.order, bucket + after))
        entries: list[str] = []
        last, more, at = "", False, begin
        while at < len(self.order) and self.order[at].startswith(bucket + prefix):
            key = self.order[at].removeprefix(bucket)
            if len(entries) == most:
                more = True
                break
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                folder = key[: cut + len(delimiter)]
                if after < folder or not after.startswith(folder):
                    entries.append(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>")
                last = folder + "\U0010ffff"
                at = bisect.bisect_right(self.order, bucket + last)
                continue
            entries.append(_entry(key, self.stored[self.order[at]]))
            last, at = key, at + 1
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
        about = f"<Name>{bucket.strip('/')}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(entries)}</KeyCount>"
        about += f"<MaxKeys>{most}</MaxKeys><IsTruncated>{'true' if more else 'false'}</IsTruncated>{token}"
        return 200, b"", _xml("ListBucketResult", about + "".join(entries))


def _entry(key: str, found: Stored) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(found.at)) + f".{int(found.at % 1 * 1000):03d}Z"
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{at}</LastModified><ETag>{escape(found.etag.decode())}</ETag>"
        f"<Size>{len(found.body)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _xml(name: str, inner: str) -> bytes:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}'
    return f"{text}</{name}>".encode()


def _error(status: int, code: str) -> Answer:
    return status, b"", f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code></Error>'.encode()


class Connection(asyncio.Protocol):
    """One client: a request is read whole, waits for as long as is told, is done, and is answered."""

    def __init__(self, objects: Objects, passed: Passed, latency: Callable[[], float]) -> None:
        self._objects, self._passed, self._latency = objects, passed, latency
        self._came = bytearray()
        self._needs = 0
        """How many bytes make the request whole, once its head is there."""
        self._head: tuple[bytes, str, dict[bytes, bytes], int] | None = None
        self._began = 0.0
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        if not self._came and not self._busy:
            self._began = time.perf_counter()
        self._came += data
        if not self._busy and (self._head is not None or self._read_head()) and len(self._came) >= self._needs:
            self._take()

    def _read_head(self) -> bool:
        end = self._came.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, _, lines = bytes(self._came[:end]).partition(b"\r\n")
        method, target, _ = first.split(b" ", 2)
        headers = {name.lower(): value for name, value in NEEDED.findall(b"\r\n" + lines)}
        if b"chunked" in headers.get(b"transfer-encoding", b""):
            self._out.abort()  # no client here sends a body of unknown length
            raise ValueError("a request without a length")
        begin = end + 4
        self._needs = begin + int(headers.get(b"content-length", b"0"))
        self._head = (method, target.decode("latin-1"), headers, begin)
        if b"expect" in headers:
            self._out.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _take(self) -> None:
        assert self._head is not None
        method, target, headers, begin = self._head
        body = bytes(self._came[begin : self._needs])
        del self._came[: self._needs]
        self._head = None
        if b"x-amz-decoded-content-length" in headers:
            body = plain(body)
        self._busy = True
        wait = self._latency()
        number = self._passed.began(self._began, method, b"if-none-match" in headers, len(body))
        if wait:
            self._loop.call_later(wait, self._answer, number, method, target, headers, body)
        else:
            self._answer(number, method, target, headers, body)

    def _answer(self, number: int, method: bytes, target: str, headers: dict[bytes, bytes], body: bytes) -> None:
        status, about, answer = self._objects.do(method, target, headers, body)
        length = b"" if status in (204, 304) else b"Content-Length: %d\r\n" % len(answer)
        head = b"HTTP/1.1 %d %b\r\n%b%b\r\n" % (status, REASONS.get(status, b"Error"), about, length)
        sent = b"" if method == b"HEAD" or status in (204, 304) else answer
        # Stamped before the bytes leave: a request that waits for this answer begins later on this clock.
        self._passed.ended(number, time.perf_counter(), len(sent))
        self._busy = False
        if self._out.is_closing():
            return  # the client has gone; what it asked for is done
        self._out.write(head + sent)
        if self._came:
            self._began = time.perf_counter()
            self.data_received(b"")


def plain(body: bytes) -> bytes:
    """What an `aws-chunked` body says: pieces with their sizes, and trailers."""
    found: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].partition(b";")[0], 16)
        if not size:
            return b"".join(found)
        found.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


class MemoryS3:
    """The server as a thread of this process, on a port of loopback that was free."""

    def __init__(self) -> None:
        self.latency = 0.0
        """Seconds that every request waits before it is done."""
        self.passed = Passed()
        self.objects = Objects()
        self.endpoint = ""
        self._loop = fast_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="memory-s3", daemon=True)

    def __enter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._loop.run_until_complete(
            self._loop.create_server(
                lambda: Connection(self.objects, self.passed, lambda: self.latency), sock=listening, backlog=1024
            )
        )
        self._thread.start()
        return self

    def empty(self) -> None:
        """Forget every object and everything that passed. No request may be under way."""
        self.objects.clear()
        self.passed.clear()

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def fast_loop() -> asyncio.AbstractEventLoop:
    """An event loop of uvloop, where it is installed: it halves what a request takes."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
