"""Engines of DuckDB that live as long as this process; every use gets a connection of its own to one of them.

DuckDB takes 17 ms of CPU to start an engine, and less than one to connect to an engine that runs. Connections see
nothing of each other: what is registered with one belongs to it alone. Nobody can change a setting afterwards.

SQL that users write runs on an engine of its own (`lake.read.sql`): some functions of DuckDB tell of the engine.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Engine:
    """What an engine is started with: it reaches nothing but the rows that it is given."""

    settings: tuple[str, ...]
    """As in `SET GLOBAL …`."""
    threads: int | None = None
    """As many as there are cores if it is None."""

    def started(self, more: Mapping[str, str] | None = None) -> duckdb.DuckDBPyConnection:
        """An engine of its own, with more settings if they are given."""
        import duckdb

        config: dict[str, Any] = {"enable_external_access": "false", **laptop_limits(), **(more or {})}
        if self.threads is not None and "threads" not in config:
            config["threads"] = str(self.threads)
        engine = duckdb.connect(config=config)
        for setting in self.settings:
            engine.execute(f"set global {setting}").fetchall()
        engine.execute("set lock_configuration = true").fetchall()
        return engine


PLAIN = Engine(())


def laptop_limits() -> dict[str, str]:
    """What a query may take where nobody says anything else: half of the memory, and then half of the free disk.

    DuckDB would take 80 % of the memory, and write beside whatever the program works on.
    """
    folder = os.path.join(tempfile.gettempdir(), f"quire-sql-{os.getpid()}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    free = shutil.disk_usage(tempfile.gettempdir()).free // 2
    return {"memory_limit": f"{memory}B", "temp_directory": folder, "max_temp_directory_size": f"{free}B"}


_lock = threading.Lock()
_running: dict[tuple[int, Engine], duckdb.DuckDBPyConnection] = {}
"""By process too: an engine does not survive a fork."""


def connect(engine: Engine) -> duckdb.DuckDBPyConnection:
    """A connection of one's own, to be closed."""
    key = os.getpid(), engine
    with _lock:
        if key not in _running:
            if not _running:
                atexit.register(_close)
            _running[key] = engine.started()
        return _running[key].cursor()


@contextmanager
def connected(engine: Engine) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = connect(engine)
    try:
        yield connection
    finally:
        connection.close()


def _close() -> None:
    """Let go of the engines while DuckDB is still there."""
    for process, engine in list(_running):
        running = _running.pop((process, engine))
        if process == os.getpid():  # those of a process that forked this one are not ours
            running.close()
