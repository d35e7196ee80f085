"""Very many clients that open a connection and stay: they are refused by type, and everybody else is served."""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import Serve
from tests.server.test_serving import Process
from tests.server.web import Web

import quire
from quire.server.auth.keys import KeyFile
from quire.server.config import AuthConfig, Config, LakeConfig, Limits
from quire.server.request_log import RequestLog
from quire.server.serve import running

FOLLOW = b"GET /v1/lakes/demo/changes?since=now HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n%s\r\n"


@contextlib.contextmanager
def connected(web: Web, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """So many clients, each of which has sent something and waits."""
    where = urlsplit(web.url)
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            one = socket.create_connection((where.hostname, where.port), timeout=30)
            opened.append(one)
            if sent:
                with contextlib.suppress(OSError):  # it was refused at once
                    one.sendall(sent)
        yield opened
    finally:
        for one in opened:
            one.close()


def statuses(opened: list[socket.socket]) -> Counter[int]:
    """What each was answered."""
    found: Counter[int] = Counter()
    for one in opened:
        one.settimeout(30)
        try:
            said = one.recv(4096)
        except OSError:
            said = b""
        found[int(said.split(b" ")[1]) if said else 0] += 1
    return found


def until(condition: object, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)


def test_streams_beyond_the_bound_are_refused_before_they_begin(lake: quire.Lake, serve: Serve) -> None:
    with serve(limits=Limits(followers=5), demo=lake.uri) as web:
        with connected(web, 8, FOLLOW % b"") as opened:
            assert statuses(opened) == {200: 5, 429: 3}
            refused = web.get("changes?since=now&wait=5", status=429)
            assert (refused.json["kind"], refused.headers["retry-after"]) == ("throttled", "5")
            web.commit({"op": "append", "table": "notes", "rows": [{"text": "two"}]})
            assert all(b"commit" in one.recv(65536) for one in opened[:5])
        until(lambda: b"quire_http_followers 0" in web.get("/metrics").body)
        with connected(web, 5, FOLLOW % b"") as opened:
            assert statuses(opened) == {200: 5}


def test_one_actor_does_not_take_all_places(lake: quire.Lake, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    tokens = [keys.create(name, ["read"])[1] for name in ("ada", "bo")]
    limits = Limits(followers=10, followers_per_actor=3)
    auth = AuthConfig(keys=str(keys.path))
    config = Config(lakes={"demo": LakeConfig(lake.uri)}, port=0, auth=auth, limits=limits)
    headers = [f"authorization: Bearer {token}\r\n".encode() for token in tokens]
    with running(config, RequestLog(lambda line: None)) as server:
        web = Web(server.url)
        with connected(web, 5, FOLLOW % headers[0]) as ada, connected(web, 2, FOLLOW % headers[1]) as bo:
            assert statuses(ada) == {200: 3, 429: 2}
            assert statuses(bo) == {200: 2}


def test_connections_beyond_the_bound_are_answered_and_closed(lake: quire.Lake, serve: Serve) -> None:
    with serve(limits=Limits(connections=10), demo=lake.uri) as web:
        with connected(web, 10, b""):
            until(lambda: web.get("/healthz", status=None).status == 503)
            refused = web.get("/healthz", status=503)
            assert (refused.json["kind"], refused.headers["retry-after"]) == ("throttled", "5")
        until(lambda: web.get("/healthz", status=None).status == 200)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_ten_thousand_streams_leave_others_served_in_bounded_memory(lake: quire.Lake) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 12_000), hard))
    process = Process(f"demo={lake.uri}", "--port", "0")
    try:
        web = process.web
        web.get("tables")

        def megabytes() -> int:
            status = Path(f"/proc/{process.started.pid}/status").read_text()
            return int(status.split("VmRSS:")[1].split()[0]) >> 10

        before = megabytes()
        with connected(web, 5_000, FOLLOW % b"") as follows, connected(web, 5_000, b"GET /slow") as heads:
            found = statuses(follows)
            assert found[200] == 1024
            assert found[200] + found[429] + found[503] == 5_000
            begin = time.monotonic()
            web.get("tables/people/rows")
            web.commit({"op": "append", "table": "notes", "rows": [{"text": "two"}]})
            assert time.monotonic() - begin < 10
            assert megabytes() - before < 400
            assert len(heads) == 5_000
        until(lambda: len(list(Path(f"/proc/{process.started.pid}/fd").iterdir())) < 200, 60)
    finally:
        process.started.kill()
        process.started.wait()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
