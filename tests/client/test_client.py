"""What only a client behind a server has: addresses, tokens, answers that are lost or cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import quire
from quire.errors import (
    Denied,
    InvalidUri,
    LakeNotFound,
    ServerUnavailable,
    Unauthenticated,
    Unsupported,
)
from quire.server.auth.keys import KeyFile
from quire.server.config import AuthConfig, Config, LakeConfig
from quire.server.request_log import RequestLog
from quire.server.serve import running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    quire.create(tmp_path / "lake", backfill=False).create_table("t", [{"id": 1}])
    return tmp_path


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    config = Config(lakes={"demo": LakeConfig(str(folder / "lake"))}, port=0)
    with running(config, RequestLog(lambda line: None)) as server:
        yield server.url


class Proxy:
    """Between a client and a server: it may cut an answer, or lose it after the server has done its work."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._server = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.lose: Callable[[bytes], bool] = lambda request: False
        self.keep: int | None = None
        """Bytes of an answer that pass, of those that are cut."""
        self.lost = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            asked = bytearray()

            def up() -> None:
                while piece := client.recv(65536):
                    asked.extend(piece)
                    server.sendall(piece)

            threading.Thread(target=lambda: _quietly(up), daemon=True).start()
            passed = 0
            while piece := server.recv(65536):
                if self.lose(bytes(asked)) and (self.keep is None or passed + len(piece) > self.keep):
                    client.sendall(piece[: max(0, (self.keep or 0) - passed)])
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)  # closing alone waits for the thread that reads
                    server.shutdown(socket.SHUT_RDWR)
                    return
                passed += len(piece)
                client.sendall(piece)

    def close(self) -> None:
        self._listening.close()


def _quietly(run: Callable[[], None]) -> None:
    try:
        run()
    except OSError:
        pass


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    found = Proxy(url)
    yield found
    found.close()


def test_a_commit_whose_answer_is_lost_is_made_once(proxy: Proxy, folder: Path) -> None:
    lake = quire.connect(f"{proxy.url}/demo", timeout=15)
    tx = lake.transaction("lost")
    tx["t"].append([{"id": 2}])
    proxy.lose = lambda asked: b"/commit HTTP" in asked and proxy.lost < 2
    receipt = tx.commit()
    assert (proxy.lost, receipt.commit) == (2, "2.0")
    assert quire.open(folder / "lake")["t"].count() == 2


def test_rows_that_are_cut_off_are_an_error(proxy: Proxy, folder: Path) -> None:
    quire.open(folder / "lake").create_table("big", pa.table({"n": range(200_000)}))
    lake = quire.connect(f"{proxy.url}/demo", timeout=15)
    proxy.lose, proxy.keep = (lambda asked: b"/big/rows" in asked), 700_000
    with pytest.raises(ServerUnavailable):
        lake["big"].to_arrow()
    proxy.lose = lambda asked: False
    assert lake["big"].to_arrow().num_rows == 200_000


def test_a_transaction_of_a_server_that_was_started_again(folder: Path) -> None:
    lakes, port = {"demo": LakeConfig(str(folder / "lake"))}, _free_port()
    config = Config(lakes=lakes, port=port)
    with running(config, RequestLog(lambda line: None)) as server:
        lake = quire.connect(f"{server.url}/demo")
        tx = lake.transaction("halfway")
        tx["t"].append([{"id": 2}])
    with running(config, RequestLog(lambda line: None)):
        with pytest.raises(quire.Conflict, match="Nothing was committed") as caught:
            tx.commit()
        assert caught.value.retryable
        lake.transact(lambda tx: tx["t"].append([{"id": 3}]))
    assert sorted(row["id"] for row in quire.open(folder / "lake")["t"].to_pylist()) == [1, 3]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.mark.parametrize("url", ["ftp://x/y", "http://", "nowhere", "http://user:secret@host/x"])
def test_what_is_no_address_of_a_server(url: str) -> None:
    with pytest.raises(InvalidUri) as caught:
        quire.connect(url)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ServerUnavailable):
        quire.connect(f"http://127.0.0.1:{_free_port()}/demo", timeout=2)


def test_the_lake_of_an_address(url: str) -> None:
    for address in (url, f"{url}/", f"{url}/demo", f"{url}/v1/lakes/demo"):
        assert quire.connect(address).tables() == ["t"]
    with pytest.raises(LakeNotFound):
        quire.connect(f"{url}/other")


def test_what_is_not_done_through_a_server_says_so(url: str) -> None:
    lake = quire.connect(f"{url}/demo")
    for verb in ("adopt", "claim", "take_over", "register_database"):
        with pytest.raises(Unsupported, match="quire.open"):
            getattr(lake, verb)
    with pytest.raises(AttributeError):
        lake.nothing  # noqa: B018
    with pytest.raises(Unsupported, match="author"):
        lake.transaction(author="root")


def test_tokens_say_who_asks(folder: Path) -> None:
    keys = KeyFile(folder / "keys.json")
    reader, writer = keys.create("rea", ["read"])[1], keys.create("wri", ["write"])[1]
    config = Config(
        lakes={"demo": LakeConfig(str(folder / "lake"))}, port=0, auth=AuthConfig(keys=str(folder / "keys.json"))
    )
    with running(config, RequestLog(lambda line: None)) as server:
        with pytest.raises(Unauthenticated):
            quire.connect(f"{server.url}/demo")
        reading = quire.connect(f"{server.url}/demo", token=reader)
        assert reading["t"].count() == 1
        with pytest.raises(Denied):
            reading.transaction()
        lake = quire.connect(f"{server.url}/demo", token=writer)
        lake.create_table("u", [{"id": 1}])
        assert next(iter(lake.log())).author == "wri"
        assert writer not in repr(lake)


def test_many_threads_share_a_handle(url: str) -> None:
    lake = quire.connect(f"{url}/demo")
    threads = [
        threading.Thread(target=lake.transact, args=(lambda tx, n=n: tx["t"].append([{"id": n}]),)) for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lake["t"].count() == 13
