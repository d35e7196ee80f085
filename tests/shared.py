"""What all workers of a run share: a folder, and in it one S3 server, started by the first worker that asks for it.

The folder has a pipe that the run holds open. The server reads from it and ends with it, however the run ends.

The folder lies in memory if there is room, and so do the temporary folders of the tests: every commit makes the disk
durable, for which nobody waits here. They go with the run; `--basetemp` puts the latter elsewhere and keeps them.

They share bytecode too. Where Python is told to write none, every process of a test would compile every library again,
which takes a second, and every worker every test.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quire.testing.s3 import SeaweedFS

VARIABLE = "QUIRE_TESTS_SHARED"
PREFIX = "quire-tests-"
MEMORY = Path("/dev/shm")
ROOM = 8 << 30
"""Bytes that a run may need: all folders of all tests lie there until it ends."""
_HELD = pytest.StashKey[int]()


def folder() -> Path:
    return Path(os.environ[VARIABLE])


def alive() -> Path:
    """The pipe that ends with the run."""
    return folder() / "alive"


@contextmanager
def alone(name: str) -> Iterator[None]:
    """One worker at a time."""
    with (folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def s3() -> SeaweedFS:
    """The server of this run."""
    with alone("s3"):
        known = folder() / "s3.port"
        if known.exists():
            return SeaweedFS.running(int(known.read_text()))
        server = SeaweedFS.started(alive())
        known.write_text(str(server.port))
        return server


def in_memory() -> Path | None:
    """Where a run has room in memory, and may run programs."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return None
    found = os.statvfs(MEMORY)
    free = min(found.f_bavail * found.f_frsize, available())
    return MEMORY if free >= ROOM and not found.f_flag & os.ST_NOEXEC else None


def available() -> int:
    """Bytes of memory that this machine, or the container, can still give."""
    kilobytes = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    limit = Path("/sys/fs/cgroup/memory.max")
    allowed = limit.read_text().strip() if limit.exists() else "max"
    free = int(kilobytes[1]) * 1024 if kilobytes else 0
    return free if allowed == "max" else min(free, int(allowed))


def forget_the_dead(place: Path) -> None:
    """Folders of runs that were killed."""
    for left in place.glob(f"{PREFIX}*"):
        if not Path(f"/proc/{left.name.split('-')[2]}").exists():
            shutil.rmtree(left, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before pytest chooses where temporary folders lie."""
    if hasattr(config, "workerinput"):
        return
    memory = in_memory()
    if memory is not None:
        forget_the_dead(memory)
    os.environ[VARIABLE] = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=memory)
    if memory is not None and config.option.basetemp is None:
        config.option.basetemp = str(folder() / "tmp")
    keep_bytecode(config)
    os.mkfifo(alive())
    config.stash[_HELD] = os.open(alive(), os.O_RDWR)


def keep_bytecode(config: pytest.Config) -> None:
    """Where Python was told to write no bytecode beside the sources, it lies beside pytest's cache."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(config.rootpath / ".pytest_cache" / "bytecode"))
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"]
        sys.dont_write_bytecode = False


def pytest_unconfigure(config: pytest.Config) -> None:
    if _HELD in config.stash:
        os.close(config.stash[_HELD])
        shutil.rmtree(folder(), ignore_errors=True)
        del os.environ[VARIABLE]
