"""Over HTTP: answers that are lost, servers and clients that are killed. Rows exactly once, and no file gone."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import lance_namespace as spec
import pytest
from tests.budget import budget
from tests.namespace.conftest import docs, ids, opened, sound
from tests.namespace.serving import served
from tests.namespace.test_faults import AFTER, BEFORE, OPERATIONS
from tests.namespace.test_side_by_side import _say, upkeep, writer

import quire
from quire.server.config import Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running
from quire.testing import processes
from quire.testing.crash import crash

ROUNDS = budget(4, full=20)


@contextlib.contextmanager
def lossy(url: str) -> Iterator[tuple[str, list[int]]]:
    """A proxy before a server that loses the answers to new versions: as many as the list it gives says."""
    lose = [0]
    host = url.removeprefix("http://")

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            there = http.client.HTTPConnection(host, timeout=60)
            there.request(self.command, self.path, body, {"content-type": "application/json"})
            answer = there.getresponse()
            data = answer.read()
            there.close()
            if lose[0] and "version/create" in self.path:
                lose[0] -= 1
                self.close_connection = True
                return
            self.send_response(answer.status)
            self.send_header("content-length", str(len(data)))
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}", lose
    finally:
        proxy.shutdown()
        proxy.server_close()


def rest(url: str, view: str = "") -> Any:
    return spec.connect("rest", {"uri": f"{url}/lance/demo{view}"})


@pytest.mark.parametrize("what", OPERATIONS)
def test_a_lost_answer_is_found_out_by_the_client(lake: quire.Lake, what: str) -> None:
    write, expected = OPERATIONS[what]
    with served(lake) as web, lossy(web.url) as (url, lose):
        dataset = opened(rest(url))
        lose[0] = 1
        write(dataset)
        assert lose == [0]
        assert dataset.version == 2
    assert lake.refresh() == "2.0"
    assert ids(lake) == expected
    sound(lake)


def test_a_lost_answer_in_a_transaction(lake: quire.Lake) -> None:
    with served(lake) as web, lossy(web.url) as (url, lose):
        id = web("POST", "/lance/demo/txn", {}, status=201).json["id"]
        dataset = opened(rest(url, f"/txn/{id}"))
        lose[0] = 1
        dataset.insert(docs(10))
        dataset.insert(docs(11))
        web("POST", f"transactions/{id}/commit", {})
    assert lake.refresh() == "2.0"
    assert ids(lake) == [0, 1, 2, 3, 10, 11]
    sound(lake)


def serve(uri: str, where: str, port: int = 0) -> None:
    """A server in a process of its own, until it is killed; it says where it is."""
    config = Config(lakes={"demo": LakeConfig(uri)}, port=port)
    with running(config, RequestLog(lambda _: None)) as server:
        Path(f"{where}.new").write_text(server.url)
        os.replace(f"{where}.new", where)
        while True:
            time.sleep(60)


def until(there: Callable[[], bool]) -> None:
    for _ in range(2400):
        if there():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen in two minutes")


def address(where: Path) -> str:
    until(where.exists)
    return where.read_text()


ESSENTIAL = {("append", "before the slot"), ("append", "not yet in the line")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "where"),
    [
        pytest.param(what, where, marks=() if (what, where) in ESSENTIAL else pytest.mark.full)
        for what in OPERATIONS
        for where in (*BEFORE, *AFTER)
    ],
)
def test_the_server_is_killed_while_it_publishes(tmp_path: Path, where: str, what: str) -> None:
    uri, told = str(tmp_path / "lake"), tmp_path / "address"
    with quire.create(uri) as lake:
        lake.create_table("docs", [{"id": n, "text": f"text {n}"} for n in range(4)])
        lake.backfill()
    failed: list[Exception] = []

    def client() -> None:
        try:
            OPERATIONS[what][0](opened(rest(address(told))))
        except Exception as error:
            failed.append(error)

    writing = threading.Thread(target=client)
    writing.start()
    crash({**BEFORE, **AFTER}[where], serve, uri, str(told))
    writing.join(120)
    assert failed, "the client was not told that it does not know"

    with quire.open(uri) as lake:
        lake.recover()
        done = where in AFTER
        assert lake.head == ("2.0" if done else "1.0")
        expected = OPERATIONS[what][1] if done else [0, 1, 2, 3]
        assert ids(lake) == expected
        sound(lake)
        with served(lake) as web:
            opened(rest(web.url)).delete("id = 1")
        assert ids(lake) == [n for n in expected if n != 1]
        sound(lake)


def client(url: str, number: int, told: str) -> None:
    """Appends and deletes its own rows, and writes down what it was told has happened."""
    began, done = time.monotonic(), 0
    for round_ in range(1000):
        first = 10_000 * number + 10 * round_
        try:
            dataset = opened(rest(url))
            dataset.insert(docs(first, first + 1))
            _say(told, f"+{first} +{first + 1} ?{first}")  # from here on it may go, also without an answer
            dataset.delete(f"id = {first}")
            _say(told, f"-{first}")
            done += 1
        except Exception:
            time.sleep(0.3)
        if done == ROUNDS or time.monotonic() - began > 150:
            break


@pytest.mark.full
def test_every_acknowledged_row_is_there_once(tmp_path: Path) -> None:
    """Three client processes, a writer of Quire, a collector and a compactor; a client and the server are killed."""
    uri, where = str(tmp_path / "lake"), tmp_path / "address"
    with quire.create(uri) as lake:
        lake.create_table("docs", docs(0))
    context = processes.context()
    server = context.Process(target=serve, args=(uri, str(where)), daemon=True)
    server.start()
    url = address(where)
    paths = [str(tmp_path / f"told-{n}") for n in range(1, 5)]
    clients = [context.Process(target=client, args=(url, n, paths[n - 1])) for n in (1, 2, 3)]
    others = [context.Process(target=writer, args=(uri, 4, paths[3])), context.Process(target=upkeep, args=(uri,))]
    for process in (*clients, *others):
        process.start()
    until(lambda: all(Path(path).exists() for path in paths[:3]))
    os.kill(int(clients[0].pid or 0), signal.SIGKILL)
    time.sleep(1)
    os.kill(int(server.pid or 0), signal.SIGKILL)
    server.join(30)
    again = context.Process(target=serve, args=(uri, str(where), int(url.rpartition(":")[2])), daemon=True)
    again.start()
    for process in (*clients, *others):
        process.join(300)
    assert [process.exitcode for process in (*clients[1:], *others)] == [0, 0, 0, 0]
    again.kill()
    again.join(30)
    with quire.open(uri) as lake:
        lake.recover()
        found = ids(lake)
        assert len(found) == len(set(found))
        for path in paths[1:]:
            words = Path(path).read_text().split() if Path(path).exists() else []
            assert words
            came, tried, went = ({int(word[1:]) for word in words if word[0] == sign} for sign in "+?-")
            assert came - tried - set(found) == set(), "acknowledged rows are gone"
            assert went & set(found) == set(), "deleted rows came back"
        sound(lake)
