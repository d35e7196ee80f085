"""DuckDB 1.5 with its extensions for Delta and Unity Catalog, unmodified, in an environment of its own.

DuckDB 2 has none of these extensions yet, so the client is an older one and lies beside our own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ENVIRONMENT = Path(__file__).parents[1] / ".venv-duckdb"
PACKAGES = (
    "duckdb==1.5.5",
    "duckdb-extension-delta==1.5.5",
    "duckdb-extension-httpfs==1.5.5",
    "duckdb-extension-unity-catalog==1.5.5",
)
CLIENT = """
import importlib, json, pathlib, sys
import duckdb
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
asked = json.load(sys.stdin)
for name in asked["extensions"]:
    package = importlib.import_module(f"duckdb_extension_{name}")
    [extension] = pathlib.Path(package.__file__).parent.rglob("*.duckdb_extension")
    connection.execute(f"load '{extension}'")
answers = []
for statement in asked["statements"]:
    try:
        answers.append({"rows": connection.execute(statement).fetchall()})
    except duckdb.Error as error:
        answers.append({"error": str(error)})
print(json.dumps(answers, default=str))
"""


def interpreter() -> Path:
    """The interpreter of the client's environment, which is made when it is first needed."""
    found, ready = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "ready"
    if not ready.exists() or ready.read_text() != "\n".join(PACKAGES):
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], capture_output=True)
        if made.returncode == 0:
            pip = [str(found), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES]
            # Its DuckDB is another one than Quire's, so what `make` installs by does not bind it.
            env = {name: value for name, value in os.environ.items() if not name.endswith("_CONSTRAINT")}
            made = subprocess.run(pip, capture_output=True, env=env)
        if made.returncode != 0:
            pytest.skip(f"{', '.join(PACKAGES)} cannot be installed here: {made.stderr.decode()[-300:]}")
        ready.write_text("\n".join(PACKAGES))
    return found


def run(*statements: str, extensions: tuple[str, ...] = ("delta",)) -> list[dict[str, Any]]:
    """What each statement gives on one connection: its rows, or its error."""
    given = json.dumps({"extensions": extensions, "statements": statements})
    done = subprocess.run([str(interpreter()), "-c", CLIENT], input=given.encode(), capture_output=True, check=True)
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers
