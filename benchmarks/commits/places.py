"""Where the systems write: a directory on this machine's disk, or a bucket behind the counting proxy."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.commits.postgres import Postgres
    from benchmarks.commits.wire import Wire

OPTIONS = {
    "aws_access_key_id": "testkey",
    "aws_secret_access_key": "testsecret",
    "aws_region": "us-east-1",
    "allow_http": "true",
}


@dataclass(frozen=True)
class Place:
    """A folder that a system may fill: the address of its root and what its client needs to reach it."""

    root: str
    options: dict[str, str] = field(default_factory=dict)
    scratch: str = ""
    """A folder of this machine for what does not go there: a catalogue in SQLite."""
    postgres: str = ""
    """Where the socket of a PostgreSQL server is, if there is one."""

    @property
    def on_disk(self) -> bool:
        return not self.options

    def at(self, *parts: str) -> str:
        """The address of something below the root."""
        return "/".join((self.root, *parts))

    def below(self, *parts: str) -> Place:
        """A place of its own inside this one."""
        return replace(self, root=self.at(*parts))


@dataclass(frozen=True)
class Ground:
    """A place together with the wire that leads there; on disk there is none."""

    name: str
    place: Place
    wire: Wire | None = None
    meters: dict[str, Callable[[], float]] = field(default_factory=dict)
    """What takes CPU beside the clients: seconds so far, by name."""

    def set_latency(self, milliseconds: float) -> None:
        if self.wire is not None:
            self.wire.latency = milliseconds / 1000

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far: of proxy and servers, and of the whole machine."""
        return {name: meter() for name, meter in self.meters.items()} | {"machine": machine_cpu()}


@contextlib.contextmanager
def disk(directory: Path | None = None, postgres: Postgres | None = None) -> Iterator[Ground]:
    """A directory that is removed at the end."""
    made = tempfile.mkdtemp(prefix="quire-bench-", dir=directory)
    try:
        place = Place(made, scratch=made, postgres=postgres.folder if postgres else "")
        yield Ground("disk", place, meters=_meters(postgres))
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def bucket(postgres: Postgres | None = None) -> Iterator[Ground]:
    """A real server of its own (SeaweedFS), behind a proxy of its own."""
    from benchmarks.commits.wire import Wire

    from quire.testing.s3 import SeaweedFS

    with SeaweedFS() as s3, Wire(s3.endpoint) as wire, _scratch() as scratch:
        options = {**s3.options, "aws_endpoint": wire.endpoint}
        place = Place(s3.uri(), options, scratch, postgres.folder if postgres else "")
        yield Ground("seaweedfs", place, wire, {"proxy": wire.cpu, "server": s3.cpu_seconds, **_meters(postgres)})


@contextlib.contextmanager
def memory(postgres: Postgres | None = None) -> Iterator[Ground]:
    """The server in memory, which delays and counts by itself."""
    from benchmarks.commits.wire import Wire

    with Wire(None) as wire, _scratch() as scratch:
        options = {**OPTIONS, "aws_endpoint": wire.endpoint}
        place = Place("s3://lake", options, scratch, postgres.folder if postgres else "")
        yield Ground("memory", place, wire, {"server": wire.cpu, **_meters(postgres)})


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as folder:
        yield folder


def _meters(postgres: Postgres | None) -> dict[str, Callable[[], float]]:
    return {"database": postgres.cpu} if postgres else {}


def machine_cpu() -> float:
    """Seconds of CPU that this machine has spent on anything; 0 where that is not known."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _idle, _waiting, irq, softirq, *_ = map(int, file.readline().split()[1:])
    except OSError:
        return 0.0
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
