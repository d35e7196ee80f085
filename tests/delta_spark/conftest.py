"""Delta Spark in a process and an environment of its own: `make test-delta-spark` makes it and says where it is."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

WHERE = os.environ.get("QUIRE_DELTA_SPARK")
PROGRAM = Path(__file__).parent / "session.py"


class DeltaSpark:
    """A session of Spark. Each statement is answered by its rows, or by its error."""

    def __init__(self, folder: Path, uri: str, scratch: Path, *settings: str) -> None:
        classpath = os.pathsep.join((*map(str, (folder / "jars").glob("*.jar")), str(folder / "classes")))
        given = [str(folder / "env/bin/python"), str(PROGRAM), classpath, uri, *settings]
        self._process = subprocess.Popen(
            given, cwd=scratch, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self._answer()

    def tell(self, **step: Any) -> None:
        """A step whose answer is not waited for."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(step) + "\n")
        self._process.stdin.flush()

    def ask(self, **step: Any) -> dict[str, Any]:
        self.tell(**step)
        return self._answer()

    def sql(self, statement: str) -> list[list[Any]]:
        """The rows of a statement that must not fail."""
        answer = self.ask(sql=statement)
        assert "error" not in answer, f"{statement}: {answer['error']}"
        rows: list[list[Any]] = answer["rows"]
        return rows

    def fails(self, statement: str) -> str:
        """The error of a statement that must fail."""
        return str(self.ask(sql=statement)["error"])

    def kill(self) -> None:
        """End the session and its JVM at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                found: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                return found
        raise AssertionError("the session of Spark ended")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


Start = Callable[..., DeltaSpark]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a session on the catalog at an address, with further settings (NAME=VALUE)."""
    if WHERE is None:
        pytest.skip("make test-delta-spark makes the environment of Delta Spark")
    with contextlib.ExitStack() as stack:
        yield lambda uri, *settings: stack.enter_context(
            DeltaSpark(Path(WHERE).resolve(), uri, tmp_path_factory.mktemp("spark-session"), *settings)
        )
