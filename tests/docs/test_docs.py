"""The documentation runs, and nothing public is missing from it.

Each Markdown file is one test: its `python` blocks and the `quire` lines of its `console` and `bash` blocks run in the
order they are written, in one namespace and one empty directory. A command that should fail says so at its end:

    $ quire show lake 999.0    # exits 3
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")})

RUN = {"python", "console", "bash"}
SHOWN = {"text", "json", "toml", "yaml", "sql", "html", "pg", "gq"}

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>[^`\n]*)$")
EXITS = re.compile(r"\s+# exits (?P<code>\d+)\s*$")
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    info: str
    line: int  # of the first line of code, counted from 1
    code: str


def blocks(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        at += 1
        if opening is None:
            continue
        start = at
        closing = re.compile(rf"^ *{re.escape(opening['ticks'])}[`~]*\s*$")
        while at < len(lines) and not closing.match(lines[at]):
            at += 1
        assert at < len(lines), f"the fence that opens on line {start} is never closed"
        yield Block(opening["info"].strip(), start + 1, textwrap.dedent("\n".join(lines[start:at])))
        at += 1


def commands(block: Block) -> Iterator[tuple[str, int]]:
    """The `quire` command lines of a block with the exit code each should give; the rest is output or set-up."""
    pending = ""
    for raw in block.code.splitlines():
        line = raw.removeprefix("> ") if pending else raw.removeprefix("$ ")
        if not pending and not re.match(r"quire(\s|$)", line):
            continue
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        exits = EXITS.search(pending)
        command = pending[: exits.start()] if exits else pending
        try:
            shlex.split(command, comments=True)
        except ValueError:  # a quotation that goes on in the next line
            pending += "\n"
            continue
        yield command, int(exits["code"]) if exits else 0
        pending = ""
    assert not pending, f"the command does not end: {pending}"


def run_python(block: Block, page: Path, module: types.ModuleType) -> None:
    source = "\n" * (block.line - 1) + block.code  # so that a traceback shows the line of the page
    exec(compile(source, str(page), "exec"), module.__dict__)


def run_command(command: str, expected: int, directory: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=directory,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == expected, (
        f"$ {command}\nexited with {done.returncode} instead of {expected}\n{done.stdout}{done.stderr}"
    )


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("quire_docs_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # so that classes defined on a page can be pickled
    monkeypatch.chdir(tmp_path)
    for variable in list(os.environ):
        monkeypatch.setenv(variable, os.environ[variable])  # put back what a page sets
    for block in blocks(page.read_text("utf-8")):
        if block.info == "python":
            run_python(block, page, module)
        elif block.info in RUN:
            for command, expected in commands(block):
                run_command(command, expected, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_escapes(page: Path) -> None:
    for block in blocks(page.read_text("utf-8")):
        assert block.info in RUN | SHOWN, (
            f"{name_of(page)}:{block.line - 1}: a fence says what it holds, with nothing added: "
            f"{', '.join(sorted(RUN))} run, {', '.join(sorted(SHOWN))} are shown; this one says {block.info!r}"
        )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = page.read_text("utf-8")
    for block in blocks(prose):
        prose = prose.replace(block.code, "")
    for link in LINK.finditer(prose):
        target = link["target"].split("#")[0]
        if target and not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}, which does not exist"


def test_every_command_is_documented() -> None:
    from quire.cli.reference import commands as cli_commands

    text = "\n".join(page.read_text("utf-8") for page in REFERENCE.rglob("*.md"))
    missing = [name for name, _ in cli_commands() if not re.search(rf"\b{re.escape(name)}\b", text)]
    assert not missing, f"not in docs/reference: {', '.join(missing)}"


def test_every_public_name_is_documented() -> None:
    import quire

    text = "\n".join(page.read_text("utf-8") for page in REFERENCE.rglob("*.md") if page.name != "cli.md")
    missing = [name for name in quire.__all__ if not re.search(rf"(?:\bquire\.|`){re.escape(name)}\b", text)]
    assert not missing, f"not in docs/reference: {', '.join(missing)}"


def test_the_command_reference_is_fresh() -> None:
    done = subprocess.run([sys.executable, "-m", "quire.cli.reference"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    page = REFERENCE / "cli.md"
    written = page.read_text("utf-8") if page.exists() else ""
    assert written == done.stdout, "docs/reference/cli.md is stale: run `make reference`"


def test_fences_and_commands_are_understood() -> None:
    page = textwrap.dedent(
        """\
        - in a list

          ```python
          x = 1
          ```

        ````text
        ```python no-run
        ````

        ```console
        $ pip install quire
        $ quire tables lake
        documents
        $ quire sql lake "select 1
        > from t" \\
            --json
        quire show lake 9.0   # exits 3
        ```
        """
    )
    python, text, console = blocks(page)
    assert (python.info, python.line, python.code) == ("python", 4, "x = 1")
    assert (text.info, text.code) == ("text", "```python no-run")
    assert list(commands(console)) == [
        ("quire tables lake", 0),
        ('quire sql lake "select 1\nfrom t"     --json', 0),
        ("quire show lake 9.0", 3),
    ]
