"""Sparks that run outside of the tests: a Connect server, and a standalone cluster. Both come with PySpark."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyspark

import quire
from quire.spark import ensure_java

HOME = Path(pyspark.__file__).parent


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until somebody listens."""
    for _ in range(1200):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None, log.read_text("utf-8", "replace")[-3000:]
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on {port}: " + log.read_text("utf-8", "replace")[-3000:])


class _Processes:
    """Processes with their children, which end with the block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        ensure_java()
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env={**os.environ, "SPARK_HOME": str(HOME), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Connect(_Processes):
    """A Spark Connect server with two cores. Its workers have every library, and Quire only by what a session sends.

    The process that runs a stream's function always has it: Spark starts that one without what a session has sent.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "events").mkdir()
        port = free_port()
        self.url = f"sc://127.0.0.1:{port}"
        settings = {
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (folder / "events").as_uri(),
            "spark.eventLog.compress": "false",
        }
        command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2,4]"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        process = self.start("connect", [*command, "spark-internal"], self._environment())
        wait_for(port, process, folder / "connect.log")

    def kept(self) -> bytes:
        """Everything that the server has said, and its event log."""
        files = [self.folder / "connect.log", *(self.folder / "events").rglob("*")]
        return b"".join(file.read_bytes() for file in files if file.is_file())

    def _environment(self) -> dict[str, str]:
        """A Python that knows what is installed, apart from packages that are installed as links to their sources."""
        python = self.folder / "python-without-quire"
        own = Path(quire.__file__).parents[1]
        python.write_text(
            f'#!/bin/sh\ncase "$*" in *foreach_batch_worker*) export PYTHONPATH="{own}:$PYTHONPATH";; esac\n'
            f'exec "{sys.executable}" -S "$@"\n',
            "utf-8",
        )
        python.chmod(0o755)
        known = [importlib.util.find_spec(name) for name in ("pyspark", "lance", "grpc")]
        places = {str(Path(found.origin).parents[1]) for found in known if found and found.origin}
        return {
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": str(python),
            "PYTHONPATH": ":".join(sorted(places)),
        }


class Cluster(_Processes):
    """A master and two workers of one core each. An executor runs in a folder that is named after its worker."""

    FIRST = "127.0.0.2"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        master = self._daemon("master.Master", "127.0.0.1", "--host", "127.0.0.1", "--port", str(port))
        wait_for(port, master, folder / "master.Master-127.0.0.1.log")
        self.workers = [self._worker(host) for host in (self.FIRST, "127.0.0.3")]

    def _worker(self, host: str) -> subprocess.Popen[bytes]:
        given = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / host), self.master]
        return self._daemon("worker.Worker", host, *given)

    def _daemon(self, what: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [
            str(HOME / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{what}",
            "--webui-port",
            "0",
            *arguments,
        ]
        return self.start(f"{what}-{host}", command, {"SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"})

    def kill_worker(self) -> None:
        """The first worker, its executor and their Python processes at once."""
        os.killpg(self.workers[0].pid, signal.SIGKILL)

    def executor(self) -> int | None:
        """The process of an executor of the first worker, once there is one."""
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (
                    os.getpgid(int(entry.name)) == self.workers[0].pid
                    and b"CoarseGrained" in (entry / "cmdline").read_bytes()
                ):
                    return int(entry.name)
        return None
