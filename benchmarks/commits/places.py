"""Where the systems write: a directory on this machine's disk, or a bucket behind the counting proxy."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.commits.wire import Wire

from quire.testing.s3 import Ministack, SeaweedFS


@dataclass(frozen=True)
class Place:
    """A folder that a system may fill: the address of its root and what its client needs to reach it."""

    root: str
    options: dict[str, str] = field(default_factory=dict)

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

    def set_latency(self, milliseconds: float) -> None:
        if self.wire is not None:
            self.wire.latency = milliseconds / 1000


@contextlib.contextmanager
def disk(directory: Path | None = None) -> Iterator[Ground]:
    """A directory that is removed at the end."""
    made = tempfile.mkdtemp(prefix="quire-bench-", dir=directory)
    try:
        yield Ground("disk", Place(made))
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def bucket(server: type[SeaweedFS] | type[Ministack]) -> Iterator[Ground]:
    """A server of its own, behind a proxy of its own."""
    with server() as s3, Wire(s3.endpoint) as wire:
        options = {**s3.options, "aws_endpoint": wire.endpoint}
        yield Ground(server.__name__.lower(), Place(s3.uri(), options), wire)
