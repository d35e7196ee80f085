"""Quire as it was at an older revision of this repository: its source, taken out of git into a folder of its own.

It is driven by the same code as today's, through its public interface, and runs with the same libraries.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commits.fork_server import ROOT, Environment
from benchmarks.commits.systems import QUIRE


class NoSuchRevision(Exception):
    """Git does not know it, or this is no git repository."""


@dataclass(frozen=True)
class Older:
    revision: str
    """In full."""
    date: str
    environment: Environment


@contextlib.contextmanager
def exported(revision: str) -> Iterator[Older]:
    """The source of a revision, for as long as the block lasts."""
    said = _git("show", "-s", "--format=%H %cs", "--end-of-options", f"{revision}^{{commit}}").decode().split()
    with tempfile.TemporaryDirectory(prefix="quire-older-") as folder:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", said[0], "src"))) as files:
            files.extractall(folder, filter="data")
        yield Older(said[0], said[1], Environment("older", QUIRE.preload, (str(Path(folder) / "src"),)))


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout
    except subprocess.CalledProcessError as error:
        raise NoSuchRevision(error.stderr.decode(errors="replace").strip()) from None
    except FileNotFoundError:
        raise NoSuchRevision("git is not installed") from None
