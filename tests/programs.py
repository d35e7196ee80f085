"""`quire` in processes of its own that start in a fraction of a second: see `quire.testing.processes`."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from quire.testing.processes import context

QUOTED = r"'[^']*'|\"[^\"$`\\]*\""
HERE_STRING = re.compile(rf"<<<\s*(?P<text>{QUOTED})")
SHELL = re.compile(r"[$`|<>;&*?~\\\"'\n]")


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line of a shell that is a `quire` command: forked, unless it takes a shell to understand it."""
    found = HERE_STRING.search(line)
    rest = HERE_STRING.sub("", line)
    if SHELL.search(re.sub(QUOTED, "", rest)):
        return shell(line, folder)
    [_, *words] = shlex.split(rest, comments=True)
    return quire(words, folder, f"{shlex.split(found['text'])[0]}\n" if found else "")


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def quire(words: Sequence[str], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """The command with these words, in a folder; `given` is its standard input."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "0").write_text(given, "utf-8")
        environment = {**os.environ, "NO_COLOR": "1"}
        process = context().Process(target=_main, args=(list(words), str(folder), environment, scratch))
        process.start()
        process.join(120)
        if process.is_alive():
            process.kill()
            process.join()
        assert process.exitcode is not None
        out, err = ((Path(scratch) / name).read_text("utf-8") for name in "12")
        return subprocess.CompletedProcess(["quire", *words], process.exitcode, out, err)


def _main(words: list[str], folder: str, environment: dict[str, str], streams: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, mode in enumerate(("r", "w", "w")):
        with open(f"{streams}/{number}", f"{mode}b") as file:
            os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate(("r", "w", "w"))
    )
    sys.argv = ["quire", *words]
    from quire_command import main

    try:
        main()
    finally:
        atexit._run_exitfuncs()  # a process that was forked leaves them out
