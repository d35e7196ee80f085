"""The documentation runs, and nothing public is missing from it.

Each Markdown file is one test: its `python` blocks and the `quire` lines of its `console` and `bash` blocks run in the
order they are written, in one namespace and one empty directory. A command that should fail says so at its end:

    $ quire show lake 999.0    # exits 3

Examples in docstrings run too. Every public function and method is used in at least one block or docstring that runs,
and has its line in the reference.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import os
import pkgutil
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
from tests import programs

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
ERRORS = ROOT / "docs" / "guides" / "errors.md"
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")})

RUN = {"python", "console", "bash"}
SHOWN = {"text", "json", "toml", "yaml", "sql", "html", "pg", "gq"}

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>[^`\n]*)$")
PUBLIC_CLASSES = ("Lake", "Snapshot", "Table", "Transaction", "TransactionTable", "Rows", "Graph")

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
    done = programs.run(command, directory)
    assert done.returncode == expected, (
        f"$ {command}\nexited with {done.returncode} instead of {expected}\n{done.stdout}{done.stderr}"
    )


def source_of(thing: object) -> str | None:
    """The source of a module, by name, or of a class."""
    if isinstance(thing, str):
        spec = importlib.util.find_spec(thing)
        return Path(spec.origin).read_text("utf-8") if spec is not None and spec.origin is not None else None
    return inspect.getsource(thing) if isinstance(thing, type) else None


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def run_of(page: Path) -> str:
    """The name of the test that runs a page. All tests on Spark run on one worker, by their names."""
    uses_spark = "spark.session(" in page.read_text("utf-8") and "spark" not in page.name
    return f"{name_of(page)} on spark" if uses_spark else name_of(page)


def needs_server(page: Path) -> bool:
    return "SeaweedFS()" in page.read_text("utf-8")


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.s3] * needs_server(p), id=run_of(p)) for p in PAGES]
)
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


def modules() -> list[str]:
    """Every module of the package, by name."""
    import quire

    return sorted(m.name for m in pkgutil.walk_packages(quire.__path__, "quire.") if not m.name.endswith("__main__"))


def doctests(module: str) -> list[doctest.DocTest]:
    """The docstrings of a module that hold an example."""
    found = doctest.DocTestFinder().find(importlib.import_module(module))
    return [test for test in found if test.examples]


@pytest.mark.parametrize("module", [m for m in modules() if ">>>" in (source_of(m) or "")])
def test_examples_in_docstrings_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tests = doctests(module)
    assert tests, f"{module} has a >>> that is not in a docstring"
    for test in tests:
        told: list[str] = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
        assert not told, "".join(told)


def public_methods() -> Iterator[tuple[str, str, bool]]:
    """Class, name and whether it is called, of everything public on the classes that users hold."""
    import quire

    for name in PUBLIC_CLASSES:
        for member, value in vars(getattr(quire, name)).items():
            if not member.startswith("_"):
                yield name, member, callable(value) or isinstance(value, staticmethod)


def test_every_public_function_is_used_in_an_example_that_runs() -> None:
    import quire

    examples = [b.code for page in PAGES for b in blocks(page.read_text("utf-8")) if b.info == "python"]
    examples += [example.source for module in modules() for test in doctests(module) for example in test.examples]
    text = "\n".join(examples)
    missing = [f"quire.{name}" for name in quire.__all__ if not re.search(rf"\bquire\.{name}\b", text)]
    for owner, member, is_called in public_methods():
        if not re.search(rf"\.{member}\b" + (r"\(" if is_called else ""), text):
            missing.append(f"{owner}.{member}")
    assert not missing, f"no example that runs uses {', '.join(missing)}"


def test_every_public_method_is_in_the_reference() -> None:
    sections = reference_sections()
    missing = [f"{o}.{m}" for o, m, _ in public_methods() if not re.search(rf"`[a-z.]*\b{m}\b", sections.get(o, ""))]
    assert not missing, f"not in docs/reference/python.md, each in its class's section: {', '.join(missing)}"


def test_the_reference_names_nothing_that_does_not_exist() -> None:
    import quire

    stale = []
    for owner, section in reference_sections().items():
        for member in re.findall(r"^\| `(?:[a-z]+)?\.([a-z_]+)", section, re.MULTILINE):
            shown = getattr(quire, owner)
            fields = getattr(shown, "__dataclass_fields__", getattr(shown, "__struct_fields__", ()))
            if not hasattr(shown, member) and member not in fields and f"self.{member}" not in (source_of(shown) or ""):
                stale.append(f"{owner}.{member}")
    assert not stale, f"in docs/reference/python.md, but not in the code: {', '.join(stale)}"


def test_every_error_is_explained() -> None:
    from quire import errors

    rows = re.findall(r"^\| (?:· )?(`\w+`(?:, `\w+`)*) \| (`[^|]*) \| (\d) \|", ERRORS.read_text("utf-8"), re.MULTILINE)
    told = {name: (kinds, int(code)) for names, kinds, code in rows for name in re.findall(r"\w+", names)}
    tree = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.QuireError)]
    tree.remove(errors.QuireError)
    assert sorted(told) == sorted(c.__name__ for c in tree)
    for error in tree:
        kinds, code = told[error.__name__]
        assert code == error.exit_code, error.__name__
        assert f"`{error.kind}`" in kinds, error.__name__


def reference_sections() -> dict[str, str]:
    """The sections of the Python reference by the class they are about."""
    import quire

    parts = re.split(r"^## ", (REFERENCE / "python.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    by_title = {part.partition("\n")[0].strip(): part for part in parts}
    return {title: part for title, part in by_title.items() if isinstance(getattr(quire, title, None), type)}


@pytest.mark.slow
def test_the_demo_runs_and_shows_what_it_promises(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout, "plain text in a pipe"
    for promised in (
        "committed 1.0: documents, chunks, authors",
        "outside: 3 documents, and the head is still 2.0",
        "KeyConflict: Table 'documents': a row with doc_id=4 was inserted first, by commit 5.0 (bob)",
        "committed 7.0 at attempt 2",
        "On big rivers  Oslo",
        "6 rows: after backfill a table is an ordinary Lance dataset",
        "1 request by Quire",
    ):
        assert promised in done.stdout
    import quire

    assert quire.open(tmp_path / "demo-lake", read_only=True)["documents"].count() == 6


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
