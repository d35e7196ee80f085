"""`quire serve` as a process: it starts, says where, refuses what is unsafe, and ends without losing a commit."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import Serve
from tests.server.web import Web, uuid7

import quire
from quire.errors import InvalidInput
from quire.server.config import Config, LakeConfig, Limits, checked, read


class Process:
    """A server in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self.started = subprocess.Popen(
            [sys.executable, "-m", "quire", "serve", *arguments, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.started.stdout is not None
        lines = ""
        while (line := self.started.stdout.readline()) and line != "}\n":
            lines += line
        assert lines, "it did not start"
        self.web = Web(json.loads(lines + "}")["url"])

    def end(self, sign: int = signal.SIGTERM) -> int:
        self.started.send_signal(sign)
        return self.started.wait(60)


@pytest.fixture
def started(lake: quire.Lake) -> Iterator[Process]:
    process = Process(f"demo={lake.uri}", "--port", "0")
    yield process
    process.started.kill()
    process.started.wait()


def test_it_answers_and_ends(started: Process) -> None:
    assert started.web.get("/v1/lakes").json["lakes"][0]["name"] == "demo"
    assert started.end() in (0, -signal.SIGTERM)


def test_it_finishes_what_is_under_way_when_it_is_told_to_end(started: Process, lake: quire.Lake) -> None:
    acknowledged: list[str] = []

    def write(n: int) -> None:
        for k in range(200):
            try:
                started.web.commit({"op": "append", "table": "notes", "rows": [{"text": f"{n}.{k}"}]})
            except (OSError, AssertionError):
                return
            acknowledged.append(f"{n}.{k}")

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    waiting = threading.Thread(target=lambda: started.web.get("changes?wait=50", status=None))
    for thread in (*threads, waiting):
        thread.start()
    while len(acknowledged) < 20:
        time.sleep(0.01)
    began = time.monotonic()
    assert started.end() in (0, -signal.SIGTERM)
    assert time.monotonic() - began < 20, "a client that waits holds nothing up"
    for thread in (*threads, waiting):
        thread.join()
    lake.refresh()
    texts = [row["text"] for row in lake["notes"].to_pylist()]
    assert set(acknowledged) <= set(texts)
    assert len(texts) == len(set(texts))


def test_no_acknowledged_commit_is_lost_and_none_is_made_twice_when_it_is_killed(
    started: Process, lake: quire.Lake
) -> None:
    """Clients send again with their keys, to a new server, until they are answered."""
    web, acknowledged, lock = [started.web], set(), threading.Lock()

    def write(n: int) -> None:
        for k in range(12):
            key, text, until = uuid7(), f"{n}.{k}", time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    web[0].commit({"op": "append", "table": "notes", "rows": [{"text": text}]}, key=key)
                except (OSError, AssertionError):
                    time.sleep(0.05)
                    continue
                with lock:
                    acknowledged.add(text)
                break

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    second = None
    while len(acknowledged) < 15:
        time.sleep(0.005)
    os.kill(started.started.pid, signal.SIGKILL)
    second = Process(f"demo={lake.uri}", "--port", "0")
    web[0] = second.web
    for thread in threads:
        thread.join()
    second.end()
    lake.refresh()
    texts = sorted(row["text"] for row in lake["notes"].to_pylist() if row["text"] != "one")
    assert texts == sorted(f"{n}.{k}" for n in range(6) for k in range(12))
    assert lake.verify().ok


def test_two_servers_on_one_lake_lose_nothing(lake: quire.Lake, serve: Serve) -> None:
    with serve(demo=lake.uri) as one, serve(demo=lake.uri) as other:

        def write(web: Web, name: str) -> None:
            for k in range(10):
                web.commit({"op": "append", "table": "notes", "rows": [{"text": f"{name}{k}"}]}, key=uuid7())

        threads = [threading.Thread(target=write, args=(w, n)) for w, n in ((one, "a"), (other, "b"), (one, "c"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert one.get("tables/notes/count").json["count"] == other.get("tables/notes/count").json["count"] == 31
    assert lake.verify().ok


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_no_public_address_without_authentication(host: str) -> None:
    lakes = {"demo": LakeConfig("memory://x")}
    with pytest.raises(InvalidInput, match="no authentication"):
        checked(Config(lakes=lakes, host=host))
    assert checked(Config(lakes=lakes, host=host, open=True)).open


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_this_machine_is_served(host: str) -> None:
    assert checked(Config(lakes={"demo": LakeConfig("memory://x")}, host=host)).host == host


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(lakes={"../x": LakeConfig("memory://x")}),
        Config(lakes={"a": LakeConfig("memory://x")}, port=70_000),
        Config(lakes={"a": LakeConfig("memory://x")}, limits=Limits(threads=0)),
    ],
)
def test_a_server_that_cannot_run_says_why(config: Config) -> None:
    with pytest.raises(InvalidInput):
        checked(config)


def test_the_settings_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "quire.toml"
    file.write_text('port = 9000\n[lakes.demo]\nuri = "memory://x"\nread_only = true\n[limits]\nsql_seconds = 5.0\n')
    found = read(file)
    assert (found.port, found.lakes["demo"].read_only, found.limits.sql_seconds) == (9000, True, 5.0)
    for text, said in (("port = 'x'", "port"), ("what = 1", "what"), ("[", "not TOML")):
        file.write_text(text)
        with pytest.raises(InvalidInput, match=said):
            read(file)
    with pytest.raises(InvalidInput, match="no file"):
        read(tmp_path / "none.toml")


def test_a_port_that_is_taken(lake: quire.Lake, web: Web) -> None:
    port = urlsplit(web.url).port
    done = subprocess.run(
        [sys.executable, "-m", "quire", "serve", f"demo={lake.uri}", "--port", str(port)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "cannot listen" in done.stderr


def test_requests_are_logged_without_data(web: Web, lines: list[dict[str, object]]) -> None:
    web.get("tables/people/rows?filter=name%20%3D%20'secret-name'", x_request_id="mine-1")
    web.get("tables/secret-table", status=404)
    web.get("/secret-path", status=404)
    assert [line["status"] for line in lines if line["request"] == "mine-1"] == [200]
    text = json.dumps(lines) + web.get("/metrics").body.decode()
    assert "secret" not in text
    assert 'route="/v1/lakes/{lake}/tables/{table}/rows"' in text.replace('\\"', '"')


def raw(web: Web, sent: bytes, wait: float = 3.0) -> bytes:
    """What comes back for bytes."""
    where = urlsplit(web.url)
    with socket.create_connection((str(where.hostname), int(where.port or 0)), timeout=wait) as connection:
        connection.sendall(sent)
        found = b""
        try:
            while piece := connection.recv(65536):
                found += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return found


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/lakes/demo/sql HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"GET /v1/lakes/demo/tables HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=["two lengths", "length twice", "huge header", "garbage", "negative length"],
)
def test_requests_that_mean_two_things_are_refused(web: Web, sent: bytes) -> None:
    assert not raw(web, sent).startswith(b"HTTP/1.1 2")
    assert web.get("/healthz").status == 200


OFFER = b"Connection: keep-alive, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
"""What Java's own client sends with every request over a plain connection."""


@pytest.mark.parametrize("pieces", ["one", "two", "bytes"])
def test_a_client_that_offers_http_2_is_answered_by_http_1(web: Web, lake: quire.Lake, pieces: str) -> None:
    rows = json.dumps({"operations": [{"op": "append", "table": "notes", "rows": [{"text": "from Java"}]}]}).encode()
    head = b"POST /v1/lakes/demo/commits HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + OFFER
    head += f"Content-Length: {len(rows)}\r\n\r\n".encode()
    sent = {"one": [head + rows], "two": [head, rows], "bytes": [bytes([b]) for b in head + rows]}[pieces]
    where = urlsplit(web.url)
    with socket.create_connection((str(where.hostname), int(where.port or 0)), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(2):  # the connection is kept
            for piece in sent:
                connection.sendall(piece)
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200"), answer
    lake.refresh()
    assert [row["text"] for row in lake["notes"].to_pylist()] == ["one", "from Java", "from Java"]


def test_a_proxy_is_what_the_server_is_not(web: Web) -> None:
    assert raw(web, b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_body_that_does_not_arrive_holds_nobody_up(lake: quire.Lake, serve: Serve) -> None:
    with serve(Limits(idle_seconds=0.4, threads=4), demo=lake.uri) as web:
        sent = b"POST /v1/lakes/demo/commits HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{"
        found = raw(web, sent, 10)
        assert found.startswith(b"HTTP/1.1 408")
        assert web.get("tables").status == 200


def test_a_client_that_goes_away_leaves_nothing_behind(web: Web, lake: quire.Lake) -> None:
    head = lake.head
    where = urlsplit(web.url)
    with socket.create_connection((str(where.hostname), int(where.port or 0))) as connection:
        connection.sendall(b"POST /v1/lakes/demo/commits HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{")
        time.sleep(0.3)
    time.sleep(0.3)
    lake.refresh()
    assert lake.head == head
    assert "quire_http_writes_in_flight 0" in web.get("/metrics").body.decode()


def test_too_much_at_once_is_told_to_come_again(lake: quire.Lake, serve: Serve) -> None:
    with serve(Limits(writes_per_actor=1, requests_per_actor=2, idle_seconds=5), demo=lake.uri) as web:
        where = urlsplit(web.url)
        with socket.create_connection((str(where.hostname), int(where.port or 0))) as slow:
            slow.sendall(b"POST /v1/lakes/demo/commits HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{")
            time.sleep(0.3)
            reply = web.commit({"op": "append", "table": "notes", "rows": [{"text": "x"}]}, status=429)
            assert (reply.json["kind"], reply.json["retryable"], reply.headers["retry-after"]) == (
                "throttled",
                True,
                "1",
            )
            assert web.get("tables").status == 200
        time.sleep(0.3)
        web.commit({"op": "append", "table": "notes", "rows": [{"text": "x"}]})
    with serve(Limits(requests_per_second=2), demo=lake.uri) as web:
        statuses = [web.get("tables", status=None).status for _ in range(8)]
        assert statuses[0] == 200
        assert 429 in statuses


def test_a_stream_that_breaks_is_noticed(lake: quire.Lake, serve: Serve) -> None:
    """A query that fails in its middle, after rows were sent: no client takes what it has for the whole."""
    import http.client

    with serve(demo=lake.uri) as web:
        connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=30)
        asked = {
            "query": "select case when range < 8000000 then range else error('stop')::bigint end n from range(10000000)"
        }
        connection.request(
            "POST", "/v1/lakes/demo/sql", json.dumps(asked), {"accept": "application/vnd.apache.arrow.stream"}
        )
        answer = connection.getresponse()
        assert answer.status == 200
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        assert web.get("/healthz").status == 200
