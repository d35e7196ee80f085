"""Threads that use Quire for the first time at the same moment, in a process that has not used it before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.system import ledgers

OPEN_IN_THREADS = """
import sys, threading
import quire

sys.setswitchinterval(1e-6)  # threads change places as often as they can
ready = threading.Barrier(8)
found = []

def reader():
    ready.wait()
    found.append(quire.open(sys.argv[1], read_only=True).snapshot().commit)

threads = [threading.Thread(target=reader) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert found == ["1.0"] * 8, found
"""


@pytest.mark.slow
def test_many_threads_of_a_new_process_open_a_lake_at_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    ledgers.create(uri)

    codes = [
        subprocess.run([sys.executable, "-c", OPEN_IN_THREADS, uri], timeout=120, check=False).returncode
        for _ in range(12)
    ]

    assert codes == [0] * 12
