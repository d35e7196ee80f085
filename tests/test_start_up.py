"""What a new process loads before it can answer: modules are counted, not seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import quire

ENGINES = {"lance", "lancedb", "pyarrow", "numpy", "pandas", "polars", "duckdb", "obstore", "pyspark", "deltalake"}
TERMINAL = {"typer", "rich", "pydantic"}
REPORT = """
import json, runpy, sys
try:
    if sys.argv[1:]:
        runpy.run_module("quire", run_name="__main__")
    else:
        import quire
except SystemExit as end:
    assert not end.code, end.code
sys.stderr.write(json.dumps(list(sys.modules)))
"""


def loaded(*arguments: str) -> list[str]:
    """Every module of a new process that has run this command line, or imported Quire."""
    done = subprocess.run([sys.executable, "-c", REPORT, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    modules: list[str] = json.loads(done.stderr)
    return modules


def ours(modules: Iterable[str]) -> list[str]:
    return sorted(name for name in modules if name.partition(".")[0] == "quire")


def packages(modules: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_importing_quire_loads_next_to_nothing() -> None:
    modules = loaded()

    assert ours(modules) == ["quire"]
    assert not packages(modules) & (ENGINES | TERMINAL | {"msgspec"})
    assert len(modules) < 100


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_help_and_version_import_no_command(option: str) -> None:
    modules = loaded(option)

    assert ours(modules) == [
        "quire",
        "quire.cli",
        "quire.cli.command_table",
        "quire.cli.completion",
        "quire.cli.lazy_group",
        "quire.cli.program",
        "quire.errors",
    ]
    assert not packages(modules) & (ENGINES | {"rich", "pydantic", "msgspec"})
    assert len(modules) < 200


def test_a_log_loads_no_engine(tmp_path: Path) -> None:
    with quire.create(tmp_path / "lake", backfill=False) as lake:
        lake.create_table("t", [{"id": 1}])
    modules = loaded("log", str(tmp_path / "lake"))

    assert not packages(modules) & (ENGINES | {"rich"})
    assert not [
        name for name in ours(modules) if name.startswith(("quire.graph", "quire.formats.lance", "quire.spark"))
    ]
    assert len(ours(modules)) < 150
    assert len(modules) < 445
